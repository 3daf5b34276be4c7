"""The shapes that an item of inline completion can have, and which of them the server sends.

Each of the 22 was shown to VS Code and Neovim. Some appear in one of them only, or damage the text
when accepted there; of these the server sends none, however tempting the model's text makes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conformance.test_public_reports_properties import Place, places, texts
from tests.editor import Editor
from tests.lsp_client import RawClient
from tests.marks import CURSOR, unmark
from tests.scripted_product import Directed, directed

SHOWN_BY_ALL = {
    # where the cursor is, what the range covers, how many lines
    "end, nothing, one line": True,
    "end, nothing, several lines": True,
    "end, what is typed, one line": True,
    "end, what is typed, several lines": True,
    "end, the line, one line": True,
    "end, the line, several lines": True,
    "middle, nothing, one line": True,
    "middle, nothing, several lines": True,
    "middle, the rest that the text repeats, one line": True,
    "middle, the rest that the text repeats, several lines": True,
    "middle, the rest that the text drops, one line": False,
    "middle, the rest that the text drops, several lines": False,
    "middle, what is typed, one line": True,
    "middle, what is typed, several lines": True,
    # where the text is no continuation of what it replaces
    "another beginning": False,
    "another beginning with a filter": False,
    # no plain text in an explicit range
    "no range, one line": False,
    "no range, several lines": False,
    "a snippet": False,
    "a line end last": False,
    "a carriage return": False,
    "no text": False,
}


def shape_of(editor: Editor, item: dict[str, Any], chosen: str = "") -> str:
    """`chosen` is the entry of the editor's own list, if one is: with it the text begins, whatever
    was typed for it."""
    text = item["insertText"]
    if not isinstance(text, str):
        return "a snippet"
    lines = "several lines" if "\n" in text else "one line"
    if "range" not in item:
        return f"no range, {lines}"
    for shape, is_it in (
        ("no text", not text.strip()),
        ("a carriage return", "\r" in text),
        ("a line end last", text.endswith("\n")),
    ):
        if is_it:
            return shape
    start, end = (editor.offset(item["range"][side]) for side in ("start", "end"))
    line_start, rest = line_around(editor)
    typed, covered = editor.text[start : editor.cursor], editor.text[editor.cursor : end]
    where = "middle" if rest else "end"
    is_continued = text.startswith((typed, chosen) if chosen else typed)
    if covered:
        repeats = "repeats" if is_subsequence(covered.strip(), text) else "drops"
        return f"{where}, the rest that the text {repeats}, {lines}"
    if not is_continued and typed.strip(" \t"):
        return "another beginning with a filter" if "filterText" in item else "another beginning"
    if not typed:
        return f"{where}, nothing, {lines}"
    is_line = start == line_start and not rest
    return f"{where}, {'the line' if is_line else 'what is typed'}, {lines}"


def line_around(editor: Editor) -> tuple[int, str]:
    """Where the cursor's line starts, and what stands on it behind the cursor."""
    before, after = editor.text[: editor.cursor], editor.text[editor.cursor :]
    start = max(before.rfind("\n"), before.rfind("\r")) + 1
    return start, after.split("\n")[0].split("\r")[0]


def is_subsequence(part: str, whole: str) -> bool:
    remaining = iter(whole)
    return all(character in remaining for character in part)


class Case(NamedTuple):
    """A document and a text of the model that ask for a shape."""

    marked: str
    model: str
    accepted: str | None
    """The document once the item is accepted, at the end of which the cursor is marked; None: there
    is no item."""
    sent: str = ""
    """The item's shape, where it is another one."""
    chosen: str = ""
    """In place of the word before the cursor."""
    line_end: str = "\n"


