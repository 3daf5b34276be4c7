"""Real places in real code to complete: the public sets where they are, else Python's own library.

The sets are HumanEval-Infilling, HumanEval-X (six languages) and ClassEval, as unmodified
`*.jsonl.gz` files in folders of these names; see README for where to have them.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lsp_server.errors import SettingsError

DEFAULT_DATA = Path("../shared/data")
_LANGUAGES = ("python", "js", "go", "java", "cpp", "rust")
_MIN_LINES = 8
_MIN_CHARACTERS = 9
_MAX_EDIT = 3000


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    prefix: str
    suffix: str


def load_cases(count: int, data: Path | None = None, seed: int = 0) -> tuple[list[Case], str]:
    """`count` cases and a sentence on where they come from.

    Without `data` the folder `../shared/data` is used if it is there, else the standard library.
    The choice is a fixed one for a seed: 40 % infilling, 36 % six languages, 24 % classes.
    """
    rng = random.Random(seed)
    folder = data or (DEFAULT_DATA if DEFAULT_DATA.is_dir() else None)
    if folder is None:
        files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
        texts = [(p.name, p.read_text(encoding="utf-8", errors="replace")) for p in files]
        cases = [_hole(name, text, rng) for name, text in rng.sample(texts, len(texts))]
        return _first([c for c in cases if c], count), "the Python standard library"
    pools = (
        (list(_infilling(folder)), 40),
        ([c for c in (_hole(n, t, rng) for n, t in _humaneval_x(folder)) if c], 36),
        ([c for c in (_hole(n, t, rng) for n, t in _classeval(folder)) if c], 24),
    )
    chosen: list[Case] = []
    for pool, share in pools:
        chosen += rng.sample(pool, min(len(pool), -(-count * share // 100)))
    rng.shuffle(chosen)
    return _first(chosen, count), f"HumanEval-Infilling, HumanEval-X, ClassEval in {folder}"


def load_held_cases(count: int, data: Path | None = None) -> tuple[list[Case], str]:
    """Fresh lines, block bodies and repetitive edits, a third each; `data` as in `load_cases`.

    A repetitive edit is a file whose first half has been written once more with a name changed,
    where the rest is to follow; of a long file its beginning, where short ones are too few.
    """
    rng = random.Random(1)
    fresh, origin = load_cases(count, data, seed=1)
    texts = [case.prefix + case.suffix for case in fresh]
    bodies = [case for text in texts if (case := _body(text, rng)) is not None]
    short_first = sorted(texts, key=lambda text: len(text) > _MAX_EDIT)
    edits = [case for text in short_first if (case := _edit(text, rng)) is not None]
    share = -(-count // 3)
    return _first([*fresh[:share], *bodies[:share], *edits[:share]][:count], count), origin


def _body(text: str, rng: random.Random) -> Case | None:
    """Everything behind a line that opens a block is to be written."""
    lines = text.splitlines(keepends=True)
    rows = [i for i, line in enumerate(lines[:-1]) if line.rstrip().endswith((":", "{"))]
    if not rows:
        return None
    row = rng.choice(rows)
    return Case(f"body:{row + 1}", "".join(lines[: row + 1]), "\n".join(["", *lines[row + 2 :]]))


def _edit(text: str, rng: random.Random) -> Case | None:
    if len(text) > _MAX_EDIT:
        text = text[: text.rfind("\n", 0, _MAX_EDIT) + 1]
    names = sorted(set(re.findall(r"\b[a-z_]{4,}\b", text)))
    if not names:
        return None
    name = rng.choice(names)
    edited = re.sub(rf"\b{name}\b", f"new_{name}", text)
    cut = edited.rfind("\n", 0, len(edited) * 2 // 3) + 1
    return Case(f"edit:{name}", f"{text}\n\n{edited[:cut]}", "") if cut else None


def _first(cases: list[Case], count: int) -> list[Case]:
    if len(cases) < count:
        raise SettingsError(
            f"Only {len(cases)} cases are there, {count} are wanted; ask for fewer."
        )
    return cases[:count]


def records(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a `*.jsonl.gz` file. Raises SettingsError that names it."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"{path} cannot be read ({error}); name the folder of the sets with --data."
        ) from error


def _infilling(folder: Path) -> Iterator[Case]:
    path = folder / "humaneval-infilling" / "HumanEval-SingleLineInfilling.jsonl.gz"
    for record in records(path):
        yield Case(record["task_id"], record["prompt"], "\n" + record["suffix"])


def _humaneval_x(folder: Path) -> Iterator[tuple[str, str]]:
    for language in _LANGUAGES:
        for record in records(folder / "humaneval-x" / f"humaneval_{language}.jsonl.gz"):
            head = record["prompt"] if language == "python" else record["declaration"]
            yield record["task_id"], head + record["canonical_solution"]


def _classeval(folder: Path) -> Iterator[tuple[str, str]]:
    for record in records(folder / "classeval" / "classeval_trimmed.jsonl.gz"):
        yield record["task_id"], record["solution_code"]


def _hole(name: str, text: str, rng: random.Random) -> Case | None:
    """Take out the second half of a line in the later two thirds of `text`."""
    lines = text.splitlines(keepends=True)
    rows = [
        i
        for i, line in enumerate(lines)
        if i > len(lines) // 3 and len(line.strip()) >= _MIN_CHARACTERS
    ]
    if len(lines) < _MIN_LINES or not rows:
        return None
    row = rng.choice(rows)
    line = lines[row]
    indent = len(line) - len(line.lstrip())
    column = rng.choice((indent, indent + len(line.strip()) // 2))
    prefix = "".join(lines[:row]) + line[:column]
    return Case(f"{name}:{row + 1}:{column + 1}", prefix, "\n" + "".join(lines[row + 1 :]))
