"""A script in the engine's place: `--model scripted:FILE.json`.

For trying a case without a model, and for tests. The file is a JSON list of
`{"after": TEXT, "text": TEXT, "delay_ms": N}`.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lsp_server.cancellation import CancelToken
from lsp_server.completion import CompletionRequest, CompletionStats, Piece, Snapshot
from lsp_server.errors import SettingsError

PIECE_CHARACTERS = 4
_KEYS = {"after", "text", "delay_ms"}


@dataclass(frozen=True, slots=True)
class Entry:
    after: str
    """Matches where the raw document text before the cursor ends so; `""` matches always."""
    text: str
    """What the model is said to have written."""
    delay_ms: float = 0.0
    """Between two pieces of the text."""


class ScriptedBackend:
    """The first entry that matches supplies the text; none: nothing is generated."""

    def __init__(self, entries: Sequence[Entry], name: str = "scripted") -> None:
        self._entries = tuple(entries)
        self._name = name

    @classmethod
    def from_file(cls, path: Path | str) -> ScriptedBackend:
        """Raises SettingsError that names the entry at fault, counted from 1."""
        try:
            raw = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise SettingsError(
                f"The script {path} cannot be read ({error.strerror}); name an existing file after"
                " `scripted:`."
            ) from error
        except ValueError as error:
            raise SettingsError(
                f"The script {path} is not valid JSON in UTF-8 ({error}); correct it there."
            ) from error
        if not isinstance(raw, list):
            raise SettingsError(
                f"The script {path} must be a JSON list of entries, not {type(raw).__name__};"
                " put square brackets around the entries."
            )
        entries = [_entry(value, f"entry {n} of {path}") for n, value in enumerate(raw, start=1)]
        return cls(entries, f"scripted:{path}")

    def generate(self, request: CompletionRequest, cancel: CancelToken) -> ScriptedGeneration:
        text, offset = request.snapshot.text, request.offset
        matching = (entry for entry in self._entries if text.endswith(entry.after, 0, offset))
        deadline_ms = request.deadline_ms
        return ScriptedGeneration(next(matching, Entry("", "")), cancel, deadline_ms)

    def prepare(self, request: CompletionRequest, cancel: CancelToken) -> None:
        """A script reads no prompt."""

    def learn(self, snapshot: Snapshot) -> None:
        """A script drafts nothing."""

    def forget(self, uri: str) -> None:
        """A script keeps nothing."""

    def accepted(self, text: str) -> None:
        """A script drafts nothing."""

    def describe(self) -> Mapping[str, Any]:
        return {"model": self._name, "entries": len(self._entries), "provider": None, "threads": 0}

    def close(self) -> None:
        """A script holds nothing."""


class ScriptedGeneration:
    def __init__(self, entry: Entry, cancel: CancelToken, deadline_ms: float | None) -> None:
        self._entry = entry
        self._cancel = cancel
        self._end = None if deadline_ms is None else time.monotonic() + deadline_ms / 1000
        self._stats = CompletionStats()

    @property
    def stats(self) -> CompletionStats:
        return self._stats

    def __iter__(self) -> Iterator[Piece]:
        """Pieces of `PIECE_CHARACTERS`. Raises Cancelled as soon as the token is set."""
        text, started = self._entry.text, time.monotonic()
        for start in range(0, len(text), PIECE_CHARACTERS):
            if start > 0 and not self._wait():
                yield Piece("")  # lets the reader see that the time is over
                return
            self._cancel.raise_if_cancelled()
            self._stats.tokens += 1
            self._stats.passes += 1
            self._stats.ms["decode"] = (time.monotonic() - started) * 1000
            yield Piece(text[start : start + PIECE_CHARACTERS])

    def _wait(self) -> bool:
        """Sleep for the delay; False when the request's time ends before it."""
        delay = self._entry.delay_ms / 1000
        left = delay if self._end is None else self._end - time.monotonic()
        woken = threading.Event()
        with self._cancel.on_cancel(woken.set):
            woken.wait(max(0.0, min(delay, left)))
        return delay <= left


def _entry(raw: Any, where: str) -> Entry:
    if not isinstance(raw, dict):
        raise SettingsError(f"{where} must be an object with `after` and `text`; correct it there.")
    unknown = sorted(set(raw) - _KEYS)
    if unknown:
        raise SettingsError(
            f"{where} has the unknown key `{unknown[0]}`; allowed are `after`, `text`, `delay_ms`."
        )
    for key in ("after", "text"):
        if not isinstance(raw.get(key), str):
            raise SettingsError(f"{where} needs `{key}` as a string; correct it there.")
    delay = raw.get("delay_ms", 0)
    if isinstance(delay, bool) or not isinstance(delay, int | float) or not 0 <= delay < 1e9:
        raise SettingsError(f"{where} needs `delay_ms` as a number of milliseconds from 0.")
    return Entry(raw["after"], raw["text"], float(delay))
