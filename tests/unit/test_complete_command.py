"""`tabahead complete` as a user meets it: the page, the object, and one sentence for a fault."""

from __future__ import annotations

import io
import json
import sys

import pytest

from lsp_server.__main__ import main
from lsp_server.backend.scripted import ScriptedGeneration
from lsp_server.errors import InferenceError

ENTRIES = [
    {"after": 'printf("', "text": 'n=%d", n);'},
    {"after": "if x:\n        ", "text": "    return 1"},
    {"after": "\u8a08 = ", "text": "\u7b97"},
    {"after": "half = ", "text": "\ud83d"},
]


@pytest.fixture
def complete(tmp_path, monkeypatch, capsys):
    """Complete at the end of `before`; the exit code and what was printed."""
    monkeypatch.setenv("TABAHEAD_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.json").write_text(json.dumps(ENTRIES), encoding="utf-8")

    def run(before, after="", *options):
        (tmp_path / "file.txt").write_bytes((before + after).encode())
        lines = before.split("\n")
        place = f"file.txt:{len(lines)}:{len(lines[-1]) + 1}"
        code = main(["complete", place, "--model", "scripted:script.json", *options])
        return code, capsys.readouterr()

    return run


def test_text_that_the_item_replaces_is_not_shown_again(complete):
    code, printed = complete('printf("', '");\n')
    assert code == 0
    assert printed.out.startswith('printf("n=%d", n);\n\n')
    _, printed = complete("if x:\n        ")
    assert printed.out.startswith("if x:\n    return 1\n\n")


def test_json_is_one_object_with_the_range_in_utf_16(complete):
    _, printed = complete('\U0001f600 printf("', '");\n', "--json")
    answer = json.loads(printed.out)
    assert set(answer) == {"text", "range", "reason", "stats"}
    assert answer["range"] == {
        "start": {"line": 0, "character": 11},
        "end": {"line": 0, "character": 14},
    }
    assert set(answer["stats"]["ms"]) == {"load", "prefill", "decode", "total"}


@pytest.mark.parametrize("before", ["\u8a08 = ", "half = "])
def test_what_the_terminal_cannot_show_is_no_crash(complete, monkeypatch, before):
    plain = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", plain)
    assert complete(before)[0] == 0
    plain.flush()
    assert b"? " in plain.buffer.getvalue() or b"?\n" in plain.buffer.getvalue()


def test_nothing_to_show_says_why(complete):
    why = "The model has nothing to say here."
    assert complete("nothing ")[1].out == f"nothing shown: {why}\n"
    answer = json.loads(complete("nothing ", "", "--json")[1].out)
    assert (answer["reason"], answer["message"]) == ("empty", why)


def test_a_language_that_is_off_is_known_by_the_file_name(complete, tmp_path):
    (tmp_path / "tabahead.toml").write_text('languages_off = ["txt"]')
    code, printed = complete("x = ")
    assert (code, printed.out) == (0, "nothing shown: The setting `languages_off` has `txt`.\n")


def test_an_engine_that_fails_is_a_failure_of_the_command(complete, monkeypatch):
    def pieces(*_):
        raise InferenceError("The logits are NaN; fetch the model again.")
        yield

    monkeypatch.setattr(ScriptedGeneration, "__iter__", pieces)
    code, printed = complete("x = ")
    assert (code, printed.out) == (1, "nothing shown: The logits are NaN; fetch the model again.\n")


def test_an_unknown_option_is_told_with_those_of_the_command(complete, capsys):
    with pytest.raises(SystemExit):
        complete("x = ", "", "--nosuch")
    assert "usage: tabahead complete" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["file.txt", "file.txt:a:1", "file.txt:9:1", "absent.txt:1:1"])
def test_a_place_that_is_none_is_one_sentence(complete, capsys, place):
    complete("x = ")
    assert main(["complete", place, "--model", "scripted:script.json"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("tabahead: ")
    assert printed.err.count("\n") == 1
