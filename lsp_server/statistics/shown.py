"""Ghost text, and what has become of it so far."""

from __future__ import annotations

from dataclasses import dataclass

from lsp_server.completion import CompletionStats


@dataclass(slots=True)
class Shown:
    """An item that was sent, and the rests of it that were sent while it was typed along: one thing
    to the user, whatever it is called by."""

    item_id: str
    """The first of its names."""
    uri: str
    text: str
    stats: CompletionStats
    head: str = ""
    """What stands on the line before it."""
    start: int = 0
    """Offset in its document."""
    num_done: int = 0
    """Characters from its start that the user has taken or typed so far."""
    num_there: int = 0
    """Those that stand in the document, as far as edits have told."""
    last_typed: int = 0
    """Of `num_done`, those that the last edit seemed to type."""
    is_seen: bool = False
    """It was counted as shown."""
    has_parts: bool = False
    """A part of it was taken."""
    is_over: bool = False
    """It was taken as a whole, or what was left of it."""

    def typed_to(self, num_characters: int) -> None:
        """So much of it stands in the document by now, and nobody took it."""
        if num_characters > self.num_done:
            self.last_typed = num_characters - self.num_done
            self.num_done = num_characters

    def told(self, num_characters: int) -> None:
        """The client says that so much was taken. Where the edit came before and looked as if it
        was typed, it was not."""
        if self.num_done - self.last_typed < num_characters <= self.num_there:
            self.num_done -= self.last_typed
        self.last_typed = 0
