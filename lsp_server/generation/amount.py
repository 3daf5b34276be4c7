"""How much to complete at a place: the rest of the line, or a block and where it ends.

By the language's grammar where there is one, else by indentation. Several lines come only where a
block begins, a bracket is opened before its closer or the document ends, or where the user asks by
key.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lsp_server.completion import CompletionRequest, Mode
from lsp_server.syntax import Syntax
from lsp_server.text.brackets import OPENERS
from lsp_server.text.indentation import indent_width
from lsp_server.text.place import Place

_CLOSERS = re.compile(r"[)\]};,\s]*")


@dataclass(frozen=True, slots=True)
class Block:
    """One that begins at the cursor and has nothing in it yet."""

    width: int
    """Columns of the line with which it begins; its closing line stands there too."""
    bracket: str = ""
    """With which it begins; empty where it does without."""

    @classmethod
    def behind(cls, header: str) -> Block:
        last = header.rstrip()[-1:]
        return cls(indent_width(header), last if last in OPENERS else "")


@dataclass(frozen=True, slots=True)
class StopRule:
    """Where a completion at a place ends."""

    place: Place
    mode: Mode
    """LINE or BLOCK."""
    may_break: bool
    """The text may begin on the next line."""
    block: Block | None = None
    """What begins here, if a block does."""
    may_open: bool = False
    """A line that ends with an opener goes on up to where that is closed, since nothing but closers
    is right of the cursor: `f(() => {` cannot stand before `)`."""

    @property
    def floor(self) -> int:
        """Columns; a line of the completion indented less ends it."""
        return indent_width(self.place.line_before) if self.block is None else self.block.width + 1


def stop_rule(request: CompletionRequest, place: Place, *, in_comment: bool = False) -> StopRule:
    """What to complete for `request`, whose cursor is at `place`: what its mode says, or with AUTO
    what the place suggests.

    Text right of the cursor always means its line, and so does a comment.
    """
    rest_empty = not place.rest.strip()
    block = block_at(request, place) if rest_empty and not in_comment else None
    mode = request.mode
    if mode is Mode.AUTO:
        is_block = block is not None or place.at_end or request.invoked
        mode = Mode.BLOCK if is_block and rest_empty and not in_comment else Mode.LINE
    may_break = rest_empty and request.mode is not Mode.LINE
    is_closed = not rest_empty and _CLOSERS.fullmatch(place.rest) is not None
    is_empty = not in_comment and not place.is_above_deeper(place.line_before)
    may_open = is_closed and is_empty and request.mode is Mode.AUTO
    return StopRule(place, mode, may_break, block, may_open)


def block_at(request: CompletionRequest, place: Place) -> Block | None:
    """The block that begins at the cursor, with nothing right of it on its line."""
    snapshot = request.snapshot
    syntax = Syntax.of(snapshot.language_id, snapshot.uri)
    opening = None if syntax is None else syntax.opening(snapshot.text, request.offset)
    if opening is None:
        return None if place.header is None else Block.behind(place.header)
    is_filled = not place.on_blank_line and place.is_above_deeper(place.line_before)
    if not opening.is_block or is_filled:
        return None
    return Block.behind(_line_up_to(snapshot.text, opening.header))


def _line_up_to(text: str, offset: int) -> str:
    """From the start of a line to a character in it, with that."""
    start = max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1
    return text[start : offset + 1]
