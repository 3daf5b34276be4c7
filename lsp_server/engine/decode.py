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
from lsp_server.engine.prefill import prefill, reading
from lsp_server.engine.rows import TargetRows
from lsp_server.engine.types import ROOT, DecodeParams, DecodeStats, Draft, Drafter, Slot, Step
from lsp_server.engine.verify import Verdict, matching, rejection, verify
from lsp_server.errors import Cancelled, InferenceError

if TYPE_CHECKING:
    from lsp_server.engine.types import ModelSpec

_log = logging.getLogger(__name__)

MAX_TREE = 24
"""Tokens of a tree at most: a pass that wide costs several plain ones on any machine."""


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
    prefill(slot, history, params.strict, stats, cancel)
    emitted = 0
    while True:
        remaining = min(params.max_new_tokens - emitted, slot.spec.context_length - len(history))
        if remaining < 1:
            return
        limit = min(remaining - 1, MAX_DRAFT)
        draft = _propose(drafter, history, limit, slot, params, stats, cancel)
        draft = _without_barred(draft, history[len(prompt_ids) :], params)
        step = _round(slot, history, draft, controller, params, emitted, cancel)
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


def _round(
    slot: Slot,
    history: Sequence[int],
    draft: Draft,
    controller: Controller | None,
    params: DecodeParams,
    num_new: int,
    cancel: CancelToken | None,
) -> Step:
    """One pass: fresh tokens and the part of the draft that pays, verified and committed.

    The last `num_new` tokens of the history are this generation's own.
    """
    fresh = list(history[len(slot.token_ids) :])
    num_fresh = len(fresh)
    proposed = draft
    if controller is not None and draft.draft_probs is None:
        proposed = controller.cut(draft, num_fresh, strict=params.strict)
    with reading(slot, num_fresh):
        logits = slot.forward(
            fresh + list(proposed.token_ids),
            range(num_fresh - 1, num_fresh + len(proposed.token_ids)),
            parents=_parents(proposed, num_fresh),
            strict=params.strict,
            cancel=cancel,
        )
    rows = TargetRows(logits, history, proposed, params, num_new, slot.spec.eos_ids)
    try:
        verdict = _verify(rows, proposed)
    except InferenceError:
        slot.truncate(0)  # the cause may be in its rows: the next request starts afresh
        raise
    tokens = (*(proposed.token_ids[node] for node in verdict.path), verdict.next_token)
    end = next((i for i, token in enumerate(tokens) if token in slot.spec.eos_ids), None)
    path = verdict.path if end is None else verdict.path[:end]
    if proposed.is_tree:
        slot.commit(num_fresh, [num_fresh + node for node in path])
    else:
        slot.commit(num_fresh + len(path))
    tokens = tokens if end is None else tokens[:end]
    behind = (0, *(node + 1 for node in path))
    return Step(
        token_ids=tokens,
        source=proposed.source if proposed.token_ids else None,
        num_proposed=len(proposed.token_ids),
        num_accepted=len(path),
        finish=None if end is None else "eos",
        depth=proposed.depth,
        choices=tuple(map(rows.choice, behind, tokens)) if params.with_choices else (),
    )


def _parents(draft: Draft, num_fresh: int) -> list[int] | None:
    """Of all tokens of a pass: the fresh ones are a chain, and the draft's roots follow its end."""
    if draft.parents is None or not draft.is_tree:
        return None
    return [*range(-1, num_fresh - 1), *(num_fresh + parent for parent in draft.parents)]


def _verify(rows: TargetRows, draft: Draft) -> Verdict:
    if draft.draft_probs is None:
        return verify(draft, matching(draft, rows.token))
    return verify(draft, rejection(draft, rows.probs, rows.rng))


