"""Logits -> the processed target distribution: one function for every path through the decoder.

Order, fixed and tested: repetition, presence and frequency penalties; bias, by which a least length
bars the ends of text; allowed tokens; temperature; top-k; top-p; min-p; normalised after each
truncation. Ties go to the lowest id.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lsp_server.errors import InferenceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lsp_server.engine.types import DecodeParams, Logits, Probs

_BLOCK = 256
_NARROW = 64
"""Values a block where the largest of a row are looked for."""
_NEAR = 1 / 1024
"""Of the most probable token's probability."""


def greedy_token(
    logits: Logits,
    params: DecodeParams,
    history: Sequence[int],
    allowed: NDArray[np.intp] | None = None,
) -> int:
    """Arg max of the processed row (float32 [vocab]); lowest id on ties. NaN: InferenceError."""
    row = _adjusted(logits, params, history, allowed)
    token = int(row.argmax())  # NaN counts as the maximum, so one look finds any
    _check(row[token])
    return token


def process(
    logits: Logits,
    params: DecodeParams,
    history: Sequence[int],
    allowed: NDArray[np.intp] | None = None,
) -> Probs:
    """The target's distribution at one position.

    Args:
        logits: float32 [vocab], the raw row.
        params: temperature, truncation and penalties; greedy gives a one-hot distribution.
        history: prompt and output (and the draft tokens before this row), for the penalties.
        allowed: ids of the tokens that may come, at least one; None: all.

    Returns:
        float64 [vocab], summing to 1.

    Raises:
        InferenceError: the row has NaN, or nothing finite.
    """
    found = np.zeros(len(logits), np.float64)
    if params.greedy:
        found[greedy_token(logits, params, history, allowed)] = 1.0
        return found
    ids, probs = _processed(logits, params, history, allowed)
    if ids is None:
        return probs
    found[ids] = probs
    return found


def below_least_length(params: DecodeParams, end_ids: Iterable[int]) -> DecodeParams:
    """`params` of a row before which fewer than `min_new_tokens` tokens are new, those drafted
    included: no end of text has a probability."""
    barred = tuple((token_id, -math.inf) for token_id in end_ids)
    return dataclasses.replace(params, logit_bias=(*params.logit_bias, *barred))


def sample(
    logits: Logits,
    params: DecodeParams,
    history: Sequence[int],
    uniform: float,
    allowed: NDArray[np.intp] | None = None,
) -> int:
    """`draw` from what `process` gives, without spreading few tokens over the vocabulary."""
    if params.greedy:
        return greedy_token(logits, params, history, allowed)
    ids, probs = _processed(logits, params, history, allowed)
    token = draw(probs, uniform)
    return token if ids is None else int(ids[token])


def _processed(
    logits: Logits,
    params: DecodeParams,
    history: Sequence[int],
    allowed: NDArray[np.intp] | None,
) -> tuple[NDArray[np.intp] | None, Probs]:
    """Ascending ids of the tokens that are left, None for all, and their probabilities."""
    row = _adjusted(logits, params, history, allowed)
    top = row.max()
    _check(top)
    ids: NDArray[np.intp] | None = None
    if 0 < params.top_k < len(row):
        ids = _largest(row, params.top_k)
        row = row[ids]
    weights = _weights(row, top, params.temperature)
    if params.top_p < 1.0:
        kept = _nucleus(weights, params.top_p)
        ids, weights = kept if ids is None else ids[kept], weights[kept]
    if params.min_p > 0.0:
        kept = np.flatnonzero(weights >= min(params.min_p, 1.0) * weights.max())
        ids, weights = kept if ids is None else ids[kept], weights[kept]
    probs: Probs = weights.astype(np.float64)
    probs /= probs.sum()
    return ids, probs


def draw(probs: Probs, uniform: float) -> int:
    """Inverse-CDF draw with `uniform` in [0, 1); never a token of probability 0.

    In two steps, the block and the token in it: running sums are slow, sums of blocks are not.
    """
    sums = np.add.reduceat(probs, np.arange(0, len(probs), _BLOCK))
    ends = np.cumsum(sums)
    wanted = uniform * ends[-1]
    block = int(ends.searchsorted(wanted, side="right"))
    if block < len(ends):
        start = block * _BLOCK
        cumulative = np.cumsum(probs[start : start + _BLOCK])
        before = ends[block - 1] if block > 0 else 0.0
        token = start + int(cumulative.searchsorted(wanted - before, side="right"))
        if token < start + len(cumulative):
            return token
        probs = probs[: start + len(cumulative)]
    return int(np.flatnonzero(probs)[-1])  # rounding at the upper end


