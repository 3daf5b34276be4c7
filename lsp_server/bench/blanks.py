"""Lines of real code that are taken out, to be written by a model: whole ones and second parts.

From HumanEval-Infilling (single lines) and ClassEval where they are, else from Python's own
library. Other files of the same set stand in for those that a user has open; with a class also its
skeleton (signatures and documentation), as a file that declares what it has.
"""

from __future__ import annotations

import hashlib
import random
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path

from lsp_server.bench.cases import DEFAULT_DATA, records
from lsp_server.errors import SettingsError

NUM_OTHERS = 8
_HUMANEVAL = "HumanEval_"
_MIN_CHARACTERS = 5
_HEAD_SHARE = 4
"""Lines of a class from behind its first quarter on are taken out; before, nothing tells of it."""


@dataclass(frozen=True, slots=True)
class Source:
    """One problem: a file, and its lines that may be taken out."""

    problem: str
    text: str
    lines: tuple[tuple[str, int], ...]
    """Each as the text that it stands in, which may differ in blank lines, and its row there."""
    outline: str | None = None


@dataclass(frozen=True, slots=True)
class Blank:
    """A line without its end."""

    name: str
    problem: str
    text: str
    """The file without what is to be written."""
    offset: int
    line: str
    """The whole line as its author wrote it."""
    others: tuple[tuple[str, str], ...]
    """Names and texts of other open files."""
    is_whole: bool
    """Nothing but indentation is left of the line."""

    @property
    def missing(self) -> str:
        """What is to be written."""
        start = self.text.rfind("\n", 0, self.offset) + 1
        return self.line[self.offset - start :]

    @property
    def is_of_humaneval(self) -> bool:
        return self.problem.startswith(_HUMANEVAL)

    @property
    def for_checking(self) -> bool:
        """The half that a problem belongs to, with all its lines: for checking, or for fitting."""
        return hashlib.sha256(self.problem.encode()).digest()[0] % 2 == 1


def load_blanks(count: int, data: Path | None, *, seed: int = 0) -> tuple[list[Blank], str]:
    """Two blanks of each of `count` lines, and a sentence on where they come from.

    The same line has one blank for the whole and one from a place inside on. Three lines of
    HumanEval to two of ClassEval; each problem gives one line before any gives a second.
    """
    rng = random.Random(seed)
    folder = data or (DEFAULT_DATA if DEFAULT_DATA.is_dir() else None)
    if folder is None:
        sources, origin = [list(_library())], "the Python standard library"
        shares = [count]
    else:
        sources = [list(_humaneval(folder)), list(_classeval(folder))]
        origin = f"HumanEval-Infilling and ClassEval in {folder}"
        shares = [count - 2 * count // 5, 2 * count // 5]
    blanks: list[Blank] = []
    for pool, share in zip(sources, shares, strict=True):
        lines = _lines(pool, rng)
        if len(lines) < share:
            raise SettingsError(
                f"Only {len(lines)} lines are there, {share} are wanted; ask for fewer cases."
            )
        for source, line in sorted(lines[:share], key=lambda line: line[0].problem):
            blanks += _blanks(source, line, _others(pool, source), rng)
    return blanks, origin


def _lines(pool: Sequence[Source], rng: random.Random) -> list[tuple[Source, tuple[str, int]]]:
    """Every line that may be taken out, one of each source, then another of each, and so on."""
    order = rng.sample(pool, len(pool))
    lines = [
        [(source, line) for line in rng.sample(source.lines, len(source.lines))] for source in order
    ]
    return [line for line in chain.from_iterable(zip_longest(*lines)) if line is not None]


def _others(pool: Sequence[Source], source: Source) -> tuple[tuple[str, str], ...]:
    at = pool.index(source)
    near = [pool[(at + step) % len(pool)] for step in range(1, min(NUM_OTHERS, len(pool)))]
    others = [(other.problem, other.text) for other in near]
    if source.outline is not None:
        others.append((f"{source.problem}_outline", source.outline))
    return tuple(others)


def _blanks(
    source: Source,
    place: tuple[str, int],
    others: tuple[tuple[str, str], ...],
    rng: random.Random,
) -> Iterator[Blank]:
    text, row = place
    lines = text.split("\n")
    line = lines[row].rstrip()
    indent = len(line) - len(line.lstrip())
    start = sum(len(above) + 1 for above in lines[:row])
    for column in (indent, rng.randrange(indent + 1, len(line))):
        kept = [*lines[:row], line[:column], *lines[row + 1 :]]
        yield Blank(
            f"{source.problem}:{row + 1}:{column + 1}",
            source.problem,
            "\n".join(kept),
            start + column,
            line,
            others,
            is_whole=column == indent,
        )


def _humaneval(folder: Path) -> Iterator[Source]:
    path = folder / "humaneval-infilling" / "HumanEval-SingleLineInfilling.jsonl.gz"
    found: dict[str, list[tuple[str, int]]] = {}
    for record in records(path):
        problem = f"{_HUMANEVAL}{record['task_id'].split('/')[2]}"
        text = record["prompt"] + record["canonical_solution"] + record["suffix"]
        if _is_worth_it(record["canonical_solution"]):
            found.setdefault(problem, []).append((text, record["prompt"].count("\n")))
    for problem, lines in found.items():
        yield Source(problem, lines[0][0], tuple(lines))


def _classeval(folder: Path) -> Iterator[Source]:
    for record in records(folder / "classeval" / "classeval_trimmed.jsonl.gz"):
        source = _source(record["task_id"], record["solution_code"], record["skeleton"])
        if source is not None:
            yield source


def _library() -> Iterator[Source]:
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        source = _source(path.stem, path.read_text(encoding="utf-8", errors="replace"), None)
        if source is not None:
            yield source


def _source(problem: str, text: str, outline: str | None) -> Source | None:
    lines = text.split("\n")
    rows = range(len(lines) // _HEAD_SHARE + 1, len(lines))
    worth = tuple((text, row) for row in rows if _is_worth_it(lines[row]))
    return Source(problem, text, worth, outline) if worth else None


def _is_worth_it(line: str) -> bool:
    stripped = line.strip()
    return len(stripped) >= _MIN_CHARACTERS and not stripped.startswith(("#", '"""', "'''"))
