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

from lsp_server.cancellation import CancelToken
from lsp_server.completion import CompletionRequest, CompletionResult, Engine, unwatched
from lsp_server.errors import Cancelled
from lsp_server.known import Found, Known, Record
from lsp_server.scheduler import Scheduler
from lsp_server.spot import Spot

logger = logging.getLogger(__name__)

KEY = "look-ahead"
"""Of the scheduler; no document's URI is this."""

MAX_STEPS = 2
"""Answers ahead of what is shown: what follows it, and what follows that."""

AFTER_ANSWER = 0.3
"""Seconds between an answer and the look ahead: who types on does not accept, and who accepts has
read it first."""

AFTER_EDIT = 0.3
"""Seconds without a request until a prompt is read for none."""


class LookAhead:
    def __init__(self, scheduler: Scheduler, known: Known, is_spare: Callable[[], bool]) -> None:
        """`is_spare` tells, on the inference thread, whether the machine has power for what nobody
        has asked for."""
        self._scheduler = scheduler
        self._known = known
        self._is_spare = is_spare
        self._look_timer: asyncio.TimerHandle | None = None
        self._edit_timer: asyncio.TimerHandle | None = None
        self._goal: object = None
        """What accepting the shown item leads to; None: there is nothing to look beyond."""

    def shown(self, engine: Engine, request: CompletionRequest, found: Found) -> None:
        """An item was sent. If it is what is left of the one before, all goes on as it is."""
        _stop(self._edit_timer)
        if found.goal == self._goal:
            return
        self.stop()
        self._goal = found.goal

        def look() -> None:
            self._look(engine, Spot(after_acceptance(request, found.result)), MAX_STEPS)

        self._look_timer = asyncio.get_running_loop().call_later(AFTER_ANSWER, look)

    def came_to(self, prepare: Callable[[], None]) -> None:
        """A document was opened or edited: unless a request comes soon, `prepare` for one."""
        _stop(self._edit_timer)
        self._edit_timer = asyncio.get_running_loop().call_later(AFTER_EDIT, prepare)

    def prepare(self, engine: Engine, request: CompletionRequest) -> None:
        """Read the prompt of a request that may come."""
        read = engine.prepare
        if read is None:
            return

        def work(cancel: CancelToken) -> None:
            if self._is_spare():
                read(request, cancel)

        self.stop()
        future = self._scheduler.submit(KEY, work, is_idle_work=True)
        future.add_done_callback(_end_quietly)

    def stop(self) -> None:
        """Something else is to be done now."""
        self._goal = None
        _stop(self._look_timer)
        _stop(self._edit_timer)
        self._scheduler.cancel(KEY, "superseded")

    def _look(self, engine: Engine, spot: Spot, num_steps: int) -> None:
        """Generate at a spot, where nothing is known of it, and then beyond that."""
        found = self._known.find(spot)
        if found is not None:
            self._look_beyond(engine, spot, found.result, num_steps)
            return
        if engine.refuse(spot.request) is not None:
            return

        def work(cancel: CancelToken) -> CompletionResult | None:
            return engine.complete(spot.request, cancel, unwatched) if self._is_spare() else None

        future = self._scheduler.submit(KEY, work, is_idle_work=True)
        future.add_done_callback(partial(self._landed, engine, spot, num_steps))

    def _landed(
        self,
        engine: Engine,
        spot: Spot,
        num_steps: int,
        future: asyncio.Future[CompletionResult | None],
    ) -> None:
        result = None if _end_quietly(future) else future.result()
        record = None if result is None else Record.of(spot, result)
        if result is None or record is None:
            self._goal = None
            return
        self._known.add(record)
        self._look_beyond(engine, spot, result, num_steps)

    def _look_beyond(
        self, engine: Engine, spot: Spot, result: CompletionResult, num_steps: int
    ) -> None:
        if num_steps > 1 and result.reason is None and result.text:
            self._look(engine, Spot(after_acceptance(spot.request, result)), num_steps - 1)


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
        invoked=False,
        num_items=1,
        deadline_ms=None,
    )
