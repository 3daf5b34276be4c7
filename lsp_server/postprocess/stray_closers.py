"""Closing brackets that close nothing, neither in the text nor in the document."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

from lsp_server.completion import Reason
from lsp_server.postprocess.types import Dropped, Edit
from lsp_server.text.brackets import CLOSERS, closers_missing, code_only, unclosed
from lsp_server.text.languages import Zone, language_of
from lsp_server.text.place import Place

MAX_DOCUMENT = 200_000
"""Characters that are counted through, and only where a closer looks like a stray one."""
UNPAIRED = frozenset({"markdown", "latex", "shell", "plaintext", "restructuredtext"})
"""Languages in which a closer may stand alone: `1) first`, `start) run;;`."""


def cut_stray_closer(edit: Edit, place: Place) -> Edit | Dropped:
    """Cut at the first closer that nothing needs, since it would break the code behind it.

    Nothing is added where a closer is missing: who types the opener has the closer from the editor,
    or wants to write more.
    """
    language = language_of(place.language_id)
    is_long = len(place.before) + len(place.after) > MAX_DOCUMENT
    if edit.num_right or is_long or language.name in UNPAIRED:
        return edit
    starts = [start for closer in CLOSERS if (start := _first_stray(closer, edit, place)) >= 0]
    if not starts or language.open_at_end(place.before) is not Zone.CODE:
        return edit
    text = edit.text[: min(starts)].rstrip()
    return replace(edit, text=text) if text.strip() else Dropped(Reason.UNBALANCED)


def _first_stray(closer: str, edit: Edit, place: Place) -> int:
    """Index of the first `closer` beyond those that are open; -1 where there is none.

    A closer counts only where the text read as code has one too many, and read as characters. One
    that closes what is closed below too is no stray where the text opens as much again.
    """
    opener = CLOSERS[closer]
    kept = place.line_before[: len(place.line_before) - edit.num_left]
    code = code_only(kept + edit.text)[len(kept) :]
    depths = [
        max(depth, code_depth)
        for depth, code_depth in zip(
            _depths(edit.text, opener, closer), _depths(code, opener, closer), strict=True
        )
    ]
    if min(depths, default=0) >= 0:
        return -1
    num_open = len(unclosed(place.before, closer))
    num_missing = closers_missing(place.before, place.after, closer)
    if closer != "}":  # a brace below may well close the one on this line
        num_missing = max(num_missing, closers_missing(kept, place.rest, closer))
    if depths[-1] < -num_missing:
        num_open = num_missing
    strays = (
        index for index, depth in enumerate(depths) if depth < -num_open and code[index] == closer
    )
    return next(strays, -1)


def _depths(text: str, opener: str, closer: str) -> list[int]:
    """Openers less closers, up to and including each character."""
    return list(accumulate((character == opener) - (character == closer) for character in text))
