"""What becomes of items: whole or in part, and whether they are still there a while later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.completion import CompletionStats
from lsp_server.documents import Change, DocumentStore, Encoding
from lsp_server.statistics import acceptance
from lsp_server.statistics.acceptance import (
    MAX_WATCHED,
    REACH,
    Acceptance,
    Shown,
    characters_in,
    occurrences,
)

URI = "file:///a.py"


class Heard:
    """An Acceptance over one document, and what its listeners heard."""

    def __init__(self, text: str = "x = ", encoding: Encoding = Encoding.UTF16) -> None:
        self.documents = DocumentStore(encoding)
        self.documents.open(URI, "python", 1, text)
        self.accepted: list[tuple[str, int]] = []
        self.parts: list[tuple[str, int, int]] = []
        self.kept: list[tuple[str, bool]] = []
        self.acceptance = Acceptance(
            self.documents,
            accepted=lambda shown: self.accepted.append((shown.item_id, shown.num_taken)),
            partially_accepted=lambda shown, num: self.parts.append(
                (shown.item_id, shown.num_taken, num)
            ),
            kept=lambda shown, is_kept: self.kept.append((shown.item_id, is_kept)),
        )

    def show(self, text: str, item_id: str = "1", head: str = "x = ") -> None:
        shown = Shown(item_id, URI, text, CompletionStats(), head, len(head))
        self.acceptance.remember(shown)

    def write(self, text: str) -> None:
        self.documents.change(URI, None, [Change(None, text)])


@pytest.fixture
def at_once(monkeypatch):
    """Half a minute passes in no time."""
    monkeypatch.setattr(acceptance, "KEEP_SECONDS", 0.0)


def run(heard: Heard, *steps: Callable[[], object]) -> None:
    """Each step on the event loop; then all that was to come comes."""

    async def main() -> None:
        for step in steps:
            step()
        await asyncio.sleep(0.01)  # timers of no delay run

    asyncio.run(main())


def test_an_item_is_accepted_once_and_old_ones_are_no_error(at_once):
    heard = Heard()
    heard.show("y")
    accept = heard.acceptance.accept
    run(heard, lambda: accept("1"), lambda: accept("1"), lambda: accept("unknown"))
    assert heard.accepted == [("1", 0)]


def test_parts_are_told_as_they_grow_and_the_whole_is_an_acceptance(at_once):
    heard = Heard()
    heard.show("one two three")
    part = heard.acceptance.accept_part
    run(heard, *[lambda n=n: part("1", n) for n in (0, 3, 3, 2, 7, 13, 14)])
    assert heard.parts == [("1", 0, 3), ("1", 3, 7)]
    assert heard.accepted == [("1", 7)]


@pytest.mark.parametrize(
    ("after", "is_kept"),
    [
        ("x = add(a, b)\n", True),
        ("import y\n\nx = add(a, b) + 1\n", True),
        ("if z:\r\n\tx = add(a,\r\n\t\tb)\r\n", True),
        ("x = \n", False),
        ("x = add(a, c)\n", False),
        ("add(a, b)\n", False),
        ("", False),
    ],
    ids=["untouched", "moved", "indented anew", "undone", "changed", "head gone", "all gone"],
)
def test_accepted_text_is_kept_where_it_still_stands(at_once, after, is_kept):
    heard = Heard()
    heard.show("add(a, b)")
    run(
        heard,
        lambda: heard.write("x = add(a, b)"),
        lambda: heard.acceptance.accept("1"),
        lambda: heard.write(after),
    )
    assert heard.kept == [("1", is_kept)]


def test_another_place_with_the_same_text_does_not_stand_in_for_it(at_once):
    heard = Heard("x = 1\nx = ")
    heard.show("1")
    run(
        heard,
        lambda: heard.write("x = 1\nx = 1"),
        lambda: heard.acceptance.accept("1"),
        lambda: heard.write("x = 1\n"),
    )
    assert heard.kept == [("1", False)]


def test_a_client_may_tell_of_the_acceptance_before_the_edit(at_once):
    heard = Heard("x = ")
    heard.show("1")
    run(heard, lambda: heard.acceptance.accept("1"), lambda: heard.write("x = 1"))
    assert heard.kept == [("1", True)]


def test_of_a_part_only_what_was_taken_is_looked_for(at_once):
    heard = Heard("x = ")
    heard.show("one two")
    run(
        heard,
        lambda: heard.write("x = one"),
        lambda: heard.acceptance.accept_part("1", 3),
        lambda: heard.write("x = one_and_a_half"),
    )
    assert heard.kept == [("1", True)]


def test_of_closed_documents_nothing_is_known(at_once):
    heard = Heard()
    heard.show("y")
    run(
        heard,
        lambda: heard.acceptance.accept("1"),
        lambda: heard.documents.close(URI),
    )
    assert heard.kept == []


def test_it_is_looked_for_after_a_while_only_and_in_bounded_number():
    heard = Heard()

    async def main() -> None:
        for number in range(MAX_WATCHED + 9):
            heard.show("y", str(number))
            heard.acceptance.accept(str(number))
        await asyncio.sleep(0.01)  # timers of no delay run
        assert len(heard.acceptance._watched) == MAX_WATCHED

    asyncio.run(main())
    assert heard.kept == []


def test_only_the_neighbourhood_is_searched():
    far = "y\n" * REACH + "x = 1\n"
    assert occurrences(far, "x = 1", near=0) == 0
    assert occurrences(far, "x = 1", near=len(far)) == 1
    assert occurrences("anything", " \n", near=0) == 1


@given(st.text(), st.integers(0, 30), st.sampled_from(Encoding))
def test_units_of_any_encoding_become_whole_characters(text, length, encoding):
    text = text.encode("utf-8", "ignore").decode("utf-8")
    codec = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}[encoding.value]
    size = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[encoding.value]
    found = characters_in(text, length, encoding)
    assert len(text[:found].encode(codec)) <= length * size
    if found < len(text):
        assert len(text[: found + 1].encode(codec)) > length * size
