"""Exact rules that the product does not use: for comparison, and for whoever comes to learn.

Three of them are one procedure: try the children of a node in turn, each against the distribution q
that it was drawn from, and go on with the residual. They differ in q only. Block verification
judges a chain as a whole. Pure numpy, no I/O; the product's rules are in `verify.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lsp_server.engine.sampling import draw
from lsp_server.engine.verify import Rule, Verdict, accepts, residual

if TYPE_CHECKING:
    from lsp_server.engine.types import Draft, Probs

    TargetProbs = Callable[[int], Probs]
    Generators = Callable[[int], np.random.Generator]
    DrawnFrom = Callable[[Sequence[int], int], Probs]


def top_k_siblings(draft: Draft, target_probs: TargetProbs, rng: Generators) -> Rule:
    """Children that are there for certain, such as the k likeliest of a head: q is one-hot.

    A child x is accepted with probability p(x), else p loses x and is normalised (EAGLE, Li et al.
    2024, arXiv 2401.15077). Siblings have different tokens; their order changes the acceptance of
    each, never the law of what is emitted.

    Args:
        draft: a tree or a chain; its `draft_probs` are not looked at.
        target_probs: row -> processed float64 [vocab]; asked for reached rows only.
        rng: tokens accepted so far -> the generator of that output position.

    Example: p = (.5, .3, .2), children 1 and 0. Child 1 is accepted with .3; else p becomes
    (5/7, 0, 2/7) and child 0 is accepted with 5/7; else 2 is emitted. In all: 1 with .3, 0 with
    .7 * 5/7 = .5, 2 with .7 * 2/7 = .2.
    """

    def one_hot(tried: Sequence[int], vocab_size: int) -> Probs:
        return _one_hot(draft.token_ids[tried[-1]], vocab_size)

    return _in_turn(draft, target_probs, rng, one_hot)


def independent_siblings(draft: Draft, target_probs: TargetProbs, rng: Generators) -> Rule:
    """Children drawn independently from one q: multi-round rejection (SpecInfer, Miao et al. 2023,
    arXiv 2305.09781).

    Siblings stand in the order in which they were drawn, and equal ones stay: leaving the second
    out changes the law. (It is never accepted: where x was rejected, p(x) < q(x), so the residual
    has no x.)

    Args:
        draft: `draft_probs` float64 [num_tokens, vocab]; a node's row is the q that it and its
            siblings were drawn from, so siblings have equal rows.
        target_probs, rng: as for `top_k_siblings`.

    Example: p = (.5, .3, .2), q = (.2, .5, .3), two children. The first is accepted with .7 over
    all draws; the residual is then (1, 0, 0), and the second is accepted iff it is 0, with .2: .76.
    """
    probs = _rows(draft)
    return _in_turn(draft, target_probs, rng, lambda tried, _: probs[tried[-1]])


def distinct_siblings(draft: Draft, target_probs: TargetProbs, rng: Generators) -> Rule:
    """Children drawn from one q without replacement (Sequoia, Chen et al. 2024, arXiv 2402.12374).

    The second child was drawn from q without the first one's token, normalised, and so on; that is
    what it is held against. Siblings must stand in the order in which they were drawn: sorted by
    id or by probability they are no draws from these distributions any more.

    Args:
        draft: as for `independent_siblings`: rows hold q before anything was removed.
        target_probs, rng: as for `top_k_siblings`.

    Example: p = (.5, .3, .2), q = (.2, .5, .3), two children: the first is accepted with .7, one of
    them with .80857; with three children all of q is drawn and one is always accepted.
    """
    probs = _rows(draft)

    def left(tried: Sequence[int], vocab_size: int) -> Probs:
        return without(probs[tried[-1]], [draft.token_ids[child] for child in tried[:-1]])

    return _in_turn(draft, target_probs, rng, left)


def without(probs: Probs, token_ids: Sequence[int]) -> Probs:
    """`probs` [vocab] without these tokens, normalised; zeros where nothing is left to draw.

    >>> without(np.array([0.5, 0.25, 0.25]), [0]).tolist()
    [0.0, 0.5, 0.5]
    """
    left = probs.copy()
    left[[token for token in token_ids if 0 <= token < len(probs)]] = 0.0
    total = left.sum()
    return left / total if total > 0.0 else left


def verify_block(draft: Draft, target_probs: TargetProbs, rng: np.random.Generator) -> Verdict:
    """Block verification of a drawn chain: accept the longest prefix that its own test lets pass
    (Sun et al. 2024, arXiv 2403.10444). On average never shorter than token by token.

    With w_0 = 1 and w_i = min(w_(i-1) * p(x_i) / q(x_i), 1), the prefix of i tokens passes with
    probability w_i at the end of the chain and S / (S + 1 - w_i) before it, where S is the sum of
    max(w_i * p - q, 0) one position further on. All tests are made, since a later one may pass
    where an earlier one failed. What follows t accepted tokens has the law of norm(max(w_t * p - q,
    0)), and of p after the whole chain.

    Args:
        draft: a chain; `draft_probs` float64 [num_tokens, vocab], the q of each token.
        target_probs: row -> processed float64 [vocab]; every row is asked for, the last one only
            after the whole chain.
        rng: one generator for the block. Generators by position would be wrong: tests behind the
            last accepted token have been looked at, so the next block must not use them again.

    Example: p = (1/3, 2/3), q = (2/3, 1/3) at every position, two tokens: 11/9 are accepted on
    average, 10/9 token by token.
    """
    assert draft.parents is None
    q, num_tokens = _rows(draft), len(draft.token_ids)
    p = [target_probs(row) for row in range(num_tokens)]
    weights = [1.0]
    for row, token in enumerate(draft.token_ids):
        weights.append(_carried(weights[-1], p[row], q[row], token))
    num_accepted = 0
    for count in range(1, num_tokens + 1):
        if count == num_tokens:
            passes = weights[count]
        else:
            passes = _prefix_passes(weights[count], p[count], q[count])
        if rng.random() < passes:
            num_accepted = count
    if num_accepted == num_tokens:
        rest = target_probs(num_tokens)
    else:
        rest = residual(weights[num_accepted] * p[num_accepted], q[num_accepted])
    return Verdict(tuple(range(num_accepted)), draw(rest, rng.random()))


def _in_turn(
    draft: Draft, target_probs: TargetProbs, rng: Generators, drawn_from: DrawnFrom
) -> Rule:
    """Try children one after the other; `drawn_from` gives the q of the last of those tried, of
    this many tokens."""

    def rule(row: int, depth: int, children: Sequence[int]) -> tuple[int | None, int]:
        probs, source = target_probs(row), rng(depth)
        for place, child in enumerate(children, start=1):
            token, q = draft.token_ids[child], drawn_from(children[:place], len(probs))
            if accepts(probs, q, token, source.random()):
                return child, token
            probs = residual(probs, q)
        return None, draw(probs, source.random())

    return rule


def _rows(draft: Draft) -> Probs:
    assert draft.draft_probs is not None
    return draft.draft_probs


def _one_hot(token: int, vocab_size: int) -> Probs:
    """Zeros for an id outside the vocabulary: such a child is rejected and changes nothing."""
    probs = np.zeros(vocab_size, np.float64)
    if 0 <= token < vocab_size:
        probs[token] = 1.0
    return probs


def _carried(weight: float, target_probs: Probs, draft_probs: Probs, token: int) -> float:
    """min(w * p(x) / q(x), 1); 0 for a token that its distribution cannot draw, and for good."""
    if not 0 <= token < len(target_probs) or draft_probs[token] <= 0.0:
        return 0.0
    return float(min(weight * target_probs[token] / draft_probs[token], 1.0))


def _prefix_passes(weight: float, target_probs: Probs, draft_probs: Probs) -> float:
    """S / (S + 1 - w). Where w = 1 that is 1; with p == q behind it 0 / 0, but then a later test
    passes for certain, so that any value is right."""
    if weight >= 1.0:
        return 1.0
    excess = float(np.maximum(weight * target_probs - draft_probs, 0.0).sum())
    return excess / (excess + 1.0 - weight)
