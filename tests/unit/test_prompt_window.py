"""The prompt: within its budget, still between keystrokes, the same for every line end."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsp_server.completion import Snapshot
from lsp_server.prompt.window import (
    ANCHOR_STEPS,
    DRAFT_CHARACTERS,
    Around,
    estimate_tokens,
    line_start,
    near_prefix,
    near_suffix,
    suffix_window,
    window_start,
)

LINES = "".join(f"    total_{n} = compute(values[{n}], {n * 7})\n" for n in range(400))
texts = st.text("ab (\n\t漢é😀", max_size=300)


def around(text, offset):
    return Around.of(Snapshot("file:///a.py", 1, "python", text), offset)


def prefix_at(text, offset, budget=100, count=estimate_tokens):
    return near_prefix(around(text, offset).before, budget, count)


@given(before=texts, after=texts, line_end=st.sampled_from(["\r\n", "\r"]))
def test_line_ends_make_no_difference(before, after, line_end):
    here = before.replace("\n", line_end)
    there = after.replace("\n", line_end)
    assert around(here + there, len(here)) == around(before + after, len(before))


@given(before=texts, after=texts)
def test_the_text_around_the_cursor_is_the_documents(before, after):
    assert around(before + after, len(before)) == Around(before, after)


def test_a_cursor_inside_a_line_end_stands_before_it():
    text = "a = 1\r\nb"
    assert around(text, 6) == around(text, 5) == Around("a = 1", "\nb")


@given(text=st.text("ab (\n漢é😀", max_size=3000), budget=st.integers(200, 400))
@settings(max_examples=50, deadline=None)
def test_the_window_fits_into_its_budget(text, budget):
    prefix = prefix_at(text, len(text), budget)
    assert text.endswith(prefix)
    assert estimate_tokens(prefix) <= budget


@pytest.mark.parametrize(
    ("text", "least"), [(LINES, 0.5), (LINES.replace("\n", " "), 0.5), ("漢字仮名" * 2000, 0.4)]
)
def test_most_of_the_budget_is_used(text, least):
    """Also where a line is longer than the window and where a character is several tokens."""
    prefix = prefix_at(text, len(text), 1024)
    assert 1024 * least <= estimate_tokens(prefix) <= 1024


def test_the_window_begins_with_a_whole_line():
    prefix = prefix_at(LINES, len(LINES), 500)
    assert LINES.endswith("\n" + prefix)


def test_the_window_rests_between_keystrokes():
    """Each move costs a prefill of the whole window, so it may move once per step only."""
    starts = [
        window_start(LINES[:end], 500, estimate_tokens)
        for end in range(len(LINES) - 3000, len(LINES))
    ]
    assert starts == sorted(starts)
    assert len(set(starts)) <= 3000 // ANCHOR_STEPS[1] + 2, "the first step would leave too little"


def test_no_cut_before_a_combining_mark():
    text = "e\u0301" * 5000
    for end in range(len(text) - 200, len(text), 7):
        prefix = text[:end]
        start = window_start(prefix, 300, estimate_tokens)
        assert not unicodedata.combining(prefix[start])


def test_counting_is_rare():
    """A tokenizer takes milliseconds for a window; the window must not cost a dozen of them."""
    calls = []

    def count(text):
        calls.append(len(text))
        return estimate_tokens(text)

    window_start(LINES, 1024, count)
    assert len(calls) <= 4
    assert max(calls) <= 4 * 1024 + ANCHOR_STEPS[0]


def test_a_small_document_is_taken_whole():
    assert prefix_at("a = 1\nb = 2", 11) == "a = 1\nb = 2"


# The cursor's line


@given(before=texts)
def test_the_cursors_line_begins_behind_a_line_end(before):
    start = line_start(before)
    assert "\n" not in before[start:]
    assert start == 0 or before[start - 1] == "\n"


def test_a_long_line_is_begun_anew_in_steps():
    text = "x = [" + "1, " * 1000
    starts = [line_start(text[:end]) for end in range(len(text))]
    assert len(set(starts)) <= len(text) // ANCHOR_STEPS[0] + 1
    assert all(end - start < ANCHOR_STEPS[0] for end, start in enumerate(starts))


# The text after the cursor


@given(after=st.text("ab\n\r漢\u0301", max_size=200), repeat=st.integers(1, 60))
def test_the_suffix_is_a_bounded_beginning_of_the_text_after(after, repeat):
    text = around(after * repeat, 0).after
    window = suffix_window(text)
    assert len(window) <= DRAFT_CHARACTERS
    assert text.startswith(window)
    assert text[len(window) : len(window) + 1] != "\u0301" or not window


def test_a_cut_suffix_ends_with_its_line():
    assert suffix_window(LINES).endswith("\n")
    assert len(suffix_window("x" * 9000)) == DRAFT_CHARACTERS


@given(after=st.text("ab )(\n漢\u0301", max_size=900), budget=st.integers(0, 200))
def test_what_the_model_is_told_of_the_suffix_fits_and_is_text_of_it(after, budget):
    told = near_suffix(after, budget)
    assert estimate_tokens(told) <= budget or not told
    assert told in after


def test_most_of_the_suffix_budget_is_used():
    assert 100 <= estimate_tokens(near_suffix(LINES, 128)) <= 128
    assert near_suffix(LINES, 128).endswith("\n")


@pytest.mark.parametrize("rest", ["", ")", '")', "]);", " }"])
def test_what_closes_the_cursors_line_does_not_change_the_suffix(rest):
    """Brackets that close by themselves come and go; a suffix that stands first would be read anew
    each time."""
    assert near_suffix(rest + "\nnext(line)\n", 50) == "\nnext(line)\n"


def test_other_text_behind_the_cursor_is_told():
    assert near_suffix(", other)\nnext\n", 50) == ", other)\nnext\n"
