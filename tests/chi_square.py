"""Pearson's chi-square test of counted outcomes against an exact law."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tests.exact_law import Law


def p_value(counts: Mapping[tuple[int, ...], int], law: Law) -> float:
    """The chance of counts at least this far from `law`; 0 where a cell occurs that cannot."""
    if any(text not in law for text in counts):
        return 0.0
    total = sum(counts.values())
    statistic = sum(
        (counts.get(text, 0) - total * float(p)) ** 2 / (total * float(p))
        for text, p in law.items()
    )
    return chi_square_tail(statistic, len(law) - 1)


def chi_square_tail(statistic: float, degrees: int) -> float:
    """P(chi-square of `degrees` > statistic): the regularised upper gamma function, by its finite
    sum for even and odd degrees (Abramowitz and Stegun 26.4.4 and 26.4.5)."""
    half = statistic / 2
    if degrees % 2 == 0:
        return math.exp(-half) * sum(half**i / math.factorial(i) for i in range(degrees // 2))
    root = math.sqrt(statistic)
    total, term = 0.0, root
    for i in range(1, degrees, 2):
        total += term
        term *= statistic / (i + 2)
    density = math.exp(-half) / math.sqrt(2 * math.pi)
    return math.erfc(root / math.sqrt(2)) + 2 * density * total
