"""The decoding loop on a fake model: KV rows, faults, cancellation, counters."""

from __future__ import annotations

import itertools
import logging

import pytest

from lsp_server.cancellation import CancelToken
from lsp_server.engine import rows as rows_module
from lsp_server.engine.controller import MAX_DRAFT
from lsp_server.engine.decode import decode
from lsp_server.engine.prefill import PREFILL_CHUNK
from lsp_server.engine.prefix import common_prefix
from lsp_server.engine.types import DecodeParams, DecodeStats
from lsp_server.errors import Cancelled, InferenceError
from tests.decoding import GREEDY, PROMPT, SAMPLING, collect, fixed, plain, run, tokens
from tests.fake_model import (
    EOS,
    KINDS,
    AdversarialDrafter,
    FakeModel,
    FakeSlot,
)

# KV rows


@pytest.mark.parametrize("accepted", range(5))
def test_a_pass_keeps_the_fresh_token_and_the_accepted_ones(accepted):
    """L = 10 committed tokens of which 9 have rows, 4 drafted: 9 -> 10 + accepted rows."""
    model = FakeModel()
    prompt = list(range(1, 11))
    expected = plain(model, prompt)
    kind = "wrong_at" if accepted < 4 else "right"
    drafter = AdversarialDrafter([*prompt, *expected], kind, wrong_at=accepted)
    slot = FakeSlot(model)
    slot.forward(prompt[:9], [8])
    slot.commit(9)
    step = next(decode(slot, prompt, GREEDY, drafter=drafter, controller=fixed(4)))
    assert step.num_accepted == accepted
    assert slot.passes[-1].committed == 9
    assert len(slot.token_ids) == 10 + accepted


@pytest.mark.parametrize("count", [1, 2, PREFILL_CHUNK, PREFILL_CHUNK + 1, 2 * PREFILL_CHUNK + 1])
def test_a_prompt_is_fed_in_chunks_each_token_once(count):
    slot = FakeSlot(FakeModel())
    prompt = [1 + i % 9 for i in range(count)]
    next(decode(slot, prompt, GREEDY))
    fed = [token for done in slot.passes for token in done.token_ids]
    assert fed == prompt
    assert all(len(done.token_ids) <= PREFILL_CHUNK for done in slot.passes)
    assert all(len(done.logit_rows) == 1 for done in slot.passes)


def test_a_second_request_feeds_only_what_changed():
    slot = FakeSlot(FakeModel())
    prompt = [1 + i % 9 for i in range(60)]
    next(decode(slot, prompt, GREEDY))
    stats = DecodeStats()
    typed = [*prompt, 3]
    before = len(slot.passes)
    next(decode(slot, typed, GREEDY, stats=stats))
    assert (stats.prompt_tokens, stats.reused_tokens) == (61, 60)
    assert [done.token_ids for done in slot.passes[before:]] == [(3,)]


def test_asking_again_feeds_the_last_token_again_since_its_logits_are_gone():
    slot = FakeSlot(FakeModel())
    first = run(slot)
    stats = DecodeStats()
    assert run(slot, stats=stats) == first
    assert stats.reused_tokens == len(PROMPT) - 1


def test_an_edit_in_the_middle_forgets_what_follows_it():
    model = FakeModel()
    slot = FakeSlot(model)
    run(slot)
    edited = [*PROMPT[:2], 9, *PROMPT[3:]]
    assert tokens(run(slot, edited)) == plain(model, edited)


def test_strict_never_uses_a_row_of_a_pass_of_width_one():
    model = FakeModel(width_sensitive=True)
    strict = DecodeParams(max_new_tokens=12, strict=True)
    expected = plain(model, params=strict)
    slot = FakeSlot(model)
    default = run(slot)  # one token a pass: rows with other bits
    assert any(done.width == 1 for done in slot.passes)
    assert tokens(default) != expected  # the fake makes the difference loud
    for prompt_tail in ([], default[0].token_ids):
        prompt = [*PROMPT, *prompt_tail]
        assert tokens(run(slot, prompt, strict)) == plain(model, prompt, strict)
        assert not any(narrow for _, narrow in slot.rows)
        run(slot, prompt)


@pytest.mark.parametrize("count", [1, 2, PREFILL_CHUNK, PREFILL_CHUNK + 1, 2 * PREFILL_CHUNK + 1])
def test_strict_output_is_the_same_at_every_prompt_length_and_after_every_edit(count):
    model = FakeModel(width_sensitive=True)
    params = DecodeParams(max_new_tokens=10, strict=True)
    prompt = [1 + i % 9 for i in range(count)]
    expected = plain(model, prompt, params)
    drafter = AdversarialDrafter([*prompt, *expected], "alternating")
    slot = FakeSlot(model)
    for text in (prompt, [*prompt, 3], prompt, [*prompt[:-1], 7], prompt):
        found = tokens(run(slot, text, params, drafter=drafter, controller=fixed(3)))
        assert found == plain(model, text, params)
    assert all(done.width >= 2 for done in slot.passes)


