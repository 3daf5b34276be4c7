"""A generation under way, and whether what has been typed since it was asked for agrees with it.

A generation that may still come true is worth more than a new one: while it reads the prompt it
reads what the new one would read too, and once it writes it is ahead. So it is kept until what it
writes tells otherwise.
"""

from __future__ import annotations

from dataclasses import replace

from lsp_server.answering.remainder import CLOSERS
from lsp_server.answering.spot import Spot
from lsp_server.cancellation import CancelToken
from lsp_server.completion import Reason

MAX_TYPED = 1000
"""Characters; who has pasted more does not wait for the text before it."""


class Stream:
    """Text that arrives on the inference thread, and what is typed meanwhile on the event loop.

    Each side writes its own and then compares, so that one of them sees the difference.
    """

    def __init__(self) -> None:
        self._raw = ""
        self._typed = ""

    def arrived(self, raw: str, cancel: CancelToken) -> None:
        """All text so far. Cancels a generation that is not what is being typed."""
        self._raw = raw
        if not agree(raw, self._typed):
            cancel.cancel(Reason.SUPERSEDED)

    def expect(self, typed: str) -> bool:
        """All that has been typed so far; False where the text is something else already."""
        self._typed = typed
        return agree(self._raw, typed)


def agree(raw: str, typed: str) -> bool:
    """Whether a text that is still being written may yet turn out to begin with what was typed.

    Blind to blanks and line ends, which post-processing changes: whether the finished text really
    begins so is decided then.
    """
    if not typed:
        return True
    text, wanted = "".join(raw.split()), "".join(typed.split())
    return text.startswith(wanted) or wanted.startswith(text)


class Flight:
    """One generation, submitted and not yet finished. `stream` apart, of the event loop."""

    def __init__(self, spot: Spot) -> None:
        self.spot = spot
        self.stream = Stream()
        self._frame = spot.frame()

    def serves(self, spot: Spot) -> bool:
        """Whether its text, less what has been typed since, may be the answer there."""
        is_by_key = self.spot.request.invoked
        if self.spot.key != spot.key or (spot.request.invoked and not is_by_key):
            return False
        gap = self._frame.gap(spot, MAX_TYPED)
        if gap is None or not CLOSERS.issuperset(gap[1]) or not self._frame.holds(spot):
            return False
        return self.stream.expect(gap[0])

    def foretells(self, text: str) -> bool:
        """The same of an edited document, with the cursor where it was asked for and something
        typed there."""
        asked = self.spot.request
        offset = len(text) - self._frame.num_after
        snapshot = replace(asked.snapshot, text=text)
        return offset >= 0 and self.serves(
            Spot(replace(asked, snapshot=snapshot, offset=offset, selected=None))
        )
