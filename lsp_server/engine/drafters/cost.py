"""What one drafting step takes on this machine, measured when a source is loaded."""

from __future__ import annotations

import time
from collections.abc import Callable

_ROUNDS = 5


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
