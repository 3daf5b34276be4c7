"""What becomes of items that were sent: shown, and taken whole or in part.

Clients tell by command or notification, before the edit or after it, or do not tell; then the edit
does (`inference.py`). However many of these come, each thing is counted once. Runs on the event
loop. Text is held in memory only, of a bounded number of items.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lsp_server.completion import CompletionRequest, CompletionStats, Origin, TextEdit
from lsp_server.documents import DocumentStore, Encoding
from lsp_server.statistics.inference import Offer
from lsp_server.statistics.keeping import Keeping
from lsp_server.statistics.shown import Shown

MAX_SHOWN = 256
"""Items remembered until they are accepted."""

MAX_HEAD = 200
"""Characters remembered of the line before an item."""


@dataclass(slots=True)
class _Entry:
    """An item of the answer that is on the screen, if any is."""

    shown: Shown
    num_before: int
    """Characters of `shown` that had been typed along when the item was sent."""
    offer: Offer
    standing: int
    """Characters of the item that stand in the document."""
    num_after: int
    """Characters of the document behind the cursor."""

    @property
    def num_there(self) -> int:
        return self.num_before + self.standing


class Acceptance:
    def __init__(
        self,
        documents: DocumentStore,
        *,
        seen: Callable[[Shown], None],
        accepted: Callable[[Shown], None],
        partially_accepted: Callable[[Shown, int], None],
        kept: Callable[[Shown, bool], None],
    ) -> None:
        """
        Args:
            seen: hears of an item once, when the client tells of such, else when it is sent.
            accepted: hears of an item once, before its `num_done` changes.
            partially_accepted: the same, and how many characters are taken now, as often as they
                become more.
            kept: hears a while after either whether the text still stands in the document.
        """
        self._documents = documents
        self._seen = seen
        self._accepted = accepted
        self._partially_accepted = partially_accepted
        self._keeping = Keeping(documents, kept)
        self._items: OrderedDict[str, tuple[Shown, int]] = OrderedDict()
        """Name of an item -> what it is (the rest of), and from which character on."""
        self._screen: list[_Entry] = []
        self._client_tells = False
        """The client says which items it shows."""

    def sent(
        self,
        request: CompletionRequest,
        stats: CompletionStats,
        items: Sequence[tuple[str, TextEdit]],
    ) -> None:
        """An answer goes out: names and edits, the one to show before the others."""
        entries: list[_Entry] = []
        for item_id, edit in items:
            shown = self._continued(request, stats, edit, entries)
            entry = _entry(item_id, request, stats, edit, shown)
            entries.append(entry)
            self._items[item_id] = entry.shown, entry.num_before
        while len(self._items) > MAX_SHOWN:
            self._items.popitem(last=False)
        self._screen = entries
        if not self._client_tells:
            self._show(entries[0].shown)

    def _continued(
        self,
        request: CompletionRequest,
        stats: CompletionStats,
        edit: TextEdit,
        entries: Sequence[_Entry],
    ) -> Shown | None:
        """What an item is the rest of: it is on the screen already. None: it is a new one."""
        if not self._is_on_screen(request.snapshot.uri):
            return None
        for old in self._screen:
            shown = old.shown
            is_here = old.num_after == len(request.snapshot.text) - request.offset
            is_left = len(shown.text) - len(edit.text) == shown.num_there
            is_rest = stats.origin is Origin.TYPED_THROUGH or (is_here and is_left)
            is_taken = any(entry.shown is shown for entry in entries)
            if is_rest and not is_taken and shown.text.endswith(edit.text):
                return shown
        return None

    def cleared(self, uri: str) -> None:
        """Nothing of a document is on the screen any more."""
        if self._is_on_screen(uri):
            self._screen = []

    def _is_on_screen(self, uri: str) -> bool:
        return bool(self._screen) and self._screen[0].shown.uri == uri

    def changed(self, uri: str, num_changes: int) -> None:
        """A document was edited, in so many places at once. More than one are no acceptance."""
        if not self._is_on_screen(uri):
            return
        document = self._documents.get(uri)
        if document is None:
            self._screen = []
            return
        text = document.text
        taken = [e for e in self._screen if _advanced(e, text) and num_changes == 1]
        # Items may begin alike: what is one of them as a whole is that, else it is the first.
        taken.sort(key=lambda entry: entry.num_there < len(entry.shown.text))
        if taken:
            self._take(taken[0].shown, taken[0].num_there)
        for entry in self._screen:
            entry.shown.typed_to(entry.num_there)

    def seen(self, item_id: str) -> None:
        """The client says that the item is on the screen."""
        self._client_tells = True
        if item_id in self._items:
            self._show(self._items[item_id][0])

    def accept(self, item_id: str) -> None:
        """The client says that the whole item was inserted; twice or for an old one is no error."""
        if item_id in self._items:
            shown, _ = self._items[item_id]
            shown.told(len(shown.text))
            self._take(shown, len(shown.text))

    def accept_part(self, item_id: str, length: int, encoding: Encoding) -> None:
        """The client says that the first `length` units, counted from the item's start, are
        inserted so far; those of the whole item are an acceptance of it."""
        if item_id in self._items:
            shown, num_before = self._items[item_id]
            num = num_before + characters_in(shown.text[num_before:], length, encoding)
            shown.told(num)
            self._take(shown, num)

    def _take(self, shown: Shown, num_characters: int) -> None:
        """So many are taken by now, from the start; what is known already is no news."""
        if shown.is_over:
            return
        if num_characters >= len(shown.text):
            shown.is_over = True
            self._show(shown)
            self._accepted(shown)
            if any(entry.shown is shown for entry in self._screen):
                self._screen = []
        elif num_characters > shown.num_done:
            self._show(shown)
            self._partially_accepted(shown, num_characters)
            shown.has_parts = True
        else:
            return
        shown.num_done, shown.last_typed = num_characters, 0
        self._keeping.taken(shown, num_characters)

    def _show(self, shown: Shown) -> None:
        if not shown.is_seen:
            shown.is_seen = True
            self._seen(shown)


def _entry(
    item_id: str,
    request: CompletionRequest,
    stats: CompletionStats,
    edit: TextEdit,
    shown: Shown | None,
) -> _Entry:
    """`shown` is what the item is the rest of; None: nothing that is on the screen."""
    text = request.snapshot.text
    if shown is None:
        line_start = max(text.rfind("\n", 0, edit.start), text.rfind("\r", 0, edit.start)) + 1
        head = text[max(line_start, edit.start - MAX_HEAD) : edit.start]
        shown = Shown(item_id, request.snapshot.uri, edit.text, stats, head, edit.start)
    offer = Offer.of(request, edit)
    entry = _Entry(
        shown,
        num_before=len(shown.text) - len(edit.text),
        offer=offer,
        standing=offer.standing(text) or 0,
        num_after=len(text) - request.offset,
    )
    shown.num_there = entry.num_there
    shown.typed_to(entry.num_there)
    return entry


def _advanced(entry: _Entry, document: str) -> bool:
    """Whether more of an item stands in the document than before, and was not typed."""
    before, now = entry.standing, entry.offer.standing(document)
    if now is None:
        return False  # it may come back, by undoing
    entry.standing, entry.shown.num_there = now, entry.num_before + now
    return now > before and not entry.offer.is_typed(before, now)


def characters_in(text: str, length: int, encoding: Encoding) -> int:
    """Code points in the first `length` units of `text`; one that is cut does not count."""
    if length <= 0:
        return 0
    if encoding is Encoding.UTF32 or text.isascii():
        return min(length, len(text))
    codec, size = ("utf-8", 1) if encoding is Encoding.UTF8 else ("utf-16-le", 2)
    data = text.encode(codec, "surrogatepass")[: length * size]
    return len(data.decode(codec, "ignore"))
