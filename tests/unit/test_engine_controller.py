"""The controller: never a draft that loses, by modelled time; estimates that recover."""

from __future__ import annotations

import functools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsp_server.engine.controller import MAX_DRAFT, Controller, CostCurve
from lsp_server.engine.types import DecodeParams, Draft
from tests.decoding import PROMPT, plain, run
from tests.fake_model import AdversarialDrafter, FakeModel, FakeSlot

WIDTHS = (1, 2, 3, 4, 5, 6, 9, 16)
MEASURED = {
    "fp32": (31, 35, 36, 37, 38, 40, 48, 66),
    "int8": (15.7, 18.4, 21.3, 23.1, 25.4, 27.8, 38, 56),
    "int4": (8.9, 12.4, 15.8, 18.2, 21.2, 23.8, 33, 51.5),
    "int4 of few cores": (10, 15, 23, 30, 37, 44, 64, 160),
}
FLAT = (10, 10.2, 10.4, 10.6, 10.8, 11, 11.6, 13)
CURVES = {name: CostCurve(WIDTHS, tuple(map(float, ms))) for name, ms in MEASURED.items()}
ALL_CURVES = CURVES | {"flat": CostCurve(WIDTHS, tuple(map(float, FLAT)))}
STRENGTHS = (0, 2, 3, 5, 10, 20, 32)


def draft(length: int = MAX_DRAFT, strength: int = 4, source: str = "t") -> Draft:
    return Draft(tuple(range(1, length + 1)), source, None, strength)


def chosen_length(controller: Controller, proposed: Draft, num_fresh: int, **how) -> int:
    return len(controller.cut(proposed, num_fresh, **how).token_ids)


def train(controller: Controller, kind: str, rounds: int, strength: int = 4) -> None:
    for _ in range(rounds):
        whole = draft(strength=strength)
        emitted = (*whole.token_ids, 9) if kind == "right" else (99,)
        controller.observe(whole, emitted)


NUM_TOKENS = 200
MODEL = FakeModel(capacity=1000, order=3)


@functools.cache
def expected_tokens(strict: bool) -> list[int]:
    return plain(MODEL, params=DecodeParams(max_new_tokens=NUM_TOKENS, strict=strict))


class Simulated:
    """A long request on a fake model; time is what the cost curve says its passes take."""

    def __init__(self, controller: Controller, kind: str, strength=4, strict=False) -> None:
        params = DecodeParams(max_new_tokens=NUM_TOKENS, strict=strict)
        right = [*PROMPT, *expected_tokens(strict)]
        drafter = _Strong(AdversarialDrafter(right, kind), strength)
        slot = FakeSlot(MODEL)
        self.steps = run(slot, params=params, drafter=drafter, controller=controller)
        curve = controller.curve.strict() if strict else controller.curve
        self.ms = [curve.cost(len(done.token_ids)) for done in slot.passes]
        self.plain_ms = curve.cost(len(PROMPT)) + (NUM_TOKENS - 1) * curve.cost(1)


class _Strong:
    def __init__(self, inner: AdversarialDrafter, strength) -> None:
        self.name, self._inner, self._strength = "t", inner, strength

    def propose(self, token_ids, limit, cancel=None):
        proposed = self._inner.propose(token_ids, limit)
        strength = self._strength(len(token_ids)) if callable(self._strength) else self._strength
        return Draft(proposed.token_ids, self.name, None, strength)


# Never at a loss


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("strength", STRENGTHS)
@pytest.mark.parametrize("name", ALL_CURVES)
def test_with_an_always_wrong_drafter_it_settles_at_nothing_and_loses_under_five_percent(
    name, strength, strict
):
    done = Simulated(Controller(ALL_CURVES[name]), "wrong", strength, strict=strict)
    assert sum(done.ms) <= 1.05 * done.plain_ms
    assert not any(step.num_proposed for step in done.steps[60:])
    curve = ALL_CURVES[name]
    if curve.cost(2) >= 1.1 * curve.cost(1) and not strict:
        assert not any(step.num_proposed for step in done.steps[20:])


@pytest.mark.parametrize("name", ALL_CURVES)
def test_wrong_drafts_of_changing_strength_lose_under_five_percent(name):
    done = Simulated(Controller(ALL_CURVES[name]), "wrong", lambda at: STRENGTHS[at % 7])
    assert sum(done.ms) <= 1.05 * done.plain_ms


@pytest.mark.parametrize("name", ALL_CURVES)
@pytest.mark.parametrize("kind", ["alternating", "wrong_at"])
def test_half_right_drafts_lose_under_five_percent(name, kind):
    done = Simulated(Controller(ALL_CURVES[name]), kind, 10)
    assert sum(done.ms) <= 1.05 * done.plain_ms


def test_a_width_that_costs_more_than_it_can_bring_is_never_chosen():
    """Each further token costs a whole pass: even a draft that is always right loses."""
    controller = Controller(CostCurve(WIDTHS, tuple(10.0 * w for w in WIDTHS)))
    train(controller, "right", 300, strength=32)
    assert chosen_length(controller, draft(strength=32), 1) == 0


