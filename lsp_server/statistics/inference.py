"""What an edit says of ghost text: that it was typed along, or taken, in part or as a whole.

The one place of this rule, for editors that do not tell. An item stands up to a character where the
document is what it was when the item went out, but for the item's place, in which just that much of
the item is now. An edit after which more of it stands has typed that where keys could have, and has
taken it otherwise. Pure text, so that the words and units in which a client tells of edits are all
one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lsp_server.completion import CompletionRequest, TextEdit
from lsp_server.text.place import normalise_line_ends

MAX_BURST = 3
"""Characters that may be keys in one edit: an opener with its closer, or the keys of a tenth of a
second, of which some editors tell together."""

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Offer:
    """An item as it went out: `text` in place of `left` and `right`, around which nothing changes;
    the cursor was between them."""

    text: str
    head: str
    left: str
    right: str
    tail: str
    chosen: str = ""
    """How `text` begins because the editor's own list offers that."""

    @classmethod
    def of(cls, request: CompletionRequest, edit: TextEdit) -> Offer:
        text, cursor = request.snapshot.text, request.offset
        return cls(
            edit.text,
            head=text[: edit.start],
            left=text[edit.start : cursor],
            right=text[cursor : edit.end],
            tail=text[edit.end :],
            chosen="" if request.selected is None else request.selected.text,
        )

    def standing(self, document: str) -> int | None:
        """How many characters of the item stand in its place by now; None: something else does, or
        the document is another around it. Line ends are those of the item, whatever they are."""
        num_there = len(document) - len(self.head) - len(self.tail)
        if num_there < 0 or not (document.startswith(self.head) and document.endswith(self.tail)):
            return None
        there = document[len(self.head) : len(self.head) + num_there]
        if normalise_line_ends(there) == self.text:
            return len(self.text)
        if not there.endswith(self.right):
            return None
        written = normalise_line_ends(there[: len(there) - len(self.right)])
        return len(written) if self.text.startswith(written) else None

    def is_typed(self, start: int, end: int) -> bool:
        """Whether keys may have written text[start:end] in one edit: a character, blanks as of a
        new line, or a burst that is not just one word, which to take by the word would give. To
        take the entry that is chosen in the editor's own list is not to take the item either."""
        step = self.text[start:end]
        if len(step) == 1 or not step.strip() or end == len(self.chosen):
            return True
        return len(step) <= MAX_BURST and not self._is_word(start, end)

    def _is_word(self, start: int, end: int) -> bool:
        step, after = self.text[start:end], self.text[end : end + 1]
        before = self.text[start - 1] if start else self.head[-1:]
        is_cut = _is_in_word(before + step[0]) or _is_in_word(step[-1] + after)
        return _WORD.fullmatch(step.strip()) is not None and not is_cut


def _is_in_word(pair: str) -> bool:
    """Whether two characters belong to one word."""
    return len(pair) == 2 and _WORD.fullmatch(pair) is not None
