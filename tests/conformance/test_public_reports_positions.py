"""Reported faults: ranges, columns, and where a prompt is cut. Numbers: `reports/suffix.toml`."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from lsp_server.completion import Mode, Reason
from lsp_server.prompt.window import Around, near_prefix
from tests.editor import BYTES_A_UNIT, Editor
from tests.lsp_client import ServerProcess
from tests.marks import ask, request_at

SCRIPT = [
    {"after": 'printf ("', "text": 'n=%d\\n", n);'},
    {"after": "привет", "text": " мир"},
    {"after": "", "text": "text"},
]
FAR = 2**31 - 1


@pytest.fixture(scope="module", params=BYTES_A_UNIT)
def client(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    path = tmp_path_factory.mktemp("script") / "script.json"
    path.write_text(json.dumps(SCRIPT))
    with ServerProcess("--model", f"scripted:{path}") as client:
        client.initialize(capabilities={"general": {"positionEncodings": [request.param]}})
        client.encoding = request.param
        yield client
        assert client.stop() == 0


def edit(client, text, cursor):
    return Editor(client, "file:///case", text, cursor, encoding=client.encoding)


def test_1_the_range_covers_what_the_text_says_again(client):
    item = edit(client, 'printf ("");', 9).ask()
    columns = [item["range"][side]["character"] for side in ("start", "end")]
    assert columns == [9, 12]


def test_23_a_range_behind_letters_of_two_bytes_is_the_cursor(client):
    item = edit(client, 'print("привет")', 13).ask()
    column = 19 if client.encoding == "utf-8" else 13
    cursor = {"line": 0, "character": column}
    assert item["range"] == {"start": cursor, "end": cursor}


@pytest.mark.parametrize("text", ["", "a = 1\nb = ", "µ" * 7, "漢\r\n👍 = "])
def test_31_a_column_far_beyond_the_line_is_its_end(client, text):
    editor = edit(client, text, len(text))
    line, column = editor.position(len(text))
    (item,) = client.complete(editor.uri, line, FAR)["items"]
    cursor = {"line": line, "character": column}
    assert item["range"] == {"start": cursor, "end": cursor}


@pytest.mark.parametrize("letters", ["µm", "漢字", "e\u0301a", "aé"])
def test_24_a_cursor_after_any_letter_splits_the_text_there(client, letters):
    """Between two letters nothing is shown unless asked for; then the split is right."""
    editor = edit(client, f"plot('{letters}')\n", 7)
    shown = editor.ask(kind=1)
    assert editor.offset(shown["range"]["start"]) == 7
    assert editor.accept(shown) == f"plot('{letters[0]}text{letters[1:]}')\n"


def test_52_every_item_has_a_range(client):
    """A client without one takes the word at the cursor, or fails."""
    for kind in (1, 2):
        for text in ("", "a = ", "f()\n"):
            items = edit(client, text, len(text)).items(kind)
            assert items
            assert all(item["range"].keys() == {"start", "end"} for item in items)


@pytest.mark.parametrize("text", ["漢字仮名交じり文", "привет-", "👍", "e\u0301"])
def test_26_text_larger_than_the_budget_is_cut_between_characters(text):
    text *= 4000
    request = request_at(text + "║" + text)
    prefix = near_prefix(Around.of(request.snapshot, request.offset).before, budget=200)
    assert text.endswith(prefix)
    assert 0 < len(prefix) <= 200
    assert prefix[0] != "\u0301"


MARKERS = (
    *("<|endoftext|>", "<|fim_middle|>", "<|fim_prefix|>", "<|im_end|>", "<|file_separator|>"),
    *("<fim_suffix>", "<file_sep>", "<MID>", "</s>", "<|user_cursor_is_here|>", "<｜fim▁end｜>"),  # noqa: RUF001 - the marker is so
    *("[SUFFIX]", "<PRE>", "<end_of_turn>", "[/INST]", "<|editable_region_end|>"),
)


@pytest.mark.parametrize("marker", MARKERS)
@pytest.mark.parametrize("mode", Mode)
def test_55_no_control_marker_is_ever_shown(marker, mode):
    assert ask("x =·║⏎y", f"5{marker} + 7", mode=mode).text == "5"
    assert ask("x =·║⏎y", f"{marker}5", mode=mode).reason is Reason.EMPTY


def test_strike_through_in_a_document_that_has_it_is_no_marker():
    assert ask("<p><s>║⏎", "old</s>").text == "old</s>"
