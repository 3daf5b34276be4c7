"""The text to heal as a draft of itself: where the model writes the very tokens again that were
left out of the prompt, as it mostly does behind whole words, healing costs no pass of its own."""

from __future__ import annotations

from collections.abc import Sequence

from lsp_server.cancellation import CancelToken
from lsp_server.engine.types import Draft, Drafter


class Healed:
    """Drafter protocol: another one, and the tokens left out where that has nothing at first."""

    def __init__(self, inner: Drafter, num_prompt: int, healed_ids: Sequence[int]) -> None:
        self._inner = inner
        self._num_prompt = num_prompt
        self._healed_ids = tuple(healed_ids)

    @property
    def name(self) -> str:
        return self._inner.name

    def propose(
        self, token_ids: Sequence[int], limit: int, cancel: CancelToken | None = None
    ) -> Draft:
        draft = self._inner.propose(token_ids, limit, cancel)
        if draft.token_ids or len(token_ids) > self._num_prompt:
            return draft
        return Draft(self._healed_ids[:limit], "healing")
