"""Where answers come from and when the engine is started, on the real scheduler and completer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from lsp_server.answering.answering import Answering
from lsp_server.answering.pacing import Pace
from lsp_server.completion import CompletionRequest, CompletionResult, Origin, Reason, Snapshot
from lsp_server.errors import Cancelled
from lsp_server.scheduler import Scheduler
from tests.marks import request_at
from tests.slow_model import PATIENCE, SlowModel, soon


class Desk:
    """One document that is edited and asked about."""

    def __init__(self, model: SlowModel, **engine: bool) -> None:
        self.model = model
        self.scheduler = Scheduler()
        self.document: Snapshot | Reason = Reason.NOT_OPEN
        self.answering = Answering(self.scheduler, lambda uri: self.document, lambda: True)
        self.answering.use(model.engine(**engine))

    def ask(self, marked: str, **options: Any) -> asyncio.Task[CompletionResult]:
        request = request_at(marked, **options)
        self.document = request.snapshot
        return asyncio.get_running_loop().create_task(self.answering.answer(request))

    def edit(self, marked: str) -> None:
        self.document = request_at(marked).snapshot
        self.answering.changed("file:///case")

    async def close(self) -> None:
        self.model.is_held = False
        self.scheduler.stop()
        self.model.write(1000)
        assert await asyncio.to_thread(self.scheduler.join, PATIENCE)


def run(main: Callable[[Desk], Coroutine[Any, Any, None]], model: SlowModel) -> None:
    async def work() -> None:
        desk = Desk(model, is_idle_useful=False)
        await asyncio.wait_for(main(desk), PATIENCE)
        await desk.close()

    asyncio.run(work())


def writes(text: str, is_held: bool = False) -> SlowModel:
    return SlowModel(lambda request: text, is_held)


async def reason_of(task: asyncio.Task[CompletionResult]) -> str:
    (outcome,) = await asyncio.gather(task, return_exceptions=True)
    assert isinstance(outcome, Cancelled), outcome
    return str(outcome)


# Known already.


def test_what_is_typed_of_an_answer_needs_no_engine() -> None:
    async def main(desk: Desk) -> None:
        assert (await desk.ask("a =·║")).text == "total(x)"
        for typed, left in (("t", "otal(x)"), ("tota", "l(x)"), ("to", "tal(x)"), ("", "total(x)")):
            answer = await desk.ask(f"a =·{typed}║")
            assert answer.text == left
            assert answer.stats.origin is (Origin.TYPED_THROUGH if typed else Origin.CACHE)
        assert len(desk.model.requests) == 1

    run(main, writes("total(x)"))


def test_a_known_answer_comes_in_the_same_turn_whatever_the_engine_does() -> None:
    async def main(desk: Desk) -> None:
        assert (await desk.ask("a =·║")).text == "1"
        desk.model.is_held = True
        busy = desk.answering.answer(replace(request_at("b =·║"), snapshot=OTHER))
        other = asyncio.get_running_loop().create_task(busy)
        await soon(desk.model.reached), await soon(desk.model.reached)
        known = desk.ask("a =·║")
        await asyncio.sleep(0)  # one turn of the loop
        assert known.done()
        desk.model.write(9)
        await other

    run(main, writes("1"))


OTHER = Snapshot("file:///other", 1, "python", "b = ")


def test_what_needs_no_model_never_reaches_it() -> None:
    async def main(desk: Desk) -> None:
        assert (await desk.ask("a =·to║tal")).reason is Reason.MID_WORD
        assert desk.model.requests == []

    run(main, writes("1"))


def test_an_answer_of_one_model_is_none_of_another() -> None:
    async def main(desk: Desk) -> None:
        assert (await desk.ask("a =·║")).text == "1"
        desk.answering.use(writes("2").engine())
        assert (await desk.ask("a =·║")).text == "2"

    run(main, writes("1"))


def test_a_generation_that_ends_under_the_next_model_is_not_kept() -> None:
    async def main(desk: Desk) -> None:
        task = desk.ask("a =·║")
        await soon(desk.model.reached)
        desk.answering.use(writes("2").engine())
        desk.model.write(9)
        assert (await task).text == "1"
        assert (await desk.ask("a =·║")).text == "2"

    run(main, writes("1", is_held=True))


def test_what_is_closed_is_forgotten() -> None:
    async def main(desk: Desk) -> None:
        assert (await desk.ask("a =·║")).text == "1"
        desk.answering.stop("file:///case", Reason.STALE)
        assert (await desk.ask("a =·║")).text == "1"
        assert len(desk.model.requests) == 2

    run(main, writes("1"))


@pytest.mark.parametrize(
    ("reason", "num_known"), [(Reason.EXCLUDED, 0), (Reason.STALE, 1)], ids=["excluded", "closed"]
)
def test_answers_elsewhere_are_not_kept_once_a_document_may_not_be_used(reason, num_known) -> None:
    """They may hold text that was taken from there."""

    async def main(desk: Desk) -> None:
        await desk.ask("a =·║")
        desk.answering.stop("file:///other", reason)
        assert len(desk.answering.known) == num_known

    run(main, writes("1"))


def test_what_is_under_way_elsewhere_begins_again_once_a_document_may_not_be_used() -> None:
    async def main(desk: Desk) -> None:
        task = desk.ask("a =·║")
        await soon(desk.model.reached)
        desk.answering.stop("file:///other", Reason.EXCLUDED)
        assert await soon(desk.model.ended) == Reason.EXCLUDED
        desk.model.write(9)
        assert (await task).text == "1"
        assert len(desk.model.requests) == 2
        assert (await desk.ask("a =·║")).stats.origin is Origin.CACHE

    run(main, writes("1", is_held=True))


# Under way.


@pytest.mark.parametrize("num_written", [0, 1, 3])
def test_a_generation_that_agrees_with_what_is_typed_answers_the_later_request(num_written) -> None:
    async def main(desk: Desk) -> None:
        first = desk.ask("a =·║")
        await soon(desk.model.reached)
        desk.model.write(num_written)
        for _ in range(num_written):
            await soon(desk.model.written)
        second = desk.ask("a =·to║")
        assert await reason_of(first) == Reason.SUPERSEDED
        desk.model.write(99)
        answer = await second
        assert (answer.text, answer.start, answer.end) == ("tal(x)", 6, 6)
        assert (answer.stats.origin, answer.stats.num_typed) == (Origin.ENGINE, 2)
        assert answer.stats.tokens == 1, "the figures of the generation"
        assert len(desk.model.requests) == 1

    run(main, writes("total(x)", is_held=True))


@pytest.mark.parametrize("num_written", [0, 2])
def test_one_that_turns_out_otherwise_makes_room_for_another(num_written) -> None:
    async def main(desk: Desk) -> None:
        first = desk.ask("a =·║")
        await soon(desk.model.reached)
        desk.model.write(num_written)
        for _ in range(num_written):
            await soon(desk.model.written)
        second = desk.ask("a =·x║")
        assert await reason_of(first) == Reason.SUPERSEDED
        desk.model.write(99)
        answer = await second
        assert (answer.text, answer.stats.num_typed) == ("total", 0)
        assert await soon(desk.model.ended) == Reason.SUPERSEDED
        assert [request.offset for request in desk.model.requests] == [4, 5]

    run(main, writes("total", is_held=True))


def test_one_whose_finished_text_is_something_else_is_followed_by_another() -> None:
    """Shorter than what was typed, it could not tell before its end."""

    async def main(desk: Desk) -> None:
        desk.ask("a =·║")
        await soon(desk.model.reached)
        second = desk.ask("a =·total║")
        desk.model.write(99)
        assert (await second).text == "(x)"
        assert len(desk.model.requests) == 2

    texts = {4: "to", 9: "(x)"}
    run(main, SlowModel(lambda request: texts[request.offset], is_held=True))


def test_an_engine_that_fails_is_asked_again_for_who_has_typed_on() -> None:
    def text(request: CompletionRequest) -> str:
        if request.offset == 4:
            raise ValueError("a defect")
        return "1"

    async def main(desk: Desk) -> None:
        with pytest.raises(ValueError, match="a defect"):
            await desk.ask("a =·║")
        desk.model.is_held = True
        assert (await desk.ask("a =·0║", invoked=True)).text == "1"

    model = SlowModel(text)
    model.write(99)
    run(main, model)


def test_elsewhere_it_is_stopped_and_the_new_place_is_asked_about_at_once() -> None:
    async def main(desk: Desk) -> None:
        first = desk.ask("a =·║⏎b =·")
        await soon(desk.model.reached)
        second = desk.ask("a =·⏎b =·║", invoked=True)
        assert await soon(desk.model.ended) == Reason.SUPERSEDED
        assert await reason_of(first) == Reason.SUPERSEDED
        desk.model.write(99)
        assert (await second).start == 9

    run(main, writes("1", is_held=True))


# Edits and cancelling.


def test_cancelling_a_request_stops_the_engine() -> None:
    async def main(desk: Desk) -> None:
        task = desk.ask("a =·║")
        await soon(desk.model.reached)
        task.cancel()
        assert await soon(desk.model.ended) == Reason.CANCELLED

    run(main, writes("1", is_held=True))


def test_an_edit_answers_the_request_that_waits_and_stops_what_no_longer_fits() -> None:
    async def main(desk: Desk) -> None:
        task = desk.ask("a =·║⏎b")
        await soon(desk.model.reached)
        desk.edit("a =·⏎c║")
        assert await reason_of(task) == Reason.STALE
        assert await soon(desk.model.ended) == Reason.STALE

    run(main, writes("1", is_held=True))


def test_an_edit_that_agrees_leaves_time_to_ask_again() -> None:
    """Editors cancel at the key, and ask a little later."""

    async def main(desk: Desk) -> None:
        task = desk.ask("a =·║⏎b")
        await soon(desk.model.reached)
        desk.edit("a =·t║⏎b")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        second = desk.ask("a =·t║⏎b")
        desk.model.write(99)
        assert (await second).text == "otal"
        assert len(desk.model.requests) == 1

    run(main, writes("total", is_held=True))


def test_when_nobody_asks_again_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lsp_server.answering.answering.GRACE", 0.01)

    async def main(desk: Desk) -> None:
        task = desk.ask("a =·║⏎b")
        await soon(desk.model.reached)
        desk.edit("a =·t║⏎b")
        assert await reason_of(task) == Reason.STALE
        assert await soon(desk.model.ended) == Reason.STALE

    run(main, writes("total", is_held=True))


def test_it_makes_room_for_another_document_that_is_asked_about() -> None:
    async def main(desk: Desk) -> None:
        desk.ask("a =·║⏎b")
        await soon(desk.model.reached)
        desk.edit("a =·t║⏎b")
        other = desk.answering.answer(replace(request_at("b =·║"), snapshot=OTHER))
        task = asyncio.get_running_loop().create_task(other)
        assert await soon(desk.model.ended) == Reason.SUPERSEDED
        desk.model.write(99)
        assert (await task).text == "total"

    run(main, writes("total", is_held=True))


@pytest.mark.parametrize("what", ["close", "edit", "cancel"])
def test_a_request_that_waits_for_its_time_starts_nothing_once_it_is_gone(
    what, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pace, "wait", lambda pace, now, is_behind: 0.4 if is_behind else 0.0)

    async def main(desk: Desk) -> None:
        desk.ask("a =·║")
        await soon(desk.model.reached)
        task = desk.ask("b =·x║")
        assert await soon(desk.model.ended) == Reason.SUPERSEDED
        if what == "close":
            desk.answering.stop("file:///case", Reason.STALE)
        elif what == "edit":
            desk.edit("c =·y║")
        else:
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(0.6)  # longer than it would have waited
        assert len(desk.model.requests) == 1

    run(main, writes("1", is_held=True))


# Pace.


def test_a_burst_of_keys_starts_few_generations_and_all_are_answered() -> None:
    async def main(desk: Desk) -> None:
        tasks, times = [], []
        for num_keys in range(30):
            tasks.append(desk.ask(f"a =·{'x' * num_keys}║"))
            times.append(time.monotonic())
            await asyncio.sleep(0.05)  # 20 keys a second
        num_pauses = sum(after - before > 0.1 for before, after in pairwise(times))
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert len(desk.model.requests) <= 4 + num_pauses, "pauses that a busy machine made"
        assert isinstance(outcomes[-1], CompletionResult)
        for outcome in outcomes:
            assert isinstance(outcome, CompletionResult) or str(outcome) == Reason.SUPERSEDED

    model = writes("total")
    run(main, model)


def test_ten_requests_at_once_get_ten_answers() -> None:
    async def main(desk: Desk) -> None:
        tasks = [desk.ask(f"a =·{n}║") for n in range(10)]
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [str(outcome) for outcome in outcomes[:-1]] == [Reason.SUPERSEDED] * 9
        assert isinstance(outcomes[-1], CompletionResult)

    run(main, writes("1"))


def test_what_is_asked_for_by_key_never_waits_for_a_pause() -> None:
    async def main(desk: Desk) -> None:
        for num_keys in range(5):
            desk.ask(f"a =·{'x' * num_keys}║")
            await asyncio.sleep(0.02)  # faster than anybody reads
        desk.ask("b =·║", invoked=True)
        await asyncio.sleep(0)  # one turn of the loop
        assert desk.scheduler._latest, "it is with the scheduler already"

    run(main, writes("1"))


def test_an_idle_engine_starts_in_the_same_turn() -> None:
    async def main(desk: Desk) -> None:
        for place in "ab":
            await asyncio.sleep(0.1)  # no burst
            desk.ask(f"{place} =·║")
            await asyncio.sleep(0)  # one turn of the loop
            assert desk.scheduler._latest, "it is with the scheduler already"

    run(main, writes("1"))
