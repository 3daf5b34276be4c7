"""Recorded typing: what an author did to a file, edit by edit, and when.

The recordings are the editing traces `rustcode` and `sveltecomponent` (josephg, CC BY 4.0), as
unmodified `*.json.gz` files; their times are whole seconds, so the edits of one second are spread
evenly over it. Without them, files of Python's own library are typed by a typist who never errs.
"""

from __future__ import annotations

import gzip
import json
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from lsp_server.bench.cases import DEFAULT_DATA
from lsp_server.errors import SettingsError

MAX_PAUSE = 1.0
"""Seconds; longer pauses of the author are cut to it when replayed."""
PAUSE = 0.5
"""Seconds in the author's own time before the next edit, beyond which a key ends in a pause."""
BEYOND = 400
"""Edits behind the replayed ones that are kept, to see what the author went on to write."""

_RECORDED = (("rustcode", "rust", "skiplist.rs"), ("sveltecomponent", "svelte", "App.svelte"))
_STDLIB = ("textwrap.py", "heapq.py")
_START = 0.5
"""Where in a trace the replay begins: in its middle the file has some length."""
_TYPING_SECONDS, _THINKING_SECONDS = 0.2, 1.5
"""Between two keys, and at the end of a line, of the typist who never errs."""


@dataclass(frozen=True, slots=True)
class Patch:
    """`deleted` characters at offset `start` make room for `text`."""

    start: int
    deleted: int
    text: str


@dataclass(frozen=True, slots=True)
class Edit:
    patches: tuple[Patch, ...]
    """Applied in turn, the last place in the text first."""
    cursor: int
    """Offset afterwards."""
    time: float
    """Seconds from the first edit, in the author's time."""

    def apply(self, text: str) -> str:
        for patch in self.patches:
            text = text[: patch.start] + patch.text + text[patch.start + patch.deleted :]
        return text


@dataclass(frozen=True, slots=True)
class Trace:
    """A file and what is done to it from a fixed place of the recording on."""

    file_name: str
    language_id: str
    text: str
    """Before the first edit."""
    edits: tuple[Edit, ...]
    """Those to replay, each called a key."""
    beyond: tuple[Edit, ...]
    """Those that followed."""

    def gap(self, key: int) -> float:
        """Seconds from an edit to the next one, in the author's time; 0 where none follows."""
        following = (*self.edits[key + 1 : key + 2], *self.beyond[:1])
        return following[0].time - self.edits[key].time if following else 0.0

    def is_pause(self, key: int) -> bool:
        return self.gap(key) > PAUSE

    def due(self) -> list[float]:
        """When to send each edit, in seconds from the first: long pauses are cut."""
        times, now = [], 0.0
        for key in range(len(self.edits)):
            times.append(now)
            now += min(self.gap(key), MAX_PAUSE)
        return times


def load_traces(num_keys: int, data: Path | None = None) -> tuple[list[Trace], str]:
    """Two traces of `num_keys` keys, and a sentence on where they come from.

    Without `data` the folder `../shared/data` is used if it is there, else the standard library.
    """
    folder = data or (DEFAULT_DATA if DEFAULT_DATA.is_dir() else None)
    if folder is None:
        library = Path(sysconfig.get_path("stdlib"))
        texts = [(name, (library / name).read_text(encoding="utf-8")) for name in _STDLIB]
        return [typed(name, text, num_keys) for name, text in texts], "the Python standard library"
    folder = folder / "editing-traces"
    traces = [
        recorded(_read(folder / f"{name}.json.gz"), file_name, language_id, num_keys)
        for name, language_id, file_name in _RECORDED
    ]
    return traces, f"the editing traces in {folder}"


def recorded(recording: dict[str, Any], file_name: str, language_id: str, num_keys: int) -> Trace:
    """From a recording as its authors describe it: `startContent` and `txns`."""
    transactions = recording["txns"]
    begin = int(len(transactions) * _START)
    end = min(begin + num_keys, len(transactions))
    text = recording["startContent"]
    for transaction in transactions[:begin]:
        text = Edit(_patches(transaction), 0, 0.0).apply(text)
    kept = transactions[begin : end + BEYOND]
    times = _spread([_seconds(transaction["time"]) for transaction in kept])
    patches = [_patches(transaction) for transaction in kept]
    edits = [
        Edit(made, cursor_after(made, patches[index + 1 :]), time - times[0])
        for index, (made, time) in enumerate(zip(patches, times, strict=True))
    ]
    count = end - begin
    return Trace(file_name, language_id, text, tuple(edits[:count]), tuple(edits[count:]))


def typed(name: str, text: str, num_keys: int) -> Trace:
    """The second half of a file typed key by key; the editor indents each line as it stands."""
    start = text.index("\n", len(text) // 2)
    edits: list[Edit] = []
    time, offset = 0.0, start
    for key in _keys(text[start:]):
        edits.append(Edit((Patch(offset, 0, key),), offset + len(key), time))
        offset += len(key)
        time += _THINKING_SECONDS if text.startswith("\n", offset) else _TYPING_SECONDS
    return Trace(
        name, "python", text[:start], tuple(edits[:num_keys]),
        tuple(edits[num_keys : num_keys + BEYOND]),
    )  # fmt: skip


def cursor_after(patches: Sequence[Patch], following: Sequence[Sequence[Patch]]) -> int:
    """The recordings have no cursors: it is where the author goes on, if that is in what was just
    inserted (as between two brackets that the editor closed), else behind it."""
    last = patches[-1]
    end = last.start + len(last.text)
    if following:
        goes_on = following[0][-1]
        place = goes_on.start + goes_on.deleted
        if last.start < place < end:
            return place
    return end


def _patches(transaction: dict[str, Any]) -> tuple[Patch, ...]:
    return tuple(Patch(*patch) for patch in transaction["patches"])


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp()


def _spread(times: Sequence[float]) -> list[float]:
    spread: list[float] = []
    for second, group in groupby(times):
        count = len(list(group))
        spread += [second + index / count for index in range(count)]
    return spread


def _keys(text: str) -> Iterator[str]:
    """Characters, but a line's end with the indentation of the next line."""
    at = 0
    while at < len(text):
        end = at + 1
        if text[at] == "\n":
            while end < len(text) and text[end] == " ":
                end += 1
        yield text[at:end]
        at = end


def _read(path: Path) -> dict[str, Any]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            recording: dict[str, Any] = json.load(file)
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"{path} cannot be read ({error}); name the folder that holds editing-traces with"
            " --data."
        ) from error
    return recording
