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

from lsp_server.bench.client import StdioClient, asking, change
from lsp_server.bench.traces import Edit, Trace
from lsp_server.errors import InferenceError

PATIENCE = 40.0
"""Seconds behind the last key in which answers may still come, however busy the machine is."""
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


def type_trace(
    client: StdioClient, uri: str, trace: Trace, typed: Callable[[], object]
) -> list[Asked]:
    """Send the edits of `trace` to its document, open already; `typed` is called at each key.

    Returns the requests in the order of the keys.
    """
    asked: list[Asked] = []
    pending: dict[int, Asked] = {}
    last = client.new_id()
    listener = threading.Thread(target=_listen, args=(client, pending, last), daemon=True)
    listener.start()
    text, before = trace.text, None
    begin = time.perf_counter()
    for version, (edit, due) in enumerate(zip(trace.edits, trace.due(), strict=True), start=2):
        changes, text = content_changes(edit, text)
        document = {"uri": uri, "version": version}
        msg_id = client.new_id()
        params = asking(uri, version, text, edit.cursor)
        messages = [
            _message("textDocument/didChange", textDocument=document, contentChanges=changes),
            {**_message("textDocument/inlineCompletion", **params), "id": msg_id},
        ]
        time.sleep(max(0.0, begin + due - time.perf_counter()))  # the author rests until then
        if before in pending:
            messages.insert(1, _message("$/cancelRequest", id=before))
        now = time.perf_counter()
        if asked:
            asked[-1].next_key = now
        asked.append(Asked(now))
        pending[msg_id], before = asked[-1], msg_id
        client.send(*messages)
        typed()
    give_up = time.perf_counter() + PATIENCE
    while pending and time.perf_counter() < give_up and listener.is_alive():
        time.sleep(0.01)  # the listener takes the answers in
    client.send({**_message("tabahead/explain", textDocument={"uri": uri}), "id": last})
    listener.join(PATIENCE)
    if listener.is_alive():
        raise InferenceError("The server has stopped answering.")
    return asked


def _listen(client: StdioClient, pending: dict[int, Asked], last: int) -> None:
    """Take answers in until that to `last`, or the end of the server."""
    try:
        while True:
            message = client.receive()
            now = time.perf_counter()
            if "method" in message:
                continue
            if message.get("id") == last:
                return
            if (asked := pending.pop(message.get("id", 0), None)) is not None:
                asked.answered, asked.response = now, message
    except InferenceError:
        return  # what is still pending counts as unanswered


def content_changes(edit: Edit, text: str) -> tuple[list[dict[str, Any]], str]:
    """The changes of one `didChange`, and the text afterwards."""
    changes = []
    for patch in edit.patches:
        changes.append(change(text, patch.start, patch.deleted, patch.text))
        text = text[: patch.start] + patch.text + text[patch.start + patch.deleted :]
    return changes, text


def _message(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}
