"""What may be asked for next, done while nobody waits: the text after accepting what is shown, and
reading the prompt where the user has just come to.

Runs on the event loop; the work is the scheduler's idle work, which gives way to all other. What
comes after the first line of a shown text is known already: the rest of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from lsp_server.answering.known import Found, Known, Record
from lsp_server.answering.spot import Spot
from lsp_server.cancellation import CancelToken
from lsp_server.completion import CompletionRequest, CompletionResult, Engine, Reason, unwatched
from lsp_server.errors import Cancelled
from lsp_server.scheduler import Scheduler

logger = logging.getLogger(__name__)

KEY, READ_KEY = "look-ahead", "read-ahead"
"""Of the scheduler; no document's URI is either."""

AFTER_ANSWER = (0.3, 1.5)
"""Seconds after an answer at which the text beyond it is generated, and the text beyond that: two
steps at most. Who types on does not accept, and who accepts has read it first."""

AFTER_EDIT = 0.3
"""Seconds from an edit or the opening of a document until its prompt is read without a request."""

AFTER_REQUEST = 3.0
"""Seconds of rest until the prompt is read again where the cursor is: it may hold text of other
files, which have been edited meanwhile. Where all of it is as it was, nothing is read."""


class LookAhead:
    def __init__(self, scheduler: Scheduler, known: Known, is_spare: Callable[[], bool]) -> None:
        """`is_spare` tells, on the inference thread, whether the machine has power for what nobody
        has asked for."""
        self._scheduler = scheduler
        self._known = known
        self._is_spare = is_spare
        self._look_timers: list[asyncio.TimerHandle] = []
        self._read_timer: asyncio.TimerHandle | None = None
        self._looks_in = self._reads_in = ""
        """The documents that it is done for."""
        self._goal: object = None
        """What accepting the shown item leads to; None: there is nothing to look beyond."""

    def shown(self, engine: Engine, request: CompletionRequest, found: Found) -> None:
        """An item was sent. If it is what is left of the one before, all goes on as it is."""
        if found.goal == self._goal:
            return
        self.stop()
        self._goal, self._looks_in = found.goal, request.snapshot.uri
        loop = asyncio.get_running_loop()
        self._look_timers = [
            loop.call_later(seconds, self._look, engine, request, found.result, num_known)
            for num_known, seconds in enumerate(AFTER_ANSWER)
        ]

    def came_to(self, uri: str, prepare: Callable[[], None]) -> None:
        """A document was opened or edited: unless a request comes soon, `prepare` for one."""
        self._read_after(AFTER_EDIT, uri, prepare)

    def answered(self, engine: Engine, request: CompletionRequest) -> None:
        """A request has its answer, and may stay the last one for a while."""
        if engine.prepare is not None:
            uri = request.snapshot.uri
            self._read_after(AFTER_REQUEST, uri, lambda: self.prepare(engine, request))

    def _read_after(self, seconds: float, uri: str, prepare: Callable[[], None]) -> None:
        _stop(self._read_timer)
        self._reads_in = uri
        self._read_timer = asyncio.get_running_loop().call_later(seconds, prepare)

    def prepare(self, engine: Engine, request: CompletionRequest) -> None:
        """Read the prompt of a request that may come. Who writes prose asks for nothing."""
        read = engine.prepare
        if read is None or engine.refuse(request) is Reason.PROSE:
            return

        def work(cancel: CancelToken) -> None:
            if self._is_spare():
                read(request, cancel)

        future = self._scheduler.submit(READ_KEY, work, is_idle_work=True)
        future.add_done_callback(_end_quietly)

    def stop(self, uri: str | None = None) -> None:
        """Something else is to be done now; of one document: nothing more is to be done for it."""
        if uri is None or uri == self._looks_in:
            self._goal = None
            for timer in self._look_timers:
                timer.cancel()
            self._scheduler.cancel(KEY, "superseded")
        if uri is None or uri == self._reads_in:
            _stop(self._read_timer)
            self._scheduler.cancel(READ_KEY, "superseded")

    def _look(
        self, engine: Engine, request: CompletionRequest, result: CompletionResult, num_known: int
    ) -> None:
        """Generate what follows `result` and so many answers behind it, which are known by now."""
        for _ in range(num_known):
            request = after_acceptance(request, result)
            found = self._known.find(Spot(request))
            if found is None or found.goal is None:
                return
            result = found.result
        spot = Spot(after_acceptance(request, result))
        if self._known.find(spot) is not None or engine.refuse(spot.request) is not None:
            return

        def work(cancel: CancelToken) -> CompletionResult | None:
            return engine.complete(spot.request, cancel, unwatched) if self._is_spare() else None

        future = self._scheduler.submit(KEY, work, is_idle_work=True)
        future.add_done_callback(partial(self._landed, spot, self._goal))

    def _landed(
        self, spot: Spot, goal: object, future: asyncio.Future[CompletionResult | None]
    ) -> None:
        result = None if _end_quietly(future) else future.result()
        record = None if result is None else Record.of(spot, result)
        if record is not None and self._goal is goal:  # not stopped since it was done
            self._known.add(record)


def _stop(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


def _end_quietly(future: asyncio.Future[Any]) -> bool:
    """True where idle work has given way or failed, which costs nobody an answer."""
    if future.cancelled():
        return True
    error = future.exception()
    if error is not None and not isinstance(error, Cancelled):
        logger.error("looking ahead failed: %s", type(error).__name__)
    return error is not None


def after_acceptance(request: CompletionRequest, result: CompletionResult) -> CompletionRequest:
    """What an editor asks for once it has inserted the first item, with its own line ends."""
    text = request.snapshot.text
    inserted = result.text
    if text.find("\r\n") >= 0:
        inserted = inserted.replace("\n", "\r\n")
    return replace(
        request,
        snapshot=replace(
            request.snapshot, text=text[: result.start] + inserted + text[result.end :]
        ),
        offset=result.start + len(inserted),
        selected=None,
        is_foreseen=True,
        invoked=False,
        num_items=1,
        deadline_ms=None,
    )
