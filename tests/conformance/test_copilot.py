"""Copilot's dialect, message by message, to the whole server with a script in its model's place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lsp_server.copilot import USER
from tests.lsp_client import RawClient, ServerProcess, at
from tests.wired_product import WiredClient, wired

URI = "file:///main.py"
ANNOUNCED = {
    "editorInfo": {"name": "Emacs", "version": "30.1"},
    "editorPluginInfo": {"name": "copilot.el", "version": "0.9.0"},
}
SCRIPT = [
    {"after": "slow", "text": "abcdefgh" * 20, "delay_ms": 200},
    {"after": "emoji = ", "text": "'😋😋' + done"},
    {"after": "def f(", "text": "one, two):\n    return one"},
    {"after": "", "text": "hello(one, two)"},
]


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("script") / "script.json"
    path.write_text(json.dumps(SCRIPT))
    return path


@pytest.fixture
def server(script: Path, tmp_path: Path) -> Iterator[WiredClient]:
    with wired(script, tmp_path) as client:
        yield client


@pytest.fixture
def client(server: WiredClient) -> WiredClient:
    """One that announces itself."""
    server.initialize(initializationOptions=ANNOUNCED)
    server.open(URI, "x = \n", version=3)
    return server


@pytest.fixture(scope="module")
def shared(script: Path) -> Iterator[ServerProcess]:
    """One server, in a process of its own, for all that leaves it as it was."""
    with ServerProcess("--model", f"scripted:{script}") as client:
        client.initialize(initializationOptions=ANNOUNCED)
        client.open(URI, "x = \n", version=3)
        yield client
        assert item_at(client, 0, 4), "still alive after everything"
        assert client.stop() == 0
        assert not [m for m in client.messages if m.get("method") == "window/showMessage"]


def doc(line: int, character: int, version: int | None = 3, **more: Any) -> dict[str, Any]:
    """Parameters of `getCompletions`, as copilot.lua sends them."""
    document = {
        "uri": URI,
        "version": version,
        "relativePath": "main.py",
        "insertSpaces": True,
        "tabSize": 4,
        "indentSize": 4,
        "position": {"line": line, "character": character},
    }
    return {"doc": {**document, **more}}


def completions(client: RawClient, *where: Any, method: str = "getCompletions") -> Any:
    return client.request(method, doc(*where))["result"]["completions"]


def result(client: RawClient, method: str, params: Any = None) -> Any:
    return client.request(method, params)["result"]


def item_at(client: RawClient, line: int, character: int) -> dict[str, Any]:
    (item,) = client.complete(URI, line, character)["items"]
    return item


@pytest.mark.parametrize("params", [None, {}, [], {"options": {"localChecksOnly": True}}])
def test_nobody_needs_to_sign_in(shared: ServerProcess, params: Any) -> None:
    assert result(shared, "checkStatus", params) == {"status": "OK", "user": USER}
    for method in ("signIn", "signInInitiate"):
        assert result(shared, method, params) == {"status": "AlreadySignedIn", "user": USER}
    assert result(shared, "signOut", params) == "OK"


def test_version_and_editor_are_exchanged(shared: ServerProcess) -> None:
    version = result(shared, "getVersion", {})["version"]
    assert version.count(".") >= 1
    assert result(shared, "setEditorInfo", ANNOUNCED) == "OK"


def test_completions_of_the_newer_form_take_version_and_formatting(shared: ServerProcess) -> None:
    params = {
        **at(URI, 0, 4, kind=1),
        "textDocument": {"uri": URI, "version": 3},
        "formattingOptions": {"tabSize": 8, "insertSpaces": False},
    }
    (item,) = result(shared, "textDocument/inlineCompletion", params)["items"]
    cursor = {"line": 0, "character": 4}
    assert item["insertText"] == "hello(one, two)"
    assert item["range"] == {"start": cursor, "end": cursor}
    assert [str(argument) for argument in item["command"]["arguments"]]


def test_a_version_that_is_not_the_open_one_is_stale(shared: ServerProcess) -> None:
    for version in (2, 4):
        params = {**at(URI, 0, 4), "textDocument": {"uri": URI, "version": version}}
        assert result(shared, "textDocument/inlineCompletion", params) is None
        assert shared.explain(URI)["reason"] == "stale"
        assert completions(shared, 0, 4, version) == []
        assert shared.explain(URI)["reason"] == "stale"
    assert len(completions(shared, 0, 4, None)) == 1


def test_an_older_completion_is_the_line_from_its_start(client: WiredClient) -> None:
    client.open(URI, "if x:\n    emoji = \n", version=7)
    (found,) = completions(client, 1, 12, 7)
    assert found.pop("uuid")
    assert found == {
        "text": "    emoji = '😋😋' + done",
        "displayText": "'😋😋' + done",
        "position": {"line": 1, "character": 12},
        "range": {"start": {"line": 1, "character": 0}, "end": {"line": 1, "character": 12}},
        "docVersion": 7,
    }


@pytest.mark.parametrize("behind", [")", " # 😋😋"])
def test_an_older_completion_of_one_line_goes_to_the_lines_end(
    client: WiredClient, behind: str
) -> None:
    client.open(URI, f"(emoji = {behind}\nx", version=1)
    (found,) = completions(client, 0, 9, 1)
    assert found["text"] == f"(emoji = '😋😋' + done{behind}"
    assert found["displayText"] == "'😋😋' + done"
    units = 9 + len(behind.encode("utf-16-le")) // 2
    assert found["range"]["end"] == {"line": 0, "character": units}
    params = {"uuid": found["uuid"], "acceptedLength": units + 20}
    assert result(client, "notifyAccepted", params) == "OK"
    assert client.totals()["accepted"] == 1


def test_text_behind_the_cursor_stays_or_is_replaced_in_the_older_form(
    client: WiredClient,
) -> None:
    client.open(URI, "def f()", version=1)
    (found,) = completions(client, 0, 6, 1, method="getCompletionsCycling")
    start, end = found["range"]["start"]["character"], found["range"]["end"]["character"]
    assert (start, end) == (0, len("def f()"))
    assert found["text"] == "def f(one, two):"
    assert found["displayText"] == "one, two):"


def test_cycling_asks_as_by_key(client: WiredClient) -> None:
    client.open(URI, "# a comment that goes on\n# and ", version=1)
    assert completions(client, 1, 6, 1) == []
    assert client.explain(URI)["reason"] == "prose"
    assert len(completions(client, 1, 6, 1, method="getCompletionsCycling")) == 1


def test_an_overtaken_request_of_the_older_form_is_answered_with_nothing(
    client: WiredClient,
) -> None:
    client.open(URI, "slow", version=1)
    first = client.start("getCompletions", doc(0, 4, 1))
    client.change(URI, 2, "x = ")
    assert client.response(first)["result"] == {"completions": []}
    assert len(completions(client, 0, 4, 2)) == 1


def test_a_cancelled_request_of_the_older_form_is_answered_so(client: WiredClient) -> None:
    client.open(URI, "slow", version=1)
    first = client.start("getCompletions", doc(0, 4, 1))
    client.notify("$/cancelRequest", {"id": first})
    assert client.response(first)["error"]["code"] == -32800


def test_shown_is_what_the_client_shows(client: WiredClient) -> None:
    """Of five answers, the first counts when it is sent: the client has not told of any yet."""
    item = item_at(client, 0, 4)
    for _ in range(2):
        client.notify("textDocument/didShowCompletion", {"item": {"command": item["command"]}})
    client.open(URI, "y = \nz = \n", version=1)
    unseen = [item_at(client, 0, 4), *completions(client, 1, 4, 1)]
    assert len(unseen) == 2
    client.open(URI, "y = \nz = \n\n", version=2)
    client.notify("textDocument/didShowCompletion", {"item": item_at(client, 0, 4)})
    (found,) = completions(client, 1, 4, 2)
    assert result(client, "notifyShown", {"uuid": found["uuid"]}) == "OK"
    assert result(client, "notifyRejected", {"uuids": [found["uuid"]]}) == "OK"
    assert client.totals() == {"shown": 3}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_parts_count_in_utf_16_whatever_positions_count_in(
    server: WiredClient, encoding: str
) -> None:
    """No Copilot client: those count in UTF-16 anyway."""
    server.initialize(capabilities={"general": {"positionEncodings": [encoding]}})
    server.open(URI, "emoji = ")
    item = item_at(server, 0, 8)
    part = {"item": {"command": {"arguments": item["command"]["arguments"]}}, "acceptedLength": 6}
    server.change(URI, 2, "'😋😋'", (0, 8, 0, 8))
    server.notify("textDocument/didPartiallyAcceptCompletion", part)
    assert server.totals() == {"shown": 1, "partially_accepted": 1, "characters": 4}


def test_acceptance_by_command_counts_once(client: WiredClient) -> None:
    item = item_at(client, 0, 4)
    client.change(URI, 4, item["insertText"], (0, 4, 0, 4))
    assert result(client, "workspace/executeCommand", item["command"]) is None
    client.notify("workspace/executeCommand", item["command"])
    command = "github.copilot.didAcceptCompletionItem"
    old = {"command": command, "arguments": item["command"]["arguments"]}
    assert result(client, "workspace/executeCommand", old) is None
    assert client.totals() == {"shown": 1, "accepted": 1, "characters": 15}


@pytest.mark.parametrize("method", ["workspace/executeCommand", "request"])
def test_acceptance_may_be_a_notification_of_a_command_known_by_heart(
    client: WiredClient, method: str
) -> None:
    item = item_at(client, 0, 4)
    command = "github.copilot.didAcceptCompletionItem"
    params = {"command": command, "arguments": item["command"]["arguments"]}
    if method == "request":
        client.request("workspace/executeCommand", params)
    else:
        client.notify(method, params)
    assert client.totals()["accepted"] == 1


def test_older_acceptance_counts_from_the_lines_start(client: WiredClient) -> None:
    client.open(URI, "emoji = ", version=1)
    (found,) = completions(client, 0, 8, 1)
    for length in (8, 8 + 6):
        params = {"uuid": found["uuid"], "acceptedLength": length}
        assert result(client, "notifyAccepted", params) == "OK"
    assert result(client, "notifyAccepted", {"uuid": found["uuid"]}) == "OK"
    assert result(client, "notifyAccepted", {"uuid": "no-such-item"}) == "OK"
    assert client.totals() == {
        "shown": 1,
        "partially_accepted": 1,
        "accepted": 1,
        "accepted_in_parts": 1,
        "characters": len("'😋😋' + done"),
    }


def test_the_length_of_the_whole_is_an_acceptance(client: WiredClient) -> None:
    client.open(URI, "emoji = ", version=1)
    (found,) = completions(client, 0, 8, 1)
    units = len(found["text"].encode("utf-16-le")) // 2
    params = {"uuid": found["uuid"], "acceptedLength": units}
    assert result(client, "notifyAccepted", params) == "OK"
    num_characters = len("'😋😋' + done")
    counted = {"shown": 1, "accepted": 1, "characters": num_characters}
    assert client.totals() == counted


def test_what_is_looked_at_may_be_told(
    client: WiredClient, caplog: pytest.LogCaptureFixture
) -> None:
    client.notify("textDocument/didFocus", {"textDocument": {"uri": URI}})
    client.notify("textDocument/didFocus", {})
    client.notify("textDocument/didFocus", {"textDocument": {"uri": "file:///not-open"}})
    assert item_at(client, 0, 4)
    assert caplog.text == ""


def test_a_client_that_announced_itself_is_told_how_things_stand(client: WiredClient) -> None:
    assert item_at(client, 0, 4)
    commands = ("tabahead.pause", "tabahead.resume")
    for command in commands:
        client.request("workspace/executeCommand", {"command": command})
    told, old = client.told("didChangeStatus"), client.told("statusNotification")
    assert {m["method"] for m in client.messages if "method" in m} == {
        "didChangeStatus",
        "statusNotification",
    }
    kinds = ["Normal", "Normal", "Normal", "Inactive", "Normal"]
    assert [status["kind"] for status in told] == kinds
    assert [status["busy"] for status in told] == [True, False, False, False, False]
    assert [status["status"] for status in old] == ["InProgress", *kinds[1:]]
    assert "tabahead.resume" in told[3]["message"]
    assert [status["message"] for status in old] == [status["message"] for status in told]


@pytest.mark.parametrize("options", [None, {}, {"editorInfo": {}}, {"editorPluginInfo": "x"}])
def test_others_hear_nothing_of_it(server: WiredClient, options: Any) -> None:
    server.initialize(initializationOptions=options)
    server.open(URI, "x = ")
    assert item_at(server, 0, 4)
    assert server.request("setEditorInfo", ANNOUNCED)["result"] == "OK"
    assert server.told("didChangeStatus") == server.told("statusNotification") == []


def test_a_client_that_announced_itself_counts_in_utf_16_whatever_it_offers(
    server: WiredClient,
) -> None:
    offered = {"general": {"positionEncodings": ["utf-8", "utf-16", "utf-32"]}}
    answer = server.initialize(initializationOptions=ANNOUNCED, capabilities=offered)
    assert answer["result"]["capabilities"]["positionEncoding"] == "utf-16"


def test_what_else_these_clients_send_is_no_setting_of_ours(server: WiredClient) -> None:
    proxy = {"host": "127.0.0.1", "port": 80}
    server.initialize(initializationOptions={**ANNOUNCED, "networkProxy": proxy})
    settings = {"github": {"copilot": {"selectedCompletionModel": ""}}, "http": {"proxy": "x"}}
    for section in (settings, {}, None, {"enableAutoCompletions": True, "disabledLanguages": []}):
        server.notify("workspace/didChangeConfiguration", {"settings": section})
    server.notify("$/setTrace", {"value": "off"})
    server.open(URI, "x = ")
    assert item_at(server, 0, 4)
    assert server.told("window/showMessage") == []


@pytest.mark.parametrize(
    "method",
    [
        *("getPanelCompletions", "textDocument/copilotPanelCompletion", "getPassiveCompletions"),
        *("textDocument/copilotInlineEdit", "conversation/create", "conversation/preconditions"),
        *("signInConfirm", "signInWithGithubToken", "recordTelemetryConsent", "copilot/models"),
    ],
)
def test_what_is_not_served_is_an_unknown_method_and_no_pop_up(
    shared: ServerProcess, method: str
) -> None:
    error = shared.request(method, {**doc(0, 4), "panelId": "p"})["error"]
    assert error["code"] == -32601
    assert method in error["message"]
    shared.notify("textDocument/didShowInlineEdit", {"item": {}})
    assert item_at(shared, 0, 4)
    assert not [m for m in shared.messages if m.get("method") == "window/showMessage"]


MALFORMED: list[tuple[str, Any, str]] = [
    *[(method, None, "params") for method in ("getCompletions", "getCompletionsCycling")],
    ("getCompletions", {}, "doc"),
    ("getCompletions", {"doc": []}, "doc"),
    ("getCompletions", doc(0, 4, uri=None), "doc.uri"),
    ("getCompletions", doc(0, 4, position=None), "doc.position"),
    ("getCompletions", doc(0, -4), "doc.position"),
    ("getCompletions", doc(0, 4, version="3"), "doc.version"),
    ("notifyShown", None, "params"),
    ("notifyShown", {"uuid": 3}, "uuid"),
    ("notifyAccepted", {}, "uuid"),
    ("notifyAccepted", {"uuid": "x", "acceptedLength": "3"}, "acceptedLength"),
    ("notifyAccepted", {"uuid": "x", "acceptedLength": 0}, "acceptedLength"),
    ("notifyRejected", {"uuids": "x"}, "uuids"),
    ("notifyRejected", {"uuids": [3]}, "uuids[0]"),
    ("textDocument/didFocus", [], "params"),
    ("textDocument/didFocus", {"textDocument": {}}, "textDocument.uri"),
    ("textDocument/didShowCompletion", {}, "item"),
    ("textDocument/didShowCompletion", {"item": {}}, "item.command"),
    ("textDocument/didShowCompletion", {"item": {"command": {}}}, "item.command.arguments[0]"),
    ("textDocument/didPartiallyAcceptCompletion", {"item": None}, "item"),
    (
        "textDocument/didPartiallyAcceptCompletion",
        {"item": {"command": {"arguments": ["x"]}}},
        "acceptedLength",
    ),
    (
        "textDocument/inlineCompletion",
        {**at(URI, 0, 4), "textDocument": {"uri": URI, "version": "3"}},
        "textDocument.version",
    ),
]


@pytest.mark.parametrize(("method", "params", "place"), MALFORMED)
def test_malformed_messages_are_refused_in_a_sentence(
    shared: ServerProcess, method: str, params: Any, place: str
) -> None:
    error = shared.request(method, params)["error"]
    assert error["code"] == -32602
    assert error["message"].startswith(f"{place} must ")


def test_malformed_notifications_are_logged_and_change_nothing(
    client: WiredClient, caplog: pytest.LogCaptureFixture
) -> None:
    client.notify("textDocument/didPartiallyAcceptCompletion", {"item": {"command": "x"}})
    client.notify("textDocument/didShowCompletion", None)
    assert item_at(client, 0, 4)
    assert caplog.text.count("ignored a malformed") == 2
