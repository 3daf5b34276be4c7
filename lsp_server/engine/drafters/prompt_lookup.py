"""Drafts copied from where the last few tokens occurred before: free, and right where code repeats.

Method: prompt lookup decoding (Saxena 2023), here over the text after the cursor, the prompt and
the output; the longest n-gram wins, then the most recent occurrence.
"""

from __future__ import annotations

from collections.abc import Sequence

from lsp_server.cancellation import CancelToken
from lsp_server.engine.types import Draft

_SIZES = (5, 4, 3, 2)
_MAX_STRENGTH = 32


class PromptLookup:
    """An n-gram index kept up to date through appends, truncations and edits.

    >>> PromptLookup().propose([1, 2, 7, 1, 2, 8, 1, 2], limit=2).token_ids
    (8, 1)
    """

    name = "lookup"

    def __init__(self) -> None:
        self._text = _NgramIndex()
        self._suffix = _NgramIndex()

    def set_suffix(self, token_ids: Sequence[int]) -> None:
        """The tokens after the cursor; searched as the oldest text, apart from the prompt so that
        no n-gram spans the cursor."""
        self._suffix.update(token_ids)

    def propose(
        self, token_ids: Sequence[int], limit: int, cancel: CancelToken | None = None
    ) -> Draft:
        """The longest, most recent match of n = 5..2 trailing tokens, continued.

        A copy that reaches the end of the text goes on into itself, so a loop of any period fills
        the draft; one that reaches the end of the suffix stops there.
        """
        self._text.update(token_ids)
        if limit > 0:
            for size in _SIZES:
                if len(token_ids) < size:
                    continue
                key = tuple(token_ids[-size:])
                for index in (self._text, self._suffix):
                    end = index.find(key)
                    if end is not None:
                        return Draft(
                            token_ids=index.copy_from(end, limit, wrap=index is self._text),
                            source=self.name,
                            strength=_match_length(index.token_ids, end, token_ids),
                        )
        return Draft((), self.name)


class _NgramIndex:
    """n-gram -> the most recent position that follows it. An n-gram enters when the token after it
    is known, so the text's own end is never its own match."""

    def __init__(self) -> None:
        self.token_ids: list[int] = []
        self._following: dict[tuple[int, ...], int] = {}
        self._replaced: list[list[tuple[tuple[int, ...], int | None]]] = []
        """Per token, what its n-grams replaced: the way back when the text is cut."""

    def update(self, token_ids: Sequence[int]) -> None:
        """Make the index that of `token_ids`, touching only what changed."""
        own = self.token_ids
        same = len(own)
        if own != token_ids[:same]:
            same = next(
                (i for i, (a, b) in enumerate(zip(own, token_ids, strict=False)) if a != b),
                min(len(own), len(token_ids)),
            )
        while len(own) > same:
            self._pop()
        for token_id in token_ids[same:]:
            self._append(token_id)

    def find(self, key: tuple[int, ...]) -> int | None:
        return self._following.get(key)

    def copy_from(self, start: int, limit: int, *, wrap: bool) -> tuple[int, ...]:
        """`limit` tokens from `start`; at the end of the text `wrap` goes on into the copy."""
        if not wrap:
            return tuple(self.token_ids[start : start + limit])
        copy: list[int] = []
        for position in range(start, start + limit):
            beyond = position - len(self.token_ids)
            copy.append(self.token_ids[position] if beyond < 0 else copy[beyond])
        return tuple(copy)

    def _append(self, token_id: int) -> None:
        position = len(self.token_ids)
        replaced = []
        for size in _SIZES:
            if position >= size:
                key = tuple(self.token_ids[position - size :])
                replaced.append((key, self._following.get(key)))
                self._following[key] = position
        self._replaced.append(replaced)
        self.token_ids.append(token_id)

    def _pop(self) -> None:
        self.token_ids.pop()
        for key, before in self._replaced.pop():
            if before is None:
                del self._following[key]
            else:
                self._following[key] = before


def _match_length(found: Sequence[int], end: int, token_ids: Sequence[int]) -> int:
    """How many tokens before `found[end]` equal the end of `token_ids`, at most 32."""
    length = 0
    limit = min(end, len(token_ids), _MAX_STRENGTH)
    while length < limit and found[end - 1 - length] == token_ids[-1 - length]:
        length += 1
    return length
