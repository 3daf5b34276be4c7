"""The real session, scheduler and completer around a model that a test directs while it runs."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from lsp_server.backend.scripted import Entry, ScriptedBackend, ScriptedGeneration
from lsp_server.cancellation import CancelToken
from lsp_server.completer import complete, refuse_place
from lsp_server.completion import CompletionRequest, CompletionResult, Engine, Piece, Watch
from lsp_server.server import Hooks
from tests.editor import Editor
from tests.lsp_client import TIMEOUT, RawClient
from tests.lsp_product import Product, served
from tests.marks import CURSOR, unmark


@dataclass
class Directed(Product):
    """`text` is what the model writes from the next request on."""

    text: str = ""
    is_held: bool = False
    """The model waits after each piece until `release` is called or it is cancelled."""
    requests: list[CompletionRequest] = field(default_factory=list)
    """What reached the model."""
    pieces: queue.Queue[str] = field(default_factory=queue.Queue)
    """What it has given."""
    idle: threading.Event = field(default_factory=threading.Event)
    """No generation is running."""
    thread_id: int | None = None
    """Of the thread in which the model runs, as the system numbers it."""
    _released: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def release(self, num_pieces: int = 1) -> None:
        for _ in range(num_pieces):
            self._released.release()

    def hooks(self) -> Hooks:
        return Hooks(
            self.configure, self.load, self.fetch, ready=Engine(self._complete, refuse_place)
        )

    def _complete(
        self, request: CompletionRequest, cancel: CancelToken, watch: Watch
    ) -> CompletionResult:
        self.requests.append(request)
        self.thread_id = threading.get_native_id()
        self.idle.clear()
        try:
            return complete(request, _Backend(self), cancel, watch=watch)
        finally:
            self.idle.set()

    def give(self, piece: Piece, cancel: CancelToken) -> Piece:
        cancel.raise_if_cancelled()
        self.pieces.put(piece.text)
        if self.is_held:
            with cancel.on_cancel(self._released.release):
                assert self._released.acquire(timeout=TIMEOUT)
            cancel.raise_if_cancelled()
        return piece


class _Backend(ScriptedBackend):
    def __init__(self, product: Directed) -> None:
        super().__init__([Entry("", product.text)])
        self._product = product

    def generate(self, request: CompletionRequest, cancel: CancelToken) -> ScriptedGeneration:
        return _Generation(super().generate(request, cancel), self._product, cancel)


class _Generation(ScriptedGeneration):
    def __init__(self, script: ScriptedGeneration, product: Directed, cancel: CancelToken) -> None:
        super().__init__(script._entry, cancel, None)
        self._product = product

    def __iter__(self) -> Iterator[Piece]:
        for piece in super().__iter__():
            yield self._product.give(piece, self._cancel)


@contextmanager
def directed(encoding: str = "utf-16") -> Iterator[tuple[RawClient, Directed]]:
    """A server in this process, ready, and the model behind it."""
    product = Directed()
    product.idle.set()
    with served(product) as client:
        client.initialize(capabilities={"general": {"positionEncodings": [encoding]}})
        yield client, product
        product.is_held = False


def edit(client: RawClient, marked: str, uri: str = "file:///case", line_end: str = "\n") -> Editor:
    """An editor at the mark of a text."""
    before, _, after = unmark(marked, line_end).partition(CURSOR)
    return Editor(client, uri, before + after, len(before))


def shown(item: dict[str, object] | None) -> object:
    """The text of an item; None for none."""
    return None if item is None else item["insertText"]
