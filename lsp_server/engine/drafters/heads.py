"""What drafting with trained heads shares: the state it starts from, and choices from logits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from lsp_server.engine.types import Slot
from lsp_server.errors import InferenceError

if TYPE_CHECKING:
    from numpy.typing import NDArray


class StateSlot(Slot, Protocol):
    """A slot whose model keeps hidden states."""

    def states(self, name: str) -> NDArray[np.float32]:
        """Of the committed tokens, [num_tokens, size]."""
        ...


def has_newest_state(token_ids: Sequence[int], slot: Slot) -> bool:
    """All but the last token are committed: a state is there that says what follows the last.

    On the first pass of a request more tokens are fresh, as a rule: no state yet, no draft.
    """
    return len(slot.token_ids) > 0 and len(token_ids) == len(slot.token_ids) + 1


def top_choices(
    logits: NDArray[np.float32], column_ids: NDArray[np.int64], num_choices: int
) -> list[tuple[int, float]]:
    """The best tokens, each with its log-probability; the lower column first among equals.

    Args:
        logits: float32 [columns].
        column_ids: which token each column stands for.

    Raises:
        InferenceError: the logits have NaN, or nothing finite.
    """
    top = logits.max()
    if not np.isfinite(top):
        raise InferenceError("The head gave logits that are not numbers; make its folder again.")
    num_choices = min(num_choices, len(logits))
    lowest = top if num_choices == 1 else np.partition(logits, -num_choices)[-num_choices]
    columns = np.flatnonzero(logits >= lowest)
    columns = columns[np.argsort(-logits[columns], kind="stable")][:num_choices]
    log_total = np.log(np.exp(logits - top).sum())
    return [(int(column_ids[c]), float(logits[c] - top - log_total)) for c in columns]
