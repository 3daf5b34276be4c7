"""The file of the local counters: added to by several servers under a lock, read by `stats`.

A damaged file is put aside and counting starts again; a full disk costs counters, with a warning in
the log, and no completion.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

_log = logging.getLogger(__name__)

FILE_NAME = "statistics.json"
DAMAGED_NAME = "statistics.damaged.json"
LOCK_SECONDS = 5.0
VERSION = 2
"""1, which did not say so, was the totals alone, with latencies of the engine only."""

NUM_DAYS = 30
"""Days, today among them, of which the hours are kept."""

_MAX = 2**53
"""No count comes near it, and up to here a float is exact."""


@dataclass(slots=True)
class Counters:
    totals: dict[str, int] = field(default_factory=dict)
    hours: dict[str, dict[str, int]] = field(default_factory=dict)
    """Hour of local time, such as `2026-01-31T13` -> counts within it."""
    since: str | None = None
    """The first day; None where it is not known."""

    def add(self, name: str, number: int, hour: str | None = None) -> None:
        self.totals[name] = self.totals.get(name, 0) + number
        if hour is not None:
            counts = self.hours.setdefault(hour, {})
            counts[name] = counts.get(name, 0) + number

    def merge(self, other: Counters) -> None:
        """Add all that `other` has counted."""
        for name, number in other.totals.items():
            self.add(name, number)
        for hour, counts in other.hours.items():
            mine = self.hours.setdefault(hour, {})
            for name, number in counts.items():
                mine[name] = mine.get(name, 0) + number

    def forget_before(self, today: date) -> None:
        """Keep the hours of the last NUM_DAYS days; the clock may have been wrong, so none of a day
        to come either, but for tomorrow's, which another time zone may have."""
        first = (today - timedelta(days=NUM_DAYS - 1)).isoformat()
        last = (today + timedelta(days=1)).isoformat()
        self.hours = {h: counts for h, counts in self.hours.items() if first <= h[:10] <= last}


class _UnusableError(ValueError):
    """The file is not what was written there."""


class _NewerError(Exception):
    """The file is that of a newer tabahead."""


def add(folder: Path, counters: Counters, today: date) -> None:
    """Add to the counters on disk, under a lock that servers share."""
    if not counters.totals:
        return
    from filelock import FileLock  # not before the first answer: starting is to be quick

    path = folder / FILE_NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f"{FILE_NAME}.lock", timeout=LOCK_SECONDS):
            try:
                kept = _read(path) or Counters(since=today.isoformat())
            except _UnusableError as error:
                _log.warning("%s is damaged (%s); counting starts again.", path, error)
                path.replace(folder / DAMAGED_NAME)
                kept = Counters(since=today.isoformat())
            kept.merge(counters)
            kept.forget_before(today)
            _write(path, kept)
    except _NewerError:
        _log.warning("%s was written by a newer tabahead; nothing is counted in it.", path)
    except OSError as error:
        _log.warning("The counters cannot be kept in %s (%s).", path, error)


def read(folder: Path) -> Counters:
    """The counters on disk; none, with a warning in the log, where they cannot be made out.

    Raises OSError where the file cannot be read: what it holds may be right.
    """
    path = folder / FILE_NAME
    try:
        return _read(path) or Counters()
    except _UnusableError as error:
        _log.warning("%s is damaged (%s); counting starts again.", path, error)
    except _NewerError:
        _log.warning("%s was written by a newer tabahead; update this one to read it.", path)
    return Counters()


def reset(folder: Path) -> bool:
    """Remove the counters, damaged and newer ones too; False where there were none.

    Raises OSError.
    """
    from filelock import FileLock

    if not folder.is_dir():
        return False
    path = folder / FILE_NAME
    with FileLock(folder / f"{FILE_NAME}.lock", timeout=LOCK_SECONDS):
        found = path.exists()
        path.unlink(missing_ok=True)
        (folder / DAMAGED_NAME).unlink(missing_ok=True)
    return found


def _read(path: Path) -> Counters | None:
    """None where there is no file."""
    try:
        raw: Any = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(raw, dict):
            raise TypeError(f"a {type(raw).__name__} instead of an object")
        if "version" not in raw:
            return Counters(totals=_of_version_1(_numbers(raw)))
        if raw["version"] > VERSION:
            raise _NewerError
        hours = {str(hour): _numbers(counts) for hour, counts in raw["hours"].items()}
        since = raw.get("since")
        return Counters(_numbers(raw["totals"]), hours, since if _is_day(since) else None)
    except FileNotFoundError:
        return None
    except (
        ValueError,
        OverflowError,
        AttributeError,
        TypeError,
        KeyError,
        RecursionError,
    ) as error:
        raise _UnusableError(f"{type(error).__name__}: {error}") from error


def _write(path: Path, counters: Counters) -> None:
    """Whole or not at all, also on a full disk."""
    content = {
        "version": VERSION,
        "since": counters.since,
        "totals": counters.totals,
        "hours": counters.hours,
    }
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        temporary.write_text(json.dumps(content, sort_keys=True), encoding="utf-8")
        temporary.replace(path)
    except OSError:
        with suppress(OSError):  # the first error is the one to tell
            temporary.unlink(missing_ok=True)
        raise


def _numbers(raw: Mapping[str, Any]) -> dict[str, int]:
    numbers = {str(name): int(number) for name, number in raw.items()}
    if any(abs(number) > _MAX for number in numbers.values()):
        raise ValueError("a number that is no count")
    "".join(numbers).encode()  # halves of surrogate pairs can neither be shown nor written
    return numbers


def _of_version_1(totals: Mapping[str, int]) -> dict[str, int]:
    """All answers came from the engine then."""
    old, new = "latency_ms.", "latency_ms.engine."
    return {
        new + name.removeprefix(old) if name.startswith(old) else name: number
        for name, number in totals.items()
    }


def _is_day(text: Any) -> bool:
    try:
        date.fromisoformat(text)
    except (TypeError, ValueError):
        return False
    return True
