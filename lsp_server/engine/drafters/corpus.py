"""Drafts from what else this session has seen: other files, closed ones, accepted completions.

Method: SuffixDecoding (Oliaro et al. 2024, arXiv 2411.04975): of the matches of each length the
most frequent continuation is followed, and the candidate with the highest sum of probabilities
wins. Instead of a suffix tree an n-gram index a file, so that a change costs one file, and at most
32 matches a draft, so that a draft costs about a tenth of a millisecond.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Iterator, Sequence

from lsp_server.cancellation import CancelToken
from lsp_server.engine.drafters.ngrams import MAX_MATCH, TOKENS_PER_MATCH, NgramIndex, hash_word
from lsp_server.engine.types import Draft

MIN_PROB = 0.1
_SIZES = (4, 2)
_MAX_MATCHES = 32
_MAX_TEXTS = 64
_BLOCK = 1024
"""Tokens of accepted completions that are kept, and forgotten, as one text."""
_SEPARATOR = -1
"""Between two accepted completions; no token has this id."""

Match = tuple[list[int], int]
"""A text and the position behind what matched."""


class SessionCorpus:
    """Texts as token ids, each indexed by itself, so that no match spans two of them.

    All documents share it. About 50 bytes a token; used by one thread.
    """

    def __init__(self, max_tokens: int = 200_000) -> None:
        """Beyond `max_tokens` (or 64 texts) the least recently changed ones are forgotten."""
        self._max_tokens = max_tokens
        self._max_text = max_tokens // 4
        self._texts: OrderedDict[str | int, NgramIndex] = OrderedDict()
        """File key or number of a block of accepted completions -> its index, oldest first."""
        self._block = 0
        self.num_tokens = 0

    def put(self, key: str, token_ids: Sequence[int]) -> None:
        """Make `token_ids` what is known of `key`, as the newest text.

        Of a text longer than a quarter of the corpus only the beginning is kept, which bounds the
        time of this call: some 2 ms a 20,000 tokens, less where the text was here before and has
        changed towards its end.
        """
        self._put(key, token_ids)

    def remove(self, key: str) -> None:
        """Forget a file, where it is known."""
        index = self._texts.pop(key, None)
        if index is not None:
            self.num_tokens -= len(index.token_ids)

    def accept(self, token_ids: Sequence[int]) -> None:
        """Add a completion that the user took."""
        if not token_ids:
            return
        block = self._texts.get(self._block)
        room = min(_BLOCK, self._max_text)
        if block is None or len(block.token_ids) + 1 + len(token_ids) > room:
            self._block += 1
            self._put(self._block, token_ids)
        else:
            self._put(self._block, [*block.token_ids, _SEPARATOR, *token_ids])

    def matches(self, key: list[int], without: str | None = None) -> Iterator[Match]:
        """Where `key` (2 or 4 tokens) occurs in other texts than `without`, most recent first."""
        size, word = len(key), hash_word(key)
        for name, index in reversed(self._texts.items()):
            if index.may_have(size, word) and name != without:
                for position in index.following(key):
                    if index.token_ids[position] != _SEPARATOR:
                        yield index.token_ids, position

    def _put(self, key: str | int, token_ids: Sequence[int]) -> None:
        index = self._texts.pop(key, None) or NgramIndex(_SIZES)
        self.num_tokens -= len(index.token_ids)
        index.update(token_ids[: self._max_text])
        if not index.token_ids:
            return
        self._texts[key] = index
        self.num_tokens += len(index.token_ids)
        while self.num_tokens > self._max_tokens or len(self._texts) > _MAX_TEXTS:
            _, oldest = self._texts.popitem(last=False)
            self.num_tokens -= len(oldest.token_ids)


class CorpusDrafter:
    """One document's view of the corpus: everything but the document itself, which lookup has."""

    name = "corpus"

    def __init__(self, corpus: SessionCorpus, own_key: str) -> None:
        self._corpus = corpus
        self._own_key = own_key

    def propose(
        self, token_ids: Sequence[int], limit: int, cancel: CancelToken | None = None
    ) -> Draft:
        """The most frequent continuation of the best match: of 4 trailing tokens or more, else of
        2 or 3, among the 32 most recent ones; its strength is the length of the match."""
        context = list(token_ids[-MAX_MATCH:])
        for size in _SIZES:
            if limit < 1 or len(context) < size:
                continue
            found = self._corpus.matches(context[-size:], self._own_key)
            matches = list(itertools.islice(found, _MAX_MATCHES))
            if matches:
                strength, drafted = _best(_by_length(context, matches, size), limit)
                return Draft(tuple(drafted), self.name, strength=strength)
        return Draft((), self.name)


def _by_length(
    context: list[int], matches: list[Match], size: int
) -> list[tuple[int, list[Match]]]:
    """(match length, the matches at least that long), ascending, once for each set of matches."""
    levels = [(size, matches)]
    for length in range(size + 1, len(context) + 1):
        wanted = context[-length]
        longer = [(t, end) for t, end in matches if end >= length and t[end - length] == wanted]
        if not longer:
            break
        if len(longer) == len(matches):
            levels.pop()
        levels.append((length, longer))
        matches = longer
    return levels


def _best(levels: list[tuple[int, list[Match]]], limit: int) -> tuple[int, list[int]]:
    """(match length, tokens) of the highest score; the longer match among equals.

    A candidate's score is at most its length, so shorter matches are tried only while they can win.
    """
    best_score, best = 0.0, (0, list[int]())
    for length, matches in reversed(levels):
        num_tokens = min(limit, int(length * TOKENS_PER_MATCH))
        if num_tokens <= best_score:
            break
        score, drafted = _most_frequent(matches, num_tokens)
        if score > best_score:
            best_score, best = score, (length, drafted)
    return best


def _most_frequent(matches: list[Match], num_tokens: int) -> tuple[float, list[int]]:
    """(sum of the probabilities, tokens): step by step what most matches go on with, the most
    recent among equals, until the path's probability falls below MIN_PROB."""
    drafted: list[int] = []
    score, prob = 0.0, 1.0
    for step in range(num_tokens):
        counts: dict[int, int] = {}
        for text, end in matches:
            token = text[end + step] if end + step < len(text) else _SEPARATOR
            counts[token] = counts.get(token, 0) + 1
        counts.pop(_SEPARATOR, None)
        if not counts:
            break
        best = max(counts, key=counts.__getitem__)  # the first of equals: the most recent
        prob *= counts[best] / len(matches)
        if prob < MIN_PROB:
            break
        drafted.append(best)
        score += prob
        matches = [(t, end) for t, end in matches if end + step < len(t) and t[end + step] == best]
    return score, drafted