def _propose(
    drafter: Drafter | None,
    history: Sequence[int],
    limit: int,
    slot: Slot,
    params: DecodeParams,
    stats: DecodeStats,
    cancel: CancelToken | None,
) -> Draft:
    """The drafter's proposal, cut to what can be verified.

    A drafter that fails costs a plain step, never the request.
    """
    if drafter is None or limit < 1:
        return Draft((), "none")
    try:
        draft = drafter.propose(history, limit, cancel)
        exact = slot.spec.tree_rows_exact or not params.strict
        if not exact or not slot.token_ids:  # a first pass reads no positions of its own
            draft = draft.first_path()
        room = slot.spec.context_length - len(history)
        return _usable(draft, limit, min(room, MAX_TREE), slot.spec, params.greedy)
    except Cancelled:
        raise
    except Exception:  # noqa: BLE001 - whatever a drafter does, the request goes on
        _log.exception("The drafter %r failed; going on without it.", drafter.name)
        stats.num_drafter_failures += 1
        return Draft((), drafter.name)


def _usable(draft: Draft, limit: int, room: int, spec: ModelSpec, greedy: bool) -> Draft:
    """Cut a draft at `limit` tokens of depth, `room` in all, and before what must not be fed.

    A drawn draft keeps a drawn end-of-text as its last token, since leaving it out because of what
    it is would change the law of the output. Greedy verification needs no distributions.
    """
    if greedy and draft.draft_probs is not None:
        draft = dataclasses.replace(draft, draft_probs=None)
    if draft.draft_probs is not None:
        return _usable_drawn(draft, limit, spec)
    if draft.parents is None:
        ends = (i for i, token in enumerate(draft.token_ids) if not _is_known(token, spec))
        return draft.select(range(min(next(ends, len(draft.token_ids)), limit, room)))
    kept: set[int] = {ROOT}
    for node, (token, depth) in enumerate(zip(draft.token_ids, draft.depths, strict=True)):
        if _is_known(token, spec) and depth <= limit and draft.parents[node] in kept:
            kept.add(node)
    return draft.select(sorted(kept - {ROOT})[:room])


def _without_barred(draft: Draft, new_ids: Sequence[int], params: DecodeParams) -> Draft:
    """Without what the constraint bars, which could not be accepted. A drawn draft stays whole."""
    constraint = params.constraint
    if constraint is None or draft.draft_probs is not None or constraint.allowed(new_ids) is None:
        return draft
    kept = {ROOT}
    for node, token in enumerate(draft.token_ids):
        *above, _ = (ROOT, *draft.path(node))
        allowed = constraint.allowed([*new_ids, *(draft.token_ids[i] for i in above[1:])])
        if above[-1] in kept and (allowed is None or token in allowed):
            kept.add(node)
    return draft.select(sorted(kept - {ROOT}))


def _is_known(token: int, spec: ModelSpec) -> bool:
    return 0 <= token < spec.vocab_size and token not in spec.eos_ids


def _usable_drawn(draft: Draft, limit: int, spec: ModelSpec) -> Draft:
    if draft.parents is not None:
        raise ValueError("only chains may have draft_probs")
    shape = (len(draft.token_ids), spec.vocab_size)
    if draft.draft_probs is None or draft.draft_probs.shape != shape:
        raise ValueError(f"draft_probs must have the shape {shape}")
    if not np.isfinite(draft.draft_probs).all():
        raise ValueError("draft_probs must be finite")
    if any(not 0 <= token < spec.vocab_size for token in draft.token_ids):
        raise ValueError("a drawn token is outside the vocabulary")
    token_ids = draft.token_ids[:limit]
    end = next((i for i, token in enumerate(token_ids) if token in spec.eos_ids), len(token_ids))
    return draft.select(range(min(end + 1, len(token_ids))))


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
        _count_positions(stats.drafted_at.setdefault(step.source, []), step.depth)
        _count_positions(stats.accepted_at.setdefault(step.source, []), step.num_accepted)


def _count_positions(counts: list[int], depth: int) -> None:
    """One draft more at each position down to `depth`."""
    counts.extend([0] * (depth - len(counts)))
    for position in range(depth):
        counts[position] += 1
