"""A least length: no end of text at any row before it, whatever is drafted."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.engine import decode as decode_module
from lsp_server.engine import rows as rows_module
from lsp_server.engine.decode import decode
from lsp_server.engine.sampling import below_least_length, greedy_token, process
from lsp_server.engine.types import ROOT, DecodeParams, Draft
from tests.decoding import PROMPT, fixed, plain, run, tokens
from tests.exact_law import Choices, Law, law_of
from tests.fake_model import VOCAB, AdversarialDrafter, FakeModel, FakeSlot
from tests.lossless import test_law_of_decoding as law

ENDS = frozenset({0, 7})


# One row


@given(
    st.lists(st.floats(-5, 5, width=32), min_size=8, max_size=8),
    st.sampled_from([{}, {"top_k": 2}, {"top_p": 0.5}, {"min_p": 0.9}, {"temperature": 2.0}]),
    st.sampled_from([{}, {"logit_bias": ((0, 50.0),)}, {"presence_penalty": 3.0}]),
)
def test_below_it_the_distribution_is_that_of_a_vocabulary_without_ends(logits, cut, changed):
    """Truncation counts the tokens that may come, and no bias brings an end back."""
    row = np.array(logits, np.float32)
    params = DecodeParams(**{"temperature": 1.0, **cut, **changed})
    found = process(row, below_least_length(params, ENDS), [3])
    others = [i for i in range(8) if i not in ENDS]
    alone = replace(params, logit_bias=())
    expected = process(row[others], alone, [others.index(3)])
    np.testing.assert_allclose(found[others], expected, rtol=1e-6)
    assert not found[list(ENDS)].any()


def test_below_it_the_best_token_that_is_no_end_is_taken():
    row = np.array([9, 1, 3, 3, 0, 0, 0, 8], np.float32)
    assert greedy_token(row, below_least_length(DecodeParams(), ENDS), []) == 2
    assert greedy_token(row, DecodeParams(), []) == 0


# The loop


class Eager(FakeModel):
    """Ends wherever it may: the end of text is the likeliest token everywhere."""

    def logits(self, rows):
        row = super().logits(rows).copy()
        row[list(self.eos_ids)] = 30.0
        return row


class Fickle(FakeModel):
    """Ends of text are as likely as other tokens."""

    def logits(self, rows):
        key = tuple(token for token, _ in rows)
        return np.random.default_rng(key).standard_normal(VOCAB).astype(np.float32)


@pytest.mark.parametrize("least", [0, 1, 2, 5, 23, 24, 99])
def test_a_least_length_masks_the_end_at_each_row_below_it(least):
    """Rows count the drafted tokens before them: no pass ends early, none too late."""
    model = Eager()
    params = DecodeParams(max_new_tokens=24, min_new_tokens=least)
    text = plain(model, params=params)
    assert len(text) == min(least, 24)
    for length in range(1, 9):
        for kind in ("right", "wrong", "wrong_at"):
            drafter = AdversarialDrafter([*PROMPT, *text], kind, length // 2)
            found = run(FakeSlot(model), params=params, drafter=drafter, controller=fixed(length))
            assert tokens(found) == text
            assert found[-1].finish == ("eos" if least < 24 else "length")


@pytest.mark.parametrize("least", [1, 4, 9])
def test_a_seed_gives_the_same_text_below_and_beyond_it_with_drafts_as_without(least):
    model = Fickle(eos_ids=frozenset({1, 2, 3}))
    seen = set()
    for seed in range(30):
        params = DecodeParams(24, least, temperature=1.0, seed=seed)
        text = plain(model, params=params)
        seen.add(len(text))
        for kind in ("right", "wrong", "alternating"):
            drafter = AdversarialDrafter([*PROMPT, *text], kind)
            found = tokens(run(FakeSlot(model), params=params, drafter=drafter))
            assert found == text
    assert min(seen) == least
    assert len(seen) > 3


class Tree:
    """Offers the right token and a wrong one at each depth."""

    name = "tree"

    def __init__(self, right: list[int]) -> None:
        self._right = right

    def propose(self, token_ids, limit, cancel=None):
        token_list, parents, node = [], [], ROOT
        for token in self._right[len(token_ids) :][:limit]:
            parents += [node, node]
            node = len(token_list)
            token_list += [token, token % (VOCAB - 2) + 1]
        return Draft(tuple(token_list), self.name, parents=tuple(parents))


@pytest.mark.parametrize("least", [13, 24])
def test_rows_of_a_tree_count_the_tokens_of_their_path_only(least):
    model = Eager()
    params = DecodeParams(max_new_tokens=24, min_new_tokens=least)
    text = plain(model, params=params)
    assert len(text) == least
    steps = run(FakeSlot(model), params=params, drafter=Tree([*PROMPT, *text]))
    assert tokens(steps) == text
    assert any(2 <= step.num_accepted < step.num_proposed for step in steps[1:])


# The law


def target_law(length: int, least: int) -> Law:
    """Of texts of at most `length` tokens, the first `least` of which are no end."""
    found = Law({(): F(1)})
    for position in range(length):
        longer = Law()
        for text, weight in found.items():
            if text[-1:] == (law.END,):
                longer[text] = longer.get(text, F(0)) + weight
                continue
            probs = list(law.TARGET[text])
            if position < least:
                probs[law.END] = F(0)
            for token, p in enumerate(probs):
                if p:
                    longer[(*text, token)] = weight * p / sum(probs)
        found = longer
    return found


def generate(drafter, length: int, least: int) -> tuple[int, ...]:
    params = DecodeParams(max_new_tokens=length, min_new_tokens=least, temperature=1.0)
    text: tuple[int, ...] = ()
    for step in decode(FakeSlot(law.model()), law.PROMPT, params, drafter=drafter):
        text += step.token_ids
        if step.finish == "eos":
            text += (law.END,)
    return text


def enumerated_law(monkeypatch, length: int, draft_length: int, least: int, *, one_hot: bool):
    current: list[Choices] = []
    monkeypatch.setattr(rows_module, "position_rng", lambda seed, position: current[0])

    def one(choices: Choices):
        current[:] = [choices]
        drafter = law.DrawingDrafter(choices.pick, draft_length, one_hot=one_hot)
        return generate(drafter, length, least)

    return law_of(one, law.GRID)


@pytest.mark.parametrize("one_hot", [True, False], ids=["one_hot", "drawn"])
@pytest.mark.parametrize("least", [1, 2])
@pytest.mark.parametrize("case", [(1, 1), (2, 1), (2, 2)], ids=str)
def test_texts_of_a_least_length_have_exactly_the_targets_law(monkeypatch, case, least, one_hot):
    """Drawn ends included: they are rejected where the target may not end."""
    found = enumerated_law(monkeypatch, *case, least, one_hot=one_hot)
    assert found == target_law(case[0], least)
    assert found != target_law(case[0], 0)


def test_the_checker_rejects_a_loop_that_counts_from_the_pass_and_not_from_the_row(monkeypatch):
    class FirstRowOnly(rows_module.TargetRows):
        def __init__(self, logits, history, draft, params, num_new, end_ids):
            short = replace(params, min_new_tokens=min(params.min_new_tokens, num_new + 1))
            super().__init__(logits, history, draft, short, num_new, end_ids)

    monkeypatch.setattr(decode_module, "TargetRows", FirstRowOnly)
    assert enumerated_law(monkeypatch, 2, 2, 2, one_hot=False) != target_law(2, 2)
