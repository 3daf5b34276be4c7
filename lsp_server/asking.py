"""From what a client asks and what the settings say to a request for the engine.

Free of protocol libraries.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lsp_server.completion import (
    CompletionRequest,
    Eagerness,
    Mode,
    Refusal,
    Selected,
    Snapshot,
)
from lsp_server.documents import Document
from lsp_server.params import InlineCompletionParams

if TYPE_CHECKING:
    from lsp_server.settings.tree import Settings


async def _no_disk(uri: str) -> None:
    """Nothing on a disk decides."""


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """The settings that go into every request."""

    mode: Mode = Mode.AUTO
    max_tokens: int = 64
    sources: tuple[str, ...] = ("lookup",)
    strict: bool = False
    temperature: float = 0.0
    seed: int = 0
    prose: bool = False
    use_context: bool = True
    healing: bool = True
    automatic_deadline_ms: float | None = None
    invoked_deadline_ms: float | None = None
    num_items: int = 3
    """Most items when asked by key; while typing there is one."""
    eagerness: Eagerness = Eagerness.BALANCED
    look_ahead: bool = True
    """What may be asked for next is generated in idle time."""
    refuse: Callable[[Snapshot], Refusal | None] = lambda snapshot: None
    """Documents that get no completions, and why; never waits."""
    look: Callable[[str], Awaitable[None]] = _no_disk
    """Brings what `refuse` knows from the disk about a URI up to date; first await this."""

    @classmethod
    def of(cls, settings: Settings) -> RequestOptions:
        """Without what judges documents."""
        return cls(
            mode=settings.mode,
            max_tokens=settings.max_tokens,
            sources=settings.sources,
            strict=settings.strict,
            temperature=settings.temperature,
            seed=settings.seed,
            num_items=settings.num_items,
            eagerness=settings.eagerness,
            prose=settings.prose,
            use_context=settings.context,
            healing=settings.healing,
            automatic_deadline_ms=settings.deadline_ms.automatic,
            invoked_deadline_ms=settings.deadline_ms.invoked,
            look_ahead=settings.look_ahead,
        )

    def request(self, snapshot: Snapshot, offset: int, invoked: bool = False) -> CompletionRequest:
        """A request at an offset of a document, by key or while typing."""
        above = snapshot.above
        if above and self.refuse(replace(snapshot, text="\n".join(above))) is not None:
            # One look at all of them tells of most, and there may be hundreds.
            cells = (replace(snapshot, text=text) for text in above)
            above = tuple(cell.text for cell in cells if self.refuse(cell) is None)
        return CompletionRequest(
            snapshot=replace(snapshot, above=above),
            offset=offset,
            invoked=invoked,
            num_items=self.num_items if invoked else 1,
            eagerness=self.eagerness,
            prose=self.prose,
            use_context=self.use_context,
            healing=self.healing,
            mode=self.mode,
            max_tokens=self.max_tokens,
            sources=self.sources,
            strict=self.strict,
            temperature=self.temperature,
            seed=self.seed,
            deadline_ms=self.invoked_deadline_ms if invoked else self.automatic_deadline_ms,
        )


def asked(
    params: InlineCompletionParams, snapshot: Snapshot, document: Document, options: RequestOptions
) -> CompletionRequest:
    """What the client asks for; `snapshot` is of `document`."""
    selected = None
    if params.selected is not None:
        where = params.selected.range
        selected = Selected(
            document.offset_at(where.start), document.offset_at(where.end), params.selected.text
        )
    return replace(
        options.request(snapshot, document.offset_at(params.position), params.invoked),
        selected=selected,
        tab_size=params.tab_size,
        insert_spaces=params.insert_spaces,
    )
