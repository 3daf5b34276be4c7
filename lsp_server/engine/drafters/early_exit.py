"""Drafts from the target's own first layers and head: no weights and no cache of its own.

Method: self-speculation by early exit (Draft & Verify, Zhang et al. 2024, arXiv 2309.08168;
LayerSkip, Elhoushi et al. 2024, arXiv 2404.16710).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from lsp_server.cancellation import CancelToken
from lsp_server.engine.drafters.cost import FREE, DraftCost, measure_draft
from lsp_server.engine.drafters.growth import Growing, Growth, grow
from lsp_server.engine.drafters.vocabulary import DraftVocabulary
from lsp_server.engine.types import Draft, Slot

if TYPE_CHECKING:
    from lsp_server.engine.types import Logits

_MOST_FRESH = 16
"""Tokens that the slot does not hold yet, at most: running more of them through the first layers,
only for the next pass to do it again, takes longer than a draft saves."""
_MEASURE_CONTEXT = 192


class ExitSlot(Slot, Protocol):
    """A target's slot whose model can stop after its first layers."""

    def exit_forward(
        self, token_ids: Sequence[int], num_before: int, cancel: CancelToken | None = None
    ) -> Logits:
        """float32 [columns of the early head] behind `token_ids`, which follow the committed tokens
        and `num_before` that such passes have written; nothing is committed."""
        ...


class EarlyExit(Growing):
    """Drafter protocol for one document, over the slot that it is decoded in."""

    name = "early_exit"

    def __init__(
        self,
        slot: ExitSlot,
        vocabulary: DraftVocabulary,
        *,
        growth: Growth | None = None,
        cost: DraftCost = FREE,
    ) -> None:
        """
        Args:
            vocabulary: columns of the early head's logits.
            cost: of `measure_exit`, once for all documents.
        """
        super().__init__(growth, cost)
        self._slot = slot
        self._vocabulary = vocabulary

    def reading_cost_ms(self, token_ids: Sequence[int]) -> float:
        """Nothing: the target's own rows are what it reads."""
        return 0.0

    def propose(
        self, token_ids: Sequence[int], limit: int, cancel: CancelToken | None = None
    ) -> Draft:
        """A chain, or a tree of the given width; empty where the slot holds another text, or lacks
        too much of this one.

        Raises InferenceError for logits that are no numbers, Cancelled out of a running pass.
        """
        slot = self._slot
        limit = min(limit, slot.spec.context_length - len(token_ids) + 1)
        num_kept = len(slot.token_ids)
        fresh = list(token_ids[num_kept:])
        known = list(token_ids[:num_kept]) == list(slot.token_ids)
        if limit < 1 or not known or not 0 < len(fresh) <= _MOST_FRESH:
            return Draft((), self.name)

        def row_behind(drafted: Sequence[int]) -> Logits:
            new = [*fresh, *drafted]
            num_before = len(new) - 1 if drafted else 0
            logits = slot.exit_forward(new[num_before:], num_before, cancel)
            return self._vocabulary.expand(logits)

        ends = slot.spec.eos_ids
        return grow(self.name, self._growth, self._params, token_ids, limit, ends, row_behind)


def measure_exit(slot: ExitSlot, vocabulary: DraftVocabulary) -> DraftCost:
    """One drafted token behind some context; the slot is empty afterwards.

    Raises ModelFilesError for a model without the graph.
    """
    num_context = min(_MEASURE_CONTEXT, slot.spec.context_length - 1)
    slot.truncate(0)
    slot.forward([0] * num_context, [num_context - 1])
    slot.commit(num_context)
    cost = measure_draft(lambda: vocabulary.expand(slot.exit_forward([0], 0)))
    slot.truncate(0)
    return cost
