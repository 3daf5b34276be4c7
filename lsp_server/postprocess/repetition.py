"""Text that only says again what was just said, the commonest failure of small models."""

from __future__ import annotations

import re
from dataclasses import replace

from lsp_server.completion import Reason
from lsp_server.place import Place, is_statement
from lsp_server.postprocess.types import Dropped, Edit

_MAX_SAME_LINES = 2
_TAIL = 400
_ENDLESS = re.compile(r"(.{1,32}?)\1{7,}\Z", re.DOTALL)
_MIN_ENDLESS = 12
_DECORATION = re.compile(r"[-=*#~_/.+ ]+")
"""Rulers in comments are long on purpose."""


def cut_repeated_lines(edit: Edit, place: Place) -> Edit:
    """Keep one of three or more equal lines in a row, and nothing after it."""
    lines = edit.text.split("\n")
    for index in range(len(lines) - _MAX_SAME_LINES):
        same = lines[index : index + _MAX_SAME_LINES + 1]
        if is_statement(same[0]) and len(set(same)) == 1:
            return replace(edit, text="\n".join(lines[: index + 1]))
    return edit


def drop_echo(edit: Edit, place: Place) -> Edit | Dropped:
    """Drop text that repeats the cursor's own line, or verbatim the lines right above it."""
    text = edit.text.strip()
    if "\n" not in text and is_statement(text) and text == place.line_before.strip():
        return Dropped(Reason.REPETITION)
    kept = place.line_before[: len(place.line_before) - edit.num_left]
    lines = (kept + edit.text).split("\n")
    new = [line.rstrip() for line in (lines if place.on_blank_line else lines[1:]) if line.strip()]
    above = list(place.lines_before) if place.on_blank_line else [*place.lines_before, lines[0]]
    old = [line.rstrip() for line in above if line.strip()]
    if new and old[-len(new) :] == new and any(is_statement(line) for line in new):
        untouched = place.on_blank_line or not lines[0][len(place.line_before) :].strip()
        if untouched:
            return Dropped(Reason.REPETITION)
    return edit


def drop_endless(edit: Edit, place: Place) -> Edit | Dropped:
    """Drop text whose end is one short piece over and over, such as `))))))))))))`."""
    found = _ENDLESS.search(edit.text[-_TAIL:])
    if found is None or len(found.group()) < _MIN_ENDLESS:
        return edit
    return edit if _DECORATION.fullmatch(found.group(1)) else Dropped(Reason.REPETITION)
