"""Acceptance and correction: tables, and the exact law of the output by enumeration.

Each wrong rule that has been shipped somewhere is a negative control here: the checker rejects it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from fractions import Fraction as F

import numpy as np
import pytest

from lsp_server.engine.sampling import draw
from lsp_server.engine.types import Draft
from lsp_server.engine.verify import Verdict, matching, rejection, residual, verify
from tests.exact_law import Choices, Law, law_of

ALMOST_ONE = np.nextafter(1.0, 0.0)


def chain_verdict(num_accepted: int, next_token: int) -> Verdict:
    return Verdict(tuple(range(num_accepted)), next_token)


def verify_greedy(target_token, draft_ids) -> Verdict:
    draft = Draft(tuple(draft_ids), "t")
    return verify(draft, matching(draft, lambda row, depth: target_token(row)))


def verify_sampled(target_probs, draft: Draft, rng) -> Verdict:
    """As the decoding loop does it: without distributions the target's own draw has to match."""
    if draft.draft_probs is not None:
        return verify(draft, rejection(draft, target_probs, rng))
    return verify(
        draft, matching(draft, lambda row, depth: draw(target_probs(row), rng(depth).random()))
    )


class Uniforms:
    """The uniforms of one position, in order."""

    def __init__(self, *values: float) -> None:
        self.values = list(values)

    def random(self) -> float:
        return self.values.pop(0)


def verify_one(p, q, token, *uniforms: float, bonus=(1.0, 0.0, 0.0)) -> Verdict:
    rows = [np.array(p, float), np.array(bonus, float)]
    probs = None if q is None else np.array([q], float)
    sources = [Uniforms(*uniforms), Uniforms(0.0)]
    return verify_sampled(rows.__getitem__, Draft((token,), "t", probs), sources.__getitem__)


# Greedy


@pytest.mark.parametrize(
    ("target", "draft", "verdict"),
    [
        ([1, 2, 3, 4], [1, 2, 3], chain_verdict(3, 4)),
        ([1, 5, 3, 4], [1, 2, 3], chain_verdict(1, 5)),
        ([5], [], chain_verdict(0, 5)),
        ([1, 2, 3, 4], [-1, 2, 3], chain_verdict(0, 1)),
        ([9, 2, 3, 4], [1, 2, 3], chain_verdict(0, 9)),
        ([1, 2, 9, 4], [1, 2, 3], chain_verdict(2, 9)),
    ],
)
def test_greedy_accepts_the_agreeing_prefix_and_emits_the_targets_next_token(
    target, draft, verdict
):
    assert verify_greedy(target.__getitem__, draft) == verdict


def test_greedy_never_looks_at_a_row_behind_the_first_rejection():
    asked = []

    def target(row: int) -> int:
        asked.append(row)
        return [1, 5, 3, 4][row]

    verify_greedy(target, [1, 2, 3])
    assert asked == [0, 1]


# Sampling: single decisions


def test_a_token_of_target_probability_zero_is_rejected_also_by_a_uniform_of_zero():
    verdict = verify_one([0.0, 0.5, 0.5], [0.5, 0.5, 0.0], 0, 0.0, 0.0)
    assert verdict == chain_verdict(0, 2)


@pytest.mark.parametrize(
    "q", [0.4, 0.8, 1 / 3, 0.1 + 0.2, 2.0**-40, np.nextafter(0.8, 0), np.nextafter(0.5, 1)]
)
def test_a_token_at_least_as_likely_in_the_target_is_accepted_by_every_uniform(q):
    p = max(q, 0.8 if q <= 0.8 else q)
    assert verify_one([p, 1 - p, 0], [q, 1 - q, 0], 0, ALMOST_ONE).num_accepted == 1
    assert verify_one([q, 1 - q, 0], [q, 1 - q, 0], 0, ALMOST_ONE).num_accepted == 1


