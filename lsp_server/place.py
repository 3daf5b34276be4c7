"""What surrounds a cursor: its line, the lines near it, and what can be told from them.

A bounded window of the text with line ends normalised, so that a file of any size costs the same.
Knows no language; indentation and closing characters are all it goes by.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

WINDOW = 4000
"""Characters looked at on each side of the cursor."""

_OPENERS = (":", "{", "(", "[", "=>", "->", " do", " then")
_COMMENT = re.compile(r"\s*(#|//|--|\*|/\*)")
_CLOSER_LINE = re.compile(r"[\])}]+[\])},;]*|end[\w ]{0,10};?|</[\w.:-]*>?")
_NOT_BLANK = re.compile(r"\S")
_BRACKETS = {")": "(", "]": "[", "}": "{"}
_QUOTES = "\"'`"
_LINE_TAIL = ";, \t"
_MIN_STATEMENT = 4


@dataclass(frozen=True, slots=True)
class Place:
    line_before: str
    """The cursor's line, left of the cursor."""
    rest: str
    """The cursor's line, right of the cursor, without its line end."""
    lines_before: tuple[str, ...]
    """Whole lines above the cursor's, nearest last."""
    lines_after: tuple[str, ...]
    """Whole lines below the cursor's, nearest first."""
    at_end: bool
    """Nothing but blanks follows in the whole document."""
    has_strike_tag: bool = False
    """The window has `<s>`, so `</s>` is the user's markup and no end marker."""

    @classmethod
    def at(cls, text: str, offset: int) -> Place:
        start = max(0, offset - WINDOW)
        head = normalise_line_ends(text[start:offset]).split("\n")
        tail = normalise_line_ends(text[offset : offset + WINDOW]).split("\n")
        whole_head = head[:-1] if start == 0 else head[1:-1]
        whole_tail = tail[1:] if offset + WINDOW >= len(text) else tail[1:-1]
        return cls(
            line_before=head[-1],
            rest=tail[0],
            lines_before=tuple(whole_head),
            lines_after=tuple(whole_tail),
            at_end=_NOT_BLANK.search(text, offset) is None,
            has_strike_tag="<s>" in text[start : offset + WINDOW],
        )

    @property
    def on_blank_line(self) -> bool:
        return not self.line_before.strip()

    @property
    def previous_line(self) -> str | None:
        """The nearest line above that is not blank."""
        return next((line for line in reversed(self.lines_before) if line.strip()), None)

    @property
    def next_line(self) -> str | None:
        """The nearest line below that is not blank."""
        return next((line for line in self.lines_after if line.strip()), None)

    @property
    def header(self) -> str | None:
        """The line that opens an empty block at the cursor, if one does."""
        header = self.previous_line if self.on_blank_line else self.line_before
        if header is None or not opens_block(header):
            return None
        following = self.next_line
        if following is not None and indent_width(following) > indent_width(header):
            return None
        return header


def normalise_line_ends(text: str) -> str:
    """`\\n` for every LSP line end; form feed and U+2028 are characters like others."""
    if "\r" not in text:
        return text
    return text.replace("\r\n", "\n").replace("\r", "\n")


def indent_of(line: str) -> str:
    """The blanks and tabs that a line begins with."""
    return line[: len(line) - len(line.lstrip(" \t"))]


def indent_width(line: str, tab_size: int = 4) -> int:
    """Columns of indentation."""
    return len(indent_of(line).expandtabs(tab_size))


def smaller_indent(text: str, place: Place) -> str | None:
    """The indentation that `text` asks for on a blank line that has more; None where it does not.

    One blank or tab alone is no indentation but the seam that the prompt left open.
    """
    leading = indent_of(text)
    is_smaller = 1 < len(leading) < len(place.line_before)
    if place.on_blank_line and is_smaller and place.line_before.startswith(leading):
        return leading
    return None


def opens_block(line: str) -> bool:
    return line.rstrip().endswith(_OPENERS) and _COMMENT.match(line) is None


def closes_block(line: str) -> bool:
    """True for a line of closing characters only, such as `});` or `end`."""
    return _CLOSER_LINE.fullmatch(line.strip()) is not None


def may_become_closer(line: str) -> bool:
    """True while a line that is still being written can end up as one of `closes_block`."""
    stripped = line.strip()
    return "end".startswith(stripped) or stripped in ("<", "</") or closes_block(stripped)


def is_statement(line: str) -> bool:
    """A line with something of its own to say, whose repetition is a fault.

    Closers may repeat, and so may rows of a table, which end in a comma.
    """
    stripped = line.strip()
    has_letter = any(character.isalpha() for character in stripped)
    return len(stripped) >= _MIN_STATEMENT and has_letter and not stripped.endswith(",")


def repeats_next_line(line: str, text_before: str, next_line: str | None) -> bool:
    """True where a generated line is the one that already follows the cursor.

    A closer belongs to the generated text as long as that has an opener of its own to close.
    """
    if next_line is None:
        return False
    if closes_block(line):
        same = line.rstrip(_LINE_TAIL) == next_line.rstrip(_LINE_TAIL)
        return same and open_brackets(text_before) <= 0
    return line.rstrip() == next_line.rstrip() and is_statement(line)


def open_brackets(text: str) -> int:
    """Openers less closers, blind to strings and comments."""
    return sum(text.count(opener) - text.count(closer) for closer, opener in _BRACKETS.items())


def bracket_pairs(text: str) -> dict[int, int]:
    """Index of each bracket that has its partner in `text` -> the partner's index."""
    stack: list[int] = []
    pairs: dict[int, int] = {}
    for index, character in enumerate(text):
        if character in _BRACKETS.values():
            stack.append(index)
        elif stack and _BRACKETS.get(character) == text[stack[-1]]:
            opener = stack.pop()
            pairs[opener], pairs[index] = index, opener
    return pairs


def imbalance(line: str) -> int:
    """Brackets without their partner plus kinds of quotes that occur an odd number of times."""
    num_brackets = sum(character in "()[]{}" for character in line)
    unescaped = line.replace("\\\\", "").replace('\\"', "").replace("\\'", "")
    num_odd = sum(unescaped.count(quote) % 2 for quote in _QUOTES)
    return num_brackets - len(bracket_pairs(line)) + num_odd
