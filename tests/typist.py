"""Somebody who types all day: edits in many files, as an editor would report them.

Keeps the files' texts, so that every position is one of the document; the same seed, the same day.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from dataclasses import dataclass, field

STATEMENTS = (
    "total = total + value",
    "for item in items:",
    "return sorted(values, key=lambda v: v.name)",
    "if not found or index > len(items):",
    "raise ValueError(f'unknown name: {name}')",
    "message = 'naïve café 😋'",
    "self.cache[key] = self.load(key)",
    "# what is left over comes last",
    "",
)
MAX_LINES = 150
"""Of a file; a longer one is cut."""


@dataclass(slots=True)
class File:
    uri: str
    line_end: str
    lines: list[str]
    line: int = 0
    version: int = 1
    pending: str = ""
    """What is still to be typed of the statement under way."""

    @property
    def text(self) -> str:
        return self.line_end.join(self.lines)

    @property
    def column(self) -> int:
        """Of the cursor, at the end of its line, in UTF-16 units."""
        return len(self.lines[self.line].encode("utf-16-le")) // 2


@dataclass(frozen=True, slots=True)
class Edit:
    """`text` in place of the range; without a range the whole document's."""

    text: str
    range: tuple[tuple[int, int], tuple[int, int]] | None = None


@dataclass(slots=True)
class Typist:
    """Files are opened when they are come to; the one that was left longest ago is closed."""

    seed: int = 0
    num_files: int = 300
    max_open: int = 40
    edits_a_visit: int = 100
    open: OrderedDict[str, File] = field(default_factory=OrderedDict)
    _seen: set[str] = field(default_factory=set)
    _left: int = 0
    _random: random.Random = field(default_factory=random.Random)

    def __post_init__(self) -> None:
        self._random.seed(self.seed)

    @property
    def num_seen(self) -> int:
        return len(self._seen)

    def visit(self) -> tuple[File, str | None] | None:
        """Every so often another file: (it, the URI to close); it is to be opened if its version
        is 1. None: the same file goes on."""
        if self._left:
            self._left -= 1
            return None
        self._left = self.edits_a_visit - 1
        unseen = [n for n in range(self.num_files) if f"file:///day/{n}.py" not in self._seen]
        n = self._random.choice(unseen or range(self.num_files))
        uri = f"file:///day/{n}.py"
        self._seen.add(uri)
        file = self.open.pop(uri, None)
        if file is None:
            lines = [self._random.choice(STATEMENTS) for _ in range(40)]
            file = File(uri, "\r\n" if n % 4 == 0 else "\n", lines)
        self.open[uri] = file
        closed = self.open.popitem(last=False)[0] if len(self.open) > self.max_open else None
        file.line = self._random.randrange(len(file.lines))
        return file, closed

    @property
    def file(self) -> File:
        """The one that is edited."""
        return next(reversed(self.open.values()))

    def edit(self) -> Edit:
        """The next one, done in the file already."""
        file, chance = self.file, self._random.random()
        file.version += 1
        if len(file.lines) > MAX_LINES:
            return self._cut(file, 100)
        if chance < 0.80:
            return self._type(file)
        if chance < 0.90:
            return self._delete(file, 1)
        if chance < 0.94:
            return self._enter(file, [""])
        if chance < 0.96:
            return self._enter(file, self._random.choices(STATEMENTS, k=5))
        if chance < 0.98:
            return self._cut(file, 5)
        if chance < 0.99:
            return self._delete(file, len(file.lines[file.line]))
        file.lines = [line.rstrip() for line in file.lines]  # as a formatter does
        return Edit(file.text)

    def _type(self, file: File) -> Edit:
        if not file.pending:
            file.pending = self._random.choice(STATEMENTS) or " "
        character, file.pending = file.pending[0], file.pending[1:]
        at = (file.line, file.column)
        file.lines[file.line] += character
        return Edit(character, (at, at))

    def _delete(self, file: File, num_characters: int) -> Edit:
        end, line = (file.line, file.column), file.lines[file.line]
        file.lines[file.line] = line[: len(line) - num_characters]
        return Edit("", ((file.line, file.column), end))

    def _enter(self, file: File, lines: list[str]) -> Edit:
        at = (file.line, file.column)
        file.lines[file.line + 1 : file.line + 1] = lines
        file.line += len(lines)
        return Edit(file.line_end + file.line_end.join(lines), (at, at))

    def _cut(self, file: File, num_lines: int) -> Edit:
        num = min(num_lines, len(file.lines) - 1)
        start = min(file.line, len(file.lines) - 1 - num)
        del file.lines[start : start + num]
        file.line = start
        return Edit("", ((start, 0), (start + num, 0)))
