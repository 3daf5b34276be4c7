"""What surrounds a cursor: its line, the lines near it, and what can be told from them.

A bounded window of the text with line ends normalised, so that a file of any size costs the same.
Knows no language; indentation and closing characters are all it goes by.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lsp_server.text.brackets import code_only, open_brackets
from lsp_server.text.indentation import (
    IndentStyle,
    chosen_style,
    detect_style,
    indent_of,
    indent_width,
)

WINDOW = 4000
"""Characters looked at on each side of the cursor."""

_OPENERS = (":", "{", "(", "[", "=>", "->", " do", " then")
_COMMENT = re.compile(r"\s*(#|//|--|\*|/\*)")
_CLOSER_WORDS = ("end", "done", "fi", "esac")
_CLOSER_LINE = re.compile(
    r"[\])}]+[\])},;]*|end[\w ]{0,10};?|(?:done|fi|esac)(?:;|\s*[<>|].*)?|</[\w.:-]*>?"
)
_ONE_WORD = re.compile(r"\w+[;:]?")
_NOT_BLANK = re.compile(r"\S")
_LINE_TAIL = ";, \t"
_MIN_STATEMENT = 4
_MARKDOWN = frozenset({"markdown", "mdx", "rmarkdown", "rmd", "quarto"})


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
    style: IndentStyle | None = None
    """What new lines are indented with; None where neither editor nor document tells."""
    language_id: str = ""
    """The editor's, or the name that `languages` has for it."""
    before: str = ""
    """The whole text before the cursor, as the editor has it."""
    after: str = ""

    @classmethod
    def at(
        cls,
        text: str,
        offset: int,
        *,
        language_id: str = "",
        tab_size: int | None = None,
        insert_spaces: bool | None = None,
    ) -> Place:
        """`tab_size` and `insert_spaces` as the editor sends them, None where it does not."""
        start = max(0, offset - WINDOW)
        head = normalise_line_ends(text[start:offset]).split("\n")
        tail = normalise_line_ends(text[offset : offset + WINDOW]).split("\n")
        whole_head = head[:-1] if start == 0 else head[1:-1]
        whole_tail = tail[1:] if offset + WINDOW >= len(text) else tail[1:-1]
        window = (*whole_head, head[-1] + tail[0], *whole_tail)
        return cls(
            line_before=head[-1],
            rest=tail[0],
            lines_before=tuple(whole_head),
            lines_after=tuple(whole_tail),
            at_end=_NOT_BLANK.search(text, offset) is None,
            has_strike_tag="<s>" in text[start : offset + WINDOW],
            style=chosen_style(detect_style(window), tab_size, insert_spaces),
            language_id=language_id,
            before=text[:offset],
            after=text[offset:],
        )

    @property
    def on_blank_line(self) -> bool:
        return not self.line_before.strip(" \t")

    @property
    def is_markdown(self) -> bool:
        return self.language_id in _MARKDOWN

    @property
    def previous_line(self) -> str | None:
        """The nearest line above that is not blank."""
        return next((line for line in reversed(self.lines_before) if line.strip()), None)

    @property
    def next_line(self) -> str | None:
        """The nearest line below that is not blank."""
        return next((line for line in self.lines_after if line.strip()), None)

    @property
    def is_among_indented(self) -> bool:
        """The next lines on both sides have code and are indented."""
        around = (*self.lines_before[-1:], *self.lines_after[:1])
        is_code = (line.strip() and _COMMENT.match(line) is None for line in around)
        return len(around) == 2 and all(is_code) and all(map(indent_of, around))

    @property
    def header(self) -> str | None:
        """The line that opens an empty block at the cursor, if one does."""
        header = self.previous_line if self.on_blank_line else self.line_before
        if header is None or not opens_block(header) or self.is_above_deeper(header):
            return None
        return header

    def is_above_deeper(self, line: str) -> bool:
        """Whether what follows is indented more than a line before it."""
        return self.next_line is not None and indent_width(self.next_line) > indent_width(line)


def normalise_line_ends(text: str) -> str:
    """`\\n` for every LSP line end; form feed and U+2028 are characters like others."""
    if "\r" not in text:
        return text
    return text.replace("\r\n", "\n").replace("\r", "\n")


def is_comment_line(line: str) -> bool:
    """By what comments begin with in most languages."""
    return _COMMENT.match(line) is not None


def opens_block(line: str) -> bool:
    """A colon inside brackets is that of an entry."""
    stripped = line.rstrip()
    if not stripped.endswith(_OPENERS) or is_comment_line(line):
        return False
    return not (stripped.endswith(":") and open_brackets(code_only(line)) > 0)


def closes_block(line: str) -> bool:
    """True for a line of closing characters only, such as `});` or `end`."""
    return _CLOSER_LINE.fullmatch(line.strip()) is not None


def may_become_closer(line: str) -> bool:
    """True while a line that is still being written can end up as one of `closes_block`."""
    stripped = line.strip()
    is_word = any(word.startswith(stripped) for word in _CLOSER_WORDS)
    return is_word or stripped in ("<", "</") or closes_block(stripped)


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
    if text_before.strip() and _ONE_WORD.fullmatch(line.strip()):
        return False  # `break;` and `true` may well come again
    same_depth = indent_width(line) == indent_width(next_line)
    return same_depth and is_statement(line) and _essence(line) == _essence(next_line)


def _essence(line: str) -> str:
    """A line without what writers of code differ in: blanks, and whether its end has a brace."""
    return "".join(line.split()).rstrip("{;,:")
