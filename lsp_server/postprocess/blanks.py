"""Blanks, tabs and line breaks at both ends of the text."""

from __future__ import annotations

from dataclasses import replace

from lsp_server.completion import Reason
from lsp_server.postprocess.types import Dropped, Edit
from lsp_server.text.indentation import indent_of
from lsp_server.text.place import Place


def skip_leading_breaks(edit: Edit, place: Place) -> Edit | Dropped:
    """On a blank line, start at the first line that has text: the cursor is there already.

    Text that goes on at the margin has left the block. It takes back the blanks before the cursor,
    and nothing of it is kept where the block goes on, or has nothing in it yet.
    """
    if not place.on_blank_line or not edit.text.strip():
        return edit
    lines = edit.text.split("\n")
    num_blank = next(index for index, line in enumerate(lines) if line.strip())
    text = "\n".join(lines[num_blank:])
    if num_blank == 0 or indent_of(text) or place.is_markdown:
        return replace(edit, text=text)
    if place.is_among_indented or (place.line_before and place.header is not None):
        return Dropped(Reason.EMPTY)
    return replace(edit, text=text, num_left=len(place.line_before))


def join_blanks(edit: Edit, place: Place) -> Edit:
    """Behind other text, remove the blanks that stand before the cursor already.

    The prompt leaves the last one out, so the model writes it again.
    """
    leading = indent_of(edit.text)
    present = place.line_before[len(place.line_before.rstrip(" \t")) :]
    if not leading or not present or place.on_blank_line:
        return edit
    num_same = len(present) if leading.startswith(present) else len(leading)
    return replace(edit, text=edit.text[num_same:])


def cut_trailing_blanks(edit: Edit, place: Place) -> Edit:
    """No line ends in blanks, and the text in no line end.

    What stays: blanks before text that follows on the cursor's line, and Markdown's line breaks.
    """
    text = edit.text.rstrip("\n")
    *lines, last = text.split("\n")
    if not place.is_markdown:
        lines = [line.rstrip(" \t") for line in lines]
    if text != edit.text or not place.rest.strip():
        last = last.rstrip()
    return replace(edit, text="\n".join((*lines, last)).rstrip("\n"))
