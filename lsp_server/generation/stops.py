"""Where in a text that is being written a completion ends."""

from __future__ import annotations

from lsp_server.completion import Mode
from lsp_server.generation.amount import StopRule
from lsp_server.postprocess.indentation import first_column
from lsp_server.postprocess.markers import marker_start
from lsp_server.postprocess.repetition import echo_length
from lsp_server.postprocess.talk import code_span
from lsp_server.text.brackets import CLOSERS, OPENERS, bracket_pairs, code_only
from lsp_server.text.indentation import indent_width
from lsp_server.text.languages import Zone, language_of
from lsp_server.text.place import closes_block, may_become_closer, repeats_next_line

_CLOSER_OF = {opener: closer for closer, opener in CLOSERS.items()}


def find_stop(text: str, rule: StopRule) -> int | None:
    """Length of the text to keep once the rule is met; None while it is not."""
    marker = marker_start(text, rule.place)
    start, end = code_span(text, rule.place)
    if start > 0:
        # Who answers a question begins with what was asked.
        start += echo_length(text[start:end], rule.place)
    code = text[start:end]
    stop = _block_stop(code, rule) if rule.mode is Mode.BLOCK else _line_stop(code, rule)
    found = [marker, None if stop is None else start + stop, end if end < len(text) else None]
    return min((place for place in found if place is not None), default=None)


def _line_stop(text: str, rule: StopRule) -> int | None:
    """The first line end, or with `may_break` the first after something that is not blank."""
    head = len(text) - len(text.lstrip()) if rule.may_break else 0
    if rule.may_break and head == len(text):
        return None
    end = text.find("\n", head)
    if end >= 0 and rule.may_open and _ends_open(text[:end]):
        return _end_of_opened(text, end, rule)
    return end if end >= 0 else None


def _ends_open(line: str) -> bool:
    """Whether a line ends with an opener, and closes nothing but what it has opened."""
    pairs = bracket_pairs(line)
    closers = (index for index, character in enumerate(line) if character in CLOSERS)
    return line.rstrip()[-1:] in OPENERS and all(index in pairs for index in closers)


def _end_of_opened(text: str, end: int, rule: StopRule) -> int | None:
    """The end of the line that closes what the line before `end` has opened, or of the last entry
    of a list that it begins; `end` where a line is indented less than the cursor's before that."""
    opener = text[:end].rstrip()[-1]
    start = end + 1
    while (stop := text.find("\n", start)) >= 0:
        code, line = code_only(text[end:stop]), text[start:stop]
        is_closed = code.count(_CLOSER_OF[opener]) > code.count(opener)
        if is_closed and not line.rstrip().endswith(","):
            return stop
        if line.strip() and indent_width(line) < indent_width(rule.place.line_before):
            return end
        start = stop + 1
    return None


def _block_stop(text: str, rule: StopRule) -> int | None:
    """The end of the block by indentation, or where the text runs into what follows already.

    The first line continues the cursor's and is the block's whatever it is; where it asks for less
    indentation than the cursor has, the rest of the block may have that too.
    """
    start, has_text, floor = 0, False, rule.floor
    if rule.place.on_blank_line and rule.block is None:
        floor = min(floor, first_column(text, rule.place))
    while True:
        end = text.find("\n", start)
        line = text[start:] if end < 0 else text[start:end]
        if line.strip():
            stop = _stop_at_line(text, start, end, floor, rule) if start > 0 else None
            if stop is not None:
                return stop
            if end >= 0 and _closes_bracket(text[:end], rule):
                return end
            has_text = True
        elif end >= 0 and has_text and floor == 0:
            return start - 1  # at top level a blank line is the end
        if end < 0:
            return None
        start = end + 1


def _stop_at_line(text: str, start: int, end: int, floor: int, rule: StopRule) -> int | None:
    """The stop that the line at `start` (its end -1 while it is being written) brings about."""
    line = text[start:] if end < 0 else text[start:end]
    if end >= 0 and repeats_next_line(line, text[:start], rule.place.next_line):
        return start - 1
    width = indent_width(line)
    if width >= floor or _is_inside(text[:start], rule):
        return None
    if rule.block is not None and width == rule.block.width:
        if end < 0 and may_become_closer(line):
            return None
        if end >= 0 and closes_block(line):
            return end
    return start - 1


def _closes_bracket(text: str, rule: StopRule) -> bool:
    """Whether whole lines close the bracket that their block began with, wherever they begin."""
    if rule.block is None or not rule.block.bracket:
        return False
    code, opener = code_only(text), rule.block.bracket
    return code.count(_CLOSER_OF[opener]) > code.count(opener)


def _is_inside(text: str, rule: StopRule) -> bool:
    """Whether a string or a comment that the text began goes on behind it, and is indented at
    will."""
    return language_of(rule.place.language_id).open_at_end(text) is not Zone.CODE
