"""The document store against VS Code's own document class, run by Node on the same random edits."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lsp_server.documents import Change, Document, Encoding, Position, Range
from tests.conftest import missing

HERE = Path(__file__).parent
PACKAGE = "vscode-languageserver-textdocument"
PIECES = ("a", "b", " ", "\n", "\r\n", "\r", "\n", "é", "😋", "\u2028", "\x0c", "\x85", "x=1")
NUM_DOCUMENTS, NUM_EDITS = 400, 8


def random_text(source: random.Random, length: int) -> str:
    return "".join(source.choice(PIECES) for _ in range(source.randint(0, length)))


def oracle_cases(seed: int) -> list[dict[str, Any]]:
    source = random.Random(seed)
    texts = [random_text(source, 30) for _ in range(NUM_DOCUMENTS)]
    inserts = [[random_text(source, 4) for _ in range(NUM_EDITS)] for _ in texts]
    run = subprocess.run(
        ["node", str(HERE / "text_oracle.js")],
        input=json.dumps({"seed": seed, "texts": texts, "inserts": inserts}),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    cases: list[dict[str, Any]] = json.loads(run.stdout)
    return cases


@pytest.fixture(scope="module", autouse=True)
def node() -> None:
    if shutil.which("node") is None:
        missing("node is not installed")
    folders = [HERE / "node_modules", *map(Path, os.environ.get("NODE_PATH", "").split(os.pathsep))]
    if not any((folder / PACKAGE).is_dir() for folder in folders):
        missing(f"the npm package {PACKAGE} is absent: run `npm ci --prefix {HERE.name}` in tests/")


def units(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")


def splits_pair(data: bytes, unit: int) -> bool:
    around = data[2 * unit - 2 : 2 * unit + 2]
    return len(around) == 4 and around[1] & 0xFC == 0xD8 and around[3] & 0xFC == 0xDC


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_edit_gives_the_text_that_vs_code_has(seed: int) -> None:
    num_edits = 0
    for case in oracle_cases(seed):
        document = Document("u", "plaintext", 0, case["text"], Encoding.UTF16)
        for edit in case["edits"]:
            before = document.text
            start, end = (Position(**edit["range"][name]) for name in ("start", "end"))
            for position, offset in zip((start, end), edit["offsets"], strict=True):
                ours = len(units(before[: document.offset_at(position)])) // 2
                inside_pair = splits_pair(units(before), offset)
                assert ours == offset - inside_pair, (before, position)
            document.apply(Change(Range(start, end), edit["text"]))
            assert units(document.text) == units(edit["out"]), (before, edit)
            assert document.num_lines == edit["lines"], (before, edit)
            num_edits += 1
    assert num_edits == NUM_DOCUMENTS * NUM_EDITS
