"""The text that a model writes at a place, and other texts that part from it.

All share the document's KV cache: another text begins with the tokens of the first, up to one at
which the model wavered, and goes on from the runner-up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from lsp_server.cancellation import CancelToken
from lsp_server.completion import (
    Backend,
    CompletionRequest,
    CompletionStats,
    Piece,
    Reason,
    Watch,
    unwatched,
)
from lsp_server.errors import InferenceError
from lsp_server.generation.amount import StopRule
from lsp_server.generation.collecting import Collected, Finish, collect
from lsp_server.postprocess import Dropped, Edit, postprocess

_log = logging.getLogger(__name__)

Clock = Callable[[], float]

MAX_MARGIN = 3.0
"""A runner-up that is less than a twentieth as likely (natural logarithm) begins no other text."""
LEAST_SECONDS = 0.5
"""For all other texts, however quickly the first was written."""
MAX_TRIES = 2
"""Texts that are begun for each item that is wanted: some end in the same, or in nothing."""


@dataclass(frozen=True, slots=True)
class Written:
    """One text, and what is left of it to show."""

    collected: Collected
    outcome: Edit | Dropped
    stats: CompletionStats
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Writer:
    """What one request is written with."""

    request: CompletionRequest
    rule: StopRule
    backend: Backend
    cancel: CancelToken
    clock: Clock
    is_hopeless: Callable[[Sequence[Piece]], bool] = lambda pieces: False
    """Whether what was written so far can become nothing that is shown."""

    def write(
        self,
        forced_ids: tuple[int, ...] = (),
        seconds: float | None = None,
        watch: Watch = unwatched,
    ) -> Written:
        """A text that begins with `forced_ids`, in `seconds`, or in the request's time."""
        generation = self.backend.generate(
            replace(self.request, forced_ids=forced_ids), self.cancel
        )
        try:
            collected = collect(
                generation,
                self.rule,
                self.cancel,
                max_tokens=self.request.max_tokens,
                time_budget=self._seconds if seconds is None else seconds,
                clock=self.clock,
                watch=watch,
                is_hopeless=self.is_hopeless,
            )
        except InferenceError as error:
            failed = Dropped(Reason.ENGINE_ERROR)
            return Written(_NOTHING, failed, generation.stats, str(error))
        return Written(collected, self._outcome(collected), generation.stats)

    def others(self, first: Written, shown: Callable[[Edit], str | None]) -> Iterator[Written]:
        """Texts other than the first of which something is left: as many as the request wants items
        besides that, or in its place where nothing is left of it, and there is time for. `shown`
        tells edits apart by what they make of the document; None: that one cannot be shown."""
        wanted = self.request.num_items - isinstance(first.outcome, Edit)
        seen = {shown(first.outcome)} if isinstance(first.outcome, Edit) else set()
        seen.add(None)
        deadline = self._deadline_of_others(first.collected)
        for forced_ids in branches(first.collected.pieces)[: MAX_TRIES * wanted]:
            seconds = deadline - self.clock()
            if wanted == 0 or seconds <= 0:
                return
            other = self.write(forced_ids, seconds)
            first.stats.add(other.stats)
            if other.collected.finish is Finish.CANCELLED:
                return
            if other.message is not None:
                _log.warning("A further item could not be written: %s", other.message)
            if isinstance(other.outcome, Edit) and (text := shown(other.outcome)) not in seen:
                seen.add(text)
                wanted -= 1
                yield other

    def _deadline_of_others(self, first: Collected) -> float:
        """They may take as long together as the first, whose reader waits for them, and no longer
        than the request has time."""
        now = self.clock()
        started = now if first.started is None else first.started
        end = now + max(LEAST_SECONDS, now - started)
        return end if self._seconds is None else min(end, started + self._seconds)

    @property
    def _seconds(self) -> float | None:
        milliseconds = self.request.deadline_ms
        return None if milliseconds is None else milliseconds / 1000

    def _outcome(self, collected: Collected) -> Edit | Dropped:
        if collected.finish is Finish.CANCELLED:
            codes = {reason.value: reason for reason in Reason}
            return Dropped(codes.get(self.cancel.reason or "", Reason.CANCELLED))
        if collected.finish is Finish.HOPELESS:
            return Dropped(Reason.LOW_CONFIDENCE)
        if collected.finish is Finish.DEADLINE and not collected.text.strip():
            return Dropped(Reason.DEADLINE)
        is_ended = (
            collected.finish is Finish.ENDED and len(collected.pieces) < self.request.max_tokens
        )
        return postprocess(collected.text, self.rule.place, is_ended=is_ended)


_NOTHING = Collected("", (), Finish.ENDED)


def branches(pieces: Sequence[Piece]) -> list[tuple[int, ...]]:
    """Beginnings of other texts: up to a token at which the model wavered, and the runner-up.

    Those that part in the first line come first, since that is what the eye falls on; among them
    those that part where the model wavered most.
    """
    token_ids = tuple(piece.token_id for piece in pieces if piece.token_id is not None)
    found: list[tuple[bool, float, int, int]] = []
    text = ""
    for index, piece in enumerate(pieces):
        is_below = "\n" in text.lstrip()
        text += piece.text
        if piece.margin is None or piece.runner_up is None or piece.runner_up == piece.token_id:
            continue
        if piece.margin <= MAX_MARGIN:
            found.append((is_below, piece.margin, index, piece.runner_up))
    return [(*token_ids[:index], runner_up) for _, _, index, runner_up in sorted(found)]
