"""Local counters: what was asked, shown, accepted, and how long it took. Nothing leaves the machine
and no text is kept, only numbers."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_log = logging.getLogger(__name__)

FILE_NAME = "statistics.json"
SAVE_SECONDS = 60.0
LOCK_SECONDS = 5.0
_BOUNDS_MS = (5, 10, 25, 50, 100, 150, 200, 300, 500, 750, 1000, 2000, 5000)
"""Upper bounds of the latency classes; the last class is open."""


class Statistics:
    """Counters of this process; now and then, and at the end, they are added to those on disk."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._clock = clock
        self._saved_at = clock()
        self._counts: dict[str, int] = {}

    def answered(
        self, reason: str | None, ms: float, sources: Mapping[str, Mapping[str, int]]
    ) -> None:
        """One request was answered: with an item (`reason` None) or without one."""
        self._add("requests")
        if reason is None:
            self._add("shown")
            self._add(f"latency_ms.{latency_class(ms)}")
        else:
            self._add(f"empty.{reason}")
        for source, counts in sources.items():
            self._add(f"sources.{source}.proposed", counts["proposed"])
            self._add(f"sources.{source}.accepted", counts["accepted"])

    def accepted(self, num_characters: int) -> None:
        """The user took an item."""
        self._add("accepted")
        self._add("characters", num_characters)

    def save_sometimes(self) -> None:
        """Once a minute, on a thread of its own: a slow disk must not hold up an answer."""
        if self._clock() - self._saved_at < SAVE_SECONDS:
            return
        self._saved_at = self._clock()
        counts, self._counts = self._counts, {}
        threading.Thread(target=add, args=(self._folder, counts), name="statistics").start()

    def save(self) -> None:
        """Add what has been counted to the file and start again from zero."""
        counts, self._counts = self._counts, {}
        add(self._folder, counts)

    def _add(self, name: str, number: int = 1) -> None:
        self._counts[name] = self._counts.get(name, 0) + number


def add(folder: Path, counts: Mapping[str, int]) -> None:
    """Add to the counters on disk, under a lock that servers share. A full disk costs counters,
    with a warning in the log, and no completion."""
    if not counts:
        return
    from filelock import FileLock  # not before the first answer: starting is to be quick

    path = folder / FILE_NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f"{FILE_NAME}.lock", timeout=LOCK_SECONDS):
            totals = read(folder)
            for name, number in counts.items():
                totals[name] = totals.get(name, 0) + number
            temporary = path.with_suffix(f".{os.getpid()}.tmp")
            temporary.write_text(json.dumps(totals, sort_keys=True), encoding="utf-8")
            temporary.replace(path)
    except OSError as error:
        _log.warning("The counters cannot be kept in %s (%s).", path, error)


def read(folder: Path) -> dict[str, int]:
    """The counters on disk; none, with a warning in the log, where the file is damaged.

    Raises OSError where it cannot be read: what it holds may be right.
    """
    path = folder / FILE_NAME
    try:
        raw: Any = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): int(number) for name, number in raw.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, OverflowError, AttributeError, TypeError) as error:
        _log.warning("%s is damaged (%s); counting starts again.", path, error)
        return {}


def latency_class(ms: float) -> str:
    """`<=50` for the class of 25 to 50 ms; `>5000` for the open one."""
    for bound in _BOUNDS_MS:
        if ms <= bound:
            return f"<={bound}"
    return f">{_BOUNDS_MS[-1]}"
