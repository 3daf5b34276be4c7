"""Slips: at places of a trace a wrong letter is typed and taken back.

What the engine wrote before it is to come back at once; the recordings have too few slips to tell.
"""

from __future__ import annotations

from collections.abc import Sequence

from lsp_server.bench.traces import MAX_PAUSE, Edit, Patch, Trace

MAX_SLIPS = 12
"""A trace."""
LETTER = "q"
_NOTICED = 0.2
"""Seconds until the author sees what went wrong."""


def slips_of(trace: Trace, is_place: Sequence[bool]) -> Trace:
    """A document that is at one place of `trace` after the other (`is_place` tells of each key
    whether it leads to one), spread evenly; at each one LETTER comes, a pause later, and goes."""
    places = [key for key, is_one in enumerate(is_place) if is_one]
    chosen = set(places[:: max(1, -(-len(places) // MAX_SLIPS))])
    edits: list[Edit] = []
    first = before = text = trace.text
    time = 0.0
    for key, edit in enumerate(trace.edits):
        text = edit.apply(text)
        if key in chosen:
            at = edit.cursor
            edits += [
                Edit((Patch(0, len(before), text),), at, time),
                Edit((Patch(at, 0, LETTER),), at + len(LETTER), time + MAX_PAUSE),
                Edit((Patch(at, len(LETTER), ""),), at, time + MAX_PAUSE + _NOTICED),
            ]
            time += 2 * MAX_PAUSE + _NOTICED
            before = text
    return Trace(f"slips-{trace.file_name}", trace.language_id, first, tuple(edits), ())
