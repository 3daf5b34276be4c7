"""How requests are answered, whatever the document, the engine and the client do meanwhile."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lsp_client import ServerProcess, at

COMPLETE = "textDocument/inlineCompletion"
SLOW = {"after": "slow", "text": "abcd" * 50, "delay_ms": 100}
SCRIPT = [
    SLOW,
    {"after": "crlf", "text": "a\r\nb\r\n\n"},
    {"after": "", "text": "hello()"},
]

# Runs our server with an engine that prints wherever it can, or that fails.
NOISY = """
import os, subprocess, sys
from lsp_server.backend.scripted import ScriptedBackend
generate = ScriptedBackend.generate
def noisy(self, request, cancel):
    print("printed by python")
    os.write(1, b"printed by a library\\n")
    subprocess.run([sys.executable, "-c", "print('printed by a child'); print(repr(input()))"])
    if request.snapshot.text.startswith("fail"):
        raise ValueError("text of the user: " + request.snapshot.text)
    return generate(self, request, cancel)
ScriptedBackend.generate = noisy
from lsp_server.__main__ import main
sys.exit(main())
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("script") / "script.json"
    path.write_text(json.dumps(SCRIPT))
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def client(script: Path, home: str) -> Iterator[ServerProcess]:
    with ServerProcess("--model", f"scripted:{script}", env={"TABAHEAD_HOME": home}) as client:
        client.initialize()
        yield client
        assert client.stop() == 0
        assert client.garbage == []


@pytest.fixture
def uri(client: ServerProcess, request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"file:///{request.node.name}.py"
    yield name
    client.notify("textDocument/didClose", {"textDocument": {"uri": name}})


def test_a_document_that_is_not_open_gets_nothing_and_says_why(client: ServerProcess) -> None:
    for uri in ("untitled:Untitled-1", "file:///", "", "not a uri", "file:///a%2Fb%ZZ"):
        assert client.complete(uri, 3, 5) == {"items": []}
        assert client.explain(uri)["reason"] == "not-open"


@pytest.mark.parametrize("uri", ["untitled:Untitled-1", "file:///", "", "file:///%ZZ", "x:y"])
def test_odd_uris_are_documents_like_any_other(client: ServerProcess, uri: str) -> None:
    client.open(uri, "x = ")
    client.open(uri, "yy = ")
    assert client.complete(uri, 0, 5)["items"]
    client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
    assert client.complete(uri, 0, 5) == {"items": []}
    client.change(uri, 2, "z")
    assert client.explain(uri)["reason"] == "not-open"


def test_nothing_is_explained_before_the_first_answer(client: ServerProcess, uri: str) -> None:
    client.open(uri, "x = ")
    assert client.explain(uri) is None


def test_explain_has_reason_text_and_figures(client: ServerProcess, uri: str) -> None:
    client.open(uri, "x = ")
    client.complete(uri, 0, 4)
    explained = client.explain(uri)
    assert explained["reason"] is None
    assert explained["text"] == "hello()"
    assert explained["stats"]["tokens"] > 0
    assert explained["message"] == "There is a suggestion here."
    assert set(explained) == {"reason", "text", "stats", "message"}


def test_a_column_beyond_the_line_is_its_end(client: ServerProcess, uri: str) -> None:
    client.open(uri, "x = \r\ny")
    (item,) = client.complete(uri, 0, 2**31 - 1)["items"]
    assert item["range"]["start"] == {"line": 0, "character": 4}


def test_a_line_beyond_the_text_gets_an_empty_list(client: ServerProcess, uri: str) -> None:
    client.open(uri, "x = \n")
    assert client.complete(uri, 2, 0) == {"items": []}
    explained = client.explain(uri)
    assert explained["reason"] == "empty"
    assert "beyond the end" in explained["message"]


def test_texts_have_line_feeds_only_and_no_last_one(client: ServerProcess, uri: str) -> None:
    client.open(uri, "def f():\r\n    crlf")
    (item,) = client.complete(uri, 1, 8)["items"]
    assert "\r" not in item["insertText"]
    assert item["insertText"]
    assert not item["insertText"].endswith("\n")


def test_positions_in_crlf_and_emoji_text_follow_incremental_edits(
    client: ServerProcess, uri: str
) -> None:
    client.open(uri, "a = '😋'\r\nb = ")
    client.change(uri, 2, "😋\r\n", (0, 7, 0, 7))
    cursor = {"line": 2, "character": 4}
    (item,) = client.complete(uri, 2, 4)["items"]
    assert item["range"] == {"start": cursor, "end": cursor}
    client.change(uri, 3, "", (0, 5, 2, 0))
    (item,) = client.complete(uri, 0, 9)["items"]
    assert item["range"]["start"] == {"line": 0, "character": 9}


def test_the_selected_entry_is_extended_over_its_own_range(client: ServerProcess, uri: str) -> None:
    client.open(uri, "x.he")
    where = {"start": {"line": 0, "character": 2}, "end": {"line": 0, "character": 4}}
    selected = {"range": where, "text": "heading"}
    (item,) = client.complete(uri, 0, 4, selected=selected)["items"]
    assert item["range"] == where
    assert item["insertText"] == "headinghello()"
    elsewhere = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}}
    selected = {"range": elsewhere, "text": "xylophone"}
    assert client.complete(uri, 0, 4, selected=selected) == {"items": []}
    assert client.explain(uri)["reason"] == "selected-mismatch"


