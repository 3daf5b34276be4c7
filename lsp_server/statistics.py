"""Local counters: what was asked, shown, accepted, and how long it took. Nothing leaves the machine
and no text is kept, only numbers."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_log = logging.getLogger(__name__)

FILE_NAME = "statistics.json"
_BOUNDS_MS = (5, 10, 25, 50, 100, 150, 200, 300, 500, 750, 1000, 2000, 5000)
"""Upper bounds of the latency classes; the last class is open."""


class Statistics:
    """Counters of this process, added to those on disk when saved."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
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

    def save(self) -> None:
        """Add to the file and start again from zero; a full disk costs counters, no completion."""
        if not self._counts:
            return
        try:
            totals = read(self._path.parent)
            for name, number in self._counts.items():
                totals[name] = totals.get(name, 0) + number
            self._path.parent.mkdir(parents=True, exist_ok=True)
            temporary = self._path.with_suffix(f".{os.getpid()}.tmp")
            temporary.write_text(json.dumps(totals, sort_keys=True), encoding="utf-8")
            temporary.replace(self._path)
        except OSError as error:
            _log.warning("The counters cannot be kept in %s (%s).", self._path, error)
            return
        self._counts.clear()

    def _add(self, name: str, number: int = 1) -> None:
        self._counts[name] = self._counts.get(name, 0) + number


def read(folder: Path) -> dict[str, int]:
    """The counters on disk; none, with a warning in the log, where the file is damaged."""
    path = folder / FILE_NAME
    try:
        raw: Any = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): int(number) for name, number in raw.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, AttributeError, TypeError) as error:
        _log.warning("%s is damaged (%s); counting starts again.", path, error)
        return {}


def latency_class(ms: float) -> str:
    """`<=50` for the class of 25 to 50 ms; `>5000` for the open one."""
    for bound in _BOUNDS_MS:
        if ms <= bound:
            return f"<={bound}"
    return f">{_BOUNDS_MS[-1]}"
