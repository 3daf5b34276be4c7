"""How many drafted tokens to verify: what this machine's passes cost against what drafts are worth.

The length is chosen that maximises expected tokens per millisecond (`speedup.py`), and 0 is a legal
answer. Costs are measured at load, acceptance is learned while running, also from drafts that were
not worth verifying: whether they would have come true shows for nothing.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lsp_server.engine.speedup import expected_by_depth, speedup
from lsp_server.engine.types import Draft

MAX_DRAFT = 8
_MARGIN = 1.03
"""A draft must promise this much over a plain pass: estimates and clocks are noisy."""
_DECAY = 0.97
"""Weight of what was seen a round before: a file differs from the last one. To forget much faster
would lose to a source that is right every other time."""
_NEGLIGIBLE = 0.01
"""Expected tokens; a draft is not looked at deeper than where a further token adds less."""
_CAUTION = 0.5
"""Standard errors that are taken off an estimate: to draft on a guess costs more than to wait."""
_PRIOR_WEIGHT = 3.0
_PRIORS = (0.3, 0.45, 0.65, 0.8, 0.85)
"""First guess of acceptance by strength class, until drafts have been seen to come true or not."""
_TRAINED_PRIOR = 0.6
"""The same for a source that was trained to draft for this model: it is to be tried at once."""


@dataclass(frozen=True, slots=True)
class CostCurve:
    """V(M): milliseconds of one target pass of M tokens, increasing in M."""

    widths: tuple[int, ...]
    ms: tuple[float, ...]
    is_quiet: bool = True
    """Measured while nothing else took the machine's time."""

    def cost(self, width: int) -> float:
        """Linear between the measured widths, and on from the last two beyond them."""
        if len(self.widths) == 1:
            return self.ms[0]
        upper = min(max(bisect.bisect_left(self.widths, width), 1), len(self.widths) - 1)
        w0, w1 = self.widths[upper - 1], self.widths[upper]
        m0, m1 = self.ms[upper - 1], self.ms[upper]
        return m0 + (m1 - m0) * (width - w0) / (w1 - w0)

    def check(self) -> None:
        """ValueError unless every width has a finite cost above zero that does not fall."""
        if len(self.ms) != len(self.widths) or list(self.ms) != sorted(self.ms):
            raise ValueError("the costs do not match the widths")
        if not (self.ms[0] > 0.0 and math.isfinite(sum(self.ms))):
            raise ValueError("a cost is not a finite number above zero")

    def strict(self) -> CostCurve:
        """The curve where a single token runs as a pass of two."""
        return CostCurve(self.widths, (self.cost(2), *self.ms[1:]))


