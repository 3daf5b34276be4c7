"""A server in a process of its own, as editors run it, and enough of a client to speak to it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lsp_server import probe
from lsp_server.errors import InferenceError
from lsp_server.paths import paths

AUTOMATIC = 2
"""Trigger kind of requests while typing."""
_TIMEOUT = 120.0


class StdioClient:
    """Requests and notifications, one at a time."""

    def __init__(self, model: str, environment: Mapping[str, str] | None = None) -> None:
        """`environment` is added to this process's own."""
        command = [sys.executable, "-P", "-m", "lsp_server", "--stdio", "--model", model]
        self.start = time.perf_counter()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **(environment or {})},
        )
        self._next_id = 0

    def start_session(self, options: Mapping[str, Any]) -> None:
        """Shake hands, with positions in code points, and wait until the model is there.

        Raises InferenceError where none comes.
        """
        capabilities = {"general": {"positionEncodings": ["utf-32"]}}
        parameters = {"processId": None, "rootUri": None, "capabilities": capabilities}
        self.request("initialize", {**parameters, "initializationOptions": options})
        self.notify("initialized", {})
        uri = "untitled:first.py"
        self.open(uri, "python", "x = ")
        explained = {"reason": "model-loading"}
        while explained["reason"] == "model-loading":
            time.sleep(0.1)  # no message tells when the model is ready
            self.request("textDocument/inlineCompletion", asking(uri, 1, "x = ", 4))
            explained = self.request("tabahead/explain", {"textDocument": {"uri": uri}})
            late = time.perf_counter() - self.start > _TIMEOUT
            if late or explained["reason"] == "model-missing":
                raise InferenceError(explained.get("message") or "The model did not load in time.")
        self.close_document(uri)

    def open(self, uri: str, language_id: str, text: str) -> None:
        """As version 1."""
        document = {"uri": uri, "languageId": language_id, "version": 1, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": document})

    def close_document(self, uri: str) -> None:
        self.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    def request(self, method: str, params: Any) -> Any:
        """The result. Messages that are no answer to it are passed over."""
        request_id = self.new_id()
        self.send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
        while True:
            message = self.receive()
            if message.get("id") == request_id and "method" not in message:
                return message.get("result")

    def notify(self, method: str, params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def close(self) -> None:
        self.request("shutdown", None)
        self.notify("exit", None)
        self.process.wait(timeout=10)

    def new_id(self) -> int:
        """For a request that the caller sends by itself."""
        self._next_id += 1
        return self._next_id

    def send(self, *messages: Mapping[str, Any]) -> None:
        """Several leave together."""
        assert self.process.stdin is not None
        bodies = [json.dumps(message).encode() for message in messages]
        framed = [b"Content-Length: %d\r\n\r\n%s" % (len(body), body) for body in bodies]
        self.process.stdin.write(b"".join(framed))
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """The next message, whatever it is; raises InferenceError where the server has ended."""
        assert self.process.stdout is not None
        length = 0
        while (line := self.process.stdout.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        if not length:
            raise InferenceError("The server ended early; see its messages above.")
        message: dict[str, Any] = json.loads(self.process.stdout.read(length))
        return message


@contextmanager
def private_server(model: str) -> Iterator[StdioClient]:
    """With a probe, default settings, and the models and costs of this user, but counters of its
    own: what is asked here no user has typed."""
    if not model.startswith("scripted:"):
        from models import catalogue

        model = str(catalogue.resolve(model).absolute())
    with tempfile.TemporaryDirectory(prefix="tabahead-bench-") as home:
        if paths().costs.is_dir():
            shutil.copytree(paths().costs, Path(home) / "cache" / "costs")
        client = StdioClient(model, {"TABAHEAD_HOME": home, probe.SWITCH: "1"})
        try:
            yield client
        finally:
            client.process.kill()
            client.process.wait()


def asking(uri: str, version: int, text: str, offset: int) -> dict[str, Any]:
    """Parameters of `inlineCompletion` while typing, the cursor at `offset` of `text`."""
    return {
        "textDocument": {"uri": uri, "version": version},
        "position": position(text, offset),
        "context": {"triggerKind": AUTOMATIC},
    }


def change(text: str, start: int, deleted: int, new: str) -> dict[str, Any]:
    """A content change of `text`: `new` in place of `deleted` characters at `start`."""
    where = {"start": position(text, start), "end": position(text, start + deleted)}
    return {"range": where, "text": new}


def position(text: str, offset: int) -> dict[str, int]:
    """In code points, of a text with `\\n` line ends only."""
    line_start = text.rfind("\n", 0, offset) + 1
    return {"line": text.count("\n", 0, offset), "character": offset - line_start}


def offset_of(text: str, where: Mapping[str, int]) -> int:
    """The inverse of `position`."""
    start = 0
    for _ in range(where["line"]):
        start = text.index("\n", start) + 1
    return start + where["character"]
