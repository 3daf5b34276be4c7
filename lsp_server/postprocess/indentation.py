"""Indentation: the document's own tabs or blanks and width of a level, whatever the model wrote.

Only what lines begin with is changed. How deep a line is, the lines before it tell, so nothing here
needs to know a language.
"""

from __future__ import annotations

import re
from dataclasses import replace

from lsp_server.postprocess.types import Edit
from lsp_server.text.brackets import CLOSERS, unclosed
from lsp_server.text.indentation import TAB_SIZE, IndentStyle, detect_style, indent_of
from lsp_server.text.languages import Zone, language_of
from lsp_server.text.place import Place, opens_block

_AS_WRITTEN = frozenset(
    {"markdown", "mdx", "plaintext", "restructuredtext", "latex", "tex", "make", "makefile"}
    | {"yaml", "yml", "dockercompose", "github-actions-workflow"}
)
"""Languages in which a line's blanks are its meaning and not its depth."""
_BESIDE_LEVELS = re.compile(r"\s*[\])}*]")
"""Closers, and the lines of a block comment."""
_AT_MARGIN = re.compile(r"#\s*(?:if|el|end|def|undef|inc|pragma|error|line)")
"""Lines for a preprocessor."""
_LEAVES_BLOCK = re.compile(
    r"(?:else|elif|elsif|except|finally|catch|ensure|rescue|end|fi|done|esac)\b"
)


def first_column(text: str, place: Place) -> int:
    """The column at which the first line of `text` begins on the blank line of `place`."""
    return _first_columns(text, place, _style(text, place))[1]


def fit_indentation(edit: Edit, place: Place) -> Edit:
    """Begin every line as the document would.

    On a blank line the first line continues the blanks that are there, or asks for less and then
    replaces them. Behind a line that opens a block stands one level more, whatever the model's
    level is; other lines keep their distance from those that they belong to. Where the document
    shows no style, or more than one, they stay as they are.
    """
    first, *others = edit.text.split("\n")
    style = _style(edit.text, place)
    present = style.columns(place.line_before)
    written = column = present
    base = indent_of(place.line_before)
    if place.on_blank_line:
        written, column = (0, 0) if edit.num_left else _first_columns(edit.text, place, style)
        if column < present:
            base = _indent_at(column, place, style)
            first = base + first.lstrip(" \t")
            edit = replace(edit, num_left=len(place.line_before))
        else:
            more = style.blanks(column - present)
            base += more
            first = more + first.lstrip(" \t")
    if place.style is not None and place.language_id not in _AS_WRITTEN:
        header = first if place.on_blank_line else place.line_before + first
        levels = _Levels(written, column, place, style)
        fitted = levels.fit(header, base, others)
        if fitted != others and _is_code(place):
            others = fitted
    return replace(edit, text="\n".join((first, *others)))


class _Levels:
    """The open levels around the line that is looked at: where the model and where the document
    begins their lines, as (written, kept) columns, outermost first."""

    def __init__(self, written: int, column: int, place: Place, style: IndentStyle) -> None:
        self._column, self._place, self._style = column, place, style
        self._open = [(0, column if written == 0 else 0)]
        for outer in sorted(_enclosing(place, style)):
            if 0 < outer < min(written, column):
                self._open.append((outer, outer))
        if written > 0:
            self._open.append((written, column))

    def fit(self, previous: str, base: str, lines: list[str]) -> list[str]:
        """`lines` below `previous` with their blanks replaced; `base` is the first line's."""
        fitted = []
        for line in lines:
            text = line.lstrip(" \t")
            if text:
                column = self._kept(line, previous)
                if self._style.columns(line) == column and self._has_style(line):
                    pass
                elif column >= self._column:
                    line = base + self._style.blanks(column - self._column) + text
                else:
                    line = _indent_at(column, self._place, self._style) + text
                previous = line
            fitted.append(line)
        return fitted

    def _has_style(self, line: str) -> bool:
        """Blanks behind tabs align a line; tabs and blanks otherwise are what a style is about."""
        indent = indent_of(line)
        return indent[:1] == "\t" or not indent if self._style.tabs else "\t" not in indent

    def _kept(self, line: str, previous: str) -> int:
        """The column for a line of the model."""
        written, width = self._style.columns(line), self._style.width
        left: tuple[int, int] | None = None
        while self._open[-1][0] > written:
            left = self._open.pop()
        outer, kept = self._open[-1]
        step = written - outer
        if step == 0:
            return kept
        if left is None and opens_block(previous):
            # More than one level behind a bracket is a style of its own.
            is_wide = previous.rstrip().endswith(("(", "[")) and step % width == 0
            column = kept + (step if is_wide else width)
        elif left is not None and step % width and not _BESIDE_LEVELS.match(line):
            column = left[1]
        else:
            column = kept + step
        self._open.append((written, column))
        return column


