"""Details of the rules for comparison: ids that are none, zeros, rows that are never looked at."""

from __future__ import annotations

import numpy as np
import pytest

from lsp_server.engine.types import ROOT, Draft
from lsp_server.engine.verify import Verdict, verify
from lsp_server.engine.verify_rules import (
    distinct_siblings,
    independent_siblings,
    top_k_siblings,
    verify_block,
    without,
)
from tests.verification import star


class Uniforms:
    def __init__(self, *values: float) -> None:
        self.values = list(values)

    def random(self) -> float:
        return self.values.pop(0)


SIBLING_RULES = {
    "top-k": top_k_siblings,
    "independent": independent_siblings,
    "distinct": distinct_siblings,
}


@pytest.mark.parametrize("name", SIBLING_RULES)
@pytest.mark.parametrize("token", [-1, 3, 10**6])
def test_a_sibling_outside_the_vocabulary_is_rejected_and_the_next_one_judged(name, token):
    q = np.array([[0.2, 0.5, 0.3]] * 2)
    draft = Draft((token, 0), "t", q, parents=star(2))
    uniforms = Uniforms(0.0, 0.0)
    rule = SIBLING_RULES[name](draft, lambda row: np.array([1.0, 0.0, 0.0]), lambda _: uniforms)
    assert rule(0, 0, (0, 1)) == (1, 0)


@pytest.mark.parametrize("token", [-1, 3])
def test_a_certain_sibling_outside_the_vocabulary_takes_nothing_from_the_target(token):
    draft = Draft((token, 2), "t", parents=star(2))  # -1 would be 2 as an index
    uniforms = Uniforms(0.0, 0.4)
    rule = top_k_siblings(draft, lambda row: np.array([0.5, 0.0, 0.5]), lambda _: uniforms)
    assert rule(0, 0, (0, 1)) == (1, 2)


@pytest.mark.parametrize("name", SIBLING_RULES)
def test_a_sibling_of_target_probability_zero_is_rejected_also_by_a_uniform_of_zero(name):
    q = np.array([[0.5, 0.5, 0.0]] * 2)
    draft = Draft((0, 1), "t", q, parents=star(2))
    uniforms = Uniforms(0.0, 0.0, 0.0)
    rule = SIBLING_RULES[name](draft, lambda row: np.array([0.0, 0.0, 1.0]), lambda _: uniforms)
    assert rule(0, 0, (0, 1)) == (None, 2)


@pytest.mark.parametrize("uniform", [0.0, 0.5, float(np.nextafter(1.0, 0.0))])
def test_a_block_never_accepts_behind_a_token_of_target_probability_zero(uniform):
    """Neither does it behind a token that its own distribution cannot draw, or that is no token."""
    for first, p in ((0, (0.0, 1.0)), (1, (0.5, 0.5)), (-1, (0.5, 0.5)), (7, (0.5, 0.5))):
        draft = Draft((first, 0), "t", np.array([[1.0, 0.0], [1.0, 0.0]]))
        rows = [np.array(p), np.array([1.0, 0.0]), np.array([1.0, 0.0])]
        verdict = verify_block(draft, rows.__getitem__, Uniforms(uniform, uniform, uniform))
        assert verdict.path == ()


def test_a_block_of_no_tokens_is_a_plain_draw():
    draft = Draft((), "t", np.zeros((0, 2)))
    verdict = verify_block(draft, lambda row: np.array([0.5, 0.5]), Uniforms(0.6))
    assert verdict == Verdict((), 1)


def test_equal_rows_leave_no_residual_and_no_division_by_zero():
    same = np.array([0.5, 0.3, 0.2])
    draft = Draft((0, 1), "t", np.stack([same, same]))
    with np.errstate(all="raise"):
        verdict = verify_block(draft, lambda row: same, Uniforms(0.999, 0.999, 0.1))
    assert verdict == Verdict((0, 1), 0)


def test_what_is_left_without_every_token_is_nothing():
    assert without(np.array([0.5, 0.5]), [0, 1]).tolist() == [0.0, 0.0]
    with np.errstate(all="raise"):
        assert without(np.array([0.0, 1.0]), [1]).tolist() == [0.0, 0.0]


def test_rows_behind_a_rejection_are_not_asked_for():
    asked: list[int] = []

    def target_probs(row: int):
        asked.append(row)
        return np.array([0.0, 0.0, 1.0])

    draft = Draft((0, 1, 0), "t", np.full((3, 3), 1 / 3), parents=(ROOT, ROOT, 0))
    for rule in SIBLING_RULES.values():
        verify(draft, rule(draft, target_probs, lambda depth: Uniforms(0.5, 0.5, 0.5)))
    assert asked == [0] * len(SIBLING_RULES)
