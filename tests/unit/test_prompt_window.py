"""The prompt: within its budget, still between keystrokes, the same for every line end."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsp_server.completion import Snapshot
from lsp_server.prompt import (
    SUFFIX_CHARACTERS,
    build_prompt,
    estimate_tokens,
    suffix_window,
    window_start,
)

LINES = "".join(f"    total_{n} = compute(values[{n}], {n * 7})\n" for n in range(400))
texts = st.text("ab (\n\t漢é😀", max_size=300)


def snapshot(text):
    return Snapshot("file:///a.py", 1, "python", text)


def prompt_at(text, offset, budget=100, count=estimate_tokens):
    return build_prompt(snapshot(text), offset, budget, count)


@given(before=texts, after=texts, line_end=st.sampled_from(["\r\n", "\r"]))
def test_line_ends_make_no_difference(before, after, line_end):
    here = before.replace("\n", line_end)
    there = after.replace("\n", line_end)
    assert prompt_at(here + there, len(here)) == prompt_at(before + after, len(before))


def test_a_cursor_inside_a_line_end_stands_before_it():
    text = "a = 1\r\nb"
    assert prompt_at(text, 6) == prompt_at(text, 5)


@given(text=st.text("ab (\n漢é😀", max_size=3000), budget=st.integers(200, 400))
@settings(max_examples=50, deadline=None)
def test_the_window_fits_into_its_budget(text, budget):
    prefix = prompt_at(text, len(text), budget).prefix
    assert text.endswith(prefix) or text[:-1].endswith(prefix)
    assert estimate_tokens(prefix) <= budget


@pytest.mark.parametrize(
    ("text", "least"), [(LINES, 0.5), (LINES.replace("\n", " "), 0.5), ("漢字仮名" * 2000, 0.4)]
)
def test_most_of_the_budget_is_used(text, least):
    """Also where a line is longer than the window and where a character is several tokens."""
    prefix = prompt_at(text, len(text), 1024).prefix
    assert 1024 * least <= estimate_tokens(prefix) <= 1024


def test_the_window_begins_with_a_whole_line():
    prefix = prompt_at(LINES, len(LINES), 500).prefix
    assert LINES.endswith("\n" + prefix)


def test_the_window_rests_between_keystrokes():
    """Each move costs a prefill of the whole window, so it may move once per step only."""
    starts = [
        window_start(LINES[:end], 500, estimate_tokens)
        for end in range(len(LINES) - 3000, len(LINES))
    ]
    assert starts == sorted(starts)
    assert len(set(starts)) <= 3000 // 512 + 2


def test_the_window_does_not_depend_on_what_was_asked_before():
    one = prompt_at(LINES, 9000, 500)
    prompt_at(LINES, 12000, 500)
    assert prompt_at(LINES, 9000, 500) == one


def test_no_cut_before_a_combining_mark():
    text = "e\u0301" * 5000
    for end in range(len(text) - 200, len(text), 7):
        prefix = text[:end]
        start = window_start(prefix, 300, estimate_tokens)
        assert not unicodedata.combining(prefix[start])


def test_only_the_last_blank_is_left_out():
    """Indentation of four and a word are three blanks and a token that begins with the fourth."""
    for text, kept in [
        ("def f():\n    ", "def f():\n   "),
        ("x = ", "x ="),
        ("func f() {\n\t\t", "func f() {\n\t"),
        ("x = 1\n", "x = 1\n"),
        ("x", "x"),
        (" ", ""),
        ("", ""),
    ]:
        assert prompt_at(text, len(text)).prefix == kept


def test_counting_is_rare():
    """A tokenizer takes milliseconds for a window; the window must not cost a dozen of them."""
    calls = []

    def count(text):
        calls.append(len(text))
        return estimate_tokens(text)

    window_start(LINES, 1024, count)
    assert len(calls) <= 4
    assert max(calls) <= 4 * 1024 + 512


def test_a_small_document_is_taken_whole():
    assert prompt_at("a = 1\nb = 2", 11).prefix == "a = 1\nb = 2"


@given(after=st.text("ab\n\r漢", max_size=200), repeat=st.integers(1, 60))
def test_the_suffix_is_a_bounded_beginning_of_the_text_after(after, repeat):
    text = after * repeat
    window = suffix_window(text)
    assert len(window) <= SUFFIX_CHARACTERS
    assert text.replace("\r\n", "\n").replace("\r", "\n").startswith(window)


def test_a_cut_suffix_ends_with_its_line():
    assert suffix_window(LINES).endswith("\n")
    assert len(suffix_window("x" * 9000)) == SUFFIX_CHARACTERS
