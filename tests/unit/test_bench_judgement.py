"""A suggestion is right when the author then writes its first line there, and only then."""

from __future__ import annotations

import pytest

from lsp_server.bench.judgement import Right, Suggestion, characters_saved, first_line, judge
from lsp_server.bench.traces import Edit, Patch, Trace


def trace_of(text: str, *patches: tuple[int, int, str]) -> Trace:
    edits = tuple(
        Edit((Patch(start, deleted, new),), start + len(new), float(n))
        for n, (start, deleted, new) in enumerate(patches)
    )
    return Trace("a.py", "python", text, edits, ())


def typing(text: str, at: int, keys: str) -> Trace:
    return trace_of(text, *((at + n, 0, key) for n, key in enumerate(keys)))


def right_keys(trace: Trace, *suggestions: Suggestion) -> list[int]:
    return [found.key for found in judge(trace, suggestions)]


def shown(key: int, text: str, cursor: int, end: int | None = None) -> Suggestion:
    return Suggestion(key, text, cursor, cursor if end is None else end)


def test_what_is_typed_next_is_right_with_the_key_that_completes_it():
    trace = typing("", 0, "x = value\n")
    assert judge(trace, [shown(3, "value", 4)]) == [Right(3, 8, 5)]


def test_other_text_is_wrong():
    assert right_keys(typing("", 0, "x = value\n"), shown(3, "valve", 4)) == []


def test_only_the_first_line_need_be_right():
    trace = typing("", 0, "x = value\n")
    assert right_keys(trace, shown(3, "value\ny = 2", 4)) == [3]


def test_a_beginning_of_the_word_that_the_author_writes_is_wrong():
    assert right_keys(typing("", 0, "x = values\n"), shown(3, "value", 4)) == []
    assert right_keys(typing("", 0, "x = value.y\n"), shown(3, "value", 4)) == [3]


def test_the_last_edits_of_a_trace_can_complete_a_line():
    assert right_keys(typing("", 0, "x = value"), shown(3, "value", 4)) == [3]


def test_mistyping_on_the_way_is_forgiven():
    trace = trace_of("", (0, 0, "x"), (1, 0, "a"), (2, 0, "c"), (2, 1, ""), (2, 0, "b"))
    assert right_keys(trace, shown(0, "ab", 1)) == [0]


def test_the_place_moves_with_edits_before_it():
    trace = trace_of("head\n", (5, 0, "x"), (0, 0, "# "), (8, 0, "yz"))
    assert right_keys(trace, shown(0, "yz", 6)) == [0]


def test_a_place_that_is_deleted_never_comes_true():
    trace = trace_of("head\ntail", (5, 0, "x"), (4, 3, ""), (4, 0, "yz"))
    assert right_keys(trace, shown(0, "yz", 6)) == []


def test_text_that_stood_there_already_is_no_suggestion():
    assert right_keys(trace_of("f()", (2, 0, "x"), (0, 0, "y")), shown(0, ")", 3)) == []


def test_what_the_item_replaces_left_of_the_cursor_must_be_repeated():
    trace = typing("", 0, "x = value\n")
    assert right_keys(trace, Suggestion(3, "x = value", 0, 4)) == [3]
    assert right_keys(trace, Suggestion(3, "z = value", 0, 4)) == []


def test_characters_that_stood_behind_the_cursor_are_not_counted():
    trace = trace_of("f()", (2, 0, "a"), (3, 0, "b"))
    assert judge(trace, [shown(0, "b)", 3, end=4)]) == [Right(0, 1, 1)]


def test_a_line_that_takes_too_many_edits_is_wrong():
    detour = [(0, 0, " ")] * 40
    places = [(1 + len(detour) + n, 0, key) for n, key in enumerate("ab")]
    assert right_keys(trace_of("", (0, 0, "x"), *detour, *places), shown(0, "ab", 1)) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [("a\nb", "a"), ("\n    a\nb", "\n    a"), ("a", "a"), ("", ""), ("\n\n", "\n\n")],
)
def test_the_first_line_has_more_than_blanks(text, line):
    assert first_line(text) == line


def test_what_is_accepted_already_is_not_saved_twice():
    right = [Right(3, 8, 5), Right(4, 8, 4), Right(8, 9, 2)]
    assert characters_saved(right) == 7
