"""A text in chunks that can stand alone in a prompt: functions, outlines of types, what is between.

Chunks are whole lines, and no two of them overlap but a type and its members.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from lsp_server.syntax import Definition
from lsp_server.text.languages import language_of
from lsp_server.text.outline import outline_of

MAX_LINES = 30
"""Of a chunk; what is longer is cut behind them."""
MAX_LINE = 400
"""Characters; a longer line is no code to read, and a chunk ends before it."""
_LEAST_CHARACTERS = 30
"""Of what is between definitions; less says nothing."""

_BODY_MARK = re.compile(r"\s*(?:\{|=>)?\s*\Z")
_CONSTANT = re.compile(
    r"^(?:(?:export|const|let|var|static|pub|final|public|private|internal)[ \t]+)*"
    r"([^\W\d]\w*)[ \t]*(?::[^=\n]+)?=(?!=)",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Chunk:
    first: int
    last: int
    """Lines of the text, the last one included, that it stands for."""
    text: str
    """Whole lines with LF, none of them blank at either end."""
    names: tuple[str, ...] = ()
    """What it defines."""
    header: str = ""
    """The signature of the type that it is a member of."""
    outline: str = ""
    """A function's signature as a declaration; empty for what has no shorter form."""

    def overlaps(self, other: Chunk) -> bool:
        return self.first <= other.last and other.first <= self.last


def chunks_of(text: str, language_id: str, uri: str) -> tuple[Chunk, ...]:
    """Chunks in the order of the text, members behind the type that has them.

    `text` has LF line ends.
    """
    lines = _Lines(text)
    definitions, imports = outline_of(text, language_id, uri)
    found = list(_defined(lines, definitions, language_of(language_id, uri).stub))
    taken = [(chunk.first, chunk.last) for chunk in found]
    taken += [lines.span(*span) for span in imports]
    found += _between(lines, taken)
    return tuple(sorted(found, key=lambda chunk: (chunk.first, -chunk.last)))


class _Lines:
    """The lines of a text, found by offset."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = text.split("\n")
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """First and last line of a part of the text."""
        first = bisect_right(self._starts, start) - 1
        return first, max(first, bisect_right(self._starts, max(start, end - 1)) - 1)

    def joined(self, lines: Sequence[str]) -> str:
        """These lines, without blank ones at the ends, cut behind MAX_LINES."""
        lines = list(takewhile(lambda line: len(line) <= MAX_LINE, lines))
        while lines and not lines[0].strip():
            del lines[0]
        del lines[MAX_LINES:]
        while lines and not lines[-1].strip():
            lines.pop()
        return "".join(line.rstrip() + "\n" for line in lines)

    def signature(self, definition: Definition) -> list[str]:
        """Its lines up to where its body begins, indented as they are."""
        first, _ = self.span(definition.start, definition.start + 1)
        before = self.text[self._starts[first] : definition.start]
        signature = _BODY_MARK.sub("", self.text[definition.start : definition.body])
        return f"{'' if before.strip() else before}{signature}".split("\n")


def _defined(lines: _Lines, definitions: Sequence[Definition], stub: str) -> Iterator[Chunk]:
    types: list[Definition] = []
    said = -1
    for number, definition in enumerate(definitions):
        first, last = lines.span(definition.start, definition.end)
        while types and types[-1].end <= definition.start:
            said = max(said, lines.span(types[-1].start, types.pop().end)[1])
        header = "\n".join([*lines.signature(types[-1]), ""]) if types else ""
        if types and definition.body == definition.end and not definition.is_type:
            continue  # its type says all of it
        if first <= max(said, lines.span(types[-1].start, 0)[0] if types else -1):
            continue  # it shares a line with what is a chunk already
        if definition.is_type:
            rest = definitions[number + 1 :]
            members = rest[: bisect_left(rest, definition.end, key=lambda other: other.start)]
            names = (definition.name, *(each.name for each in members if each.body == each.end))
            yield Chunk(first, last, _outline(lines, first, last, members, stub), names, header)
            types.append(definition)
        else:
            text = lines.joined([lines.lines[n] for n in range(first, last + 1)])
            outline = lines.joined(_declaration(lines, definition, stub))
            yield Chunk(first, last, text, (definition.name,), header, outline)
            said = last


def _declaration(lines: _Lines, definition: Definition, stub: str) -> list[str]:
    *head, last = lines.signature(definition)
    return [*head, last if definition.body == definition.end else last + stub]


def _outline(lines: _Lines, first: int, last: int, members: Sequence[Definition], stub: str) -> str:
    """A type's own lines, and of its members' the signatures; none of them blank."""
    found: list[str] = []
    number = first
    for member in members:
        member_first, member_last = lines.span(member.start, member.end)
        is_whole = member.is_type or member.body == member.end
        if is_whole or member_first < max(number, first + 1):
            continue
        found += [*lines.lines[number:member_first], *_declaration(lines, member, stub)]
        number = member_last + 1
    found += lines.lines[number : last + 1]
    return lines.joined([line for line in found if line.strip()])


def _between(lines: _Lines, taken: Sequence[tuple[int, int]]) -> Iterator[Chunk]:
    """Paragraphs outside all definitions and imports, short ones together."""
    covered: set[int] = set()
    for first, last in taken:
        covered.update(range(first, last + 1))
    run: list[int] = []
    for number, line in enumerate([*lines.lines, ""]):
        is_end = number in covered or number == len(lines.lines)
        is_full = len(run) >= MAX_LINES // 2 and not line.strip()
        if (is_end or is_full) and run:
            text = lines.joined([lines.lines[n] for n in run])
            if len(text) >= _LEAST_CHARACTERS:
                yield Chunk(run[0], run[-1], text, tuple(_CONSTANT.findall(text)))
            run = []
        if not is_end and len(run) < MAX_LINES:
            run.append(number)
