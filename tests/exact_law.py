"""The exact law of a randomised function, by walking every path through its uniform draws.

All probabilities used with it are multiples of small fractions, and uniforms are the midpoints of a
grid that those fractions divide, so each comparison `u < a/b` has its exact probability and nothing
depends on rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

Law = dict[Any, Fraction]


class Choices:
    """A source of draws that replays one path; stands in for `numpy.random.Generator`."""

    def __init__(self, grid: int) -> None:
        self.grid = grid
        self._uniform = (Fraction(1, grid),) * grid
        self._path: list[tuple[int, tuple[Fraction, ...]]] = []
        self._depth = 0

    def random(self) -> float:
        """A midpoint of the grid, each as likely as the other."""
        return (self._choose(self._uniform) + 0.5) / self.grid

    def pick(self, probs: Sequence[Fraction]) -> int:
        """An index, with exactly these probabilities."""
        return self._choose(tuple(probs))

    def paths(self) -> Iterator[None]:
        """Once for each path of nonzero probability; draw in between, then read `weight`."""
        while True:
            self._depth = 0
            yield
            del self._path[self._depth :]
            while self._path:
                index, probs = self._path.pop()
                later = next((i for i in range(index + 1, len(probs)) if probs[i]), None)
                if later is not None:
                    self._path.append((later, probs))
                    break
            if not self._path:
                return

    @property
    def weight(self) -> Fraction:
        top = bottom = 1
        for index, probs in self._path[: self._depth]:
            top *= probs[index].numerator
            bottom *= probs[index].denominator
        return Fraction(top, bottom)

    def _choose(self, probs: tuple[Fraction, ...]) -> int:
        if self._depth == len(self._path):
            self._path.append((next(i for i, p in enumerate(probs) if p), probs))
        index, _ = self._path[self._depth]
        self._depth += 1
        return index


def law_of(run: Callable[[Choices], Any], grid: int) -> Law:
    """Outcome -> exact probability of `run`."""
    choices, law = Choices(grid), Law()
    for _ in choices.paths():
        outcome = run(choices)
        law[outcome] = law.get(outcome, Fraction(0)) + choices.weight
    return law
