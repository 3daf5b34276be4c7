"""Every verification rule by exact enumeration: the joint law of what is emitted is the target's.

All draws of the draft and all decisions of the real code are walked, over every tree of up to four
tokens.
"""

from __future__ import annotations

import itertools
from fractions import Fraction as F

import pytest

from tests.exact_uniforms import exact_law
from tests.verification import (
    CHAIN_METHODS,
    TREE_METHODS,
    P,
    Q,
    Setting,
    Table,
    block,
    chain,
    chain_rejection,
    constant,
    is_exact,
    num_accepted_law,
    settings,
    shapes,
    star,
    tables,
)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("name", TREE_METHODS)
def test_over_every_tree_the_joint_law_is_exactly_the_targets(name, size):
    for shape in shapes(size):
        cases = settings(2, 3, shape, range(2))
        cases += settings(3, 4, shape, range(3 if size < 4 else 1))
        cases += settings(4, 5, shape, range(2)) if size < 3 else []
        for case in cases:
            assert is_exact(TREE_METHODS[name], case), shape


@pytest.mark.parametrize("name", ["top-k siblings", "distinct siblings", "one choice a node"])
def test_with_as_many_siblings_as_tokens_the_law_is_still_the_targets(name):
    for case in settings(4, 5, star(4), range(3)):
        assert is_exact(TREE_METHODS[name], case)


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("name", CHAIN_METHODS)
def test_over_every_chain_the_joint_law_is_exactly_the_targets(name, length):
    cases = settings(2, 3, chain(length), range(4))
    cases += settings(3, 4, chain(length), range(4 if length < 3 else 2))
    cases += settings(4, 8, chain(length), range(6)) if length < 3 else []
    for case in cases:
        assert is_exact(CHAIN_METHODS[name], case)


@pytest.mark.parametrize("name", [*TREE_METHODS, *CHAIN_METHODS])
def test_a_draft_source_equal_to_the_target_keeps_the_law(name):
    method = (TREE_METHODS | CHAIN_METHODS)[name]
    for seed, shape in itertools.product(
        range(2), (chain(2), star(2) if name in TREE_METHODS else chain(1))
    ):
        same = tables(3, 4, seed)
        assert is_exact(method, Setting(same, same, shape))


def test_greedy_follows_the_targets_choices_through_every_tree():
    """A one-hot target: the emitted tokens are its arg maxes, however far the draft has them."""
    for size, seed in itertools.product((1, 2, 3, 4), range(3)):
        for shape in shapes(size):
            certain_target = one_hot(tables(3, 4, seed))
            for source in (certain_target, one_hot(tables(3, 4, 7)), tables(3, 4, 100)):
                setting = Setting(certain_target, source, shape)
                for name in ("one choice a node", "top-k siblings"):
                    assert is_exact(TREE_METHODS[name], setting)


def one_hot(table: Table) -> Table:
    def certain_table(prefix: tuple[int, ...]) -> tuple[F, ...]:
        probs = table(prefix)
        best = max(range(len(probs)), key=lambda token: (probs[token], -token))
        return tuple(F(token == best) for token in range(len(probs)))

    return certain_table


def test_on_a_chain_every_tree_rule_for_drawn_drafts_is_token_level_rejection():
    for case in settings(3, 4, chain(2), range(4)):
        expected = exact_law(lambda choices, c=case: chain_rejection(choices, c))
        for name in ("independent siblings", "distinct siblings"):
            assert (
                exact_law(lambda choices, c=case, n=name: TREE_METHODS[n](choices, c)) == expected
            )


# Acceptance


@pytest.mark.parametrize(
    ("name", "count", "expected"),
    [
        ("independent siblings", 1, "0.7"),
        ("independent siblings", 2, "0.76"),
        ("independent siblings", 3, "0.808"),
        ("distinct siblings", 1, "0.7"),
        ("distinct siblings", 2, "283/350"),
        ("distinct siblings", 3, "1"),
    ],
)
def test_more_siblings_are_accepted_as_often_as_enumerated(name, count, expected):
    law = num_accepted_law(TREE_METHODS[name], Setting(P, Q, star(count)))
    assert law[1] == F(expected)
    assert float(F("283/350")) == pytest.approx(0.80857, abs=5e-6)


LEAN, RICH = constant("1/3", "2/3"), constant("2/3", "1/3")


@pytest.mark.parametrize(
    ("length", "by_token", "by_block"),
    [(1, "2/3", "2/3"), (2, "10/9", "11/9"), (3, "38/27", "5/3"), (4, "130/81", "166/81")],
)
def test_block_verification_accepts_as_many_tokens_as_was_published(length, by_token, by_block):
    setting = Setting(LEAN, RICH, chain(length))
    for method, expected in ((chain_rejection, by_token), (block, by_block)):
        law = num_accepted_law(method, setting)
        assert sum(F(count) * weight for count, weight in law.items()) == F(expected)
        assert is_exact(method, setting)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_block_verification_never_accepts_fewer_tokens_than_token_by_token(length):
    for case in settings(3, 4, chain(length), range(6 if length < 3 else 2)):
        means = [
            sum(F(count) * weight for count, weight in num_accepted_law(method, case).items())
            for method in (chain_rejection, block)
        ]
        assert means[0] <= means[1]
        assert length > 1 or means[0] == means[1]


def test_equal_distributions_accept_every_draft_whole():
    for seed in range(4):
        same = tables(3, 4, seed)
        for name in ("rejection", "block"):
            law = num_accepted_law(CHAIN_METHODS[name], Setting(same, same, chain(2)))
            assert law == {2: 1}
