"""The text of open documents, edited in O(edit), and frozen snapshots of it.

Lines end at `\\n`, `\\r\\n` and `\\r` only, as the protocol says; positions outside the text are
clamped. Free of protocol libraries: positions come in as plain numbers with an encoding.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import count, takewhile
from typing import NamedTuple

from lsp_server.completion import Reason, Snapshot
from lsp_server.files.uris import file_of

KEEP_FACTOR = 2
"""Text beyond this multiple of the size limit is not held at all; below it, an edit may shrink a
document back into service."""

LINE_BREAKS = ("\r\n", "\n", "\r")
LINE_END = re.compile("[\r\n]")


class Encoding(StrEnum):
    """What `character` counts in a position."""

    UTF8 = "utf-8"
    UTF16 = "utf-16"
    UTF32 = "utf-32"


class Position(NamedTuple):
    line: int
    character: int


class Range(NamedTuple):
    start: Position
    end: Position


class Change(NamedTuple):
    """One edit; without a range `text` is the whole new document."""

    range: Range | None
    text: str


def split_lines(text: str) -> list[str]:
    """Lines with their breaks; the last one has none and may be empty."""
    lines = list(io.StringIO(text, newline=""))
    if not lines or lines[-1].endswith(("\n", "\r")):
        lines.append("")
    return lines


def content_length(line: str) -> int:
    """Length of a line without its break."""
    for line_break in LINE_BREAKS:
        if line.endswith(line_break):
            return len(line) - len(line_break)
    return len(line)


def split_line(line: str, character: int, encoding: Encoding) -> tuple[str, str]:
    """The line before and after a column, clamped to before the line break.

    A UTF-16 column inside a surrogate pair splits the pair, as it does in editors whose text is
    UTF-16; a UTF-8 column inside a character moves to its start.
    """
    end = content_length(line)
    if encoding is Encoding.UTF32 or line.isascii():
        cut = min(character, end)
        return line[:cut], line[cut:]
    head = line[: min(character, end)]  # no fewer units than code points
    if encoding is Encoding.UTF8:
        data = head.encode("utf-8", "surrogatepass")
        cut = min(character, len(data))
        while 0 < cut < len(data) and data[cut] & 0xC0 == 0x80:
            cut -= 1
        index = len(data[:cut].decode("utf-8", "surrogatepass"))
        return line[:index], line[index:]
    data = head.encode("utf-16-le", "surrogatepass")
    cut = min(2 * character, len(data))
    if _is_inside_pair(data, cut):
        index = len(data[: cut - 2].decode("utf-16-le", "surrogatepass"))
        high, low = (
            data[at : at + 2].decode("utf-16-le", "surrogatepass") for at in (cut - 2, cut)
        )
        return line[:index] + high, low + line[index + 1 :]
    index = len(data[:cut].decode("utf-16-le", "surrogatepass"))
    return line[:index], line[index:]


def _is_inside_pair(data: bytes, cut: int) -> bool:
    around = data[max(0, cut - 2) : cut + 2]
    return len(around) == 4 and around[1] & 0xFC == 0xD8 and around[3] & 0xFC == 0xDC


def column_of(line: str, character: int, encoding: Encoding) -> int:
    """Code points before a column; a column inside a surrogate pair counts as before it."""
    before, after = split_line(line, character, encoding)
    splits_pair = len(before) + len(after) > len(line)
    return len(before) - splits_pair


def num_units(text: str, encoding: Encoding) -> int:
    """Length of a piece of a line in the units of `character`."""
    if encoding is Encoding.UTF32 or text.isascii():
        return len(text)
    if encoding is Encoding.UTF16:
        return len(text.encode("utf-16-le", "surrogatepass")) // 2
    return len(text.encode("utf-8", "surrogatepass"))


def position_at(
    text: str, offset: int, encoding: Encoding, known: tuple[int, int] = (0, 0)
) -> Position:
    """Where an offset in code points lies; the inverse of `Document.offset_at`.

    `known` is an (offset, line) from which to count, so that near it the cost is small.
    """
    known_offset, line = known
    if offset >= known_offset:
        line += _num_breaks(text[known_offset:offset])
    else:
        line -= _num_breaks(text[offset:known_offset])
    line_start = max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1
    return Position(line, num_units(text[line_start:offset], encoding))


def _num_breaks(text: str) -> int:
    return text.count("\n") + text.count("\r") - text.count("\r\n")


def _joined(*parts: str) -> str:
    """Concatenation in which two halves of a surrogate pair that meet become one character."""
    text = ""
    for part in parts:
        if text and part and "\ud800" <= text[-1] <= "\udbff" and "\udc00" <= part[0] <= "\udfff":
            pair = (text[-1] + part[0]).encode("utf-16-le", "surrogatepass").decode("utf-16-le")
            text, part = text[:-1] + pair, part[1:]
        text += part
    return text


class Document:
    """One open document. `revision` differs between any two states of any two documents."""

    def __init__(
        self, uri: str, language_id: str, version: int, text: str, encoding: Encoding
    ) -> None:
        self.uri = uri
        self.language_id = language_id
        self.version = version
        self._encoding = encoding
        self._replace_all(text)

    def _replace_all(self, text: str) -> None:
        self._lines = split_lines(text)
        self._text: str | None = None
        self.num_chars = len(text)

    @property
    def num_lines(self) -> int:
        return len(self._lines)

    @property
    def text(self) -> str:
        """Joined once per version."""
        if self._text is None:
            self._text = "".join(self._lines)
        return self._text

    def apply(self, change: Change) -> None:
        """Edit in place; the cost depends on the edit and the lines it touches, not on the text."""
        if change.range is None:
            self._replace_all(change.text)
            return
        start, end = sorted((self._clamped(change.range.start), self._clamped(change.range.end)))
        before = split_line(self._lines[start.line], start.character, self._encoding)[0]
        after = split_line(self._lines[end.line], end.character, self._encoding)[1]
        middle = _joined(before, change.text, after)
        first, last = start.line, end.line + 1
        if first and middle.startswith("\n") and self._lines[first - 1].endswith("\r"):
            first -= 1
            middle = self._lines[first] + middle
        if start.line == end.line and not LINE_END.search(change.text):
            new_lines = [middle]
        else:
            new_lines = split_lines(middle)
            if last < len(self._lines):
                # `after` ends with a line break here; the empty line behind it is the next one.
                new_lines.pop()
        self.num_chars += len(middle) - sum(map(len, self._lines[first:last]))
        self._lines[first:last] = new_lines
        self._text = None

    def offset_at(self, position: Position) -> int:
        """The position in code points from the start, clamped into the text."""
        line, character = self._clamped(position)
        before = len("".join(self._lines[:line]))
        return before + column_of(self._lines[line], character, self._encoding)

    def _clamped(self, position: Position) -> Position:
        if position.line < len(self._lines):
            return position
        return Position(len(self._lines) - 1, len(self._lines[-1]) * 4)


@dataclass(slots=True)
class _Entry:
    language_id: str
    revision: int
    document: Document | None
    """None while there is no text to complete in."""
    missing: Reason = Reason.TOO_LARGE
    """Why there is no document: the text is far too large to be held, or an edit could not be read
    and the client's text is no longer known."""


