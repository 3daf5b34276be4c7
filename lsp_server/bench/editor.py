"""A document in a server, edited and asked about one step after the other."""

from __future__ import annotations

import time
from dataclasses import dataclass

from lsp_server import probe
from lsp_server.bench.client import StdioClient, asking, change, offset_of
from lsp_server.bench.traces import Edit
from lsp_server.completion import Reason
from lsp_server.errors import InferenceError

_REST_SECONDS = 0.4
"""Longer than a server waits before it looks ahead."""
_LOOK_AHEAD_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Told:
    """An answer, and the document that it was given for."""

    document: str
    cursor: int
    text: str
    start: int
    end: int
    reason: str | None
    origin: str
    num_typed: int
    """Characters that were typed while it was being generated."""
    num_reused: int
    ms: float
    """From the request to the answer."""

    @property
    def content(self) -> tuple[str | None, str, int, int]:
        return self.reason, self.text, self.start, self.end

    @property
    def accepted(self) -> str:
        """The document with the item in it."""
        return self.document[: self.start] + self.text + self.document[self.end :]


class Editor:
    """One document in one server."""

    def __init__(self, client: StdioClient, uri: str, language_id: str, text: str) -> None:
        self._client = client
        self._uri = uri
        self._version = 1
        self.text = text
        client.open(self._uri, language_id, text)

    def close(self) -> None:
        self._client.close_document(self._uri)

    def edit(self, start: int, deleted: int, new: str) -> None:
        made = change(self.text, start, deleted, new)
        self.text = self.text[:start] + new + self.text[start + deleted :]
        self._version += 1
        document = {"uri": self._uri, "version": self._version}
        params = {"textDocument": document, "contentChanges": [made]}
        self._client.notify("textDocument/didChange", params)

    def apply(self, edit: Edit) -> None:
        for patch in edit.patches:
            self.edit(patch.start, patch.deleted, patch.text)

    def ask_and_leave(self, cursor: int) -> None:
        """A request whose answer nobody reads."""
        params = asking(self._uri, self._version, self.text, cursor)
        msg_id = self._client.new_id()
        message = {"jsonrpc": "2.0", "id": msg_id, "method": "textDocument/inlineCompletion"}
        self._client.send({**message, "params": params})

    def ask(self, cursor: int) -> Told:
        params = asking(self._uri, self._version, self.text, cursor)
        asked = time.perf_counter()
        result = self._client.request("textDocument/inlineCompletion", params)
        ms = (time.perf_counter() - asked) * 1000
        document = {"textDocument": {"uri": self._uri}}
        explained = self._client.request("tabahead/explain", document)
        if result is None or explained["reason"] == Reason.ENGINE_ERROR.value:
            raise InferenceError(f"A request that nothing overtook was not served: {explained}.")
        text, start, end = "", cursor, cursor
        if result["items"]:
            item = result["items"][0]
            text, where = item["insertText"], item["range"]
            start, end = offset_of(self.text, where["start"]), offset_of(self.text, where["end"])
        stats = explained["stats"]
        return Told(
            self.text, cursor, text, start, end, explained["reason"], stats["origin"],
            stats.get("num_typed", 0), stats["reused_tokens"], ms,
        )  # fmt: skip

    def wait_for_look_ahead(self) -> None:
        """Until the engine has rested for a while."""
        resting_since = now = time.perf_counter()
        give_up = now + _LOOK_AHEAD_SECONDS
        while now < min(give_up, resting_since + _REST_SECONDS):
            figures = self._client.request(probe.REQUEST, {"beat": False})
            if figures["generations"] or figures["running"]:
                resting_since = time.perf_counter()
            time.sleep(0.05)  # the probe answers at once; to ask without end would disturb
            now = time.perf_counter()
