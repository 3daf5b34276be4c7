"""Measured costs: what a measurement finds, and the file in which it is kept."""

from __future__ import annotations

import json
import logging
import math
from dataclasses import replace
from pathlib import Path

import pytest

from lsp_server.engine.controller import CostCurve
from lsp_server.engine.cost_store import CostStore, measure
from lsp_server.engine.drafters.cost import MEASURED_ROWS, DraftCost, measure_draft
from tests.fake_model import FakeModel, FakeSlot

WIDTHS = (1, 2, 3, 4, 5, 6, 9, 16)


class TimedSlot(FakeSlot):
    """Its passes take what `ms` says; the clock goes nowhere else."""

    def __init__(self, model: FakeModel, ms=lambda width, index: 10.0 + width) -> None:
        super().__init__(model)
        self.now = 0.0
        self.ms = ms

    def forward(self, token_ids, logit_rows, **more):
        self.now += self.ms(len(token_ids), len(self.passes)) / 1000
        return super().forward(token_ids, logit_rows, **more)


class TimedDrafter:
    """A source whose step takes 2 ms and whose 64 rows take 32; of three calls two are `late`."""

    def __init__(self, late: float = 0.0) -> None:
        self.now = 0.0
        self.num_calls = 0
        self._late = late

    def measure(self) -> DraftCost:
        return measure_draft(self._call(2.0), self._call(32.0), clock=lambda: self.now)

    def _call(self, ms: float):
        def call() -> None:
            self.num_calls += 1
            self.now += (ms + self._late * (self.num_calls % 3 > 0)) / 1000

        return call


def timed_curve(slot: TimedSlot, folder: Path) -> CostCurve:
    return CostStore(folder).curve(slot, clock=lambda: slot.now)


def timed_draft(drafter: TimedDrafter, folder: Path, identity: str = "a drafter") -> DraftCost:
    return CostStore(folder).draft(identity, drafter.measure)


# What is measured


def test_measuring_finds_the_cost_of_each_width_and_leaves_the_slot_empty():
    slot = TimedSlot(FakeModel())
    slot.forward([1, 2], [1])
    slot.commit(2)
    curve = measure(slot, clock=lambda: slot.now)
    assert curve.widths == WIDTHS
    assert curve.ms == pytest.approx([10.0 + w for w in WIDTHS])
    assert slot.token_ids == []
    assert all(len(p.logit_rows) == len(p.token_ids) for p in slot.passes[2:])


def test_a_disturbed_pass_does_not_spoil_the_curve_and_costs_never_fall():
    def ms(width: int, index: int) -> float:
        return (1000.0 if index % 5 == 0 else 10.0) + (5.0 if width == 2 else 0.0)

    slot = TimedSlot(FakeModel(), ms)
    curve = measure(slot, clock=lambda: slot.now)
    assert curve.ms == pytest.approx((10, *[15] * 7))


@pytest.mark.parametrize("late", [0.0, 100.0])
def test_measuring_a_draft_finds_the_cost_of_a_step_and_of_a_row_that_is_read(late):
    cost = TimedDrafter(late).measure()
    assert (cost.step_ms, cost.row_ms) == pytest.approx((2.0, 32.0 / MEASURED_ROWS))
    assert cost.is_quiet == (late == 0.0)
    assert measure_draft(lambda: None).row_ms == 0.0


def test_a_round_bears_a_share_of_what_is_to_be_read_and_nothing_of_what_is_known():
    cost = DraftCost(step_ms=2.0, row_ms=0.5)
    assert cost.reading_ms(0) == cost.reading_ms(1) == 0.0
    assert cost.reading_ms(129) == pytest.approx(2 * cost.reading_ms(65))
    assert cost.reading_ms(65) == 64 * cost.row_ms
    assert DraftCost(step_ms=2.0).reading_ms(1000) == 0.0


# What is kept


def test_costs_of_a_busy_machine_are_used_but_not_kept(tmp_path, caplog):
    slot = TimedSlot(FakeModel(), lambda width, index: 10.0 + width + 20.0 * (index % 3 > 0))
    with caplog.at_level(logging.INFO):
        assert timed_curve(slot, tmp_path).ms[0] > 0
        assert timed_draft(TimedDrafter(late=5.0), tmp_path).step_ms == pytest.approx(2.0)
    assert list(tmp_path.iterdir()) == []
    assert caplog.text.count("busy") == 2


