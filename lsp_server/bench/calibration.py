"""The weights of `lsp_server.generation.confidence`, fitted to lines of which it is known whether
they are right, and how well a confidence sorts such lines.

Logistic regression with a small penalty on the weights (of standardised features), by Newton's
method. No feature that is a log-probability may count against a line.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lsp_server.errors import SettingsError
from lsp_server.generation.confidence import Features, Weights, confidence

_PENALTY = 1.0
_ROUNDS = 50
_STEPS = 20
_NOT_NEGATIVE = 4
"""So many features, the first ones, are log-probabilities."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A first line, and whether it is exactly what the author wrote."""

    features: Features
    is_right: bool
    for_checking: bool
    """In the half that judges the weights which the other half gave."""


def fit(lines: Sequence[Judged]) -> Weights:
    """The weights under which what happened is likeliest."""
    values = np.array([astuple(line.features) for line in lines], np.float64)
    right = np.array([line.is_right for line in lines], np.float64)
    means, scales = values.mean(0), values.std(0) + 1e-9
    standard = (values - means) / scales
    used = list(range(values.shape[1]))
    while True:
        fitted = _fit(standard[:, used], right)
        against = [u for u, weight in zip(used, fitted[1:], strict=True) if weight < 0]
        against = [feature for feature in against if feature < _NOT_NEGATIVE]
        if not against:
            break
        used = [feature for feature in used if feature not in against]
    weights = np.zeros(values.shape[1])
    weights[used] = fitted[1:] / scales[used]
    bias = float(fitted[0] - weights @ means)
    return Weights(round(bias, 3), Features(*(round(float(weight), 3) for weight in weights)))


def _fit(values: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bias and weights."""
    rows = np.column_stack((np.ones(len(values)), values))
    penalty = np.full(rows.shape[1], _PENALTY)
    penalty[0] = 0
    weights = np.zeros(rows.shape[1])
    for _ in range(_ROUNDS):
        chances = 1 / (1 + np.exp(-rows @ weights))
        slope = rows.T @ (chances - right) + penalty * weights
        curvature = (rows.T * (chances * (1 - chances))) @ rows + np.diag(penalty)
        weights = weights - np.linalg.solve(curvature, slope)
    return weights


@dataclass(frozen=True, slots=True)
class Shown:
    """What a threshold makes of lines; all are shares."""

    threshold: float
    coverage: float
    """Of all lines, those shown."""
    precision: float
    """Of those shown, the right ones; 1 where none is."""
    right: float
    """Of the right ones, those shown."""
    wrong: float
    """Of the wrong ones, those shown."""


def curve(lines: Sequence[Judged], by: Weights) -> list[Shown]:
    """From all lines on down, in steps of a twentieth."""
    ordered = sorted(confidence(line.features, by) for line in lines)
    starts = [step * len(ordered) // _STEPS for step in range(_STEPS)] if ordered else []
    return [shown_at(lines, ordered[start], by) for start in starts]


def keep(lines: Sequence[Judged], path: Path) -> None:
    """Write what `recall` reads. Raises SettingsError where that cannot be."""
    rows = [
        [line.for_checking, line.is_right, *(round(value, 4) for value in astuple(line.features))]
        for line in lines
    ]
    columns = ["for_checking", "is_right", *(field.name for field in fields(Features))]
    text = ",\n".join(json.dumps(row) for row in [columns, *rows])
    try:
        path.write_text(f"[{text}]\n", encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"The features cannot be written to {path} ({error}).") from error


def recall(path: Path) -> list[Judged]:
    _, *rows = json.loads(path.read_text(encoding="utf-8"))
    return [Judged(Features(*values), right, check) for check, right, *values in rows]


def shown_at(lines: Sequence[Judged], threshold: float, by: Weights) -> Shown:
    shown = [line for line in lines if confidence(line.features, by) >= threshold]
    num_right = sum(line.is_right for line in lines)
    right_shown = sum(line.is_right for line in shown)
    return Shown(
        threshold,
        coverage=len(shown) / max(1, len(lines)),
        precision=right_shown / len(shown) if shown else 1.0,
        right=right_shown / max(1, num_right),
        wrong=(len(shown) - right_shown) / max(1, len(lines) - num_right),
    )