@given(
    st.lists(st.floats(0, 30), min_size=8, max_size=8),
    st.lists(st.tuples(st.sampled_from(STRENGTHS), st.integers(0, 8)), max_size=40),
    st.sampled_from(STRENGTHS),
    st.integers(1, 130),
    st.booleans(),
)
@settings(max_examples=150)
def test_a_chosen_draft_is_worth_its_extra_time_by_the_controllers_own_estimates(
    rises, seen, strength, num_fresh, strict
):
    ms = tuple(10 + sum(rises[:i]) for i in range(8))
    controller = Controller(CostCurve(WIDTHS, ms))
    for kind, accepted in seen:
        whole = draft(strength=kind)
        controller.observe(whole, (*whole.token_ids[:accepted], 99))
    length = chosen_length(controller, draft(strength=strength), num_fresh, strict=strict)
    curve = CostCurve(WIDTHS, ms).strict() if strict else CostCurve(WIDTHS, ms)
    gain = reached = 0.0
    for position in range(length):
        chance = controller.acceptance("t", strength, position)
        reached = chance if position == 0 else reached * chance
        gain += reached
    extra = curve.cost(num_fresh + length) - curve.cost(num_fresh)
    assert gain * curve.cost(1) >= extra


def test_the_end_of_a_long_prompt_makes_no_draft_cheaper():
    curve = CURVES["int4 of few cores"]
    controller = Controller(curve)
    train(controller, "wrong", 10, strength=2)
    assert chosen_length(controller, draft(strength=2), 1) == 0
    assert chosen_length(controller, draft(strength=2), 120) == 0


@pytest.mark.parametrize("num_fresh", [2, 9, 16, 120])
def test_the_end_of_a_long_prompt_carries_a_draft_that_is_worth_it(num_fresh):
    controller = Controller(CURVES["int8"])
    train(controller, "right", 60)
    assert chosen_length(controller, draft(), num_fresh) > 0


def test_an_empty_draft_is_no_draft():
    assert chosen_length(Controller(CURVES["int8"]), Draft((), "t"), 1) == 0


def test_in_strict_mode_the_second_token_of_a_pass_is_free():
    controller = Controller(CURVES["int4 of few cores"])
    train(controller, "wrong", 4, strength=2)
    assert chosen_length(controller, draft(strength=2), 1) == 0
    assert chosen_length(controller, draft(strength=2), 1, strict=True) == 1


# Gains where there are any


@pytest.mark.parametrize("name", ALL_CURVES)
def test_an_always_right_drafter_gains_what_the_best_fixed_length_gains(name):
    curve = ALL_CURVES[name]
    controller = Controller(curve)
    train(controller, "right", 60)
    rates = [(1 + g) / curve.cost(1 + g) for g in range(MAX_DRAFT + 1)]
    chosen = chosen_length(controller, draft(), 1)
    assert rates[chosen] >= 0.97 * max(rates)


@pytest.mark.parametrize("name", CURVES)
def test_it_picks_up_again_when_drafts_come_true_again(name):
    controller = Controller(CURVES[name])
    train(controller, "wrong", 500)
    assert chosen_length(controller, draft(), 1) == 0
    train(controller, "right", 60)
    assert chosen_length(controller, draft(), 1) > 0


def test_drafts_that_are_not_verified_teach_it_too():
    """Being off is no dead end: one token is emitted each pass and compared with the draft."""
    controller = Controller(CURVES["int8"])
    train(controller, "wrong", 500)
    assert not any(step.num_proposed for step in Simulated(controller, "wrong").steps)
    steps = Simulated(controller, "right").steps
    assert steps[0].num_proposed == 0
    assert steps[-2].num_proposed > 0


def test_estimates_come_close_to_the_true_rate_of_each_position_from_below():
    controller = Controller(CURVES["int8"])
    for i in range(2000):
        accepted = 0 if i % 2 else 3  # the first is right every other time, then three are
        whole = draft(4)
        controller.observe(whole, (*whole.token_ids[:accepted], 99))
    assert 0.4 < controller.acceptance("t", 4, 0) < 0.5
    assert controller.acceptance("t", 4, 1) == pytest.approx(1.0, abs=0.02)
    assert controller.acceptance("t", 4, 3) == pytest.approx(0.0, abs=0.02)


def test_a_stronger_match_is_expected_to_come_true_more_often():
    controller = Controller(CURVES["int8"])
    first = [controller.acceptance("t", strength, 0) for strength in (0, 1, 2, 3, 4, 7, 8, 15, 16)]
    assert first == sorted(first)
    assert [len(set(first[a:b])) for a, b in ((0, 3), (4, 6), (6, 8))] == [1, 1, 1]
    assert len(set(first)) == 5


def test_sources_and_strengths_are_learned_apart():
    controller = Controller(CURVES["int8"])
    before = controller.acceptance("other", 4, 0), controller.acceptance("t", 20, 0)
    train(controller, "wrong", 100, strength=4)
    assert controller.acceptance("t", 4, 0) < 0.1
    assert (controller.acceptance("other", 4, 0), controller.acceptance("t", 20, 0)) == before


def test_positions_behind_a_rejection_are_not_judged():
    controller = Controller(CURVES["int8"])
    whole = draft(3)
    for _ in range(50):
        controller.observe(whole, (1, 99, 3))
    assert set(controller._seen) == {("t", 2, 0), ("t", 2, 1)}


# The curve


def test_cost_is_linear_between_measured_widths_and_beyond():
    curve = CostCurve((1, 2, 4), (10.0, 12.0, 20.0))
    assert [curve.cost(w) for w in (1, 2, 3, 4, 5, 8)] == [10, 12, 16, 20, 24, 36]
    assert curve.strict().cost(1) == 12
    assert [CostCurve((1,), (7.0,)).cost(w) for w in (1, 5)] == [7, 7]
