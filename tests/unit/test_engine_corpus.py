"""The session corpus: whose text is drafted from, how the draft is chosen, what is forgotten."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsp_server.engine.drafters.corpus import CorpusDrafter, SessionCorpus

KEYS = ("a", "b", "own")


class Reference:
    """The policy in its plainest form: lists, searched from end to end."""

    def __init__(self, max_tokens: int) -> None:
        self.max_tokens = max_tokens
        self.texts: list[tuple[object, list[list[int]]]] = []
        """Oldest first: key and pieces that no match may span."""
        self.block = 0

    def put(self, key: object, *pieces: list[int]) -> None:
        self.texts = [text for text in self.texts if text[0] != key]
        if any(pieces):
            self.texts.append((key, list(pieces)))
        while self.num_tokens > self.max_tokens or len(self.texts) > 64:
            del self.texts[0]

    def accept(self, piece: list[int]) -> None:
        block = dict(self.texts).get(self.block)
        if block is None or sum(len(p) + 1 for p in block) + len(piece) > self.max_tokens // 4:
            self.block += 1
            block = []
        self.put(self.block, *block, piece)

    @property
    def num_tokens(self) -> int:
        """With one separator between two pieces."""
        return sum(sum(map(len, pieces)) + len(pieces) - 1 for _, pieces in self.texts)

    def propose(self, context: list[int], limit: int, own: str) -> tuple[int, tuple[int, ...]]:
        for size in (4, 2):
            if len(context) < size:
                continue
            found = [
                (piece, end)
                for key, pieces in reversed(self.texts)
                if key != own
                for piece in reversed(pieces)
                for end in range(len(piece) - 1, size - 1, -1)
                if piece[end - size : end] == context[-size:]
            ][:32]
            if found:
                return self.best(context, found, limit, size)
        return 0, ()

    def best(self, context, found, limit, size) -> tuple[int, tuple[int, ...]]:
        best, best_score = (0, ()), 0.0
        for length in range(min(len(context), 32), size - 1, -1):
            matches = [
                (piece, end)
                for piece, end in found
                if end >= length and piece[end - length : end] == context[-length:]
            ]
            score, tokens = (
                self.follow(matches, min(limit, length * 3 // 2)) if matches else (0, ())
            )
            if score > best_score:
                best, best_score = (length, tokens), score
        return best

    def follow(self, matches, num_tokens) -> tuple[float, tuple[int, ...]]:
        path: tuple[int, ...] = ()
        score, prob = 0.0, 1.0
        while len(path) < num_tokens:
            here = [m for m in matches if tuple(m[0][m[1] :][: len(path)]) == path]
            next_tokens = [p[end + len(path)] for p, end in here if end + len(path) < len(p)]
            if not next_tokens:
                break
            best = max(next_tokens, key=next_tokens.count)  # the first of equals
            prob *= next_tokens.count(best) / len(here)
            if prob < 0.1:
                break
            path, score = (*path, best), score + prob
        return score, path


def drafted(corpus: SessionCorpus, context: list[int], limit: int = 99, own: str = "own"):
    return CorpusDrafter(corpus, own).propose(context, limit).token_ids


def of(**texts: list[int]) -> SessionCorpus:
    corpus = SessionCorpus()
    for key, text in texts.items():
        corpus.put(key, text)
    return corpus


TEXT = st.lists(st.integers(0, 2), max_size=24)
CHANGE = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(KEYS), TEXT),
    st.tuples(st.just("remove"), st.sampled_from(KEYS), st.none()),
    st.tuples(st.just("accept"), st.none(), TEXT),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(CHANGE, max_size=12), st.lists(st.tuples(TEXT, st.integers(0, 9)), max_size=4))
def test_after_any_changes_it_proposes_what_a_full_search_finds(changes, questions):
    corpus, reference = SessionCorpus(100), Reference(100)
    drafters = {key: CorpusDrafter(corpus, key) for key in KEYS}
    for kind, key, text in changes:
        match kind:
            case "put":
                corpus.put(key, text)
                reference.put(key, text)
            case "remove":
                corpus.remove(key)
                reference.put(key)
            case "accept" if text:
                corpus.accept(text)
                reference.accept(text)
        assert corpus.num_tokens == reference.num_tokens <= 100
    for (context, limit), own in itertools.product(questions, KEYS):
        draft = drafters[own].propose(context, limit)
        strength, tokens = reference.propose(context, limit, own)
        assert draft.token_ids == (tokens if limit else ())
        assert draft.strength == strength or not tokens
        assert (draft.source, draft.draft_probs, draft.parents) == ("corpus", None, None)


def test_it_drafts_from_other_files_and_never_from_its_own():
    corpus = of(own=[1, 2, 3, 4, 5])
    assert drafted(corpus, [1, 2]) == ()
    assert drafted(corpus, [1, 2], own="b") == (3, 4, 5)


def test_no_match_and_no_draft_spans_two_files():
    corpus = of(a=[7, 1, 2], b=[3, 4, 5])
    assert drafted(corpus, [2, 3]) == ()
    assert drafted(corpus, [7, 1]) == (2,)


def test_no_match_and_no_draft_spans_two_accepted_completions():
    corpus = SessionCorpus()
    corpus.accept([7, 1, 2])
    corpus.accept([3, 4, 5])
    assert drafted(corpus, [2, 3]) == ()
    assert drafted(corpus, [7, 1]) == (2,)
    assert drafted(corpus, [1, 2]) == ()
    assert drafted(corpus, [3, 4]) == (5,)


def test_a_changed_file_is_known_as_it_is_now():
    corpus = of(a=[1, 2, 3])
    corpus.put("a", [1, 2, 4])
    assert drafted(corpus, [1, 2]) == (4,)
    corpus.put("a", [])
    assert drafted(corpus, [1, 2]) == ()
    assert corpus.num_tokens == 0


def test_a_removed_file_is_forgotten_and_an_unknown_one_ignored():
    corpus = of(a=[1, 2, 3], b=[1, 2, 4])
    corpus.remove("b")
    corpus.remove("never there")
    assert drafted(corpus, [1, 2]) == (3,)
    assert corpus.num_tokens == 3


def test_the_most_frequent_continuation_wins():
    assert drafted(of(a=[1, 2, 3, 9], b=[1, 2, 3, 9], c=[1, 2, 4, 9]), [1, 2], 1) == (3,)


def test_the_most_recently_changed_wins_among_equally_frequent_ones():
    corpus = of(a=[1, 2, 3], b=[1, 2, 4])
    assert drafted(corpus, [1, 2], 1) == (4,)
    corpus.put("a", [1, 2, 3])
    assert drafted(corpus, [1, 2], 1) == (3,)
    corpus.accept([1, 2, 5])
    assert drafted(corpus, [1, 2], 1) == (5,)


def test_a_longer_match_wins_while_its_continuation_is_as_sure():
    corpus = of(a=[7, 1, 2, 3, 9], b=[1, 2, 4, 9], c=[1, 2, 4, 9])
    assert drafted(corpus, [7, 1, 2], 2) == (3, 9)
    assert drafted(corpus, [8, 1, 2], 2) == (4, 9)


def test_a_sure_short_match_beats_a_longer_one_of_many_minds():
    many_minds = [token for i in range(5) for token in (6, 1, 2, 3, 4, 20 + i, 0)]
    sure = [token for _ in range(20) for token in (1, 2, 3, 4, 30, 31, 32)]
    corpus = of(a=sure, b=many_minds)
    draft = CorpusDrafter(corpus, "own").propose([6, 1, 2, 3, 4], 3)
    assert draft.token_ids == (30, 31, 32)
    assert draft.strength == 4


def test_a_draft_ends_where_its_path_becomes_improbable():
    # Each step halves: 1/2, 1/4, 1/8, and 1/16 is too little.
    texts = {f"{bits}": [1, 2, 3, 4, *bits, 9] for bits in itertools.product((5, 6), repeat=4)}
    assert len(drafted(of(**texts), [1, 2, 3, 4], 6)) == 3


@pytest.mark.parametrize(("matched", "length"), [(2, 3), (3, 4), (4, 6), (8, 12)])
def test_the_draft_grows_with_the_match_and_respects_the_limit(matched, length):
    context = list(range(matched))
    corpus = of(a=[*context, *range(100, 150)])
    draft = CorpusDrafter(corpus, "own").propose([99, *context], 40)
    assert draft.token_ids == tuple(range(100, 100 + length))
    assert draft.strength == matched
    assert drafted(corpus, context, 2) == (100, 101)
    assert drafted(corpus, context, 0) == ()


def test_only_the_most_recent_matches_are_read():
    corpus = of(old=[1, 2, 3, 9] * 40, new=[1, 2, 4, 8] * 32)
    assert drafted(corpus, [1, 2], 1) == (4,)


def test_the_oldest_texts_are_forgotten_when_the_memory_is_full():
    corpus = SessionCorpus(100)
    for number in range(1000):
        corpus.put(f"file {number % 37}", [number, number + 1, *range(18)])
        corpus.accept([number, number + 2, 0])
        assert corpus.num_tokens <= 100
    assert drafted(corpus, [999, 1000]) != ()
    assert drafted(corpus, [900, 901]) == ()


def test_what_is_held_does_not_grow_with_what_was_seen():
    corpus = SessionCorpus(10_000)

    def held() -> int:
        return sum(
            len(index.token_ids) + sum(map(len, index._chains.values()))
            for index in corpus._texts.values()
        )

    for number in range(300):
        corpus.put(f"file {number}", range(number % 7, 2500))
        for _ in range(10):
            corpus.accept(range(100))
        assert len(corpus._texts) <= 64
        assert held() <= 3 * 10_000 + 64 * 8


def test_of_a_text_too_large_the_beginning_is_kept():
    corpus = SessionCorpus(100)
    corpus.put("a", range(90))
    assert corpus.num_tokens == 25
    assert drafted(corpus, [21, 22]) == (23, 24)


def test_many_small_texts_are_bounded_too():
    corpus = SessionCorpus()
    for number in range(100):
        corpus.put(f"file {number}", [number, 1, 2])
    assert drafted(corpus, [35, 1]) == ()
    assert drafted(corpus, [36, 1]) == (2,)
