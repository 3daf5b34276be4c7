"""What a request is answered with: items in the client's positions, or why there are none.

Free of protocol libraries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lsp_server.completion import CompletionStats, Reason
from lsp_server.documents import Position

SENTENCES: Mapping[Reason, str] = {
    Reason.EXCLUDED: "This file is left alone by the settings.",
    Reason.SECRET: "This file may hold secrets; it is neither completed nor read.",
    Reason.TOO_LARGE: "This file is too large; raise `max_file_bytes` to complete in it.",
    Reason.BINARY: "This file is no text.",
    Reason.NOT_OPEN: "The editor has not opened this document here.",
    Reason.MODEL_LOADING: "The model is still loading; ask again in a while.",
    Reason.MODEL_MISSING: "There is no model; `tabahead doctor` says what to do.",
    Reason.PAUSED: "Completions are paused; the command tabahead.resume goes on.",
    Reason.CANCELLED: "The editor took the request back.",
    Reason.SUPERSEDED: "A newer request came before the answer was there.",
    Reason.STALE: "The text was changed before the answer was there.",
    Reason.DEADLINE: "Time ran out before a line was whole; raise `deadline_ms`, or ask by key.",
    Reason.MID_WORD: "The cursor is inside a word; ask by key to complete there.",
    Reason.MID_LINE: "Text follows on the line that the suggestion does not fit.",
    Reason.EMPTY: "The model has nothing to say here.",
    Reason.DUPLICATE_SUFFIX: "What the model wrote stands behind the cursor already.",
    Reason.REPETITION: "The model only repeated itself, or lines that are there already.",
    Reason.UNBALANCED: "What the model wrote would leave brackets without a partner.",
    Reason.LOW_CONFIDENCE: "The model is not sure enough; ask by key, or raise `eagerness`.",
    Reason.PROSE: "Comments and prose are left alone while typing; ask by key, or set `prose`.",
    Reason.SELECTED_MISMATCH: "What the model wrote does not go on from the entry that is chosen.",
    Reason.ENGINE_ERROR: "The engine failed; `tabahead doctor` looks for the cause.",
}
"""What a reason means to the user, and what can be done where something can."""

HAS_ITEMS = "There is a suggestion here."


@dataclass(frozen=True, slots=True)
class Item:
    item_id: str
    text: str
    start: Position
    end: Position
    head: str = ""
    """What stands on its first line before it."""
    tail: str = ""
    """What stands on its last line behind it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`reason` is None exactly when there are items."""

    reason: Reason | None
    items: tuple[Item, ...] = ()
    """The one to show first, and further ones to choose from."""
    stats: CompletionStats | None = None
    message: str | None = None
    """More than SENTENCES has of the reason."""

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
        usual = HAS_ITEMS if self.reason is None else SENTENCES[self.reason]
        return {
            "reason": self.reason,
            "text": self.item.text if self.item else "",
            "stats": (self.stats or CompletionStats()).as_json(),
            "message": self.message or usual,
        }
