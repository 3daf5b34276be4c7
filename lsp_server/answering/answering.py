"""Where a request's answer comes from: known already, under way, or the engine, and when.

Runs on the event loop and hands the work to the scheduler. Of one document the latest request is
the only one that waits; one before it ends with Cancelled(`superseded`). What was generated is kept
whoever still wants it, so that the next request finds it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from lsp_server.answering.inflight import Flight
from lsp_server.answering.known import Found, Known, Record
from lsp_server.answering.lookahead import LookAhead
from lsp_server.answering.pacing import Pace
from lsp_server.answering.spot import Spot
from lsp_server.completion import (
    CompletionRequest,
    CompletionResult,
    CompletionStats,
    Engine,
    Reason,
    Snapshot,
)
from lsp_server.errors import Cancelled
from lsp_server.scheduler import Scheduler

OVERTIME = 30.0
"""Seconds past its deadline after which a request is answered whatever the engine does."""

GRACE = 0.1
"""Seconds that a generation goes on without a request while the text becomes what it may foretell:
editors cancel at the key and ask again a little later."""


class _Waiter:
    """The request of a document that waits for an answer."""

    def __init__(self, spot: Spot) -> None:
        self.spot = spot
        self.future: asyncio.Future[CompletionResult] = asyncio.get_running_loop().create_future()
        # Who cancels a request in the moment in which it fails does not hear of the failure.
        self.future.add_done_callback(lambda future: future.cancelled() or future.exception())


@dataclass(slots=True)
class _Desk:
    """What is going on for one document."""

    pace: Pace = field(default_factory=Pace)
    waiter: _Waiter | None = None
    flight: Flight | None = None
    timer: asyncio.TimerHandle | None = None
    """Starts the engine for the waiter, or ends a flight that nobody waits for."""
    is_behind: bool = False
    """The last request was overtaken before it was answered."""

    def settle(self, outcome: CompletionResult | BaseException) -> None:
        """Answer the request that waits, if one does."""
        waiter, self.waiter = self.waiter, None
        if waiter is None or waiter.future.done():
            return
        self.is_behind = isinstance(outcome, Cancelled)
        if isinstance(outcome, BaseException):
            waiter.future.set_exception(outcome)
        else:
            waiter.future.set_result(outcome)

    def set_timer(self, seconds: float, do: Callable[[], None]) -> None:
        self.stop_timer()
        self.timer = asyncio.get_running_loop().call_later(seconds, do)

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class Answering:
    def __init__(
        self,
        scheduler: Scheduler,
        snapshot: Callable[[str], Snapshot | Reason],
        is_spare: Callable[[], bool],
    ) -> None:
        """`snapshot` gives a document as it is; `is_spare` is LookAhead's."""
        self.known = Known()
        self.ahead = LookAhead(scheduler, self.known, is_spare)
        self.looks_ahead = True
        self._scheduler = scheduler
        self._snapshot = snapshot
        self._engine: Engine | None = None
        self._desks: dict[str, _Desk] = {}

    def use(self, engine: Engine | None) -> None:
        """Another engine, or none for now; what the one before said is not what it would say."""
        self._engine = engine
        self.ahead.stop()
        self.known.clear()

    async def answer(self, request: CompletionRequest) -> CompletionResult:
        """Raises Cancelled with the reason, and whatever the engine raises."""
        spot = Spot(request)
        desk = self._desks.setdefault(request.snapshot.uri, _Desk())
        desk.pace.asked(asyncio.get_running_loop().time())
        desk.settle(Cancelled(Reason.SUPERSEDED))
        found = self.known.find(spot) or self._refused(request)
        if found is not None:
            desk.is_behind = False
            self._stop_flight(desk, Reason.SUPERSEDED)
            self._look_ahead(request, found)
            return found.result
        self.ahead.stop()
        waiter = desk.waiter = _Waiter(spot)
        self._ask_engine(desk)
        try:
            return await waiter.future
        except asyncio.CancelledError:
            if desk.waiter is waiter:
                desk.waiter, desk.is_behind = None, True
                self._stop_flight(desk, Reason.CANCELLED)
            raise

    def changed(self, uri: str) -> None:
        """A document has been edited: who waits for an answer to what it was has it now. A
        generation goes on for a while where the edit is what it may have foretold."""
        desk = self._desks.get(uri)
        if desk is None:
            return
        desk.settle(Cancelled(Reason.STALE))
        snapshot = None if desk.flight is None else self._snapshot(uri)
        if (
            desk.flight is not None
            and isinstance(snapshot, Snapshot)
            and desk.flight.foretells(snapshot.text)
        ):
            desk.set_timer(GRACE, lambda: self._stop_flight(desk, Reason.STALE))
        else:
            self._stop_flight(desk, Reason.STALE)

    def stop(self, uri: str, reason: Reason) -> None:
        """End what is being done for a document and forget what is known of it."""
        if reason is Reason.EXCLUDED:
            self.ahead.stop()
            self.known.clear()  # answers in other documents may hold text of it
        else:
            self.ahead.stop(uri)
            self.known.forget(uri)
        desk = self._desks.pop(uri, None)
        if desk is not None:
            desk.settle(Cancelled(reason))
            self._stop_flight(desk, reason)
        if reason is Reason.EXCLUDED:
            self._begin_again(reason)

    def _begin_again(self, reason: Reason) -> None:
        """What is being generated may hold text that may not be used any more."""
        for desk in self._desks.values():
            if desk.flight is not None:
                self._stop_flight(desk, reason)
                self._start(desk)

    def pause(self) -> None:
        """End what is being done for any document; what is known stays."""
        self.ahead.stop()
        for desk in self._desks.values():
            desk.settle(Cancelled(Reason.PAUSED))
            self._stop_flight(desk, Reason.PAUSED)

    def _refused(self, request: CompletionRequest) -> Found | None:
        reason = None if self._engine is None else self._engine.refuse(request)
        if reason is None:
            return None
        at = request.offset
        return Found(CompletionResult("", at, at, reason, CompletionStats()), None)

    def _look_ahead(self, request: CompletionRequest, found: Found | None) -> None:
        """Beyond an answer that goes out; without items there is nothing beyond it."""
        engine = self._engine
        if found is None or found.goal is None or engine is None or engine.prepare is None:
            self.ahead.stop()
        elif self.looks_ahead:
            self.ahead.shown(engine, request, found)
        if engine is not None:
            self.ahead.answered(engine, request)

    def _ask_engine(self, desk: _Desk) -> None:
        """For the waiter: leave it to the flight that may answer it, else start one when it is
        time."""
        assert desk.waiter is not None
        if desk.flight is not None and desk.flight.serves(desk.waiter.spot):
            desk.stop_timer()
            return
        self._stop_flight(desk, Reason.SUPERSEDED)
        seconds = desk.pace.wait(asyncio.get_running_loop().time(), desk.is_behind)
        if seconds > 0.0 and not desk.waiter.spot.request.invoked:
            desk.set_timer(seconds, lambda: self._start(desk))
        else:
            self._start(desk)

    def _start(self, desk: _Desk) -> None:
        engine, waiter = self._engine, desk.waiter
        desk.timer = None
        if waiter is None:
            return
        if engine is None:
            desk.settle(Cancelled(Reason.MODEL_LOADING))
            return
        for other in self._desks.values():
            if other.waiter is None:
                self._stop_flight(other, Reason.SUPERSEDED)
        request = waiter.spot.request
        flight = desk.flight = Flight(waiter.spot)
        future = self._scheduler.submit(
            request.snapshot.uri,
            lambda cancel: engine.complete(
                request, cancel, partial(flight.stream.arrived, cancel=cancel)
            ),
            timeout=OVERTIME + (request.deadline_ms or 0.0) / 1000,
        )
        future.add_done_callback(partial(self._landed, desk, flight, engine))

    def _landed(
        self,
        desk: _Desk,
        flight: Flight,
        engine: Engine,
        future: asyncio.Future[CompletionResult],
    ) -> None:
        outcome = _outcome(future)
        uri = flight.spot.request.snapshot.uri
        if isinstance(outcome, CompletionResult):
            record = Record.of(flight.spot, outcome)
            if record is not None and self._desks.get(uri) is desk and self._engine is engine:
                self.known.add(record)
        if desk.flight is not flight:
            return  # it was stopped
        desk.flight = None
        waiter = desk.waiter
        if waiter is None:
            desk.stop_timer()
        elif waiter.spot is flight.spot:
            self._deliver(desk, waiter, outcome)
        elif isinstance(outcome, CompletionResult) and (found := self.known.find(waiter.spot)):
            # The engine was waited for, so that it is not an answer that was known already.
            num_typed = found.result.stats.num_typed
            stats = replace(outcome.stats, num_typed=num_typed)
            self._deliver(desk, waiter, replace(found.result, stats=stats))
        else:
            desk.is_behind = True
            self._ask_engine(desk)

    def _deliver(
        self, desk: _Desk, waiter: _Waiter, outcome: CompletionResult | BaseException
    ) -> None:
        """What was generated is there. What comes after it begins in the same turn: in the next
        one the document may be closed or completions paused."""
        is_wanted = not waiter.future.done()
        desk.settle(outcome)
        if is_wanted and isinstance(outcome, CompletionResult):
            self._look_ahead(waiter.spot.request, self.known.find(waiter.spot))

    def _stop_flight(self, desk: _Desk, reason: Reason) -> None:
        desk.stop_timer()
        flight, desk.flight = desk.flight, None
        if flight is not None:
            self._scheduler.cancel(flight.spot.request.snapshot.uri, reason)


def _outcome(future: asyncio.Future[CompletionResult]) -> CompletionResult | BaseException:
    if future.cancelled():
        return Cancelled(Reason.CANCELLED)
    error = future.exception()
    return error if error is not None else future.result()
