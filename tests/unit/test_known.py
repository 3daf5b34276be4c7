"""What is known of a document stays true of it, and is forgotten in time."""

from __future__ import annotations

from dataclasses import fields, replace
from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.answering.known import Known, Record
from lsp_server.answering.spot import Spot
from lsp_server.completion import (
    IN_THE_TEXT,
    CompletionRequest,
    CompletionResult,
    CompletionStats,
    Origin,
    Reason,
    Selected,
    Snapshot,
    TextEdit,
)
from tests.marks import CURSOR, request_at, unmark

PASSING = {
    *(Reason.CANCELLED, Reason.SUPERSEDED, Reason.STALE, Reason.DEADLINE, Reason.ENGINE_ERROR),
    *(Reason.MODEL_LOADING, Reason.MODEL_MISSING, Reason.PAUSED),
}
"""They tell of the moment."""
BEFORE_THE_ENGINE = {
    *(Reason.EXCLUDED, Reason.SECRET, Reason.TOO_LARGE, Reason.BINARY, Reason.NOT_OPEN),
    Reason.SELECTED_MISMATCH,
}
"""Found anew at every request."""


def result(request: CompletionRequest, text: str, left: int = 0, right: int = 0, *more: str):
    at = request.offset
    return CompletionResult(
        unmark(text),
        at - left,
        at + right,
        None,
        CompletionStats(tokens=9, passes=4, confidence=0.5),
        alternatives=tuple(TextEdit(unmark(other), at - left, at + right) for other in more),
    )


def learn(known: Known, request: CompletionRequest, text: str, *more) -> None:
    record = Record.of(Spot(request), result(request, text, *more))
    assert record is not None
    known.add(record)


def known_at(marked: str, text: str, *more, line_end: str = "\n", **options) -> Known:
    known = Known()
    learn(known, request_at(marked, line_end, **options), text, *more)
    return known


def find(known: Known, marked: str, line_end: str = "\n", **options) -> CompletionResult | None:
    return found_in(known, request_at(marked, line_end, **options))


def found_in(known: Known, request: CompletionRequest) -> CompletionResult | None:
    found = known.find(Spot(request))
    return None if found is None else found.result


def test_the_same_place_has_the_same_answer_from_the_cache():
    known = known_at("a =·║⏎b", "1")
    found = find(known, "a =·║⏎b")
    assert found is not None
    assert (found.text, found.start, found.end) == ("1", 4, 4)
    assert (found.stats.origin, found.stats.num_typed) == (Origin.CACHE, 0)
    assert (found.stats.tokens, found.stats.passes) == (0, 0), "nothing was computed for it"
    assert found.stats.confidence == 0.5, "that of the text"


def test_what_was_typed_is_taken_from_it():
    known = known_at("a =·║⏎b", "total(x)")
    found = find(known, "a =·tot║⏎b")
    assert found is not None
    assert (found.text, found.start, found.end) == ("al(x)", 7, 7)
    assert (found.stats.origin, found.stats.num_typed) == (Origin.TYPED_THROUGH, 3)


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_it_goes_on_behind_a_new_line_in_the_documents_own_line_ends(line_end):
    known = known_at("def f():║", "⏎····a = 1⏎····b = 2", line_end=line_end)
    found = find(known, "def f():⏎····a = 1⏎····║", line_end)
    assert found is not None
    assert found.text == "b = 2"


@pytest.mark.parametrize(
    "elsewhere",
    [
        "x⏎a =·║⏎b",
        "a =·║⏎c",
        "a =·║⏎b⏎",
        "a =·║⏎",
        "A =·║⏎b",
        "a = ·║⏎b",
        "a =║·⏎b",
        "a =·u║⏎b",
        "a =·║·⏎b",
        "║",
    ],
)
def test_no_other_text_around_it_has_the_answer(elsewhere):
    assert find(known_at("a =·║⏎b", "total"), elsewhere) is None


WAYS_OF_ASKING = {
    *("snapshot", "offset", "selected", "is_foreseen", "invoked", "num_items", "deadline_ms")
}
OPTIONS = [field.name for field in fields(CompletionRequest) if field.name not in WAYS_OF_ASKING]


