"""Drafts by an EAGLE head: one layer that continues the target's own hidden states, token by token.

Methods: EAGLE (Li et al. 2024, arXiv 2401.15077), the trees of EAGLE-2 (arXiv 2406.16858), and the
features of EAGLE-3 (arXiv 2503.01840), which differ inside the graph only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from lsp_server.cancellation import CancelToken
from lsp_server.engine.drafters.cost import FREE, DraftCost
from lsp_server.engine.drafters.heads import StateSlot, has_newest_state, top_choices
from lsp_server.engine.drafters.trees import (
    Chain,
    Node,
    Shape,
    TreePath,
    append_children,
    to_draft,
)
from lsp_server.engine.prefix import common_prefix
from lsp_server.engine.types import ROOT, Draft

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float32]


class EagleRows(Protocol):
    """What the head remembers of one document: rows of the text, then drafted ones.

    Row j reads the state of token j and token j + 1, and guesses token j + 2.
    """

    num_tokens: int
    """Tokens that text and draft may reach."""
    num_rows: int
    """Rows of the text."""

    def rollback(self, num_rows: int) -> None:
        """Keep the first `num_rows` rows of the text only."""
        ...

    def feed(
        self, states: Array, token_ids: Sequence[int], cancel: CancelToken | None = None
    ) -> tuple[Array, Array]:
        """Append rows from the target's states; logits [columns] and own state of the last."""
        ...

    def draft(
        self,
        states: Array,
        token_ids: Sequence[int],
        parents: Sequence[int],
        cancel: CancelToken | None = None,
    ) -> tuple[Array, Array]:
        """Append drafted rows from their parents' own states; logits [T, columns], own states."""
        ...


class EagleModel(Protocol):
    """The loaded head, shared by all documents."""

    column_ids: NDArray[np.int64]
    """Which token each column of the logits stands for."""
    state_name: str
    """What it reads of the target: `hidden_states` or `features`."""

    def cache(self, num_tokens: int, num_drafted: int) -> EagleRows: ...


class Eagle:
    """Drafter protocol for one document."""

    name = "eagle"

    def __init__(
        self,
        head: EagleModel,
        slot: StateSlot,
        shape: Shape | None = None,
        cost: DraftCost = FREE,
    ) -> None:
        """
        Args:
            slot: the target's, which keeps `head.state_name`.
            shape: a chain by default.
            cost: of `head`, once for all documents.
        """
        self._head = head
        self._slot = slot
        self._shape = shape or Chain()
        self._cost = cost
        self._rows = head.cache(slot.spec.context_length, self._shape.num_parents)
        self._text: list[int] = []
        """What the rows were fed of, and perhaps more."""

    @property
    def drafts_trees(self) -> bool:
        return not isinstance(self._shape, Chain)

    def draft_cost_ms(self, depth: int) -> float:
        """A step for each depth."""
        return depth * self._cost.step_ms

    def reading_cost_ms(self, token_ids: Sequence[int]) -> float:
        """What the head has no rows of."""
        num_known = min(common_prefix(self._text, token_ids), self._rows.num_rows)
        return self._cost.reading_ms(len(token_ids) - num_known)

    def propose(
        self, token_ids: Sequence[int], limit: int, cancel: CancelToken | None = None
    ) -> Draft:
        """Continue the target's states of the committed tokens with the head's own.

        Empty where more than one token is fresh, or where the head's positions end. Raises
        InferenceError for NaN, Cancelled.
        """
        room = self._rows.num_tokens - len(self._slot.token_ids)
        limit = min(limit, self._shape.depth, room + 1)
        if limit < 1 or not has_newest_state(token_ids, self._slot):
            return Draft((), self.name)
        logits, state = self._feed(token_ids, cancel)
        nodes: list[Node] = []
        level = append_children(nodes, ROOT, self._choices(logits, ()))
        states, row_of = {ROOT: state}, {ROOT: ROOT}
        ends = self._slot.spec.eos_ids
        for _ in range(1, limit):
            going_on = [index for index in level if nodes[index].token not in ends]
            parents = self._shape.parents(nodes, going_on)
            if not parents:
                break
            before = [nodes[index].parent for index in parents]
            all_logits, own = self._rows.draft(
                np.stack([states[index] for index in before]),
                [nodes[index].token for index in parents],
                [row_of[index] for index in before],
                cancel,
            )
            level = []
            for index, row, state in zip(parents, all_logits, own, strict=True):
                row_of[index] = len(row_of) - 1
                states[index] = state  # stacked before the next pass overwrites it
                level += append_children(nodes, index, self._choices(row, nodes[index].path))
        return to_draft(nodes, self._shape.proposed(nodes), self.name)

    def _feed(self, token_ids: Sequence[int], cancel: CancelToken | None) -> tuple[Array, Array]:
        """Bring the rows up to the newest committed token; its logits and the head's state.

        Row j depends on the tokens up to j + 1. Rows that are not known to be finite do not stay.
        """
        num_same = common_prefix(self._text, token_ids)
        # The last row is fed in any case: its logits are wanted.
        num_kept = min(self._rows.num_rows, max(num_same - 1, 0), len(self._slot.token_ids) - 1)
        self._rows.rollback(num_kept)
        self._text = list(token_ids)
        states = self._slot.states(self._head.state_name)
        logits, state = self._rows.feed(states[num_kept:], token_ids[num_kept + 1 :], cancel)
        if not np.isfinite(logits).all():
            self._rows.rollback(num_kept)
        return logits, state

    def _choices(self, logits: Array, path: TreePath) -> list[tuple[int, float]]:
        return top_choices(logits, self._head.column_ids, self._shape.num_children(path))
