"""Brackets and quotes as characters, blind to languages."""

from __future__ import annotations

import re
from functools import cache

from lsp_server.text.indentation import indent_of, indent_width

CLOSERS = {")": "(", "]": "[", "}": "{"}
"""Closer -> opener."""
OPENERS = frozenset(CLOSERS.values())
QUOTES = "\"'`"
_MAX_DEPTH = 20
"""Openers around a place that are looked at, innermost first."""
_MAX_AFTER = 4000
"""Characters behind a place in which their closers are looked for."""

_NO_CODE = re.compile(
    r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\\n])*`"  # strings within a line
    r"|(?:#|//|--).*|^[ \t]*\*.*"  # comments to the end of their line
    r"|[$\\][)\]}]",  # names and characters: `$]`, `\)`
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


def closers_missing(before: str, after: str, closer: str) -> int:
    """How many of `closer` the openers before a place still need, given what follows it.

    Read with strings and comments and without, and the larger count taken.
    """
    return max(
        _num_missing(before, after, closer),
        _num_missing(code_only(before), code_only(after), closer),
    )


def _num_missing(before: str, after: str, closer: str) -> int:
    """An opener is closed by what stands below it no further left than its own line."""
    after = after[:_MAX_AFTER]
    openers = unclosed(before, closer)
    num_missing = 0
    for num_open, opener in enumerate(reversed(openers), start=1):
        start = before.rfind("\n", 0, opener) + 1
        scope = _scope(after, indent_width(before[start:opener]), closer)
        num_missing = max(num_missing, num_open - _num_unopened(scope, closer))
    return num_missing


def unclosed(text: str, closer: str) -> list[int]:
    """Where the innermost openers stand that have no `closer` in `text`; other kinds do not count.

    One whose line is indented more than a later one is none: the code it was part of has ended.
    """
    openers: list[int] = []
    for found in _brackets(closer).finditer(text):
        if found.group() != closer:
            openers.append(found.start())
        elif openers:
            openers.pop()
    return [opener for opener in openers[-_MAX_DEPTH:] if not _has_ended(text, opener)]


def _has_ended(text: str, opener: int) -> bool:
    indent = indent_of(text[text.rfind("\n", 0, opener) + 1 : opener])
    return bool(indent) and _indented_less(indent).search(text, opener) is not None


@cache
def _indented_less(indent: str) -> re.Pattern[str]:
    """A line with a part of the blanks of `indent`, but for those of a preprocessor."""
    less = "|".join(indent[:length] for length in range(len(indent)))
    return re.compile(rf"\n(?:{less})[^\s#]")


def _scope(after: str, width: int, closer: str) -> str:
    """What of `after` may belong to a bracket whose line is indented by `width` columns."""
    end = 0
    for number, line in enumerate(after.split("\n")):
        if number > 0 and line.strip():
            indent = indent_width(line)
            if indent < width or (indent == width and not line.lstrip().startswith(closer)):
                return after[:end]
        end += len(line) + 1
    return after


def _num_unopened(text: str, closer: str) -> int:
    """Closers without an opener in `text`."""
    depth = num_unopened = 0
    for found in _brackets(closer).finditer(text):
        depth += 1 if found.group() != closer else -1
        if depth < 0:
            depth, num_unopened = 0, num_unopened + 1
    return num_unopened


@cache
def _brackets(closer: str) -> re.Pattern[str]:
    return re.compile(f"[{re.escape(CLOSERS[closer] + closer)}]")
