"""The suite `round` measures the rounds that it names: full drafts, accepted or rejected."""

from __future__ import annotations

import argparse
import dataclasses
import json

import pytest

from lsp_server.bench import round as suite
from lsp_server.bench.round import INDEXES, KINDS, code_token_ids, time_indexes, time_rounds
from lsp_server.settings.tree import Settings


@pytest.fixture(scope="module")
def text() -> list[int]:
    return code_token_ids(30_000)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.name} {kind.vocab}")
def test_every_kind_of_round_drafts_eight_tokens_and_ends_as_it_says(kind, text):
    assert len(time_rounds(kind, text[:4000], 3)) == 3


@pytest.mark.parametrize("kind", KINDS[:1] + KINDS[-1:], ids=lambda kind: kind.name)
def test_a_round_that_ends_otherwise_is_not_measured(kind, text, monkeypatch):
    honest = time_rounds.__globals__["_logits"]
    other = dataclasses.replace(kind, accepted=not kind.accepted)
    monkeypatch.setitem(time_rounds.__globals__, "_logits", lambda _, loop: honest(other, loop))
    with pytest.raises(AssertionError, match="not the round"):
        time_rounds(kind, text[:4000], 3)


def test_every_index_has_a_figure(text):
    figures = time_indexes(text, 2)
    assert set(figures) == set(INDEXES)
    assert all(ms > 0 for ms in figures.values())


def verdict(monkeypatch, capsys, rounds_ms: float, index_ms: float) -> tuple[int, str, list[str]]:
    """Exit code, page and the JSON line's verdict, had the measurements been these."""
    monkeypatch.setattr(suite, "time_rounds", lambda kind, text, num: [rounds_ms, 0.0, 9e9])
    monkeypatch.setattr(suite, "time_indexes", lambda text, num: dict.fromkeys(INDEXES, index_ms))
    args = argparse.Namespace(cases=3, full=False, json=False)
    code = suite.run(args, Settings())
    page, _, line = capsys.readouterr().out.rstrip().rpartition("\n")
    return code, page, json.loads(line)["above_target"]


def test_medians_below_their_targets_are_success(monkeypatch, capsys):
    code, page, above = verdict(monkeypatch, capsys, 0.4, 0.9)
    assert (code, above) == (0, [])
    assert "Every median is below its target." in page


def test_a_median_that_is_not_below_its_target_fails_and_is_named(monkeypatch, capsys):
    code, page, above = verdict(monkeypatch, capsys, 1.0, 0.9)
    assert (code, above) == (1, ["greedy, 50,000 tokens: 1.000 ms, not < 0.5"])
    assert above[0] in page
    code, page, above = verdict(monkeypatch, capsys, 0.4, 1.0)
    assert (code, above) == (1, ["lookup: update after a key and draft: 1.000 ms, not < 1"])
    assert above[0] in page
