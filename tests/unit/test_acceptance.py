"""What becomes of items: whole or in part, and whether they are still there a while later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.completion import (
    CompletionRequest,
    CompletionStats,
    Origin,
    Selected,
    Snapshot,
    TextEdit,
)
from lsp_server.documents import Change, DocumentStore, Encoding
from lsp_server.statistics import keeping
from lsp_server.statistics.acceptance import Acceptance, characters_in
from lsp_server.statistics.keeping import MAX_WATCHED, REACH, occurrences

URI = "file:///a.py"


class Heard:
    """An Acceptance over one document, and what its listeners heard."""

    def __init__(self, text: str = "x = ", encoding: Encoding = Encoding.UTF16) -> None:
        self.documents = DocumentStore(encoding)
        self.documents.open(URI, "python", 1, text)
        self.seen: list[str] = []
        self.accepted: list[tuple[str, int]] = []
        """Names of items, and how much of each had been taken or typed before."""
        self.parts: list[tuple[str, int, int]] = []
        """The same, and how much is taken now."""
        self.kept: list[tuple[str, bool]] = []
        self.acceptance = Acceptance(
            self.documents,
            seen=lambda shown: self.seen.append(shown.item_id),
            accepted=lambda shown: self.accepted.append((shown.item_id, shown.num_done)),
            partially_accepted=lambda shown, num: self.parts.append(
                (shown.item_id, shown.num_done, num)
            ),
            kept=lambda shown, is_kept: self.kept.append((shown.item_id, is_kept)),
        )

    @property
    def text(self) -> str:
        document = self.documents.get(URI)
        assert document is not None
        return document.text

    def show(
        self,
        *texts: str,
        at: str = "",
        item_id: str = "1",
        replacing: str = "",
        origin: Origin = Origin.ENGINE,
        chosen: str | None = None,
    ) -> None:
        """An answer with these items before `at`, the end of the document where that is nothing;
        the second is called 1b. `replacing` stands behind the cursor, or is what `chosen` is to
        take the place of."""
        cursor = self.text.index(at) if at else len(self.text)
        snapshot = Snapshot(URI, 1, "python", self.text)
        start, end = cursor, cursor + len(replacing)
        selected = None
        if chosen is not None:
            start, end = cursor - len(replacing), cursor
            selected = Selected(start, end, chosen)
        names = (item_id, *(f"{item_id}{letter}" for letter in "bcd"))
        items = [
            (name, TextEdit(text, start, end)) for name, text in zip(names, texts, strict=False)
        ]
        request = CompletionRequest(snapshot, cursor, selected=selected)
        self.acceptance.sent(request, CompletionStats(origin=origin), items)

    def write(self, text: str, num_changes: int = 1) -> None:
        """The document is this now."""
        self.documents.change(URI, None, [Change(None, text)])
        self.acceptance.changed(URI, num_changes)

    def type(self, text: str) -> None:
        for character in text:
            self.write(self.text + character)

    def part(self, item_id: str, length: int, encoding: Encoding | None = None) -> None:
        self.acceptance.accept_part(item_id, length, encoding or self.documents.encoding)


@pytest.fixture
def at_once(monkeypatch):
    """Half a minute passes in no time."""
    monkeypatch.setattr(keeping, "KEEP_SECONDS", 0.0)


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
    run(heard, *[lambda n=n: heard.part("1", n) for n in (0, 3, 3, 2, 7, 13, 14)])
    assert heard.parts == [("1", 0, 3), ("1", 3, 7)]
    assert heard.accepted == [("1", 7)]


def test_what_is_inserted_at_once_is_accepted_without_a_word_of_the_client(at_once):
    heard = Heard("def f():\r\n    \r\ng()")
    heard.show("return 1\n\n\ndef h():", at="\r\ng()")
    whole = "def f():\r\n    return 1\r\n\r\n\r\ndef h():\r\ng()"
    run(heard, lambda: heard.write(whole))
    assert heard.accepted == [("1", 0)]
    assert heard.kept == [("1", True)]


@pytest.mark.parametrize("is_told_first", [True, False])
def test_a_command_and_its_edit_are_one_acceptance(at_once, is_told_first):
    heard = Heard()
    heard.show("print(x)")
    steps = [lambda: heard.acceptance.accept("1"), lambda: heard.write("x = print(x)")]
    run(heard, *(steps if is_told_first else reversed(steps)))
    assert heard.accepted == [("1", 0)]
    assert heard.parts == []


@pytest.mark.parametrize("is_told_first", [True, False])
def test_a_part_that_is_told_and_its_edit_are_one_part(at_once, is_told_first):
    heard = Heard()
    heard.show("print(x)")
    steps = [lambda: heard.part("1", 5), lambda: heard.write("x = print")]
    run(heard, *(steps if is_told_first else reversed(steps)))
    assert heard.parts == [("1", 0, 5)]
    assert heard.accepted == []


def test_typing_along_is_no_acceptance_and_leaves_less_to_accept(at_once):
    heard = Heard()
    heard.show("print(x)")
    run(heard, lambda: heard.type("print(x)"))
    assert (heard.parts, heard.accepted) == ([], [])
    heard = Heard()
    heard.show("print(x)")
    run(heard, lambda: heard.type("pr"), lambda: heard.write("x = print(x)"))
    assert heard.accepted == [("1", 2)]


@pytest.mark.parametrize("name", ["1", "2"])
def test_the_rest_of_an_item_is_the_item_by_another_name(at_once, name):
    """A client may keep the item that it has, or take the rest that it got for the next key."""
    heard = Heard()
    heard.show("print(x)")
    run(
        heard,
        lambda: heard.type("p"),
        lambda: heard.show("rint(x)", item_id="2", origin=Origin.TYPED_THROUGH),
        lambda: heard.write("x = print"),
        lambda: heard.part(name, 5 if name == "1" else 4),
        lambda: heard.acceptance.accept(name),
        lambda: heard.write("x = print(x)"),
    )
    assert heard.seen == ["1"]
    assert heard.parts == [("1", 1, 5)]
    assert heard.accepted == [("1", 5)]


def test_what_looked_typed_is_taken_where_the_client_says_so(at_once):
    heard = Heard()
    heard.show("f(x)")
    run(heard, lambda: heard.type("f("), lambda: heard.part("1", 2), lambda: heard.type("x"))
    assert heard.parts == [("1", 1, 2)]
    heard = Heard()
    heard.show("1")
    run(heard, lambda: heard.type("1"), lambda: heard.acceptance.accept("1"))
    assert heard.accepted == [("1", 0)]


def test_of_items_that_begin_alike_one_is_taken(at_once):
    heard = Heard()
    heard.show("print(one)", "print(two)", "print(one) or z")
    run(heard, lambda: heard.write("x = print"), lambda: heard.write("x = print(two)"))
    assert heard.parts == [("1", 0, 5)]
    assert heard.accepted == [("1b", 5)]
    heard = Heard()
    heard.show("print(one) or z", "print(one)")
    run(heard, lambda: heard.write("x = print(one)"))
    assert (heard.parts, heard.accepted) == ([], [("1b", 0)])


def test_undone_and_done_again_counts_once(at_once):
    heard = Heard()
    heard.show("print(one)")
    part, whole = "x = print", "x = print(one)"
    run(
        heard, *[lambda text=t: heard.write(text) for t in (part, "x = ", part, whole, part, whole)]
    )
    assert heard.parts == [("1", 0, 5)]
    assert heard.accepted == [("1", 5)]


def test_text_that_the_item_replaces_need_not_be_replaced_yet(at_once):
    heard = Heard("f()\n")
    heard.show("one, two)", at=")", replacing=")")
    run(heard, lambda: heard.write("f(one,)\n"), lambda: heard.write("f(one, two)\n"))
    assert heard.parts == [("1", 0, 4)]
    assert heard.accepted == [("1", 4)]


def test_an_entry_of_the_editors_own_list_is_no_part_of_an_item(at_once):
    heard = Heard("x = pri")
    heard.show("println(one)", replacing="pri", chosen="println")
    run(heard, lambda: heard.write("x = println"), lambda: heard.write("x = println(one)"))
    assert heard.parts == []
    assert heard.accepted == [("1", len("println"))]


def test_edits_elsewhere_and_several_at_once_take_nothing(at_once):
    heard = Heard()
    heard.show("print(x)")
    run(
        heard,
        lambda: heard.write("y = print(x)"),
        lambda: heard.write("x = write(x)"),
        lambda: heard.write("x = print", 2),
        lambda: heard.write("x = print(x)", 9),
    )
    assert (heard.parts, heard.accepted) == ([], [])


def test_what_is_off_the_screen_is_not_taken_by_an_edit(at_once):
    heard = Heard()
    heard.show("print(x)")
    run(heard, lambda: heard.acceptance.cleared(URI), lambda: heard.write("x = print(x)"))
    assert heard.accepted == []
    heard = Heard()
    heard.show("print(x)")
    heard.show("another()", item_id="2")
    run(heard, lambda: heard.write("x = print(x)"))
    assert heard.accepted == []


def test_items_are_shown_when_sent_until_the_client_says_which_it_shows():
    heard = Heard()
    heard.show("one", "two")
    heard.show("three", item_id="2")
    assert heard.seen == ["1", "2"]
    for name in ("2", "1b", "1b", "unknown"):
        heard.acceptance.seen(name)
    heard.show("four", item_id="3")
    assert heard.seen == ["1", "2", "1b"]
    heard.acceptance.seen("3")
    assert heard.seen == ["1", "2", "1b", "3"]


def test_an_item_that_is_typed_along_is_shown_once():
    heard = Heard()
    heard.show("one two")
    heard.type("o")
    heard.show("ne two", item_id="2", origin=Origin.TYPED_THROUGH)
    heard.write("x = on()")  # the editor has closed a bracket, of which nobody told
    heard.show("e two", item_id="3", origin=Origin.TYPED_THROUGH)
    assert heard.seen == ["1"]
    heard.acceptance.cleared(URI)
    heard.show(" two", item_id="4", origin=Origin.TYPED_THROUGH)
    assert heard.seen == ["1", "4"]


def test_the_same_item_at_the_same_place_is_shown_once():
    heard = Heard("x = \ny = ")
    for name in ("1", "2"):
        heard.show("one two", item_id=name, origin=Origin.CACHE)
    assert heard.seen == ["1"]
    heard.show("one two", at="\ny", item_id="3")
    assert heard.seen == ["1", "3"]


def test_what_is_taken_was_shown(at_once):
    heard = Heard()
    heard.acceptance.seen("none")
    heard.show("one two")
    run(heard, lambda: heard.acceptance.accept("1"))
    assert heard.seen == ["1"]


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
        lambda: heard.part("1", 3),
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
            heard.show("y", item_id=str(number))
            heard.acceptance.accept(str(number))
        await asyncio.sleep(0.01)  # timers of no delay run
        assert len(heard.acceptance._keeping._watched) == MAX_WATCHED

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
