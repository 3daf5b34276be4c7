"""Whatever is typed, cancelled and written in whatever order: one answer each, and a right one."""

from __future__ import annotations

import asyncio
import gc
import logging
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsp_server.answering.answering import Answering
from lsp_server.backend.scripted import Entry, ScriptedBackend
from lsp_server.cancellation import CancelToken
from lsp_server.completer import complete
from lsp_server.completion import CompletionRequest, CompletionResult, Reason, Snapshot
from lsp_server.errors import Cancelled
from lsp_server.scheduler import Scheduler
from tests.slow_model import PATIENCE, SlowModel

KEY = st.tuples(st.just("key"), st.sampled_from(["a", "b", "next", "next", "next", "x"]))
STEPS = st.lists(
    st.one_of(
        KEY,
        KEY,
        KEY,
        st.tuples(st.just("ask"), st.sampled_from([0, 1])),
        st.tuples(st.just("back"), st.just(1)),
        st.tuples(st.just("cancel"), st.sampled_from([-1, -2])),
        st.tuples(st.just("write"), st.integers(1, 7)),
        st.tuples(st.just("turn"), st.integers(0, 2)),
        st.tuples(st.just("close"), st.just(0)),
    ),
    min_size=4,
    max_size=25,
)
"""A key is typed, which may be the one that the model foretells, and a completion asked for."""


def written(request: CompletionRequest) -> str:
    """Goes on where the text agrees with it: `ababab...` to the sixth letter."""
    before = request.snapshot.text[: request.offset].rpartition(" ")[2]
    return "ababab"[len(before) :] if "ababab".startswith(before) else "xyz"


def fresh(request: CompletionRequest) -> CompletionResult:
    backend = ScriptedBackend([Entry("", written(request))])
    return complete(request, backend, CancelToken())


class Client:
    """Two documents that are edited and asked about in any order."""

    def __init__(self) -> None:
        self.model = SlowModel(written, is_held=True)
        self.scheduler = Scheduler()
        self.texts = ["a = ", "b = "]
        self.answering = Answering(self.scheduler, self.snapshot, lambda: True)
        self.answering.use(self.model.engine(is_idle_useful=False))
        self.asked: list[tuple[CompletionRequest, asyncio.Task[CompletionResult]]] = []

    def snapshot(self, uri: str) -> Snapshot | Reason:
        return Snapshot(uri, 1, "unknown", self.texts[int(uri)])

    async def do(self, what: str, how: Any, document: int) -> None:
        uri, text = str(document), self.texts[document]
        if what == "ask":
            snapshot = Snapshot(uri, 1, "unknown", text)
            request = CompletionRequest(snapshot, len(text), invoked=bool(how))
            task = asyncio.ensure_future(self.answering.answer(request))
            self.asked.append((request, task))
            await asyncio.sleep(0)  # one turn of the loop
        elif what in ("key", "back"):
            key = "ab"[len(text) % 2] if how == "next" else how
            self.texts[document] = text + key if what == "key" else text[:4] + text[4:-how]
            self.answering.changed(uri)
            await self.do("ask", 0, document)
        elif what == "cancel" and len(self.asked) >= -how:
            self.asked[how][1].cancel()
        elif what == "write":
            self.model.write(how)
        elif what == "turn":
            await asyncio.sleep(0.002 * how)  # time is one of the things that happen
        elif what == "close":
            self.answering.stop(uri, Reason.STALE)

    async def end(self) -> list[Any]:
        self.model.is_held = False
        self.model.write(1000)
        tasks = [task for _, task in self.asked]
        outcomes = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), PATIENCE)
        while self.scheduler._latest:
            await asyncio.sleep(0.001)  # the scheduler tells nobody when it is done
        self.scheduler.stop()
        assert await asyncio.to_thread(self.scheduler.join, PATIENCE)
        return outcomes


@settings(max_examples=60)
@given(steps=STEPS, documents=st.lists(st.sampled_from([0, 0, 1]), min_size=25, max_size=25))
def test_every_request_gets_one_answer_that_is_right_at_its_place(steps, documents):
    async def main() -> tuple[Client, list[Any]]:
        client = Client()
        for (what, how), document in zip(steps, documents, strict=False):
            await client.do(what, how, document)
        return client, await client.end()

    client, outcomes = asyncio.run(main())
    promised: set[tuple[str, str]] = set()
    for (request, _), outcome in zip(client.asked, outcomes, strict=True):
        uri, text = request.snapshot.uri, request.snapshot.text
        expected = fresh(request)
        promised.add((uri, accepted(text, expected)))
        if isinstance(outcome, CompletionResult):
            if outcome.stats.num_typed:
                assert (uri, accepted(text, outcome)) in promised
            else:
                assert replace(outcome, stats=expected.stats) == expected
        else:
            assert isinstance(outcome, Cancelled | asyncio.CancelledError)
            assert str(outcome) in ("", Reason.SUPERSEDED, Reason.STALE, Reason.CANCELLED)


def accepted(text: str, result: CompletionResult) -> str:
    return text[: result.start] + result.text + text[result.end :]


@settings(max_examples=25)
@given(steps=STEPS)
def test_the_last_request_that_nothing_overtakes_has_a_result_and_nothing_is_left(steps):
    async def main() -> tuple[Client, list[Any]]:
        client = Client()
        for what, how in steps:
            await client.do(what, how, 0)
        await client.do("ask", 0, 0)
        outcomes = await client.end()
        assert all(
            desk.waiter is None and desk.flight is None and desk.timer is None
            for desk in client.answering._desks.values()
        )
        return client, outcomes

    _, outcomes = asyncio.run(main())
    assert isinstance(outcomes[-1], CompletionResult)


def test_nothing_that_failed_is_left_unheard(caplog: pytest.LogCaptureFixture) -> None:
    """Futures complain in the log when their exception was never looked at."""

    async def main() -> None:
        client = Client()
        for what, how in (("ask", 0), ("turn", 2), ("key", "x"), ("close", 0)):
            await client.do(what, how, 0)
        client.asked[-1][1].cancel()
        await client.end()

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
        gc.collect()
    assert caplog.text == ""
