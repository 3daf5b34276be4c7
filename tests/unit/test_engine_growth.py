"""How a draft grows from next-token logits: greedy chains and trees, and draws."""

from __future__ import annotations

import numpy as np
import pytest

from lsp_server.engine.drafters.growth import Growth, draft_rng, grow
from lsp_server.engine.sampling import position_rng
from lsp_server.engine.types import ROOT, DecodeParams
from lsp_server.errors import InferenceError
from tests.decoding import GREEDY, SAMPLING

EVERY = Growth(min_probability=0.0)


def row_of(probs: dict[int, float], vocab: int = 8) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log([probs.get(i, 0.0) for i in range(vocab)]).astype(np.float32)


def grown(rows, limit: int, how: Growth = EVERY, params=GREEDY, ends=frozenset()):
    return grow("t", how, params, [1, 2], limit, ends, lambda drafted: rows[len(drafted)])


# How a greedy draft grows


SURE, UNSURE = {3: 0.9, 4: 0.1}, {5: 0.35, 6: 0.33, 7: 0.32}


@pytest.mark.parametrize("limit", range(5))
def test_a_draft_has_at_most_the_tokens_asked_for(limit):
    assert grown([row_of(SURE)] * 5, limit).token_ids == (3,) * limit


def test_a_draft_ends_before_the_first_token_that_is_too_improbable():
    rows = [row_of(SURE), row_of(SURE), row_of(UNSURE), row_of(SURE)]
    assert grown(rows, 4, Growth(min_probability=0.4)).token_ids == (3, 3)
    assert grown(rows, 4, Growth(min_probability=0.34)).token_ids == (3, 3, 5, 3)


def test_an_end_of_text_ends_a_greedy_draft_and_is_not_in_it():
    assert grown([row_of(SURE), row_of({6: 1.0})], 4, ends=frozenset({6})).token_ids == (3,)


def test_equally_probable_tokens_are_taken_lowest_id_first():
    draft = grown([row_of({2: 0.2, 5: 0.4, 6: 0.4})], 1, Growth(0.0, width=3))
    assert draft.token_ids == (5, 6, 2)


def test_a_tree_offers_fewer_runners_up_the_deeper_it_gets_and_goes_on_from_the_best():
    rows = [row_of({1: 0.5, 2: 0.3, 3: 0.2}), row_of({4: 0.6, 5: 0.4}), row_of({6: 1.0})]
    draft = grown(rows, 3, Growth(0.0, width=3))
    assert draft.token_ids == (1, 2, 3, 4, 5, 6)
    assert draft.parents == (ROOT, ROOT, ROOT, 0, 0, 3)
    assert draft.first_path().token_ids == grown(rows, 3).token_ids


def test_a_tree_has_as_many_tokens_as_its_shape_says():
    for how in (Growth(0.0, width=width) for width in (1, 2, 3, 5)):
        for depth in range(7):
            draft = grown([row_of(dict.fromkeys(range(7), 1 / 7))] * depth, depth, how)
            assert len(draft.token_ids) == how.num_tokens(depth)


def test_a_tree_holds_what_is_likely_together_but_does_not_go_on_from_an_unsure_token():
    draft = grown([row_of(UNSURE)] * 3, 3, Growth(0.4, width=3))
    assert draft.token_ids == (5, 6, 7)


def test_an_unsure_drafter_still_offers_a_token_so_that_its_record_shows_it():
    assert grown([row_of(UNSURE)] * 3, 3, Growth(0.4)).token_ids == (5,)
    assert grown([row_of(UNSURE)] * 3, 3, Growth(0.99, width=2)).token_ids == (5, 6)


def test_a_tree_has_no_token_that_is_never_proposed_and_no_end():
    draft = grown([row_of({1: 0.6, 2: 0.4})], 1, Growth(0.0, width=5), ends=frozenset({2}))
    assert draft.token_ids == (1,)


def test_drafts_follow_the_penalties_of_the_request():
    """Frequency penalty 1.5 over logits 100 and 99: the second time the other token wins."""
    row = np.full(16, -50.0, np.float32)
    row[[1, 15]] = 100.0, 99.0
    params = DecodeParams(frequency_penalty=1.5)
    draft = grow("t", EVERY, params, [7], 3, frozenset(), lambda drafted: row)
    assert draft.token_ids == (1, 15, 1)


@pytest.mark.parametrize("params", [GREEDY, SAMPLING], ids=["greedy", "sampling"])
def test_logits_that_are_no_numbers_are_an_error(params):
    row = row_of(SURE)
    row[4] = np.nan
    with pytest.raises(InferenceError):
        grown([row], 1, params=params)


# How a drawn draft grows


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_a_drawn_draft_has_the_length_asked_for_however_unsure_it_is(limit):
    draft = grown([row_of(UNSURE)] * 5, limit, Growth(min_probability=0.9), SAMPLING)
    assert len(draft.token_ids) == limit
    assert draft.parents is None
    assert draft.draft_probs.shape == (limit, 8)
    assert draft.draft_probs.dtype == np.float64
    for token, probs in zip(draft.token_ids, draft.draft_probs, strict=True):
        assert probs[token] > 0
        np.testing.assert_allclose(probs, np.exp(row_of(UNSURE)), atol=1e-7)


def test_a_drawn_end_of_text_stays_and_ends_the_draft():
    rows = [row_of(SURE), row_of({6: 1.0}), row_of(SURE)]
    draft = grown(rows, 3, params=SAMPLING, ends=frozenset({6}))
    assert draft.token_ids[1:] == (6,)
    assert len(draft.draft_probs) == 2


def test_what_was_drawn_stays_in_the_draft_where_nothing_can_be_drawn_behind_it():
    """Given up because of what it is, it would be missing from the law of the output."""
    broken = np.full(8, np.nan, np.float32)
    draft = grown([row_of(SURE), broken], 3, params=SAMPLING)
    assert len(draft.token_ids) == len(draft.draft_probs) == 1


def test_the_probabilities_of_a_drawn_draft_are_processed_like_the_targets():
    params = DecodeParams(temperature=1.0, top_k=2)
    draft = grown([row_of({1: 0.5, 2: 0.3, 3: 0.2})], 1, params=params)
    np.testing.assert_allclose(draft.draft_probs[0], [0, 0.625, 0.375, 0, 0, 0, 0, 0], atol=1e-7)


def test_the_same_seed_draws_the_same_draft_and_another_seed_another():
    rows = [row_of(UNSURE)] * 20
    drafts = [
        grown(rows, 20, params=DecodeParams(temperature=1.0, seed=seed)) for seed in (1, 1, 2)
    ]
    assert drafts[0].token_ids == drafts[1].token_ids != drafts[2].token_ids


def test_a_drafts_randomness_is_never_that_of_the_target():
    for seed in (0, 1, -1, 2**127, 2**128 + 5):
        for position in (0, 1, 500):
            own = draft_rng(seed, position).random(64)
            assert not set(own) & set(position_rng(seed, position).random(64))
            np.testing.assert_array_equal(own, draft_rng(seed, position).random(64))
