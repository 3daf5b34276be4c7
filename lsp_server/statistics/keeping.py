"""Whether what was taken still stands in the document a while later.

Runs on the event loop. Text is held in memory only, of a bounded number of items.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from lsp_server.completion import Snapshot
from lsp_server.documents import DocumentStore
from lsp_server.statistics.shown import Shown

KEEP_SECONDS = 30.0
"""After so long accepted text has been read, and what is wrong with it has been found."""

MAX_WATCHED = 64
"""Accepted items of which it is not yet known whether they are kept."""

MAX_WATCHED_CHARACTERS = 4000

REACH = 100_000
"""Characters around the place of acceptance that are searched: text moves as others is edited."""


@dataclass(slots=True)
class _Watched:
    shown: Shown
    anchor: str
    """The accepted text with the head of its line."""
    num_occurrences: int
    """Right after the acceptance."""


class Keeping:
    def __init__(self, documents: DocumentStore, kept: Callable[[Shown, bool], None]) -> None:
        """`kept` hears once of each item of which something was taken."""
        self._documents = documents
        self._kept = kept
        self._watched: OrderedDict[str, _Watched] = OrderedDict()

    def taken(self, shown: Shown, num_characters: int) -> None:
        """So many of an item's characters are taken by now, from its start."""
        snapshot = self._documents.snapshot(shown.uri)
        if not isinstance(snapshot, Snapshot):
            return
        anchor = (shown.head + shown.text[:num_characters])[:MAX_WATCHED_CHARACTERS]
        # A client may tell of the acceptance before it tells of the edit.
        num_occurrences = max(1, occurrences(snapshot.text, anchor, shown.start))
        is_new = shown.item_id not in self._watched
        self._watched[shown.item_id] = _Watched(shown, anchor, num_occurrences)
        if is_new:
            later = partial(self._look, shown.item_id)
            asyncio.get_running_loop().call_later(KEEP_SECONDS, later)
        if len(self._watched) > MAX_WATCHED:
            self._watched.popitem(last=False)

    def _look(self, item_id: str) -> None:
        watched = self._watched.pop(item_id, None)
        if watched is None:
            return
        snapshot = self._documents.snapshot(watched.shown.uri)
        if isinstance(snapshot, Snapshot):  # of what is closed by now nothing is known
            now = occurrences(snapshot.text, watched.anchor, watched.shown.start)
            self._kept(watched.shown, now >= watched.num_occurrences)


def occurrences(document: str, text: str, near: int) -> int:
    """How often `text` stands in `document` within REACH of the offset `near`, whatever blanks and
    line ends are between its words: to indent anew is no change. Nothing but blanks stands once."""
    words = text.split()
    if not words:
        return 1
    pattern = re.compile(r"\s+".join(map(re.escape, words)))
    window = document[max(0, near - REACH) : near + REACH]
    return sum(1 for _ in pattern.finditer(window))
