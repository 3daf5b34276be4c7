"""What one drafting step takes on this machine, measured when a source is loaded."""

from __future__ import annotations

import time
from collections.abc import Callable

_ROUNDS = 5
_ROW_SHARE = 0.2
"""What a row of a text that is read costs of a step, about."""
_SPREAD = 64
"""Rounds over which reading a text is spread: it is read once, and drafted from often."""


def measure_step(
    step: Callable[[], object], clock: Callable[[], float] = time.perf_counter
) -> float:
    """Milliseconds of one `step`: the best of a few runs, behind one that warms up."""
    step()
    best = float("inf")
    for _ in range(_ROUNDS):
        start = clock()
        step()
        best = min(best, (clock() - start) * 1000)
    return best


def reading_ms(num_rows: int, step_ms: float) -> float:
    """A round's share of the milliseconds that a drafter takes to read a text it has not seen."""
    return max(0, num_rows - 1) * _ROW_SHARE * step_ms / _SPREAD
