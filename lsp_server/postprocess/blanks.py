"""Blanks, tabs and line breaks at both ends of the text."""

from __future__ import annotations

from dataclasses import replace

from lsp_server.indentation import indent_of
from lsp_server.place import Place, smaller_indent
from lsp_server.postprocess.types import Edit


def skip_leading_breaks(edit: Edit, place: Place) -> Edit:
    """On a blank line, start at the first line that has text: the cursor is there already."""
    if not place.on_blank_line:
        return edit
    lines = edit.text.split("\n")
    while len(lines) > 1 and not lines[0].strip():
        del lines[0]
    return replace(edit, text="\n".join(lines))


def join_blanks(edit: Edit, place: Place) -> Edit:
    """Remove from the text the blanks that stand before the cursor already.

    The prompt leaves the last one out, so the model writes it again. On a blank line the text may
    ask for less indentation than there is; then it replaces the line's blanks.
    """
    leading = indent_of(edit.text)
    present = place.line_before[len(place.line_before.rstrip(" \t")) :]
    if not leading or not present:
        return edit
    if leading.startswith(present):
        return replace(edit, text=edit.text[len(present) :])
    if smaller_indent(edit.text, place) is not None:
        return replace(edit, num_left=len(present))
    return replace(edit, text=edit.text[len(leading) :])


def cut_trailing_space(edit: Edit, place: Place) -> Edit:
    """No trailing line end, and no trailing blanks unless text follows on the line."""
    text = edit.text.rstrip("\n")
    if "\n" in edit.text[len(text) :] or not place.rest.strip():
        text = text.rstrip()
    return replace(edit, text=text)
