"""A server in a process of its own, as editors run it, and enough of a client to speak to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from lsp_server.errors import InferenceError


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
