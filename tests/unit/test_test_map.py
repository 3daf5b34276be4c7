"""The tests that the documents name exist, every property has its row, and the examples run."""

from __future__ import annotations

import ast
import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAP = ROOT / "tests" / "README.md"
ENGINE = ROOT / "lsp_server" / "engine" / "README.md"
NUM_PROPERTIES = 54
_NAME = re.compile(r"`(test_\w+)`")


def existing_tests() -> set[str]:
    found: set[str] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(node.name)
    return found


def rows() -> dict[int, str]:
    lines = MAP.read_text(encoding="utf-8").splitlines()
    numbered = [re.match(r"\| (\d+) \|.*\| (.*) \|$", line) for line in lines]
    return {int(row[1]): row[2] for row in numbered if row}


@pytest.mark.parametrize("document", [MAP, ENGINE], ids=["tests", "engine"])
def test_every_test_that_a_document_names_exists(document):
    named = set(_NAME.findall(document.read_text(encoding="utf-8")))
    assert len(named) > 20
    assert named - existing_tests() == set()


def test_every_property_has_a_row_with_a_test_or_the_reason_why_there_is_none():
    assert list(rows()) == list(range(1, NUM_PROPERTIES + 1))
    for number, held_by in rows().items():
        assert _NAME.search(held_by) or "does not apply yet: " in held_by, number


def test_the_examples_of_the_engines_document_come_out_as_written():
    tried = doctest.testfile(str(ENGINE), module_relative=False)
    assert tried.attempted > 0
    assert tried.failed == 0
