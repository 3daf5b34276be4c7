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
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAX_KEPT = 64
"""Sets of ids that are kept: as many as the places where a user now types."""
_MAX_CUT_TOKENS, _MAX_CUT_BYTES = 3, 16
"""Of a text that is generated again: what a word is cut into that ends too soon. To cut more would
only take time."""


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
        self._single_bytes = frozenset(text for text in self._texts if len(text) == 1)
        self._kept: OrderedDict[bytes, NDArray[np.intp]] = OrderedDict()

    def agreeing(self, text: bytes) -> NDArray[np.intp]:
        """Ascending ids of the tokens that begin with `text` or are a beginning of it; `text` is
        not empty."""
        found = self._kept.pop(text, None)
        if found is None:
            ids = self._ids_while(text, lambda own: own.startswith(text))
            for length in range(1, len(text)):
                ids += self._ids_while(text[:length], text[:length].__eq__)
            found = np.array(sorted(ids), np.intp)
        self._kept[text] = found
        if len(self._kept) > _MAX_KEPT:
            self._kept.popitem(last=False)
        return found

    def num_to_cut(self, token_ids: Sequence[int]) -> int:
        """How many tokens at the end of a text may have to be others once the text goes on: those
        that some token begins with and is longer than, all of them together.

        >>> index = ByteIndex([b"a", b"b", b"c", b"abc"])
        >>> index.num_to_cut([2, 0, 1]), index.num_to_cut([0, 2])
        (2, 0)

        Of a text with a byte that no token stands for alone nothing is cut: there may be no way to
        write it but the one it was written in.
        """
        num_cut, text = 0, b""
        for count, token_id in enumerate(reversed(token_ids[-_MAX_CUT_TOKENS:]), start=1):
            own = self.token_bytes[token_id]
            text = own + text
            if not own or len(text) > _MAX_CUT_BYTES or not self._can_write(text):
                break
            num_cut = count if self._is_extended(text) else num_cut
        return num_cut

    def _can_write(self, text: bytes) -> bool:
        return all(text[i : i + 1] in self._single_bytes for i in range(len(text)))

    def _is_extended(self, text: bytes) -> bool:
        following = bisect.bisect_right(self._texts, text)
        return following < len(self._texts) and self._texts[following].startswith(text)

    def _ids_while(self, text: bytes, wanted: Callable[[bytes], bool]) -> list[int]:
        """In the order of the bytes, from `text` on as long as they are `wanted`."""
        begin = bisect.bisect_left(self._texts, text)
        texts = map(self._texts.__getitem__, range(begin, len(self._texts)))
        length = sum(1 for _ in takewhile(wanted, texts))
        return self._ids[begin : begin + length]


class Healing:
    """Constraint protocol: the generation begins with `text`, or with `instead` if given."""

    def __init__(
        self,
        index: ByteIndex,
        text: bytes,
        instead: bytes = b"",
        begun_ids: Sequence[int] = (),
    ) -> None:
        """`text` and `instead` differ in their first byte; `begun_ids` are tokens at the end of the
        prompt that belong to the generation already.

        Where no token agrees with all that is left, all are allowed: that is so only for bytes that
        the vocabulary cannot write, of which `ByteIndex.num_to_cut` cuts none.
        """
        self._index = index
        self._texts = (text, instead) if instead else (text,)
        self._begun_ids = tuple(begun_ids)

    def allowed(self, new_ids: Sequence[int]) -> NDArray[np.intp] | None:
        begun = self._begun(new_ids)
        left = [text[len(begun) :] for text in self._texts if text.startswith(begun)]
        if not left or not all(left):
            return None
        found = np.concatenate([self._index.agreeing(text) for text in left])
        return np.sort(found) if len(found) else None

    def _begun(self, new_ids: Sequence[int]) -> bytes:
        """As much of the generation as there may be something to say about."""
        begun, enough = b"", max(map(len, self._texts))
        for token_id in (*self._begun_ids, *new_ids):
            if len(begun) >= enough:
                break
            begun += self._index.token_bytes[token_id]
        return begun
