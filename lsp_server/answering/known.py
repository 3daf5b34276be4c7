"""Answers that are known already: what was generated before, less what has been typed since.

Pure: no clock, no thread, no document store. An answer belongs to all of the document's text before
and after the cursor that it was made for, so that an edit anywhere else unmakes it, and to
everything else that its request asked for.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from dataclasses import dataclass

from lsp_server.answering.remainder import Insertion, remainder
from lsp_server.answering.spot import Frame, Spot
from lsp_server.completion import (
    IN_THE_TEXT,
    CompletionRequest,
    CompletionResult,
    CompletionStats,
    Origin,
    Reason,
    TextEdit,
)

MAX_RECORDS = 512
MAX_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Record:
    """One answer: items, or the reason why there are none."""

    key: CompletionRequest
    invoked: bool
    num_items: int
    """Most items that the request asked for."""
    state: Frame
    """The document at the request, without a gap."""
    frame: Frame
    """The same without `left` and `right`, around which the items are."""
    left: str
    right: str
    insertions: tuple[Insertion, ...]
    reason: Reason | None
    message: str | None
    confidence: float | None

    @classmethod
    def of(cls, spot: Spot, result: CompletionResult) -> Record | None:
        """None where the answer says nothing about the text, such as that time ran out."""
        if result.reason is not None and result.reason not in IN_THE_TEXT:
            return None
        insertions = spot.insertions(result) if result.reason is None else ()
        num_left = max((insertion.num_left for insertion in insertions), default=0)
        num_right = max((insertion.num_right for insertion in insertions), default=0)
        return cls(
            key=spot.key,
            invoked=spot.request.invoked,
            num_items=spot.request.num_items,
            state=spot.frame(),
            frame=spot.frame(num_left, num_right),
            left=spot.text[spot.offset - num_left : spot.offset],
            right=spot.text[spot.offset : spot.offset + num_right],
            insertions=insertions,
            reason=result.reason,
            message=result.message,
            confidence=result.stats.confidence,
        )

    @property
    def num_bytes(self) -> int:
        """About what it takes."""
        texts = (self.left, self.right, *(insertion.text for insertion in self.insertions))
        return 1000 + sum(sys.getsizeof(text) for text in texts)

    def answer(self, spot: Spot) -> Found | None:
        """What it says at a spot: the items less what has been typed; None where it says nothing.

        A request by key is answered only by one that was by key and asked for as many items.
        """
        if self.key != spot.key:
            return None
        asked = spot.request
        if asked.invoked and not (self.invoked and self.num_items == asked.num_items):
            return None
        longest = max((len(insertion.text) for insertion in self.insertions), default=0)
        gap = self.frame.gap(spot, 2 * (len(self.left) + longest))  # line ends may be of two
        if gap is None:
            return None
        is_same = gap == (self.left, self.right)
        found = (remainder(item, (self.left, self.right), gap) for item in self.insertions)
        edits: dict[TextEdit, Insertion] = {}
        for whole, missing in zip(self.insertions, found, strict=True):
            edit = None if missing is None else spot.edit(missing)
            if edit is not None:
                edits.setdefault(edit, whole)
        if not (edits or (is_same and self.reason is not None)) or not self.frame.holds(spot):
            return None
        origin = Origin.CACHE if is_same else Origin.TYPED_THROUGH
        stats = CompletionStats(origin=origin, confidence=self.confidence)
        if not edits:
            at = spot.request.offset
            silence = CompletionResult("", at, at, self.reason, stats, message=self.message)
            return Found(silence, None)
        stats.num_typed = max(0, len(gap[0]) - len(self.left))
        first, *others = edits
        result = CompletionResult(
            first.text, first.start, first.end, None, stats, alternatives=tuple(others)
        )
        return Found(result, (self.state, edits[first]))


@dataclass(frozen=True, slots=True)
class Found:
    """A known answer."""

    result: CompletionResult
    goal: tuple[Frame, Insertion] | None
    """What accepting it leads to: the same for every rest of one item. None where there is none."""


class Known:
    """The latest answers, the most recently used last."""

    def __init__(self, max_records: int = MAX_RECORDS, max_bytes: int = MAX_BYTES) -> None:
        self.num_bytes = 0
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._records: OrderedDict[tuple[CompletionRequest, bool, Frame], Record] = OrderedDict()

    def __len__(self) -> int:
        return len(self._records)

    def add(self, record: Record) -> None:
        """It replaces an older answer for the same place."""
        place = (record.key, record.invoked, record.state)
        self._drop(place)
        self._records[place] = record
        self.num_bytes += record.num_bytes
        while len(self._records) > self._max_records or self.num_bytes > self._max_bytes:
            self._drop(next(iter(self._records)))

    def find(self, spot: Spot) -> Found | None:
        """The most recently used answer that says something at the spot: that is the one whose
        items are on the screen, if any are."""
        for place, record in reversed(self._records.items()):
            if record.key.snapshot.uri != spot.key.snapshot.uri:
                continue
            found = record.answer(spot)
            if found is not None:
                self._records.move_to_end(place)
                return found
        return None

    def forget(self, uri: str) -> None:
        """Drop what is known of one document."""
        for place in [place for place in self._records if place[0].snapshot.uri == uri]:
            self._drop(place)

    def clear(self) -> None:
        self._records.clear()
        self.num_bytes = 0

    def _drop(self, place: tuple[CompletionRequest, bool, Frame]) -> None:
        record = self._records.pop(place, None)
        if record is not None:
            self.num_bytes -= record.num_bytes
