"""What a step of the post-processing takes and gives."""

from __future__ import annotations

from dataclasses import dataclass

from lsp_server.completion import Reason


@dataclass(frozen=True, slots=True)
class Edit:
    """Text that takes the place of what lies around the cursor on its line."""

    text: str
    num_left: int = 0
    """Characters replaced left of the cursor."""
    num_right: int = 0
    """Characters replaced right of the cursor."""
    is_joined: bool = False
    """What follows on the cursor's line stood in the text too, so that both are one line."""
    is_ended: bool = False
    """The model has ended here by itself, as one does that sees what follows the cursor."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """Nothing worth showing is left."""

    reason: Reason
