"""What calls take on this machine, and whether anything else ran while they were timed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

Name = TypeVar("Name")
Clock = Callable[[], float]
"""Seconds, from any beginning."""

_ROUNDS = 5
_QUIET = 1.3
"""Median over best of a call's times, above which something else ran too."""


def best_ms(
    calls: Mapping[Name, Callable[[], object]], clock: Clock = time.perf_counter
) -> tuple[dict[Name, float], bool]:
    """Milliseconds of each call, the best of a few rounds in which they take turns; and whether the
    machine was quiet meanwhile."""
    times: dict[Name, list[float]] = {name: [] for name in calls}
    for _ in range(_ROUNDS):
        for name, call in calls.items():
            start = clock()
            call()
            times[name].append((clock() - start) * 1000)
    is_quiet = all(statistics.median(took) <= _QUIET * min(took) for took in times.values())
    return {name: min(took) for name, took in times.items()}, is_quiet