class DocumentStore:
    """Open documents by URI as the client spells it. Belongs to the event loop."""

    def __init__(self, encoding: Encoding = Encoding.UTF16, max_chars: int = 1_000_000) -> None:
        self.encoding = encoding
        """Agreed in `initialize`, before any document is open."""
        self.max_chars = max_chars
        self._entries: dict[str, _Entry] = {}
        self._revisions = count(1)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, uri: str) -> bool:
        return uri in self._entries

    def uris(self) -> list[str]:
        """Of all open documents."""
        return list(self._entries)

    def open(self, uri: str, language_id: str, version: int, text: str) -> None:
        document = None
        if self._may_hold(len(text)):
            document = Document(uri, language_id, version, text, self.encoding)
        self._entries[uri] = _Entry(language_id, next(self._revisions), document)

    def change(self, uri: str, version: int | None, changes: Sequence[Change]) -> bool:
        """Apply edits in order, each on the text that the one before left; False: not open."""
        entry = self._entries.get(uri)
        if entry is None:
            return False
        entry.revision = next(self._revisions)
        for change in changes:
            if change.range is None and entry.document is None:
                self.open(uri, entry.language_id, 0, change.text)
                entry = self._entries[uri]
            elif entry.document is not None:
                entry.document.apply(change)
                if not self._may_hold(entry.document.num_chars):
                    entry.document = None
        if entry.document is not None:
            entry.document.version = entry.document.version + 1 if version is None else version
        return True

    def lose(self, uri: str) -> None:
        """An edit could not be read: nothing is completed until the text comes whole again."""
        entry = self._entries.get(uri)
        if entry is not None:
            entry.revision = next(self._revisions)
            entry.document, entry.missing = None, Reason.STALE

    def close(self, uri: str) -> None:
        self._entries.pop(uri, None)

    def revision(self, uri: str) -> int | None:
        """Differs between any two states of any document; None: not open."""
        entry = self._entries.get(uri)
        return entry.revision if entry else None

    def get(self, uri: str) -> Document | None:
        entry = self._entries.get(uri)
        return entry.document if entry else None

    def snapshot(self, uri: str) -> Snapshot | Reason:
        """The document as it is now, or why there is nothing to complete in."""
        entry = self._entries.get(uri)
        if entry is None:
            return Reason.NOT_OPEN
        document = entry.document
        if document is None:
            return entry.missing
        if document.num_chars > self.max_chars:
            return Reason.TOO_LARGE
        if "\0" in document.text:
            return Reason.BINARY
        above = self._cells_above(document)
        return Snapshot(uri, document.version, document.language_id, document.text, above)

    def _cells_above(self, document: Document) -> tuple[str, ...]:
        """Texts of the cells that were opened before one of the same notebook and language.

        Editors open the cells of a notebook in their order; one that is put in between later is
        taken for the last.
        """
        notebook = file_of(document.uri)
        if notebook == document.uri:
            return ()
        opened = (entry.document for entry in self._entries.values())
        return tuple(
            cell.text
            for cell in takewhile(lambda other: other is not document, opened)
            if cell is not None
            and file_of(cell.uri) == notebook
            and cell.language_id == document.language_id
        )

    def _may_hold(self, num_chars: int) -> bool:
        return num_chars <= KEEP_FACTOR * self.max_chars