CASES = {
    "end, nothing, one line": Case("x = ba║", "r()", "x = bar()"),
    "end, nothing, several lines": Case("if x:⏎    ║", "y()\n    z()", "if x:⏎    y()⏎    z()"),
    "end, what is typed, one line": Case("x = ba║", "(y)", "x = bar(y)", chosen="bar"),
    "end, what is typed, several lines": Case(
        "    whi║", " x:\n        y()", "    while x:⏎        y()", chosen="while"
    ),
    "end, the line, one line": Case("ba║", "(y)", "bar(y)", chosen="bar"),
    "end, the line, several lines": Case(
        "whi║", " x:\n    y()", "while x:⏎    y()", chosen="while"
    ),
    "middle, nothing, one line": Case("f(ba║)", "r, 1", "f(bar, 1)"),
    "middle, nothing, several lines": Case("x = ║  ", "y()\nz()", "x = y()⏎z()  "),
    "middle, the rest that the text repeats, one line": Case(
        'printf("║");', 'n=%d", n);', 'printf("n=%d", n);'
    ),
    "middle, the rest that the text repeats, several lines": Case(
        "def f(║)⏎",
        "a, b):\n    return a",
        "def f(a, b):⏎",
        sent="middle, the rest that the text repeats, one line",
    ),
    "middle, the rest that the text drops, one line": Case(
        "x = ║ + 1", "y * 2", "x = y * 2 + 1", sent="middle, nothing, one line"
    ),
    "middle, the rest that the text drops, several lines": Case(
        "x = ║ + 1", "y\nz = 2", "x = y + 1", sent="middle, nothing, one line"
    ),
    "middle, what is typed, one line": Case("x = ba║ + 1", "(y)", "x = bar(y) + 1", chosen="bar"),
    "middle, what is typed, several lines": Case(
        "whi║ # x",
        " y:\n    z()",
        "while y: # x",
        sent="middle, what is typed, one line",
        chosen="while",
    ),
    "another beginning": Case("x = ba║", "BAR()", "x = baBAR()", sent="end, nothing, one line"),
    "another beginning with a filter": Case(
        "x = ba║", "(y)", "x = BAR(y)", sent="end, what is typed, one line", chosen="BAR"
    ),
    "no range, one line": Case("║", "x = 1", "x = 1", sent="end, nothing, one line"),
    "no range, several lines": Case(
        "if x:⏎    ba║", "r()\n    y()", "if x:⏎    bar()⏎    y()", "end, nothing, several lines"
    ),
    "a snippet": Case("f(║", "${1:x}, $0)", "f(${1:x}, $0)", sent="end, nothing, one line"),
    "a line end last": Case("x = ba║", "r()\n\n", "x = bar()", sent="end, nothing, one line"),
    "a carriage return": Case(
        "if x:⏎    ║",
        "y()\r\n    z()\r\n",
        "if x:⏎    y()⏎    z()",
        sent="end, nothing, several lines",
        line_end="\r\n",
    ),
    "no text": Case("x = ba║", "  \n ", None),
}
names = count()


class Server(NamedTuple):
    client: RawClient
    model: Directed

    def __repr__(self) -> str:
        return "the server"  # what it has done so far is long


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with directed() as (client, model):
        yield Server(client, model)


def asked(server: Server, case: Case) -> tuple[Editor, list[dict[str, Any]]]:
    client, model = server
    model.text = case.model
    before, _, after = unmark(case.marked, case.line_end).partition(CURSOR)
    editor = Editor(client, f"file:///{next(names)}", before + after, len(before))
    more = {}
    if case.chosen:
        word = len(before) - len(before.rstrip("abcdefghijklmnopqrstuvwxyz"))
        sides = (editor.position(len(before) - word), editor.position(len(before)))
        start, end = ({"line": line, "character": column} for line, column in sides)
        more["selected"] = {"text": case.chosen, "range": {"start": start, "end": end}}
    return editor, editor.items(kind=1, **more)


def test_every_shape_has_its_case() -> None:
    assert len(SHOWN_BY_ALL) == 22
    assert list(CASES) == list(SHOWN_BY_ALL)


@pytest.mark.parametrize("shape", CASES)
def test_only_shapes_that_every_client_shows_are_sent(server: Server, shape: str) -> None:
    case = CASES[shape]
    editor, items = asked(server, case)
    if case.accepted is None:
        assert items == []
        return
    (item,) = items
    sent = case.sent or shape
    assert SHOWN_BY_ALL[sent]
    assert shape_of(editor, item, case.chosen) == sent
    assert set(item) == {"insertText", "range", "command"}
    assert editor.accept(item) == unmark(case.accepted, case.line_end)


@settings(max_examples=200)
@given(st.data())
def test_whatever_the_place_and_the_text_all_clients_show_it(server: Server, data: Any) -> None:
    client, model = server
    place: Place = data.draw(places())
    model.text = data.draw(texts(place))
    uri = f"file:///{next(names)}"
    editor = Editor(client, uri, place.text, len(place.before))
    for item in editor.items(kind=data.draw(st.sampled_from((1, 2)))):
        assert SHOWN_BY_ALL[shape_of(editor, item)]
    editor.close()
