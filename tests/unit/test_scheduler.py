"""The inference thread: what runs, what never starts, and that everybody gets an answer."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from lsp_server.cancellation import CancelToken
from lsp_server.errors import Cancelled
from lsp_server.scheduler import NICENESS, Scheduler
from tests.lsp_client import environment

PATIENCE = 20.0


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, PATIENCE))


class Work:
    """Runs until it is released or its token is set."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.release = threading.Event()
        self.token: CancelToken | None = None

    def __call__(self, cancel: CancelToken) -> str:
        self.token = cancel
        self.started.set()
        with cancel.on_cancel(self.release.set):
            assert self.release.wait(PATIENCE)
        cancel.raise_if_cancelled()
        return "done"


async def until(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, PATIENCE)


def test_work_runs_in_one_thread_that_is_not_the_loops() -> None:
    async def main() -> None:
        scheduler = Scheduler()
        names = [
            await scheduler.submit(key, lambda cancel: threading.current_thread().name)
            for key in "abc"
        ]
        assert names == ["tabahead-inference"] * 3
        scheduler.stop()
        assert scheduler.join(PATIENCE)

    run(main())


def test_a_newer_job_of_a_document_supersedes_the_running_one() -> None:
    async def main() -> None:
        scheduler, old = Scheduler(), Work()
        first = scheduler.submit("a", old)
        await until(old.started)
        second = scheduler.submit("a", lambda cancel: "new")
        with pytest.raises(Cancelled, match="superseded"):
            await first
        assert old.token is not None
        assert old.token.reason == "superseded"
        assert await second == "new"

    run(main())


def test_a_superseded_job_is_answered_before_the_thread_lets_go_of_it() -> None:
    async def main() -> None:
        scheduler, stubborn = Scheduler(), threading.Event()
        started = threading.Event()

        def deaf(cancel: CancelToken) -> None:
            started.set()
            stubborn.wait(PATIENCE)

        first = scheduler.submit("a", deaf)
        await until(started)
        second = scheduler.submit("a", lambda cancel: "new")
        with pytest.raises(Cancelled, match="superseded"):
            await first
        assert not second.done()
        stubborn.set()
        assert await second == "new"

    run(main())


def test_documents_do_not_supersede_each_other() -> None:
    async def main() -> None:
        scheduler, work = Scheduler(), Work()
        first = scheduler.submit("a", work)
        second = scheduler.submit("b", lambda cancel: "b")
        await until(work.started)
        work.release.set()
        assert await asyncio.gather(first, second) == ["done", "b"]

    run(main())


def test_queued_jobs_that_are_cancelled_never_start() -> None:
    async def main() -> None:
        scheduler, blocker, started = Scheduler(), Work(), []
        first = scheduler.submit("blocker", blocker)
        await until(blocker.started)
        queued = [scheduler.submit("a", lambda cancel, n=n: started.append(n)) for n in range(20)]
        queued[-1].cancel()
        await asyncio.sleep(0)  # callbacks of a cancelled future run in the next turn
        blocker.release.set()
        assert await first == "done"
        assert await scheduler.submit("b", lambda cancel: "after") == "after"
        outcomes = await asyncio.gather(*queued, return_exceptions=True)
        assert [str(outcome) for outcome in outcomes[:-1]] == ["superseded"] * 19
        assert started == []

    run(main())


def test_cancelling_the_future_sets_the_token_of_the_running_job() -> None:
    async def main() -> None:
        scheduler, work = Scheduler(), Work()
        future = scheduler.submit("a", work)
        await until(work.started)
        future.cancel()
        await until(work.release)
        assert work.token is not None
        assert work.token.reason == "cancelled"
        assert await scheduler.submit("a", lambda cancel: "next") == "next"

    run(main())


def test_the_timeout_counts_the_time_in_the_queue() -> None:
    async def main() -> None:
        scheduler, blocker, started = Scheduler(), Work(), []
        first = scheduler.submit("blocker", blocker)
        late = scheduler.submit("a", lambda cancel: started.append(1), timeout=0.01)
        with pytest.raises(Cancelled, match="deadline"):
            await late
        blocker.release.set()
        await first
        assert await scheduler.submit("b", lambda cancel: "after") == "after"
        assert started == []

    run(main())


def test_the_timeout_stops_a_running_job() -> None:
    async def main() -> None:
        scheduler, work = Scheduler(), Work()
        future = scheduler.submit("a", work, timeout=0.05)
        with pytest.raises(Cancelled, match="deadline"):
            await future
        assert await scheduler.submit("b", lambda cancel: "after") == "after"

    run(main())


class Odd(BaseException):
    pass


