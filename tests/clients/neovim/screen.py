"""The screen of a Neovim that draws to us: from the events of its user interface to a picture."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from rich.color import Color
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import MONOKAI

Cell = tuple[str, int]
"""A character, and the number of its highlight."""


class Screen:
    def __init__(self, width: int, height: int) -> None:
        self._cells: list[list[Cell]] = [[(" ", 0)] * width for _ in range(height)]
        self._highlights: dict[int, dict[str, Any]] = {}
        self._colours = (0xFFFFFF, 0x000000)
        self._cursor = (0, 0)

    def take(self, event: list[Any]) -> None:
        """One event of `redraw`: its name and a list of arguments for each time it happened."""
        name, *calls = event
        handle = getattr(self, f"_{name}", None)
        if handle is not None:  # the others change no cell
            for call in calls:
                handle(*call)

    def lines(self) -> list[str]:
        return ["".join(text for text, _ in row).rstrip() for row in self._cells]

    def save(self, path: Path, title: str) -> None:
        """As SVG; the cursor's cell is reversed, trailing empty lines are left out."""
        last = max((n for n, line in enumerate(self.lines()) if line not in ("", "~")), default=0)
        # Rich fills a file of this width; the text goes to nobody.
        with open(os.devnull, "w", encoding="utf-8") as nowhere:
            console = Console(record=True, width=len(self._cells[0]), file=nowhere)
            for number in range(last + 1):
                console.print(_Row(list(self._segments(number))))
            drawn = console.export_svg(title=title, theme=MONOKAI)
        # The font would be loaded from the network by whoever looks at the picture.
        picture = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(picture, encoding="utf-8")

    def _segments(self, number: int) -> Iterator[Segment]:
        cells = enumerate(self._cells[number])
        styled = [
            (text, self._style(highlight) + Style(reverse=(number, column) == self._cursor))
            for column, (text, highlight) in cells
        ]
        for style, run in groupby(styled, key=itemgetter(1)):
            yield Segment("".join(text for text, _ in run), style)

    def _style(self, number: int) -> Style:
        attributes = self._highlights.get(number, {})
        foreground = attributes.get("foreground", self._colours[0])
        return Style(
            color=Color.from_rgb(*foreground.to_bytes(3, "big")),
            bold=attributes.get("bold", False),
            italic=attributes.get("italic", False),
        )

    def _grid_resize(self, grid: int, width: int, height: int) -> None:
        self._cells = [[(" ", 0)] * width for _ in range(height)]

    def _default_colors_set(self, foreground: int, background: int, *rest: int) -> None:
        self._colours = (foreground, background)

    def _hl_attr_define(self, number: int, rgb: dict[str, Any], *rest: Any) -> None:
        self._highlights[number] = rgb

    def _grid_line(
        self, grid: int, row: int, column: int, cells: list[list[Any]], *rest: Any
    ) -> None:
        highlight = 0
        for text, *more in cells:
            highlight = more[0] if more else highlight
            for _ in range(more[1] if len(more) > 1 else 1):
                self._cells[row][column] = (text, highlight)
                column += 1

    def _grid_clear(self, grid: int) -> None:
        self._cells = [[(" ", 0)] * len(row) for row in self._cells]

    def _grid_cursor_goto(self, grid: int, row: int, column: int) -> None:
        self._cursor = (row, column)

    def _grid_scroll(
        self, grid: int, top: int, bottom: int, left: int, right: int, rows: int, columns: int
    ) -> None:
        moved = range(top, bottom - rows) if rows > 0 else range(bottom - 1, top - rows - 1, -1)
        for row in moved:
            self._cells[row][left:right] = self._cells[row + rows][left:right]


class _Row:
    """Segments as something that can be printed; one line."""

    def __init__(self, segments: list[Segment]) -> None:
        self._segments = segments

    def __rich_console__(self, *context: Any) -> Iterator[Segment]:
        yield from self._segments
        yield Segment.line()
