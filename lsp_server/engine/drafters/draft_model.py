"""Drafts from a small model of its own: weights, KV slots and, it may be, a reduced vocabulary.

Method: speculative decoding with a draft model (Leviathan et al. 2023, arXiv 2211.17192; Chen et
al. 2023, arXiv 2302.01318).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lsp_server.cancellation import CancelToken
from lsp_server.engine.drafters.cost import FREE, MEASURED_ROWS, DraftCost, measure_draft
from lsp_server.engine.drafters.growth import Growing, Growth, grow
from lsp_server.engine.drafters.vocabulary import DraftVocabulary
from lsp_server.engine.prefix import common_prefix
from lsp_server.engine.types import Draft, Model, Slot
from lsp_server.errors import InferenceError

if TYPE_CHECKING:
    from lsp_server.engine.types import Logits

_CHUNK = 128
"""Tokens a pass while the cache is brought up to the text, as in the target's prefill."""
_MEASURE_CONTEXT = 192


class DraftModel(Growing):
    """Drafter protocol for one document."""

    name = "draft"

    def __init__(
        self,
        model: Model,
        key: str,
        vocabulary: DraftVocabulary,
        *,
        growth: Growth | None = None,
        cost: DraftCost = FREE,
    ) -> None:
        """
        Args:
            model: the draft model; its slots are its own, so `key` may be that of the target's.
            vocabulary: its columns as ids of the target, which `check_draft_model` has passed.
            cost: of `measure_draft_model`, once for all documents.
        """
        super().__init__(growth, cost)
        self._model = model
        self._key = key
        self._vocabulary = vocabulary
        self._slot: Slot | None = None
        """The one used last; by now it may hold another document."""

    def reading_cost_ms(self, token_ids: Sequence[int]) -> float:
        """What is not in the model's own cache."""
        num_known = common_prefix(self._slot.token_ids, token_ids) if self._slot else 0
        return self._cost.reading_ms(len(token_ids) - num_known)

    def propose(
        self, token_ids: Sequence[int], limit: int, cancel: CancelToken | None = None
    ) -> Draft:
        """A chain, or a tree of the given width; empty where the text does not fit the slot.

        Raises InferenceError for logits that are no numbers (the cache is emptied) and for ids that
        the model does not know, Cancelled out of a running pass.
        """
        slot = self._slot = self._model.slot(self._key)
        limit = min(limit, slot.spec.context_length - len(token_ids) + 1)
        if limit < 1 or not token_ids:
            return Draft((), self.name)

        def row_behind(drafted: Sequence[int]) -> Logits:
            if not drafted:
                return self._vocabulary.expand(_catch_up(slot, token_ids, cancel))
            logits = slot.forward(drafted[-1:], [0], cancel=cancel)[0]
            slot.commit(1)
            return self._vocabulary.expand(logits)

        ends = slot.spec.eos_ids
        try:
            return grow(self.name, self._growth, self._params, token_ids, limit, ends, row_behind)
        except InferenceError:
            slot.truncate(0)  # the cause may be in its rows
            raise


def _catch_up(slot: Slot, token_ids: Sequence[int], cancel: CancelToken | None) -> Logits:
    """Make the cache that of `token_ids`; the logits behind them.

    What was drafted and accepted is there already but for the draft's last token, which was never
    fed: it goes in now, before the target's own.
    """
    kept = min(common_prefix(slot.token_ids, token_ids), len(token_ids) - 1)
    slot.truncate(kept)
    for begin in range(kept, len(token_ids), _CHUNK):
        chunk = token_ids[begin : begin + _CHUNK]
        logits: Logits = slot.forward(chunk, [len(chunk) - 1], cancel=cancel)[0]
        slot.commit(len(chunk))
    return logits


def measure_draft_model(slot: Slot, vocabulary: DraftVocabulary) -> DraftCost:
    """One drafted token behind some context, and rows of a text, in a slot of the draft model,
    which is empty afterwards."""
    num_rows = min(MEASURED_ROWS, slot.spec.context_length // 2)
    slot.truncate(0)
    _catch_up(slot, [0] * min(_MEASURE_CONTEXT, slot.spec.context_length - num_rows), None)
    cost = measure_draft(
        step=lambda: vocabulary.expand(slot.forward([0], [0])[0]),
        read=lambda: slot.forward([0] * num_rows, [num_rows - 1]),
        num_rows=num_rows,
    )
    slot.truncate(0)
    return cost
