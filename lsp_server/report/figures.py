"""From bare counters to what a person wants to know: rates, percentiles, days and hours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import pairwise
from typing import Any

from lsp_server.statistics.counting import BOUNDS_MS
from lsp_server.statistics.file import NUM_DAYS, Counters

ORIGINS = ("cache", "typed_through", "engine")
"""Where answers come from, the quickest first."""

OVERTAKEN = frozenset({"superseded", "stale", "cancelled"})
"""Reasons that say that typing went on, not that there was nothing to say."""


_LATENCY = re.compile(r"latency_ms\.(\w+)\.(<=|>)(\d+)")
_POSITION = re.compile(r"positions\.(.+)\.(\d{1,2})\.(drafted|accepted)")
"""Names of totals; what is in the file and has another form was never written there."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Times from the request to an answer with an item, in classes."""

    classes: tuple[tuple[float, float | None, int], ...] = ()
    """(above, up to, number) in milliseconds, ascending; up to None: any longer time. The same
    classes for all origins."""

    @property
    def count(self) -> int:
        return sum(number for _, _, number in self.classes)

    def percentile(self, share: float) -> float | None:
        """Milliseconds within which `share` of the answers came, as if they lay evenly within
        their class; in the open class its lower bound. None without answers."""
        wanted = share * self.count
        if not self.count:
            return None
        for low, high, number in self.classes:
            if number and wanted <= number:
                return low if high is None else low + (high - low) * wanted / number
            wanted -= number
        return None

    def as_json(self) -> dict[str, Any]:
        shares = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}
        return {
            "count": self.count,
            **{name: _rounded(self.percentile(share)) for name, share in shares.items()},
            "classes": [list(entry) for entry in self.classes],
        }


@dataclass(frozen=True, slots=True)
class Source:
    """What became of the drafts of one source."""

    proposed: int = 0
    accepted: int = 0
    """Tokens, both."""
    positions: tuple[tuple[int, int], ...] = ()
    """Per position in the draft: drafts that reached it, and drafts accepted up to it."""

    def as_json(self) -> dict[str, Any]:
        return {
            "proposed": self.proposed,
            "accepted": self.accepted,
            "positions": [{"drafted": d, "accepted": a} for d, a in self.positions],
        }


@dataclass(frozen=True, slots=True)
class Span:
    """One hour of the day over the last days, or one day."""

    name: str
    shown: int = 0
    accepted: int = 0


@dataclass(frozen=True, slots=True)
class Figures:
    since: str | None
    counts: Mapping[str, int]
    """The plain totals, 0 for what has not happened."""
    latency: Mapping[str, Latency]
    """By origin, those with answers."""
    empty: Mapping[str, int]
    """Reason -> answers without an item, the commonest first."""
    sources: Mapping[str, Source]
    yields: tuple[int, ...]
    """Passes of the model that gave 1, 2, ... tokens."""
    hours: tuple[Span, ...] = field(default=())
    """24, from midnight on, summed over the last days."""
    days: tuple[Span, ...] = field(default=())
    """The last days, the oldest first."""

    @classmethod
    def of(cls, counters: Counters, today: date) -> Figures:
        """`today` is the last of the days."""
        totals = counters.totals
        sources = _sources(totals)
        return cls(
            since=counters.since,
            counts={name: totals.get(name, 0) for name in _PLAIN},
            latency=_latency(totals),
            empty=dict(sorted(_below(totals, "empty."), key=lambda entry: (-entry[1], entry[0]))),
            sources=sources,
            yields=_yields(totals.get("passes", 0), sources.values()),
            hours=_hours(counters, today),
            days=_days(counters, today),
        )

    @property
    def num_taken(self) -> int:
        """Items that the user has taken, whole or in part."""
        counts = self.counts
        return counts["accepted"] + counts["partially_accepted"] - counts["accepted_in_parts"]

    @property
    def keystrokes_saved(self) -> int:
        """Characters that were taken, less one key each time that something was."""
        counts = self.counts
        whole = counts["accepted"]
        return max(0, counts["characters"] - whole - counts["parts.word"] - counts["parts.line"])

    @property
    def all_latency(self) -> Latency:
        """Of all answers with an item, wherever they came from."""
        together = zip(*(latency.classes for latency in self.latency.values()), strict=True)
        return Latency(
            tuple((*same[0][:2], sum(number for _, _, number in same)) for same in together)
        )

    def share(self, part: str, *of: str) -> float | None:
        """counts[part] / the sum of counts[of]; None where there is nothing to divide by."""
        whole = sum(self.counts[name] for name in of)
        return self.counts[part] / whole if whole else None

    def as_json(self) -> dict[str, Any]:
        return {
            "since": self.since,
            **self.counts,
            "taken": self.num_taken,
            "keystrokes_saved": self.keystrokes_saved,
            "tokens_per_pass": _rounded(self.share("tokens", "passes")),
            "latency": {origin: latency.as_json() for origin, latency in self.latency.items()},
            "empty": dict(self.empty),
            "sources": {name: source.as_json() for name, source in self.sources.items()},
            "passes_by_tokens": list(self.yields),
            "hours": [_span_json(span) for span in self.hours],
            "days": [_span_json(span) for span in self.days],
        }


