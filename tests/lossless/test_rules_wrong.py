"""Rules that have been published or shipped wrong: the checker of exact laws rejects each of them.

Without these the checker's agreement with the right rules would mean little.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction as F

import numpy as np
import pytest

from lsp_server.engine.sampling import draw
from lsp_server.engine.types import Draft
from lsp_server.engine.verify import accepts, rejection, residual, verify
from lsp_server.engine.verify_rules import (
    distinct_siblings,
    independent_siblings,
    verify_block,
)
from tests.exact_law import Law
from tests.exact_uniforms import ExactChoices, Uniform, exact_law
from tests.verification import (
    WIDE_P,
    WIDE_Q,
    Method,
    P,
    Q,
    Setting,
    Shape,
    as_chain,
    by_rule,
    certain,
    chain,
    distinct,
    emitted,
    independent,
    is_exact,
    joint_law,
    law_of,
    settings,
    star,
)


def correction_from_the_target(choices: ExactChoices, setting: Setting) -> tuple[int, ...]:
    draft = as_chain(setting.draft(choices, independent))
    row, q = setting.row(draft), draft.draft_probs
    for place, token in enumerate(draft.token_ids):
        if not accepts(row(place), q[place], token, choices.random()):
            return (*draft.token_ids[:place], draw(row(place), choices.random()))
    return (*draft.token_ids, draw(row(len(draft.token_ids)), choices.random()))


def arg_max_as_if_drawn(choices: ExactChoices, setting: Setting) -> tuple[int, ...]:
    draft = as_chain(setting.draft(choices, certain))
    rule = rejection(draft, setting.row(draft), lambda depth: choices)
    return emitted(draft, verify(draft, rule))


def a_sample_for_each_path(choices: ExactChoices, setting: Setting) -> tuple[int, ...]:
    """The nucleus check of Medusa's and REST's code: the target is sampled anew along each path
    and the longest agreement wins; what follows is sampled once more."""
    draft = setting.draft(choices, certain)
    row, best = setting.row(draft), ()
    leaves = [n for n in range(len(draft.token_ids)) if not draft.children(n)]
    for leaf in leaves:
        agreed: tuple[int, ...] = ()
        for node in draft.path(leaf):
            parent_row = draft.parents[node] + 1
            if draw(row(parent_row), choices.random()) != draft.token_ids[node]:
                break
            agreed += (node,)
        best = max(best, agreed, key=len)
    tokens = tuple(draft.token_ids[node] for node in best)
    return (*tokens, draw(row(best[-1] + 1 if best else 0), choices.random()))


def reordered(sort_key) -> Method:
    """Siblings of one node, drawn without replacement and then sorted."""

    def method(choices: ExactChoices, setting: Setting) -> tuple[int, ...]:
        drawn = setting.draft(choices, distinct)
        q = drawn.draft_probs[0]
        order = sorted(drawn.token_ids, key=lambda token: sort_key(token, q))
        draft = Draft(tuple(order), "t", drawn.draft_probs, parents=drawn.parents)
        rule = distinct_siblings(draft, setting.row(draft), lambda depth: choices)
        return emitted(draft, verify(draft, rule))

    return method


def without_duplicates(choices: ExactChoices, setting: Setting) -> tuple[int, ...]:
    drawn = setting.draft(choices, independent)
    first = [n for n, token in enumerate(drawn.token_ids) if token not in drawn.token_ids[:n]]
    draft = drawn.select(first)
    rule = independent_siblings(draft, setting.row(draft), lambda depth: choices)
    return emitted(draft, verify(draft, rule))


def block_stopping_at_the_first_failure(choices: ExactChoices, setting: Setting):
    """Tests of block verification, read like those of token-level rejection."""
    draft = as_chain(setting.draft(choices, independent))
    p, q = setting.row(draft), draft.draft_probs
    weight, count = 1.0, len(draft.token_ids)
    for place, token in enumerate(draft.token_ids):
        before, weight = weight, min(weight * p(place)[token] / q[place][token], 1.0)
        if place + 1 < count and weight < 1.0:
            excess = np.maximum(weight * p(place + 1) - q[place + 1], 0).sum()
            passes = excess / (excess + 1 - weight)
        else:
            passes = weight
        if not choices.random() < passes:
            rest = residual(before * p(place), q[place])
            return (*draft.token_ids[:place], draw(rest, choices.random()))
    return (*draft.token_ids, draw(p(count), choices.random()))


WRONG: dict[str, tuple[Method, Shape]] = {
    "correction from the target": (correction_from_the_target, chain(1)),
    "arg max held against its softmax": (arg_max_as_if_drawn, chain(1)),
    "a sample for each path": (a_sample_for_each_path, star(2)),
    "drawn without replacement, held against the whole q": (
        by_rule(independent_siblings, distinct),
        star(2),
    ),
    "siblings sorted by id": (reordered(lambda token, q: token), star(2)),
    "siblings sorted by draft probability": (
        reordered(lambda token, q: -q[token]),  # equals stay as drawn
        star(2),
    ),
    "independent draws without duplicates": (without_duplicates, star(2)),
    "top-k siblings held against the head's softmax": (
        by_rule(independent_siblings, certain),
        star(2),
    ),
    "block verification that stops at the first failure": (
        block_stopping_at_the_first_failure,
        chain(2),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_checker_rejects_a_wrong_rule(name):
    method, shape = WRONG[name]
    cases = settings(3, 4, shape, range(6))
    assert not all(is_exact(method, case) for case in cases)


def first_token(law: Law, vocab: int) -> list[F]:
    return [sum((w for s, w in law.items() if s[0] == t), F(0)) for t in range(vocab)]


PUBLISHED = {
    "correction from the target": (P, Q, ("0.35", "0.39", "0.26")),
    "arg max held against its softmax": (P, Q, ("0.4", "0.6", "0")),
    "a sample for each path": (P, P, ("0.675", "0.255", "0.07")),
    "drawn without replacement, held against the whole q": (
        WIDE_P,
        WIDE_Q,
        ("47/120", "37/120", "0.2", "0.1"),
    ),
    "siblings sorted by id": (WIDE_P, WIDE_Q, ("94/225", "71/225", "4/15", "0")),
    "siblings sorted by draft probability": (
        WIDE_P,
        WIDE_Q,
        ("11/30", "4/15", "11/45", "11/90"),
    ),
    "independent draws without duplicates": (WIDE_P, WIDE_Q, ("0.395", "0.305", "0.2", "0.1")),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_wrong_rule_gives_the_wrong_law_that_was_published(name):
    target, source, published = PUBLISHED[name]
    method, shape = WRONG[name]
    law = law_of(method, Setting(target, source, shape))
    assert first_token(law, len(published)) == [F(p) for p in published]
    assert [F(p) for p in published] != list(target(()))


class _CoinsByPosition:
    """A generator whose tests of a block come from one coin a position, kept over rounds."""

    def __init__(self, choices: ExactChoices, coins: Sequence[Uniform]) -> None:
        self._choices, self._coins = choices, list(coins)

    def random(self) -> Uniform:
        return self._coins.pop(0) if self._coins else self._choices.random()


@pytest.mark.parametrize("kept", [False, True], ids=["one generator a block", "by position"])
def test_a_block_must_not_reuse_coins_that_an_earlier_block_has_looked_at(kept):
    """Coins behind the last accepted token have failed, so they are no uniforms any more."""

    def two_blocks(choices: ExactChoices) -> tuple[int, ...]:
        coins = [choices.random() for _ in range(4)]
        text: tuple[int, ...] = ()
        for _ in range(2):
            begin = len(text)
            setting = Setting(P, Q, chain(2))
            draft = as_chain(setting.draft(choices, independent))
            known = coins[begin : begin + 2] if kept else []
            rng = _CoinsByPosition(choices, known)
            text += emitted(draft, verify_block(draft, setting.row(draft), rng))
        return text[:2]

    assert (exact_law(two_blocks) == joint_law(P, 2)) is not kept
