"""Token healing: the text right before the cursor is generated again, with what follows it.

A prompt that ends in the middle of a word ends in a token that the model has hardly seen there
(`ret`, where the text it learned from has `return`). The last tokens are left out of the prompt,
and the target's distribution is narrowed to tokens that agree with the bytes they stood for: that
extend them, or are a beginning of them. What is generated has exactly the target's law under that
condition at each step, with drafts as without. Method: token healing (Lundberg 2023, The Art of
Prompt Design: Prompt Boundaries and Token Healing).
"""

from __future__ import annotations

import bisect
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAX_KEPT = 64
"""Sets of ids that are kept: as many as the places where a user now types."""


class ByteIndex:
    """A vocabulary by the bytes of its tokens.

    >>> index = ByteIndex([b"a", b"b", b"ab", b"abc", b""])
    >>> index.agreeing(b"ab").tolist()
    [0, 2, 3]
    """

    def __init__(self, token_bytes: Sequence[bytes]) -> None:
        """`token_bytes`: by id; a token without any, such as the end of text, agrees with nothing.

        Takes some 30 ms for 50,000 tokens.
        """
        self.token_bytes = token_bytes
        pairs = sorted((text, token_id) for token_id, text in enumerate(token_bytes) if text)
        self._texts = [text for text, _ in pairs]
        self._ids = [token_id for _, token_id in pairs]
        self._kept: OrderedDict[bytes, NDArray[np.intp]] = OrderedDict()

    def agreeing(self, text: bytes) -> NDArray[np.intp]:
        """Ascending ids of the tokens that begin with `text` or are a beginning of it; `text` is
        not empty."""
        found = self._kept.pop(text, None)
        if found is None:
            ids = self._range(text)
            for length in range(1, len(text)):
                ids += self._equal(text[:length])
            found = np.array(sorted(ids), np.intp)
        self._kept[text] = found
        if len(self._kept) > _MAX_KEPT:
            self._kept.popitem(last=False)
        return found

    def _range(self, text: bytes) -> list[int]:
        begin = bisect.bisect_left(self._texts, text)
        end = begin
        while end < len(self._texts) and self._texts[end].startswith(text):
            end += 1
        return self._ids[begin:end]

    def _equal(self, text: bytes) -> list[int]:
        begin = bisect.bisect_left(self._texts, text)
        end = begin
        while end < len(self._texts) and self._texts[end] == text:
            end += 1
        return self._ids[begin:end]


class Healing:
    """Constraint protocol: the generation begins with `text`."""

    def __init__(self, index: ByteIndex, text: bytes) -> None:
        """Where no token agrees with all that is left of `text`, all are allowed: that is so only
        for bytes that the vocabulary cannot write."""
        self._index = index
        self._text = text

    def allowed(self, new_ids: Sequence[int]) -> NDArray[np.intp] | None:
        position = 0
        for token_id in new_ids:
            if position >= len(self._text):
                return None
            position += len(self._index.token_bytes[token_id])
        left = self._text[position:]
        if not left:
            return None
        ids = self._index.agreeing(left)
        return ids if len(ids) else None
