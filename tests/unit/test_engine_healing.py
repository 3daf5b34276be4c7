"""Token healing: which tokens agree with the bytes before the cursor, and the law of the text."""

from __future__ import annotations

import math
from fractions import Fraction as F

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.engine import decode as decode_module
from lsp_server.engine import rows as rows_module
from lsp_server.engine.decode import decode
from lsp_server.engine.healing import ByteIndex, Healing
from lsp_server.engine.sampling import greedy_token, process, sample
from lsp_server.engine.types import DecodeParams
from tests.decoding import PROMPT, fixed, run, tokens
from tests.exact_law import Choices, Law, law_of
from tests.fake_model import VOCAB, AdversarialDrafter, FakeModel, FakeSlot
from tests.lossless import test_law_of_decoding as law

BYTES = st.text("abé", max_size=4).map(str.encode)
VOCABULARY = st.lists(BYTES, min_size=1, max_size=30)


@given(VOCABULARY, BYTES.filter(bool))
def test_the_tokens_that_agree_are_those_that_extend_the_text_or_are_a_beginning_of_it(
    vocabulary, text
):
    index = ByteIndex(vocabulary)
    expected = [
        token_id
        for token_id, own in enumerate(vocabulary)
        if own and (own.startswith(text) or text.startswith(own))
    ]
    for _ in range(2):  # computed, and kept
        assert index.agreeing(text).tolist() == expected


@given(VOCABULARY, BYTES, st.data())
def test_whatever_is_allowed_in_turn_writes_the_text_and_more_is_free(vocabulary, text, data):
    vocabulary = [*vocabulary, *(bytes([byte]) for byte in range(256))]
    healing = Healing(ByteIndex(vocabulary), text)
    new_ids: list[int] = []
    while (allowed := healing.allowed(new_ids)) is not None:
        new_ids.append(data.draw(st.sampled_from(allowed.tolist())))
        written = b"".join(vocabulary[token_id] for token_id in new_ids)
        assert written.startswith(text) or text.startswith(written)
    assert b"".join(vocabulary[token_id] for token_id in new_ids).startswith(text)


def test_text_that_the_vocabulary_cannot_write_is_left_alone():
    assert Healing(ByteIndex([b"a", b""]), b"x").allowed([]) is None


def test_the_end_of_text_is_not_allowed_before_the_text_is_written():
    healing = Healing(ByteIndex([b"", b"a", b"b"]), b"ab")
    assert healing.allowed([]).tolist() == [1]
    assert healing.allowed([1]).tolist() == [2]
    assert healing.allowed([1, 2]) is None


@given(
    st.lists(st.floats(-5, 5, width=32), min_size=8, max_size=8),
    st.sets(st.integers(0, 7), min_size=1).map(sorted),
    st.sampled_from([{}, {"top_k": 2}, {"top_p": 0.5}, {"min_p": 0.9}, {"temperature": 2.0}]),
)
def test_the_distribution_is_that_of_a_vocabulary_of_the_allowed_tokens(logits, allowed, cut):
    row, ids = np.array(logits, np.float32), np.array(allowed, np.intp)
    params = DecodeParams(**{"temperature": 1.0, **cut})
    found = process(row, params, [], ids)
    np.testing.assert_allclose(found[ids], process(row[ids], params, []), rtol=1e-6)
    assert found.sum() == pytest.approx(1.0)
    assert found[sample(row, params, [], 0.5, ids)] > 0
    assert greedy_token(row, DecodeParams(), [], ids) == ids[row[ids].argmax()]


def test_the_row_that_was_given_is_not_changed():
    row = np.array([1.0, 2.0, 3.0], np.float32)
    assert greedy_token(row, DecodeParams(), [], np.array([0], np.intp)) == 0
    assert row.tolist() == [1.0, 2.0, 3.0]


# The loop


class OddTokens:
    """Constraint protocol: the first `count` new tokens have odd ids."""

    def __init__(self, count: int) -> None:
        self._count = count

    def allowed(self, new_ids):
        if len(new_ids) >= self._count:
            return None
        return np.arange(1, VOCAB, 2, dtype=np.intp)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("count", [1, 3, 24])