def test_an_edit_during_the_work_makes_the_answer_null(client: ServerProcess, uri: str) -> None:
    client.open(uri, "slow")
    request = client.start(COMPLETE, at(uri, 0, 4, kind=1))
    client.change(uri, 2, "\n", (0, 4, 0, 4))
    assert client.response(request)["result"] is None
    assert client.explain(uri)["reason"] == "stale"


def test_the_snapshot_is_of_the_moment_of_the_request(client: ServerProcess, uri: str) -> None:
    """Request and edit arrive in one write; the edit must not slip into the request's text."""
    client.open(uri, "x = ")
    edit = {
        "textDocument": {"uri": uri, "version": 2},
        "contentChanges": [{"text": "y" * 50}],
    }
    bodies = [
        json.dumps({"jsonrpc": "2.0", "id": "both", "method": COMPLETE, "params": at(uri, 0, 4)}),
        json.dumps({"jsonrpc": "2.0", "method": "textDocument/didChange", "params": edit}),
    ]
    data = "".join(f"Content-Length: {len(body)}\r\n\r\n{body}" for body in bodies)
    client.send_bytes(data.encode())
    assert client.response("both")["result"] is None
    assert client.explain(uri)["reason"] == "stale"


def test_closing_during_the_work_makes_the_answer_null(client: ServerProcess, uri: str) -> None:
    client.open(uri, "slow")
    request = client.start(COMPLETE, at(uri, 0, 4, kind=1))
    client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
    assert client.response(request)["result"] is None
    assert client.explain(uri)["reason"] == "not-open"


def test_a_newer_request_of_the_document_makes_the_older_null(
    client: ServerProcess, uri: str
) -> None:
    client.open(uri, "slow\nx = ")
    first = client.start(COMPLETE, at(uri, 0, 4, kind=1))
    second = client.start(COMPLETE, at(uri, 1, 4))
    assert client.response(first)["result"] is None
    assert client.response(second)["result"]["items"]
    assert client.explain(uri)["reason"] is None


def test_the_version_that_copilot_clients_send_is_kept_and_compared(
    client: ServerProcess, uri: str
) -> None:
    client.open(uri, "x = ", version=7)
    params = at(uri, 0, 4, formattingOptions={"tabSize": 4, "insertSpaces": True})
    for version, stale in ((6, True), (7, False)):
        params["textDocument"] = {"uri": uri, "version": version}
        result = client.request(COMPLETE, params)["result"]
        assert (result is None) is stale
    params["formattingOptions"] = {"tabSize": "wide", "insertSpaces": 3}
    assert client.request(COMPLETE, params)["result"]["items"]


def test_a_hundred_requests_at_once_are_all_answered(client: ServerProcess, uri: str) -> None:
    client.open(uri, "slow\nx = ")
    requests = [client.start(COMPLETE, at(uri, n % 2, 4, kind=1 + n % 2)) for n in range(100)]
    for request in requests[::7]:
        client.notify("$/cancelRequest", {"id": request})
    for n, request in enumerate(requests):
        response = client.response(request)
        assert "result" in response or (n % 7 == 0 and response["error"]["code"] == -32800)


