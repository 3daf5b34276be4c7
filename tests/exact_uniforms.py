"""Uniform numbers that decide only what they are asked: exact laws of code that computes in floats.

A uniform starts as [0, 1) and each comparison with a float splits what is left of it in two, with
exact probabilities. The float stands for the fraction with a small denominator that it is nearest
to, so rounding in the code under test leaves no trace and no grid has to be fine enough.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tests.exact_law import Choices, Law


class ExactChoices(Choices):
    """Choices whose `random` gives a `Uniform`; stands in for `numpy.random.Generator`."""

    def __init__(self) -> None:
        super().__init__(grid=1)

    def random(self) -> Uniform:  # type: ignore[override]  # exact, no float
        return Uniform(self, [Fraction(0), Fraction(1)])


@dataclass(slots=True, eq=False)
class Uniform:
    """`factor * u + shift` for a u in [low, high); what a comparison decides stays decided."""

    _choices: ExactChoices
    _bounds: list[Fraction]
    _factor: Fraction = Fraction(1)
    _shift: Fraction = Fraction(0)

    def __mul__(self, other: float) -> Uniform:
        by = exact(float(other))
        return Uniform(self._choices, self._bounds, self._factor * by, self._shift * by)

    def __sub__(self, other: float) -> Uniform:
        shift = self._shift - exact(float(other))
        return Uniform(self._choices, self._bounds, self._factor, shift)

    def __lt__(self, other: float | Uniform) -> bool:
        if isinstance(other, Uniform):  # a search compares what it looks for with itself
            return False
        return self._below(exact(float(other)))

    __le__ = __lt__  # equality has probability 0

    def __gt__(self, other: float) -> bool:
        return not self < other

    __ge__ = __gt__

    def _below(self, value: Fraction) -> bool:
        if self._factor == 0:
            return value > self._shift
        limit = (value - self._shift) / self._factor
        low, high = self._bounds
        if limit <= low:
            return False
        if limit >= high:
            return True
        share = (limit - low) / (high - low)
        below = self._choices.pick((share, 1 - share)) == 0
        self._bounds[:] = (low, limit) if below else (limit, high)
        return below


@functools.cache
def exact(value: float) -> Fraction:
    """The fraction that a float was computed for; an assertion if there is none with a denominator
    of up to a million."""
    fraction = Fraction(value).limit_denominator(10**6)
    assert abs(fraction - Fraction(value)) < Fraction(1, 10**13), value
    return fraction


def exact_law(run: Callable[[ExactChoices], Any]) -> Law:
    """Outcome -> exact probability of `run`."""
    choices, law = ExactChoices(), Law()
    for _ in choices.paths():
        outcome = run(choices)
        law[outcome] = law.get(outcome, Fraction(0)) + choices.weight
    return law