def _style(text: str, place: Place) -> IndentStyle:
    """The document's, or the text's own where the document has no indented line."""
    lines = text.split("\n")
    return place.style or detect_style(lines) or IndentStyle(tabs=False, width=TAB_SIZE)


def _first_columns(text: str, place: Place, style: IndentStyle) -> tuple[int, int]:
    """Where the first line of `text` begins on a blank line: in the model's columns, and in the
    document's.

    Its blanks may continue those left of the cursor, or say again what stands there. One blank or
    tab alone is no indentation but the seam that the prompt left open.
    """
    leading = indent_of(text)
    present, wanted = style.columns(place.line_before), style.columns(leading)
    if wanted == present == 0:
        return 0, _column_inside(text, place, style)
    if not leading:
        return present, present
    usual, is_inside = _usual_columns(wanted, place, style)
    if is_inside and present not in usual:
        absolute = (wanted,) if len(leading) > 1 or present == 0 else ()
        continued = (*absolute, present + wanted, present - 1 + wanted)
        column = next((column for column in continued if column in usual), None)
        if column is not None:
            return column, column
    is_level = not is_inside and wanted in usual and present not in usual
    is_seam = len(leading) == 1 and present > 0 and not is_level
    if wanted == present or is_seam:
        return present, present
    if wanted < present:
        return wanted, wanted if wanted in usual else present
    slip = 1 if style.width > 1 else 0
    near = [column for column in usual if column >= present and abs(column - wanted) <= slip]
    return wanted, min(near, key=lambda column: abs(column - wanted), default=wanted)


def _usual_columns(wanted: int, place: Place, style: IndentStyle) -> tuple[set[int], bool]:
    """Where a line may begin at the cursor, and whether that is behind a line that opens a block:
    one level deeper there, any if none shows, else where the lines around begin."""
    previous = place.previous_line or ""
    if opens_block(previous):
        outer = style.columns(previous)
        if place.style is not None:
            return {outer + style.width}, True
        present = style.columns(place.line_before)
        return {column for column in (wanted, present) if column > outer}, True
    usual = _enclosing(place, style)
    following = place.line_before + place.rest if place.rest.strip() else place.next_line
    if following is not None:
        usual.add(style.columns(following))
    return usual, False


def _column_inside(text: str, place: Place, style: IndentStyle) -> int:
    """Where text belongs that begins at the margin: among indented lines not there."""
    previous, following = place.previous_line or "", place.next_line or ""
    above, below = style.columns(previous), style.columns(following)
    is_literal = place.language_id in _AS_WRITTEN or _AT_MARGIN.match(text)
    if is_literal or not place.is_among_indented:
        return 0
    if text[:1] in CLOSERS:
        openers = unclosed(place.before, text[0])
        start = place.before.rfind("\n", 0, openers[-1]) + 1 if openers else 0
        return style.columns(place.before[start:]) if openers else 0
    if below > above:
        return below
    if opens_block(previous):
        return above + style.width
    if _LEAVES_BLOCK.match(text):
        return max((column for column in _enclosing(place, style) if column < above), default=0)
    return above


def _is_code(place: Place) -> bool:
    """False inside a comment or a string, where lines align as the writer likes."""
    return language_of(place.language_id).open_at_end(place.before) is Zone.CODE


def _enclosing(place: Place, style: IndentStyle) -> set[int]:
    """Columns at which the lines above begin: the nearest one and all that it lies within."""
    columns: list[int] = []
    for line in reversed(place.lines_before):
        if line.strip() and (not columns or style.columns(line) < columns[-1]):
            columns.append(style.columns(line))
    return set(columns)


def _indent_at(column: int, place: Place, style: IndentStyle) -> str:
    """The blanks of a line above that begins at `column`, or what the style has for it."""
    for line in reversed(place.lines_before):
        if line.strip() and style.columns(line) == column:
            return indent_of(line)
    return style.blanks(column)
