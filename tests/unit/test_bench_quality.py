"""What is measured of quality, and that the shipped confidence is what the measurement gave."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lsp_server.bench.blanks import load_blanks
from lsp_server.bench.calibration import Judged, curve, fit, keep, recall, shown_at
from lsp_server.bench.quality import (
    MAX_WRONG_SHOWN,
    MIN_RIGHT_SHOWN,
    NO_INFILLING,
    Outcome,
    edit_similarity,
    missed,
    row_of,
)
from lsp_server.bench.quality_page import page
from lsp_server.completion import Eagerness
from lsp_server.errors import SettingsError
from lsp_server.generation.confidence import THRESHOLDS, WEIGHTS, Features

RECORDED = Path(__file__).parent / "confidence_features.json"
"""`tabahead bench quality --full --calibrate FILE`, default model."""


@pytest.fixture(scope="module")
def recorded():
    return recall(RECORDED)


def test_the_shipped_weights_are_what_the_recorded_lines_give(recorded):
    assert fit([line for line in recorded if not line.for_checking]) == WEIGHTS


def test_the_rule_holds_its_bars_on_the_half_it_was_not_fitted_to(recorded):
    checked = [line for line in recorded if line.for_checking]
    shown = [shown_at(checked, THRESHOLDS[eagerness], WEIGHTS) for eagerness in Eagerness]
    balanced = shown[1]
    assert balanced.right >= MIN_RIGHT_SHOWN
    assert balanced.wrong <= MAX_WRONG_SHOWN
    assert missed(checked, balanced) == []
    # The surer one wants to be, the less is shown and the more of it is right.
    assert sorted(shown, key=lambda share: share.coverage, reverse=True) == shown
    assert sorted(shown, key=lambda share: share.precision) == shown


def test_a_confidence_is_about_the_share_of_lines_that_are_right(recorded):
    checked = [line for line in recorded if line.for_checking]
    for low, high in ((0.0, 0.1), (0.1, 0.4), (0.4, 0.7), (0.7, 1.0)):
        inside = shown_at(checked, low, WEIGHTS), shown_at(checked, high, WEIGHTS)
        num = len(checked) * (inside[0].coverage - inside[1].coverage)
        right = sum(line.is_right for line in checked) * (inside[0].right - inside[1].right)
        assert low - 0.1 <= right / num <= high + 0.1


def test_lines_are_kept_as_they_are_recalled(recorded, tmp_path):
    path = tmp_path / "features.json"
    keep(recorded[:20], path)
    assert recall(path) == recorded[:20]
    with pytest.raises(SettingsError, match="cannot be written"):
        keep(recorded, tmp_path / "absent" / "features.json")


LINE = Features(-1.0, -0.5, -0.8, -0.1, 0.7, 0.0, 0.0)


def test_what_tells_right_lines_from_wrong_ones_gets_the_weight():
    lines = [
        Judged(replace(LINE, total=-float(n), copied=copied), n < 10, False)
        for n in range(20)
        for copied in (0.0, 1.0)
    ]
    weights = fit(lines).weights
    assert weights.total > 0.1
    assert weights.copied == 0.0
    assert weights.first == 0.0


def test_no_log_probability_ever_counts_against_a_line():
    lines = [Judged(replace(LINE, lowest=-float(n)), n >= 10, False) for n in range(20)]
    assert fit(lines).weights.lowest == 0.0


def test_shares_of_what_is_shown():
    lines = [Judged(replace(LINE, total=-total), total < 4, True) for total in (1, 2, 5, 6, 3)]
    by = replace(WEIGHTS, bias=0.0, weights=Features(1.0, 0, 0, 0, 0, 0, 0))
    shown = shown_at(lines, 0.1, by)
    assert (shown.coverage, shown.precision, shown.right, shown.wrong) == (0.4, 1.0, 2 / 3, 0.0)
    assert [share.coverage for share in curve(lines, by)][::4] == [1.0, 0.8, 0.6, 0.4, 0.2]
    assert shown_at(lines, 1.0, by).precision == 1.0


def test_bars_cannot_be_held_by_lines_of_one_kind():
    lines = [Judged(LINE, True, True)] * 3
    (told,) = missed(lines, shown_at(lines, 0.0, WEIGHTS))
    assert "more --cases" in told
    mixed = [*lines, Judged(LINE, False, True)]
    assert missed(mixed, shown_at(mixed, 0.0, WEIGHTS)) == [
        "100% of the wrong lines are shown, over 50%"
    ]
    assert missed(mixed, shown_at(mixed, 1.0, WEIGHTS)) == [
        "0% of the right lines are shown, not 60%"
    ]


def test_similarity_counts_edits():
    assert edit_similarity("", "") == 1.0
    assert edit_similarity("abcd", "abcd") == 1.0
    assert edit_similarity("abcd", "") == 0.0
    assert edit_similarity("kitten", "sitting") == pytest.approx(1 - 3 / 7)
    assert edit_similarity("return a", "return b") == edit_similarity("return b", "return a")


@pytest.fixture(scope="module")
def blanks():
    return load_blanks(40, None)[0]


def test_a_blank_is_a_line_without_its_end(blanks):
    assert len(blanks) == 80
    for whole, inside in zip(blanks[::2], blanks[1::2], strict=True):
        assert (whole.line, whole.problem) == (inside.line, inside.problem)
        assert whole.is_whole
        assert not inside.is_whole
        for blank in (whole, inside):
            start = blank.text.rfind("\n", 0, blank.offset) + 1
            assert blank.text[start : blank.offset] + blank.missing == blank.line
            assert blank.text[blank.offset : blank.offset + 1] in ("\n", "")
            assert blank.missing.strip()
    assert load_blanks(40, None)[0] == blanks


def test_no_problem_is_in_both_halves(blanks):
    halves = {blank.problem: blank.for_checking for blank in blanks}
    assert all(halves[blank.problem] is blank.for_checking for blank in blanks)
    assert set(halves.values()) == {True, False}
    assert all(blank.problem not in dict(blank.others) for blank in blanks)


def test_a_row_tells_of_humanevals_lines_apart(blanks):
    """As often as they are right, and no other line."""
    outcomes = [
        Outcome(blank, blank.line if blank.is_of_humaneval else "", blank.missing, None)
        for blank in (
            replace(blanks[0], problem="HumanEval_1"),
            replace(blanks[1], problem="HumanEval_2"),
            replace(blanks[2], problem="ClassEval_1"),
            replace(blanks[3], problem="ClassEval_2"),
        )
    ]
    row = row_of("default", outcomes)
    assert (row["variant"], row["exact_line"], row["cases"]) == ("default", 0.5, 4)
    assert (row["humaneval"]["exact_line"], row["humaneval"]["cases"]) == (1.0, 2)
    assert row_of("default", outcomes[2:])["humaneval"] is None
    assert {*row} == {*NO_INFILLING} - {"status"}


def test_more_lines_than_there_are_cannot_be_had():
    with pytest.raises(SettingsError, match="ask for fewer"):
        load_blanks(10_000_000, None)


def test_the_page_says_what_is_not_supported_and_what_was_missed(recorded):
    row = {"threshold": 0.1, "coverage": 0.5, "precision": 0.4, "right": 0.9, "wrong": 0.3}
    result = {
        "model": "tiny",
        "lines": 3,
        "data": "somewhere",
        "rows": [
            {
                "variant": "default",
                "exact_line": 0.25,
                "edit_similarity": 0.5,
                "first_token": 0.75,
                "cases": 6,
                "humaneval": {
                    "exact_line": 0.125,
                    "edit_similarity": 0.5,
                    "first_token": 0.75,
                    "cases": 4,
                },
            },
            NO_INFILLING,
        ],
        "confidence": {"checked": 6, "right": 2, "settings": {"eager": row}, "curve": [row]},
        "weights": {"bias": 1.5, "total": 0.25},
        "missed": ["a bar"],
    }
    text = page(result)
    for part in (
        "not supported",
        "0.250",
        "HumanEval",
        "0.125",
        "eager 0.10",
        "bias=1.5",
        "total=0.25",
        "MISSED: a bar",
    ):
        assert part in text