class Controller:
    """Learns each source's acceptance by strength and position, also from drafts not verified."""

    def __init__(self, curve: CostCurve) -> None:
        self.curve = curve
        self._strict_curve = curve.strict()
        self._seen: dict[tuple[str, int, int], tuple[float, float]] = {}
        """(source, strength class, position) -> decayed (came true, seen)"""
        self._trained: set[str] = set()

    def expect_much(self, source: str) -> None:
        """Take a source that was trained at its word, until its drafts have been seen."""
        self._trained |= {source, tree_name(source)}

    def cut(self, draft: Draft, num_fresh: int, *, strict: bool = False) -> Draft:
        """The part of `draft` that pays behind `num_fresh` tokens that must run anyway."""
        if not draft.is_tree:
            length, _ = self.choose(draft, num_fresh, strict=strict)
            return draft.select(range(length))
        widths = widths_by_depth(draft)
        chances = self._chances(record_name(draft), 0)  # what it cost to draft is spent
        limit, _ = self._best(chances, widths, None, num_fresh, strict)
        return draft.select([node for node, depth in enumerate(draft.depths) if depth <= limit])

    def choose(self, draft: Draft, num_fresh: int, *, strict: bool = False) -> tuple[int, float]:
        """How many tokens of a chain to verify, and expected tokens a millisecond then."""
        lengths = range(1, len(draft.token_ids) + 1)
        chances = self._chances(draft.source, _strength_class(draft.strength))
        return self._best(chances, lengths, None, num_fresh, strict)

    def plan(
        self,
        source: str,
        widths: Sequence[int],
        draft_ms: Sequence[float],
        num_fresh: int,
        *,
        strict: bool = False,
    ) -> tuple[int, float]:
        """How deep a draft to ask of a source before it has drafted any, and expected tokens a
        millisecond then.

        `source` as in `record_name`; a draft d + 1 deep costs `draft_ms[d]`, and `widths[d]` tokens
        of it are to be verified.
        """
        return self._best(self._chances(source, 0), widths, draft_ms, num_fresh, strict)

    def _best(
        self,
        chances: Iterator[float],
        widths: Sequence[int],
        draft_ms: Sequence[float] | None,
        num_fresh: int,
        strict: bool,
    ) -> tuple[int, float]:
        """The depth with the best rate; 0 and the plain rate where none beats it by the margin.

        `chances` are P(depth d + 1 is accepted | depth d was) for d = 0, 1, ..., `widths[d]` the
        tokens to verify, `draft_ms[d]` what the draft costs (None: nothing).
        """
        curve = self._strict_curve if strict else self.curve
        plain = curve.cost(1)
        # What the fresh tokens cost beyond a plain pass is spent either way; were it counted, the
        # end of a long prompt would make any draft look cheap.
        spent = curve.cost(num_fresh) - plain
        best_depth, best_speedup, before = 0, _MARGIN, 1.0
        for depth, expected in enumerate(expected_by_depth(chances), start=1):
            if depth > len(widths) or expected - before < _NEGLIGIBLE:
                break
            before = expected
            pass_cost = (curve.cost(num_fresh + widths[depth - 1]) - spent) / plain
            draft_cost = draft_ms[depth - 1] / plain if draft_ms else 0.0
            gain = speedup(expected, pass_cost, draft_cost)
            if gain > best_speedup:
                best_depth, best_speedup = depth, gain
        return best_depth, (best_speedup if best_depth else 1.0) / plain

    def observe(self, draft: Draft, emitted: Sequence[int]) -> None:
        """Compare a draft with what the target emitted, whether or not it was verified.

        Not to be called for rounds cut short by the end of text, a limit or a cancellation.
        """
        kind = 0 if draft.is_tree else _strength_class(draft.strength)
        source = record_name(draft)
        bound = 1.0
        for position, hit in enumerate(draft.hits(emitted)):
            true, seen = self._evidence(source, kind, position, bound)
            bound = true / seen
            self._seen[source, kind, position] = (true * _DECAY + hit, seen * _DECAY + 1.0)

    def acceptance(self, source: str, strength: int, position: int) -> float:
        """P(token at `position` is accepted | those before it were), cautiously."""
        chances = self._chances(source, _strength_class(strength))
        return next(itertools.islice(chances, position, None))

    def _chances(self, source: str, kind: int) -> Iterator[float]:
        """Of the positions in turn: the mean of the evidence less some of its standard error."""
        bound = 1.0
        for position in itertools.count():
            true, seen = self._evidence(source, kind, position, bound)
            mean = bound = true / seen
            yield max(0.0, mean - _CAUTION * math.sqrt(mean * (1.0 - mean) / seen))

    def _evidence(self, source: str, kind: int, position: int, bound: float) -> tuple[float, float]:
        """What was seen, or a first guess that decays like it.

        Where a source fails at its first tokens, those behind are never reached: their guess is at
        most `bound`, what the position before them has come to.
        """
        prior = _TRAINED_PRIOR if source in self._trained else _PRIORS[kind]
        guess = min(prior, bound) * _PRIOR_WEIGHT
        return self._seen.get((source, kind, position), (guess, _PRIOR_WEIGHT))


def record_name(draft: Draft) -> str:
    """A source's trees succeed at other rates than its chains."""
    return tree_name(draft.source) if draft.is_tree else draft.source


def tree_name(source: str) -> str:
    return f"{source} tree"


def widths_by_depth(draft: Draft) -> list[int]:
    """Tokens that are left of a draft cut at depth 1, 2, ..."""
    depths = draft.depths
    return [sum(depth <= limit for depth in depths) for limit in range(1, draft.depth + 1)]


def _strength_class(strength: int) -> int:
    """0..4 for match lengths 0-2, 3, 4-7, 8-15, 16 and more."""
    return bisect.bisect_right((3, 4, 8, 16), strength)
