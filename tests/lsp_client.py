"""A raw client: sends any bytes, well-formed or not, and keeps every message that comes back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT = 20.0
_HOME = tempfile.TemporaryDirectory(prefix="tabahead-test-")


class RawClient:
    """Speaks over any pair of binary streams.

    Requests of the server are answered by `replies`; one that returns an error refuses, and None in
    the place of one never answers.
    """

    def __init__(
        self,
        send: Callable[[bytes], None],
        readline: Callable[[], bytes],
        read: Callable[[int], bytes],
    ) -> None:
        self._send, self._readline, self._read = send, readline, read
        self.messages: list[dict[str, Any]] = []
        self.garbage: list[bytes] = []
        """Header lines that are none: somebody printed into the protocol."""
        self.replies: dict[str, Callable[[Any], Any] | None] = {}
        self.closed = False
        self._news = threading.Condition()
        self._next_id = 1
        threading.Thread(target=self._listen, daemon=True).start()

    def send_bytes(self, data: bytes) -> None:
        self._send(data)

    def send_body(self, body: bytes) -> None:
        self._send(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

    def send(self, message: Any) -> None:
        self.send_body(json.dumps(message).encode())

    def notify(self, method: str, params: Any = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def start(self, method: str, params: Any = None) -> int:
        """Send a request and return its id."""
        msg_id, self._next_id = self._next_id, self._next_id + 1
        self.send({"jsonrpc": "2.0", "id": msg_id, "method": method, "params": params})
        return msg_id

    def request(self, method: str, params: Any = None, timeout: float = TIMEOUT) -> dict[str, Any]:
        """The whole response, with `result` or `error`."""
        return self.response(self.start(method, params), timeout)

    def response(self, msg_id: Any, timeout: float = TIMEOUT) -> dict[str, Any]:
        return self.wait_for(lambda m: m.get("id", 0) == msg_id and "method" not in m, timeout)

    def notification(self, method: str, timeout: float = TIMEOUT) -> Any:
        return self.wait_for(lambda m: m.get("method") == method, timeout).get("params")

    def wait_for(
        self, wanted: Callable[[dict[str, Any]], bool], timeout: float = TIMEOUT
    ) -> dict[str, Any]:
        """The first message that fits, taken out of `messages`."""
        end = time.monotonic() + timeout
        with self._news:
            while True:
                for index, message in enumerate(self.messages):
                    if wanted(message):
                        return self.messages.pop(index)
                left = end - time.monotonic()
                assert left > 0, f"no such message in {timeout} s; there are {self.messages}"
                assert not self.closed, f"the server has ended; there are {self.messages}"
                self._news.wait(min(left, 1.0))

    def initialize(self, **params: Any) -> dict[str, Any]:
        """The handshake; keywords replace parameters of `initialize`."""
        params = {"processId": None, "rootUri": None, "capabilities": {}, **params}
        response = self.request("initialize", params)
        self.notify("initialized", {})
        return response

    def open(self, uri: str, text: str, version: int = 1, language: str = "python") -> None:
        document = {"uri": uri, "languageId": language, "version": version, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": document})

    def change(self, uri: str, version: int, text: str, where: Sequence[int] | None = None) -> None:
        """One edit; `where` is start line, start character, end line, end character."""
        edit: dict[str, Any] = {"text": text}
        if where is not None:
            start_line, start, end_line, end = where
            edit["range"] = {
                "start": {"line": start_line, "character": start},
                "end": {"line": end_line, "character": end},
            }
        document = {"uri": uri, "version": version}
        self.notify("textDocument/didChange", {"textDocument": document, "contentChanges": [edit]})

    def complete(self, uri: str, line: int, character: int, **more: Any) -> Any:
        """The result of `inlineCompletion`."""
        return self.request("textDocument/inlineCompletion", at(uri, line, character, **more))[
            "result"
        ]

    def explain(self, uri: str) -> Any:
        return self.request("tabahead/explain", {"textDocument": {"uri": uri}})["result"]

    def _listen(self) -> None:
        while (message := self._next()) is not None:
            method = message.get("method")
            if "id" in message and method is not None:
                self._reply(message["id"], method, message.get("params"))
            with self._news:
                self.messages.append(message)
                self._news.notify_all()
        with self._news:
            self.closed = True
            self._news.notify_all()

    def _reply(self, msg_id: Any, method: str, params: Any) -> None:
        reply = self.replies.get(method, lambda params: None)
        if reply is None:
            return
        answer = {"jsonrpc": "2.0", "id": msg_id}
        result = reply(params)
        if isinstance(result, Exception):
            self.send({**answer, "error": {"code": -32601, "message": str(result)}})
        else:
            self.send({**answer, "result": result})

    def _next(self) -> dict[str, Any] | None:
        length = None
        while True:
            try:
                line = self._readline()
            except (OSError, ValueError):
                return None
            if not line:
                return None
            if line == b"\r\n" and length is not None:
                break
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
            elif name.lower() != b"content-type":
                self.garbage.append(line)
        message: dict[str, Any] = json.loads(self._read(length))
        return message


def at(
    uri: str, line: int, character: int, *, kind: int = 2, selected: Any = None, **more: Any
) -> dict[str, Any]:
    """Parameters of `inlineCompletion`."""
    context: dict[str, Any] = {"triggerKind": kind}
    if selected is not None:
        context["selectedCompletionInfo"] = selected
    return {
        "textDocument": {"uri": uri},
        "position": {"line": line, "character": character},
        "context": context,
        **more,
    }


class ServerProcess(RawClient):
    """A server of our own in a process of its own, over stdio."""

    def __init__(
        self,
        *arguments: str,
        command: Sequence[str] | None = None,
        cwd: Path | str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        command = command or (sys.executable, "-P", "-m", "lsp_server")
        self.process = subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=environment(**(env or {})),
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._stdin, stdout = self.process.stdin, self.process.stdout
        self._stderr: list[bytes] = []
        errors = self.process.stderr
        self._errors = threading.Thread(
            target=lambda: self._stderr.extend(iter(errors.readline, b"")), daemon=True
        )
        self._errors.start()
        super().__init__(self._write, stdout.readline, stdout.read)

    def _write(self, data: bytes) -> None:
        self._stdin.write(data)
        self._stdin.flush()

    def stderr(self) -> str:
        """All of it once the process has ended."""
        if self.process.poll() is not None:
            self._errors.join(TIMEOUT)
        return b"".join(self._stderr).decode(errors="replace")

    def end_input(self) -> None:
        self._stdin.close()

    def stop(self) -> int:
        """`shutdown` and `exit`; the exit code."""
        self.request("shutdown")
        self.notify("exit")
        return self.process.wait(TIMEOUT)

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(TIMEOUT)


def environment(**more: str) -> dict[str, str]:
    """This process's, with the checkout importable from everywhere and a home of its own."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    changed = {
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "TABAHEAD_HOME": _HOME.name,
    }
    return {**os.environ, **changed, **more}
