"""All sources of one document behind one face: copies first, a priced model where it pays more.

What copies (lookup, corpus) is asked always, since asking costs nothing; what computes (a draft
model, heads, early exit) only if its expected tokens a millisecond, by the controller's estimates,
beat those of the best copy and of a plain pass.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lsp_server.cancellation import CancelToken
from lsp_server.engine.controller import Controller, record_name, widths_by_depth
from lsp_server.engine.types import Draft, Drafter, Slot
from lsp_server.errors import Cancelled

_log = logging.getLogger(__name__)

PROBE_EVERY = 32
"""Rounds after which a priced source that was not asked is tried with one token: what it is worth
shows only when it drafts."""


class PricedDrafter(Drafter, Protocol):
    """A source whose drafting takes time."""

    @property
    def step_cost_ms(self) -> float:
        """Milliseconds of one drafted token, measured at load."""
        ...


@dataclass(slots=True)
class Record:
    """What is known of a priced source, whichever document it drafts for."""

    last: Draft
    """The last draft that had tokens: trees are learned apart, and each depth costs many tokens."""
    rounds_since: int = 0
    """Rounds since it was asked."""


Records = dict[str, Record]
"""By the name of the source."""


class Combined:
    """Drafter protocol over several sources."""

    name = "combined"

    def __init__(
        self,
        free: Sequence[Drafter],
        priced: Sequence[PricedDrafter],
        controller: Controller,
        slot: Slot,
        records: Records | None = None,
    ) -> None:
        """
        Args:
            free, priced: in the order in which ties are broken.
            records: shared by the documents of a session, lest a source that is due to be tried
                again is forgotten with each change of document; None: of this one alone.
        """
        self._free = free
        self._priced = priced
        self._controller = controller
        self._slot = slot
        self.num_failures = 0
        self._records: Records = {} if records is None else records
        for source in priced:
            self._records.setdefault(source.name, Record(Draft((), source.name)))

    def propose(
        self, token_ids: Sequence[int], limit: int, cancel: CancelToken | None = None
    ) -> Draft:
        """The draft with the best expected rate; empty where a plain pass is best."""
        if limit < 1:
            return Draft((), self.name)
        num_fresh = len(token_ids) - len(self._slot.token_ids)
        copied, copied_rate = self._best_copy(token_ids, limit, num_fresh, cancel)
        source, length = self._best_priced(limit, num_fresh, copied_rate)
        for priced in self._priced:
            self._records[priced.name].rounds_since += 1
        if source is None:
            return copied
        record = self._records[source.name]
        record.rounds_since = 0
        drafted = self._ask(source, token_ids, length, cancel)
        if not drafted.token_ids:
            return copied
        record.last = drafted
        return drafted

    def _best_copy(
        self, token_ids: Sequence[int], limit: int, num_fresh: int, cancel: CancelToken | None
    ) -> tuple[Draft, float]:
        best, best_rate = Draft((), self.name), self._controller.choose(Draft((), ""), num_fresh)[1]
        first: Draft | None = None
        for source in self._free:
            draft = self._ask(source, token_ids, limit, cancel)
            length, rate = self._controller.choose(draft, num_fresh)
            if length and rate > best_rate:
                best, best_rate = draft, rate
            if first is None and draft.token_ids:
                first = draft
        if 0 < len(best.token_ids) < limit:
            best = self._continued(best, token_ids, limit, cancel)
        if not best.token_ids and first is not None:
            # Not worth verifying, but the controller learns for nothing whether it comes true.
            return first, best_rate
        return best, best_rate

    def _continued(
        self, draft: Draft, token_ids: Sequence[int], limit: int, cancel: CancelToken | None
    ) -> Draft:
        """Where a copy ends before the limit, another source may know how it goes on."""
        history = [*token_ids, *draft.token_ids]
        for source in self._free:
            if source.name != draft.source:
                more = self._ask(source, history, limit - len(draft.token_ids), cancel)
                if more.token_ids:
                    together = draft.token_ids + more.token_ids
                    return Draft(together, draft.source, strength=draft.strength)
        return draft

    def _best_priced(
        self, limit: int, num_fresh: int, rate_to_beat: float
    ) -> tuple[PricedDrafter | None, int]:
        best: tuple[PricedDrafter | None, int] = (None, 0)
        for source in self._priced:
            last = self._records[source.name].last
            length, rate = self._controller.plan(
                record_name(last), _widths(last, limit), source.step_cost_ms, num_fresh
            )
            if length and rate > rate_to_beat:
                best, rate_to_beat = (source, length), rate
        if best[0] is None and num_fresh == 1:  # on a first pass heads have no state to start from
            for source in self._priced:
                if self._records[source.name].rounds_since >= PROBE_EVERY:
                    return source, 1
        return best

    def _ask(
        self,
        source: Drafter,
        token_ids: Sequence[int],
        limit: int,
        cancel: CancelToken | None,
    ) -> Draft:
        """A source that fails is passed over; the others go on."""
        try:
            return source.propose(token_ids, limit, cancel)
        except Cancelled:
            raise
        except Exception:  # noqa: BLE001 - whatever a source does, the round goes on
            _log.exception("The drafter %r failed; going on without it.", source.name)
            self.num_failures += 1
            return Draft((), source.name)


def _widths(last: Draft, limit: int) -> list[int]:
    """Tokens to verify at depths 1, 2, ... `limit` of a draft like the last one; beneath a tree's
    depth a token each, so that a short one does not keep its source from longer ones."""
    known = widths_by_depth(last) if last.is_tree else []
    deeper = range(1, limit - len(known) + 1)
    return [*known, *((known[-1] if known else 0) + more for more in deeper)][:limit]
