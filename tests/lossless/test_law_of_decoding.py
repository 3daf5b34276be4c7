"""The law of whole generations through the real loop: exactly by enumeration, and by chi-square
with the real randomness. Wrong loops are negative controls, so a pass means something.
"""

from __future__ import annotations

import functools
from fractions import Fraction as F

import numpy as np
import pytest

from lsp_server.engine import decode as decode_module
from lsp_server.engine import rows as rows_module
from lsp_server.engine.controller import Controller, CostCurve
from lsp_server.engine.decode import decode
from lsp_server.engine.types import DecodeParams, Draft
from tests.chi_square import chi_square_tail, p_value
from tests.exact_law import Choices, Law, law_of
from tests.fake_model import FakeModel, FakeSlot

END = 2
"""The last of three tokens is the end of text."""
PROMPT = [0]
TARGET = {
    (): (F(1, 2), F(1, 4), F(1, 4)),
    (0,): (F(1, 4), F(1, 4), F(1, 2)),
    (1,): (F(3, 4), F(0), F(1, 4)),
    (0, 0): (F(1, 4), F(3, 4), F(0)),
    (0, 1): (F(0), F(1, 2), F(1, 2)),
    (1, 0): (F(1), F(0), F(0)),
    (1, 1): (F(1, 4), F(1, 4), F(1, 2)),
}
SOURCE = {
    (): (F(1, 4), F(1, 4), F(1, 2)),
    (0,): (F(1, 2), F(0), F(1, 2)),
    (1,): (F(1, 4), F(3, 4), F(0)),
    (0, 0): (F(1, 4), F(1, 4), F(1, 2)),
    (0, 1): (F(1, 2), F(1, 2), F(0)),
    (1, 0): (F(0), F(1, 4), F(3, 4)),
    (1, 1): (F(1), F(0), F(0)),
}
GRID = 12
"""Midpoints of twelfths decide every ratio and residual of quarters exactly."""


def target_law(length: int) -> Law:
    """The law of texts of at most `length` tokens; a text that ended carries END."""
    law = Law({(): F(1)})
    for _ in range(length):
        longer = Law()
        for text, weight in law.items():
            if text[-1:] == (END,):
                longer[text] = longer.get(text, F(0)) + weight
                continue
            for token, p in enumerate(TARGET[text]):
                if p:
                    longer[(*text, token)] = weight * p
        law = longer
    return law


def model() -> FakeModel:
    def table(prefix: tuple[int, ...]):
        return [float(p) for p in TARGET.get(prefix[len(PROMPT) :], (1, 0, 0))]

    return FakeModel(vocab=3, eos_ids=frozenset({END}), table=table)


@functools.cache
def _as_array(text: tuple[int, ...]):
    return np.array([float(p) for p in SOURCE[text]])


class DrawingDrafter:
    """Draws from SOURCE; stops behind a drawn end of text, where there is nothing to say."""

    name = "drawing"

    def __init__(self, pick, length: int, *, one_hot: bool) -> None:
        self.pick, self.length, self.one_hot = pick, length, one_hot

    def propose(self, token_ids, limit, cancel=None):
        text = tuple(token_ids[len(PROMPT) :])
        drawn: tuple[int, ...] = ()
        while len(drawn) < min(limit, self.length) and drawn[-1:] != (END,):
            drawn += (self.pick(SOURCE[text + drawn]),)
        rows = [_as_array(text + drawn[:i]) for i in range(len(drawn))]
        probs = None if self.one_hot else np.array(rows).reshape(len(drawn), 3)
        return Draft(drawn, self.name, probs)


def generate(drafter, seed: int = 0, length: int = 3, controller=None) -> tuple[int, ...]:
    params = DecodeParams(max_new_tokens=length, temperature=1.0, seed=seed)
    text: tuple[int, ...] = ()
    for step in decode(FakeSlot(_MODEL), PROMPT, params, drafter=drafter, controller=controller):
        text += step.token_ids
        if step.finish == "eos":
            text += (END,)
    return text


_MODEL = model()


def enumerated_law(monkeypatch, length: int, draft_length: int, *, one_hot: bool, controller=None):
    current: list[Choices] = []
    monkeypatch.setattr(rows_module, "position_rng", lambda seed, position: current[0])

    def one(choices: Choices):
        current[:] = [choices]
        drafter = DrawingDrafter(choices.pick, draft_length, one_hot=one_hot)
        return generate(drafter, length=length, controller=controller)

    return law_of(one, GRID)


CASES = [(1, 1), (2, 1), (2, 2)]