_PLAIN = (
    *("requests", "shown", "accepted", "accepted_in_parts", "partially_accepted"),
    *("parts.word", "parts.line", "characters", "kept", "not_kept", "generations"),
    *("tokens", "passes", "prompt_tokens", "reused_tokens"),
)


def _below(totals: Mapping[str, int], prefix: str) -> Iterable[tuple[str, int]]:
    return [(n.removeprefix(prefix), count) for n, count in totals.items() if n.startswith(prefix)]


def _latency(totals: Mapping[str, int]) -> dict[str, Latency]:
    found: dict[str, dict[tuple[float, bool], int]] = {}
    for name, number in totals.items():
        if match := _LATENCY.fullmatch(name):
            origin, sign, bound = match.groups()
            found.setdefault(origin, {})[float(bound), sign == ">"] = number
    # An older version may have had other classes.
    bounds = sorted(
        {0.0, *BOUNDS_MS, *(bound for classes in found.values() for bound, _ in classes)}
    )
    closed = list(pairwise(bounds))
    opened = sorted({bound for classes in found.values() for bound, is_open in classes if is_open})
    return {
        origin: Latency(
            (
                *((low, high, found[origin].get((high, False), 0)) for low, high in closed),
                *((bound, None, found[origin].get((bound, True), 0)) for bound in opened),
            )
        )
        for origin in sorted(found, key=_rank)
    }


def _rank(origin: str) -> tuple[int, str]:
    return (ORIGINS.index(origin) if origin in ORIGINS else len(ORIGINS)), origin


def _sources(totals: Mapping[str, int]) -> dict[str, Source]:
    tokens: dict[str, dict[str, int]] = {}
    for name, number in _below(totals, "sources."):
        source, _, what = name.rpartition(".")
        tokens.setdefault(source, {})[what] = number
    at: dict[str, dict[int, dict[str, int]]] = {}
    for name, number in totals.items():
        if match := _POSITION.fullmatch(name):
            source, position, what = match.groups()
            at.setdefault(source, {}).setdefault(int(position), {})[what] = number
    found = {}
    for source in sorted(tokens):
        reached = at.get(source, {})
        positions = tuple(
            (reached.get(n, {}).get("drafted", 0), reached.get(n, {}).get("accepted", 0))
            for n in range(1, max(reached, default=0) + 1)
        )
        counts = tokens[source]
        found[source] = Source(counts.get("proposed", 0), counts.get("accepted", 0), positions)
    return found


def _yields(num_passes: int, sources: Iterable[Source]) -> tuple[int, ...]:
    """A pass gives one token more than the draft positions that it accepts; those without a draft
    give one."""
    deeper: list[int] = []
    for source in sources:
        deeper.extend([0] * (len(source.positions) - len(deeper)))
        for index, (_, accepted) in enumerate(source.positions):
            deeper[index] += accepted
    while deeper and not deeper[-1]:
        deeper.pop()
    at_least = [num_passes, *deeper, 0]
    return tuple(a - b for a, b in pairwise(at_least)) if num_passes else ()


def _hours(counters: Counters, today: date) -> tuple[Span, ...]:
    names = [f"{hour:02}" for hour in range(24)]
    first = (today - timedelta(days=NUM_DAYS - 1)).isoformat()
    inside = {hour: c for hour, c in counters.hours.items() if first <= hour[:10]}
    return tuple(
        _span(f"{name}:00", [c for hour, c in inside.items() if hour[11:] == name])
        for name in names
    )


def _days(counters: Counters, today: date) -> tuple[Span, ...]:
    days = [(today - timedelta(days=ago)).isoformat() for ago in range(NUM_DAYS - 1, -1, -1)]
    return tuple(
        _span(day, [c for hour, c in counters.hours.items() if hour[:10] == day]) for day in days
    )


def _span(name: str, counts: Iterable[Mapping[str, int]]) -> Span:
    found = list(counts)
    return Span(
        name, sum(c.get("shown", 0) for c in found), sum(c.get("accepted", 0) for c in found)
    )


def _span_json(span: Span) -> dict[str, Any]:
    return {"name": span.name, "shown": span.shown, "accepted": span.accepted}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