@pytest.mark.parametrize(("p", "q", "ratio"), [(0.2, 0.4, 0.5), (0.1, 1.0, 0.1)])
def test_a_less_likely_token_is_accepted_just_below_the_ratio_and_not_above(p, q, ratio):
    target, drawn = [p, 1 - p, 0], [q, 1 - q, 0]
    assert verify_one(target, drawn, 0, ratio - 1e-9).num_accepted == 1
    assert verify_one(target, drawn, 0, ratio + 1e-9, 0.5).num_accepted == 0


def test_acceptance_is_strict_where_the_uniform_equals_the_ratio():
    assert verify_one([0.25, 0.75, 0], [0.5, 0.5, 0], 0, 0.5, 0.5) == chain_verdict(0, 1)


def test_a_token_its_own_distribution_cannot_draw_is_rejected_without_dividing():
    with np.errstate(all="raise"):
        assert verify_one([0.5, 0.5, 0], [0.0, 1.0, 0], 0, 0.0, 0.0) == chain_verdict(0, 0)


@pytest.mark.parametrize("token", [-1, 3, 10**6])
def test_an_id_outside_the_vocabulary_is_rejected_and_never_an_index(token):
    assert verify_one([0.5, 0.5, 0], [0.5, 0.5, 0], token, 0.0, 0.0).num_accepted == 0
    assert verify_one([0.5, 0.5, 0], None, token, 0.0).num_accepted == 0


@pytest.mark.parametrize(
    ("p", "q", "expected"),
    [
        ((0.5, 0.3, 0.2), (0.2, 0.5, 0.3), (1, 0, 0)),
        ((0.1, 0.5, 0.2, 0.2), (0.3, 0.2, 0.3, 0.2), (0, 1, 0, 0)),
        ((0.4, 0.3, 0.2, 0.1), (0.1, 0.1, 0.4, 0.4), (0.6, 0.4, 0, 0)),
        ((0.5, 0.3, 0.2), (0.5, 0.3, 0.2), (0.5, 0.3, 0.2)),
    ],
)
def test_the_residual_is_the_normalised_positive_part_or_the_target_where_that_is_zero(
    p, q, expected
):
    np.testing.assert_allclose(residual(np.array(p), np.array(q)), expected, atol=1e-12)


def test_with_sparse_supports_every_rejection_yields_the_token_the_draft_cannot_draw():
    p, q = np.zeros(9), np.zeros(9)
    p[[1, 4, 8]] = 0.2, 0.5, 0.3
    q[[1, 8]] = 0.4, 0.6
    for token, uniform in itertools.product((1, 8), np.linspace(0, ALMOST_ONE, 21)):
        verdict = verify_one(p, q, token, 0.51, uniform, bonus=np.eye(9)[0])
        assert verdict == chain_verdict(0, 4)


def test_rows_behind_a_rejection_and_their_randomness_are_never_asked_for():
    asked: list[int] = []
    rows = [np.array([0.0, 1.0]), np.array([1.0, 0.0]), np.array([1.0, 0.0])]

    def target(row: int):
        asked.append(row)
        return rows[row]

    draft = Draft((0, 0), "t", np.array([[1.0, 0.0]] * 2))
    assert verify_sampled(target, draft, lambda row: Uniforms(0.0, 0.0)) == chain_verdict(0, 1)
    assert asked == [0]


def test_an_empty_draft_draws_exactly_one_uniform():
    source = Uniforms(0.6)
    verdict = verify_sampled(lambda row: np.array([0.5, 0.5]), Draft((), "t"), lambda row: source)
    assert verdict == chain_verdict(0, 1)
    assert source.values == []


# Sampling: the whole law


Table = Callable[[tuple[int, ...]], tuple[F, ...]]
Rule = Callable[..., Verdict]


def tables(vocab: int, parts: int, seed: int) -> Table:
    """Prefix -> random probabilities that are multiples of 1/parts, zeros among them."""

    @functools.cache
    def table(prefix: tuple[int, ...]) -> tuple[F, ...]:
        rng = np.random.default_rng([seed, vocab, *prefix])
        counts = np.bincount(rng.integers(vocab, size=parts), minlength=vocab)
        return tuple(F(int(count), parts) for count in counts)

    return table


