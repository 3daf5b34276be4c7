"""What is done in idle time, and that it gives way: on the real scheduler and completer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from lsp_server.answering.answering import Answering
from lsp_server.answering.lookahead import KEY, after_acceptance
from lsp_server.completion import CompletionResult, CompletionStats, Origin, Reason, Snapshot
from lsp_server.scheduler import Scheduler
from tests.marks import request_at
from tests.slow_model import PATIENCE, SlowModel, soon

OTHER = Snapshot("file:///other", 1, "plaintext", "other = ")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lsp_server.answering.lookahead.AFTER_ANSWER", (0.0, 0.05))
    monkeypatch.setattr("lsp_server.answering.lookahead.AFTER_EDIT", 0.0)
    monkeypatch.setattr("lsp_server.answering.lookahead.AFTER_REQUEST", 60.0)


Main = Callable[[Answering, SlowModel], Coroutine[Any, Any, None]]


def run(
    main: Main,
    text: Callable[[int], str] = lambda offset: f"f{offset}()",
    is_spare: bool = True,
    is_idle_useful: bool = True,
) -> None:
    model = SlowModel(lambda request: text(request.offset))

    async def work() -> None:
        scheduler = Scheduler()
        answering = Answering(scheduler, lambda uri: Reason.NOT_OPEN, lambda: is_spare)
        answering.use(model.engine(is_idle_useful=is_idle_useful))
        await asyncio.wait_for(main(answering, model), PATIENCE)
        model.is_held = False
        scheduler.stop()
        model.write(1000)
        assert await asyncio.to_thread(scheduler.join, PATIENCE)

    asyncio.run(work())


def offsets(model: SlowModel) -> list[int]:
    return [request.offset for request in model.requests]


async def rest(answering: Answering) -> None:
    """Until the scheduler has nothing left, and a little longer for what would come then."""
    for _ in range(5):
        await asyncio.sleep(0.02)  # that nothing comes can only be waited for
        while answering._scheduler._latest:
            await asyncio.sleep(0.01)  # the scheduler tells nobody when it is done


def test_after_an_answer_the_text_beyond_it_is_generated_two_steps_far() -> None:
    async def main(answering: Answering, model: SlowModel) -> None:
        assert (await answering.answer(request_at("a =·║"))).text == "f4()"
        await rest(answering)
        assert offsets(model) == [4, 8, 12]
        for accepted, beyond in (("a = f4()║", "f8()"), ("a = f4()f8()║", "f12()")):
            known = answering.known.find(_spot(accepted))
            assert known is not None
            assert (known.result.text, known.result.stats.origin) == (beyond, Origin.CACHE)

    run(main)


def _spot(marked: str):
    from lsp_server.answering.spot import Spot

    return Spot(request_at(marked))


def test_accepting_is_answered_from_there_and_it_goes_on_from_the_new_place() -> None:
    async def main(answering: Answering, model: SlowModel) -> None:
        await answering.answer(request_at("a =·║"))
        await rest(answering)
        answer = await answering.answer(request_at("a = f4()║"))
        assert (answer.text, answer.stats.origin) == ("f8()", Origin.CACHE)
        await rest(answering)
        assert offsets(model) == [4, 8, 12, 17], "what is known is not generated again"

    run(main)


def test_typing_through_what_is_shown_does_not_begin_it_anew() -> None:
    async def main(answering: Answering, model: SlowModel) -> None:
        await answering.answer(request_at("a =·║"))
        model.is_held = True
        await soon(model.reached), await soon(model.reached)
        assert (await answering.answer(request_at("a =·f║"))).text == "4()"
        assert (await answering.answer(request_at("a =·f4║"))).text == "()"
        model.is_held = False
        model.write(99)
        await rest(answering)
        assert offsets(model) == [4, 8, 12]

    run(main)


@pytest.mark.parametrize("uri", ["file:///case", "file:///other"])
def test_it_gives_way_to_a_request_at_once(uri: str) -> None:
    async def main(answering: Answering, model: SlowModel) -> None:
        await answering.answer(request_at("a =·║"))
        model.is_held = True
        await soon(model.reached), await soon(model.reached)
        snapshot = replace(OTHER, uri=uri)
        task = asyncio.ensure_future(
            answering.answer(replace(request_at("other =·║"), snapshot=snapshot, invoked=True))
        )
        assert await soon(model.ended) is None
        assert await soon(model.ended) == "superseded"
        model.write(99)
        assert (await task).text == "f8()"

    run(main)


@pytest.mark.parametrize("uri", ["file:///case", "file:///other"])
def test_it_ends_with_its_own_document_and_with_no_other(uri: str) -> None:
    async def main(answering: Answering, model: SlowModel) -> None:
        await answering.answer(request_at("a =·║"))
        answering.stop(uri, Reason.STALE)
        await rest(answering)
        assert offsets(model) == ([4] if uri == "file:///case" else [4, 8, 12])

    run(main)


def test_nothing_is_looked_for_beyond_no_answer() -> None:
    async def main(answering: Answering, model: SlowModel) -> None:
        assert (await answering.answer(request_at("a =·║"))).reason is Reason.EMPTY
        await rest(answering)
        assert offsets(model) == [4]

    run(main, lambda offset: "")


def test_beyond_an_empty_place_nothing_is_looked_for() -> None:
    async def main(answering: Answering, model: SlowModel) -> None:
        await answering.answer(request_at("a =·║"))
        await rest(answering)
        assert offsets(model) == [4, 5]

    run(main, lambda offset: "1" if offset == 4 else "")


@pytest.mark.parametrize("is_pause", [True, False], ids=["paused", "excluded"])
def test_what_ends_all_in_the_turn_of_an_answer_ends_what_comes_after_it(
    is_pause: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lsp_server.answering.lookahead.AFTER_REQUEST", 0.0)

    async def main(answering: Answering, model: SlowModel) -> None:
        def end(done: asyncio.Future[Any]) -> None:
            if is_pause:
                answering.pause()
            else:
                answering.stop("file:///case", Reason.EXCLUDED)

        model.is_held = True
        task = asyncio.ensure_future(answering.answer(request_at("a =·║")))
        await soon(model.reached)
        answering._scheduler._latest["file:///case"].future.add_done_callback(end)
        model.write(99)
        assert (await task).text == "f4()"
        await rest(answering)
        assert offsets(model) == [4]
        assert model.prepared.empty()

    run(main)


def test_nothing_is_kept_that_was_done_under_the_model_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main(answering: Answering, model: SlowModel) -> None:
        submit = answering._scheduler.submit

        def submit_before_another_model(key: str, *work: Any, **options: Any) -> Any:
            future = submit(key, *work, **options)
            if key == KEY:
                other = SlowModel(lambda request: "other").engine()
                future.add_done_callback(lambda done: answering.use(other))
            return future

        monkeypatch.setattr(answering._scheduler, "submit", submit_before_another_model)
        await answering.answer(request_at("a =·║"))
        await rest(answering)
        assert offsets(model) == [4, 8]
        assert answering.known.find(_spot("a = f4()║")) is None

    run(main)


@pytest.mark.parametrize("why_not", ["setting", "battery", "script"])
def test_it_can_be_off(why_not: str) -> None:
    async def main(answering: Answering, model: SlowModel) -> None:
        answering.looks_ahead = why_not != "setting"
        await answering.answer(request_at("a =·║"))
        await rest(answering)
        assert offsets(model) == [4]

    run(main, is_spare=why_not != "battery", is_idle_useful=why_not != "script")


def test_a_defect_there_costs_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    def text(offset: int) -> str:
        if offset == 5:
            raise ValueError("text of the user")
        return "1"

    async def main(answering: Answering, model: SlowModel) -> None:
        assert (await answering.answer(request_at("a =·║"))).text == "1"
        await rest(answering)
        assert (await answering.answer(request_at("b =·║"))).text == "1"

    run(main, text)
    assert "ValueError" in caplog.text
    assert "text of the user" not in caplog.text


def test_prompts_are_read_unless_a_request_comes_first() -> None:
    async def main(answering: Answering, model: SlowModel) -> None:
        engine = model.engine()

        def prepare() -> None:
            answering.ahead.prepare(engine, request_at("a =·║"))

        answering.ahead.came_to("file:///case", prepare)
        assert (await soon(model.prepared)).offset == 4
        answering.ahead.came_to("file:///case", prepare)
        await answering.answer(request_at("b =·║"))
        await rest(answering)
        assert model.prepared.empty()

    run(main)


@pytest.mark.parametrize("text", ["1", ""])
def test_at_rest_the_prompt_of_the_last_request_is_read_again(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lsp_server.answering.lookahead.AFTER_REQUEST", 0.3)

    async def main(answering: Answering, model: SlowModel) -> None:
        for marked in ("a =·║", "bb =·║"):
            await answering.answer(request_at(marked))
        assert (await soon(model.prepared)).offset == 5
        await answering.answer(request_at("bb =·║"))
        assert (await soon(model.prepared)).offset == 5
        assert model.prepared.empty()

    run(main, lambda offset: text)


@pytest.mark.parametrize("prose", [False, True])
def test_no_prompt_is_read_where_nothing_is_completed(prose: bool) -> None:
    async def main(answering: Answering, model: SlowModel) -> None:
        written = request_at("Once upon a ║", language="markdown", prose=prose)
        answering.ahead.prepare(model.engine(), written)
        await rest(answering)
        assert model.prepared.empty() is not prose

    run(main)


def test_no_prompt_is_read_on_battery() -> None:
    async def main(answering: Answering, model: SlowModel) -> None:
        answering.ahead.prepare(model.engine(), request_at("a =·║"))
        await rest(answering)
        assert model.prepared.empty()

    run(main, is_spare=False)


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_the_accepted_text_has_the_documents_line_ends(line_end: str) -> None:
    request = request_at("def f():║⏎⏎x", line_end, invoked=True, num_items=3, deadline_ms=5)
    result = CompletionResult("\n    1", 8, 8, None, CompletionStats())
    after = after_acceptance(request, result)
    assert after.snapshot.text == "def f():\n    1\n\nx".replace("\n", line_end)
    assert after.snapshot.text[: after.offset] == "def f():\n    1".replace("\n", line_end)
    assert (after.invoked, after.num_items, after.deadline_ms) == (False, 1, None)


def test_what_is_accepted_replaces_what_the_item_covers() -> None:
    result = CompletionResult("a)", 2, 3, None, CompletionStats())
    after = after_acceptance(request_at("f(║)⏎"), result)
    assert (after.snapshot.text, after.offset) == ("f(a)\n", 4)
