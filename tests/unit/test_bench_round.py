"""The suite `round` measures the rounds that it names: full drafts, accepted or rejected."""

from __future__ import annotations

import dataclasses

import pytest

from lsp_server.bench.round import KINDS, code_token_ids, time_indexes, time_rounds


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
    assert set(figures) >= {"build_ms", "keystroke_ms"}
    assert all(ms > 0 for ms in figures.values())
