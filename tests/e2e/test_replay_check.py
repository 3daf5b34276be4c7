"""The comparison with a fresh server finds a server that says something else, and only that."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lsp_server.bench.client import private_server
from lsp_server.bench.equality import STRIDE, Checker, Comparison
from lsp_server.bench.traces import typed

TEXT = "def total(values):\n    result = 0\n    for value in values:\n        result += value\n" * 4
PLACES = 5


def compare(folder: Path, cached: str, fresh: str) -> Comparison:
    """Two servers on scripts that say one text each."""
    names = []
    for name, text in (("cached", cached), ("fresh", fresh)):
        path = folder / f"{name}.json"
        path.write_text(json.dumps([{"after": "", "text": text}]))
        names.append(f"scripted:{path}")
    with private_server(names[0]) as one, private_server(names[1]) as other:
        one.start_session({})
        other.start_session({})
        checker = Checker(one, other)
        assert len(list(checker.check(typed("a.py", TEXT, PLACES * STRIDE), PLACES))) == PLACES
        one.close()
        other.close()
    return checker.found


def test_servers_that_say_the_same_are_alike(tmp_path):
    found = compare(tmp_path, "call(one, two)", "call(one, two)")
    assert found.num_points == PLACES
    assert found.counts["engine"] > 0
    assert found.mismatches == []


@pytest.mark.parametrize("fresh", ["call(one, three)", ""], ids=["other text", "nothing"])
def test_a_server_that_says_something_else_is_found_out(tmp_path, fresh):
    found = compare(tmp_path, "call(one, two)", fresh)
    assert found.mismatches
    assert {mismatch.kind for mismatch in found.mismatches} == {"engine"}
