"""The decoding loop: a generator of steps, each one pass of the target.

Invariant between passes: the history (prompt and output) is one or more tokens longer than the
slot's committed tokens; those fresh tokens lead the next pass, so the correction or bonus token of
one pass costs none of its own, and a prompt's last chunk already carries a draft.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lsp_server.cancellation import CancelToken
from lsp_server.engine.controller import MAX_DRAFT, Controller
from lsp_server.engine.sampling import greedy_token, position_rng, process
from lsp_server.engine.types import DecodeParams, DecodeStats, Draft, Drafter, Slot, Step
from lsp_server.engine.verify import Verdict, verify_greedy, verify_sampled
from lsp_server.errors import InferenceError

if TYPE_CHECKING:
    from lsp_server.engine.types import Logits, ModelSpec

_log = logging.getLogger(__name__)

PREFILL_CHUNK = 128
"""Tokens a prefill pass: large enough to be fast, small enough to be cancelled between two."""


def decode(
    slot: Slot,
    prompt_ids: Sequence[int],
    params: DecodeParams,
    *,
    drafter: Drafter | None = None,
    controller: Controller | None = None,
    stats: DecodeStats | None = None,
    cancel: CancelToken | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[Step]:
    """Generate after `prompt_ids`, reusing what `slot` has in common with them.

    Args:
        drafter: proposes tokens; None or an empty draft gives plain steps.
        controller: cuts drafts to what pays; None verifies them whole (at most MAX_DRAFT).
        stats: filled while running.
        cancel: raises Cancelled out of the running pass; committed tokens stay valid.

    Yields:
        At least one token a step, except for a last step that only tells `eos`.

    Raises:
        InferenceError: empty prompt, prompt longer than the slot, or unusable logits.
        Cancelled: `cancel` was set.
    """
    stats = stats if stats is not None else DecodeStats()
    history = list(prompt_ids)
    start = clock()
    _prefill(slot, history, params.strict, stats, cancel)
    emitted = 0
    while True:
        remaining = min(params.max_new_tokens - emitted, slot.spec.context_length - len(history))
        if remaining < 1:
            return
        draft = _propose(drafter, history, min(remaining - 1, MAX_DRAFT), slot, params, stats)
        step = _round(slot, history, draft, controller, params, cancel)
        history.extend(step.token_ids)
        emitted += len(step.token_ids)
        if step.finish is None and len(step.token_ids) == remaining:
            step = dataclasses.replace(step, finish="length")
        if controller is not None and step.finish is None:
            controller.observe(draft, step.token_ids)
        now = clock()
        _count(stats, step, (now - start) * 1000)
        yield step
        if step.finish is not None:
            return
        start = clock()


def _prefill(
    slot: Slot,
    history: Sequence[int],
    strict: bool,
    stats: DecodeStats,
    cancel: CancelToken | None,
) -> None:
    """Cut the slot to the common prefix and feed whole chunks until at most one is fresh."""
    if not history:
        raise InferenceError("The prompt is empty; there is nothing to continue.")
    if len(history) >= slot.spec.context_length:
        raise InferenceError(
            f"The prompt has {len(history)} tokens, the slot holds {slot.spec.context_length};"
            " lower prompt_tokens or raise engine.slot_tokens."
        )
    slot.truncate(min(common_prefix(slot.token_ids, history), len(history) - 1), strict=strict)
    stats.prompt_tokens = len(history)
    stats.reused_tokens = len(slot.token_ids)
    while len(history) - len(slot.token_ids) > PREFILL_CHUNK:
        begin = len(slot.token_ids)
        chunk = history[begin : begin + PREFILL_CHUNK]
        slot.forward(chunk, [len(chunk) - 1], strict=strict, cancel=cancel)
        slot.commit(len(chunk))


def _round(
    slot: Slot,
    history: Sequence[int],
    draft: Draft,
    controller: Controller | None,
    params: DecodeParams,
    cancel: CancelToken | None,
) -> Step:
    """One pass: fresh tokens and the part of the draft that pays, verified and committed."""
    fresh = list(history[len(slot.token_ids) :])
    if controller is None or draft.draft_probs is not None:
        num_proposed = len(draft.token_ids)
    else:
        num_proposed = controller.choose(draft, len(fresh), strict=params.strict)
    proposed = _cut(draft, num_proposed)
    rows = range(len(fresh) - 1, len(fresh) + num_proposed)
    logits = slot.forward(
        fresh + list(proposed.token_ids), rows, strict=params.strict, cancel=cancel
    )
    try:
        verdict = _verify(logits, history, proposed, params)
    except InferenceError:
        slot.truncate(0)  # the cause may be in its rows: the next request starts afresh
        raise
    tokens = (*proposed.token_ids[: verdict.num_accepted], verdict.next_token)
    end = next((i for i, token in enumerate(tokens) if token in slot.spec.eos_ids), None)
    num_accepted = verdict.num_accepted if end is None else min(end, verdict.num_accepted)
    slot.commit(len(fresh) + num_accepted)
    return Step(
        token_ids=tokens if end is None else tokens[:end],
        source=draft.source if num_proposed else None,
        num_proposed=num_proposed,
        num_accepted=num_accepted,
        finish=None if end is None else "eos",
    )


def _verify(logits: Logits, history: Sequence[int], draft: Draft, params: DecodeParams) -> Verdict:
    def before(row: int) -> list[int]:
        return [*history, *draft.token_ids[:row]]

    if params.greedy:
        return verify_greedy(
            lambda row: greedy_token(logits[row], params, before(row)), draft.token_ids
        )

    def rng(row: int) -> np.random.Generator:
        return position_rng(params.seed, len(history) + row)

    return verify_sampled(lambda row: process(logits[row], params, before(row)), draft, rng)


def _propose(
    drafter: Drafter | None,
    history: Sequence[int],
    limit: int,
    slot: Slot,
    params: DecodeParams,
    stats: DecodeStats,
) -> Draft:
    """The drafter's proposal, cut to what can be verified.

    A drafter that fails costs a plain step, never the request.
    """
    if drafter is None or limit < 1:
        return Draft((), "none")
    try:
        return _usable(drafter.propose(history, limit), limit, slot.spec, params.greedy)
    except Exception:  # noqa: BLE001 - whatever a drafter does, the request goes on
        _log.exception("The drafter %r failed; going on without it.", drafter.name)
        stats.num_drafter_failures += 1
        return Draft((), drafter.name)


def _usable(draft: Draft, limit: int, spec: ModelSpec, greedy: bool) -> Draft:
    """Cut a draft at `limit` and before anything the target must not be fed.

    A drawn draft keeps a drawn end-of-text as its last token, since leaving it out because of what
    it is would change the law of the output. Greedy verification needs no distributions.
    """
    probs = None if greedy else draft.draft_probs
    draft = _cut(Draft(draft.token_ids, draft.source, probs, draft.strength), limit)
    token_ids = draft.token_ids
    end = next((i for i, token in enumerate(token_ids) if token in spec.eos_ids), len(token_ids))
    if draft.draft_probs is None:
        unknown = (i for i, token in enumerate(token_ids) if not 0 <= token < spec.vocab_size)
        return _cut(draft, min(end, next(unknown, end)))
    shape = (len(token_ids), spec.vocab_size)
    if draft.draft_probs.shape != shape or not np.isfinite(draft.draft_probs).all():
        raise ValueError(f"draft_probs must be finite and of shape {shape}")
    if any(not 0 <= token < spec.vocab_size for token in token_ids):
        raise ValueError("a drawn token is outside the vocabulary")
    return _cut(draft, end + 1)


def _cut(draft: Draft, length: int) -> Draft:
    if length >= len(draft.token_ids):
        return draft
    probs = None if draft.draft_probs is None else draft.draft_probs[:length]
    return Draft(draft.token_ids[:length], draft.source, probs, draft.strength)


def _count(stats: DecodeStats, step: Step, ms: float) -> None:
    if stats.num_passes == 0:
        stats.prefill_ms = ms  # the first pass is the prompt's last chunk
    else:
        stats.decode_ms += ms
    stats.num_passes += 1
    stats.num_tokens += len(step.token_ids)
    if step.source is not None:
        counts = stats.sources.setdefault(step.source, {"proposed": 0, "accepted": 0})
        counts["proposed"] += step.num_proposed
        counts["accepted"] += step.num_accepted


def common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """How many leading tokens two sequences share."""
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return index
    return min(len(left), len(right))
