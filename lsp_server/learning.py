"""Which documents the inference thread is given to learn from, and which it has to forget.

Runs on the event loop and hands the work to the scheduler.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from lsp_server.completion import Reason, Refusal, Snapshot
from lsp_server.documents import DocumentStore
from lsp_server.errors import Cancelled
from lsp_server.scheduler import Scheduler

logger = logging.getLogger(__name__)

KEY = "learn"
"""Begins the scheduler's keys; no document's URI has a blank."""

MAX_GIVEN = 1024
"""Documents of which it is remembered that the inference thread has seen them."""


class Judge(Protocol):
    """Says which documents are left alone."""

    @property
    def refuse(self) -> Callable[[Snapshot], Refusal | None]: ...


Find = Callable[[str], Awaitable[Judge]]
"""The judge of a document once the disk has been asked for it: by the settings as they are then."""


class Learning:
    def __init__(
        self,
        scheduler: Scheduler,
        documents: DocumentStore,
        learn: Callable[[Snapshot], None] | None,
        forget: Callable[[str], None],
    ) -> None:
        """`learn` and `forget` run on the inference thread; without `learn` nothing is learned."""
        self._scheduler = scheduler
        self._documents = documents
        self._learn = learn
        self._forget = forget
        self._given: OrderedDict[str, None] = OrderedDict()
        """URIs of which the inference thread may hold text, closed ones too."""
        self._closed: OrderedDict[int, str] = OrderedDict()
        """Hash of a text -> the document that was closed with it."""
        self._tasks: set[asyncio.Task[None]] = set()

    def learn(self, uri: str, find: Find, drop: Callable[[str], None]) -> None:
        """Let the inference thread take note of an open document; a refused one is dropped."""
        if self._learn is not None:
            self._start(self._learn_of(uri, find, drop, self._learn))

    async def _learn_of(
        self,
        uri: str,
        find: Find,
        drop: Callable[[str], None],
        learn: Callable[[Snapshot], None],
    ) -> None:
        judge = await find(uri)
        snapshot = self._documents.snapshot(uri)
        if isinstance(snapshot, Reason):
            return
        if judge.refuse(snapshot) is not None:
            drop(uri)
            return
        self.give(uri)
        done = self._scheduler.submit(f"{KEY} {uri}", lambda cancel: learn(snapshot))
        done.add_done_callback(_report)

    def reconsider(self, find: Find, drop: Callable[[str], None]) -> None:
        """The settings have changed: what they refuse now is not kept. `drop` is told of it too."""
        self._start(self._reconsider(find, drop))

    async def _reconsider(self, find: Find, drop: Callable[[str], None]) -> None:
        for uri in list(self._given):
            judge = await find(uri)
            snapshot = self._documents.snapshot(uri)
            if isinstance(snapshot, Reason):
                snapshot = Snapshot(uri, 0, "", "")  # closed: its name alone is known
            if judge.refuse(snapshot) is not None:
                drop(uri)

    def opened(self, uri: str) -> None:
        """A document is open: what was closed with its text had another name for it."""
        document = self._documents.get(uri)
        other = None if document is None else self._closed.pop(hash(document.text), None)
        if other is not None and other not in self._documents:
            self.forget(other)

    def closing(self, uri: str) -> None:
        """A document is about to be closed: what is known of it stays, but where an open one has
        its text, as after a file was saved by another name."""
        document = self._documents.get(uri)
        if document is None or uri not in self._given:
            return
        for other in map(self._documents.get, self._documents.uris()):
            if (
                other is not None
                and other is not document
                and other.num_chars == document.num_chars
                and other.text == document.text
            ):
                self.forget(uri)
                return
        self._closed[hash(document.text)] = uri
        if len(self._closed) > MAX_GIVEN:
            self._closed.popitem(last=False)

    def has(self, uri: str) -> bool:
        """Whether the inference thread may hold text of a document."""
        return uri in self._given

    def give(self, uri: str) -> None:
        """The inference thread is about to see a document's text."""
        self._given[uri] = None
        self._given.move_to_end(uri)
        if len(self._given) > MAX_GIVEN:
            self._given.popitem(last=False)

    def forget(self, uri: str) -> bool:
        """Drop what may be held of a document; False: nothing is."""
        if uri not in self._given:
            return False
        del self._given[uri]
        done = self._scheduler.submit(f"{KEY} {uri}", lambda cancel: self._forget(uri))
        done.add_done_callback(_report)
        return True

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _report(done: asyncio.Future[None]) -> None:
    """What goes wrong here costs drafts, no completion."""
    error = None if done.cancelled() else done.exception()
    if error is not None and not isinstance(error, Cancelled):
        logger.error("learning a document failed: %s", type(error).__name__)
