"""How much a chunk of one text has to do with a place in another: the words that they share.

A request looks its words up and touches only the chunks that have one of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from lsp_server.context.chunks import Chunk

DEFINES = 3.0
"""What a chunk gains for defining a word that is used, besides having it."""
_LEAST_WORDS = 20
"""A chunk of few words is no better for having little else."""
_LEAST_CHUNKS = 50
"""With less to compare with, what is rare is not known."""
_MOST = 0.2
"""Of all chunks; a word that more of them have tells nothing."""

_VAGUE = 0.2
"""Of DEFINES, for a name such as `add` in a file that has nothing else to do with the place."""

_WORD = re.compile(r"\b(?!__)[^\W\d]\w{2,}")
_TELLING = re.compile(r"\w*[^\W_]_[^\W_]\w*|\w*[a-z][A-Z]\w*|[A-Z]\w{4,}")
"""Names of several words, and names of types."""
_COMMON_WORDS = """
abstract and any args array assert async await bool boolean break case catch char class const
constructor continue def default delete double elif else end enum error except export extends
extern false final finally float for foreach from func function global goto if implements import
include index inline instanceof int interface internal is isinstance key kwargs lambda len let
list long match mut namespace new nil none not null number object operator override package pass
print private protected pub public raise range require return self set short signed sizeof
static str string struct super switch template test then this throw throws trait true try type
typedef typename typeof undefined union unsigned use using value var virtual void when where
while with yield
"""
_COMMON = frozenset(_COMMON_WORDS.split())
"""In lower case; they say nothing of what a text is about."""


def words_of(text: str) -> set[str]:
    """Names in a text, as they are spelled; what every text has is left out."""
    return {word for word in _WORD.findall(text) if word.lower() not in _COMMON}


@dataclass(frozen=True, slots=True)
class _Entry:
    chunks: tuple[Chunk, ...]
    shares: tuple[float, ...]
    """What a word counts in each chunk: the less the more different ones it has."""
    words: frozenset[str]
    names: frozenset[str]


class Index:
    """The chunks of some files, found by their words."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._having: dict[str, dict[str, tuple[int, ...]]] = {}
        """Word -> file -> its chunks that have the word."""
        self._defining: dict[str, dict[str, tuple[int, ...]]] = {}
        """The same for the chunks that define it."""
        self._num_chunks = 0

    def put(self, key: str, chunks: Sequence[Chunk]) -> None:
        """Make these the chunks of the file `key`."""
        self.remove(key)
        having: dict[str, list[int]] = {}
        defining: dict[str, list[int]] = {}
        shares: list[float] = []
        for number, chunk in enumerate(chunks):
            words = words_of(chunk.text)
            shares.append(1 / math.sqrt(max(_LEAST_WORDS, len(words))))
            for word in words:
                having.setdefault(word, []).append(number)
            for name in words.intersection(chunk.names):
                defining.setdefault(name, []).append(number)
        for word, numbers in having.items():
            self._having.setdefault(word, {})[key] = tuple(numbers)
        for name, numbers in defining.items():
            self._defining.setdefault(name, {})[key] = tuple(numbers)
        self._num_chunks += len(chunks)
        self._entries[key] = _Entry(
            tuple(chunks), tuple(shares), frozenset(having), frozenset(defining)
        )

    def remove(self, key: str) -> None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        self._num_chunks -= len(entry.chunks)
        for table, words in ((self._having, entry.words), (self._defining, entry.names)):
            for word in words:
                del table[word][key]
                if not table[word]:
                    del table[word]

    def texts(self, key: str) -> list[str]:
        """The texts of a file's chunks."""
        return [chunk.text for chunk in self._entries[key].chunks]

    def scores(
        self, query: Mapping[str, float], trusted: Set[str]
    ) -> Iterator[tuple[str, Chunk, float]]:
        """(file, chunk, score) of each chunk that shares a word with `query`, which gives words
        their weights.

        A word counts the more the fewer chunks have it, nothing where very many have, and most in
        the chunks that define it: in `trusted` files always, in others if the name tells enough.
        """
        num_chunks = max(_LEAST_CHUNKS, self._num_chunks)
        found: dict[str, dict[int, float]] = {}
        for word, weight in sorted(query.items()):  # sums of floats depend on their order
            having = self._having.get(word, {})
            num_having = sum(map(len, having.values()))
            if not 0 < num_having <= num_chunks * _MOST:
                continue
            gain = weight * math.log(num_chunks / num_having)
            for key, numbers in having.items():
                row, shares = found.setdefault(key, {}), self._entries[key].shares
                for number in numbers:
                    row[number] = row.get(number, 0.0) + gain * shares[number]
            plain = DEFINES if _TELLING.fullmatch(word) else DEFINES * _VAGUE
            for key, numbers in self._defining.get(word, {}).items():
                for number in numbers:
                    found[key][number] += gain * (DEFINES if key in trusted else plain)
        for key, row in found.items():
            chunks = self._entries[key].chunks
            for number, score in row.items():
                yield key, chunks[number], score
