"""What copilot.el and copilot.lua send, message for message, to a server in a process of its own.

The sequences in `copilot/` are written down by hand. Of an answer they name what the client reads;
`$name` stands for what it learned there and sends back, `$id` for its last request's.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lsp_server.statistics.file import read
from tests.lsp_client import TIMEOUT, ServerProcess

FILES = sorted((Path(__file__).parent / "copilot").glob("*.json"))
QUIET = {"didChangeStatus", "statusNotification", "window/logMessage"}
"""What these clients may hear without anything popping up."""


def filled(pattern: Any, names: dict[str, Any]) -> Any:
    """The message with what the client has learned in the places of names."""
    if isinstance(pattern, dict):
        return {key: filled(value, names) for key, value in pattern.items()}
    if isinstance(pattern, list):
        return [filled(value, names) for value in pattern]
    is_name = isinstance(pattern, str) and pattern.startswith("$")
    return names[pattern] if is_name else pattern


def check(found: Any, pattern: Any, names: dict[str, Any]) -> None:
    """An answer has what the pattern names; lists are as long."""
    if isinstance(pattern, dict):
        for key, value in pattern.items():
            check(found[key], value, names)
    elif isinstance(pattern, list):
        assert len(found) == len(pattern), found
        for one, value in zip(found, pattern, strict=True):
            check(one, value, names)
    elif isinstance(pattern, str) and pattern.startswith("$"):
        assert isinstance(found, str)
        assert found
        assert found == names.setdefault(pattern, found)
    else:
        assert found == pattern


def play(client: ServerProcess, steps: list[dict[str, Any]]) -> None:
    names: dict[str, Any] = {}
    for step in steps:
        if "heard" in step:
            wanted = step["params"].items()
            client.wait_for(
                lambda m, s=step, w=wanted: (
                    m.get("method") == s["heard"] and w <= m["params"].items()
                )
            )
            continue
        params = filled(step["params"], names)
        if "notify" in step:
            client.notify(step["notify"], params)
            continue
        names["$id"] = client.start(step["request"], params)
        answer = client.response(names["$id"])
        if "error" in step:
            assert answer["error"]["code"] == step["error"], step
        else:
            check(answer["result"], step["result"], names)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_client_is_served_and_what_it_does_is_counted(file: Path, tmp_path: Path) -> None:
    sequence = json.loads(file.read_text(encoding="utf-8"))
    script = tmp_path / "script.json"
    script.write_text(json.dumps(sequence["script"]))
    home = tmp_path / "home"
    with ServerProcess("--model", f"scripted:{script}", env={"TABAHEAD_HOME": str(home)}) as client:
        play(client, sequence["steps"])
        assert client.process.wait(TIMEOUT) == 0
        assert client.stderr() == ""
        assert {m["method"] for m in client.messages if "method" in m} <= QUIET
    totals = read(home / "state").totals
    assert {name: totals[name] for name in sequence["counted"]} == sequence["counted"]


def test_both_clients_are_there() -> None:
    assert [file.stem for file in FILES] == ["copilot.el", "copilot.lua"]
