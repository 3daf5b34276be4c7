"""What becomes of items that were sent: taken whole or in part, and still there a while later.

Runs on the event loop. Text is held in memory only, of a bounded number of items.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from lsp_server.completion import CompletionStats, Snapshot
from lsp_server.documents import DocumentStore, Encoding

KEEP_SECONDS = 30.0
"""After so long accepted text has been read, and what is wrong with it has been found."""

MAX_SHOWN = 256
"""Items remembered until they are accepted."""

MAX_WATCHED = 64
"""Accepted items of which it is not yet known whether they are kept."""

MAX_WATCHED_CHARACTERS = 4000
MAX_HEAD = 200
"""Characters remembered of the line before an item."""

REACH = 100_000
"""Characters around the place of acceptance that are searched: text moves as others is edited."""


@dataclass(slots=True)
class Shown:
    """An item that was sent: what the statistics hear when it is accepted."""

    item_id: str
    uri: str
    text: str
    stats: CompletionStats
    head: str = ""
    """What stands on the line before the item."""
    start: int = 0
    """Offset of the item in its document."""
    num_taken: int = 0
    """Characters that the user has taken so far."""


@dataclass(slots=True)
class _Watched:
    shown: Shown
    anchor: str
    """The accepted text with the head of its line."""
    num_occurrences: int
    """Right after the acceptance."""


class Acceptance:
    def __init__(
        self,
        documents: DocumentStore,
        *,
        accepted: Callable[[Shown], None],
        partially_accepted: Callable[[Shown, int], None],
        kept: Callable[[Shown, bool], None],
    ) -> None:
        """
        Args:
            accepted: hears of an item once, before its `num_taken` changes.
            partially_accepted: the same, and how many characters are taken now, as often as they
                become more.
            kept: hears a while after either whether the text still stands in the document.
        """
        self._documents = documents
        self._accepted = accepted
        self._partially_accepted = partially_accepted
        self._kept = kept
        self._shown: OrderedDict[str, Shown] = OrderedDict()
        self._watched: OrderedDict[str, _Watched] = OrderedDict()

    def remember(self, shown: Shown) -> None:
        """An item goes out."""
        self._shown[shown.item_id] = shown
        if len(self._shown) > MAX_SHOWN:
            self._shown.popitem(last=False)

    def accept(self, item_id: str) -> None:
        """The whole item was inserted; twice or for an old one is no error."""
        shown = self._shown.pop(item_id, None)
        if shown is None:
            return
        self._accepted(shown)
        self._take(shown, len(shown.text))

    def accept_part(self, item_id: str, length: int) -> None:
        """The first `length` units of the position encoding, counted from the item's start, are
        inserted so far; those of the whole item are an acceptance of it."""
        shown = self._shown.get(item_id)
        if shown is None:
            return
        num_characters = characters_in(shown.text, length, self._documents.encoding)
        if num_characters >= len(shown.text):
            self.accept(item_id)
        elif num_characters > shown.num_taken:
            self._partially_accepted(shown, num_characters)
            self._take(shown, num_characters)

    def _take(self, shown: Shown, num_characters: int) -> None:
        shown.num_taken = num_characters
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


def characters_in(text: str, length: int, encoding: Encoding) -> int:
    """Code points in the first `length` units of `text`; one that is cut does not count."""
    if length <= 0:
        return 0
    if encoding is Encoding.UTF32 or text.isascii():
        return min(length, len(text))
    codec, size = ("utf-8", 1) if encoding is Encoding.UTF8 else ("utf-16-le", 2)
    data = text.encode(codec, "surrogatepass")[: length * size]
    return len(data.decode(codec, "ignore"))
