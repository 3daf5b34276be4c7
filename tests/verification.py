"""One verification round on exact tables: how drafts come about, every rule, the law of the output.

Helpers of the tests that enumerate; the code under test is the product's, in floats.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction as F

import numpy as np

from lsp_server.engine.sampling import draw
from lsp_server.engine.types import ROOT, Draft
from lsp_server.engine.verify import Verdict, matching, rejection, rejection_sample, verify
from lsp_server.engine.verify_rules import (
    distinct_siblings,
    independent_siblings,
    top_k_siblings,
    verify_block,
)
from tests.exact_law import Law
from tests.exact_uniforms import ExactChoices, exact_law

Table = Callable[[tuple[int, ...]], tuple[F, ...]]
"""Prefix -> probabilities."""
Shape = tuple[int, ...]
"""Parents of a tree's tokens."""


def tables(vocab: int, parts: int, seed: int) -> Table:
    """Random probabilities that are multiples of 1/parts, zeros among them, other ones behind each
    prefix."""

    @functools.cache
    def table(prefix: tuple[int, ...]) -> tuple[F, ...]:
        rng = np.random.default_rng([seed, vocab, *prefix])
        counts = np.bincount(rng.integers(vocab, size=parts), minlength=vocab)
        return tuple(F(int(count), parts) for count in counts)

    return table


def constant(*probs: F | int | str) -> Table:
    exact = tuple(F(p) for p in probs)
    return lambda prefix: exact


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


# How the tokens of a draft come about: (choices, q, tokens of earlier siblings) -> token or None

Drawing = Callable[[ExactChoices, tuple[F, ...], Sequence[int]], int | None]


def certain(choices: ExactChoices, q: tuple[F, ...], earlier: Sequence[int]) -> int | None:
    """The likeliest of those left, as a head's top k; nothing is drawn."""
    left = [token for token in range(len(q)) if token not in earlier]
    return max(left, key=lambda token: (q[token], -token)) if left else None


def independent(choices: ExactChoices, q: tuple[F, ...], earlier: Sequence[int]) -> int | None:
    return choices.pick(q)


def distinct(choices: ExactChoices, q: tuple[F, ...], earlier: Sequence[int]) -> int | None:
    left = [F(0) if token in earlier else p for token, p in enumerate(q)]
    total = sum(left)
    return choices.pick([p / total for p in left]) if total else None


@dataclass(frozen=True)
class Setting:
    """A target and a source of drafts of one shape."""

    target: Table
    source: Table
    shape: Shape

    def draft(self, choices: ExactChoices, drawing: Drawing) -> Draft:
        """Tokens that cannot be had (nothing left to draw) are left out with what follows them."""
        prefixes: dict[int, tuple[int, ...]] = {ROOT: ()}
        place = {ROOT: ROOT}
        token_ids: list[int] = []
        parents: list[int] = []
        rows = []
        for node, parent in enumerate(self.shape):
            if parent not in place:
                continue
            earlier = [t for t, p in zip(token_ids, parents, strict=True) if p == place[parent]]
            q = self.source(prefixes[parent])
            token = drawing(choices, q, earlier)
            if token is None:
                continue
            place[node] = len(token_ids)
            prefixes[node] = (*prefixes[parent], token)
            token_ids.append(token)
            parents.append(place[parent])
            rows.append(array(q))
        return Draft(tuple(token_ids), "t", np.array(rows), parents=tuple(parents))

    def row(self, draft: Draft) -> Callable[[int], np.ndarray]:
        def target_probs(row: int) -> np.ndarray:
            prefix = tuple(draft.token_ids[node] for node in draft.path(row - 1))
            return array(self.target(prefix))

        return target_probs


Method = Callable[[ExactChoices, Setting], tuple[int, ...]]
"""One round: the tokens that it emits."""


def emitted(draft: Draft, verdict: Verdict) -> tuple[int, ...]:
    return (*(draft.token_ids[node] for node in verdict.path), verdict.next_token)


