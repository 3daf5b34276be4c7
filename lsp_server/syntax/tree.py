"""Questions to the tree of one text: what a place is, what begins there, what is defined."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from lsp_server.syntax.nodes import (
    BLOCKS,
    BRANCHES,
    COMMENT,
    CONTAINERS,
    STRING,
    SUBSTITUTIONS,
    WRAPPERS,
    body_of,
    is_definition,
    is_docstring,
    is_import,
    is_type,
    name_of,
)
from lsp_server.text.languages import Language, Zone

if TYPE_CHECKING:
    from tree_sitter import Node, Tree

_MAX_SCAN = 4000
"""Characters behind an error that are read for what it leaves open."""
_MAX_DEPTH = 20
"""Of nested types and namespaces."""

_SEPARATORS = frozenset((",", ";", ";;", "|", "\n"))
_WORD = re.compile(r"[^\W\d][\w$]*")


class Span(NamedTuple):
    """A part of a text, in offsets of code points."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Definition:
    name: str
    start: int
    """With what belongs to it: decorators, `export`, `template<...>`."""
    end: int
    body: int
    """Where its body begins, `end` where it has none: what is before is the signature."""
    is_type: bool
    """It may have members: a class, an interface, a struct, an implementation."""
    owner: str = ""
    """The innermost type that holds it."""


@dataclass(frozen=True, slots=True)
class Opening:
    """What a place is the beginning of."""

    is_block: bool
    """Of a block that has nothing else in it but comments and a docstring."""
    header: int
    """In the line with which the block begins; the place itself where none does."""


class Parsed:
    """The tree of a text or window; all offsets are those of the whole text."""

    def __init__(self, tree: Tree, text: str, start: int, language: Language) -> None:
        """`text` begins at `start` of the whole text."""
        self.start = start
        self.end = start + len(text)
        self._root = tree.root_node
        self._text = text
        self._language = language

    def zone(self, offset: int) -> Zone:
        """Whether a cursor is inside a comment or a string, closed or not yet."""
        at = offset - self.start
        for node in self._path(at - 1, at + 1):
            if node.type in SUBSTITUTIONS:
                return Zone.CODE
            if node.is_named and node.start_byte < at < node.end_byte:
                if STRING.fullmatch(node.type):
                    return Zone.STRING
                if COMMENT.fullmatch(node.type):
                    return Zone.COMMENT
        # What is not closed is no string to the grammar, and a line comment ends before its line.
        start = self._line_start(at)
        if (error := self._last_error(at)) is not None:
            if at - error < _MAX_SCAN:
                start = min(start, self._line_start(error))
        elif not any(COMMENT.fullmatch(node.type) for node in self._path(at - 1, at)):
            return Zone.CODE
        return self._language.open_at_end(self._text[start:at])

    def opening(self, start: int, end: int) -> Opening | None:
        """What a statement begins that stands from `start` to `end`; None where the text is too
        broken to tell, or nothing is around it."""
        at = start - self.start
        for node in self._path(at, at + 1):
            is_around = node.start_byte < at
            if node.type in BLOCKS or (node.type in BRANCHES and is_around):
                has_mark = not node.children[0].is_named
                header = node if has_mark else node.parent or node
                is_block = self._is_alone(at, end - self.start, node, header)
                return Opening(is_block, self.start + header.start_byte)
            if is_around:
                is_broken = node.is_error or node.parent is None
                return None if is_broken else Opening(is_block=False, header=start)
        return None

    def _is_alone(self, start: int, end: int, block: Node, header: Node) -> bool:
        """Whether a block has nothing before and behind a part of it. What stands no further right
        than the header is none of it: an unclosed bracket has taken that in."""
        children = [node for node in block.children if not COMMENT.fullmatch(node.type)]
        before = [node for node in children if node.end_byte <= start]
        if self._language.name == "python":
            before = [node for node in before if not is_docstring(node)]
        if before and (before[-1].is_named or before[-1].type in _SEPARATORS):
            return False
        width = self._column(header)
        return not any(
            node.is_named and node.start_byte >= end and self._column(node) > width
            for node in children
        )

    def _column(self, node: Node) -> int:
        """Blanks before the line in which a node begins."""
        line = self._line_start(node.start_byte)
        return len(self._text) - line - len(self._text[line:].lstrip(" \t"))

    def definitions(self) -> tuple[Definition, ...]:
        """Functions and types in the order of the text, members behind the type that has them."""
        return tuple(self._definitions(self._root, None, "", 0))

    def imports(self) -> tuple[Span, ...]:
        """The statements outside functions and types that name other modules."""
        return tuple(self._imports(self._root, 0))

    def _imports(self, parent: Node, depth: int) -> Iterator[Span]:
        for node in parent.named_children:
            if is_import(node, self._text):
                yield self._span(node)
            elif node.type in CONTAINERS and depth < _MAX_DEPTH:
                yield from self._imports(node, depth + 1)

    def _definitions(
        self, parent: Node, wrapper: Node | None, owner: str, depth: int
    ) -> Iterator[Definition]:
        for node in parent.named_children:
            outer = wrapper or node
            if is_definition(node):
                yield (found := self._defined(node, outer, owner))
                body = body_of(node)
                if found.is_type and body is not None and depth < _MAX_DEPTH:
                    yield from self._definitions(body, None, found.name, depth + 1)
            elif node.type in CONTAINERS and depth < _MAX_DEPTH:
                inside = outer if node.type in WRAPPERS else None
                yield from self._definitions(node, inside, owner, depth + 1)

    def _defined(self, node: Node, outer: Node, owner: str) -> Definition:
        named = name_of(node)
        *owners, name = self._text[named.start_byte : named.end_byte].split("::")
        word = _WORD.search(name)
        body, found_type = body_of(node), is_type(node)
        start, end = outer.start_byte, max(outer.end_byte, node.end_byte)
        bracket = self._text.find("{", start, end) if found_type else -1
        body_start = body.start_byte if body is not None else bracket if bracket >= 0 else end
        return Definition(
            name=word[0] if word else "",
            start=self.start + start,
            end=self.start + end,
            body=self.start + body_start,
            is_type=found_type,
            owner=owners[-1] if owners else owner,
        )

    def _path(self, start: int, end: int) -> Iterator[Node]:
        """The smallest node over a part of the window, and what it is in."""
        size = len(self._text)
        node = self._root.descendant_for_byte_range(max(0, min(start, size)), min(end, size))
        while node is not None:
            yield node
            node = node.parent

    def _last_error(self, at: int) -> int | None:
        """The start of the nearest error that begins before a cursor."""
        nodes = [self._root]
        found: int | None = None
        while nodes:
            wrong = [
                node
                for node in nodes
                if node.start_byte < at and (node.has_error or node.is_missing)
            ]
            if not wrong:
                break
            if wrong[-1].is_error or wrong[-1].is_missing:
                found = wrong[-1].start_byte
            nodes = wrong[-1].children
        return found

    def _line_start(self, at: int) -> int:
        end = at - 1 if self._text[at - 1 : at + 1] == "\r\n" else at
        return max(self._text.rfind("\n", 0, end), self._text.rfind("\r", 0, end)) + 1

    def _span(self, node: Node) -> Span:
        return Span(self.start + node.start_byte, self.start + node.end_byte)