def test_a_file_of_50_mb_is_too_large_and_does_not_slow_the_others(
    client: ServerProcess, uri: str
) -> None:
    client.open("file:///huge.py", "x = 1  # é\n" * 5_000_000)
    client.open(uri, "x = ")
    assert client.complete(uri, 0, 4)["items"]
    for n in range(20):
        client.change("file:///huge.py", 2 + n, "y", (100_000, 0, 100_000, 0))
    assert client.complete("file:///huge.py", 100_000, 1) == {"items": []}
    assert client.explain("file:///huge.py")["reason"] == "too-large"
    assert client.explain("file:///huge.py")["stats"]["passes"] == 0
    client.notify("textDocument/didClose", {"textDocument": {"uri": "file:///huge.py"}})


def test_a_binary_file_is_refused(client: ServerProcess, uri: str) -> None:
    client.open(uri, "\x7fELF\0\0x = ")
    assert client.complete(uri, 0, 10) == {"items": []}
    assert client.explain(uri)["reason"] == "binary"


def test_a_file_of_secrets_is_refused(client: ServerProcess) -> None:
    client.open("file:///project/.env", "KEY = ")
    assert client.complete("file:///project/.env", 0, 6) == {"items": []}
    assert client.explain("file:///project/.env")["reason"] == "secret"


def test_lone_surrogates_are_no_crash(client: ServerProcess, uri: str) -> None:
    client.open(uri, "a = '\ud83d' # \udc00\nx = ")
    client.change(uri, 2, "\udc00", (0, 6, 0, 6))
    assert client.complete(uri, 1, 4)["items"]


@pytest.fixture(scope="module")
def noisy(script: Path, home: str) -> Iterator[ServerProcess]:
    command = (sys.executable, "-P", "-c", NOISY)
    arguments = ("--model", f"scripted:{script}")
    with ServerProcess(*arguments, command=command, env={"TABAHEAD_HOME": home}) as client:
        client.initialize()
        yield client


def test_nothing_that_is_printed_reaches_the_protocol(noisy: ServerProcess) -> None:
    noisy.open("file:///a.py", "x = ")
    assert noisy.complete("file:///a.py", 0, 4)["items"]
    assert noisy.complete("file:///a.py", 0, 4)["items"]
    assert noisy.garbage == []


def test_an_engine_that_fails_is_an_answer_and_no_end(noisy: ServerProcess) -> None:
    noisy.open("file:///b.py", "fail = ")
    assert noisy.complete("file:///b.py", 0, 7) == {"items": []}
    explained = noisy.explain("file:///b.py")
    assert explained["reason"] == "engine-error"
    assert noisy.complete("file:///a.py", 0, 4)["items"]
    assert noisy.stop() == 0
    errors = noisy.stderr()
    for source in ("python", "a library", "a child"):
        assert f"printed by {source}" in errors
    assert "completion failed: ValueError" in errors
    assert "text of the user" not in errors, "user code is not logged"


def test_an_unknown_setting_is_a_warning_with_the_nearest_name(script: Path, home: str) -> None:
    with ServerProcess("--model", f"scripted:{script}", env={"TABAHEAD_HOME": home}) as client:
        client.initialize(initializationOptions={"max_token": 5})
        warning = client.notification("window/showMessage")
        assert warning["type"] == 2
        assert "max_tokens" in warning["message"]
        assert client.stop() == 0


def test_a_missing_model_is_told_once_and_answers_say_so(tmp_path: Path) -> None:
    home = {"TABAHEAD_HOME": str(tmp_path)}
    with ServerProcess("--model", str(tmp_path / "no-model"), env=home) as client:
        client.initialize()
        client.open("file:///a.py", "x = ")
        told = client.notification("window/showMessage")
        assert told["type"] == 1
        for _ in range(3):
            assert client.complete("file:///a.py", 0, 4) == {"items": []}
        explained = client.explain("file:///a.py")
        assert explained["reason"] == "model-missing"
        assert explained["message"] in told["message"]
        assert not any(m.get("method") == "window/showMessage" for m in client.messages)
        assert client.stop() == 0


def test_after_an_edit_that_cannot_be_read_nothing_is_completed_until_the_text_comes_whole(
    client: ServerProcess, uri: str
) -> None:
    client.open(uri, "x = ")
    assert client.complete(uri, 0, 4)["items"]
    broken = {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": 7}]}
    client.notify("textDocument/didChange", broken)
    assert client.complete(uri, 0, 4) is None
    assert client.explain(uri)["reason"] == "stale"
    whole = {"textDocument": {"uri": uri, "version": 3}, "contentChanges": [{"text": "y = "}]}
    client.notify("textDocument/didChange", whole)
    assert client.complete(uri, 0, 4)["items"]