@pytest.mark.parametrize("one_hot", [True, False], ids=["one_hot", "drawn"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_law_of_whole_texts_is_exactly_the_targets(monkeypatch, case, one_hot):
    """Ends of text drawn by the draft included: dropping one would be a bias."""
    length, draft_length = case
    law = enumerated_law(monkeypatch, length, draft_length, one_hot=one_hot)
    assert law == target_law(length)


class _OnlyWhatIsShort:
    """Cuts by what was drawn; exact for deterministic drafts, harmful to drawn ones."""

    def cut(self, draft, num_fresh, *, strict=False):
        return draft.select(range(0 if 0 in draft.token_ids else len(draft.token_ids)))

    def observe(self, draft, emitted):
        pass


@pytest.mark.parametrize("one_hot", [True, False], ids=["one_hot", "drawn"])
def test_a_controller_that_looks_at_the_drawn_tokens_cannot_change_the_law(monkeypatch, one_hot):
    law = enumerated_law(monkeypatch, 2, 1, one_hot=one_hot, controller=_OnlyWhatIsShort())
    assert law == target_law(2)


def _drops_drawn_end(draft, limit, room, spec, greedy):
    keep = next((i for i, t in enumerate(draft.token_ids) if t == END), len(draft.token_ids))
    keep = min(keep, limit)
    probs = draft.draft_probs[:keep] if draft.draft_probs is not None else None
    return Draft(draft.token_ids[:keep], draft.source, probs)


def test_the_checker_rejects_a_loop_that_drops_a_drawn_end_of_text(monkeypatch):
    monkeypatch.setattr(decode_module, "_usable", _drops_drawn_end)
    assert enumerated_law(monkeypatch, 2, 1, one_hot=False) != target_law(2)


# The real random numbers


NUM_TEXTS = 4_000
"""The smallest bias of a wrong rule for chains is above .05, which a few thousand texts show."""


def test_the_tail_of_chi_square_is_that_of_the_tables():
    for statistic, degrees in ((3.841, 1), (5.991, 2), (7.815, 3), (18.307, 10), (19.675, 11)):
        assert chi_square_tail(statistic, degrees) == pytest.approx(0.05, abs=1e-4)


def sampled_p_value(make_drafter, controller=None, first_seed: int = 0) -> float:
    counts: dict[tuple[int, ...], int] = {}
    rng = np.random.default_rng(99 + first_seed)
    drafter = make_drafter(lambda probs: int(rng.choice(3, p=[float(p) for p in probs])))
    for seed in range(first_seed, first_seed + NUM_TEXTS):
        text = generate(drafter, seed, 2, controller)
        counts[text] = counts.get(text, 0) + 1
    return p_value(counts, target_law(2))


DRAFTERS = {
    "none": lambda pick: None,
    "one_hot": lambda pick: DrawingDrafter(pick, 2, one_hot=True),
    "drawn": lambda pick: DrawingDrafter(pick, 2, one_hot=False),
}


@pytest.mark.parametrize("name", DRAFTERS)
def test_texts_of_many_seeds_follow_the_law(name):
    values = [sampled_p_value(DRAFTERS[name])]
    if values[0] < 1e-6:
        values.append(sampled_p_value(DRAFTERS[name], first_seed=10**6))
    assert max(values) >= 1e-6


def test_texts_follow_the_law_while_the_controller_learns():
    controller = Controller(CostCurve((1, 2, 3), (10.0, 13.0, 16.0)))
    assert sampled_p_value(DRAFTERS["one_hot"], controller) >= 1e-6


def test_chi_square_rejects_drawn_drafts_without_their_end_of_text(monkeypatch):
    monkeypatch.setattr(decode_module, "_usable", _drops_drawn_end)
    assert sampled_p_value(DRAFTERS["drawn"]) < 1e-6


def test_chi_square_rejects_corrections_drawn_from_the_target(monkeypatch):
    monkeypatch.setattr("lsp_server.engine.verify.residual", lambda target, draft: target)
    assert sampled_p_value(DRAFTERS["drawn"]) < 1e-6


def test_chi_square_rejects_arg_max_drafts_verified_as_if_drawn():
    def argmax(probs):
        return max(range(3), key=lambda token: (probs[token], -token))

    assert sampled_p_value(lambda pick: DrawingDrafter(argmax, 2, one_hot=False)) < 1e-6


def test_one_seed_gives_a_long_text_of_the_right_law():
    """Randomness by position has no pattern along a text either."""
    probs = (0.5, 0.3, 0.2)
    fixed = FakeModel(vocab=3, capacity=5000, eos_ids=frozenset(), table=lambda prefix: probs)
    params = DecodeParams(max_new_tokens=4000, temperature=1.0, seed=11)
    text = [t for step in decode(FakeSlot(fixed), PROMPT, params) for t in step.token_ids]
    pairs = list(zip(text[::2], text[1::2], strict=True))
    counts = {pair: pairs.count(pair) for pair in set(pairs)}
    law = Law({(a, b): F(str(probs[a])) * F(str(probs[b])) for a in range(3) for b in range(3)})
    assert p_value(counts, law) >= 1e-6
