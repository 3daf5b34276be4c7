"""The script in the engine's place: which entry, in which pieces, stopped when, refused why."""

from __future__ import annotations

import json
import threading

import pytest

from lsp_server.backend.scripted import PIECE_CHARACTERS, Entry, ScriptedBackend
from lsp_server.cancellation import CancelToken
from lsp_server.completer import complete
from lsp_server.completion import Reason
from lsp_server.errors import Cancelled, SettingsError
from tests.marks import request_at

NEVER_MS = 3_600_000
"""A delay that no test waits for: one that does hangs instead of passing."""


def texts(backend, marked, cancel=None, **options):
    generation = backend.generate(request_at(marked, **options), cancel or CancelToken())
    return [piece.text for piece in generation]


def script(tmp_path, content):
    path = tmp_path / "script.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


def test_the_first_entry_that_ends_the_text_before_the_cursor_wins(tmp_path):
    entries = [
        {"after": "b = ", "text": "1"},
        {"after": "= ", "text": "2", "delay_ms": 0.5},
        {"after": "", "text": "3"},
    ]
    backend = ScriptedBackend.from_file(script(tmp_path, entries))
    assert texts(backend, "b = ║b = ") == ["1"]
    assert texts(backend, "a = ║") == ["2"]
    assert texts(backend, "║b = ") == ["3"]


def test_an_entry_sees_the_document_as_it_is():
    """Trailing blanks and carriage returns count: `after` is not compared with a prompt."""
    backend = ScriptedBackend([Entry("a\r\n  ", "x")])
    assert texts(backend, "a⏎··║", line_end="\r\n") == ["x"]
    assert texts(backend, "a⏎··║") == []


def test_no_entry_means_nothing_to_say():
    backend = ScriptedBackend([Entry("never", "x")])
    result = complete(request_at("a = ║"), backend, CancelToken())
    assert (result.text, result.reason) == ("", Reason.EMPTY)


def test_pieces_have_a_few_characters_and_no_token_id():
    backend = ScriptedBackend([Entry("", "abcdefghij")])
    pieces = list(backend.generate(request_at("║"), CancelToken()))
    assert [len(piece.text) for piece in pieces] == [PIECE_CHARACTERS, PIECE_CHARACTERS, 2]
    assert all(piece.token_id is None for piece in pieces)
    assert complete(request_at("║"), backend, CancelToken()).token_ids is None


def test_a_cancel_ends_a_running_delay():
    cancel = CancelToken()
    backend = ScriptedBackend([Entry("", "abcdefghij", NEVER_MS)])
    pieces = iter(backend.generate(request_at("║"), cancel))
    assert next(pieces).text == "abcd"
    timer = threading.Timer(0.05, cancel.cancel)
    timer.start()
    with pytest.raises(Cancelled):
        next(pieces)
    timer.join()


def test_a_deadline_ends_a_running_delay():
    backend = ScriptedBackend([Entry("", "abcdefghij", NEVER_MS)])
    result = complete(request_at("║", deadline_ms=20), backend, CancelToken())
    assert result.reason is Reason.DEADLINE


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("[{", "not valid JSON"),
        ({"after": "", "text": ""}, "must be a JSON list"),
        ([{"after": "", "text": "x"}, "y"], "entry 2"),
        ([{"text": "x"}], "needs `after`"),
        ([{"after": "", "text": 5}], "needs `text`"),
        ([{"after": "", "text": "x", "delay": 5}], "unknown key `delay`"),
        ([{"after": "", "text": "x", "delay_ms": "5"}], "needs `delay_ms`"),
        ([{"after": "", "text": "x", "delay_ms": -1}], "needs `delay_ms`"),
        ([{"after": "", "text": "x", "delay_ms": True}], "needs `delay_ms`"),
    ],
)
def test_a_bad_script_is_refused_with_the_entry_at_fault(tmp_path, content, part):
    path = script(tmp_path, content)
    with pytest.raises(SettingsError, match=part) as caught:
        ScriptedBackend.from_file(path)
    assert str(path) in str(caught.value)


def test_a_missing_or_binary_script_is_refused(tmp_path):
    with pytest.raises(SettingsError, match="cannot be read"):
        ScriptedBackend.from_file(tmp_path / "absent.json")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match="not valid JSON"):
        ScriptedBackend.from_file(tmp_path / "binary.json")
