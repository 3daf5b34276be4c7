"""Sources that are always wrong leave plain speed as it was, by a modelled clock: passes take what
the cost curve says, drafts and the reading of texts what the sources declare."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from lsp_server.engine.controller import Controller, CostCurve
from lsp_server.engine.decode import decode
from lsp_server.engine.drafters.combined import Combined
from lsp_server.engine.types import DecodeParams, Draft
from tests.decoding import PROMPT, plain
from tests.fake_model import AdversarialDrafter, FakeModel, FakeSlot

WIDTHS = (1, 2, 3, 4, 5, 6, 9, 16)
MEASURED = {
    "flat": (10, 10.2, 10.4, 10.6, 10.8, 11, 11.6, 13),
    "float32": (31, 35, 36, 37, 38, 40, 48, 66),
    "8 bits": (17.2, 20.1, 24.6, 27.3, 31.6, 34.5, 43.6, 69.9),
    "4 bits of few cores": (10, 15, 23, 30, 37, 44, 64, 160),
}
CURVES = {name: CostCurve(WIDTHS, tuple(map(float, ms))) for name, ms in MEASURED.items()}
LEAST = 0.95
"""Of plain speed, once the controller has settled."""
NUM_TOKENS, NUM_SETTLING = 700, 150
MODEL = FakeModel(capacity=1000, order=3)


@functools.cache
def right_text(strict: bool) -> list[int]:
    return [*PROMPT, *plain(MODEL, params=DecodeParams(NUM_TOKENS, strict=strict))]


@dataclass
class Clock:
    ms: float = 0.0


@dataclass
class WrongSource:
    """Never one right token. A free one costs nothing."""

    name: str
    step_ms: float = 0.0
    once_ms: float = 0.0
    """Of a draft, however long."""
    row_ms: float = 0.0
    """Of a token of the text that it has not read yet."""
    strengths: tuple[int, ...] = (0,)
    """In turn, from position to position."""
    clock: Clock = field(default_factory=Clock)
    right: Sequence[int] = ()
    num_read: int = 0

    @property
    def drafts_trees(self) -> bool:
        return False

    def draft_cost_ms(self, depth: int) -> float:
        return self.once_ms + depth * self.step_ms

    def reading_cost_ms(self, token_ids) -> float:
        return max(0, len(token_ids) - self.num_read - 1) * self.row_ms

    def propose(self, token_ids, limit, cancel=None) -> Draft:
        self.clock.ms += self.draft_cost_ms(limit) + self.reading_cost_ms(token_ids)
        self.num_read = len(token_ids)
        wrong = AdversarialDrafter(self.right, "wrong").propose(token_ids, limit)
        strength = self.strengths[len(token_ids) % len(self.strengths)]
        return Draft(wrong.token_ids, self.name, strength=strength)


class TimedSlot(FakeSlot):
    def __init__(self, clock: Clock, curve: CostCurve) -> None:
        super().__init__(MODEL)
        self.clock, self.curve = clock, curve

    def forward(self, token_ids, logit_rows, **more):
        self.clock.ms += self.curve.cost(len(token_ids))
        return super().forward(token_ids, logit_rows, **more)


def share_of_plain_speed(
    curve: CostCurve, strict: bool, free, priced, *, trained=(), controlled=True
) -> float:
    """Over the tokens behind the first NUM_SETTLING."""
    clock, controller = Clock(), Controller(curve)
    for name in trained:
        controller.expect_much(name)
    free, priced = (
        [replace(source, clock=clock, right=right_text(strict)) for source in sources]
        for sources in (free, priced)
    )
    slot = TimedSlot(clock, curve.strict() if strict else curve)
    drafter = Combined(free, priced, controller, slot)
    drafter.strict = strict
    more = {"drafter": drafter, "controller": controller if controlled else None}
    num_emitted, times = 0, {}
    for step in decode(slot, PROMPT, DecodeParams(NUM_TOKENS, strict=strict), **more):
        num_emitted += len(step.token_ids)
        times[num_emitted] = clock.ms
    assert drafter.num_failures == 0
    plain_ms = (NUM_TOKENS - NUM_SETTLING) * slot.curve.cost(1)
    return plain_ms / (times[NUM_TOKENS] - times[NUM_SETTLING])


each_curve = pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES)
each_mode = pytest.mark.parametrize("strict", [False, True], ids=["default", "strict"])
CHANGING = (2, 5, 9, 20)


@each_mode
@each_curve
@pytest.mark.parametrize("strengths", [(20,), CHANGING], ids=str)
@pytest.mark.parametrize("names", [("lookup",), ("lookup", "corpus")], ids=str)
def test_copies_that_are_always_wrong_leave_plain_speed_as_it_was(curve, strict, names, strengths):
    free = [WrongSource(name, strengths=strengths) for name in names]
    assert share_of_plain_speed(curve, strict, free, []) >= LEAST


@each_mode
@each_curve
@pytest.mark.parametrize("reading", [0.0, 0.2], ids=lambda share: f"reading {share}")
@pytest.mark.parametrize("part", [0.02, 0.1, 0.5, 1.0])
def test_a_priced_source_that_is_always_wrong_leaves_plain_speed_as_it_was(
    curve, strict, part, reading
):
    """A step of it takes `part` of a plain pass, a token of the text `reading` of a step."""
    step_ms = part * curve.cost(1)
    source = WrongSource("draft", step_ms=step_ms, row_ms=reading * step_ms)
    assert share_of_plain_speed(curve, strict, [], [source]) >= LEAST


@each_curve
@pytest.mark.parametrize(
    "trained", [(), ("draft", "medusa", "eagle")], ids=["untrained", "trained"]
)
def test_all_sources_together_always_wrong_leave_plain_speed_as_it_was(curve, trained):
    plain_ms = curve.cost(1)
    free = [WrongSource(name, strengths=CHANGING) for name in ("lookup", "corpus")]
    priced = [
        WrongSource("draft", step_ms=0.3 * plain_ms, row_ms=0.03 * plain_ms),
        WrongSource("early_exit", step_ms=0.2 * plain_ms),
        WrongSource("medusa", once_ms=0.05 * plain_ms),
        WrongSource("eagle", step_ms=0.1 * plain_ms, row_ms=0.005 * plain_ms),
    ]
    assert share_of_plain_speed(curve, False, free, priced, trained=trained) >= LEAST


@each_curve
def test_what_is_drafted_wrong_costs_much_where_nobody_controls_it(curve):
    """Or the tests above would prove nothing."""
    free = [WrongSource("lookup", strengths=(20,))]
    assert share_of_plain_speed(curve, False, free, [], controlled=False) < LEAST
