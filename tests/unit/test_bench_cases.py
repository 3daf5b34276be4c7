"""The prompts of the suites: as many as are asked for, with the public sets and without."""

from __future__ import annotations

import pytest

from lsp_server.bench.cases import load_held_cases


@pytest.mark.parametrize("count", [1, 2, 3, 5, 12, 60])
def test_held_prompts_are_of_three_kinds_also_without_the_public_sets(count, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cases, origin = load_held_cases(count)
    assert origin == "the Python standard library"
    assert len(cases) == count
    assert load_held_cases(count) == (cases, origin)
    kinds = [case.name.partition(":")[0] for case in cases]
    share = -(-count // 3)
    assert kinds.count("body") == min(share, count - share)
    assert kinds.count("edit") == max(0, count - 2 * share)
    assert all(case.prefix.strip() for case in cases)