# Faults


def test_a_failing_drafter_costs_plain_steps_is_counted_and_logged(caplog):
    model, stats = FakeModel(), DecodeStats()
    drafter = AdversarialDrafter([], "raising")
    with caplog.at_level(logging.ERROR):
        steps = run(FakeSlot(model), drafter=drafter, stats=stats)
    assert tokens(steps) == plain(model)
    assert stats.num_drafter_failures == len(drafter.calls) == GREEDY.max_new_tokens - 1
    assert "'adversary' failed" in caplog.text
    assert stats.sources == {}


@pytest.mark.parametrize("params", [GREEDY, SAMPLING], ids=["greedy", "sampling"])
@pytest.mark.parametrize("nan_at", [5, 6, 9])
def test_a_row_of_no_numbers_is_an_error_and_the_next_request_starts_afresh(nan_at, params):
    model = FakeModel(nan_from=nan_at)
    slot = FakeSlot(model)
    emitted: list[int] = []
    with pytest.raises(InferenceError, match="not numbers"):
        collect(decode(slot, PROMPT, params), emitted)
    assert emitted == plain(FakeModel(), params=params)[: nan_at - 5]
    assert slot.token_ids == []
    model.nan_from = None
    assert tokens(run(slot, params=params)) == plain(FakeModel(), params=params)


def test_rows_behind_a_rejection_may_be_no_numbers():
    model = FakeModel()
    expected = plain(model)
    slot = FakeSlot(model)
    drafter = AdversarialDrafter([*PROMPT, *expected], "wrong_at", wrong_at=1)
    poisoned = FakeModel(nan_from=len(PROMPT) + 3)
    slot.model = poisoned
    step = next(decode(slot, PROMPT, GREEDY, drafter=drafter, controller=fixed(4)))
    assert list(step.token_ids) == expected[:2]


# Cancellation


@pytest.mark.parametrize("when", range(1, 8))
@pytest.mark.parametrize("kind", ["right", "alternating", "wrong"])
def test_after_a_cancelled_pass_the_slot_answers_as_a_fresh_one(when, kind):
    model = FakeModel()
    prompt = [1 + i % 9 for i in range(2 * PREFILL_CHUNK + 5)]
    params = DecodeParams(max_new_tokens=60)
    expected = plain(model, prompt, params)
    slot, token = FakeSlot(model), CancelToken()
    slot.during_pass = lambda count: token.cancel("superseded") if count == when else None
    drafter = AdversarialDrafter([*prompt, *expected], kind)
    emitted: list[int] = []
    with pytest.raises(Cancelled, match="superseded"):
        collect(decode(slot, prompt, params, drafter=drafter, cancel=token), emitted)
    assert len(slot.passes) == when
    known = [*prompt, *expected]
    assert emitted == expected[: len(emitted)]
    assert slot.token_ids == known[: len(slot.token_ids)]
    if when > 1:
        assert len(slot.token_ids) >= min(PREFILL_CHUNK, len(prompt))
    slot.during_pass = lambda count: None
    assert tokens(run(slot, prompt, params)) == expected


def test_a_cancelled_request_runs_no_pass_at_all():
    slot, token = FakeSlot(FakeModel()), CancelToken()
    token.cancel("deadline")
    with pytest.raises(Cancelled, match="deadline"):
        run(slot, cancel=token)
    assert slot.passes == []


def test_a_request_cancelled_while_a_draft_is_made_ends_there_and_is_no_drafter_failure():
    model, token, stats = FakeModel(), CancelToken(), DecodeStats()
    slot = FakeSlot(model)

    class Slow:
        name = "slow"

        def propose(self, token_ids, limit, cancel=None):
            token.cancel("superseded")
            cancel.raise_if_cancelled()

    with pytest.raises(Cancelled, match="superseded"):
        run(slot, drafter=Slow(), cancel=token, stats=stats)
    assert stats.num_drafter_failures == 0
    assert tokens(run(slot)) == plain(model)


def test_closing_the_generator_leaves_the_slot_valid():
    model = FakeModel()
    expected = plain(model)
    slot = FakeSlot(model)
    steps = decode(slot, PROMPT, GREEDY, drafter=AdversarialDrafter([*PROMPT, *expected]))
    next(steps)
    steps.close()
    assert tokens(run(slot)) == expected


# Slots


def test_two_slots_interleaved_do_not_disturb_each_other():
    model = FakeModel()
    prompts = {"a": PROMPT, "b": [2, 7, 1, 8]}
    running = {key: decode(model.slot(key), prompt, GREEDY) for key, prompt in prompts.items()}
    found = {key: [] for key in prompts}
    for _ in range(GREEDY.max_new_tokens):
        for key, steps in running.items():
            found[key] += next(steps).token_ids
    assert found == {key: plain(model, prompt) for key, prompt in prompts.items()}


# Accounting


