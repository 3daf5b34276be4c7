"""Lookup drafts: the longest, most recent match, against a reference that searches everything."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.engine.drafters.prompt_lookup import PromptLookup

SIZES = (5, 4, 3, 2)
UNBOUNDED = 99
"""An offset that lets a copy run to the limit, whatever its match."""


def reference(text: Sequence[int], suffix: Sequence[int], limit: int, offset: int = 0) -> list[int]:
    """The policy in its plainest form: O(length) for each size."""
    for size in SIZES:
        key = list(text[-size:])
        if len(key) < size:
            continue
        for source, wraps in ((list(text), True), (list(suffix), False)):
            ends = [e for e in range(size, len(source)) if source[e - size : e] == key]
            if not ends:
                continue
            matched = size
            while matched < min(ends[-1], len(text), 32):
                if source[ends[-1] - matched - 1] != text[-matched - 1]:
                    break
                matched += 1
            length = min(limit, matched * 3 // 2 + offset)
            if wraps:
                for _ in range(length + 2):
                    source.append(source[ends[-1] + len(source) - len(text)])
                copy = source[len(text) :]
            else:
                copy = source[ends[-1] :][: length + 2]
            return copy[: min(length, before_rejoin(list(text), copy, list(suffix)))]
    return []


def before_rejoin(text: list[int], copy: list[int], suffix: list[int]) -> int:
    """Tokens of `copy` before the first place where the suffix's first three begin; a place in the
    text counts if all of the text from there on is the suffix's."""
    if len(suffix) < 3:
        return len(copy)
    whole = text + copy
    for start in range(max(0, len(text) - 32), len(whole) - 2):
        inside = text[start:] == suffix[: len(text[start:])]
        if whole[start : start + 3] == suffix[:3] and inside:
            return max(0, start - len(text))
    return len(copy)


def propose(
    text: Sequence[int], limit: int, suffix: Sequence[int] = (), offset: int = UNBOUNDED
) -> tuple[int, ...]:
    lookup = PromptLookup(offset=offset)
    lookup.set_suffix(suffix)
    return lookup.propose(text, limit).token_ids


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ([1, 2, 7, 1, 2, 8, 1, 2], 1, (8,)),
        ([4, 4, 4], 1, (4,)),
        ([4, 4], 1, ()),
        ([1, 2, 1, 2], 9, (1, 2, 1, 2, 1, 2, 1, 2, 1)),
        ([1, 2, 3, 8, 2, 3, 4, 8, 3, 4, 5, 8, 1, 2], 3, (3, 8, 2)),
        ([1, 2, 3, 4, 1, 2, 3], 3, (4, 1, 2)),
        ([1, 2, 3, 100, 1, 2, 3, 200, 1, 2, 3, 300, 1, 2, 3], 2, (300, 1)),
        ([2, 3, 4, 5, 1, 2, 3, 4, 1, 2, 3, 4], 2, (1, 2)),
        ([1, 2, 3], 4, ()),
        ([], 4, ()),
        ([7], 4, ()),
    ],
)
def test_the_published_examples_under_the_most_recent_policy(text, limit, expected):
    assert propose(text, limit) == expected
    assert tuple(reference(text, (), limit, UNBOUNDED)) == expected


def test_a_longer_match_beats_a_more_recent_shorter_one():
    assert propose([1, 2, 3, 9, 2, 3, 8, 1, 2, 3], 1) == (9,)


def test_the_most_recent_of_equal_matches_wins():
    assert propose([1, 2, 9, 1, 2, 8, 1, 2], 1) == (8,)


def test_the_end_of_the_text_never_matches_itself():
    assert propose([5, 6, 7, 1, 2, 3], 4) == ()


def test_a_limit_of_zero_gives_nothing_and_still_learns_the_text():
    lookup = PromptLookup()
    assert lookup.propose([1, 2, 9, 1, 2], 0).token_ids == ()
    assert lookup.propose([1, 2, 9, 1, 2], 2).token_ids == (9, 1)


def test_a_lookup_does_not_change_the_index():
    lookup = PromptLookup()
    text = [1, 2, 1, 2]
    first = lookup.propose(text, 9)
    assert [lookup.propose(text, 9) for _ in range(3)] == [first] * 3


def test_a_drafted_token_is_never_indexed():
    lookup = PromptLookup()
    assert lookup.propose([1, 2, 3, 1, 2], 8).token_ids[:2] == (3, 1)
    # The target said otherwise; the loop that the draft went on in must not be found again.
    assert lookup.propose([1, 2, 3, 1, 2, 4, 3, 1], 1).token_ids == (2,)
    assert lookup.propose([1, 2, 3, 1, 2, 4, 3, 1, 2], 1).token_ids == (4,)


def test_the_text_after_the_cursor_is_searched_when_the_text_before_has_nothing():
    assert propose([7, 8], 3, suffix=[1, 7, 8, 9, 10]) == (9, 10)


def test_the_text_before_the_cursor_wins_among_equally_long_matches():
    assert propose([7, 8, 1, 7, 8], 1, suffix=[7, 8, 2]) == (1,)


