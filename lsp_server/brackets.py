"""Brackets and quotes as characters, blind to languages."""

from __future__ import annotations

import re

CLOSERS = {")": "(", "]": "[", "}": "{"}
"""Closer -> opener."""
OPENERS = frozenset(CLOSERS.values())
QUOTES = "\"'`"

_NO_CODE = re.compile(
    r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\\n])*`"  # strings within a line
    r"|(?:#|//|--).*|^[ \t]*\*.*",  # comments to the end of their line
    re.MULTILINE,
)


def open_brackets(text: str) -> int:
    """Openers less closers, blind to strings and comments."""
    return sum(text.count(opener) - text.count(closer) for closer, opener in CLOSERS.items())


def bracket_pairs(text: str) -> dict[int, int]:
    """Index of each bracket that has its partner in `text` -> the partner's index."""
    stack: list[int] = []
    pairs: dict[int, int] = {}
    for index, character in enumerate(text):
        if character in OPENERS:
            stack.append(index)
        elif stack and CLOSERS.get(character) == text[stack[-1]]:
            opener = stack.pop()
            pairs[opener], pairs[index] = index, opener
    return pairs


def imbalance(line: str) -> int:
    """Brackets without their partner plus kinds of quotes that occur an odd number of times."""
    num_brackets = sum(character in "()[]{}" for character in line)
    unescaped = line.replace("\\\\", "").replace('\\"', "").replace("\\'", "")
    num_odd = sum(unescaped.count(quote) % 2 for quote in QUOTES)
    return num_brackets - len(bracket_pairs(line)) + num_odd


def code_only(text: str) -> str:
    """The text with blanks in place of what looks like a string or a comment.

    Languages differ in what they quote with, so this is a second opinion and never the only one.
    """
    return _NO_CODE.sub(lambda found: " " * len(found.group()), text)


def closers_missing(before: str, after: str, closer: str) -> int | None:
    """How many of `closer` the openers before a place still need, given all that follows it.

    Counted with strings and comments and without, and the larger count taken. None where a text
    has more closers than openers anyway, so that counting says nothing.
    """
    opener = CLOSERS[closer]
    most = 0
    for head, tail in ((before, after), (code_only(before), code_only(after))):
        depth = head.count(opener) - head.count(closer)
        total = depth + tail.count(opener) - tail.count(closer)
        if depth < 0 or total < 0:
            return None
        most = max(most, min(depth, total))
    return most
