"""Definitions and imports of a text: by the language's grammar, or by keywords and indentation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from lsp_server.syntax import Definition, Span, Syntax
from lsp_server.text.indentation import indent_width
from lsp_server.text.place import closes_block

_DEFINES = re.compile(
    r"^[ \t]*(?:(?:export|default|public|private|protected|internal|pub(?:\([^)\n]*\))?|static"
    r"|abstract|final|async|local|open|override|inline|sealed|data|unsafe|partial|const)[ \t]+)*"
    r"(?:(?P<type>class|struct|enum|interface|trait|protocol|impl|object|extension|module|record"
    r"|defmodule|namespace|type)|def|defp|defmacro|fn|func|fun|function|sub|proc|macro)[ \t]+"
    r"(?:\([^)\n]*\)[ \t]*)?(?:[^\W\d][\w$]*\.)*(?(type)|(?:[^\W\d][\w$]*:)?)"
    r"(?P<name>[^\W\d][\w$]*)",
    re.MULTILINE,
)
_IMPORTS = re.compile(
    r"^(?:(?:local|const|let|var)\b[^=\n]*=[ \t]*(?=require\b))?"
    r"(?:import|from|use|using|require|require_relative|include|#include|open|alias|source)\b.*",
    re.MULTILINE,
)


class Outline(NamedTuple):
    definitions: tuple[Definition, ...]
    """Functions and types in the order of the text, members behind the type that has them."""
    imports: tuple[Span, ...]
    """The statements outside functions and types that name other modules."""


def outline_of(text: str, language_id: str, uri: str) -> Outline:
    """`text` has LF line ends."""
    syntax = Syntax.of(language_id, uri)
    parsed = syntax.parse(text) if syntax is not None else None
    if parsed is not None:
        return Outline(parsed.definitions(), parsed.imports())
    imports = tuple(Span(*found.span()) for found in _IMPORTS.finditer(text))
    return Outline(tuple(_by_lines(text)), imports)


def _by_lines(text: str) -> Iterator[Definition]:
    """A definition ends before the next line that is indented no more, its closer included."""
    types: list[tuple[int, str]] = []
    function_end = 0
    for found in _DEFINES.finditer(text):
        if found.start() < function_end:
            continue
        line_end = _line_end(text, found.start())
        end = _block_end(text, line_end, indent_width(found[0]))
        types = [(type_end, name) for type_end, name in types if found.start() < type_end]
        is_type = found["type"] is not None
        start = found.start() + len(found[0]) - len(found[0].lstrip(" \t"))
        owner = types[-1][1] if types else ""
        yield Definition(found["name"], start, end, min(line_end + 1, end), is_type, owner)
        if is_type:
            types.append((end, found["name"]))
        else:
            function_end = end


def _block_end(text: str, line_end: int, width: int) -> int:
    """Behind the last line of what a line begins that is indented by `width` columns."""
    end = line_end
    while line_end < len(text):
        start, line_end = line_end + 1, _line_end(text, line_end + 1)
        line = text[start:line_end]
        if not line.strip():
            continue
        if indent_width(line) > width or (indent_width(line) == width and line.strip() == "{"):
            end = line_end
            continue
        return line_end if indent_width(line) == width and closes_block(line) else end
    return end


def _line_end(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end
