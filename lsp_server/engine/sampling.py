"""Logits -> the processed target distribution: one function for every path through the decoder.

Order, fixed and tested: repetition, presence and frequency penalties; bias; temperature; top-k;
top-p; min-p; normalised after each truncation. Ties go to the lowest id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lsp_server.errors import InferenceError

if TYPE_CHECKING:
    from lsp_server.engine.types import DecodeParams, Logits, Probs


def greedy_token(logits: Logits, params: DecodeParams, history: Sequence[int]) -> int:
    """Arg max of the processed row (float32 [vocab]); lowest id on ties. NaN: InferenceError."""
    row = _adjusted(logits, params, history)
    token = int(np.argmax(row))  # NaN counts as the maximum, so one look finds any
    _check(row[token])
    return token


def process(logits: Logits, params: DecodeParams, history: Sequence[int]) -> Probs:
    """The target's distribution at one position.

    Args:
        logits: float32 [vocab], the raw row.
        params: temperature, truncation and penalties; greedy gives a one-hot distribution.
        history: prompt and output (and the draft tokens before this row), for the penalties.

    Returns:
        float64 [vocab], summing to 1.

    Raises:
        InferenceError: the row has NaN, or nothing finite.
    """
    if params.greedy:
        one_hot = np.zeros(len(logits), np.float64)
        one_hot[greedy_token(logits, params, history)] = 1.0
        return one_hot
    row = _adjusted(logits, params, history).astype(np.float64) / params.temperature
    top = row.max()
    _check(top)
    probs: Probs = np.exp(row - top)
    probs /= probs.sum()
    if params.top_k > 0:
        probs = _keep(probs, _ranked(probs)[: params.top_k])
    if params.top_p < 1.0:
        order = _ranked(probs)
        before = np.cumsum(probs[order]) - probs[order]
        probs = _keep(probs, order[: max(1, np.count_nonzero(before < params.top_p))])
    if params.min_p > 0.0:
        probs = _keep(probs, np.flatnonzero(probs >= min(params.min_p, 1.0) * probs.max()))
    return probs


def draw(probs: Probs, uniform: float) -> int:
    """Inverse-CDF draw with `uniform` in [0, 1); never a token of probability 0."""
    cumulative = np.cumsum(probs)
    token = int(np.searchsorted(cumulative, uniform * cumulative[-1], side="right"))
    if token >= len(probs) or probs[token] == 0.0:  # rounding at the upper end
        token = int(np.flatnonzero(probs)[-1])
    return token


def position_rng(seed: int, position: int) -> np.random.Generator:
    """The generator of one output position.

    Keyed by (seed, position), so that tokens that were drafted and discarded, or the number of
    tokens a pass brought, leave no trace: the same seed gives the same text (Philox: Salmon et al.
    2011, counter based). Any integer is a seed.
    """
    key = seed % 2**128
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, position]))


def _adjusted(logits: Logits, params: DecodeParams, history: Sequence[int]) -> Logits:
    penalised = (
        params.repetition_penalty != 1.0
        or params.presence_penalty != 0.0
        or params.frequency_penalty != 0.0
    )
    if not penalised and not params.logit_bias:
        return logits
    row = logits.copy()
    if penalised:
        counts = Counter(history)
        ids = np.fromiter(counts.keys(), np.int64, len(counts))
        times = np.fromiter(counts.values(), np.float32, len(counts))
        seen = row[ids]
        factor = params.repetition_penalty
        seen = np.where(seen > 0, seen / factor, seen * factor)
        row[ids] = seen - params.presence_penalty - params.frequency_penalty * times
    for token_id, bias in params.logit_bias:
        row[token_id] += bias
    return row


def _ranked(probs: Probs) -> np.ndarray:
    """Ids from most to least probable, lower id first among equals."""
    return np.argsort(-probs, kind="stable")


def _keep(probs: Probs, ids: np.ndarray) -> Probs:
    kept = np.zeros_like(probs)
    kept[ids] = probs[ids]
    kept /= kept.sum()
    return kept


def _check(top: float) -> None:
    if not np.isfinite(top):
        raise InferenceError(
            "The model gave logits that are not numbers; its files may be damaged:"
            " run `tabahead models verify`, or try engine.provider = cpu."
        )
