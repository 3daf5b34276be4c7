"""What the user sees besides items: messages, a question, progress. Plain JSON by the protocol."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

from lsp_server.protocol import Protocol, RefusedError

PROGRESS_INTERVAL = 0.2
"""Seconds between two reports."""


class Kind(IntEnum):
    """The protocol's MessageType."""

    ERROR = 1
    WARNING = 2
    INFO = 3


class Window:
    def __init__(self, protocol: Protocol) -> None:
        self._protocol = protocol
        self.shows_progress = False
        """Whether the client offers work-done progress."""
        self._cancels: dict[str | int, Callable[[], object]] = {}

    def show(self, kind: Kind, message: str) -> None:
        self._protocol.notify("window/showMessage", _message(kind, message))

    def log(self, message: str) -> None:
        self._protocol.notify("window/logMessage", _message(Kind.INFO, message))

    async def ask(self, message: str, answers: Sequence[str]) -> str | None:
        """The answer that the user picks, None for none, as long as that may take.

        Raises RefusedError when the client cannot ask.
        """
        actions = [{"title": answer} for answer in answers]
        params = {**_message(Kind.INFO, message), "actions": actions}
        action = await self._protocol.ask("window/showMessageRequest", params)
        title = action.get("title") if isinstance(action, dict) else None
        return title if title in answers else None

    async def progress(
        self,
        title: str,
        work: asyncio.Future[Any],
        state: ProgressState,
        cancel: Callable[[], object],
    ) -> None:
        """Report a few times a second until `work` is done; `cancel` when the user wants it."""
        if not self.shows_progress:
            return
        token = f"tabahead-{uuid.uuid4()}"
        try:
            await self._protocol.ask("window/workDoneProgress/create", {"token": token})
        except RefusedError:
            # The client would rather not show any.
            return
        self._cancels[token] = cancel
        try:
            shown = state.as_json()
            self._report(token, {"kind": "begin", "title": title, "cancellable": True, **shown})
            while not work.done():
                await asyncio.wait([work], timeout=PROGRESS_INTERVAL)
                if (now := state.as_json()) != shown and not work.done():
                    shown = now
                    self._report(token, {"kind": "report", **now})
            self._report(token, {"kind": "end"})
        finally:
            del self._cancels[token]

    def cancel_progress(self, token: str | int) -> None:
        """The user has had enough; late or unknown tokens are ordinary."""
        cancel = self._cancels.get(token)
        if cancel is not None:
            cancel()

    def _report(self, token: str, value: dict[str, Any]) -> None:
        self._protocol.notify("$/progress", {"token": token, "value": value})


class ProgressState:
    """How far some work is; `set` may be called from any thread."""

    def __init__(self, stage: str) -> None:
        self._state = (stage, 0, 0)

    def set(self, stage: str, done: int, total: int) -> None:
        self._state = (stage, done, total)

    def as_json(self) -> dict[str, Any]:
        stage, done, total = self._state
        return {"message": stage, "percentage": min(100, 100 * done // total) if total else 0}


def _message(kind: Kind, message: str) -> dict[str, Any]:
    return {"type": kind.value, "message": f"tabahead: {message}"}
