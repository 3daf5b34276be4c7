"""Counters as some weeks of work would leave them, for pages and tables to show."""

from __future__ import annotations

import random
from datetime import date, timedelta

from lsp_server.statistics.counting import latency_class
from lsp_server.statistics.file import Counters

TODAY = date(2026, 3, 14)

_EMPTY = {
    "superseded": 5200,
    "stale": 880,
    "mid-word": 1900,
    "low-confidence": 1500,
    "empty": 420,
    "duplicate-suffix": 230,
    "repetition": 45,
    "prose": 310,
}
_TIMES = {"engine": (240.0, 3200), "cache": (3.0, 1400), "typed_through": (1.2, 6100)}
"""Origin -> median in ms, answers."""
_DRAFTS = {"lookup": (41_000, 0.7), "corpus": (9000, 0.55), "draft": (5000, 0.6)}
"""Source -> tokens proposed, share accepted at a position."""
_HOURS = {9: 1.0, 10: 1.4, 11: 1.2, 12: 0.4, 13: 0.8, 14: 1.3, 15: 1.5, 16: 1.1, 21: 0.3}


def made_up() -> Counters:
    """The same each time."""
    numbers = random.Random(3)
    counters = Counters(since="2026-01-20")
    for reason, count in _EMPTY.items():
        counters.add(f"empty.{reason}", count)
    for origin, (median, count) in _TIMES.items():
        for _ in range(count):
            name = latency_class(numbers.lognormvariate(0, 0.7) * median)
            counters.add(f"latency_ms.{origin}.{name}", 1)
    for source, (proposed, share) in _DRAFTS.items():
        counters.add(f"sources.{source}.proposed", proposed)
        drafted = proposed // 5
        for position in range(1, 9):
            accepted = int(drafted * share)
            counters.add(f"positions.{source}.{position}.drafted", drafted)
            counters.add(f"positions.{source}.{position}.accepted", accepted)
            counters.add(f"sources.{source}.accepted", accepted)
            drafted = accepted
    counters.totals |= {
        "requests": sum(_EMPTY.values()) + sum(count for _, count in _TIMES.values()),
        "shown": 4700,
        "accepted": 1390,
        "accepted_in_parts": 90,
        "partially_accepted": 260,
        "parts.word": 410,
        "parts.line": 122,
        "characters": 38_211,
        "kept": 1180,
        "not_kept": 240,
        "generations": 7900,
        "tokens": 88_000,
        "passes": 61_000,
        "prompt_tokens": 4_900_000,
        "reused_tokens": 4_700_000,
    }
    for ago in range(30):
        day = TODAY - timedelta(days=ago)
        if day.weekday() < 5:
            for hour, weight in _HOURS.items():
                shown = int(weight * numbers.uniform(3, 20))
                accepted = int(shown * numbers.uniform(0.1, 0.5))
                counters.hours[f"{day}T{hour:02}"] = {"shown": shown, "accepted": accepted}
    return counters
