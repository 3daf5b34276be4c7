"""What a place in a text is by the language's own grammar: comment, string, block, definition.

One face over tree-sitter, in offsets of code points. Where there is no grammar, `Syntax.of` gives
None and callers go by indentation. A text is parsed afresh each time, so that the answers depend on
it alone; what is asked on every key looks at a window of it, a millisecond of work.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from functools import cache
from typing import TYPE_CHECKING

from lsp_server.syntax import grammars
from lsp_server.syntax.tree import Definition, Opening, Parsed, Span
from lsp_server.text.languages import Language, Zone, language_of

if TYPE_CHECKING:
    from tree_sitter import Language as Grammar

__all__ = ["Definition", "Opening", "Parsed", "Span", "Syntax", "Zone"]

MAX_CHARACTERS = 200_000
"""Of a text that is parsed whole; right code takes 0.1 ms a thousand."""
BEFORE, AFTER = 6000, 2000
"""Characters around a place that a window has."""
_SEARCH = 2000
"""Characters in which the window's start may look for a good place."""
_KEPT, _MOST_KEPT = 4, BEFORE + AFTER + _SEARCH
"""Parsed texts, and their characters, that are kept since one request asks several things of them;
a tree takes some 20 bytes a character."""

_WITH_SEMICOLON = frozenset(("java", "c", "cpp", "csharp", "php"))
"""Languages in which a name alone is no statement."""

_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_AFTER_BLANK = re.compile(r"\n[ \t\r]*\n([ \t]*)(?=\S)")


class Syntax:
    """One language's grammar."""

    def __init__(self, language: Language, grammar: Grammar) -> None:
        self.language = language
        self._grammar = grammar
        self._parsed: OrderedDict[tuple[str, int, int], Parsed] = OrderedDict()

    @staticmethod
    def of(language_id: str, uri: str = "") -> Syntax | None:
        """By the editor's id or the file's suffix; None where no grammar is installed for it."""
        return _syntax(language_of(language_id, uri))

    def parse(self, text: str) -> Parsed | None:
        """The whole text; None where it is too long, or too far from the language."""
        return self._window(text, 0, len(text)) if len(text) <= MAX_CHARACTERS else None

    def around(self, text: str, offset: int) -> Parsed | None:
        """The text near a place; all of it where it is short."""
        if len(text) <= BEFORE + AFTER:
            return self._window(text, 0, len(text))
        end = min(len(text), offset + AFTER)
        line_end = text.rfind("\n", offset, end)
        start = _window_start(text, offset - BEFORE)
        return self._window(text, start, line_end + 1 if line_end >= 0 else end)

    def opening(self, text: str, offset: int) -> Opening | None:
        """What text begins that is written at a place with nothing right of it on its line: on the
        next line, where something stands left of it. None where that cannot be told."""
        line = text[max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1 : offset]
        indent = line[: len(line) - len(line.lstrip(" \t"))]
        pad = f"\n{indent}    " if line.strip() else ""
        statement = "x;" if self.language.name in _WITH_SEMICOLON else "x"
        parsed = self.around(text[:offset] + pad + statement + text[offset:], offset)
        start = offset + len(pad)
        return None if parsed is None else parsed.opening(start, start + len(statement))

    def _window(self, text: str, start: int, end: int) -> Parsed | None:
        key = (text, start, end)
        found = self._parsed.pop(key, None)
        if found is None:
            window = text[start:end]
            tree = grammars.parse(self._grammar, _one_byte_each(window))
            if tree is None:
                return None
            found = Parsed(tree, window, start, self.language)
        if end - start > _MOST_KEPT:
            return found
        self._parsed[key] = found
        if len(self._parsed) > _KEPT:
            self._parsed.popitem(last=False)
        return found


@cache
def _syntax(language: Language) -> Syntax | None:
    grammar = grammars.load(language.name)
    return None if grammar is None else Syntax(language, grammar)


def _window_start(text: str, target: int) -> int:
    """A line start near `target` from which the text can be read: behind a blank line, where the
    indentation is smallest; it depends on the text alone."""
    if target <= 0:
        return 0
    least, found = None, text.find("\n", target) + 1
    for match in _AFTER_BLANK.finditer(text, max(0, target - _SEARCH), target):
        if least is None or len(match[1]) <= least:
            least, found = len(match[1]), match.start(1)
    return found if 0 < found <= target + _SEARCH else target


def _one_byte_each(text: str) -> bytes:
    """The text with an ASCII character of the same kind for each other one, so that bytes count
    code points and no grammar meets half a character."""
    return _NOT_ASCII.sub(_stand_ins, text).encode("ascii")


def _stand_ins(found: re.Match[str]) -> str:
    return "".join(map(_stand_in, found[0]))


def _stand_in(character: str) -> str:
    if ("x" + character).isidentifier():
        return "X" if character.isupper() else "x"
    return " " if character.isspace() else "?"
