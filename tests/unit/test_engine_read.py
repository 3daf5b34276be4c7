"""Reading a prompt ahead of the request: it changes nothing but the time."""

from __future__ import annotations

import dataclasses
from itertools import count

import pytest

from lsp_server.cancellation import CancelToken
from lsp_server.engine.prefill import LEAST_CHUNK, PREFILL_CHUNK, read
from lsp_server.errors import Cancelled
from tests.decoding import GREEDY, plain, run, tokens
from tests.fake_model import FakeModel, FakeSlot

LONG = [1 + i % 9 for i in range(2000)]


def roomy(**more) -> FakeModel:
    return FakeModel(capacity=4096, **more)


@pytest.mark.parametrize("length", [1, 2, 5, PREFILL_CHUNK, PREFILL_CHUNK + 1, 300])
@pytest.mark.parametrize("strict", [False, True])
def test_the_first_pass_of_the_request_then_feeds_the_last_token_only(length, strict):
    model, slot = roomy(width_sensitive=True), FakeSlot(roomy(width_sensitive=True))
    prompt, params = LONG[:length], dataclasses.replace(GREEDY, strict=strict)
    read(slot, prompt, strict)
    assert slot.token_ids == prompt[:-1]
    num_passes = len(slot.passes)
    output = tokens(run(slot, prompt, params))
    assert slot.passes[num_passes].token_ids == (prompt[-1],)
    if strict:
        assert output == plain(model, prompt, params)


def test_what_is_typed_behind_it_is_all_that_is_left_to_read():
    slot = FakeSlot(roomy())
    read(slot, LONG, strict=False)
    num_passes = len(slot.passes)
    output = tokens(run(slot, [*LONG, 3, 4]))
    assert slot.passes[num_passes].token_ids == (LONG[-1], 3, 4)
    assert output == plain(roomy(), [*LONG, 3, 4])


@pytest.mark.parametrize("when", [1, 2, 9, 16])
def test_cancelled_in_a_prompt_of_two_thousand_tokens_no_further_pass_is_run(when):
    slot, token = FakeSlot(roomy()), CancelToken()
    slot.during_pass = lambda count: token.cancel("superseded") if count == when else None
    with pytest.raises(Cancelled, match="superseded"):
        read(slot, LONG, strict=False, cancel=token)
    assert len(slot.passes) == when
    assert len(slot.token_ids) == (when - 1) * PREFILL_CHUNK, "what was read stays read"
    slot.during_pass = lambda count: None
    assert tokens(run(slot, LONG)) == plain(roomy(), LONG)


@pytest.mark.parametrize("reads", ["read", "decode"])
@pytest.mark.parametrize("most", [LEAST_CHUNK, 24, PREFILL_CHUNK - 1])
def test_keys_that_come_faster_than_a_wide_pass_do_not_keep_a_prompt_from_being_read(reads, most):
    """Each attempt is cancelled in the first pass that is wider than the time between two keys."""
    slot, prompt = FakeSlot(roomy()), LONG[:600]
    for attempt in count(1):
        prompt = [*prompt, 1 + attempt % 9]
        token = CancelToken()

        def too_slow(num_passes, token=token):
            if len(slot.passes[-1].token_ids) > most:
                token.cancel("superseded")

        slot.during_pass = too_slow
        try:
            if reads == "read":
                read(slot, prompt, strict=False, cancel=token)
            else:
                run(slot, prompt, cancel=token)
            break
        except Cancelled:
            assert attempt < 60, "it is read at last"
    assert attempt > 1, "some pass is too wide at first"
    slot.during_pass = lambda count: None
    assert tokens(run(slot, prompt)) == plain(roomy(), prompt)


def test_passes_are_wide_again_once_they_are_not_cut_short():
    slot = FakeSlot(roomy())
    slot.chunk = LEAST_CHUNK
    read(slot, LONG[:600], strict=False)
    widths = [len(done.token_ids) for done in slot.passes]
    assert widths[:4] == [LEAST_CHUNK, 2 * LEAST_CHUNK, 4 * LEAST_CHUNK, PREFILL_CHUNK]
    assert slot.chunk == PREFILL_CHUNK


def test_a_cancelled_pass_of_few_tokens_makes_no_later_one_narrow():
    slot, token = FakeSlot(roomy()), CancelToken()
    read(slot, LONG[:300], strict=False)
    slot.during_pass = lambda count: token.cancel("superseded")
    with pytest.raises(Cancelled):
        run(slot, LONG[:302], cancel=token)
    assert slot.chunk == PREFILL_CHUNK


def test_reading_again_runs_no_pass_and_forgets_nothing():
    slot = FakeSlot(roomy())
    run(slot, LONG[:300])
    num_passes, known = len(slot.passes), slot.token_ids
    assert len(known) > 300
    read(slot, LONG[:300], strict=False)
    assert (len(slot.passes), slot.token_ids) == (num_passes, known)
