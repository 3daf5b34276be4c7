"""Indentation: what a line begins with, how wide that is, and how a document does it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

TAB_SIZE = 4
"""Columns of a tab where nobody has said."""

_LEVELS = {8: (0.2, 0.0), 4: (0.4, 0.45), 3: (0.2, 0.1), 2: (0.2, 0.2), 1: (0.9, 0.0)}
"""Columns of a level -> least share of the steps, greatest share of lines that are indented
otherwise, as comments are."""
_MIXED = 0.1
"""Share of lines from which on tabs beside blanks, or blanks beside tabs, are no exception."""
_OPENER = re.compile(r"(?:[:{]|[=-]>|\b(?:do|then|begin))\s*$")


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
    """The style that nearly all lines follow; None where it does not show.

    A level is the widest step to a deeper line that is no exception, of which the other indents are
    multiples. Steps behind a line that opens a block count, and others where there are none.
    """
    indents: list[str] = []
    behind_openers: Counter[int] = Counter()
    behind_others: Counter[int] = Counter()
    previous = ""
    for line in lines:
        if not line.strip():
            continue
        indent = indent_of(line)
        steps = behind_openers if _OPENER.search(previous) else behind_others
        steps[len(indent) - len(indent_of(previous))] += "\t" not in indent
        if indent:
            indents.append(indent)
        previous = line
    num_tabs = sum("\t" in indent for indent in indents)
    num_blanks = sum(indent.startswith("  ") for indent in indents)
    if num_tabs > _MIXED * len(indents):
        is_mixed = num_blanks > _MIXED * len(indents)
        return None if is_mixed else IndentStyle(tabs=True, width=TAB_SIZE)
    behind_others[1] = 0  # of comments
    for steps in (behind_openers, behind_others):
        num_steps = sum(steps[width] for width in _LEVELS)
        for width, (least, most) in _LEVELS.items():
            num_odd = sum(len(indent) % width > 0 for indent in indents)
            if 0 < num_steps * least <= steps[width] and num_odd <= most * len(indents):
                return IndentStyle(tabs=False, width=width)
    return None


def chosen_style(
    detected: IndentStyle | None, tab_size: int | None, insert_spaces: bool | None
) -> IndentStyle | None:
    """What the editor says of its own options before what the document shows."""
    if tab_size is None and insert_spaces is None:
        return detected
    found = detected or IndentStyle(tabs=False, width=TAB_SIZE)
    tabs = found.tabs if insert_spaces is None else not insert_spaces
    return IndentStyle(tabs=tabs, width=tab_size or found.width)
