"""Types a trace into a server at the author's pace, asking for a completion after each edit.

Asks as VS Code does: triggered automatically, after deletions too, cancelling the request before
where it has no answer yet. Answers are taken in by a thread; nothing else runs beside the typing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lsp_server.bench.client import StdioClient
from lsp_server.bench.traces import Edit, Trace
from lsp_server.errors import InferenceError

PATIENCE = 10.0
"""Seconds behind the last key in which answers may still come."""
_AUTOMATIC = 2
_CANCELLED = -32800


@dataclass(slots=True)
class Asked:
    """A request for a completion and what came of it."""

    sent: float
    """Seconds of `time.perf_counter`."""
    answered: float | None = None
    response: Mapping[str, Any] | None = None
    next_key: float | None = None
    """When the edit after it was sent; None for the last one."""

    @property
    def item(self) -> Mapping[str, Any] | None:
        """The first item; None where none came."""
        result = (self.response or {}).get("result")
        items = result.get("items") if isinstance(result, dict) else None
        return items[0] if items else None

    @property
    def ms(self) -> float:
        return 0.0 if self.answered is None else (self.answered - self.sent) * 1000

    @property
    def in_time(self) -> bool:
        """Answered before the next key."""
        if self.answered is None:
            return False
        return self.next_key is None or self.answered < self.next_key

    @property
    def outcome(self) -> str:
        """`answered`, `empty`, `cancelled` (by us, or overtaken), `failed` or `unanswered`."""
        if self.response is None:
            return "unanswered"
        if "error" in self.response:
            is_cancelled = self.response["error"].get("code") == _CANCELLED
            return "cancelled" if is_cancelled else "failed"
        if self.response.get("result") is None:
            return "cancelled"
        return "empty" if self.item is None else "answered"


class Typist:
    """Has one server for itself."""

    def __init__(self, client: StdioClient) -> None:
        self._client = client

    def start(self, options: Mapping[str, Any], timeout: float = 120.0) -> None:
        """Shake hands and wait for the model. Raises InferenceError where none comes."""
        self._client.request(
            "initialize",
            {
                "processId": None,
                "rootUri": None,
                "initializationOptions": options,
                # Traces count code points.
                "capabilities": {"general": {"positionEncodings": ["utf-32"]}},
            },
        )
        self._client.notify("initialized", {})
        uri, give_up = "untitled:first.py", time.perf_counter() + timeout
        self.open(uri, "python", "x = ")
        explained = {"reason": "model-loading"}
        while explained["reason"] == "model-loading":
            time.sleep(0.1)  # no message tells when the model is ready
            self._client.request("textDocument/inlineCompletion", asking(uri, 1, (0, 4)))
            explained = self._client.request("tabahead/explain", {"textDocument": {"uri": uri}})
            if explained["reason"] == "model-missing" or time.perf_counter() > give_up:
                raise InferenceError(
                    explained.get("message") or "The model was not loaded in time."
                )
        self.close(uri)

    def open(self, uri: str, language_id: str, text: str) -> None:
        document = {"uri": uri, "languageId": language_id, "version": 1, "text": text}
        self._client.notify("textDocument/didOpen", {"textDocument": document})

    def close(self, uri: str) -> None:
        self._client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    def type(self, uri: str, trace: Trace, typed: Callable[[], object]) -> list[Asked]:
        """Send the edits of `trace` to its document, open already; `typed` is called at each key.

        Returns the requests in the order of the keys.
        """
        asked: list[Asked] = []
        pending: dict[int, Asked] = {}
        last = self._client.new_id()
        listener = threading.Thread(target=self._listen, args=(pending, last), daemon=True)
        listener.start()
        text, before = trace.text, None
        begin = time.perf_counter()
        for version, (edit, due) in enumerate(zip(trace.edits, trace.due(), strict=True), start=2):
            changes, text = content_changes(edit, text)
            document = {"uri": uri, "version": version}
            msg_id = self._client.new_id()
            params = asking(uri, version, position(text, edit.cursor))
            messages = [
                _message("textDocument/didChange", textDocument=document, contentChanges=changes),
                {**_message("textDocument/inlineCompletion", **params), "id": msg_id},
            ]
            time.sleep(max(0.0, begin + due - time.perf_counter()))
            if before in pending:
                messages.insert(1, _message("$/cancelRequest", id=before))
            now = time.perf_counter()
            if asked:
                asked[-1].next_key = now
            asked.append(Asked(now))
            pending[msg_id], before = asked[-1], msg_id
            self._client.send(*messages)
            typed()
        give_up = time.perf_counter() + PATIENCE
        while pending and time.perf_counter() < give_up and listener.is_alive():
            time.sleep(0.01)
        self._client.send({**_message("tabahead/explain", textDocument={"uri": uri}), "id": last})
        listener.join(PATIENCE)
        if listener.is_alive():
            raise InferenceError("The server has stopped answering.")
        return asked

    def _listen(self, pending: dict[int, Asked], last: int) -> None:
        """Take answers in until that to `last`, or the end of the server."""
        try:
            while True:
                message = self._client.receive()
                now = time.perf_counter()
                if "method" in message:
                    continue
                if message.get("id") == last:
                    return
                if (asked := pending.pop(message.get("id", 0), None)) is not None:
                    asked.answered, asked.response = now, message
        except InferenceError:
            return  # what is still pending counts as unanswered


def asking(uri: str, version: int, at: tuple[int, int]) -> dict[str, Any]:
    """Parameters of `inlineCompletion` while typing."""
    return {
        "textDocument": {"uri": uri, "version": version},
        "position": _position(at),
        "context": {"triggerKind": _AUTOMATIC},
    }


def content_changes(edit: Edit, text: str) -> tuple[list[dict[str, Any]], str]:
    """The changes of one `didChange`, and the text afterwards."""
    changes = []
    for patch in edit.patches:
        end = patch.start + patch.deleted
        where = {
            "start": _position(position(text, patch.start)),
            "end": _position(position(text, end)),
        }
        changes.append({"range": where, "text": patch.text})
        text = text[: patch.start] + patch.text + text[end:]
    return changes, text


def position(text: str, offset: int) -> tuple[int, int]:
    """Line and character in code points; the traces have `\\n` line ends only."""
    return text.count("\n", 0, offset), offset - (text.rfind("\n", 0, offset) + 1)


def _position(at: tuple[int, int]) -> dict[str, int]:
    return {"line": at[0], "character": at[1]}


def _message(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}
