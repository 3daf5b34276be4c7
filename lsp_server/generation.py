"""Take raw text piece by piece and stop it: at the end of the line or block, by clock, on request.

The stop is decided after every piece, so the tokens taken do not depend on how many of them a pass
of the model brought.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, cast

from lsp_server.cancellation import CancelToken
from lsp_server.completion import Generation, Mode, Piece, Watch, unwatched
from lsp_server.errors import Cancelled
from lsp_server.indentation import indent_width
from lsp_server.place import (
    Place,
    closes_block,
    may_become_closer,
    normalise_line_ends,
    repeats_next_line,
)
from lsp_server.postprocess.indentation import first_column
from lsp_server.postprocess.markers import marker_start
from lsp_server.postprocess.repetition import echo_length
from lsp_server.postprocess.talk import code_span


class Finish(Enum):
    STOPPED = "stopped"
    """The stop rule was met."""
    ENDED = "ended"
    """The model said that it is done, or reached its number of tokens."""
    DEADLINE = "deadline"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class StopRule:
    """Where a completion at a place ends."""

    place: Place
    mode: Mode
    """LINE or BLOCK."""
    may_break: bool
    """The text may begin on the next line."""
    floor: int = 0
    """Columns; a line of the block indented less ends it."""
    closer_width: int | None = None
    """Columns of the block's header, where its closing line stands; None: no block opened here."""


@dataclass(frozen=True, slots=True)
class Collected:
    text: str
    token_ids: tuple[int, ...] | None
    """Up to and including the token that met the stop; None for a script."""
    finish: Finish


def stop_rule(wanted: Mode, place: Place) -> StopRule:
    """What to complete at `place`: `wanted`, or with AUTO what the place suggests.

    AUTO: a block where one was just opened or nothing follows in the document, else a line. Text
    right of the cursor always means its line.
    """
    rest_empty = not place.rest.strip()
    header = place.header if rest_empty else None
    mode = wanted
    if wanted is Mode.AUTO:
        is_block = rest_empty and (place.at_end or header is not None)
        mode = Mode.BLOCK if is_block else Mode.LINE
    may_break = rest_empty and wanted is not Mode.LINE
    if header is not None:
        width = indent_width(header)
        return StopRule(place, mode, may_break, floor=width + 1, closer_width=width)
    return StopRule(place, mode, may_break, floor=indent_width(place.line_before))


def collect(
    generation: Generation,
    rule: StopRule,
    cancel: CancelToken,
    *,
    max_tokens: int,
    time_budget: float | None,
    clock: Callable[[], float],
    watch: Watch = unwatched,
) -> Collected:
    """Read pieces until the rule, `time_budget` (seconds of `clock`) or `cancel` ends it.

    The budget runs from the first piece on: to throw a cold prompt away half read would only make
    the next key wait for the rest. After it only whole lines remain; a block that `max_tokens` cut
    off loses its last line.
    Closing the iterator stops the model.
    """
    raw = ""
    token_ids: list[int] = []
    finish = Finish.ENDED
    cut: int | None = None
    deadline: float | None = None
    with closing(_closable(iter(generation))) as pieces:
        try:
            for piece in pieces:
                raw += piece.text
                if piece.token_id is not None:
                    token_ids.append(piece.token_id)
                text = normalise_line_ends(raw)
                watch(text)
                cancel.raise_if_cancelled()
                cut = find_stop(text, rule)
                if cut is not None:
                    finish = Finish.STOPPED
                    break
                if time_budget is None:
                    continue
                deadline = clock() + time_budget if deadline is None else deadline
                if clock() >= deadline:
                    finish = Finish.DEADLINE
                    break
            else:
                cancel.raise_if_cancelled()
        except Cancelled:
            is_late = cancel.reason == Finish.DEADLINE.value
            finish = Finish.DEADLINE if is_late else Finish.CANCELLED
    text = normalise_line_ends(raw)[:cut]
    lines = whole_lines(text)
    is_cut_off = finish is Finish.ENDED and len(token_ids) >= max_tokens and bool(lines.strip())
    if finish is Finish.DEADLINE or (is_cut_off and rule.mode is Mode.BLOCK):
        text = lines
    return Collected(text, tuple(token_ids) or None, finish)


class _Pieces(Protocol):
    def __iter__(self) -> Iterator[Piece]: ...
    def close(self) -> None: ...


def _closable(pieces: Iterator[Piece]) -> _Pieces:
    """Generations are generators, whose `close` runs their `finally` blocks."""
    return cast(_Pieces, pieces)


def whole_lines(text: str) -> str:
    """Without a last line that has no line end yet."""
    return text[: text.rfind("\n") + 1]


def find_stop(text: str, rule: StopRule) -> int | None:
    """Length of the text to keep once the rule is met; None while it is not."""
    marker = marker_start(text, rule.place)
    start, end = code_span(text, rule.place)
    if start > 0:
        # Who answers a question begins with what was asked.
        start += echo_length(text[start:end], rule.place)
    code = text[start:end]
    stop = _block_stop(code, rule) if rule.mode is Mode.BLOCK else _line_stop(code, rule)
    found = [marker, None if stop is None else start + stop, end if end < len(text) else None]
    return min((place for place in found if place is not None), default=None)


def _line_stop(text: str, rule: StopRule) -> int | None:
    """The first line end, or with `may_break` the first after something that is not blank."""
    head = len(text) - len(text.lstrip()) if rule.may_break else 0
    if rule.may_break and head == len(text):
        return None
    end = text.find("\n", head)
    return end if end >= 0 else None


def _block_stop(text: str, rule: StopRule) -> int | None:
    """The end of the block by indentation, or where the text runs into what follows already.

    The first line continues the cursor's and is the block's whatever it is; where it asks for less
    indentation than the cursor has, the rest of the block may have that too.
    """
    start, has_text, floor = 0, False, rule.floor
    if rule.place.on_blank_line and rule.closer_width is None:
        floor = min(floor, first_column(text, rule.place))
    while True:
        end = text.find("\n", start)
        line = text[start:] if end < 0 else text[start:end]
        if line.strip():
            stop = _stop_at_line(text, start, end, floor, rule) if start > 0 else None
            if stop is not None:
                return stop
            has_text = True
        elif end >= 0 and has_text and floor == 0:
            return start - 1  # at top level a blank line is the end
        if end < 0:
            return None
        start = end + 1


def _stop_at_line(text: str, start: int, end: int, floor: int, rule: StopRule) -> int | None:
    """The stop that the line at `start` (its end -1 while it is being written) brings about."""
    line = text[start:] if end < 0 else text[start:end]
    if end >= 0 and repeats_next_line(line, text[:start], rule.place.next_line):
        return start - 1
    width = indent_width(line)
    if width >= floor:
        return None
    if width == rule.closer_width:
        if end < 0 and may_become_closer(line):
            return None
        if end >= 0 and closes_block(line):
            return end
    return start - 1
