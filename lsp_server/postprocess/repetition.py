"""Text that only says again what was just said, the commonest failure of small models."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from lsp_server.completion import Reason
from lsp_server.postprocess.types import Dropped, Edit
from lsp_server.text.place import Place, is_statement

_MIN_LOOP = {1: 3, 2: 5}
"""Lines of a block -> lines in a row that must repeat it, itself included; longer ones: twice."""
_ONCE = re.compile(r"\s*(?:del|delete|return|raise|throw|goto|import|from|use|using|#include)\b")
"""Statements that nobody writes twice in a row, as calls may be."""
_MAX_PIECE = 60
_MIN_ENDLESS = 12
_DECORATION = re.compile(r"[-=*#~_/.+ |:]+")
"""Rulers and frames are long on purpose."""
_WORD = re.compile(r"[^\W\d_]{3}")
_SEVERAL_WORDS = re.compile(r"\S\s+\S")


def cut_echo(edit: Edit, place: Place) -> Edit | Dropped:
    """Cut from the beginning what stands right before the cursor, as models write that start over.

    Nothing is left of text that is the cursor's own line or the lines right above it.
    """
    text = edit.text[echo_length(edit.text, place) :]
    if text.strip() or not edit.text.strip():
        return replace(edit, text=text)
    return Dropped(Reason.REPETITION)


def echo_length(text: str, place: Place) -> int:
    """Length of the beginning of `text` that stands right before the cursor already."""
    lines, above = text.split("\n"), list(place.lines_before)
    if place.on_blank_line:
        # The blanks left of the cursor may be in the text or not.
        starts = (lines[0], place.line_before + lines[0].lstrip(" \t"))
        num_echoed = max(_num_echoed([start, *lines[1:]], above) for start in starts)
        return min(len(text), sum(len(line) + 1 for line in lines[:num_echoed]))
    if lines[0].strip():
        return _echoed_start(lines, place.line_before.strip(), above)
    num_echoed = _num_echoed(lines[1:], [*above, place.line_before])
    # The line break before the first line that is kept stays.
    return sum(len(line) + 1 for line in lines[1 : 1 + num_echoed])


def _num_echoed(lines: Sequence[str], above: Sequence[str]) -> int:
    """How many of the first `lines` are the last ones `above` again, blank lines aside."""
    new = [index for index, line in enumerate(lines) if line.strip()]
    old = [line.rstrip() for line in above if line.strip()]
    for num in range(min(len(new), len(old)), 0, -1):
        same = [lines[index].rstrip() for index in new[:num]]
        if same == old[-num:] and any(is_statement(line) for line in same):
            return new[num - 1] + 1
    return 0


def _echoed_start(lines: Sequence[str], own: str, above: Sequence[str]) -> int:
    """Length of the beginning that is the cursor's line again, with or without lines above it."""
    old = [line.strip() for line in above]
    start = 0
    for num, line in enumerate(lines):
        has_above = num > 0 and old[-num:] == [line.strip() for line in lines[:num]]
        is_own = line.lstrip().startswith(own)
        if num == 0 and is_own:
            is_own = _SEVERAL_WORDS.search(own) is not None or line.strip() == own
            is_own = is_own and is_statement(own)
        if is_own and (num == 0 or has_above):
            return start + line.index(own) + len(own)
        if has_above and num == len(lines) - 1 and own.startswith(line.strip()):
            return start + len(line)  # the cursor's line is still to come
        start += len(line) + 1
    return 0


def cut_loop(edit: Edit, place: Place) -> Edit | Dropped:
    """Keep one of the lines, or blocks of lines, that repeat in a row, and nothing after it."""
    kept = place.line_before[: len(place.line_before) - edit.num_left]
    lines = (kept + edit.text).split("\n")
    is_again = place.lines_before[-1:] == (lines[0],) and kept.strip() != lines[0].strip()
    if is_again and not place.rest.strip() and _ONCE.match(lines[0]):
        return Dropped(Reason.REPETITION)
    for start in range(len(lines)):
        for size in range(1, (len(lines) - start) // 2 + 1):
            if _loops(lines[start:], size):
                text = "\n".join(edit.text.split("\n")[: start + size]).rstrip("\n")
                return replace(edit, text=text) if text else Dropped(Reason.REPETITION)
    return edit


def _loops(lines: Sequence[str], size: int) -> bool:
    """True where `lines` begin with a block of `size` lines again and again."""
    if not any(is_statement(line) for line in lines[:size]):
        return False
    num_same = size
    while num_same < len(lines) and lines[num_same] == lines[num_same - size]:
        num_same += 1
    if size == 1 and _ONCE.match(lines[0]):
        return num_same > 1
    return num_same >= _MIN_LOOP.get(size, 2 * size)


def cut_endless(edit: Edit, place: Place) -> Edit | Dropped:
    """Cut a last line whose end is one piece over and over, such as `))))))))))))`."""
    *lines, last = edit.text.split("\n")
    if not _is_endless(last):
        return edit
    text = "\n".join(lines)
    return replace(edit, text=text) if text.strip() else Dropped(Reason.REPETITION)


def _is_endless(line: str) -> bool:
    for size in range(1, min(_MAX_PIECE, len(line) // 2) + 1):
        piece = line[-size:]
        num_same = size
        while num_same < len(line) and line[-num_same - 1] == line[-num_same - 1 + size]:
            num_same += 1
        if num_same >= max(_MIN_ENDLESS, size * _min_repeats(piece)):
            return _DECORATION.fullmatch(piece) is None
    return False


def _min_repeats(piece: str) -> int:
    """Short pieces and numbers repeat in good code too: `[0, 0, 0, 0]`."""
    if len(piece) < 8 or _WORD.search(piece) is None:
        return 8
    return 4 if len(piece) < 16 else 3
