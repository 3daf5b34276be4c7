"""Which drafted tokens the target accepts, and what it emits after them. Pure numpy, no I/O.

A walk from the root of the draft (a chain is a tree of width 1): at each node a rule names the
child that is accepted, or the token that is emitted instead. The output law is the target's,
whatever the draft. Rules: speculative sampling (Leviathan et al. 2023, arXiv 2211.17192; Chen et
al. 2023, arXiv 2302.01318); one target choice a node for drafts without distributions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lsp_server.engine.sampling import draw
from lsp_server.engine.types import ROOT

if TYPE_CHECKING:
    from lsp_server.engine.types import Draft, Probs


@dataclass(frozen=True, slots=True)
class Verdict:
    path: tuple[int, ...]
    """Indices of the accepted tokens, from the root on."""
    next_token: int
    """The correction at the first rejection, or the bonus token after full acceptance."""

    @property
    def num_accepted(self) -> int:
        return len(self.path)


Rule = Callable[[int, int, Sequence[int]], tuple[int | None, int]]
"""(row of logits, tokens accepted so far, children in draft order) -> (accepted child, its token),
or (None, the token to emit). Row 0 follows the committed text, row i + 1 drafted token i."""


def verify(draft: Draft, rule: Rule) -> Verdict:
    """Follow accepted children until the rule emits a token.

    >>> from lsp_server.engine.types import Draft
    >>> target = [1, 2, 9, 4]
    >>> draft = Draft((1, 2, 3), "example")
    >>> verify(draft, matching(draft, lambda row, depth: target[row]))
    Verdict(path=(0, 1), next_token=9)
    """
    path: list[int] = []
    node = ROOT
    while True:
        child, token = rule(node + 1, len(path), draft.children(node))
        if child is None:
            return Verdict(tuple(path), token)
        path.append(child)
        node = child


def matching(draft: Draft, target_token: Callable[[int, int], int]) -> Rule:
    """Accept the child that is the target's own choice: its arg max, or its draw from p.

    Exact for any draft without distributions, trees included, since what is emitted at a node is
    always the target's one choice there. `target_token(row, depth)` is asked for reached rows only.

    For a one-hot draft x this is the rejection rule too: x is accepted with probability p(x), and
    what comes else has the law of p without x. With a generator per position the text is that of
    plain sampling with the same seed.
    """

    def rule(row: int, depth: int, children: Sequence[int]) -> tuple[int | None, int]:
        token = target_token(row, depth)
        return next((c for c in children if draft.token_ids[c] == token), None), token

    return rule


def rejection(
    draft: Draft,
    target_probs: Callable[[int], Probs],
    rng: Callable[[int], np.random.Generator],
) -> Rule:
    """Exact rejection sampling of a chain that was drawn from `draft.draft_probs`.

    Args:
        target_probs: row -> processed float64 [vocab]; asked for reached rows only.
        rng: tokens accepted so far -> the generator of that output position.
    """
    assert draft.draft_probs is not None
    assert draft.parents is None
    draft_probs = draft.draft_probs

    def rule(row: int, depth: int, children: Sequence[int]) -> tuple[int | None, int]:
        probs, source = target_probs(row), rng(depth)
        if not children:
            return None, draw(probs, source.random())
        child = children[0]
        token = draft.token_ids[child]
        if accepts(probs, draft_probs[child], token, source.random()):
            return child, token
        return None, draw(residual(probs, draft_probs[child]), source.random())

    return rule


def rejection_sample(
    target_probs: Probs, draft_probs: Probs, draft_token: int, rng: np.random.Generator
) -> tuple[bool, int]:
    """The rule at one position, by itself: (accepted, token), where the token has the law of p.

    Args:
        target_probs, draft_probs: float64 [vocab], each summing to 1.
        draft_token: drawn from `draft_probs`.
    """
    if accepts(target_probs, draft_probs, draft_token, rng.random()):
        return True, draft_token
    return False, draw(residual(target_probs, draft_probs), rng.random())


def accepts(target_probs: Probs, draft_probs: Probs, token: int, uniform: float) -> bool:
    """u < p/q, strictly and without dividing: a token of target probability 0 is never accepted,
    nor one that its own distribution could not have drawn."""
    if not 0 <= token < len(target_probs) or draft_probs[token] <= 0.0:
        return False
    return bool(uniform * draft_probs[token] < target_probs[token])


def residual(target_probs: Probs, draft_probs: Probs) -> Probs:
    """norm(max(p - q, 0)), or p itself where that is zero everywhere (p == q)."""
    rest = np.maximum(target_probs - draft_probs, 0.0)
    total = rest.sum()
    return rest / total if total > 0.0 else target_probs
