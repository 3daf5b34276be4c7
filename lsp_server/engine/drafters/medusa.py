"""Drafts by Medusa heads: each guesses one place ahead from the same hidden state of the target.

Method: Cai et al. 2024, arXiv 2401.10774, verified exactly (their typical acceptance is lossy).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from lsp_server.cancellation import CancelToken
from lsp_server.engine.drafters.cost import FREE, DraftCost
from lsp_server.engine.drafters.heads import StateSlot, has_newest_state, top_choices
from lsp_server.engine.drafters.trees import (
    Chain,
    Node,
    StaticTree,
    append_children,
    path_of,
    to_draft,
)
from lsp_server.engine.types import ROOT, Draft

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class MedusaModel(Protocol):
    """The loaded heads, shared by all documents."""

    column_ids: NDArray[np.int64]
    """Which token each column of the logits stands for."""

    def logits(
        self, state: NDArray[np.float32], cancel: CancelToken | None = None
    ) -> NDArray[np.float32]:
        """[num_heads, columns] from one row of the target's `hidden_states`."""
        ...


class Medusa:
    """Drafter protocol for one document."""

    name = "medusa"

    def __init__(
        self,
        head: MedusaModel,
        slot: StateSlot,
        shape: Chain | StaticTree | None = None,
        cost: DraftCost = FREE,
    ) -> None:
        """
        Args:
            slot: the target's, which keeps `hidden_states`.
            shape: a chain by default.
            cost: of `head`, once for all documents.
        """
        self._head = head
        self._slot = slot
        self._shape = shape or Chain()
        self._cost = cost

    @property
    def drafts_trees(self) -> bool:
        return not isinstance(self._shape, Chain)

    def draft_cost_ms(self, depth: int) -> float:
        """One pass, however many tokens it gives."""
        return self._cost.step_ms

    def reading_cost_ms(self, token_ids: Sequence[int]) -> float:
        """Nothing: the target's own rows are what it reads."""
        return 0.0

    def propose(
        self, token_ids: Sequence[int], limit: int, cancel: CancelToken | None = None
    ) -> Draft:
        """The heads' best guesses from the newest state of the target.

        Empty where more than one token is fresh. Raises InferenceError for NaN, Cancelled.
        """
        if limit < 1 or not has_newest_state(token_ids, self._slot):
            return Draft((), self.name)
        # That state gave the fresh token: head 0 guesses the one behind it.
        logits = self._head.logits(self._slot.states("hidden_states")[-1], cancel)
        nodes: list[Node] = []
        parents = [ROOT]
        for row in logits[:limit]:
            wanted = [self._shape.num_children(path_of(nodes, parent)) for parent in parents]
            choices = top_choices(row, self._head.column_ids, max(wanted))
            level: list[int] = []
            for parent, num_children in zip(parents, wanted, strict=True):
                level += append_children(nodes, parent, choices[:num_children])
            parents = self._shape.parents(nodes, level)
            if not parents:
                break
        return to_draft(nodes, self._shape.proposed(nodes), self.name)
