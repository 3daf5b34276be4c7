"""Take raw text piece by piece and stop it: at the end of the line or block, by clock, on request.

The stop is decided after every piece, so the tokens taken do not depend on how many of them a pass
of the model brought.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol, cast

from lsp_server.cancellation import CancelToken
from lsp_server.completion import Generation, Mode, Piece, Watch, unwatched
from lsp_server.errors import Cancelled
from lsp_server.generation.amount import StopRule
from lsp_server.generation.stops import find_stop
from lsp_server.text.place import normalise_line_ends


class Finish(Enum):
    STOPPED = "stopped"
    """The stop rule was met."""
    ENDED = "ended"
    """The model said that it is done, or reached its number of tokens."""
    DEADLINE = "deadline"
    HOPELESS = "hopeless"
    """Whatever had followed would not have been shown."""
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Collected:
    text: str
    pieces: tuple[Piece, ...]
    """Up to and including the one that met the stop."""
    finish: Finish
    started: float | None = None
    """When the first piece came, by the clock; None: none did."""

    @property
    def token_ids(self) -> tuple[int, ...] | None:
        """None for a script."""
        return tuple(p.token_id for p in self.pieces if p.token_id is not None) or None


def collect(
    generation: Generation,
    rule: StopRule,
    cancel: CancelToken,
    *,
    max_tokens: int,
    time_budget: float | None,
    clock: Callable[[], float],
    watch: Watch = unwatched,
    is_hopeless: Callable[[Sequence[Piece]], bool] = lambda pieces: False,
) -> Collected:
    """Read pieces until the rule, `time_budget` (seconds of `clock`), `is_hopeless` of those so far
    or `cancel` ends it.

    The budget runs from the first piece on: to throw a cold prompt away half read would only make
    the next key wait for the rest. After it only whole lines remain; a block that `max_tokens` cut
    off loses its last line.
    Closing the iterator stops the model.
    """
    raw = ""
    taken: list[Piece] = []
    finish = Finish.ENDED
    cut: int | None = None
    started: float | None = None
    with closing(_closable(iter(generation))) as pieces:
        try:
            for piece in pieces:
                started = clock() if started is None else started
                raw += piece.text
                taken.append(piece)
                text = normalise_line_ends(raw)
                watch(text)
                cancel.raise_if_cancelled()
                cut = find_stop(text, rule)
                if cut is not None:
                    finish = Finish.STOPPED
                    break
                if is_hopeless(taken):
                    finish = Finish.HOPELESS
                    break
                if time_budget is not None and clock() >= started + time_budget:
                    finish = Finish.DEADLINE
                    break
            else:
                cancel.raise_if_cancelled()
        except Cancelled:
            is_late = cancel.reason == Finish.DEADLINE.value
            finish = Finish.DEADLINE if is_late else Finish.CANCELLED
    text = normalise_line_ends(raw)[:cut]
    lines = whole_lines(text)
    collected = Collected(text, tuple(taken), finish, started)
    num_tokens = len(collected.token_ids or ())
    is_cut_off = finish is Finish.ENDED and num_tokens >= max_tokens and bool(lines.strip())
    if finish is Finish.DEADLINE or (is_cut_off and rule.mode is Mode.BLOCK):
        return replace(collected, text=lines)
    return collected


class _Pieces(Protocol):
    def __iter__(self) -> Iterator[Piece]: ...
    def close(self) -> None: ...


def _closable(pieces: Iterator[Piece]) -> _Pieces:
    """Generations are generators, whose `close` runs their `finally` blocks."""
    return cast(_Pieces, pieces)


def whole_lines(text: str) -> str:
    """Without a last line that has no line end yet."""
    return text[: text.rfind("\n") + 1]
