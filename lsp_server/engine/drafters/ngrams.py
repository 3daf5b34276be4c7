"""Where the last few tokens occurred before: hash chains over a text that grows and shrinks.

Method: the chained hash table of deflate (Deutsch 1996, RFC 1951, section 4), one for each n: a
bucket names its most recent position, and each position the one before it. Taking a position back
restores its bucket, so an edit costs what it changes. `bench round` measures it; a suffix automaton
built 13 times slower in 10 times the memory, and cannot be shortened.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

import numpy as np

from lsp_server.engine.prefix import common_prefix

MAX_MATCH = 32
"""Match lengths are counted up to here: nothing tells longer ones apart."""
TOKENS_PER_MATCH = 1.5
"""A copy is this many times as long as its match. Where the drafts of the default model's own
greedy code end by this rule, a fifth of them still came true (matches of 2 to 8; more above)."""

_FACTOR = 0x9E3779B1
_WORD = 0xFFFFFFFF
"""Hashing modulo 2^32 by the golden ratio, so that near ids differ in their upper bits (Knuth,
The Art of Computer Programming, 6.4)."""
_MIN_BITS = 8
_FEW = 64
"""So many changed tokens are always taken one by one, and a 16th of a larger text is too: one
token costs as much as building 16."""


def hash_word(key: Sequence[int]) -> int:
    """32 bits, of which the upper ones name a bucket."""
    word = 0
    for token_id in reversed(key):
        word = (word + token_id) * _FACTOR & _WORD
    return word


class NgramIndex:
    """n-gram -> the positions that follow it, most recent first.

    A position enters when its own token is known, so the end of the text never matches itself.
    Answers depend on the text alone, not on how it came to be.

    >>> index = NgramIndex((2,))
    >>> index.update([1, 2, 7, 1, 2, 8, 1, 2])
    >>> list(index.following([1, 2]))
    [5, 2]
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        """`sizes`: each n that will be asked for."""
        self._sizes = tuple(sorted(sizes))
        self.token_ids: list[int] = []
        self._build()

    def update(self, token_ids: Sequence[int]) -> None:
        """Make this the index of `token_ids`; few changes at the end cost only themselves."""
        new = list(token_ids)
        same = common_prefix(self.token_ids, new)
        num_changed = len(self.token_ids) + len(new) - 2 * same
        if len(new) > self._capacity or num_changed > max(_FEW, len(new) // 16):
            self.token_ids = new
            self._build()
            return
        while len(self.token_ids) > same:
            self._pop()
        for token_id in new[same:]:
            self._append(token_id)
        self.token_ids = new  # the caller's own integers compare by identity the next time

    def may_have(self, size: int, word: int) -> bool:
        """False if no n-gram of this size and `hash_word` occurs: a quick look before a search."""
        return self._heads[size][word >> self._shift] != 0

    def following(self, key: list[int]) -> Iterator[int]:
        """Positions behind an occurrence of `key`, most recent first; its length is in `sizes`."""
        size, token_ids = len(key), self.token_ids
        position = self._heads[size][hash_word(key) >> self._shift]
        chain = self._chains[size]
        while position:
            if token_ids[position - size : position] == key:
                yield position
            position = chain[position]

    def match_length(self, position: int, token_ids: Sequence[int]) -> int:
        """How many tokens before `position` equal the end of `token_ids`, at most MAX_MATCH."""
        own, length = self.token_ids, 0
        limit = min(position, len(token_ids), MAX_MATCH)
        while length < limit and own[position - 1 - length] == token_ids[-1 - length]:
            length += 1
        return length

    def _append(self, token_id: int) -> None:
        position = len(self.token_ids)
        for size, bucket in self._buckets(position):
            heads = self._heads[size]
            self._chains[size].append(heads[bucket])
            heads[bucket] = position
        self.token_ids.append(token_id)

    def _pop(self) -> None:
        self.token_ids.pop()
        for size, bucket in self._buckets(len(self.token_ids)):
            self._heads[size][bucket] = self._chains[size].pop()

    def _buckets(self, position: int) -> list[tuple[int, int]]:
        """(size, bucket) of the n-grams that end before `position`."""
        found, word, length = [], 0, 0
        for size in self._sizes:
            if size > position:
                break
            while length < size:
                length += 1
                word = (word + self.token_ids[position - length]) * _FACTOR & _WORD
            found.append((size, word >> self._shift))
        return found

    def _build(self) -> None:
        """All chains at once: positions sorted by bucket, each behind the one before it."""
        num_tokens = len(self.token_ids)
        bits = max(_MIN_BITS, (2 * num_tokens - 1).bit_length())
        self._shift, self._capacity = 32 - bits, 2 << bits
        self._heads: dict[int, array[int]] = {}
        self._chains: dict[int, array[int]] = {}
        tokens = np.array(self.token_ids, np.int64).astype(np.uint32)
        for size in self._sizes:
            words = np.zeros(max(0, num_tokens - size), np.uint32)
            for start in reversed(range(size)):
                words += tokens[start : start + len(words)]
                words *= np.uint32(_FACTOR)
            heads = np.zeros(1 << bits, np.int32)
            chain = np.zeros(size + len(words), np.int32)
            # Sixteen bits are sorted by radix, many times faster than by comparison.
            buckets = (words >> self._shift).astype(np.uint16 if bits <= 16 else np.uint32)
            order = np.argsort(buckets, kind="stable")
            positions, buckets = order + size, buckets[order]
            same = buckets[1:] == buckets[:-1]
            chain[positions[1:][same]] = positions[:-1][same]
            last = np.append(~same, True)[: len(positions)]
            heads[buckets[last]] = positions[last]
            self._heads[size] = array("i", heads.tobytes())
            self._chains[size] = array("i", chain.tobytes())
