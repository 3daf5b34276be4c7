"""A place in a document where a completion is asked for, and the document around it as hashes.

Hashes of a megabyte take a quarter of a millisecond; the text itself need not be kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lsp_server.answering.remainder import Insertion
from lsp_server.completion import CompletionRequest, CompletionResult, Snapshot, TextEdit
from lsp_server.text.place import normalise_line_ends

REACH = 32
"""Characters after the cursor in which an editor may have closed brackets by itself."""


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
        is_here = selected.start <= request.offset <= selected.end
        if not is_here or start < selected.start or not text.startswith(selected.text):
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


def _all_but_the_place(request: CompletionRequest) -> CompletionRequest:
    """What an answer depends on besides the text: URI and language, cells above, every option.

    Not the number of items and the deadline, which go with the way of asking.
    """
    snapshot = request.snapshot
    return replace(
        request,
        snapshot=Snapshot(snapshot.uri, hash(snapshot.above), snapshot.language_id, ""),
        offset=0,
        selected=None,
        is_foreseen=False,
        invoked=False,
        num_items=1,
        deadline_ms=None,
    )