def another(value: object) -> object:
    """A value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, Enum):
        return next(member for member in type(value) if member is not value)
    if isinstance(value, tuple):
        return (*value, 1)
    return 1 if value is None else value + 1


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_is_part_of_the_question(option):
    other = {option: another(getattr(request_at("║"), option))}
    known = known_at("a =·║", "1", **other)
    assert find(known, "a =·║", **other) is not None
    assert find(known, "a =·║") is None


@pytest.mark.parametrize(
    "change", [{"uri": "file:///other"}, {"language_id": "python"}, {"above": ("import a",)}]
)
def test_documents_languages_and_cells_above_do_not_answer_for_each_other(change):
    known, request = known_at("a =·║", "1"), request_at("a =·║")
    other = replace(request, snapshot=replace(request.snapshot, **change))
    assert found_in(known, other) is None
    again = replace(request, snapshot=replace(request.snapshot, version=7))
    assert found_in(known, again) is not None, "only the text counts"


def test_what_was_asked_by_key_answers_while_typing_and_not_the_reverse():
    by_key = known_at("a =·║", "total", invoked=True, num_items=3, deadline_ms=5000)
    assert find(by_key, "a =·t║") is not None
    assert find(by_key, "a =·║", invoked=True, num_items=3) is not None
    assert find(by_key, "a =·║", invoked=True, num_items=5) is None, "the setting has changed"
    while_typing = known_at("a =·║", "total")
    assert find(while_typing, "a =·║", invoked=True, num_items=3) is None


def test_of_several_items_those_remain_that_agree_with_what_was_typed():
    known = known_at("a =·║", "one", 0, 0, "two", "three", "t", invoked=True)
    found = find(known, "a =·t║")
    assert found is not None
    assert found.text == "wo"
    assert found.alternatives == (TextEdit("hree", 5, 5),)


@pytest.mark.parametrize("reason", sorted(IN_THE_TEXT))
def test_that_there_is_nothing_is_known_too_but_only_of_that_place(reason):
    known, request = Known(), request_at("a =·║⏎b")
    silence = CompletionResult("", 4, 4, reason, CompletionStats(), message="why")
    known.add(Record.of(Spot(request), silence))
    found = find(known, "a =·║⏎b")
    assert found is not None
    assert (found.reason, found.message, found.stats.origin) == (reason, "why", Origin.CACHE)
    assert find(known, "a =·1║⏎b") is None


def test_every_reason_is_one_of_the_text_or_is_not_kept():
    assert set(Reason) == IN_THE_TEXT | PASSING | BEFORE_THE_ENGINE
    assert not IN_THE_TEXT & (PASSING | BEFORE_THE_ENGINE)
    request = request_at("a =·║")
    for reason in PASSING | BEFORE_THE_ENGINE:
        silence = CompletionResult("", 4, 4, reason, CompletionStats())
        assert Record.of(Spot(request), silence) is None


def test_the_latest_shown_answer_goes_on_where_several_would():
    known = known_at("a =·║", "total")
    learn(known, request_at("a =·t║"), "error")
    assert find(known, "a =·t║").text == "error"
    assert find(known, "a =·║").text == "total"
    assert find(known, "a =·t║").text == "otal", "what is on the screen does not change"


def test_a_newer_answer_for_a_place_replaces_the_older():
    known = known_at("a =·║", "old")
    learn(known, request_at("a =·║"), "new")
    assert len(known) == 1
    assert find(known, "a =·║").text == "new"


# The entry of the suggest widget.


def selecting(marked: str, start: int, end: int, entry: str) -> CompletionRequest:
    return replace(request_at(marked), selected=Selected(start, end, entry))


def test_what_follows_an_entry_is_known_once_it_is_accepted_and_the_reverse():
    entry = selecting("x.he║⏎", 2, 4, "heading")
    known = Known()
    whole = CompletionResult("heading(1)", 2, 4, None, CompletionStats())
    known.add(Record.of(Spot(entry), whole))
    assert found_in(known, entry).text == "heading(1)"
    accepted = find(known, "x.heading║⏎")
    assert (accepted.text, accepted.start, accepted.end) == ("(1)", 9, 9)
    known = known_at("x.heading║⏎", "(1)")
    found = found_in(known, entry)
    assert (found.text, found.start, found.end) == ("heading(1)", 2, 4)


def test_another_entry_has_another_answer():
    known = Known()
    whole = CompletionResult("heading(1)", 2, 4, None, CompletionStats())
    known.add(Record.of(Spot(selecting("x.he║⏎", 2, 4, "heading")), whole))
    assert found_in(known, selecting("x.he║⏎", 2, 4, "height")) is None
    longer = found_in(known, selecting("x.hea║⏎", 2, 5, "heading"))
    assert (longer.text, longer.start, longer.end) == ("heading(1)", 2, 5)


@pytest.mark.parametrize("marked", ["║x.he⏎", "x.he⏎║"])
def test_an_entry_that_is_not_at_the_cursor_has_no_answer(marked):
    known = known_at("x.heading║⏎", "(1)")
    assert found_in(known, selecting(marked, 2, 4, "heading")) is None


# Bounds.


def test_the_least_recently_used_answers_are_dropped():
    known = Known(max_records=3)
    for letter in "abc":
        learn(known, request_at(f"{letter} =·║"), "1")
    assert find(known, "a =·║") is not None
    learn(known, request_at("d =·║"), "1")
    left = [letter for letter in "abcd" if find(known, f"{letter} =·║") is not None]
    assert left == ["a", "c", "d"]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3000)), max_size=30))
def test_memory_never_exceeds_its_cap_and_is_given_back(answers):
    known = Known(max_bytes=10_000)
    for place, size in answers:
        learn(known, request_at(f"{place} =·║"), "x" * size)
        assert known.num_bytes <= 10_000
        assert known.num_bytes == sum(record.num_bytes for record in known._records.values())
    known.forget("file:///case")
    assert (len(known), known.num_bytes) == (0, 0)


def test_a_document_is_forgotten_alone():
    known, request = known_at("a =·║", "1"), request_at("a =·║")
    other = replace(request, snapshot=Snapshot("file:///b", 1, "plaintext", "a = "))
    learn(known, other, "2")
    known.forget("file:///case")
    assert found_in(known, request) is None
    assert found_in(known, other) is not None
    known.clear()
    assert (len(known), known.num_bytes) == (0, 0)


def test_the_texts_of_documents_are_not_held():
    known = known_at("secret " * 10_000 + "║" + "secret " * 10_000, "1")
    assert known.num_bytes < 2000


# Any document, any answers, any typing.

DOCUMENT = st.text(alphabet="ab(\n )é👍\r", max_size=8)


@given(
    before=DOCUMENT,
    after=DOCUMENT,
    text=st.text(alphabet="ab(\n )é👍", min_size=1, max_size=8),
    left=st.integers(0, 3),
    right=st.integers(0, 3),
    typed=DOCUMENT,
    deleted=st.integers(0, 3),
    changed=DOCUMENT,
)
def test_an_answer_from_here_makes_of_a_document_what_its_original_made(
    before, after, text, left, right, typed, deleted, changed
):
    line_before = before[max(before.rfind("\n"), before.rfind("\r")) + 1 :]
    left = min(left, len(line_before))
    right = min(right, len(after.splitlines()[0]) if after and after[0] not in "\r\n" else 0)
    known = known_at(f"{before}{CURSOR}{after}", text, left, right)
    made = before[: len(before) - left] + text + after[right:]
    for now, behind in (
        (before[: len(before) - deleted] + typed, after),
        (before[: len(before) - left] + text[:deleted], after),
        (before + text[:deleted], changed + after),
        (changed + before, after),
    ):
        found = find(known, f"{now}{CURSOR}{behind}")
        if found is None:
            continue
        document = now + behind
        accepted = document[: found.start] + found.text + document[found.end :]
        assert normalised(accepted) == normalised(made)


def normalised(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
