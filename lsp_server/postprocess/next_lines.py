"""The seam with the lines below the cursor: none of them twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from lsp_server.completion import Reason
from lsp_server.postprocess.types import Dropped, Edit
from lsp_server.text.place import Place, is_statement, repeats_next_line

_MAX_BELOW = 12
"""Lines; what stands further below may come again."""
_GOES_ON = tuple("([<.=+-*/%&|^!?~\\@$")
"""At its end, text is in want of the code behind it."""


def cut_next_lines(edit: Edit, place: Place) -> Edit | Dropped:
    """Cut where the text runs into the line that already follows the cursor, or into two that
    stand together further below in its paragraph."""
    kept = place.line_before[: len(place.line_before) - edit.num_left]
    lines = edit.text.split("\n")
    whole = [kept + lines[0], *lines[1:]]
    start = 0
    for index, line in enumerate(lines):
        if line.strip() and (
            repeats_next_line(whole[index], edit.text[:start], place.next_line)
            or _stand_below(whole[index:], place.lines_after)
        ):
            text = edit.text[: max(0, start - 1)]
            return replace(edit, text=text) if text.strip() else Dropped(Reason.DUPLICATE_SUFFIX)
        start += len(line) + 1
    return edit


def _stand_below(lines: Sequence[str], below: Sequence[str]) -> bool:
    """True where the first two of `lines` with text follow each other in the paragraph below."""
    pair = [line.rstrip() for line in lines if line.strip()][:2]
    if len(pair) < 2 or not all(is_statement(line) for line in pair):
        return False
    paragraph = [line.rstrip() for line in takewhile(str.strip, below[:_MAX_BELOW])]
    return any(paragraph[index : index + 2] == pair for index in range(len(paragraph) - 1))


def stand_above(edit: Edit, place: Place) -> Edit | Dropped:
    """Before the code of a line, put the text on a line of its own.

    Text that wants to go on (an operator, a blank at its end) stays in front of the code. At the
    margin there is nowhere to put the line break, since a text ends in none.
    """
    rest = place.rest
    code = rest.lstrip(" \t")
    if place.is_markdown or edit.is_joined or not place.on_blank_line or not is_statement(code):
        return edit
    text = edit.text.rstrip()
    if text != edit.text or text.endswith(_GOES_ON):
        return edit
    blanks = rest[: len(rest) - len(code)]
    indent = place.line_before + blanks
    if not indent:
        return Dropped(Reason.MID_LINE)
    return replace(edit, text=f"{text}\n{indent}", num_right=len(blanks))
