"""What a request is answered with: items in the client's positions, or why there are none.

Free of protocol libraries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lsp_server.completion import CompletionStats, Reason
from lsp_server.documents import Position


@dataclass(frozen=True, slots=True)
class Item:
    item_id: str
    text: str
    start: Position
    end: Position


@dataclass(frozen=True, slots=True)
class Answer:
    """`reason` is None exactly when there are items."""

    reason: Reason | None
    items: tuple[Item, ...] = ()
    """The one to show first, and further ones to choose from."""
    stats: CompletionStats | None = None
    message: str | None = None

    @property
    def item(self) -> Item | None:
        """The first."""
        return self.items[0] if self.items else None

    @property
    def is_stale(self) -> bool:
        """A newer request or text has overtaken this one: the client is to keep what it shows."""
        return self.reason in (Reason.SUPERSEDED, Reason.STALE)

    def as_json(self) -> dict[str, Any]:
        """The answer of `tabahead/explain`."""
        explained: dict[str, Any] = {
            "reason": self.reason,
            "text": self.item.text if self.item else "",
            "stats": (self.stats or CompletionStats()).as_json(),
        }
        if self.message:
            explained["message"] = self.message
        return explained
