"""What speculation is worth: expected tokens of a pass, the speed-up, and where a method stops
paying. Closed forms of Leviathan et al. 2023 (arXiv 2211.17192), with the measured cost of a pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

PassCost = Callable[[int], float]
"""V: tokens of a target pass -> its cost. The cost of a draft is in the same unit."""


def expected_by_depth(acceptances: Iterable[float]) -> Iterator[float]:
    """Expected tokens of a pass with 1, 2, ... drafted tokens.

    >>> list(expected_by_depth([0.5, 0.5]))
    [1.5, 1.75]
    """
    expected = reached = 1.0
    for acceptance in acceptances:
        reached *= acceptance
        expected += reached
        yield expected


def expected_tokens(acceptances: Iterable[float]) -> float:
    """Tokens that a pass emits on average: 1 + a1 + a1*a2 + ...

    Args:
        acceptances: per position of the draft, the chance that its token is accepted when those
            before it were.

    >>> expected_tokens([0.5, 0.5])
    1.75
    """
    *_, expected = (1.0, *expected_by_depth(acceptances))
    return expected


def expected_tokens_of_chain(acceptance: float, num_drafted: int) -> float:
    """The same where the chance is a at each of g positions: (1 - a^(g+1)) / (1 - a).

    >>> round(expected_tokens_of_chain(0.5, 2), 6), expected_tokens_of_chain(1.0, 4)
    (1.75, 5.0)
    """
    if acceptance in (0.0, 1.0):
        return 1.0 + acceptance * num_drafted
    # 1 - a^n written so that nothing is lost where a is close to 1.
    return -math.expm1((num_drafted + 1) * math.log(acceptance)) / (1.0 - acceptance)


def speedup(expected: float, pass_cost: float, draft_cost: float = 0.0) -> float:
    """Against plain decoding: E / (V + c), for a chain or a tree.

    Args:
        expected: tokens that the pass emits on average.
        pass_cost: V of the pass, in plain passes: V(M) / V(1) where it has M tokens.
        draft_cost: c of the whole draft, in plain passes.

    >>> speedup(1.8, 1.5)
    1.2
    """
    return expected / (pass_cost + draft_cost)


def chain_speedup(
    acceptance: float, num_drafted: int, pass_cost: PassCost, step_cost: float = 0.0
) -> float:
    """The same for a chain of g tokens, each of which costs c to draft: more than 1 where
    (1 - a^(g+1)) / (1 - a) > (V(g+1) + g*c) / V(1).

    >>> round(chain_speedup(0.8, 4, {1: 1.0, 5: 1.3}.__getitem__, 0.1), 2)
    1.98
    """
    plain = pass_cost(1)
    width_cost, draft_cost = pass_cost(num_drafted + 1) / plain, num_drafted * step_cost / plain
    return speedup(expected_tokens_of_chain(acceptance, num_drafted), width_cost, draft_cost)


def break_even(pass_cost: PassCost, step_cost: float = 0.0) -> float:
    """The acceptance above which one drafted token pays: (V(2) - V(1) + c) / V(1).

    At 1 or more no draft of one token ever does.

    >>> round(break_even({1: 1.0, 2: 1.4}.__getitem__), 2)
    0.4
    """
    return (pass_cost(2) - pass_cost(1) + step_cost) / pass_cost(1)
