"""What a key costs the event loop in a document of a megabyte, whatever answers it.

Processor time of the loop's own thread, which other programs on the machine hardly change.
"""

from __future__ import annotations

import asyncio
import statistics
import time

import pytest

from lsp_server.cancellation import CancelToken
from lsp_server.completion import (
    CompletionRequest,
    CompletionResult,
    CompletionStats,
    Engine,
    Origin,
    Watch,
)
from lsp_server.documents import Change, DocumentStore, Position, Range
from lsp_server.params import InlineCompletionParams
from lsp_server.scheduler import Scheduler
from lsp_server.session import Listener, Session
from tests.benchmarks.figures import keep

BAR_MS = 5.0
URI = "file:///large.py"
LINES = 22_000
LINE = "    return first + second  # of the two numbers\n"
ITEM = "x" * 100


def complete(request: CompletionRequest, cancel: CancelToken, watch: Watch) -> CompletionResult:
    return CompletionResult(ITEM, request.offset, request.offset, None, CompletionStats())


@pytest.mark.parametrize("line_end", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize(("key", "origin"), [("x", Origin.TYPED_THROUGH), ("y", Origin.ENGINE)])
def test_a_key_costs_the_event_loop_less_than_five_milliseconds(line_end, key, origin):
    text = LINE.replace("\n", line_end) * LINES
    assert len(text) > 1_000_000
    line, column = LINES // 2, len(LINE) - 1
    times = []

    async def main() -> None:
        session = Session(Scheduler(), DocumentStore(max_chars=2 * len(text)), Listener())
        session.documents.open(URI, "python", 1, text)
        session.use(Engine(complete, prepare=lambda request, cancel: None))

        async def ask(typed: int) -> Origin:
            position = Position(line, column + typed)
            params = InlineCompletionParams(URI, None, position, False, None, None, None)
            answer = await session.complete(params)
            assert answer.stats is not None
            return answer.stats.origin

        await ask(0)
        for typed in range(50):
            start = time.thread_time()
            place = Position(line, column + typed)
            session.change(URI, 2 + typed, [Change(Range(place, place), key)])
            assert await ask(typed + 1) is origin
            times.append((time.thread_time() - start) * 1000)
        session.scheduler.stop()

    asyncio.run(main())
    median = statistics.median(times)
    keep(f"event_loop_{origin.value}_{len(line_end)}", median_ms=median, worst_ms=max(times))
    assert median < BAR_MS
