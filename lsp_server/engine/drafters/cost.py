"""What drafting takes on this machine, measured for each source that takes time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from lsp_server.engine.timing import Clock, best_ms

MEASURED_ROWS = 64
"""Rows of the text that is read to measure what one of them takes."""


@dataclass(frozen=True, slots=True)
class DraftCost:
    """Milliseconds of one source's passes."""

    step_ms: float
    """Of a pass that drafts."""
    row_ms: float = 0.0
    """Of a row of a text that is new to the source; 0 where it stands on the target's own rows."""
    is_quiet: bool = True
    """Measured while nothing else took the machine's time."""

    def reading_ms(self, num_rows: int) -> float:
        """Reading a text of which `num_rows` rows are new; the newest is part of every draft's
        first step."""
        return max(0, num_rows - 1) * self.row_ms

    def check(self) -> None:
        """ValueError unless the costs are finite numbers, and a step takes time."""
        if not (self.step_ms > 0.0 and self.row_ms >= 0.0):
            raise ValueError("a cost is not a number above zero")
        if not math.isfinite(self.step_ms + self.row_ms):
            raise ValueError("a cost is not finite")


FREE = DraftCost(0.0)
"""Of a source whose cost nobody asks for."""


def measure_draft(
    step: Callable[[], object],
    read: Callable[[], object] | None = None,
    num_rows: int = MEASURED_ROWS,
    clock: Clock = time.perf_counter,
) -> DraftCost:
    """Time `step`, which drafts one token, and `read`, which takes in `num_rows` rows of a text."""
    calls = {"step": step} if read is None else {"step": step, "read": read}
    for call in calls.values():
        call()  # the first one makes buffers
    ms, is_quiet = best_ms(calls, clock)
    row_ms = ms["read"] / num_rows if read is not None else 0.0
    return DraftCost(round(ms["step"], 4), round(row_ms, 4), is_quiet)
