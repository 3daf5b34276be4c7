"""Local counters: what was asked, shown, accepted, and what it cost. Nothing leaves the machine and
no text is kept, only numbers.

Names of the totals: `requests`; `shown` (different items that came up; one that the user types
along is one), `empty.REASON`; `latency_ms.ORIGIN.CLASS` of every answer with an item; `accepted`
(whole items) and of these `accepted_in_parts`, `partially_accepted` (items of which a part was
taken first), `parts.word`, `parts.line`, `characters` (all that was taken, and not typed); `kept`,
`not_kept`;
`generations`, `tokens`, `passes`, `prompt_tokens`, `reused_tokens` of the engine, whether its text
was shown or not; `sources.SOURCE.proposed` and `.accepted` in tokens; `positions.SOURCE.N.drafted`
and `.accepted` in drafts that reach the Nth token.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from lsp_server.completion import CompletionStats, Origin, Reason
from lsp_server.statistics.file import Counters, add
from lsp_server.statistics.shown import Shown

SAVE_SECONDS = 60.0
BOUNDS_MS = (
    *(1, 2, 5, 10, 25, 50, 75, 100, 150, 200, 300, 400, 500, 750),
    *(1000, 1500, 2000, 5000, 10_000),
)
"""Upper bounds of the latency classes; the last class is open."""

HOURLY = frozenset({"requests", "shown", "accepted", "characters", "tokens", "passes"})
"""Totals that are also kept by the hour."""


class Statistics:
    """Counters of this process; now and then, and at the end, they are added to those on disk.

    Every method may be called from any thread.
    """

    def __init__(
        self,
        folder: Path,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        """`clock` gives seconds, `now` the local time."""
        self._folder = folder
        self._clock = clock
        self._now = now
        self._saved_at = clock()
        self._lock = threading.Lock()
        self._counters = Counters()

    def answered(self, reason: Reason | None, ms: float, stats: CompletionStats | None) -> None:
        """A request was answered: with an item (`reason` None) or without one."""
        self._add("requests")
        if reason is not None:
            self._add(f"empty.{reason}")
            return
        origin = Origin.ENGINE if stats is None else stats.origin
        self._add(f"latency_ms.{origin}.{latency_class(ms)}")

    def shown(self, item: Shown) -> None:
        """An item came up; once for all of it."""
        self._add("shown")

    def generated(self, stats: CompletionStats) -> None:
        """The engine has worked, for an answer or ahead of one; nothing where it had not begun."""
        if not (stats.passes or stats.prompt_tokens):
            return
        self._add("generations")
        self._add("tokens", stats.tokens)
        self._add("passes", stats.passes)
        self._add("prompt_tokens", stats.prompt_tokens)
        self._add("reused_tokens", stats.reused_tokens)
        for source, counts in stats.sources.items():
            self._add(f"sources.{source}.proposed", counts["proposed"])
            self._add(f"sources.{source}.accepted", counts["accepted"])
        for what, by_source in (("drafted", stats.drafted_at), ("accepted", stats.accepted_at)):
            for source, positions in by_source.items():
                for position, number in enumerate(positions, start=1):
                    self._add(f"positions.{source}.{position}.{what}", number)

    def accepted(self, item: Shown) -> None:
        """The user has taken the whole item, or what was left of it."""
        self._add("accepted")
        if item.has_parts:
            self._add("accepted_in_parts")
        self._add("characters", len(item.text) - item.num_done)

    def partially_accepted(self, item: Shown, num_characters: int) -> None:
        """The user has taken the first `num_characters` of the item; `item.num_done` were there
        before."""
        if not item.has_parts:
            self._add("partially_accepted")
        self._add(f"parts.{part_kind(item.text, item.num_done, num_characters)}")
        self._add("characters", num_characters - item.num_done)

    def kept(self, item: Shown, is_kept: bool) -> None:
        """Whether what was taken of the item still stood in the document a while later."""
        self._add("kept" if is_kept else "not_kept")

    def save_sometimes(self) -> None:
        """Once a minute, on a thread of its own: a slow disk must not hold up an answer."""
        if self._clock() - self._saved_at < SAVE_SECONDS:
            return
        self._saved_at = self._clock()
        threading.Thread(target=self.save, name="statistics").start()

    def save(self) -> None:
        """Add what has been counted to the file and start again from zero."""
        with self._lock:
            counters, self._counters = self._counters, Counters()
        add(self._folder, counters, self._now().date())

    def _add(self, name: str, number: int = 1) -> None:
        if not number:
            return
        hour = f"{self._now():%Y-%m-%dT%H}" if name in HOURLY else None
        with self._lock:
            self._counters.add(name, number, hour)


def latency_class(ms: float) -> str:
    """`<=50` for the class of 25 to 50 ms; `>10000` for the open one."""
    for bound in BOUNDS_MS:
        if ms <= bound:
            return f"<={bound}"
    return f">{BOUNDS_MS[-1]}"


def part_kind(text: str, start: int, end: int) -> str:
    """`line` where the part text[start:end] goes to the end of a line, else `word`."""
    return "line" if "\n" in text[start : end + 1] else "word"