def by_rule(rule, drawing: Drawing) -> Method:
    def method(choices: ExactChoices, setting: Setting) -> tuple[int, ...]:
        draft = setting.draft(choices, drawing)
        verdict = verify(draft, rule(draft, setting.row(draft), lambda depth: choices))
        return emitted(draft, verdict)

    return method


def one_choice(draft: Draft, target_probs, rng):
    return matching(draft, lambda row, depth: draw(target_probs(row), rng(depth).random()))


def as_chain(draft: Draft) -> Draft:
    return Draft(draft.token_ids, "t", draft.draft_probs)


def chain_rejection(choices: ExactChoices, setting: Setting) -> tuple[int, ...]:
    draft = as_chain(setting.draft(choices, independent))
    rule = rejection(draft, setting.row(draft), lambda depth: choices)  # type: ignore[arg-type]  # exact stand-ins
    return emitted(draft, verify(draft, rule))


def block(choices: ExactChoices, setting: Setting) -> tuple[int, ...]:
    draft = as_chain(setting.draft(choices, independent))
    return emitted(draft, verify_block(draft, setting.row(draft), choices))  # type: ignore[arg-type]  # exact stand-ins


def single_sample(choices: ExactChoices, setting: Setting) -> tuple[int, ...]:
    """The learner's operator at the first position."""
    draft = setting.draft(choices, independent)
    probs = draft.draft_probs
    token = draft.token_ids[0]
    return (rejection_sample(setting.row(draft)(0), probs[0], token, choices)[1],)  # type: ignore[index, arg-type]  # exact stand-ins


TREE_METHODS: dict[str, Method] = {
    "one choice a node": by_rule(one_choice, certain),
    "one choice a node, drawn siblings": by_rule(one_choice, distinct),
    "top-k siblings": by_rule(top_k_siblings, certain),
    "independent siblings": by_rule(independent_siblings, independent),
    "distinct siblings": by_rule(distinct_siblings, distinct),
}
CHAIN_METHODS: dict[str, Method] = {
    "rejection": chain_rejection,
    "block": block,
    "one operator": single_sample,
}


def chain(length: int) -> Shape:
    return tuple(range(-1, length - 1))


def star(count: int) -> Shape:
    return (ROOT,) * count


def shapes(size: int) -> list[Shape]:
    """Every tree of `size` tokens whose parents stand before their children."""
    return list(itertools.product(*(range(-1, node) for node in range(size))))


def depth(shape: Shape) -> int:
    return Draft(shape, "t", parents=shape).depth


def law_of(method: Method, setting: Setting, length: int | None = None) -> Law:
    """The law of one round, continued by plain sampling to one token more than the draft's depth.

    A round's own end is at most that long.
    """
    length = depth(setting.shape) + 1 if length is None else length
    law = Law()
    for tokens, weight in exact_law(lambda choices: method(choices, setting)).items():
        rest = joint_law(lambda s, e=tokens: setting.target((*e, *s)), length - len(tokens))
        for tail, share in rest.items():
            law[(*tokens, *tail)] = law.get((*tokens, *tail), F(0)) + weight * share
    return law


def is_exact(method: Method, setting: Setting) -> bool:
    length = depth(setting.shape) + 1
    return law_of(method, setting, length) == joint_law(setting.target, length)


def settings(vocab: int, parts: int, shape: Shape, seeds: Sequence[int]) -> list[Setting]:
    return [Setting(tables(vocab, parts, s), tables(vocab, parts, 100 + s), shape) for s in seeds]


def num_accepted_law(method: Method, setting: Setting) -> Law:
    law = Law()
    for tokens, weight in exact_law(lambda choices: method(choices, setting)).items():
        law[len(tokens) - 1] = law.get(len(tokens) - 1, F(0)) + weight
    return law


P, Q = constant("0.5", "0.3", "0.2"), constant("0.2", "0.5", "0.3")
WIDE_P = constant("0.4", "0.3", "0.2", "0.1")
WIDE_Q = constant("0.1", "0.1", "0.4", "0.4")
