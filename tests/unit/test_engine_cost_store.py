"""Measured costs: what a measurement finds, and the file in which it is kept."""

from __future__ import annotations

import json
import logging
import math

import pytest

from lsp_server.engine.controller import CostCurve
from lsp_server.engine.cost_store import cost_curve, measure
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


def timed_curve(slot: TimedSlot, folder) -> CostCurve:
    return cost_curve(slot, folder, clock=lambda: slot.now)


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


def test_a_curve_of_a_busy_machine_is_used_but_not_kept(tmp_path, caplog):
    slot = TimedSlot(FakeModel(), lambda width, index: 10.0 + width + 20.0 * (index % 3 > 0))
    with caplog.at_level(logging.INFO):
        assert timed_curve(slot, tmp_path).ms[0] > 0
    assert list(tmp_path.iterdir()) == []
    assert "busy" in caplog.text


def test_a_kept_curve_is_not_measured_again(tmp_path):
    first = timed_curve(TimedSlot(FakeModel()), tmp_path)
    slot = TimedSlot(FakeModel())
    assert timed_curve(slot, tmp_path) == first
    assert slot.passes == []


def corrupted(text: str) -> list[str]:
    raw = json.loads(text)
    return [
        "",
        "not JSON",
        "[]",
        "null",
        text[: len(text) // 2],
        "\udcff",
        *(
            json.dumps(raw | change)
            for change in (
                {"ms": [*raw["ms"][:-1], math.nan]},
                {"ms": [*raw["ms"][:-1], math.inf]},
                {"ms": [0.0] * 8},
                {"ms": [-1.0, *raw["ms"][1:]]},
                {"ms": list(range(9, 1, -1))},
                {"ms": raw["ms"][:3]},
                {"ms": None},
                {"ms": ["a"] * 8},
                {"widths": [1, 2]},
                {"identity": "another model"},
            )
        ),
        json.dumps({key: raw[key] for key in ("widths", "ms")}),
    ]


@pytest.mark.parametrize("index", range(17))
def test_an_unusable_cost_file_is_measured_again_and_replaced(tmp_path, index):
    timed_curve(TimedSlot(FakeModel()), tmp_path)
    (path,) = tmp_path.iterdir()
    good = path.read_text()
    path.write_bytes(corrupted(good)[index].encode("utf-8", "surrogateescape"))
    slot = TimedSlot(FakeModel())
    curve = timed_curve(slot, tmp_path)
    assert len(slot.passes) > 40
    assert curve == CostCurve(WIDTHS, tuple(json.loads(path.read_text())["ms"]))
    assert [child.name for child in tmp_path.iterdir()] == [path.name]


def test_another_model_provider_or_thread_count_has_a_file_of_its_own(tmp_path):
    timed_curve(TimedSlot(FakeModel()), tmp_path)
    slot = TimedSlot(FakeModel(eos_ids=frozenset({1})))
    slot.spec = type(slot.spec)("fake", 16, 512, frozenset({1}), "threads=7")
    timed_curve(slot, tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_folder_that_cannot_be_written_costs_a_warning_only(tmp_path, caplog):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with caplog.at_level(logging.WARNING):
        curve = timed_curve(TimedSlot(FakeModel()), blocked / "costs")
    assert curve.widths == WIDTHS
    assert "cannot be kept" in caplog.text
