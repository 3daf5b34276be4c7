"""The decoding loop on a fake model: the output does not depend on drafts, and every end."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from lsp_server.engine.controller import MAX_DRAFT
from lsp_server.engine.drafters.prompt_lookup import PromptLookup
from lsp_server.engine.sampling import process
from lsp_server.engine.types import DecodeParams, DecodeStats, Draft
from lsp_server.errors import InferenceError
from tests.decoding import GREEDY, PROMPT, SAMPLING, fixed, plain, run, tokens
from tests.fake_model import (
    EOS,
    KINDS,
    VOCAB,
    AdversarialDrafter,
    FakeModel,
    FakeSlot,
)

# The output does not depend on the drafts


@pytest.mark.parametrize("params", [GREEDY, SAMPLING], ids=["greedy", "sampling"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", range(1, 9))
def test_the_output_is_that_of_plain_decoding_whatever_is_drafted(kind, length, params):
    model = FakeModel()
    expected = plain(model, params=params)
    for wrong_at in {0, length // 2, length - 1}:
        drafter = AdversarialDrafter([*PROMPT, *expected], kind, wrong_at)
        slot = FakeSlot(model)
        steps = run(slot, params=params, drafter=drafter, controller=fixed(length))
        assert tokens(steps) == expected
        assert slot.token_ids == [*PROMPT, *expected][: len(slot.token_ids)]


@pytest.mark.parametrize("params", [GREEDY, SAMPLING], ids=["greedy", "sampling"])
def test_penalties_see_the_drafted_tokens_before_each_row(params):
    model = FakeModel(order=1, sharpness=1.0)
    params = DecodeParams(
        max_new_tokens=40,
        temperature=params.temperature,
        seed=3,
        repetition_penalty=1.3,
        frequency_penalty=0.4,
        presence_penalty=0.2,
        top_p=0.95,
        logit_bias=((2, 1.0),),
    )
    expected = plain(model, params=params)
    for kind in ("right", "alternating"):
        drafter = AdversarialDrafter([*PROMPT, *expected], kind)
        assert tokens(run(FakeSlot(model), params=params, drafter=drafter)) == expected


@pytest.mark.parametrize("seed", range(5))
def test_a_seed_gives_the_same_text_with_lookup_as_without(seed):
    model = FakeModel(order=2, sharpness=2.0)
    params = DecodeParams(max_new_tokens=60, temperature=0.8, seed=seed, top_p=0.9)
    stats = DecodeStats()
    steps = run(FakeSlot(model), params=params, drafter=PromptLookup(), stats=stats)
    assert tokens(steps) == plain(model, params=params)
    assert stats.sources["lookup"]["accepted"] > 0


def test_different_seeds_give_different_texts():
    texts = {
        tuple(plain(FakeModel(), params=DecodeParams(temperature=1.0, seed=s))) for s in range(5)
    }
    assert len(texts) == 5


def test_a_right_draft_is_accepted_whole_and_brings_one_token_more():
    model = FakeModel()
    params = DecodeParams(max_new_tokens=18)
    drafter = AdversarialDrafter([*PROMPT, *plain(model, params=params)])
    steps = run(FakeSlot(model), params=params, drafter=drafter)
    assert [len(step.token_ids) for step in steps] == [9, 9]
    assert [(step.num_proposed, step.num_accepted) for step in steps] == [(8, 8), (8, 8)]


def test_a_draft_drawn_from_the_target_itself_is_always_accepted():
    model = FakeModel(sharpness=1.0)
    params = DecodeParams(max_new_tokens=40, temperature=1.0)
    drafter = _drawing_from(model, seed=5)
    steps = run(FakeSlot(model), params=params, drafter=drafter, controller=fixed(8))
    assert sum(step.num_proposed for step in steps) > 20
    assert all(step.num_accepted == step.num_proposed for step in steps)


class _Drawing:
    name = "drawing"

    def __init__(self, probs_behind, seed: int, length: int = MAX_DRAFT) -> None:
        self.probs_behind = probs_behind
        self.rng = np.random.default_rng(seed)
        self.length = length

    def propose(self, token_ids, limit, cancel=None):
        drawn: list[int] = []
        rows = []
        for _ in range(min(limit, self.length)):
            rows.append(self.probs_behind((*token_ids, *drawn)))
            drawn.append(int(self.rng.choice(len(rows[-1]), p=rows[-1])))
        probs = np.array(rows) if rows else np.zeros((0, VOCAB))
        return Draft(tuple(drawn), self.name, probs)


def _drawing_from(model: FakeModel, seed: int) -> _Drawing:
    params = DecodeParams(temperature=1.0)

    def probs_behind(prefix):
        rows = [(token, False) for token in prefix]
        return process(model.logits(rows), params, prefix)

    return _Drawing(probs_behind, seed)


def test_a_drawn_draft_is_verified_whole_since_cutting_by_what_it_is_changes_the_law():
    model = FakeModel(sharpness=1.0)
    drafter = _drawing_from(model, seed=5)
    steps = run(FakeSlot(model), params=SAMPLING, drafter=drafter, controller=fixed(2))
    assert steps[0].num_proposed == MAX_DRAFT


@pytest.mark.parametrize(
    "spoil",
    [
        lambda probs: probs[:-1],
        lambda probs: probs[:, :-1],
        lambda probs: np.full_like(probs, np.nan),
        lambda probs: "not an array",
    ],
    ids=["rows", "vocabulary", "NaN", "type"],
)
def test_unusable_draft_probabilities_cost_a_plain_step_and_are_counted(spoil):
    model = FakeModel(sharpness=1.0)
    inner = _drawing_from(model, seed=5)

    class Spoiled:
        name = "spoiled"

        def propose(self, token_ids, limit, cancel=None):
            draft = inner.propose(token_ids, limit)
            return Draft(draft.token_ids, "spoiled", spoil(draft.draft_probs))

    stats = DecodeStats()
    steps = run(FakeSlot(model), params=SAMPLING, drafter=Spoiled(), stats=stats)
    assert tokens(steps) == plain(model, params=SAMPLING)
    assert stats.num_drafter_failures == len(steps) - 1  # the last token is not drafted for


def test_greedy_decoding_ignores_draft_probabilities():
    model = FakeModel()
    drafter = _drawing_from(model, seed=1)
    assert tokens(run(FakeSlot(model), drafter=drafter)) == plain(model)


# Ends


def _ends(model: FakeModel, max_new_tokens: int, params: DecodeParams, **more):
    steps = run(FakeSlot(model), params=params, **more)
    return tokens(steps), steps[-1].finish


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("draft_length", [1, 2, 3, 8])
def test_every_end_is_where_plain_decoding_ends(draft_length, temperature):
    for eos_at, max_new_tokens in itertools.product(range(8), range(1, 8)):
        model = FakeModel(forced={len(PROMPT) + eos_at: EOS})
        params = DecodeParams(max_new_tokens=max_new_tokens, temperature=temperature, seed=2)
        expected = _ends(model, max_new_tokens, params)
        assert expected[1] == ("eos" if eos_at < max_new_tokens else "length")
        assert len(expected[0]) == min(eos_at, max_new_tokens)
        # A drafter that knows what would come if the text did not end, and one that knows the end.
        beyond = plain(FakeModel(), params=DecodeParams(max_new_tokens=20))
        for right in ([*PROMPT, *expected[0], 9, 9, 9], [*PROMPT, *expected[0], EOS, 9], beyond):
            drafter = AdversarialDrafter(right)
            found = _ends(
                model, max_new_tokens, params, drafter=drafter, controller=fixed(draft_length)
            )
            assert found == expected


def test_an_end_inside_what_the_draft_knows_discards_what_follows():
    model = FakeModel(forced={len(PROMPT): 7, len(PROMPT) + 1: EOS, len(PROMPT) + 2: 9})
    drafter = AdversarialDrafter([*PROMPT, 7, EOS, 9])
    slot, stats = FakeSlot(model), DecodeStats()
    steps = run(slot, drafter=drafter, stats=stats)
    assert [step.token_ids for step in steps] == [(7,)]
    assert steps[0].finish == "eos"
    assert slot.token_ids == [*PROMPT, 7]
    assert stats.num_tokens == 1
    assert stats.sources == {"adversary": {"proposed": 1, "accepted": 1}}


def test_an_end_at_once_gives_one_empty_step():
    steps = run(FakeSlot(FakeModel(forced={len(PROMPT): EOS})))
    assert [(step.token_ids, step.finish) for step in steps] == [((), "eos")]


def test_the_end_of_text_comes_before_the_limit_of_tokens():
    forced = {len(PROMPT) + i: token for i, token in enumerate([10, 11, EOS, 12, 13])}
    model = FakeModel(forced=forced)
    drafter = AdversarialDrafter([*PROMPT, 10, 11, EOS, 12, 13])
    found = _ends(model, 5, DecodeParams(max_new_tokens=5), drafter=drafter)
    assert found == ([10, 11], "eos")


def test_every_token_of_a_set_of_ends_ends():
    model = FakeModel(eos_ids=frozenset({EOS, 9}), forced={len(PROMPT) + 2: 9})
    expected = _ends(model, 5, GREEDY)
    assert expected[1] == "eos"
    assert (
        _ends(model, 5, GREEDY, drafter=AdversarialDrafter([*PROMPT, *expected[0], 9])) == expected
    )


def test_a_drafted_end_of_text_never_ends_the_request():
    model = FakeModel()
    expected = plain(model)
    drafter = AdversarialDrafter([*PROMPT, *expected], "eos_inside", wrong_at=0)
    steps = run(FakeSlot(model), drafter=drafter)
    assert tokens(steps) == expected
    assert steps[-1].finish == "length"


def test_a_drawn_end_of_text_is_verified_like_any_token():
    model = FakeModel(forced={len(PROMPT) + 1: EOS})

    class DrawsEnd:
        name = "draws-end"

        def propose(self, token_ids, limit, cancel=None):
            right = [*PROMPT, first, EOS, 9, 9][len(token_ids) :]
            return Draft(tuple(right), self.name, np.eye(VOCAB)[right])

    first = plain(model, params=DecodeParams(max_new_tokens=1, temperature=1.0, seed=7))[0]
    slot = FakeSlot(model)
    steps = run(slot, params=SAMPLING, drafter=DrawsEnd())
    assert tokens(steps) == [first]
    assert [(s.num_proposed, s.finish) for s in steps][-1:] == [(2, "eos")]
    assert slot.token_ids == [*PROMPT, first]


@pytest.mark.parametrize("max_new_tokens", [0, -3])
def test_no_tokens_asked_for_is_no_step(max_new_tokens):
    assert run(FakeSlot(FakeModel()), params=DecodeParams(max_new_tokens=max_new_tokens)) == []


@pytest.mark.parametrize("strict", [True, False])
def test_the_end_of_the_slot_ends_with_length_at_the_same_token(strict):
    model = FakeModel(capacity=20)
    params = DecodeParams(max_new_tokens=100, strict=strict)
    expected = _ends(model, 100, params)
    assert expected[1] == "length"
    assert len(PROMPT) + len(expected[0]) == 20
    for kind in ("right", "too_long", "wrong"):
        drafter = AdversarialDrafter([*PROMPT, *expected[0], *[5] * 20], kind)
        assert _ends(model, 100, params, drafter=drafter) == expected


@pytest.mark.parametrize(("length", "fits"), [(19, True), (20, False), (21, False)])
def test_a_prompt_must_leave_room_for_a_token(length, fits):
    slot = FakeSlot(FakeModel(capacity=20))
    if fits:
        assert len(tokens(run(slot, [1] * length))) == 1
    else:
        with pytest.raises(InferenceError, match="lower prompt_tokens"):
            run(slot, [1] * length)


def test_an_empty_prompt_is_an_error_in_words():
    with pytest.raises(InferenceError, match="prompt is empty"):
        run(FakeSlot(FakeModel()), [])


def test_with_one_token_left_nothing_is_drafted():
    drafter = AdversarialDrafter([*PROMPT, *plain(FakeModel())])
    run(FakeSlot(FakeModel()), params=DecodeParams(max_new_tokens=1), drafter=drafter)
    assert drafter.calls == []
