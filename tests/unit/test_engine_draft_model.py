"""Drafts of a model with its own vocabulary and its own cache."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.cancellation import CancelToken
from lsp_server.engine import decode as decode_module
from lsp_server.engine import rows as rows_module
from lsp_server.engine.drafters import growth as growth_module
from lsp_server.engine.drafters.cost import DraftCost
from lsp_server.engine.drafters.draft_model import DraftModel, measure_draft_model
from lsp_server.engine.drafters.growth import Growth, grow
from lsp_server.engine.drafters.vocabulary import DraftVocabulary, read_draft_ids
from lsp_server.engine.types import DecodeParams, DecodeStats
from lsp_server.errors import Cancelled, InferenceError, ModelFilesError
from tests.decoding import GREEDY, PROMPT, SAMPLING, fixed, plain, run, tokens
from tests.exact_law import law_of
from tests.fake_model import EOS, VOCAB, FakeModel, FakeSlot
from tests.lossless import test_law_of_decoding as law

EVERY = Growth(min_probability=0.0)


def drafter_of(model: FakeModel, growth: Growth = EVERY, vocabulary=None, key="a") -> DraftModel:
    whole = DraftVocabulary(model.vocab, model.vocab, num_tokens=model.vocab)
    return DraftModel(model, key, vocabulary or whole, growth=growth)


# The vocabulary


@given(st.data())
def test_columns_come_to_stand_at_their_ids_and_nothing_else_is_possible(data):
    target_size = data.draw(st.integers(2, 40))
    num_tokens = data.draw(st.integers(1, 40))
    ids = sorted(data.draw(st.sets(st.integers(0, 45), min_size=1)))
    logits = np.arange(len(ids), dtype=np.float32)
    expected = {i: c for c, i in enumerate(ids) if i < min(target_size, num_tokens)}
    how = {"num_tokens": num_tokens, "ids": np.array(ids)}
    if not expected:
        with pytest.raises(ModelFilesError):
            DraftVocabulary(len(ids), target_size, **how)
        return
    row = DraftVocabulary(len(ids), target_size, **how).expand(logits)
    assert row.shape == (target_size,)
    assert row.dtype == np.float32
    assert {i: int(v) for i, v in enumerate(row) if v > -np.inf} == expected


@pytest.mark.parametrize(("rows", "target_rows"), [(151_936, 152_064), (152_064, 151_936)])
def test_padding_of_either_vocabulary_is_never_proposed(rows, target_rows):
    num_tokens = 151_665
    logits = np.zeros(rows, np.float32)
    logits[num_tokens:] = 9.0  # no training has made these small
    row = DraftVocabulary(rows, target_rows, num_tokens=num_tokens).expand(logits)
    draft = grow("t", Growth(0.0, width=3), GREEDY, [1], 2, frozenset(), lambda drafted: row)
    assert max(draft.token_ids) < num_tokens
    drawn = grow("t", EVERY, SAMPLING, [1], 2, frozenset(), lambda drafted: row)
    assert drawn.draft_probs.shape == (2, target_rows)
    assert not drawn.draft_probs[:, num_tokens:].any()


def test_a_reduced_vocabulary_gives_probabilities_on_its_ids_only():
    model = FakeModel(sharpness=1.0)
    ids = np.array([0, 3, 5, 11])

    class Reduced(FakeModel):
        def logits(self, rows):
            return super().logits(rows)[ids]

    vocabulary = DraftVocabulary(len(ids), VOCAB, num_tokens=VOCAB, ids=ids)
    drafter = drafter_of(Reduced(sharpness=1.0), vocabulary=vocabulary)
    drafter.set_params(SAMPLING)
    draft = drafter.propose(PROMPT, 4)
    np.testing.assert_allclose(draft.draft_probs.sum(axis=1), 1.0)
    assert set(np.flatnonzero(draft.draft_probs.any(axis=0))) <= set(ids)
    full = np.exp(model.logits([(t, False) for t in PROMPT]).astype(float))[ids]
    np.testing.assert_allclose(draft.draft_probs[0, ids], full / full.sum(), rtol=1e-5)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b"no numpy file"),
        lambda path: np.save(path, np.array([1, 2, 3], np.int32)),
        lambda path: np.save(path, np.array([1, 2], np.int64)),
        lambda path: np.save(path, np.array([2, 1, 3], np.int64)),
        lambda path: np.save(path, np.array([1, 1, 3], np.int64)),
        lambda path: np.save(path, np.array([-1, 1, 3], np.int64)),
        lambda path: np.save(path, np.array([1, 2, 8], np.int64)),
        lambda path: np.save(path, np.array([1, 2, object()]), allow_pickle=True),
    ],
    ids=["absent", "damaged", "dtype", "length", "order", "twice", "negative", "beyond", "pickled"],
)
def test_ids_of_a_reduced_head_that_are_not_as_promised_are_refused(tmp_path, spoil):
    path = tmp_path / "draft_ids.npy"
    np.save(path, np.array([1, 2, 7], np.int64))
    assert list(read_draft_ids(tmp_path, 3, 8)) == [1, 2, 7]
    spoil(path)
    with pytest.raises(ModelFilesError, match=r"draft_ids\.npy"):
        read_draft_ids(tmp_path, 3, 8)


# The draft model's own cache


@pytest.mark.parametrize("limit", range(1, 17))
def test_a_draft_of_the_target_itself_is_always_accepted(monkeypatch, limit):
    monkeypatch.setattr(decode_module, "MAX_DRAFT", limit)
    model, own = FakeModel(), FakeModel()
    params = DecodeParams(max_new_tokens=60)
    steps = run(FakeSlot(model), params=params, drafter=drafter_of(own))
    assert tokens(steps) == plain(model, params=params)
    assert all(step.num_accepted == step.num_proposed for step in steps)
    assert len(steps) == -(-60 // (limit + 1))


def test_after_full_acceptance_the_last_drafted_token_is_fed_before_the_bonus():
    own = FakeModel()
    steps = run(FakeSlot(FakeModel()), drafter=drafter_of(own), controller=fixed(8))
    history = [*PROMPT, *steps[0].token_ids]
    assert steps[0].num_accepted == decode_module.MAX_DRAFT
    caught_up = [done for done in own.slot().passes if done.committed == len(history) - 2]
    assert caught_up[0].token_ids == tuple(history[-2:])


@pytest.mark.parametrize("limit", range(1, 17))
@pytest.mark.parametrize("params", [GREEDY, SAMPLING], ids=["greedy", "sampling"])
def test_after_every_draft_the_cache_is_that_of_the_text_and_the_draft(monkeypatch, limit, params):
    """Whatever was rejected before; and no token is fed twice in a row of acceptances."""
    monkeypatch.setattr(decode_module, "MAX_DRAFT", limit)
    model, own = FakeModel(sharpness=2.0), FakeModel(sharpness=1.0)
    drafter = drafter_of(own)
    drafter.set_params(params)
    proposed = []

    class Watched:
        name = "draft"

        def propose(self, token_ids, limit, cancel=None):
            draft = drafter.propose(token_ids, limit, cancel)
            assert own.slot().token_ids == [*token_ids, *draft.token_ids[:-1]]
            fresh = drafter_of(FakeModel(sharpness=1.0))
            fresh.set_params(params)
            assert draft.token_ids == fresh.propose(token_ids, limit).token_ids
            proposed.append(draft)
            return draft

    run(FakeSlot(model), params=params, drafter=Watched())
    assert proposed


EDITS = st.lists(
    st.tuples(st.integers(0, 40), st.lists(st.integers(1, VOCAB - 1), max_size=4)),
    min_size=1,
    max_size=6,
)


@given(EDITS, st.integers(1, 6))
def test_any_sequence_of_texts_drafts_like_a_fresh_model(edits, limit):
    used, text = drafter_of(FakeModel()), list(PROMPT)
    for keep, more in edits:
        text = [*text[: max(1, keep)], *more]
        fresh = drafter_of(FakeModel())
        assert used.propose(text, limit) == fresh.propose(text, limit)


def test_documents_that_take_the_slot_from_each_other_draft_like_alone():
    model = FakeModel(max_slots=1)
    one, other = drafter_of(model, key="one"), drafter_of(model, key="other")
    alone = drafter_of(FakeModel())
    for end in range(1, 6):
        text, unrelated = PROMPT[:end], [9, 9, *PROMPT[:end]]
        assert one.propose(text, 3) == alone.propose(text, 3)
        assert other.propose(unrelated, 3) == alone.propose(unrelated, 3)


@pytest.mark.parametrize("room", range(-2, 5))
def test_a_text_that_leaves_little_room_gets_a_short_draft_and_one_too_long_none(room):
    model = FakeModel(capacity=40)
    text = [1] * (40 - room)
    assert len(drafter_of(model).propose(text, 3).token_ids) == min(3, max(0, room + 1))


def test_no_text_or_no_limit_is_no_draft():
    drafter = drafter_of(FakeModel())
    assert drafter.propose([], 3).token_ids == ()
    assert drafter.propose(PROMPT, 0).token_ids == ()


@pytest.mark.parametrize("when", [1, 2, 3, 5])
def test_a_cancelled_draft_keeps_what_it_has_read_and_goes_on_from_there(when):
    """A cold cache is filled in pieces: passes 1 to 3 here."""
    model, token = FakeModel(), CancelToken()
    text = [1 + random.Random(i).randrange(9) for i in range(300)]
    slot = model.slot("a")
    slot.during_pass = lambda count: token.cancel("superseded") if count == when else None
    drafter = drafter_of(model)
    with pytest.raises(Cancelled, match="superseded"):
        drafter.propose(text, 4, token)
    assert len(slot.passes) == when
    assert len(slot.token_ids) == min(128 * (when - 1), 300 + max(0, when - 4))
    assert drafter.propose(text, 4) == drafter_of(FakeModel()).propose(text, 4)


@pytest.mark.parametrize("params", [GREEDY, SAMPLING], ids=["greedy", "sampling"])
def test_a_draft_model_of_damaged_weights_costs_plain_steps_and_is_counted(params):
    model, own = FakeModel(), FakeModel(nan_from=len(PROMPT) + 6)
    drafter, stats = drafter_of(own), DecodeStats()
    drafter.set_params(params)
    steps = run(FakeSlot(model), params=params, drafter=drafter, stats=stats)
    assert stats.num_drafter_failures > 0
    assert own.slot().token_ids == []
    if params.greedy:
        assert tokens(steps) == plain(model, params=params)


def test_an_id_that_the_draft_model_does_not_know_costs_plain_steps_and_is_counted():
    class Strict(FakeSlot):
        def forward(self, token_ids, logit_rows, **more):
            if max(token_ids) >= 3:
                raise InferenceError("an id outside the vocabulary")
            return super().forward(token_ids, logit_rows, **more)

    model, own, stats = FakeModel(), FakeModel(), DecodeStats()
    own.slots["a"] = Strict(own)
    steps = run(FakeSlot(model), drafter=drafter_of(own), stats=stats)
    assert tokens(steps) == plain(model)
    assert stats.num_drafter_failures == len(steps) - 1


def test_measuring_steps_and_rows_leaves_an_empty_slot():
    model = FakeModel()
    vocabulary = DraftVocabulary(VOCAB, VOCAB, num_tokens=VOCAB)
    cost = measure_draft_model(model.slot(""), vocabulary)
    assert cost.step_ms > 0
    assert cost.row_ms > 0
    assert model.slot("").token_ids == []
    assert {done.width for done in model.slot("").passes[2:]} == {1, 64}


def test_what_a_draft_costs_counts_the_text_that_is_still_to_be_read():
    cost = DraftCost(step_ms=2.0, row_ms=0.5)
    whole = DraftVocabulary(VOCAB, VOCAB, num_tokens=VOCAB)
    drafter = DraftModel(FakeModel(), "a", whole, growth=EVERY, cost=cost)
    text = [1 + i % 9 for i in range(100)]
    assert drafter.draft_cost_ms(3) == 6.0
    assert drafter.reading_cost_ms(text) == cost.reading_ms(100)
    drafter.propose(text, 2)
    assert drafter.reading_cost_ms([*text, 1]) == 0.0
    assert drafter.reading_cost_ms([9, *text]) == cost.reading_ms(101)


# The law


@pytest.mark.parametrize(("length", "limit"), [(1, 1), (2, 1), (2, 2)])
def test_texts_with_drawn_drafts_of_a_model_have_exactly_the_targets_law(
    monkeypatch, length, limit
):
    current = []
    monkeypatch.setattr(rows_module, "position_rng", lambda seed, position: current[0])
    monkeypatch.setattr(growth_module, "draft_rng", lambda seed, position: current[0])
    monkeypatch.setattr(decode_module, "MAX_DRAFT", limit)

    def table(prefix):
        return [float(p) for p in law.SOURCE.get(prefix[len(law.PROMPT) :], (1, 0, 0))]

    own = FakeModel(vocab=3, eos_ids=frozenset({law.END}), table=table)
    drafter = drafter_of(own)
    drafter.set_params(DecodeParams(temperature=1.0))

    def one(choices):
        current[:] = [choices]
        return law.generate(drafter, length=length)

    assert law_of(one, law.GRID) == law.target_law(length)


def test_drafts_of_the_target_itself_are_never_corrected_when_sampling():
    """p and q are the same bits, so the ratio is exactly one."""
    model = FakeModel(sharpness=0.5)
    assert EOS in model.eos_ids
    for seed in range(20):
        params = DecodeParams(max_new_tokens=24, temperature=0.9, seed=seed, top_p=0.95)
        drafter = drafter_of(FakeModel(sharpness=0.5))
        drafter.set_params(params)
        steps = run(FakeSlot(model), params=params, drafter=drafter)
        assert all(step.num_accepted == step.num_proposed for step in steps)
        assert sum(step.num_proposed for step in steps) > 10