def test_a_longer_match_after_the_cursor_wins():
    assert propose([7, 8, 1, 6, 7, 8], 1, suffix=[5, 6, 7, 8, 2]) == (2,)


def test_no_match_spans_the_cursor():
    # Written as one text, 2 3 would be followed by 4.
    assert propose([2, 3, 1, 2], 2, suffix=[3, 4]) == ()
    assert propose([9, 1, 2, 3], 2, suffix=[2, 4, 2]) == ()


def test_a_copy_stops_at_the_end_of_the_suffix():
    assert propose([7, 8], 8, suffix=[5, 7, 8, 9]) == (9,)


def test_replacing_the_suffix_forgets_the_old_one():
    lookup = PromptLookup()
    lookup.set_suffix([7, 8, 9])
    lookup.set_suffix([1])
    assert lookup.propose([7, 8], 3).token_ids == ()


@pytest.mark.parametrize(
    ("matched", "drafted"), [(2, 3), (3, 4), (4, 6), (5, 7), (8, 12), (12, 18), (16, 24), (40, 48)]
)
def test_the_draft_grows_with_the_match(matched, drafted):
    text = [*range(1, matched + 1), *range(100, 200), *range(1, matched + 1)]
    assert propose(text, 99, offset=0) == tuple(range(100, 100 + drafted))
    assert propose(text, 99, offset=2) == tuple(range(100, 102 + drafted))
    assert propose(text, 2, offset=0) == (100, 101)


@pytest.mark.parametrize("limit", [3, 4, 5, 6, 9])
def test_a_copy_stops_where_it_reaches_the_text_after_the_cursor(limit):
    # The drafted text 1 2 3 is missing at the cursor, 4 5 6 stands there.
    assert propose([8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9], limit, suffix=[4, 5, 6]) == (1, 2, 3)


@pytest.mark.parametrize(("suffix"), [[4, 5], [4, 5, 9], [5, 4, 6], [], [9, 4, 5, 6]])
def test_a_copy_goes_on_where_it_agrees_with_less_than_three_tokens_after_the_cursor(suffix):
    assert propose([8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9], 6, suffix=suffix) == (1, 2, 3, 4, 5, 6)


def test_a_copy_of_the_text_after_the_cursor_stops_at_its_beginning_too():
    assert propose([8, 9], 6, suffix=[4, 5, 6, 8, 9, 1, 4, 5, 6]) == (1,)


@pytest.mark.parametrize("written", [1, 2, 3, 4, 8])
def test_nothing_is_drafted_once_the_output_has_reached_the_text_after_the_cursor(written):
    body = [*range(1, 20)]
    text = [*body, 50, *body[: 4 + written]]
    assert propose(text, 6, suffix=body[4:]) == ()
    assert propose(text, 6, suffix=[60, *body[4:]]) != ()


@pytest.mark.parametrize(
    ("text", "strength"),
    [
        ([1, 2, 9, 1, 2], 2),
        ([1, 2, 3, 4, 5, 6, 7, 9, 1, 2, 3, 4, 5, 6, 7], 7),
        ([*range(40), 99, *range(40)], 32),
        ([1, 1, 1, 1], 3),
    ],
)
def test_strength_is_the_length_of_the_whole_match(text, strength):
    assert PromptLookup().propose(text, 1).strength == strength


@pytest.mark.parametrize("alphabet", [2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_after_any_sequence_of_changes_the_index_is_that_of_a_fresh_one(alphabet, seed):
    rng = random.Random(f"{seed} {alphabet}")
    kept, text, suffix = PromptLookup(), [], []
    for _ in range(512):
        match rng.randrange(6):
            case 0 | 1 | 2:
                text += rng.choices(range(alphabet), k=rng.randint(1, 4))
            case 3:
                del text[rng.randint(0, len(text)) :]
            case 4 if text:
                text[rng.randrange(len(text))] = rng.randrange(alphabet)
            case 5:
                suffix = rng.choices(range(alphabet), k=rng.randint(0, 12))
                kept.set_suffix(suffix)
        if len(text) > 60:
            del text[rng.randint(0, 60) :]
        limit = rng.randint(0, 9)
        fresh = PromptLookup()
        fresh.set_suffix(suffix)
        draft = kept.propose(text, limit)
        assert draft == fresh.propose(text, limit)
        assert list(draft.token_ids) == (reference(text, suffix, limit) if limit else [])


@given(
    st.lists(st.integers(0, 2), max_size=30),
    st.lists(st.integers(0, 2), max_size=12),
    st.integers(1, 9),
    st.sampled_from([0, 1, UNBOUNDED]),
)
def test_it_proposes_what_a_full_search_finds(text, suffix, limit, offset):
    found = propose(text, limit, suffix, offset)
    assert list(found) == reference(text, suffix, limit, offset)


@given(st.lists(st.integers(0, 2), max_size=30), st.integers(0, 9))
def test_every_proposed_token_lies_behind_a_match_in_the_text(text, limit):
    draft = PromptLookup().propose(tuple(text), limit)
    assert len(draft.token_ids) in (0, min(limit, draft.strength * 3 // 2))
    assert draft.draft_probs is None
    assert set(draft.token_ids) <= set(text)