@pytest.mark.parametrize("error", [ValueError("no"), MemoryError(), SystemExit(3), Odd()])
def test_whatever_work_raises_is_the_callers_and_the_thread_lives_on(error: BaseException) -> None:
    async def main() -> None:
        scheduler = Scheduler()

        def fails(cancel: CancelToken) -> None:
            raise error

        (raised,) = await asyncio.gather(scheduler.submit("a", fails), return_exceptions=True)
        assert isinstance(raised, Exception)
        assert error in (raised, raised.__cause__)
        assert await scheduler.submit("a", lambda cancel: "alive") == "alive"

    run(main())


def test_stop_answers_everything_and_ends_the_thread() -> None:
    async def main() -> None:
        scheduler, work = Scheduler(), Work()
        futures = [scheduler.submit("a", work)]
        await until(work.started)
        futures += [scheduler.submit(key, lambda cancel: "never") for key in "bcd"]
        scheduler.stop()
        futures.append(scheduler.submit("e", lambda cancel: "never"))
        outcomes = await asyncio.gather(*futures, return_exceptions=True)
        assert [str(outcome) for outcome in outcomes] == ["shutdown"] * 5
        assert scheduler.join(PATIENCE)

    run(main())


def test_join_tells_of_a_thread_that_does_not_listen() -> None:
    async def main() -> None:
        scheduler, deaf, started = Scheduler(), threading.Event(), threading.Event()

        def work(cancel: CancelToken) -> None:
            started.set()
            deaf.wait(PATIENCE)

        future = scheduler.submit("a", work)
        await until(started)
        scheduler.stop()
        assert not scheduler.join(0.01)
        deaf.set()
        assert scheduler.join(PATIENCE)
        with pytest.raises(Cancelled):
            await future

    run(main())


def test_finished_work_leaves_nothing_behind() -> None:
    async def main() -> None:
        scheduler = Scheduler()
        for n in range(100):
            await scheduler.submit(f"file:///{n}", lambda cancel: None)
        await asyncio.sleep(0)  # callbacks of a finished future run in the next turn
        assert scheduler._latest == {}

    run(main())


def test_it_knows_neither_the_protocol_nor_arrays() -> None:
    code = (
        "import sys, lsp_server.scheduler, lsp_server.session, lsp_server.documents\n"
        "import lsp_server.params, lsp_server.stdio\n"
        "print({'pygls', 'lsprotocol', 'numpy', 'onnxruntime', 'tokenizers'} & set(sys.modules))"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    assert output.stdout.strip() == "set()"


# Idle work.


def test_idle_work_runs_when_there_is_no_other() -> None:
    async def main() -> None:
        scheduler, blocker, order = Scheduler(), Work(), []
        first = scheduler.submit("blocker", blocker)
        await until(blocker.started)
        idle = scheduler.submit("idle", lambda cancel: order.append("idle"), is_idle_work=True)
        blocker.release.set()
        await asyncio.gather(first, idle)
        assert order == ["idle"]

    run(main())


@pytest.mark.parametrize("has_begun", [True, False])
def test_idle_work_gives_way_to_all_other(has_begun: bool) -> None:
    async def main() -> None:
        scheduler, blocker, work = Scheduler(), Work(), Work()
        if not has_begun:
            first = scheduler.submit("blocker", blocker)
            await until(blocker.started)
        idle = scheduler.submit("idle", work, is_idle_work=True)
        if has_begun:
            await until(work.started)
        other = scheduler.submit("a", lambda cancel: "a")
        with pytest.raises(Cancelled, match="superseded"):
            await idle
        if not has_begun:
            blocker.release.set()
            await first
        assert await other == "a"
        assert work.started.is_set() is has_begun

    run(main())


def test_new_idle_work_does_not_disturb_what_is_done_for_somebody() -> None:
    async def main() -> None:
        scheduler, work = Scheduler(), Work()
        task = scheduler.submit("a", work)
        await until(work.started)
        queued = scheduler.submit("b", lambda cancel: "b")
        idle = scheduler.submit("idle", lambda cancel: "idle", is_idle_work=True)
        work.release.set()
        assert await asyncio.gather(task, queued, idle) == ["done", "b", "idle"]

    run(main())


@pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities of their own there")
def test_the_threads_of_the_engine_come_after_all_others() -> None:
    def niceness() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    def begun_there(cancel: CancelToken) -> list[int]:
        found = [niceness()]
        thread = threading.Thread(target=lambda: found.append(niceness()))
        thread.start()
        thread.join(PATIENCE)
        return found

    async def main() -> None:
        before = niceness()
        assert await Scheduler().submit("a", begun_there) == [max(before, NICENESS)] * 2
        assert await Scheduler(gives_way=False).submit("a", begun_there) == [before] * 2
        assert niceness() == before, "the event loop keeps its own"

    run(main())
