"""Closing brackets of another kind than what is open there: `max(a, b}`."""

from __future__ import annotations

import re
from dataclasses import replace

from lsp_server.completion import Reason
from lsp_server.postprocess.stray_closers import MAX_DOCUMENT, UNPAIRED
from lsp_server.postprocess.types import Dropped, Edit
from lsp_server.text.brackets import CLOSERS, OPENERS, closers_missing, code_only
from lsp_server.text.languages import Language, language_of
from lsp_server.text.place import Place

_LITERAL = re.compile(r"\\[(\[{]|\[\^?[()]+\]")
"""Brackets that stand for themselves in a regular expression: `\\(`, `[(]`."""
_CLOSER_OF = {opener: closer for closer, opener in CLOSERS.items()}


def cut_crossed(edit: Edit, place: Place) -> Edit | Dropped:
    """Cut at the first of them where the document has the closer that was meant; else nothing of
    the lines is kept in which the text has something open there."""
    language = language_of(place.language_id)
    if language.name in UNPAIRED or len(place.before) + len(place.after) > MAX_DOCUMENT:
        return edit
    before = place.before[: len(place.before) - edit.num_left]
    found = _first_crossed(edit.text, before, language)
    if found is None:
        return edit
    end, openers = found
    closer = _CLOSER_OF[(before + edit.text)[openers[-1]]]
    if closers_missing(before + edit.text[:end], place.after, closer) > 0:
        own = next((opener for opener in openers if opener >= len(before)), len(before))
        end = max(0, edit.text.rfind("\n", 0, own - len(before)))
    text = edit.text[:end].rstrip()
    return replace(edit, text=text) if text else Dropped(Reason.UNBALANCED)


def _first_crossed(text: str, before: str, language: Language) -> tuple[int, list[int]] | None:
    """Where in `text` the first such closer stands, and where in all of it the openers do that are
    open there, from the cursor's line on.

    Languages differ in what they quote with, so it counts only where it is one however the text is
    read.
    """
    start = before.rfind("\n") + 1
    whole = (before + text)[start:]
    crossed = _crossed(whole, len(before) - start)
    if not crossed:
        return None
    readings = (
        code_only(whole),
        code_only(_LITERAL.sub(_blank, language.code_in(before + text)[start:])),
    )
    for reading in readings:
        in_reading = _crossed(reading, len(before) - start)
        crossed = {end: in_reading[end] for end in crossed if end in in_reading}
    first = min(crossed, default=None)
    if first is None:
        return None
    return first + start - len(before), [opener + start for opener in crossed[first]]


def _crossed(text: str, start: int) -> dict[int, list[int]]:
    """Index of each such closer from `start` on -> the openers open there, outermost first."""
    opened: list[int] = []
    crossed: dict[int, list[int]] = {}
    for index, character in enumerate(text):
        if character in OPENERS:
            opened.append(index)
        elif character in CLOSERS and opened:
            if text[opened[-1]] == CLOSERS[character]:
                opened.pop()
            elif index >= start:
                crossed[index] = list(opened)
    return crossed


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])