@pytest.mark.parametrize("params", [GREEDY, SAMPLING], ids=["greedy", "sampling"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("eos_at", [4, 11, None])
def test_the_counters_add_up(kind, params, eos_at):
    forced = {} if eos_at is None else {len(PROMPT) + eos_at: EOS}
    model = FakeModel(forced=forced)
    expected = plain(model, params=params)
    drafter = AdversarialDrafter([*PROMPT, *expected, *[9] * 9], kind, wrong_at=1)
    slot, stats = FakeSlot(model), DecodeStats()
    ticks = itertools.count()
    steps = run(slot, params=params, drafter=drafter, stats=stats, clock=lambda: next(ticks))
    assert stats.num_tokens == len(expected) == len(tokens(steps))
    assert stats.num_passes == len(steps) == len(slot.passes)
    assert all(0 <= step.num_accepted <= step.num_proposed for step in steps)
    assert all((step.source is None) == (step.num_proposed == 0) for step in steps)
    for step in steps:
        assert len(step.token_ids) == step.num_accepted + (step.finish != "eos")
    proposed = sum(step.num_proposed for step in steps)
    accepted = sum(step.num_accepted for step in steps)
    if proposed:
        assert stats.sources == {"adversary": {"proposed": proposed, "accepted": accepted}}
    else:
        assert stats.sources == {}
    drafted_at, accepted_at = (
        at.get("adversary", []) for at in (stats.drafted_at, stats.accepted_at)
    )
    assert (sum(drafted_at), sum(accepted_at)) == (proposed, accepted)
    for position, num_drafts in enumerate(drafted_at):
        assert num_drafts == sum(step.num_proposed > position for step in steps)
    for position, num_drafts in enumerate(accepted_at):
        assert num_drafts == sum(step.num_accepted > position for step in steps)
    fed = sum(len(done.token_ids) for done in slot.passes)
    assert fed == len(PROMPT) + len(steps) - 1 + proposed
    assert sum(slot.commits) == len(slot.token_ids)
    assert stats.prefill_ms + stats.decode_ms == 1000 * len(steps)
    assert [step.finish for step in steps[:-1]] == [None] * (len(steps) - 1)
    assert steps[-1].finish == ("length" if eos_at is None else "eos")


def test_time_spent_by_the_reader_is_not_counted():
    now = [0.0]
    slot, stats = FakeSlot(FakeModel()), DecodeStats()

    def tick(count: int) -> None:
        now[0] += 1.0

    slot.during_pass = tick
    for _ in decode(slot, PROMPT, GREEDY, stats=stats, clock=lambda: now[0]):
        now[0] += 100.0
    assert stats.prefill_ms == 1000
    assert stats.decode_ms == 1000 * (GREEDY.max_new_tokens - 1)


def test_the_controller_hears_of_whole_rounds_only():
    """Not of one that the end of text or the limit has cut."""
    for forced, finish in (({}, "length"), ({len(PROMPT) + 7: EOS}, "eos")):
        model = FakeModel(forced=forced)
        controller = fixed(3)
        drafter = AdversarialDrafter([*PROMPT, *plain(model), 9, 9, 9, 9])
        steps = run(FakeSlot(model), drafter=drafter, controller=controller)
        assert steps[-1].finish == finish
        assert [emitted for _, emitted in controller.observed] == [
            step.token_ids for step in steps[:-1]
        ]


def test_the_controller_does_not_hear_of_a_cancelled_round():
    model, controller, token = FakeModel(), fixed(3), CancelToken()
    slot = FakeSlot(model)
    slot.during_pass = lambda count: token.cancel() if count == 3 else None
    drafter = AdversarialDrafter([*PROMPT, *plain(model)])
    with pytest.raises(Cancelled):
        run(slot, drafter=drafter, controller=controller, cancel=token)
    assert len(controller.observed) == 2


def test_the_controller_hears_of_the_whole_draft_also_of_what_was_not_verified():
    model, controller = FakeModel(), fixed(0)
    expected = plain(model)
    run(FakeSlot(model), drafter=AdversarialDrafter([*PROMPT, *expected]), controller=controller)
    draft, emitted = controller.observed[0]
    assert draft.token_ids == tuple(expected[:MAX_DRAFT])
    assert emitted == tuple(expected[:1])


def test_a_plain_step_asks_for_no_more_randomness_with_a_drafter_than_without(monkeypatch):
    asked: list[int] = []
    real = rows_module.position_rng

    def recorded(seed, position):
        asked.append(position)
        return real(seed, position)

    monkeypatch.setattr(rows_module, "position_rng", recorded)
    model = FakeModel()
    plain(model, params=SAMPLING)
    without, asked[:] = list(asked), []
    run(FakeSlot(model), params=SAMPLING, drafter=AdversarialDrafter([], "empty"))
    assert asked == without


@pytest.mark.parametrize(
    ("left", "right", "shared"),
    [([], [], 0), ([1], [], 0), ([1, 2], [1, 2], 2), ([1, 2, 3], [1, 9, 3], 1), ([2], [1], 0)],
)
def test_common_prefix_counts_leading_equal_tokens(left, right, shared):
    assert common_prefix(left, right) == common_prefix(right, left) == shared