def test_constrained_text_is_the_same_with_drafts_as_without(count, temperature):
    """The state belongs to the row: drafted tokens before it count, rejected ones do not."""
    model = FakeModel(sharpness=1.0)
    constraint = OddTokens(count)
    params = DecodeParams(24, temperature=temperature, constraint=constraint, seed=3)
    text = tokens(run(FakeSlot(model), params=params))
    assert all(token % 2 for token in text[:count])
    for length in range(1, 9):
        for kind in ("right", "wrong", "wrong_at", "alternating"):
            drafter = AdversarialDrafter([*PROMPT, *text], kind, length // 2)
            found = run(FakeSlot(model), params=params, drafter=drafter, controller=fixed(length))
            assert tokens(found) == text


TOKEN_BYTES = {b"a": [b"a", b"ab", b""], b"aa": [b"a", b"ab", b""], b"ab": [b"a", b"b", b""]}
"""Text to heal -> a vocabulary that can write it in more than one way, or in several tokens."""


def target_law(length: int, text: bytes) -> Law:
    """Step by step the target's law on the tokens that agree with what is left of `text`."""
    found = Law({(): F(1)})
    for _ in range(length):
        longer = Law()
        for ids, weight in found.items():
            if ids[-1:] == (law.END,):
                longer[ids] = longer.get(ids, F(0)) + weight
                continue
            left = text[len(b"".join(TOKEN_BYTES[text][token] for token in ids)) :]
            probs = list(law.TARGET[ids])
            for token, own in enumerate(TOKEN_BYTES[text]):
                if left and not (own and (own.startswith(left) or left.startswith(own))):
                    probs[token] = F(0)
            for token, p in enumerate(probs):
                if p:
                    longer[(*ids, token)] = weight * p / sum(probs)
        found = longer
    return found


def enumerated_law(monkeypatch, length: int, draft_length: int, text: bytes, *, one_hot: bool):
    current: list[Choices] = []
    monkeypatch.setattr(rows_module, "position_rng", lambda seed, position: current[0])
    healing = Healing(ByteIndex(TOKEN_BYTES[text]), text)
    params = DecodeParams(max_new_tokens=length, temperature=1.0, constraint=healing)

    def one(choices: Choices):
        current[:] = [choices]
        drafter = law.DrawingDrafter(choices.pick, draft_length, one_hot=one_hot)
        ids: tuple[int, ...] = ()
        for step in decode(FakeSlot(law.model()), law.PROMPT, params, drafter=drafter):
            ids += step.token_ids
            if step.finish == "eos":
                ids += (law.END,)
        return ids

    return law_of(one, law.GRID)


@pytest.mark.parametrize("one_hot", [True, False], ids=["one_hot", "drawn"])
@pytest.mark.parametrize("text", TOKEN_BYTES, ids=bytes.decode)
@pytest.mark.parametrize("case", [(1, 1), (2, 1), (2, 2)], ids=str)
def test_healed_texts_have_exactly_the_targets_law_under_the_condition(
    monkeypatch, case, text, one_hot
):
    found = enumerated_law(monkeypatch, *case, text, one_hot=one_hot)
    assert found == target_law(case[0], text)
    assert found != law.target_law(case[0])


def test_the_checker_rejects_a_state_that_is_kept_for_the_pass_and_not_for_the_row(monkeypatch):
    class StateOfThePass(rows_module.TargetRows):
        def _allowed(self, row):
            return super()._allowed(0)

    monkeypatch.setattr(decode_module, "TargetRows", StateOfThePass)
    assert enumerated_law(monkeypatch, 2, 2, b"aa", one_hot=True) != target_law(2, b"aa")


# What is told of each token


@pytest.mark.parametrize("kind", ["right", "wrong", "alternating"])
def test_the_log_probabilities_told_are_the_targets_own_before_any_processing(kind):
    model = FakeModel(sharpness=1.0)
    params = DecodeParams(12, temperature=0.7, top_k=3, seed=5, with_choices=True)
    text = tokens(run(FakeSlot(model), params=params))
    drafter = AdversarialDrafter([*PROMPT, *text], kind)
    steps = run(FakeSlot(model), params=params, drafter=drafter)
    choices = [choice for step in steps for choice in step.choices]
    assert len(choices) == len(text)
    history = list(PROMPT)
    for token, choice in zip(text, choices, strict=True):
        row = model.logits([(before, False) for before in history]).astype(np.float64)
        log_probs = row - math.log(np.exp(row - row.max()).sum()) - row.max()
        assert choice.log_prob == pytest.approx(log_probs[token], abs=1e-5)
        log_probs[token] = -np.inf
        assert choice.runner_up == int(log_probs.argmax())
        assert choice.runner_up_log_prob == pytest.approx(log_probs.max(), abs=1e-5)
        history.append(token)


def test_a_runner_up_is_one_of_the_allowed_tokens_or_none():
    model = FakeModel(sharpness=1.0)
    params = DecodeParams(1, constraint=OddTokens(1), with_choices=True)
    ((choice,),) = [step.choices for step in run(FakeSlot(model), params=params)]
    assert choice.runner_up % 2 == 1

    class Single:
        def allowed(self, new_ids):
            return np.array([5], np.intp)

    params = DecodeParams(1, constraint=Single(), with_choices=True)
    ((choice,),) = [step.choices for step in run(FakeSlot(model), params=params)]
    assert choice.runner_up == 5


def test_nothing_is_told_that_was_not_asked_for():
    assert all(not step.choices for step in run(FakeSlot(FakeModel())))
