"""The n-gram index against a full search, however its text came to be."""

from __future__ import annotations

import random
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.engine.drafters import ngrams
from lsp_server.engine.drafters.ngrams import MAX_MATCH, NgramIndex
from lsp_server.engine.prefix import common_prefix

SIZES = (2, 3, 5)
TOKENS = st.lists(st.sampled_from([-1, 0, 1, 2, 151_935]), max_size=40)


def reference(text: list[int], key: list[int]) -> list[int]:
    size = len(key)
    return [e for e in range(len(text) - 1, size - 1, -1) if text[e - size : e] == key]


def built(text: list[int]) -> NgramIndex:
    """All at once, however short the text."""
    index = NgramIndex(SIZES)
    with mock.patch.object(ngrams, "_FEW", -1):
        index.update(text)
    return index


def appended(text: list[int]) -> NgramIndex:
    index = NgramIndex(SIZES)
    for end in range(len(text) + 1):
        index.update(text[:end])
    return index


def answers(index: NgramIndex) -> list[list[int]]:
    """What the index says of every n-gram of its text, the last ones included."""
    text = index.token_ids
    return [
        list(index.following(text[end - size : end]))
        for size in SIZES
        for end in range(size, len(text) + 1)
    ]


@given(TOKENS, st.sampled_from([built, appended]), st.data())
def test_it_finds_what_a_full_search_finds_most_recent_first(text, make, data):
    index = make(text)
    for size in SIZES:
        key = data.draw(st.lists(st.sampled_from([-1, 0, 1]), min_size=size, max_size=size))
        assert list(index.following(key)) == reference(text, key)
    for size in SIZES:
        for end in range(size, len(text) + 1):
            key = text[end - size : end]
            assert list(index.following(key)) == reference(text, key)


@given(st.lists(TOKENS, max_size=6))
def test_any_sequence_of_texts_leaves_the_index_of_the_last_one(texts):
    index = NgramIndex(SIZES)
    for text in texts:
        index.update(text)
        assert index.token_ids == text
        assert answers(index) == answers(built(text))


@pytest.mark.parametrize("seed", range(3))
def test_growing_far_beyond_the_first_table_and_shrinking_changes_no_answer(seed):
    rng = random.Random(seed)
    index, text = NgramIndex(SIZES), []
    longest = 0
    for _ in range(60):
        if rng.random() < 0.8:
            text = text + rng.choices(range(6), k=rng.randint(1, 60))
        else:
            text = text[: len(text) - rng.randint(0, min(60, len(text)))]
        index.update(text)
        longest = max(longest, len(text))
        ends = rng.choices(range(5, len(text) + 1), k=5) if len(text) > 5 else []
        for end in ends:
            for size in SIZES:
                key = text[end - size : end]
                assert list(index.following(key)) == reference(text, key)
    assert longest > 600


def test_a_long_text_is_built_as_it_is_appended():
    rng = random.Random(0)
    text = rng.choices(range(40), k=70_000)  # buckets of more than sixteen bits
    index = built(text)
    for size in SIZES:
        for end in rng.choices(range(size, len(text)), k=5):
            key = text[end - size : end]
            assert list(index.following(key)) == reference(text, key)
    grown = [*text[:-3], *text[5:60]]
    index.update(grown)
    key = grown[-2:]
    assert list(index.following(key)) == reference(grown, key)


@given(TOKENS, TOKENS)
def test_the_match_is_as_long_as_both_agree(text, context):
    index = built(text)
    for position in range(len(text) + 1):
        expected = 0
        while expected < min(position, len(context), MAX_MATCH) and (
            text[position - expected - 1] == context[len(context) - expected - 1]
        ):
            expected += 1
        assert index.match_length(position, context) == expected


@given(st.integers(0, 600), TOKENS, TOKENS)
def test_the_common_prefix_is_the_longest_one(num_shared, left, right):
    left, right = [*range(num_shared), *left], [*range(num_shared), *right]
    length = common_prefix(left, tuple(right))
    assert length >= num_shared
    assert left[:length] == right[:length]
    assert length == min(len(left), len(right)) or left[length] != right[length]
