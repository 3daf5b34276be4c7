"""A model that writes only when it is told to, behind the real completer: for tests of time."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from lsp_server.backend.scripted import ScriptedBackend
from lsp_server.cancellation import CancelToken
from lsp_server.completer import complete, refuse_place
from lsp_server.completion import (
    CompletionRequest,
    CompletionResult,
    CompletionStats,
    Engine,
    Piece,
    TextEdit,
    Watch,
)

PATIENCE = 20.0


@dataclass
class SlowModel:
    """`text` of a request gives what is written for it, a character a piece."""

    text: Callable[[CompletionRequest], str]
    is_held: bool = False
    """Each piece waits for `write`."""
    alternatives: tuple[TextEdit, ...] = ()
    """Further items of requests that ask for several."""
    requests: list[CompletionRequest] = field(default_factory=list)
    prepared: queue.Queue[CompletionRequest] = field(default_factory=queue.Queue)
    reached: queue.Queue[CompletionRequest] = field(default_factory=queue.Queue)
    """Requests in the order in which they begin."""
    written: queue.Queue[str] = field(default_factory=queue.Queue)
    """Pieces that were taken: what comes after them has been looked at."""
    ended: queue.Queue[str | None] = field(default_factory=queue.Queue)
    """Why each generation ended: the reason of its token, None for none."""
    _gate: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def write(self, num_pieces: int = 1) -> None:
        for _ in range(num_pieces):
            self._gate.release()

    def engine(self, *, is_idle_useful: bool = True) -> Engine:
        return Engine(self._complete, refuse_place, self._prepare if is_idle_useful else None)

    def _prepare(self, request: CompletionRequest, cancel: CancelToken) -> None:
        self.prepared.put(request)

    def _complete(
        self, request: CompletionRequest, cancel: CancelToken, watch: Watch
    ) -> CompletionResult:
        self.requests.append(request)
        self.reached.put(request)
        try:
            result = complete(request, _Backend(self), cancel, watch=watch)
            return replace(result, alternatives=self.alternatives[: request.num_items - 1])
        finally:
            self.ended.put(cancel.reason)

    def pieces(self, request: CompletionRequest, cancel: CancelToken) -> Iterator[Piece]:
        for character in self.text(request):
            if self.is_held:
                with cancel.on_cancel(self._gate.release):
                    assert self._gate.acquire(timeout=PATIENCE)
            cancel.raise_if_cancelled()
            yield Piece(character)
            self.written.put(character)


class _Backend(ScriptedBackend):
    def __init__(self, model: SlowModel) -> None:
        super().__init__([])
        self._model = model

    def generate(self, request: CompletionRequest, cancel: CancelToken) -> _Generation:
        return _Generation(self._model.pieces(request, cancel))


class _Generation:
    def __init__(self, pieces: Iterator[Piece]) -> None:
        self.stats = CompletionStats(tokens=1, passes=1)
        self._pieces = pieces

    def __iter__(self) -> Iterator[Piece]:
        return self._pieces


async def soon(entries: queue.Queue[Any]) -> Any:
    """The next entry, without holding up the event loop."""
    return await asyncio.to_thread(entries.get, timeout=PATIENCE)
