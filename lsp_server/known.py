"""Answers that are known already: what was generated before, less what has been typed since.

Pure: no clock, no thread, no document store. An answer belongs to all of the document's text before
and after the cursor it was made for, kept as lengths and hashes, so an edit anywhere else unmakes
it; and to everything else that a request asks for.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from lsp_server.completion import (
    CompletionRequest,
    CompletionResult,
    CompletionStats,
    Origin,
    Reason,
    Snapshot,
    TextEdit,
)
from lsp_server.place import normalise_line_ends

MAX_RECORDS = 512
MAX_BYTES = 4 * 2**20
REACH = 32
"""Characters after the cursor in which an editor may have closed brackets by itself."""

CLOSERS = frozenset(")]}>\"'`")
_INDENT = " \t"

LASTING = frozenset(
    {
        Reason.EMPTY,
        Reason.DUPLICATE_SUFFIX,
        Reason.MID_LINE,
        Reason.REPETITION,
        Reason.UNBALANCED,
        Reason.LOW_CONFIDENCE,
        Reason.PROSE,
    }
)
"""Reasons that lie in the text: to ask the model again would give them again."""


@dataclass(frozen=True, slots=True)
class Insertion:
    """Text in place of so many characters on each side of a cursor."""

    text: str
    num_left: int = 0
    num_right: int = 0


class Spot:
    """Where a request asks, the entry of the suggest widget taken as accepted already.

    Hashes of the text around it are computed when they are first asked for.
    """

    def __init__(self, request: CompletionRequest) -> None:
        snapshot, selected = request.snapshot, request.selected
        self.request = request
        self.key = _all_but_the_place(request)
        self.text, self.offset = snapshot.text, request.offset
        if selected is not None:
            head, tail = snapshot.text[: selected.start], snapshot.text[selected.end :]
            self.text = head + selected.text + tail
            self.offset = selected.start + len(selected.text)
        self._before: dict[int, int] = {}
        self._after: dict[int, int] = {}

    def frame(self, num_left: int = 0, num_right: int = 0) -> Frame:
        """The document without so many characters around the cursor."""
        num_before = self.offset - num_left
        num_after = len(self.text) - self.offset - num_right
        return Frame(num_before, self.before(num_before), num_after, self.after(num_after))

    def before(self, length: int) -> int:
        """Hash of the document's first characters."""
        if length not in self._before:
            self._before[length] = hash(self.text[:length])
        return self._before[length]

    def after(self, length: int) -> int:
        """Hash of the document's last characters."""
        if length not in self._after:
            self._after[length] = hash(self.text[len(self.text) - length :])
        return self._after[length]

    def insertions(self, result: CompletionResult) -> tuple[Insertion, ...]:
        """A result for the request, first item first, as seen from this cursor."""
        edits = (TextEdit(result.text, result.start, result.end), *result.alternatives)
        shift, selected = 0, self.request.selected
        if selected is not None:
            shift = len(selected.text) - (selected.end - selected.start)
        return tuple(
            Insertion(edit.text, self.offset - edit.start, edit.end + shift - self.offset)
            for edit in edits
        )

    def edit(self, insertion: Insertion) -> TextEdit | None:
        """In offsets of the request's document; None where the selected entry does not allow it."""
        request, selected = self.request, self.request.selected
        if selected is None:
            start, end = request.offset - insertion.num_left, request.offset + insertion.num_right
            return TextEdit(insertion.text, start, end)
        start = self.offset - insertion.num_left
        text = self.text[selected.start : start] + insertion.text
        if start < selected.start or not text.startswith(selected.text):
            return None
        return TextEdit(text, selected.start, selected.end + insertion.num_right)


@dataclass(frozen=True, slots=True)
class Frame:
    """A document around a gap: lengths in code points and hashes of what is before and after."""

    num_before: int
    before: int
    num_after: int
    after: int

    def gap(self, spot: Spot, longest: int) -> tuple[str, str] | None:
        """What now stands in the gap before and after the cursor, line ends normalised; None where
        the cursor is not in it or more than `longest` characters stand before it.

        Compares lengths only: `holds` compares the text, which costs more.
        """
        end = len(spot.text) - self.num_after
        if not self.num_before <= spot.offset <= end or end - spot.offset > REACH:
            return None
        if spot.offset - self.num_before > longest:
            return None
        before = spot.text[self.num_before : spot.offset]
        return normalise_line_ends(before), spot.text[spot.offset : end]

    def holds(self, spot: Spot) -> bool:
        """Whether everything around the gap is as it was."""
        return (
            spot.before(self.num_before) == self.before and spot.after(self.num_after) == self.after
        )


