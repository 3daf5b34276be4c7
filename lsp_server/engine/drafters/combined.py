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
from lsp_server.engine.controller import Controller, record_name, tree_name, widths_by_depth
from lsp_server.engine.types import Draft, Drafter, Slot
from lsp_server.errors import Cancelled

_log = logging.getLogger(__name__)

TRIAL_SHARE = 0.02
"""Of the time of plain passes, so much goes into trials: where no copy pays, a priced source that
is not asked is tried with one token whenever it can be paid for, since what it is worth shows only
when it drafts. The text that it must read for that is bounded by the slot, so its turn comes."""
_READING_ROUNDS = 64
"""Rounds that share the reading of a text. It is read once and drafted from until the document is
left, for how many rounds nobody knows before: more than one completion has, fewer than a session.
Charged to one round alone, no source would ever be worth its first draft."""
_REST = 32
"""Rounds in which a source that has failed is not asked."""


class PricedDrafter(Drafter, Protocol):
    """A source whose drafting takes time, in one of its forms."""

    @property
    def drafts_trees(self) -> bool:
        """Its drafts may have more than one path."""
        ...

    def draft_cost_ms(self, depth: int) -> float:
        """Milliseconds of a draft so deep, by what was measured at load."""
        ...

    def reading_cost_ms(self, token_ids: Sequence[int]) -> float:
        """Milliseconds of reading what it has not yet seen of this text, before it can draft."""
        ...


@dataclass(slots=True)
class Record:
    """What is known of one form of a priced source, whichever document it drafts for."""

    name: str
    """Under which the controller learns of its drafts: a tree that turned out a chain counts as
    one."""
    last: Draft
    """The last draft that had tokens: each depth of a tree costs many."""
    credit_ms: float = 0.0
    """Its share of the time since it was last asked, to be spent on a trial."""


