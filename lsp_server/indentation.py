"""Indentation: what a line begins with, how wide that is, and how a document does it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

TAB_SIZE = 4
"""Columns of a tab where nobody has said."""

_WIDTHS = (2, 3, 4, 8)


@dataclass(frozen=True, slots=True)
class IndentStyle:
    """What a document indents with."""

    tabs: bool
    width: int
    """Columns of one level, and of a tab."""

    def columns(self, line: str) -> int:
        return indent_width(line, self.width)

    def blanks(self, columns: int) -> str:
        """Tabs and blanks that are `columns` wide at the start of a line."""
        if not self.tabs:
            return " " * columns
        num_tabs, num_blanks = divmod(columns, self.width)
        return "\t" * num_tabs + " " * num_blanks


def indent_of(line: str) -> str:
    """The blanks and tabs that a line begins with."""
    return line[: len(line) - len(line.lstrip(" \t"))]


def indent_width(line: str, tab_size: int = TAB_SIZE) -> int:
    """Columns of indentation."""
    return len(indent_of(line).expandtabs(tab_size))


def detect_style(lines: Iterable[str]) -> IndentStyle | None:
    """The style that most lines follow; None where no line is indented.

    The width of a level is that of the commonest step to a deeper line, of equals the last one.
    """
    num_tabs = num_blanks = previous = 0
    steps: dict[int, tuple[int, int]] = {}
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        indent = indent_of(line)
        num_tabs += indent.startswith("\t")
        num_blanks += indent.startswith("  ")
        step = len(indent) - previous
        if step in _WIDTHS and "\t" not in indent:
            steps[step] = (steps.get(step, (0, 0))[0] + 1, number)
        previous = len(indent)
    if num_tabs > num_blanks:
        return IndentStyle(tabs=True, width=TAB_SIZE)
    if num_blanks == 0 or not steps:
        return None
    return IndentStyle(tabs=False, width=max(steps, key=lambda step: steps[step]))


def chosen_style(
    detected: IndentStyle | None, tab_size: int | None, insert_spaces: bool | None
) -> IndentStyle | None:
    """What the editor says of its own options before what the document shows."""
    if tab_size is None and insert_spaces is None:
        return detected
    found = detected or IndentStyle(tabs=False, width=TAB_SIZE)
    tabs = found.tabs if insert_spaces is None else not insert_spaces
    return IndentStyle(tabs=tabs, width=tab_size or found.width)