@dataclass(frozen=True, slots=True)
class Record:
    """One answer: items, or the reason why there are none."""

    key: CompletionRequest
    invoked: bool
    state: Frame
    """The document at the request, without a gap."""
    frame: Frame
    """The same without `left` and `right`, around which the items are."""
    left: str
    right: str
    insertions: tuple[Insertion, ...]
    reason: Reason | None
    message: str | None

    @classmethod
    def of(cls, spot: Spot, result: CompletionResult) -> Record | None:
        """None where the answer says nothing about the text, such as that time ran out."""
        if result.reason is not None and result.reason not in LASTING:
            return None
        insertions = spot.insertions(result) if result.reason is None else ()
        num_left = max((insertion.num_left for insertion in insertions), default=0)
        num_right = max((insertion.num_right for insertion in insertions), default=0)
        return cls(
            key=spot.key,
            invoked=spot.request.invoked,
            state=spot.frame(),
            frame=spot.frame(num_left, num_right),
            left=spot.text[spot.offset - num_left : spot.offset],
            right=spot.text[spot.offset : spot.offset + num_right],
            insertions=insertions,
            reason=result.reason,
            message=result.message,
        )

    @property
    def num_bytes(self) -> int:
        """About what it takes."""
        texts = (self.left, self.right, *(insertion.text for insertion in self.insertions))
        return 1000 + sum(sys.getsizeof(text) for text in texts)

    def answer(self, spot: Spot) -> CompletionResult | None:
        """What it says at a spot: the items less what has been typed; None where it says nothing.

        The items of an automatic request do not answer one by key, which asks for more of them.
        """
        if self.key != spot.key or (spot.request.invoked and not self.invoked):
            return None
        longest = max((len(insertion.text) for insertion in self.insertions), default=0)
        gap = self.frame.gap(spot, 2 * (len(self.left) + longest))  # line ends may be of two
        if gap is None:
            return None
        is_same = gap == (self.left, self.right)
        left = _remainders(self.insertions, (self.left, self.right), gap)
        edits = [edit for edit in map(spot.edit, left) if edit is not None]
        if not (edits or (is_same and self.reason is not None)) or not self.frame.holds(spot):
            return None
        stats = CompletionStats(origin=Origin.CACHE if is_same else Origin.TYPED_THROUGH)
        if not edits:
            at = spot.request.offset
            return CompletionResult("", at, at, self.reason, stats, message=self.message)
        stats.num_typed = max(0, len(gap[0]) - len(self.left))
        first, *others = edits
        return CompletionResult(
            first.text, first.start, first.end, None, stats, alternatives=tuple(others)
        )


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

    def find(self, spot: Spot) -> tuple[Record, CompletionResult] | None:
        """The most recently used answer that says something at the spot: that is the one whose
        items are on the screen, if any are."""
        for place, record in reversed(self._records.items()):
            if record.key.snapshot.uri != spot.key.snapshot.uri:
                continue
            answer = record.answer(spot)
            if answer is not None:
                self._records.move_to_end(place)
                return record, answer
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


def _all_but_the_place(request: CompletionRequest) -> CompletionRequest:
    """What an answer depends on besides the text: URI and language, and every option.

    Not the number of items and the deadline, which go with the way of asking.
    """
    snapshot = request.snapshot
    return replace(
        request,
        snapshot=Snapshot(snapshot.uri, 0, snapshot.language_id, ""),
        offset=0,
        selected=None,
        invoked=False,
        num_items=1,
        deadline_ms=None,
    )


def _remainders(
    insertions: Iterable[Insertion], then: tuple[str, str], now: tuple[str, str]
) -> list[Insertion]:
    """Of each insertion what is missing, those that end in the same left out."""
    found = (remainder(insertion, then, now) for insertion in insertions)
    return list(dict.fromkeys(left for left in found if left is not None))


def remainder(
    insertion: Insertion, then: tuple[str, str], now: tuple[str, str]
) -> Insertion | None:
    """What is left of an insertion once some of it has been typed.

    `then` and `now` are the text right before and after the cursor, when the insertion was made and
    now, between the same surroundings. What is left gives, accepted now, the document that the
    whole gives, accepted then. None: what was typed is something else, or nothing is missing.
    """
    (left, right), (before, after) = then, now
    kept = left[: len(left) - insertion.num_left]
    whole = kept + insertion.text
    if not before.startswith(kept):
        return None
    text, num_left = whole[len(before) :], 0
    if not whole.startswith(before):
        if then == now:
            return insertion  # it asks for less indentation than the line has
        indented = _less_indentation(whole, before)
        if indented is None:
            return None
        text, num_left = indented
    typed = before[len(kept) :]
    num_right = _num_covered(right, insertion.num_right, after, typed, text)
    if num_right is None or not text.strip() or (text == after[:num_right] and num_left == 0):
        return None
    return Insertion(text, num_left, num_right)


def _less_indentation(whole: str, before: str) -> tuple[str, int] | None:
    """(text, characters to take back) where an editor has indented a new line more than the text
    does; None where that is not the difference."""
    head = before.rstrip(_INDENT)
    if not head.endswith("\n") or not whole.startswith(head):
        return None
    rest = whole[len(head) :]
    indent = rest[: len(rest) - len(rest.lstrip(_INDENT))]
    present = before[len(head) :]
    if not present.startswith(indent):
        return None
    return rest[len(indent) :], len(present) - len(indent)


def _num_covered(right: str, num_right: int, after: str, typed: str, text: str) -> int | None:
    """How much of what stands after the cursor the missing `text` replaces.

    As much as before, less what was typed over, and more where the editor has closed a bracket by
    itself that the text closes too. None: something else has changed there.
    """
    covered, tail = right[:num_right], right[num_right:]
    if not after.endswith(tail):
        return None
    head = after[: len(after) - len(tail)]
    if head == covered:
        return len(head)
    if covered.endswith(head):
        is_right = _has_in_order(typed, covered[: len(covered) - len(head)])
    else:
        is_closed = head.endswith(covered) and CLOSERS.issuperset(head[: len(head) - len(covered)])
        is_right = is_closed and _has_in_order(text, head)
    return len(head) if is_right else None


def _has_in_order(text: str, characters: str) -> bool:
    remaining = iter(text)
    return all(character in remaining for character in characters)
