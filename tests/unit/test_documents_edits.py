"""The document store against a naive one that keeps the whole text in the client's own units."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsp_server.completion import Reason, Snapshot
from lsp_server.documents import (
    Change,
    Document,
    DocumentStore,
    Encoding,
    Position,
    Range,
    position_at,
    split_lines,
)

CODECS = {Encoding.UTF8: "utf-8", Encoding.UTF16: "utf-16-le", Encoding.UTF32: "utf-32-le"}
UNIT_SIZE = {Encoding.UTF8: 1, Encoding.UTF16: 2, Encoding.UTF32: 4}
PIECES = (
    "a",
    "b",
    " ",
    "\n",
    "\r\n",
    "\r",
    "é",
    "好",
    "😋",
    "\u2028",
    "\x0c",
    "\x85",
    "\x1c",
    "x=1",
)

texts = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)
positions = st.builds(Position, st.integers(0, 8), st.integers(0, 14))
changes = st.builds(Change, st.none() | st.builds(Range, positions, positions), texts)
encodings = st.sampled_from(list(Encoding))


def naive_unit(text: str, position: Position, encoding: Encoding) -> int:
    """Where a position lies, in units from the start, by the letter of the specification."""
    codec, size = CODECS[encoding], UNIT_SIZE[encoding]
    lines = re.split("\r\n|\n|\r", text)
    if position.line >= len(lines):
        return len(text.encode(codec)) // size
    breaks = re.findall("\r\n|\n|\r", text)
    before = "".join(
        line + line_break for line, line_break in zip(lines[: position.line], breaks, strict=False)
    )
    length = len(lines[position.line].encode(codec)) // size
    return len(before.encode(codec)) // size + min(position.character, length)


def on_boundary(text: str, unit: int, encoding: Encoding) -> bool:
    codec, size = CODECS[encoding], UNIT_SIZE[encoding]
    try:
        text.encode(codec)[: unit * size].decode(codec)
    except UnicodeDecodeError:
        return False
    return True


def naive_edit(text: str, change: Change, encoding: Encoding) -> str:
    if change.range is None:
        return change.text
    codec, size = CODECS[encoding], UNIT_SIZE[encoding]
    start, end = sorted(naive_unit(text, where, encoding) for where in sorted(change.range))
    data = text.encode(codec)
    return (data[: start * size] + change.text.encode(codec) + data[end * size :]).decode(codec)


@given(texts, st.lists(changes, max_size=6), encodings)
@settings(max_examples=400, deadline=None)
def test_edits_equal_those_of_the_naive_text(
    text: str, edits: list[Change], encoding: Encoding
) -> None:
    document = Document("u", "python", 1, text, encoding)
    for edit in edits:
        ends = edit.range or ()
        if not all(on_boundary(text, naive_unit(text, end, encoding), encoding) for end in ends):
            continue
        text = naive_edit(text, edit, encoding)
        document.apply(edit)
        assert document.text == text
        assert document.num_chars == len(text)
        assert document.num_lines == len(re.split("\r\n|\n|\r", text))


@given(texts, positions, encodings)
@settings(max_examples=300, deadline=None)
def test_offset_and_position_are_inverse(text: str, position: Position, encoding: Encoding) -> None:
    document = Document("u", "python", 1, text, encoding)
    offset = document.offset_at(position)
    there = position_at(text, offset, encoding)
    assert document.offset_at(there) == offset
    for known in range(len(text) + 1):
        if text[known - 1 : known + 1] != "\r\n":
            line = position_at(text, known, encoding).line
            assert position_at(text, offset, encoding, (known, line)) == there
    unit = naive_unit(text, position, encoding)
    if on_boundary(text, unit, encoding):
        codec, size = CODECS[encoding], UNIT_SIZE[encoding]
        assert offset == len(text.encode(codec)[: unit * size].decode(codec))


@given(texts)
def test_lines_join_to_the_text_and_only_protocol_breaks_end_them(text: str) -> None:
    lines = split_lines(text)
    assert "".join(lines) == text
    assert [line.rstrip("\r\n") for line in lines] == re.split("\r\n|\n|\r", text)


@pytest.mark.parametrize("character", "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")
def test_characters_that_python_calls_line_breaks_are_none(character: str) -> None:
    document = Document("u", "python", 1, f"a{character}b\nc", Encoding.UTF16)
    assert document.num_lines == 2
    document.apply(Change(Range(Position(1, 0), Position(1, 1)), "d"))
    assert document.text == f"a{character}b\nd"


def test_a_break_put_together_from_two_edits_is_one_break() -> None:
    document = Document("u", "python", 1, "a\rb", Encoding.UTF16)
    assert document.num_lines == 2
    document.apply(Change(Range(Position(1, 0), Position(1, 0)), "\n"))
    assert (document.text, document.num_lines) == ("a\r\nb", 2)
    document.apply(Change(Range(Position(1, 0), Position(1, 1)), "\nc"))
    assert (document.text, document.num_lines) == ("a\r\n\nc", 3)


def test_an_edit_inside_a_surrogate_pair_splits_it_and_another_heals_it() -> None:
    document = Document("u", "python", 1, "a😋b", Encoding.UTF16)
    middle = Position(0, 2)
    document.apply(Change(Range(middle, middle), "x"))
    assert document.text == "a\ud83dx\ude0bb"
    assert document.offset_at(Position(0, 3)) == 3
    document.apply(Change(Range(middle, Position(0, 3)), ""))
    assert document.text == "a😋b"
    assert document.offset_at(middle) == 1, "a cursor inside a pair counts as before it"


def test_lone_surrogates_pass_through_every_encoding() -> None:
    for encoding in Encoding:
        document = Document("u", "python", 1, "\udc00x\ud800", encoding)
        document.apply(Change(Range(Position(0, 99), Position(0, 99)), "y"))
        assert document.text == "\udc00x\ud800y"
        assert position_at(document.text, 4, encoding).line == 0


def test_swapped_ends_of_a_range_mean_the_same_range() -> None:
    document = Document("u", "python", 1, "abcdef", Encoding.UTF16)
    document.apply(Change(Range(Position(0, 4), Position(0, 2)), "-"))
    assert document.text == "ab-ef"


def open_store(text: str, **options: int) -> DocumentStore:
    store = DocumentStore(**options)
    store.open("u", "python", 1, text)
    return store


def insert(text: str, line: int = 0, character: int = 0) -> Change:
    return Change(Range(Position(line, character), Position(line, character)), text)


def test_a_snapshot_is_frozen_at_its_version() -> None:
    store = open_store("old")
    snapshot = store.snapshot("u")
    assert store.change("u", 2, [insert("very ")])
    assert snapshot == Snapshot("u", 1, "python", "old")
    assert store.snapshot("u") == Snapshot("u", 2, "python", "very old")


def test_unknown_documents_are_no_error() -> None:
    store = DocumentStore()
    assert not store.change("u", 2, [insert("x")])
    store.close("u")
    assert store.snapshot("u") is Reason.NOT_OPEN
    assert store.revision("u") is None


def test_a_second_open_of_the_same_uri_replaces_the_first() -> None:
    store = open_store("one")
    revision = store.revision("u")
    store.open("u", "rust", 1, "two")
    assert store.snapshot("u") == Snapshot("u", 1, "rust", "two")
    assert store.revision("u") != revision
    assert len(store) == 1


def test_a_reopened_document_never_has_a_revision_of_before() -> None:
    store = open_store("one")
    revision = store.revision("u")
    store.close("u")
    store.open("u", "python", 1, "one")
    assert store.revision("u") != revision


def test_a_missing_version_counts_on() -> None:
    store = open_store("a")
    store.change("u", None, [insert("b")])
    snapshot = store.snapshot("u")
    assert isinstance(snapshot, Snapshot)
    assert snapshot.version == 2


def test_binary_text_is_named_as_such() -> None:
    assert open_store("a\0b").snapshot("u") is Reason.BINARY


def test_a_document_that_an_edit_shrinks_is_completed_again() -> None:
    store = open_store("x" * 15, max_chars=10)
    assert store.snapshot("u") is Reason.TOO_LARGE
    store.change("u", 2, [Change(Range(Position(0, 5), Position(0, 15)), "")])
    assert store.snapshot("u") == Snapshot("u", 2, "python", "xxxxx")


def test_text_far_beyond_the_limit_is_not_held_until_it_is_replaced() -> None:
    store = open_store("x" * 50, max_chars=10)
    assert store.get("u") is None
    assert store.change("u", 2, [insert("y")])
    assert store.snapshot("u") is Reason.TOO_LARGE
    assert store.change("u", 3, [Change(None, "small")])
    assert store.snapshot("u") == Snapshot("u", 3, "python", "small")


def test_a_document_that_grows_far_beyond_the_limit_is_let_go() -> None:
    store = open_store("x", max_chars=10)
    store.change("u", 2, [insert("y" * 50)])
    assert store.get("u") is None
    assert store.snapshot("u") is Reason.TOO_LARGE


def test_the_cost_of_an_edit_does_not_grow_with_the_lines_around_it() -> None:
    """Counted in strings made, not in time: all but the edited line are the same objects."""
    document = Document("u", "python", 1, "line\n" * 1000, Encoding.UTF16)
    before = list(document._lines)
    document.apply(insert("x", line=500, character=2))
    after = document._lines
    assert after[500] == "lixne\n"
    assert all(a is b for n, (a, b) in enumerate(zip(before, after, strict=True)) if n != 500)


# Notebooks


def test_a_cell_has_those_of_its_notebook_and_language_that_were_opened_before_it():
    store, cell = DocumentStore(), "vscode-notebook-cell:/w/{}.ipynb#W{}sZmlsZQ%3D%3D"
    for notebook, number, language in (
        *(("a", 0, "markdown"), ("a", 1, "python"), ("b", 1, "python"), ("a", 2, "python")),
        *(("a", 3, "python"), ("a", 4, "python")),
    ):
        store.open(cell.format(notebook, number), language, 1, f"{notebook}{number}")

    def above(number: int) -> tuple[str, ...]:
        snapshot = store.snapshot(cell.format("a", number))
        assert isinstance(snapshot, Snapshot)
        return snapshot.above

    assert above(1) == ()
    assert above(3) == ("a1", "a2")
    store.change(cell.format("a", 1), 2, [Change(None, "new")])
    store.close(cell.format("a", 2))
    assert above(4) == ("new", "a3")
    store.open("file:///w/a.py", "python", 1, "")
    assert store.snapshot("file:///w/a.py") == Snapshot("file:///w/a.py", 1, "python", "")
