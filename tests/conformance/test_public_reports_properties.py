"""What holds for any document, place, encoding and text of a model: the faults' whole kinds.

Each example goes through the real server; the editor counts columns by itself.
"""

from __future__ import annotations

import re
from itertools import count
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.editor import BYTES_A_UNIT, Editor
from tests.scripted_product import directed

PIECES = (
    *("f(", ")", "a", "b, ", "[", "]", "{", "}", "});", '"', "'", ";", ":", ",", " = ", "return "),
    *(" ", "  ", "    ", "\t", "\n", "\n    ", "\n\t", "\n}", "if a:", "é", "漢", "👍", "e\u0301"),
    *("\u2028", "\f", "else:", "# note", "// note", "end", "</b>", "x1", "def g():", "```", "<|"),
)
LINE_ENDS = ("\n", "\r\n", "\r")
names = count()

code = st.lists(st.sampled_from(PIECES), max_size=16).map("".join)
indented = st.lists(
    st.sampled_from(
        (
            "def f():",
            "if a {",
            "}",
            "a()",
            "    b()",
            "        c()",
            "\td()",
            "",
            "    ",
            "end",
            "])",
        )
    ),
    max_size=8,
).map("\n".join)


class Place(NamedTuple):
    before: str
    after: str
    line_end: str

    @property
    def text(self) -> str:
        return self.before + self.after


@st.composite
def places(draw: st.DrawFn) -> Place:
    """A document with one kind of line end, and a cursor between two of its characters."""
    line_end = draw(st.sampled_from(LINE_ENDS))
    before, after = draw(code | indented), draw(code | indented)
    return Place(before.replace("\n", line_end), after.replace("\n", line_end), line_end)


@st.composite
def texts(draw: st.DrawFn, place: Place) -> str:
    """What a model may write there: anything, and often what stands there already."""
    around = (place.before[-12:], place.after[:12], place.after.split(place.line_end)[0])
    pieces = draw(st.lists(code | indented | st.sampled_from(around), min_size=1, max_size=3))
    return "".join(pieces)


@pytest.fixture(scope="module", params=BYTES_A_UNIT)
def server(request):
    with directed(request.param) as (client, model):
        yield client, model, request.param


def editor_at(server, place, text):
    client, model, encoding = server
    model.text = text
    uri = f"file:///{next(names)}"
    return Editor(client, uri, place.text, len(place.before), encoding=encoding)


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_accepting_neither_deletes_nor_repeats_what_the_text_does_not_say_again(server, data):
    place = data.draw(places())
    text = data.draw(texts(place))
    editor = editor_at(server, place, text)
    for item in editor.items(kind=data.draw(st.sampled_from((1, 2)))):
        shown = item["insertText"]
        start, end = (editor.offset(item["range"][side]) for side in ("start", "end"))
        cursor = editor.cursor
        assert start <= cursor <= end
        assert not place.text[start:cursor].strip(" \t"), "only indentation is taken back"
        assert is_subsequence(dense(place.text[cursor:end]), dense(shown))
        assert dense(shown) in dense(text), "nothing is shown that the model did not write"
        assert shown.strip()
    editor.close()


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_positions_are_valid_and_on_the_cursors_line(server, data):
    """`Editor.offset` fails beyond a line and inside a character."""
    place = data.draw(places())
    editor = editor_at(server, place, data.draw(texts(place)))
    line, _ = editor.position(editor.cursor)
    for item in editor.items(kind=1):
        for side in ("start", "end"):
            editor.offset(item["range"][side])
            assert item["range"][side]["line"] == line
    editor.close()


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_one_kind_of_line_end_stays_one(server, data):
    place = data.draw(places())
    editor = editor_at(server, place, data.draw(texts(place)))
    item = editor.ask(kind=1)
    if item is not None:
        assert "\r" not in item["insertText"]
        assert not item["insertText"].endswith("\n")
        breaks = set(re.findall(r"\r\n|\n|\r", editor.accept(item)))
        known = set(re.findall(r"\r\n|\n|\r", place.text)) or {"\n"}
        assert breaks <= known
    editor.close()


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_what_is_typed_first_and_what_is_accepted_at_once_give_the_same(server, data):
    place = data.draw(places())
    editor = editor_at(server, place, data.draw(texts(place)))
    item = editor.ask(kind=1)
    if item is not None and editor.offset(item["range"]["start"]) == editor.cursor:
        shown = item["insertText"].replace("\n", editor.line_end)
        covered = editor.offset(item["range"]["end"]) - editor.cursor
        whole = place.before + shown + place.after[covered:]
        num_typed = data.draw(st.integers(0, len(item["insertText"]) - 1))
        for character in item["insertText"][:num_typed]:
            if character == "\n":
                editor.enter()
            else:
                editor.type(character)
        server[1].text = "another()"
        rest = editor.ask(kind=1)
        if item["insertText"][num_typed:].strip():
            assert rest is not None
            assert editor.accept(rest) == whole
    editor.close()


def dense(text: str) -> str:
    return "".join(text.split())


def is_subsequence(part: str, whole: str) -> bool:
    remaining = iter(whole)
    return all(character in remaining for character in part)
