"""A draft grown token by token from a drafter's own next-token logits.

Greedy: the arg max, ended where the drafter is unsure (confidence stop, as in EAGLE-2 and
llama.cpp's p-min), with runners-up as siblings if asked for. Sampling: draws from the drafter's
processed distribution, which goes with the draft so that verification is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lsp_server.engine.drafters.cost import DraftCost
from lsp_server.engine.sampling import draw, greedy_token, process
from lsp_server.engine.types import ROOT, DecodeParams, Draft
from lsp_server.errors import InferenceError

if TYPE_CHECKING:
    from lsp_server.engine.types import Logits, Probs

RowBehind = Callable[[Sequence[int]], "Logits"]
"""Drafted tokens so far -> float32 [target vocab] behind the text and them, -inf for what is never
proposed. Asked for (), (a,), (a, b), ... in turn."""


@dataclass(frozen=True, slots=True)
class Growth:
    """How a source drafts."""

    min_probability: float = 0.4
    """A greedy draft ends before a token (or siblings together) of less than this, but never before
    its first: what a source is worth shows only when it drafts, and the step has been paid for."""
    width: int = 1
    """Tokens offered at the first position, one fewer at each that follows; 1: a chain. Greedy
    only: a drawn draft is a chain."""

    def num_tokens(self, depth: int) -> int:
        """Of a draft so deep, at most."""
        return sum(self.num_offered(position) for position in range(depth))

    def num_offered(self, position: int) -> int:
        return max(1, self.width - position)


class Growing:
    """What the sources that draft by `grow` have in common."""

    def __init__(self, growth: Growth | None, cost: DraftCost) -> None:
        self._growth = growth or Growth()
        self._cost = cost
        self._params = DecodeParams()

    @property
    def drafts_trees(self) -> bool:
        return self._growth.width > 1

    def draft_cost_ms(self, depth: int) -> float:
        """A step for each token."""
        return depth * self._cost.step_ms

    def set_params(self, params: DecodeParams) -> None:
        """Of the request that comes next; where they are greedy, drafts need no distributions."""
        self._params = params


def grow(
    source: str,
    how: Growth,
    params: DecodeParams,
    token_ids: Sequence[int],
    limit: int,
    end_ids: frozenset[int],
    row_behind: RowBehind,
) -> Draft:
    """A draft of at most `limit` tokens of depth after `token_ids`.

    Nothing follows one of `end_ids`, and a greedy draft holds none.

    Raises InferenceError for logits that are no numbers, and what `row_behind` raises; behind a
    drawn token an InferenceError ends the draft instead.
    """
    if params.greedy:
        return _greedy(source, how, params, token_ids, limit, end_ids, row_behind)
    return _drawn(source, params, token_ids, limit, end_ids, row_behind)


def draft_rng(seed: int, position: int) -> np.random.Generator:
    """The generator of a drafted token, keyed by (seed, position) like `sampling.position_rng` and
    independent of it: the same Philox key, but counters that the target's streams never reach."""
    return np.random.Generator(np.random.Philox(key=seed % 2**128, counter=[0, 0, 1, position]))


def _greedy(
    source: str,
    how: Growth,
    params: DecodeParams,
    token_ids: Sequence[int],
    limit: int,
    end_ids: frozenset[int],
    row_behind: RowBehind,
) -> Draft:
    history = list(token_ids)
    tokens: list[int] = []
    parents: list[int] = []
    node = ROOT
    for position in range(limit):
        row = row_behind(history[len(token_ids) :])
        best = greedy_token(row, params, history)
        offered = [best, *_runners_up(row, best, how.num_offered(position) - 1, end_ids)]
        probs = _probabilities(row, offered)
        if best in end_ids or (tokens and probs.sum() < how.min_probability):
            break
        parents += [node] * len(offered)
        node = len(tokens)
        tokens += offered
        history.append(best)
        if probs[0] < how.min_probability:
            break
    return Draft(tuple(tokens), source, parents=tuple(parents) if how.width > 1 else None)


def _drawn(
    source: str,
    params: DecodeParams,
    token_ids: Sequence[int],
    limit: int,
    end_ids: frozenset[int],
    row_behind: RowBehind,
) -> Draft:
    """Whatever was drawn is in the draft: only what follows it may depend on it."""
    history = list(token_ids)
    rows: list[Probs] = []
    while len(rows) < limit and (not rows or history[-1] not in end_ids):
        try:
            row = process(row_behind(history[len(token_ids) :]), params, history)
        except InferenceError:
            if not rows:
                raise
            break  # to give up what led here, because of what it is, would change the law
        rows.append(row)
        uniform = draft_rng(params.seed, len(history)).random()
        history.append(draw(rows[-1], uniform))
    if not rows:
        return Draft((), source)
    return Draft(tuple(history[len(token_ids) :]), source, np.stack(rows))


def _runners_up(row: Logits, best: int, count: int, end_ids: frozenset[int]) -> list[int]:
    """The `count` best tokens but `best` and the ends, best first, lower id first among equals."""
    if count < 1:
        return []
    num_seen = min(count + 1 + len(end_ids), len(row))
    least = np.partition(row, -num_seen)[-num_seen]
    ids = np.flatnonzero((row >= least) & np.isfinite(row))
    ranked = ids[np.argsort(-row[ids], kind="stable")]
    return [int(i) for i in ranked if i != best and i not in end_ids][:count]


def _probabilities(row: Logits, token_ids: Sequence[int]) -> Probs:
    """float64 [len(token_ids)]: softmax of the row, before any processing."""
    top = row.max()
    total = np.exp(row - top).sum(dtype=np.float64)
    probs: Probs = np.exp(row[list(token_ids)].astype(np.float64) - top) / total
    return probs
