"""Answers from caches, from looking ahead and from a warm engine are those of a fresh server.

A few places of what `bench replay --check` compares at 200.
"""

from __future__ import annotations

import pytest

from lsp_server.bench.equality import STRIDE
from lsp_server.bench.replay_check import compare
from lsp_server.bench.traces import load_traces

PLACES = 5
"""Of each trace; with more of them the run would take minutes."""


@pytest.mark.model
def test_whatever_is_in_its_caches_a_server_answers_as_a_fresh_one(
    default_model_folder, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)  # without the recordings: the same places everywhere
    traces, _ = load_traces(PLACES * STRIDE)
    found = compare(str(default_model_folder), [(trace, PLACES) for trace in traces])
    assert found.mismatches == []
    assert found.missing == []
    assert found.num_points == 2 * PLACES