@functools.cache
def array(probs: tuple[F, ...]):
    return np.array([float(p) for p in probs])


def joint_law(target: Table, length: int) -> Law:
    law = Law({(): F(1)})
    for _ in range(length):
        law = Law(
            {(*s, t): w * p for s, w in law.items() for t, p in enumerate(target(s)) if w * p}
        )
    return law


def speculative_law(
    rule: Rule, target: Table, source: Table, length: int, grid: int, *, one_hot: bool
) -> Law:
    """The law of length + 1 tokens: a verified draft, then plain sampling for what is missing."""

    def run(choices: Choices) -> tuple[int, ...]:
        drawn: tuple[int, ...] = ()
        for _ in range(length):
            drawn += (choices.pick(source(drawn)),)
        probs = [array(source(drawn[:i])) for i in range(length)]
        draft = Draft(drawn, "t", None if one_hot else np.array(probs))
        verdict = rule(lambda row: array(target(drawn[:row])), draft, lambda row: choices)
        return (*drawn[: verdict.num_accepted], verdict.next_token)

    law = Law()
    for emitted, weight in law_of(run, grid).items():
        rest = joint_law(lambda s, e=emitted: target((*e, *s)), length + 1 - len(emitted))
        for tail, share in rest.items():
            law[(*emitted, *tail)] = law.get((*emitted, *tail), F(0)) + weight * share
    return law


# vocabulary, parts, draft length, grid: the grid holds every ratio and residual of these parts
SIZES = [(2, 3, 1, 6), (2, 3, 2, 6), (3, 4, 1, 12), (4, 4, 1, 12)]


@pytest.mark.parametrize("one_hot", [True, False], ids=["one_hot", "drawn"])
@pytest.mark.parametrize(
    ("size", "num_tables"), [*((size, 3) for size in SIZES), ((2, 3, 3, 6), 1), ((3, 3, 2, 6), 1)]
)
def test_the_joint_law_of_all_tokens_is_exactly_the_targets(size, num_tables, one_hot):
    vocab, parts, length, grid = size
    for seed in range(num_tables):
        target = tables(vocab, parts, seed)
        source = tables(vocab, parts, 100 + seed)
        law = speculative_law(verify_sampled, target, source, length, grid, one_hot=one_hot)
        assert law == joint_law(target, length + 1)


def _pick(probs, uniform: float) -> int:
    return int(np.searchsorted(np.cumsum(probs), uniform * sum(probs), side="right"))


def _chain(correct, *, bonus_row: int = 0) -> Rule:
    def rule(target, draft: Draft, rng) -> Verdict:
        count = len(draft.token_ids)
        for row, token in enumerate(draft.token_ids):
            p, q = target(row), draft.draft_probs[row]
            if not (q[token] > 0 and rng(row).random() * q[token] < p[token]):
                return chain_verdict(row, _pick(correct(p, q, token), rng(row).random()))
        return chain_verdict(count, _pick(target(count + bonus_row), rng(count).random()))

    return rule


WRONG_RULES = {
    "correction drawn from the target": _chain(lambda p, q, token: p),
    "correction with the token alone removed": _chain(
        lambda p, q, token: np.where(np.arange(len(p)) == token, 0, p) + 1e-30
    ),
    "residual of absolute differences": _chain(lambda p, q, token: np.abs(p - q) + 1e-30),
    "bonus from the row before": _chain(lambda p, q, token: residual(p, q), bonus_row=-1),
}


@pytest.mark.parametrize("name", WRONG_RULES)
def test_the_law_checker_rejects_a_wrong_rule(name):
    target, source = tables(3, 4, 0), tables(3, 4, 100)
    law = speculative_law(WRONG_RULES[name], target, source, 1, 12, one_hot=False)
    assert law != joint_law(target, 2)


def constant(*probs: F | int | str) -> Table:
    exact = tuple(F(p) for p in probs)
    return lambda prefix: exact


