"""What is left of an insertion: accepted now it gives what the whole gave, accepted then."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.answering.remainder import Insertion, remainder
from tests.marks import unmark

PIECES = st.sampled_from(["a", "b", "x", " ", "    ", "\n", "\t", "(", ")", '"', "]", "é", "👍"])
TEXTS = st.lists(PIECES, max_size=6).map("".join)
LINES = TEXTS.map(lambda text: text.replace("\n", ""))
"""What an insertion replaces is on the cursor's line."""


@st.composite
def insertions(draw):
    left, right, text = draw(LINES), draw(LINES), draw(TEXTS)
    num_left, num_right = draw(st.integers(0, len(left))), draw(st.integers(0, len(right)))
    return Insertion(text, num_left, num_right), (left, right)


def accepted(insertion: Insertion, around: tuple[str, str]) -> str:
    before, after = around
    kept = before[: len(before) - insertion.num_left]
    return kept + insertion.text + after[insertion.num_right :]


@given(insertions(), st.data())
def test_a_beginning_that_is_typed_leaves_the_rest(case, data):
    insertion, (left, right) = case
    num_typed = data.draw(st.integers(0, len(insertion.text)))
    typed, rest = insertion.text[:num_typed], insertion.text[num_typed:]
    now = (left[: len(left) - insertion.num_left] + typed, right)
    found = remainder(insertion, (left, right), now)
    if rest.strip() and rest != right[: insertion.num_right]:
        assert found == Insertion(rest, 0, insertion.num_right)
    else:
        assert found is None


@given(insertions(), TEXTS, TEXTS)
def test_whatever_was_typed_the_document_becomes_that_of_the_whole(case, before, after):
    insertion, then = case
    found = remainder(insertion, then, (before, after))
    if found is not None:
        assert accepted(found, (before, after)) == accepted(insertion, then)


@given(insertions(), st.data())
def test_near_misses_too_become_that_of_the_whole_or_nothing(case, data):
    """Closers behind the cursor and indentation, as editors set them by themselves."""
    insertion, (left, right) = case
    whole = left[: len(left) - insertion.num_left] + insertion.text
    before = whole[: data.draw(st.integers(0, len(whole)))]
    if before.endswith("\n"):
        before += data.draw(st.sampled_from(["", " ", "    ", "\t", "        "]))
    closed = data.draw(st.text(')]"', max_size=2))
    after = closed + right[data.draw(st.integers(0, insertion.num_right)) :]
    found = remainder(insertion, (left, right), (before, after))
    if found is not None:
        assert accepted(found, (before, after)) == accepted(insertion, (left, right))
        taken_back = before[len(before) - found.num_left :]
        assert before == left or not taken_back.strip(), "only blanks are taken back"


CASES = {
    # name: (left, right, text, num_left, num_right), (before, after), (text, num_left, num_right)
    "a bracket that the editor closes": (
        ("", "", "(a, b)", 0, 0), ("(", ")"), ("a, b)", 0, 1)
    ),
    "a quote inside it": (("", "", '("a")', 0, 0), ('("', '")'), ('a")', 0, 2)),
    "a closer that is typed over": (
        ("", '");', 'n=%d", n);', 0, 3), ('n=%d"', ");"), (", n);", 0, 2)
    ),
    "a new line with more indentation": (
        ("", "", "⏎return x", 0, 0), ("⏎····", ""), ("return x", 4, 0)
    ),
    "a new line with more indentation than the text has": (
        ("", "", "⏎····x", 0, 0), ("⏎········", ""), ("x", 4, 0)
    ),
    "a new line with less indentation": (
        ("", "", "⏎····return x", 0, 0), ("⏎··", ""), ("··return x", 0, 0)
    ),
    "a blank line whose text asks for less": (
        ("········", "", "····return c", 8, 0), ("········", ""), ("····return c", 8, 0)
    ),
    "the same with its blanks deleted": (
        ("········", "", "····return c", 8, 0), ("····", ""), ("return c", 0, 0)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_editors_do_by_themselves_is_understood(name):
    (left, right, text, *replaced), (before, after), (rest, *covered) = CASES[name]
    insertion = Insertion(unmark(text), *replaced)
    found = remainder(insertion, (unmark(left), right), (unmark(before), after))
    assert found == Insertion(unmark(rest), *covered)


NOTHING = {
    "something else is typed": (("", "", "return", 0, 0), ("rex", "")),
    "all of it is typed": (("", "", "return", 0, 0), ("return", "")),
    "more than all of it is typed": (("", "", "return", 0, 0), ("return x", "")),
    "only blanks are missing": (("", "x", "a  ", 0, 0), ("a", "x")),
    "only the closer is missing, and there": (("", "", "f(a)", 0, 0), ("f(a", ")")),
    "a bracket is closed that the text leaves open": (("", "", "(a,", 0, 0), ("(", ")")),
    "text stands behind the cursor": (("", "", "(a)", 0, 0), ("(", "b)")),
    "what it replaces is gone and was not typed": (("", ")", "a, b)", 0, 1), ("a", "")),
    "text before the cursor was deleted": (("ab", "", "c", 0, 0), ("a", "")),
    "the new line has other blanks": (("", "", "⏎→x", 0, 0), ("⏎··", "")),
}


@pytest.mark.parametrize("name", NOTHING)
def test_where_it_is_not_known_what_is_missing_nothing_is(name):
    (left, right, text, *replaced), (before, after) = NOTHING[name]
    insertion = Insertion(unmark(text), *replaced)
    assert remainder(insertion, (left, right), (unmark(before), after)) is None
