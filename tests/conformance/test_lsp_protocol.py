"""JSON-RPC and lifecycle as the specification has them, spoken raw to a real process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lsp_client import ServerProcess, at

URI = "file:///main.py"
COMPLETE = "textDocument/inlineCompletion"
SCRIPT = [
    {"after": "slow", "text": "abcdefgh" * 20, "delay_ms": 200},
    {"after": "secret_word", "text": " is shown"},
    {"after": "", "text": "hello()"},
]


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("script") / "script.json"
    path.write_text(json.dumps(SCRIPT))
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("home"))


@pytest.fixture
def fresh(script: Path, home: str) -> Iterator[ServerProcess]:
    with ServerProcess("--model", f"scripted:{script}", env={"TABAHEAD_HOME": home}) as client:
        yield client


@pytest.fixture(scope="module")
def client(script: Path, home: str) -> Iterator[ServerProcess]:
    """One server for all tests that leave it as it was."""
    with ServerProcess("--model", f"scripted:{script}", env={"TABAHEAD_HOME": home}) as client:
        client.initialize()
        client.open(URI, "x = \n")
        yield client
        assert client.complete(URI, 0, 4)["items"], "still alive after everything"
        assert client.stop() == 0
        assert client.garbage == []
        assert "x = " not in client.stderr()


def test_capabilities_have_inline_completion_with_options(fresh: ServerProcess) -> None:
    result = fresh.initialize()["result"]
    capabilities = result["capabilities"]
    assert capabilities["inlineCompletionProvider"] == {}
    assert capabilities["textDocumentSync"] == {"openClose": True, "change": 2}
    commands = capabilities["executeCommandProvider"]["commands"]
    assert commands == [
        "tabahead.didAcceptCompletionItem",
        "tabahead.didPartiallyAcceptCompletionItem",
        "tabahead.fetchModel",
        "tabahead.pause",
        "tabahead.resume",
    ]
    assert result["serverInfo"]["name"] == "tabahead"


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["utf-8", "utf-16", "utf-32"], "utf-8"),
        (["utf-16"], "utf-16"),
        (["utf-32", "utf-16"], "utf-32"),
        (["utf-7", "utf-32"], "utf-32"),
        (["utf-7"], "utf-16"),
        (None, "utf-16"),
    ],
)
def test_positions_count_in_the_clients_first_known_encoding(
    fresh: ServerProcess, offered: list[str] | None, chosen: str
) -> None:
    general = {} if offered is None else {"positionEncodings": offered}
    result = fresh.initialize(capabilities={"general": general})["result"]
    assert result["capabilities"]["positionEncoding"] == chosen
    fresh.open(URI, "é😋 = \nz")
    units = {"utf-8": 9, "utf-16": 6, "utf-32": 5}[chosen]
    (item,) = fresh.complete(URI, 0, units)["items"]
    assert item["range"]["start"] == item["range"]["end"] == {"line": 0, "character": units}
    where = (0, units, 1, 1)
    fresh.change(URI, 2, " secret_word", where)
    (item,) = fresh.complete(URI, 0, units + 12)["items"]
    assert item["insertText"] == " is shown"


def test_an_item_has_range_text_and_a_command_of_our_own(client: ServerProcess) -> None:
    cursor = {"line": 0, "character": 4}
    for kind in (1, 2):
        (item,) = client.complete(URI, 0, 4, kind=kind)["items"]
        assert item["insertText"] == "hello()"
        assert item["range"] == {"start": cursor, "end": cursor}
        assert item["command"]["command"] == "tabahead.didAcceptCompletionItem"
        accepted = client.request("workspace/executeCommand", item["command"])
        assert accepted["result"] is None


BAD_PARAMS: dict[str, Any] = {
    "none": None,
    "a list": [],
    "a string": "x",
    "no document": {**at(URI, 0, 4), "textDocument": None},
    "a uri that is a number": {**at(URI, 0, 4), "textDocument": {"uri": 4}},
    "no position": {**at(URI, 0, 4), "position": None},
    "a line that is text": {**at(URI, 0, 4), "position": {"line": "0", "character": 0}},
    "a line that is true": {**at(URI, 0, 4), "position": {"line": True, "character": 0}},
    "half a line": {**at(URI, 0, 4), "position": {"line": 0.5, "character": 0}},
    "a negative line": at(URI, -1, 4),
    "a column beyond integers": at(URI, 0, 2**31),
    "no context": {**at(URI, 0, 4), "context": None},
    "no trigger kind": {**at(URI, 0, 4), "context": {}},
    "trigger kind 0": at(URI, 0, 4, kind=0),
    "trigger kind 3": at(URI, 0, 4, kind=3),
    "a selected item without range": at(URI, 0, 4, selected={"text": "x"}),
}


@pytest.mark.parametrize("name", BAD_PARAMS)
def test_malformed_parameters_are_answered_with_invalid_params(
    client: ServerProcess, name: str
) -> None:
    response = client.request(COMPLETE, BAD_PARAMS[name])
    assert response["error"]["code"] == -32602, response
    assert not any(m.get("method") == "window/showMessage" for m in client.messages)


def test_numbers_with_a_decimal_point_pass_if_they_are_whole(client: ServerProcess) -> None:
    params = {**at(URI, 0, 4), "position": {"line": 0.0, "character": 4.0}}
    assert client.request(COMPLETE, params)["result"]["items"]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"nonsense", b"\xff\xfe{}", b'{"jsonrpc"', b"[" * 100_000]
)
def test_what_is_not_json_is_answered_with_parse_error(client: ServerProcess, body: bytes) -> None:
    client.send_body(body)
    response = client.wait_for(lambda message: "error" in message)
    assert response["id"] is None
    assert response["error"]["code"] == -32700


@pytest.mark.parametrize(
    "message",
    [
        [],
        3,
        "text",
        {},
        {"id": 5, "method": "shutdown"},
        {"jsonrpc": "1.0", "id": 5, "method": "shutdown"},
        {"jsonrpc": "2.0", "id": None, "method": "shutdown"},
        {"jsonrpc": "2.0", "id": [5], "method": "shutdown"},
        {"jsonrpc": "2.0", "id": True, "method": "shutdown"},
        {"jsonrpc": "2.0", "id": 5, "method": 7},
        {"jsonrpc": "2.0", "method": 7},
    ],
)
def test_what_is_no_request_is_answered_with_invalid_request(
    client: ServerProcess, message: Any
) -> None:
    client.send(message)
    response = client.wait_for(lambda message: "error" in message)
    assert response["error"]["code"] == -32600


def test_a_request_of_an_unknown_method_is_answered_so(client: ServerProcess) -> None:
    for method in ("textDocument/hover", "foo/bar", "$/foo", ""):
        response = client.request(method, {"type_name": "x", "a-b": 1})
        assert response["error"]["code"] == -32601


def test_odd_notifications_and_responses_leave_the_server_alive(client: ServerProcess) -> None:
    client.notify("foo/bar", {"x": 1})
    client.notify("$/foo")
    client.notify("textDocument/didChange", {"textDocument": {"uri": "file:///elsewhere.py"}})
    client.notify("textDocument/didOpen", None)
    client.notify("textDocument/didClose", {})
    client.notify("$/cancelRequest", {"id": None})
    client.notify("$/cancelRequest", {})
    client.notify("window/workDoneProgress/cancel", {"token": "none"})
    client.notify("workspace/didChangeWorkspaceFolders", {"event": {"added": [], "removed": []}})
    client.send({"jsonrpc": "2.0", "id": 77, "result": None})
    client.send({"jsonrpc": "2.0", "id": "x", "error": {"code": 1, "message": "m"}})
    client.send({"jsonrpc": "2.0", "id": ["x"], "error": 3})
    assert client.complete(URI, 0, 4)["items"]


@pytest.mark.parametrize("method", [{}, {"method": None}, {"method": 5}])
def test_a_request_without_a_method_is_refused(client: ServerProcess, method: dict) -> None:
    client.send({"jsonrpc": "2.0", "id": "m", **method})
    assert client.response("m")["error"]["code"] == -32600


def test_exit_as_a_request_is_refused_and_ends_nothing(client: ServerProcess) -> None:
    assert client.request("exit")["error"]["code"] == -32601
    assert client.complete(URI, 0, 4)["items"]


def test_header_names_are_case_insensitive(client: ServerProcess) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": "low", "method": "foo"}).encode()
    client.send_bytes(b"content-type: x\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
    assert client.response("low")["error"]["code"] == -32601


def test_an_unknown_command_is_invalid_and_an_old_item_is_no_error(client: ServerProcess) -> None:
    params = {"command": "other.command", "arguments": []}
    assert client.request("workspace/executeCommand", params)["error"]["code"] == -32602
    for arguments in ([], ["no-such-item"], [4], ["a", "b"]):
        params = {"command": "tabahead.didAcceptCompletionItem", "arguments": arguments}
        assert client.request("workspace/executeCommand", params)["result"] is None


def test_a_cancel_while_running_is_answered_with_request_cancelled(client: ServerProcess) -> None:
    client.open("file:///slow.py", "slow")
    request = client.start(COMPLETE, at("file:///slow.py", 0, 4))
    client.notify("$/cancelRequest", {"id": request})
    assert client.response(request)["error"]["code"] == -32800
    assert client.explain("file:///slow.py")["reason"] == "cancelled"


def test_a_cancel_after_the_answer_is_silent(fresh: ServerProcess) -> None:
    fresh.initialize()
    fresh.open(URI, "x = ")
    request = fresh.start(COMPLETE, at(URI, 0, 4))
    assert fresh.response(request)["result"]["items"]
    fresh.notify("$/cancelRequest", {"id": request})
    assert fresh.complete(URI, 0, 4)["items"]
    assert fresh.stop() == 0
    assert fresh.stderr() == ""
    assert fresh.messages == []


def test_before_initialize_requests_are_answered_and_notifications_dropped(
    fresh: ServerProcess,
) -> None:
    for method in (COMPLETE, "shutdown", "foo/bar"):
        assert fresh.request(method, at(URI, 0, 0))["error"]["code"] == -32002
    fresh.open(URI, "x = ")
    fresh.initialize()
    assert fresh.explain(URI)["reason"] == "not-open"
    assert fresh.request("initialize", {"capabilities": {}})["error"]["code"] == -32600


def test_malformed_initialize_is_refused_and_a_right_one_may_follow(fresh: ServerProcess) -> None:
    assert fresh.request("initialize", None)["error"]["code"] == -32602
    assert fresh.request("initialize", {"processId": "x"})["error"]["code"] == -32602
    strange = {
        "processId": None,
        "capabilities": {
            "general": {"positionEncodings": [{}, 3]},
            "textDocument": "?",
            "window": None,
        },
        "workspaceFolders": "none",
        "rootUri": "file://[x",
        "initializationOptions": [1],
    }
    assert "result" in fresh.request("initialize", strange)


def test_after_shutdown_requests_are_invalid_and_exit_gives_0(fresh: ServerProcess) -> None:
    fresh.initialize()
    fresh.open("file:///slow.py", "slow")
    request = fresh.start(COMPLETE, at("file:///slow.py", 0, 4))
    assert fresh.request("shutdown")["result"] is None
    assert fresh.response(request)["error"]["code"] == -32800, "what was under way is answered"
    for method in (COMPLETE, "shutdown", "initialize", "foo"):
        assert fresh.request(method, {})["error"]["code"] == -32600
    fresh.notify("exit")
    assert fresh.process.wait(20) == 0
    assert fresh.stderr() == ""


def test_exit_without_shutdown_gives_1(fresh: ServerProcess) -> None:
    fresh.initialize()
    fresh.notify("exit")
    assert fresh.process.wait(20) == 1


def test_exit_before_initialize_gives_1(fresh: ServerProcess) -> None:
    fresh.notify("exit")
    assert fresh.process.wait(20) == 1


def test_shutdown_without_parameters_and_exit_in_one_write(fresh: ServerProcess) -> None:
    """Answers that are under way still arrive before the process ends."""
    fresh.initialize()
    fresh.open("file:///slow.py", "slow")
    request = fresh.start(COMPLETE, at("file:///slow.py", 0, 4))
    bodies = (
        b'{"jsonrpc":"2.0","id":"s","method":"shutdown"}',
        b'{"jsonrpc":"2.0","method":"exit"}',
    )
    fresh.send_bytes(b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(b), b) for b in bodies))
    assert fresh.response("s")["result"] is None
    assert fresh.response(request)["error"]["code"] == -32800
    assert fresh.process.wait(20) == 0