def position_rng(seed: int, position: int) -> np.random.Generator:
    """The generator of one output position.

    Keyed by (seed, position), so that tokens that were drafted and discarded, or the number of
    tokens a pass brought, leave no trace: with drafts that were not drawn the same seed gives the
    same text. One that was drawn is accepted or corrected where a plain step would draw: then it is
    the law that stays, and the text for the same drafts. (Philox: Salmon et al. 2011, counter
    based.) Any integer is a seed.
    """
    key = seed % 2**128
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, position]))


def _adjusted(
    logits: Logits,
    params: DecodeParams,
    history: Sequence[int],
    allowed: NDArray[np.intp] | None,
) -> Logits:
    if not params.penalised and not params.logit_bias and allowed is None:
        return logits
    row = logits.copy()
    if params.penalised:
        counts = Counter(history)
        ids = np.fromiter(counts.keys(), np.int64, len(counts))
        times = np.fromiter(counts.values(), np.float32, len(counts))
        seen = row[ids]
        factor = params.repetition_penalty
        seen = np.where(seen > 0, seen / factor, seen * factor)
        row[ids] = seen - params.presence_penalty - params.frequency_penalty * times
    for token_id, bias in params.logit_bias:
        row[token_id] += bias
    if allowed is not None:
        _check(row.max())  # a NaN elsewhere in the row is a fault all the same
        others = np.ones(len(row), np.bool_)
        others[allowed] = False
        row[others] = -np.inf
    return row


def _weights(row: Logits, top: float, temperature: float) -> NDArray[np.float32]:
    """Probabilities up to a factor, 1 where the logit is `top`.

    In the precision of the logits, whose own rounding is no smaller: float64 takes three times as
    long. What would be less likely than 1e-45 becomes impossible.
    """
    with np.errstate(over="ignore"):  # logits so far apart that their difference is infinite
        weights: NDArray[np.float32] = row - top
        weights /= np.float32(temperature)
    np.exp(weights, out=weights)
    return weights


def _largest(values: NDArray[np.float32], count: int) -> NDArray[np.intp]:
    """Ascending ids of the `count` largest values, lower id first among equals.

    At least `count` values reach the maximum of the block that is `count`th by its maximum; only
    what does is looked at closely, since to part the whole row takes several times as long.
    """
    num_blocks = len(values) // _NARROW
    if count > num_blocks:
        place = len(values) - count
        return _down_to(values, np.partition(values, place)[place], count)
    maxima = values[: num_blocks * _NARROW].reshape(num_blocks, _NARROW).max(axis=1)
    floor = np.partition(maxima, num_blocks - count)[num_blocks - count]
    ids = np.flatnonzero(values >= floor)
    near = values[ids]
    place = len(near) - count
    return ids[_down_to(near, np.partition(near, place)[place], count)]


def _down_to(values: NDArray[np.float32], bound: np.float32, count: int) -> NDArray[np.intp]:
    """Ascending ids of the `count` largest values, the smallest of which is `bound`."""
    ids = np.flatnonzero(values >= bound)
    surplus = len(ids) - count
    if surplus > 0:
        ids = np.delete(ids, np.flatnonzero(values[ids] == bound)[-surplus:])
    return ids


def _nucleus(weights: NDArray[np.float32], top_p: float) -> NDArray[np.intp]:
    """Ids of the fewest most probable tokens that reach `top_p`, at least one.

    Only values are sorted, which is ten times as fast as ranking ids; and all of them only if those
    near the most probable one do not reach it.
    """
    enough = top_p * weights.sum(dtype=np.float64)
    for floor in (_NEAR, 0.0):
        ids = np.flatnonzero(weights >= floor)
        near = weights[ids]
        ranked = np.sort(near)[::-1]
        running = np.cumsum(ranked, dtype=np.float64)
        if running[-1] >= enough:
            break
    num_kept = max(1, int(np.count_nonzero(running - ranked < enough)))
    return ids[_down_to(near, ranked[num_kept - 1], num_kept)]


def _check(top: float) -> None:
    if not math.isfinite(top):
        raise InferenceError(
            "The model gave logits that are not numbers; its files may be damaged:"
            " run `tabahead models verify`, or try engine.provider = cpu."
        )