Records = dict[str, Record]
"""By the name of the source, chains and trees apart."""


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
            free, priced: in the order in which ties are broken; a priced source that drafts chains
                and trees is there twice, and what pays more is asked.
            records: shared by the documents of a session, lest a source that is due to be tried
                again is forgotten with each change of document; None: of this one alone.
        """
        self._free = free
        self._priced = priced
        self._controller = controller
        self._slot = slot
        self.strict = False
        """Whether the request that comes is; set before each."""
        self.num_failures = 0
        self._resting: dict[str, int] = {}
        """Sources that have failed -> rounds in which they are not asked."""
        self._num_unpaid = 0
        self._records: Records = {} if records is None else records
        for source in priced:
            self._records.setdefault(_form(source), Record(_form(source), Draft((), source.name)))

    def propose(
        self, token_ids: Sequence[int], limit: int, cancel: CancelToken | None = None
    ) -> Draft:
        """The draft with the best expected rate; empty where a plain pass is best."""
        if limit < 1:
            return Draft((), self.name)
        num_fresh = len(token_ids) - len(self._slot.token_ids)
        self._resting = {name: left - 1 for name, left in self._resting.items() if left > 1}
        _, plain_rate = self._controller.choose(Draft((), self.name), num_fresh, strict=self.strict)
        copied, copied_rate = self._best_copy(token_ids, limit, num_fresh, plain_rate, cancel)
        share = TRIAL_SHARE * self._controller.curve.cost(1) / max(1, len(self._priced))
        for priced in self._priced:
            self._record(priced).credit_ms += share
        source, length, rate = self._best_priced(token_ids, limit, num_fresh, copied_rate)
        if copied_rate == plain_rate and num_fresh == 1:  # on a first pass heads have no state
            due = self._due(token_ids, source, rate / plain_rate)
            source, length = (source, length) if due is None else (due, 1)
        if source is None:
            return copied
        record = self._record(source)
        record.credit_ms = 0.0
        drafted = self._ask(source, token_ids, length, cancel)
        if not drafted.token_ids:
            return copied
        record.name, record.last = record_name(drafted), drafted
        return drafted

    def _record(self, source: PricedDrafter) -> Record:
        return self._records[_form(source)]

    def _best_copy(
        self,
        token_ids: Sequence[int],
        limit: int,
        num_fresh: int,
        plain_rate: float,
        cancel: CancelToken | None,
    ) -> tuple[Draft, float]:
        best, best_rate = Draft((), self.name), plain_rate
        unpaid: list[Draft] = []
        for source in self._free:
            draft = self._ask(source, token_ids, limit, cancel)
            length, rate = self._controller.choose(draft, num_fresh, strict=self.strict)
            if length and rate > best_rate:
                best, best_rate = draft, rate
            elif draft.token_ids:
                unpaid.append(draft)
        if 0 < len(best.token_ids) < limit:
            best = self._continued(best, token_ids, limit, cancel)
        if not best.token_ids and unpaid:
            # Not worth verifying, but the controller learns for nothing whether it comes true; the
            # sources take turns in that.
            self._num_unpaid += 1
            best = unpaid[self._num_unpaid % len(unpaid)]
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
        self, token_ids: Sequence[int], limit: int, num_fresh: int, rate_to_beat: float
    ) -> tuple[PricedDrafter | None, int, float]:
        """(source, depth, expected tokens a millisecond); no source where none beats the rate."""
        best: tuple[PricedDrafter | None, int, float] = (None, 0, rate_to_beat)
        for source in self._awake():
            record = self._record(source)
            reading = source.reading_cost_ms(token_ids) / _READING_ROUNDS
            costs = [source.draft_cost_ms(depth) + reading for depth in range(1, limit + 1)]
            length, rate = self._controller.plan(
                record.name, _widths(record.last, limit), costs, num_fresh, strict=self.strict
            )
            if length and rate > best[2]:
                best = (source, length, rate)
        return best

    def _awake(self) -> list[PricedDrafter]:
        return [source for source in self._priced if source.name not in self._resting]

    def _due(
        self, token_ids: Sequence[int], chosen: PricedDrafter | None, speedup: float
    ) -> PricedDrafter | None:
        """The first source, other than the one chosen, whose share of the time pays for a trial and
        for the `speedup` over plain passes that is given up for it."""
        given_up = (speedup - 1.0) * self._controller.curve.cost(1)
        for source in self._awake():
            price = self._trial_ms(source, token_ids) + given_up
            if source is not chosen and self._record(source).credit_ms >= price:
                return source
        return None

    def _trial_ms(self, source: PricedDrafter, token_ids: Sequence[int]) -> float:
        """What it costs to draft one token deep, to read the text for that, and to verify it."""
        curve = self._controller.curve
        (width,) = _widths(self._record(source).last, 1)
        drafting = source.draft_cost_ms(1) + source.reading_cost_ms(token_ids)
        return drafting + curve.cost(1 + width) - curve.cost(1)

    def _ask(
        self,
        source: Drafter,
        token_ids: Sequence[int],
        limit: int,
        cancel: CancelToken | None,
    ) -> Draft:
        """A source that fails is passed over and rests a while; the others go on."""
        if source.name in self._resting:
            return Draft((), source.name)
        try:
            return source.propose(token_ids, limit, cancel)
        except Cancelled:
            raise
        except Exception:  # noqa: BLE001 - whatever a source does, the round goes on
            _log.exception("The drafter %r failed; going on without it.", source.name)
            self.num_failures += 1
            self._resting[source.name] = _REST
            return Draft((), source.name)


def _form(source: PricedDrafter) -> str:
    return tree_name(source.name) if source.drafts_trees else source.name


def _widths(last: Draft, limit: int) -> list[int]:
    """Tokens to verify at depths 1, 2, ... `limit` of a draft like the last one; beneath a tree's
    depth a token each, so that a short one does not keep its source from longer ones."""
    known = widths_by_depth(last) if last.is_tree else []
    deeper = range(1, limit - len(known) + 1)
    return [*known, *((known[-1] if known else 0) + more for more in deeper)][:limit]
