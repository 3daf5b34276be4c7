"""From logits to the processed distribution: order, ties, limits, and randomness by position."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lsp_server.engine.sampling import draw, greedy_token, position_rng, process, sample
from lsp_server.engine.types import DecodeParams
from lsp_server.errors import InferenceError

ALMOST_ONE = np.nextafter(1.0, 0.0)


def row(*logits: float):
    return np.array(logits, np.float32)


def log_row(*probs: float):
    with np.errstate(divide="ignore"):
        return np.log(np.array(probs)).astype(np.float32)


def probs_of(logits, history=(), **params):
    return process(logits, DecodeParams(**{"temperature": 1.0, **params}), list(history))


def assert_probs(found, *expected: float):
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_top_p_keeps_the_fewest_tokens_that_reach_it():
    assert_probs(probs_of(log_row(0.5, 0.3, 0.15, 0.05), top_p=0.6), 0.625, 0.375, 0, 0)


def test_top_k_comes_before_top_p_which_sees_renormalised_probabilities():
    assert_probs(probs_of(log_row(0.5, 0.3, 0.15, 0.05), top_k=2, top_p=0.6), 1, 0, 0, 0)


def test_top_k_keeps_the_most_probable():
    assert_probs(probs_of(row(1, 2, 3, 4, 5), top_k=2), 0, 0, 0, 0.268941, 0.731059)


def test_temperature_divides_the_logits():
    assert_probs(probs_of(row(0, 2), temperature=2.0), 0.268941, 0.731059)


def test_temperature_comes_before_truncation():
    # At temperature 2 the first token has less than .6 and a second one is needed to reach it.
    assert_probs(probs_of(row(2, 0, 0), top_p=0.6), 1, 0, 0)
    assert np.count_nonzero(probs_of(row(2, 0, 0), top_p=0.6, temperature=2.0)) == 2


def test_min_p_is_relative_to_the_most_probable_and_comes_last():
    assert_probs(probs_of(log_row(0.5, 0.3, 0.15, 0.05), min_p=0.5), 0.625, 0.375, 0, 0)


@pytest.mark.parametrize("top_k", [3, 4, 10**6])
def test_a_top_k_beyond_the_vocabulary_keeps_all(top_k):
    assert_probs(probs_of(row(1, 1, 1), top_k=top_k), 1 / 3, 1 / 3, 1 / 3)


@pytest.mark.parametrize("params", [{"top_p": 0.0}, {"top_p": -1.0}, {"min_p": 5.0}, {"top_k": 1}])
def test_the_strongest_truncation_keeps_the_most_probable_token(params):
    assert_probs(probs_of(row(1, 3, 2), **params), 0, 1, 0)


@pytest.mark.parametrize("temperature", [0.0, 9e-6, -1.0])
def test_a_temperature_near_zero_is_greedy(temperature):
    assert_probs(probs_of(row(1, 3, 3, 2), temperature=temperature), 0, 1, 0, 0)


def test_ties_go_to_the_lowest_id_everywhere():
    equal = row(1, 1, 1, 1)
    assert greedy_token(equal, DecodeParams(), []) == 0
    assert_probs(probs_of(equal, top_k=2), 0.5, 0.5, 0, 0)
    assert_probs(probs_of(equal, top_p=0.5), 0.5, 0.5, 0, 0)
    assert greedy_token(row(0, 5, 5), DecodeParams(), []) == 1
    many = probs_of(np.arange(1000, dtype=np.float32) % 3, top_k=10)  # more than a small sort
    assert list(np.flatnonzero(many)) == list(range(2, 32, 3))


def test_repetition_penalty_comes_before_top_k():
    found = probs_of(row(6, 5, 4, 1), [0], repetition_penalty=2.0, top_k=2)
    assert set(np.flatnonzero(found)) == {1, 2}


def test_repetition_penalty_lowers_negative_logits_too():
    params = DecodeParams(repetition_penalty=2.0)
    assert greedy_token(row(-1, -1.5), params, [0]) == 1


@pytest.mark.parametrize(("penalty", "emitted"), [(1.5, [1, 15]), (0.7, [1, 1, 15])])
def test_each_rows_frequency_penalty_counts_the_drafted_tokens_before_it(penalty, emitted):
    logits = np.full(16, -10, np.float32)
    logits[1], logits[15] = 100, 99
    params = DecodeParams(frequency_penalty=penalty)
    tokens: list[int] = []
    while not tokens or tokens[-1] != 15:
        tokens.append(greedy_token(logits, params, tokens))
    assert tokens == emitted


def test_presence_penalty_counts_once():
    params = DecodeParams(presence_penalty=1.5)
    assert greedy_token(row(3, 1.6), params, [0]) == 1
    assert greedy_token(row(3, 1.4), params, [0, 0, 0]) == 0


def test_bias_is_added_before_the_arg_max_and_before_temperature():
    params = DecodeParams(logit_bias=((1, 5.0), (0, float("-inf"))))
    assert greedy_token(row(3, 0, 4), params, []) == 1
    found = probs_of(row(0, 0), temperature=2.0, logit_bias=((1, 2.0),))
    assert_probs(found, 0.268941, 0.731059)


def test_the_models_row_is_never_changed():
    logits = row(1, 2, 3)
    probs_of(logits, [1], repetition_penalty=2.0, logit_bias=((0, 5.0),), top_k=1)
    np.testing.assert_array_equal(logits, row(1, 2, 3))


@pytest.mark.parametrize("greedy", [True, False])
@pytest.mark.parametrize(
    "bad",
    [
        row(1, np.nan, 2),
        row(np.nan, np.nan),
        row(-np.inf, np.nan, 0),
        row(-np.inf, -np.inf),
        row(np.inf, 0),
    ],
    ids=["one NaN", "all NaN", "NaN and -inf", "all -inf", "+inf"],
)
def test_a_row_that_is_no_numbers_is_an_error_and_never_a_token(bad, greedy):
    with pytest.raises(InferenceError, match="not numbers"):
        process(bad, DecodeParams(temperature=0.0 if greedy else 1.0), [])


def test_minus_infinity_means_never():
    assert_probs(probs_of(row(0, -np.inf, 0)), 0.5, 0, 0.5)


@given(
    st.lists(st.floats(-50, 50, width=32), min_size=1, max_size=12),
    st.floats(1e-4, 50),
    st.integers(0, 15),
    st.floats(0, 1),
    st.floats(0, 1),
)
@example([0.0, 1e-9], 1.0, 0, 0.0, 0.0)
def test_the_result_is_always_a_distribution(logits, temperature, top_k, top_p, min_p):
    found = probs_of(row(*logits), temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(1.0)
    kept = row(*logits)[found > 0].max()  # may be less than the largest: weights are float32
    assert np.exp((kept - row(*logits).max()) / np.float32(temperature)) == np.float32(1)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=9).filter(any), st.floats(0, ALMOST_ONE))
def test_a_draw_is_never_a_token_of_probability_zero(weights, uniform):
    probs = np.array(weights, np.float64) / sum(weights)
    for u in (uniform, 0.0, ALMOST_ONE):
        assert probs[draw(probs, u)] > 0


def test_a_draw_inverts_the_cumulative_distribution():
    probs = np.array([0.25, 0.0, 0.5, 0.25])
    assert [draw(probs, u) for u in (0.0, 0.2499, 0.25, 0.7499, 0.75, ALMOST_ONE)] == [
        0,
        0,
        2,
        2,
        3,
        3,
    ]


@pytest.mark.parametrize("seed", [0, 1, -1, 2**64, 2**130, -(2**70)])
def test_any_integer_is_a_seed_and_gives_the_same_stream_every_time(seed):
    first = [position_rng(seed, position).random() for position in range(5)]
    assert first == [position_rng(seed, position).random() for position in range(5)]
    assert len(set(first)) == 5


def test_neighbouring_seeds_and_positions_share_no_draws():
    draws = [
        value
        for seed in range(20)
        for position in range(20)
        for value in position_rng(seed, position).random(8)
    ]
    assert len(set(draws)) == len(draws)


def test_uniforms_of_consecutive_positions_and_seeds_are_uncorrelated():
    by_seed = np.array([[position_rng(s, p).random() for p in range(60)] for s in range(60)])
    for left, right in ((by_seed[:, 1:], by_seed[:, :-1]), (by_seed[1:], by_seed[:-1])):
        assert abs(np.corrcoef(left.ravel(), right.ravel())[0, 1]) < 0.07  # 4 sigma
    assert abs(by_seed.mean() - 0.5) < 0.02


def plain_nucleus(logits, top_p: float) -> set[int]:
    """By ranking every token."""
    probs = probs_of(logits)
    ranked = np.argsort(-probs, kind="stable")
    before = np.cumsum(probs[ranked]) - probs[ranked]
    return set(ranked[: max(1, np.count_nonzero(before < top_p))])


@pytest.mark.parametrize("size", [3, 255, 256, 257, 3000])
@pytest.mark.parametrize("spread", [0.1, 2.0, 8.0])
@pytest.mark.parametrize("top_p", [0.1, 0.9, 0.999])
def test_a_nucleus_of_any_size_is_that_of_a_full_ranking(size, spread, top_p):
    rng = np.random.default_rng([size, int(spread * 10)])
    logits = (rng.standard_normal(size) * spread).astype(np.float32)
    assert set(np.flatnonzero(probs_of(logits, top_p=top_p))) == plain_nucleus(logits, top_p)


@pytest.mark.parametrize("top_p", [0.25, 0.5, 0.9])
def test_a_nucleus_of_equals_takes_the_lowest_ids(top_p):
    kept = np.flatnonzero(probs_of(np.zeros(1024, np.float32), top_p=top_p))
    assert list(kept) == list(range(int(np.ceil(top_p * 1024))))


@pytest.mark.parametrize("top_k", [1, 5, 256, 700])
def test_top_k_of_many_equals_takes_the_lowest_ids(top_k):
    logits = (np.arange(1024) % 3).astype(np.float32)
    ranked = sorted(range(1024), key=lambda i: (-logits[i], i))
    assert list(np.flatnonzero(probs_of(logits, top_k=top_k))) == sorted(ranked[:top_k])


@given(st.integers(1, 1200), st.integers(0, 2**32), st.floats(0, 1, exclude_max=True))
def test_a_draw_is_the_inverse_of_the_running_sum(size, seed, uniform):
    # Sixteenths, so that every sum is exact whatever the order of adding.
    probs = np.random.default_rng(seed).integers(0, 4, size) / 16.0
    probs[seed % size] += 1 / 16
    running = np.cumsum(probs)
    token = draw(probs, uniform)
    assert probs[token] > 0
    assert running[token] - probs[token] <= uniform * running[-1] < running[token]


@pytest.mark.parametrize("token", [0, 255, 256, 600, 999])
@pytest.mark.parametrize("uniform", [0.0, 0.5, ALMOST_ONE])
def test_the_only_possible_token_is_drawn_wherever_it_stands(token, uniform):
    probs = np.zeros(1000)
    probs[token] = 0.1
    assert draw(probs, uniform) == token


def test_logits_too_far_apart_for_their_difference_are_impossible_not_an_error():
    assert_probs(probs_of(row(3e38, -3e38, float("-inf")), temperature=0.5), 1, 0, 0)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"top_k": 40},
        {"top_p": 0.9},
        {"top_k": 300, "top_p": 0.7, "min_p": 0.01},
        {"temperature": 0.0},
        {"repetition_penalty": 1.5, "min_p": 0.2},
    ],
    ids=str,
)
def test_a_sample_is_a_draw_from_the_processed_distribution(params):
    rng = np.random.default_rng(3)
    logits = (rng.standard_normal(2000) * 2).astype(np.float32)
    probs = probs_of(logits, [1, 2, 3], **params)
    params = DecodeParams(**{"temperature": 1.0, **params})
    for uniform in (*rng.random(200), 0.0, ALMOST_ONE):
        assert sample(logits, params, [1, 2, 3], uniform) == draw(probs, uniform)


@given(
    st.lists(st.integers(-3, 3), min_size=1, max_size=40),
    st.integers(1, 700),
    st.integers(1, 30),
    st.randoms(use_true_random=False),
)
def test_top_k_keeps_the_largest_of_a_long_row_and_the_lowest_ids_of_equals(
    pattern, size, count, random
):
    """Also where whole blocks of the row are equal, or minus infinity."""
    values = [float(random.choice(pattern)) for _ in range(size)]
    values[: size // 2] = [-np.inf if value < 0 else value for value in values[: size // 2]]
    values[-1] = 4.0
    found = probs_of(row(*values), temperature=1.0, top_k=count)
    ranked = sorted(range(size), key=lambda index: (-values[index], index))[:count]
    kept = sorted(index for index in ranked if values[index] > -np.inf)
    assert np.flatnonzero(found).tolist() == kept