def test_what_is_kept_is_not_measured_again(tmp_path):
    curve = timed_curve(TimedSlot(FakeModel()), tmp_path)
    cost = timed_draft(TimedDrafter(), tmp_path)
    slot, drafter = TimedSlot(FakeModel()), TimedDrafter()
    assert timed_curve(slot, tmp_path) == curve
    assert timed_draft(drafter, tmp_path) == cost
    assert (slot.passes, drafter.num_calls) == ([], 0)


NO_FILES = ["", "not JSON", "[]", "null", "3", "\udcff", "[" * 100_000]
FOREIGN = {"identity": "something else"}


def spoilt_curves(text: str) -> list[str]:
    raw = json.loads(text)
    changes = (
        {"ms": [*raw["ms"][:-1], math.nan]},
        {"ms": [*raw["ms"][:-1], math.inf]},
        {"ms": [0.0] * 8},
        {"ms": [-1.0, *raw["ms"][1:]]},
        {"ms": list(range(9, 1, -1))},
        {"ms": raw["ms"][:3]},
        {"ms": None},
        {"ms": ["a"] * 8},
        {"ms": [*raw["ms"][:-1], 10**400]},
        {"widths": [*raw["widths"][:-1], math.inf]},
        {"widths": [1, 2]},
        {"widths": [1, 2], "ms": [1.0, 2.0]},
        FOREIGN,
    )
    without = json.dumps({key: raw[key] for key in ("widths", "ms")})
    changed = [json.dumps(raw | change) for change in changes]
    return [*NO_FILES, text[: len(text) // 2], *changed, without]


def spoilt_drafts(text: str) -> list[str]:
    raw = json.loads(text)
    changes = (
        {"step_ms": math.nan},
        {"step_ms": math.inf},
        {"step_ms": 0.0},
        {"step_ms": "a"},
        {"step_ms": None},
        {"row_ms": -1.0},
        {"row_ms": math.nan},
        FOREIGN,
    )
    without = json.dumps({key: raw[key] for key in ("identity", "step_ms")})
    changed = [json.dumps(raw | change) for change in changes]
    return [*NO_FILES, text[: len(text) // 2], *changed, without]


@pytest.mark.parametrize("index", range(22))
def test_an_unusable_file_of_a_curve_is_measured_again_and_replaced(tmp_path, caplog, index):
    timed_curve(TimedSlot(FakeModel()), tmp_path)
    (path,) = tmp_path.iterdir()
    good = path.read_text()
    path.write_bytes(spoilt_curves(good)[index].encode("utf-8", "surrogateescape"))
    slot = TimedSlot(FakeModel())
    curve = timed_curve(slot, tmp_path)
    assert "unusable" in caplog.text
    assert len(slot.passes) > 40
    assert curve == CostCurve(WIDTHS, tuple(json.loads(path.read_text())["ms"]))
    assert [child.name for child in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("index", range(17))
def test_an_unusable_file_of_a_draft_is_measured_again_and_replaced(tmp_path, caplog, index):
    good = timed_draft(TimedDrafter(), tmp_path)
    (path,) = tmp_path.iterdir()
    spoilt = spoilt_drafts(path.read_text())
    path.write_bytes(spoilt[index].encode("utf-8", "surrogateescape"))
    drafter = TimedDrafter()
    assert timed_draft(drafter, tmp_path) == good
    assert "unusable" in caplog.text
    assert drafter.num_calls > 0
    assert timed_draft(TimedDrafter(), tmp_path) == good
    assert [child.name for child in tmp_path.iterdir()] == [path.name]


def test_another_model_drafter_provider_or_thread_count_has_a_file_of_its_own(tmp_path):
    timed_curve(TimedSlot(FakeModel()), tmp_path)
    slot = TimedSlot(FakeModel())
    slot.spec = replace(slot.spec, identity="threads=7")
    timed_curve(slot, tmp_path)
    timed_draft(TimedDrafter(), tmp_path)
    timed_draft(TimedDrafter(), tmp_path, "another")
    assert len(list(tmp_path.iterdir())) == 4


def test_a_folder_that_cannot_be_written_costs_a_warning_only(tmp_path, caplog):
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert timed_curve(TimedSlot(FakeModel()), blocked / "costs").widths == WIDTHS
    assert timed_draft(TimedDrafter(), blocked / "costs").step_ms == pytest.approx(2.0)
    assert caplog.text.count("cannot be kept") == 2


def test_a_full_disk_costs_a_warning_and_leaves_nothing_behind(tmp_path, caplog, monkeypatch):
    def full(path: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    assert timed_draft(TimedDrafter(), tmp_path).step_ms == pytest.approx(2.0)
    assert "No space left" in caplog.text
    assert list(tmp_path.iterdir()) == []
