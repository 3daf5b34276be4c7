"""The closed forms of speculation against sums, simulation by enumeration, and published tables."""

from __future__ import annotations

import doctest
from fractions import Fraction as F

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.engine import speedup as speedup_module
from lsp_server.engine import verify, verify_rules
from lsp_server.engine.speedup import (
    break_even,
    chain_speedup,
    expected_tokens,
    expected_tokens_of_chain,
    speedup,
)
from tests.exact_law import Choices, law_of

FEW_CORES = {1: 1.0, 2: 1.5, 3: 2.3, 4: 3.0, 5: 3.7, 6: 4.4, 7: 5.0, 8: 5.7, 9: 6.4}
"""V of 4-bit weights where few cores share the work."""

ACCEPTANCE = st.floats(0.0, 1.0)
LENGTH = st.integers(0, 16)


@given(ACCEPTANCE, LENGTH)
def test_the_closed_form_is_the_sum_over_positions(acceptance, length):
    total = expected_tokens([acceptance] * length)
    assert expected_tokens_of_chain(acceptance, length) == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize("length", [0, 1, 2, 5])
@pytest.mark.parametrize("acceptance", [F(0), F(1, 4), F(3, 4), F(1)])
def test_the_closed_form_is_what_enumerated_rounds_emit(acceptance, length):
    def round_of_tokens(choices: Choices) -> int:
        for position in range(length):
            if choices.pick((acceptance, 1 - acceptance)) == 1:
                return position + 1
        return length + 1

    mean = sum(count * weight for count, weight in law_of(round_of_tokens, 1).items())
    assert expected_tokens_of_chain(float(acceptance), length) == pytest.approx(float(mean))


@pytest.mark.parametrize(
    ("acceptance", "draft_cost", "width_cost", "published"),
    [
        (0.5, 0.1, 1.0, (1.46, 1.38, 1.11)),
        (0.7, 0.1, 1.3, (1.46, 1.63, 1.52)),
        (0.8, 0.0, 2.0, (1.22, 1.68, 2.16)),
        (0.8, 0.3, 1.3, (1.28, 1.34, 1.17)),
        (0.9, 0.1, 2.0, (1.23, 1.71, 2.19)),
    ],
)
def test_the_speed_up_is_that_of_the_table(acceptance, draft_cost, width_cost, published):
    def pass_cost(width: int) -> float:
        return 1.0 if width == 1 else width_cost

    for length, expected in zip((2, 4, 8), published, strict=True):
        found = chain_speedup(acceptance, length, pass_cost, draft_cost)
        assert found == pytest.approx(expected, abs=0.006)


def best_length(acceptance: float) -> int:
    lengths = range(len(FEW_CORES))
    return max(lengths, key=lambda g: (chain_speedup(acceptance, g, FEW_CORES.__getitem__), -g))


def test_where_width_is_dear_the_best_draft_is_short_or_none():
    """With few cores even drafts of which four in five come true should be one token long."""
    cost = FEW_CORES.__getitem__
    assert [round(chain_speedup(0.8, g, cost), 2) for g in (1, 2, 4, 8)] == [1.2, 1.06, 0.91, 0.68]
    assert [round(chain_speedup(0.6, g, cost), 2) for g in (1, 2, 4, 8)] == [1.07, 0.85, 0.62, 0.39]
    assert [best_length(a) for a in (0.3, 0.49, 0.51, 0.8)] == [0, 0, 1, 1]


def test_a_tree_pays_for_every_token_and_gains_by_the_longest_path_only():
    """Six tokens on three levels: cheap where width is free, a loss where it is not."""
    expected = expected_tokens([0.8, 0.7, 0.6])
    assert speedup(expected, 1.0) == expected
    assert speedup(expected, FEW_CORES[7]) < 1.0


@given(ACCEPTANCE, st.floats(1.0, 3.0), st.floats(0.0, 0.5))
def test_one_drafted_token_pays_exactly_above_the_break_even(acceptance, second, step_cost):
    cost = {1: 1.0, 2: second}.__getitem__
    margin = acceptance - break_even(cost, step_cost)
    if abs(margin) > 1e-9:
        assert (chain_speedup(acceptance, 1, cost, step_cost) > 1.0) == (margin > 0)


def test_the_rule_of_thumb_of_two_in_five_is_a_second_token_at_two_fifths_of_a_pass():
    assert break_even({1: 5.0, 2: 7.0}.__getitem__) == pytest.approx(0.4)
    assert break_even({1: 1.0, 2: 2.0}.__getitem__) == 1.0  # then no draft ever pays
    assert break_even({1: 1.0, 2: 1.2}.__getitem__, step_cost=0.2) == pytest.approx(0.4)


def test_the_figures_of_the_engines_document_come_out_of_its_table():
    eight_bits = {1: 15.7, 2: 18.4}.__getitem__
    assert break_even(eight_bits) == pytest.approx(0.17, abs=0.005)
    assert break_even(eight_bits, step_cost=15.7 / 4) == pytest.approx(0.42, abs=0.005)
    assert chain_speedup(1.0, 4, {1: 8.9, 5: 21.2}.__getitem__) == pytest.approx(2.1, abs=0.005)


@pytest.mark.parametrize(
    "module", [speedup_module, verify, verify_rules], ids=lambda module: module.__name__
)
def test_the_worked_examples_of_the_docstrings_come_out_as_written(module):
    tried = doctest.testmod(module)
    assert tried.attempted > 0
    assert tried.failed == 0
