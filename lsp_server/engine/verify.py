"""Which drafted tokens the target accepts, and what it emits after them. Pure numpy, no I/O.

The output law is the target's, whatever the draft. Rules: speculative sampling of Leviathan et al.
2023 (arXiv 2211.17192) and Chen et al. 2023 (arXiv 2302.01318).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lsp_server.engine.sampling import draw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lsp_server.engine.types import Draft, Probs


@dataclass(frozen=True, slots=True)
class Verdict:
    num_accepted: int
    next_token: int
    """The correction at the first rejection, or the bonus token after full acceptance."""


def verify_greedy(target_token: Callable[[int], int], draft_ids: Sequence[int]) -> Verdict:
    """Accept while a drafted token is the target's arg max.

    `target_token(i)` gives the arg max of row i and is asked for reached rows only.

    >>> verify_greedy([1, 2, 9, 4].__getitem__, [1, 2, 3])
    Verdict(num_accepted=2, next_token=9)
    """
    for row, drafted in enumerate(draft_ids):
        token = target_token(row)
        if token != drafted:
            return Verdict(row, token)
    return Verdict(len(draft_ids), target_token(len(draft_ids)))


def verify_sampled(
    target_probs: Callable[[int], Probs],
    draft: Draft,
    rng: Callable[[int], np.random.Generator],
) -> Verdict:
    """Exact rejection sampling of a chain.

    Args:
        target_probs: row i -> processed float64 [vocab]; asked for reached rows only.
        draft: one-hot (`draft_probs` None) or with the distributions it was drawn from.
        rng: row i -> the generator of that output position.

    A one-hot draft x is accepted with probability p(x), else the residual is p without x. Drawing
    y ~ p and accepting iff y == x is the same law, and the text then equals that of plain sampling
    with the same seed, so that is what is done.
    """
    for row, drafted in enumerate(draft.token_ids):
        probs, source = target_probs(row), rng(row)
        if draft.draft_probs is None:
            token = draw(probs, source.random())
            if token != drafted:
                return Verdict(row, token)
        elif not _accept(probs, draft.draft_probs[row], drafted, source.random()):
            return Verdict(row, draw(residual(probs, draft.draft_probs[row]), source.random()))
    last = len(draft.token_ids)
    return Verdict(last, draw(target_probs(last), rng(last).random()))


def residual(target_probs: Probs, draft_probs: Probs) -> Probs:
    """norm(max(p - q, 0)), or p itself where that is zero everywhere (p == q)."""
    rest = np.maximum(target_probs - draft_probs, 0.0)
    total = rest.sum()
    return rest / total if total > 0.0 else target_probs


def _accept(target_probs: Probs, draft_probs: Probs, token: int, uniform: float) -> bool:
    """u < p/q, strictly and without dividing: a token of target probability 0 is never accepted,
    nor one that its own distribution could not have drawn."""
    if not 0 <= token < len(target_probs) or draft_probs[token] <= 0.0:
        return False
    return bool(uniform * draft_probs[token] < target_probs[token])
