"""An editor with one document: it types, asks, and applies items as editors do.

Keeps its own text and counts columns by itself, so that a wrong position of the server shows.
"""

from __future__ import annotations

import re
from typing import Any

from tests.lsp_client import RawClient

BYTES_A_UNIT = {"utf-8": 1, "utf-16": 2, "utf-32": 4}
CODECS = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
_BREAK = re.compile(r"\r\n|\n|\r")


class Editor:
    """`text` and `cursor` (code points) are what the user sees."""

    def __init__(
        self,
        client: RawClient,
        uri: str,
        text: str,
        cursor: int,
        *,
        encoding: str = "utf-16",
        language: str = "unknown",
    ) -> None:
        self.client, self.uri, self.text, self.cursor = client, uri, text, cursor
        self.encoding, self.version = encoding, 1
        client.open(uri, text, language=language)

    @property
    def line_end(self) -> str:
        """What the document's first line ends with."""
        found = _BREAK.search(self.text)
        return found[0] if found else "\n"

    def close(self) -> None:
        self.client.notify("textDocument/didClose", {"textDocument": {"uri": self.uri}})

    def ask(self, kind: int = 2, **more: Any) -> dict[str, Any] | None:
        """The first item at the cursor; None where there is none, or an answer came too late."""
        items = self.items(kind, **more)
        return items[0] if items else None

    def items(self, kind: int = 2, **more: Any) -> list[dict[str, Any]]:
        line, character = self.position(self.cursor)
        result = self.client.complete(self.uri, line, character, kind=kind, **more)
        return list(result["items"]) if result else []

    def reason(self) -> str | None:
        """Of the last answer."""
        reason: str | None = self.client.explain(self.uri)["reason"]
        return reason

    def accept(self, item: dict[str, Any]) -> str:
        """The text after accepting: line ends become the document's own."""
        start, end = (self.offset(item["range"][side]) for side in ("start", "end"))
        text = item["insertText"].replace("\n", self.line_end)
        self.replace(start, end, text)
        return self.text

    def type(self, text: str) -> None:
        """One edit a character."""
        for character in text:
            self.replace(self.cursor, self.cursor, character)

    def enter(self, indent: str = "") -> None:
        """A new line with the blanks that the editor gives it, in one edit."""
        self.replace(self.cursor, self.cursor, self.line_end + indent)

    def backspace(self, num: int = 1) -> None:
        for _ in range(num):
            self.replace(self.cursor - 1, self.cursor, "")

    def replace(self, start: int, end: int, text: str) -> None:
        """One edit of the text from `start` to `end`; the cursor goes behind it."""
        where = (*self.position(start), *self.position(end))
        self.text = self.text[:start] + text + self.text[end:]
        self.cursor = start + len(text)
        self.version += 1
        self.client.change(self.uri, self.version, text, where)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, in the units that were agreed on."""
        *_, last = _line_starts(self.text[:offset])
        units = self.text[last:offset].encode(CODECS[self.encoding], "surrogatepass")
        return len(_line_starts(self.text[:offset])) - 1, len(units) // BYTES_A_UNIT[self.encoding]

    def offset(self, position: dict[str, int]) -> int:
        """The offset of a position, which must lie in its line and between two characters."""
        starts = _line_starts(self.text)
        assert 0 <= position["line"] < len(starts), f"{position} lies beyond the last line"
        start = starts[position["line"]]
        found = _BREAK.search(self.text, start)
        line = self.text[start : found.start() if found else len(self.text)]
        units = line.encode(CODECS[self.encoding], "surrogatepass")
        cut = position["character"] * BYTES_A_UNIT[self.encoding]
        assert 0 <= cut <= len(units), f"{position} lies beyond its line"
        head = units[:cut].decode(CODECS[self.encoding], "surrogatepass")
        assert line.startswith(head), f"{position} lies inside a character"
        return start + len(head)


def _line_starts(text: str) -> list[int]:
    return [0, *(found.end() for found in _BREAK.finditer(text))]
