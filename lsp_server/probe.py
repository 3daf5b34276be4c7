"""What `bench replay` asks of a server: how late its event loop ran, what its engine had to do.

Off, and of no cost, unless the environment has TABAHEAD_PROBE. Numbers only, no text.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lsp_server.completion import unwatched

if TYPE_CHECKING:
    from lsp_server.answers import Answer
    from lsp_server.cancellation import CancelToken
    from lsp_server.completion import Complete, CompletionRequest, CompletionResult, Watch

SWITCH = "TABAHEAD_PROBE"
REQUEST = "tabahead/probe"
PERIOD_MS = 10.0
"""From one beat of the heartbeat to the next."""


def wanted() -> bool:
    return bool(os.environ.get(SWITCH))


class Probe:
    """All but `watch`'s work happens on the event loop."""

    def __init__(self) -> None:
        self._heart: asyncio.Task[None] | None = None
        self._num_running = 0
        self._clear()

    def _clear(self) -> None:
        self._late_ms: list[float] = []
        self._num_generations = 0
        self._num_ahead = 0
        self._prefilled: list[int] = []
        self._origins: dict[str, str] = {}
        self._reasons: Counter[str] = Counter()

    def watch(self, complete: Complete) -> Complete:
        """The same work, counted; nobody watches what is done ahead of a request."""

        def counted(
            request: CompletionRequest, cancel: CancelToken, watch: Watch
        ) -> CompletionResult:
            is_ahead = watch is unwatched
            self._num_generations += 1
            self._num_ahead += is_ahead
            self._num_running += 1
            try:
                result = complete(request, cancel, watch)
            finally:
                self._num_running -= 1
            if result.stats.prompt_tokens and not is_ahead:
                self._prefilled.append(result.stats.prompt_tokens - result.stats.reused_tokens)
            return result

        return counted

    def answered(self, answer: Answer) -> None:
        if answer.reason is not None:
            self._reasons[answer.reason.value] += 1
        elif answer.item is not None and answer.stats is not None:
            self._origins[answer.item.item_id] = answer.stats.origin.value

    def report(self, params: Any) -> Mapping[str, Any]:
        """The figures since the last report; `{"beat": BOOL}` starts or stops the heartbeat."""
        figures = {
            "cpu_s": time.process_time(),
            "late_ms": self._late_ms,
            "generations": self._num_generations,
            "ahead": self._num_ahead,
            "running": self._num_running,
            "prefilled": self._prefilled,
            "origins": self._origins,
            "reasons": self._reasons,
        }
        self._clear()
        if self._heart is not None:
            self._heart.cancel()
            self._heart = None
        if isinstance(params, dict) and params.get("beat"):
            self._heart = asyncio.get_running_loop().create_task(self._beat())
        return figures

    async def _beat(self) -> None:
        """How late each beat comes. Beats that fall due while the loop is held up count too, each
        with what is left of the wait: else a long stall would be one sample among hundreds."""
        while True:
            due = time.perf_counter() + PERIOD_MS / 1000
            await asyncio.sleep(PERIOD_MS / 1000)  # how late it ends is what is measured
            late = (time.perf_counter() - due) * 1000
            while late > 0.0:
                self._late_ms.append(round(late, 2))
                late -= PERIOD_MS
