"""Drafts copied from where the last few tokens occurred before: free, and right where code repeats.

Method: prompt lookup decoding (Saxena 2023), here over the text after the cursor, the prompt and
the output; the longest n-gram wins, then the most recent occurrence. A longer match drafts more.
"""

from __future__ import annotations

from collections.abc import Sequence

from lsp_server.cancellation import CancelToken
from lsp_server.engine.drafters.ngrams import TOKENS_PER_MATCH, NgramIndex
from lsp_server.engine.types import Draft

_SIZES = (5, 4, 3, 2)
_REJOIN = 3
"""Tokens from the cursor on that, copied, mean that the copy has met the text there."""
_MAX_REJOINED = 32
"""Tokens that may have been generated of the text after the cursor and are still known as such."""


class PromptLookup:
    """An index kept up to date through appends, truncations and edits.

    >>> PromptLookup().propose([1, 2, 7, 1, 2, 8, 1, 2], limit=2).token_ids
    (8, 1)
    """

    name = "lookup"

    def __init__(self, tokens_per_match: float = TOKENS_PER_MATCH, offset: int = 0) -> None:
        """A match of m tokens drafts at most m * `tokens_per_match` + `offset`."""
        self._tokens_per_match = tokens_per_match
        self._offset = offset
        self._text = NgramIndex(_SIZES)
        self._suffix = NgramIndex(_SIZES)

    def set_suffix(self, token_ids: Sequence[int]) -> None:
        """The tokens after the cursor; searched as the oldest text, apart from the prompt so that
        no n-gram spans the cursor."""
        self._suffix.update(token_ids)

    def propose(
        self, token_ids: Sequence[int], limit: int, cancel: CancelToken | None = None
    ) -> Draft:
        """The longest, most recent match of n = 5..2 trailing tokens, continued.

        A copy that reaches the end of the text goes on into itself, so a loop of any period fills
        the draft; one that reaches the end of the suffix stops there, and so does one that reaches
        its beginning: what follows the cursor already need not be written again.
        """
        self._text.update(token_ids)
        found = self._find() if limit > 0 else None
        if found is None:
            return Draft((), self.name)
        index, position = found
        strength = index.match_length(position, self._text.token_ids)
        limit = min(limit, int(strength * self._tokens_per_match) + self._offset)
        copy = _copy(index, position, limit + _REJOIN - 1, wrap=index is self._text)
        end = min(limit, _before_rejoin(self._text.token_ids, copy, self._suffix.token_ids))
        return Draft(tuple(copy[:end]), self.name, strength=strength)

    def _find(self) -> tuple[NgramIndex, int] | None:
        token_ids = self._text.token_ids
        for size in _SIZES:
            if len(token_ids) >= size:
                key = token_ids[-size:]
                for index in (self._text, self._suffix):
                    position = next(index.following(key), None)
                    if position is not None:
                        return index, position
        return None


def _copy(index: NgramIndex, start: int, length: int, *, wrap: bool) -> list[int]:
    """`length` tokens from `start`; at the end of the text `wrap` goes on into the copy."""
    copy = index.token_ids[start : start + length]
    while wrap and len(copy) < length:
        copy.append(copy[start + len(copy) - len(index.token_ids)])
    return copy


def _before_rejoin(text: list[int], copy: list[int], suffix: list[int]) -> int:
    """How many tokens of `copy` come before the suffix's first _REJOIN tokens; none where the text
    and the copy together are in them already."""
    beginning = suffix[:_REJOIN]
    if len(beginning) < _REJOIN:
        return len(copy)
    for length in range(1, min(_MAX_REJOINED, len(text), len(suffix)) + 1):
        if text[-length] == suffix[0] and text[-length:] == suffix[:length]:
            ahead = max(0, _REJOIN - length)
            if copy[:ahead] == suffix[length : length + ahead]:
                return 0
    starts = range(len(copy) - _REJOIN + 1)
    return next((i for i in starts if copy[i : i + _REJOIN] == beginning), len(copy))
