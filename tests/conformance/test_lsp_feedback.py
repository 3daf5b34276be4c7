"""What is counted of items for clients that tell little: by the edits that they must tell."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.editor import BYTES_A_UNIT, Editor
from tests.wired_product import WiredClient, wired

URI = "file:///a.py"
SCRIPT = [
    {"after": "# 漢😋\r\nx = ", "text": "first + 'é😋' + third"},
    {"after": "f(", "text": "one, two)"},
    {"after": "if x:\r\n    ", "text": "first()\n    second()"},
    {"after": "", "text": ""},
]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[WiredClient]:
    script = tmp_path / "script.json"
    script.write_text(json.dumps(SCRIPT))
    with wired(script, tmp_path) as client:
        yield client


def opened(client: WiredClient, before: str, after: str = "", encoding: str = "utf-16") -> Editor:
    client.initialize(capabilities={"general": {"positionEncodings": [encoding]}})
    return Editor(client, URI, before + after, len(before), encoding=encoding)


def shown(editor: Editor, **more: Any) -> str:
    """The item's text."""
    item = editor.ask(**more)
    assert item is not None
    return str(item["insertText"])


def take(editor: Editor, text: str) -> None:
    """One edit, with the document's line ends."""
    text = text.replace("\n", editor.line_end)
    editor.replace(editor.cursor, editor.cursor, text)


@pytest.mark.parametrize("encoding", BYTES_A_UNIT)
def test_words_and_the_rest_are_counted_by_their_edits(client: WiredClient, encoding: str) -> None:
    editor = opened(client, "# 漢😋\r\nx = ", "\r\n", encoding)
    assert shown(editor) == "first + 'é😋' + third"
    take(editor, "first")
    assert shown(editor) == " + 'é😋' + third"
    take(editor, " + 'é😋'")
    take(editor, " + third")
    assert client.totals() == {
        "shown": 1,
        "accepted": 1,
        "accepted_in_parts": 1,
        "partially_accepted": 1,
        "characters": len("first + 'é😋' + third"),
    }


def test_a_line_is_counted_whatever_its_line_end(client: WiredClient) -> None:
    editor = opened(client, "if x:\r\n    ")
    text = shown(editor, kind=1)
    assert text == "first()\n    second()"
    take(editor, "first()\n    ")
    take(editor, "second()")
    assert client.totals()["characters"] == len(text)


def test_what_is_typed_is_not_taken(client: WiredClient) -> None:
    editor = opened(client, "# 漢😋\r\nx = ")
    for character in shown(editor):
        editor.type(character)
        editor.ask()
    assert client.totals() == {"shown": 1}


def test_the_command_of_the_first_of_many_rests_counts_once(client: WiredClient) -> None:
    """Some clients keep the item that they have, however often the rest is sent."""
    editor = opened(client, "# 漢😋\r\nx = ")
    first = editor.ask()
    assert first is not None
    editor.type("fi")
    editor.ask()
    take(editor, "rst + 'é😋' + third")
    assert client.request("workspace/executeCommand", first["command"])["result"] is None
    characters = len("rst + 'é😋' + third")
    assert client.totals() == {"shown": 1, "accepted": 1, "characters": characters}


@pytest.mark.parametrize("where", ["all", "the whole line", "what differs"])
def test_it_is_all_one_how_a_client_words_its_edit(client: WiredClient, where: str) -> None:
    """The model's `one, two)` is shown without the bracket that is there."""
    editor = opened(client, "f(", ")\n")
    item = editor.ask(kind=1)
    assert item is not None
    assert (item["insertText"], item["range"]["end"]["character"]) == ("one, two", 2)
    if where == "all":
        client.change(URI, 2, "f(one, two)\n")
    elif where == "the whole line":
        client.change(URI, 2, "f(one, two)", (0, 0, 0, 3))
    else:
        client.change(URI, 2, "one, two", (0, 2, 0, 2))
    assert client.totals() == {"shown": 1, "accepted": 1, "characters": 8}


def test_what_was_shown_before_a_document_is_opened_anew_is_not_taken(client: WiredClient) -> None:
    editor = opened(client, "f(", "\n")
    assert shown(editor)
    client.open(URI, "f(\n")
    client.change(URI, 2, "one, two)", (0, 2, 0, 2))
    assert client.totals() == {"shown": 1}


def test_an_item_of_a_server_that_has_ended_is_none_of_the_next_ones(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps(SCRIPT))
    commands = []
    for name in ("first", "second"):
        with wired(script, tmp_path / name) as client:
            item = opened(client, "f(", "\n").ask()
            assert item is not None
            commands.append(item["command"])
            client.request("workspace/executeCommand", commands[0])
            counted = client.totals()
    assert counted == {"shown": 1}


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("tabahead.didAcceptCompletionItem", []),
        ("tabahead.didAcceptCompletionItem", [["x"]]),
        ("tabahead.didPartiallyAcceptCompletionItem", ["x"]),
        ("tabahead.didPartiallyAcceptCompletionItem", ["x", "3"]),
    ],
)
def test_arguments_that_tell_nothing_are_named_in_the_log(
    client: WiredClient, caplog: pytest.LogCaptureFixture, command: str, arguments: list[Any]
) -> None:
    client.initialize()
    client.request("workspace/executeCommand", {"command": command, "arguments": arguments})
    assert any(command in message for message in caplog.messages)
    assert client.totals() == {}