P, Q = constant("0.5", "0.3", "0.2"), constant("0.2", "0.5", "0.3")


def first_token(law: Law) -> list[F]:
    return [sum((w for s, w in law.items() if s[0] == t), F(0)) for t in range(3)]


def test_the_published_wrong_rules_give_their_published_wrong_laws():
    """The figures are exact enumerations for p = (.5, .3, .2), q = (.2, .5, .3)."""
    from_target = WRONG_RULES["correction drawn from the target"]
    law = speculative_law(from_target, P, Q, 1, 30, one_hot=False)
    assert first_token(law) == [F("0.35"), F("0.39"), F("0.26")]

    tokens = constant(0, 1, 0)  # the arg max of q, drawn with certainty

    def argmax_with_softmax(target, draft, rng):
        return verify_sampled(target, Draft(draft.token_ids, "t", np.array([[0.2, 0.5, 0.3]])), rng)

    law = speculative_law(argmax_with_softmax, P, tokens, 1, 30, one_hot=True)
    assert first_token(law) == [F("0.4"), F("0.6"), F(0)]


def acceptance(target: Table, source: Table, grid: int, *, one_hot: bool) -> F:
    """P(the first drafted token is accepted); what is emitted afterwards is not enumerated."""

    def run(choices: Choices) -> int:
        token = choices.pick(source(()))
        draft = Draft((token,), "t", None if one_hot else np.array([array(source(()))]))
        sources = [Uniforms(choices.random(), 0.5), Uniforms(0.5)]
        return verify_sampled(
            lambda row: array(target(())), draft, sources.__getitem__
        ).num_accepted

    return law_of(run, grid).get(1, F(0))


DISJOINT_P, DISJOINT_Q = (
    constant("0.4", "0.3", "0.2", "0.1"),
    constant("0.1", "0.1", "0.4", "0.4"),
)
SGLANG_P, SGLANG_Q = constant("0.6", "0.2", "0.1", "0.1"), constant("0.7", "0.2", "0.05", "0.05")
CUT_P = constant("5/8", "3/8", 0)


@pytest.mark.parametrize(
    ("target", "source", "grid", "one_hot", "expected"),
    [
        (P, Q, 30, False, "0.7"),
        (DISJOINT_P, DISJOINT_Q, 20, False, "0.5"),
        (SGLANG_P, SGLANG_Q, 140, False, "0.9"),
        (SGLANG_P, constant(1, 0, 0, 0), 10, True, "0.6"),
        (SGLANG_P, SGLANG_Q, 20, True, "0.47"),
        (CUT_P, Q, 40, False, "0.575"),
        (CUT_P, constant("2/7", "5/7", 0), 40, False, "37/56"),
    ],
    ids=["p-q", "disjoint", "sglang", "sglang-argmax", "sglang-equality", "cut-p", "cut-both"],
)
def test_the_acceptance_rate_is_the_enumerated_one(target, source, grid, one_hot, expected):
    assert acceptance(target, source, grid, one_hot=one_hot) == F(expected)


def test_equal_distributions_are_always_accepted_and_keep_their_law():
    assert acceptance(P, P, 30, one_hot=False) == 1
    assert first_token(speculative_law(verify_sampled, P, P, 1, 10, one_hot=False)) == list(P(()))


def test_a_deterministic_draft_leaves_the_target_without_its_token_on_rejection():
    def run(choices: Choices):
        verdict = verify_sampled(lambda row: array(P(())), Draft((0,), "t"), lambda row: choices)
        return verdict.num_accepted, verdict.next_token if not verdict.num_accepted else None

    assert law_of(run, 10) == {(1, None): F(1, 2), (0, 1): F(3, 10), (0, 2): F(1, 5)}


def test_a_target_cut_to_its_nucleus_stays_exact_under_an_uncut_draft():
    target = CUT_P
    law = speculative_law(verify_sampled, target, Q, 1, 8, one_hot=False)
    assert law == joint_law(target, 2)
