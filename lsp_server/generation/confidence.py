"""How sure a model is of the first line it wrote, and whether that is enough to show it.

A logistic model of few features estimates the chance that the line is exactly what the author would
write. It knows the target's probabilities, the text and the place, and nothing of drafts or time,
so that an answer does not depend on how fast it came. The weights are the default model's, made by
`tabahead bench quality --calibrate`; other models are judged by the same ones until somebody
calibrates for them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace

from lsp_server.completion import Eagerness, Piece
from lsp_server.text.place import Place

LEAST_TOTAL, LEAST_TOKEN = -25.0, -8.0
"""Below these a line is hopeless all the same."""
COPY = 10
"""Characters in a row that stand in the document too are a copy."""


@dataclass(frozen=True, slots=True)
class Features:
    """Of a first line, from its first token with text to the one that ends it; logarithms are
    natural ones."""

    total: float
    """Log-probability of the line, at least LEAST_TOTAL."""
    mean: float
    """The same a token."""
    lowest: float
    """Log-probability of its least likely token, at least LEAST_TOKEN."""
    first: float
    """Of its first token against the runner-up alone."""
    length: float
    """Logarithm of the number of its tokens."""
    copied: float
    """Share of its characters that copy the document, 0 to 1."""
    starts_line: float
    """1 where nothing but blanks is left of the cursor, else 0."""


@dataclass(frozen=True, slots=True)
class Weights:
    bias: float
    weights: Features


WEIGHTS = Weights(
    bias=3.86,
    weights=Features(
        total=0.478,
        mean=3.757,
        lowest=0.21,
        first=1.534,
        length=-0.993,
        copied=-0.404,
        starts_line=-0.087,
    ),
)

THRESHOLDS = {Eagerness.EAGER: 0.05, Eagerness.BALANCED: 0.3, Eagerness.QUIET: 0.6}
"""Confidence from which on a line is shown. Of 502 lines that the weights were not fitted to, 175
right ones, these show 100, 90 and 67 percent of the right and 59, 29 and 12 of the wrong."""


def confidence_of(pieces: Sequence[Piece], place: Place) -> float | None:
    """The chance that the first line is right, 0 to 1; None where the model tells nothing, as a
    script, or has written no line."""
    features = features_of(pieces, place)
    return None if features is None else confidence(features)


def confidence(features: Features, by: Weights = WEIGHTS) -> float:
    return _logistic(_logit(features, by))


def _logit(features: Features, by: Weights = WEIGHTS) -> float:
    values = zip(astuple(by.weights), astuple(features), strict=True)
    return by.bias + float(sum(weight * value for weight, value in values))


def _logistic(logit: float) -> float:
    return 1 / (1 + math.exp(-logit))


def most_confident(pieces: Sequence[Piece], place: Place, max_tokens: int) -> float:
    """At least the confidence of any text of `max_tokens` that goes on from `pieces`, whose first
    line is still being written: as if each further token were certain. 1 where nothing is told."""
    line, text = _first_line(pieces)
    log_probs = _log_probs(line, text)
    if not log_probs:
        return 1.0
    features, total = _features(line, log_probs, 0.0, place), sum(log_probs)
    by = WEIGHTS.weights
    fixed = _logit(replace(features, mean=0.0, length=0.0)) + max(0.0, by.copied)
    lengths = range(len(line), max(len(line), max_tokens) + 1)
    return _logistic(fixed + max(by.mean * total / n + by.length * math.log(n) for n in lengths))


def is_sure(sureness: float | None, eagerness: Eagerness) -> bool:
    """Whether a line is to be shown; one of which nothing is known is."""
    return sureness is None or sureness >= THRESHOLDS[eagerness]


def features_of(pieces: Sequence[Piece], place: Place) -> Features | None:
    line, text = _first_line(pieces)
    log_probs = _log_probs(line, text)
    return _features(line, log_probs, _copied(text, place), place) if log_probs else None


def _log_probs(line: Sequence[Piece], text: str) -> list[float]:
    """Of all its tokens; empty where one of them tells nothing or there is no text."""
    log_probs = [piece.log_prob for piece in line if piece.log_prob is not None]
    return log_probs if len(log_probs) == len(line) and text.strip() else []


def _features(
    line: Sequence[Piece], log_probs: Sequence[float], copied: float, place: Place
) -> Features:
    return Features(
        total=max(LEAST_TOTAL, sum(log_probs)),
        mean=max(LEAST_TOKEN, sum(log_probs) / len(log_probs)),
        lowest=max(LEAST_TOKEN, min(log_probs)),
        first=-math.log1p(math.exp(-(line[0].margin or 0.0))),
        length=math.log(len(line)),
        copied=copied,
        starts_line=float(place.on_blank_line),
    )


def _first_line(pieces: Sequence[Piece]) -> tuple[list[Piece], str]:
    """The pieces up to the end of the first line that has text, without those before it that only
    say again what stands left of the cursor."""
    line: list[Piece] = []
    text = ""
    for piece in pieces:
        if not line and not piece.text:
            continue
        line.append(piece)
        text += piece.text
        if "\n" in text.lstrip():
            break
    return line, text.strip().partition("\n")[0]


def _copied(line: str, place: Place) -> float:
    """Share of a line's characters in pieces of COPY, some of them the cursor's own line's, that
    stand elsewhere in the document's window."""
    own = place.line_before.lstrip()[-COPY:]
    whole, start = own + line, len(own)
    others = "\n".join((*place.lines_before, *place.lines_after))
    copied = set[int]()
    for begin in range(max(0, start - COPY + 1), len(whole) - COPY + 1):
        if whole[begin : begin + COPY] in others:
            copied.update(range(max(begin, start), begin + COPY))
    return len(copied) / len(line)
