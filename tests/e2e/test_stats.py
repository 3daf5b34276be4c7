"""From keys in an editor to the figures of `tabahead stats`; and the status on the way."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.lsp_client import ServerProcess, environment

URI = "file:///shop/billing.py"
HEAD = "def total(prices):\n    "
SCRIPT = [
    {"after": "total(prices):\n    ", "text": "return sum(prices)"},
    {"after": "x = ", "text": "first second third"},
    {"after": "", "text": ""},
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.json"
    path.write_text(json.dumps(SCRIPT))
    return f"scripted:{path}"


def stats(home: Path, *options: str) -> str:
    command = [sys.executable, "-P", "-m", "lsp_server", "stats", *options]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(TABAHEAD_HOME=str(home)),
        check=True,
    )
    return done.stdout


def run_command(client: ServerProcess, command: str, *arguments: Any) -> None:
    params = {"command": command, "arguments": list(arguments)}
    assert "error" not in client.request("workspace/executeCommand", params)


def item_at(client: ServerProcess, line: int, character: int) -> tuple[str, str]:
    """Text and id of the item there."""
    (item,) = client.complete(URI, line, character)["items"]
    return item["insertText"], item["command"]["arguments"][0]


def work(client: ServerProcess) -> None:
    """One item taken whole, one by word and then by nothing more, one answer without an item."""
    client.open(URI, HEAD)
    text, item_id = item_at(client, 1, 4)
    client.change(URI, 2, text, (1, 4, 1, 4))
    run_command(client, "tabahead.didAcceptCompletionItem", item_id)
    client.change(URI, 3, "\nx = ", (1, 22, 1, 22))
    _, item_id = item_at(client, 2, 4)
    client.change(URI, 4, "first", (2, 4, 2, 4))
    run_command(client, "tabahead.didPartiallyAcceptCompletionItem", item_id, 5)
    client.change(URI, 5, "?", (0, 0, 0, 0))
    assert client.complete(URI, 0, 1)["items"] == []


def test_what_was_shown_and_taken_is_what_stats_tells(home: Path, script: str) -> None:
    with ServerProcess("--model", script, env={"TABAHEAD_HOME": str(home)}) as client:
        client.initialize()
        work(client)
        assert client.stop() == 0
    found = json.loads(stats(home, "--json"))
    expected = {
        "requests": 3,
        "shown": 2,
        "accepted": 1,
        "partially_accepted": 1,
        "taken": 2,
        "parts.word": 1,
        "characters": len("return sum(prices)") + len("first"),
        "keystrokes_saved": len("return sum(prices)") + len("first") - 2,
    }
    assert {name: found[name] for name in expected} == expected
    assert sum(found["empty"].values()) == 1
    assert sum(latency["count"] for latency in found["latency"].values()) == 2
    assert found["tokens"] > 0
    assert [day["shown"] for day in found["days"] if day["shown"]] == [2]
    written = b"".join(p.read_bytes() for p in (home / "state").iterdir())
    for word in (b"prices", b"first", b"billing"):
        assert word not in written, "numbers only"

    assert "accepted, whole or in part" in stats(home)
    page = home / "page.html"
    stats(home, "--html", str(page))
    tree = ElementTree.fromstring(page.read_text("utf-8").removeprefix("<!DOCTYPE html>"))
    assert tree.findall(".//section[@id='latency']/svg")
    stats(home, "--reset")
    assert json.loads(stats(home, "--json"))["requests"] == 0


def test_the_counters_of_two_servers_come_together(home: Path, script: str) -> None:
    for _ in range(2):
        with ServerProcess("--model", script, env={"TABAHEAD_HOME": str(home)}) as client:
            client.initialize()
            work(client)
            assert client.stop() == 0
    assert json.loads(stats(home, "--json"))["requests"] == 6


def test_what_was_counted_is_kept_once_shutdown_is_answered(home: Path, script: str) -> None:
    """Some clients then kill the server at once."""
    with ServerProcess("--model", script, env={"TABAHEAD_HOME": str(home)}) as client:
        client.initialize()
        work(client)
        client.request("shutdown")
        client.process.kill()
    assert json.loads(stats(home, "--json"))["requests"] == 3


def test_a_client_that_asks_for_it_is_told_the_status(home: Path, script: str) -> None:
    with ServerProcess("--model", script, env={"TABAHEAD_HOME": str(home)}) as client:
        client.initialize(initializationOptions={"status": True})
        client.open(URI, HEAD)
        assert client.complete(URI, 1, 4)["items"]
        run_command(client, "tabahead.pause")
        assert client.complete(URI, 1, 4)["items"] == []
        assert client.explain(URI)["reason"] == "paused"
        run_command(client, "tabahead.resume")
        assert client.complete(URI, 1, 4)["items"]
        secret = "file:///shop/.env"
        client.open(secret, "TOKEN=")
        assert client.complete(secret, 0, 6)["items"] == []
        assert client.complete(URI, 1, 4)["items"]
        assert client.stop() == 0
        told = [m["params"] for m in client.messages if m.get("method") == "tabahead/status"]
    kinds = [status["kind"] for status in told]
    ready = kinds.index("normal")
    assert set(kinds[:ready]) <= {"busy"}
    # Ready, and again with the time of the first answer; then only what has changed.
    assert kinds[ready:] == ["normal", "normal", "inactive", "normal", "inactive", "normal"]
    assert "last answer in" in told[ready + 1]["message"]
    assert "tabahead.resume" in told[ready + 2]["message"]


def test_a_client_that_does_not_ask_hears_nothing_of_it(home: Path, script: str) -> None:
    with ServerProcess("--model", script, env={"TABAHEAD_HOME": str(home)}) as client:
        client.initialize()
        work(client)
        assert client.stop() == 0
        assert not [m for m in client.messages if m.get("method") == "tabahead/status"]
