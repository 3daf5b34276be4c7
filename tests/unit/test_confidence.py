"""How sure a model is of a first line, and who sees it."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.completion import Eagerness, Piece
from lsp_server.generation.confidence import (
    THRESHOLDS,
    WEIGHTS,
    Features,
    confidence,
    confidence_of,
    features_of,
    is_sure,
    most_confident,
)
from tests.marks import place_at

EASY, HARD = -0.01, -6.0
LOG_PROBS = ("total", "mean", "lowest", "first")


def pieces(*texts, log_prob=EASY, margin=4.0):
    return [Piece(text, index, log_prob, margin, 99) for index, text in enumerate(texts)]


def test_features_are_those_of_the_first_line_and_its_end():
    place = place_at("count_of_words = 1⏎x = ║⏎y = count_of_words")
    written = [
        Piece("count", 1, -0.5, 1.0, 9),
        Piece("_of_words", 2, -1.5, 1.0, 9),
        Piece("\n", 3, -1.0, 1.0, 9),
        Piece("z", 4, -20.0, 1.0, 9),
    ]
    found = features_of(written, place)
    assert found == Features(
        total=-3.0,
        mean=-1.0,
        lowest=-1.5,
        first=pytest.approx(-0.3133, abs=1e-4),
        length=pytest.approx(1.0986, abs=1e-4),
        copied=1.0,
        starts_line=0.0,
    )


def test_what_only_repeats_the_text_left_of_the_cursor_is_no_part_of_the_line():
    place = place_at("ret║⏎")
    healed = [Piece("", 7, HARD, 0.0, 9), *pieces("urn x", "\n")]
    assert features_of(healed, place) == features_of(pieces("urn x", "\n"), place)


def test_line_breaks_before_the_first_line_are_its_tokens():
    place = place_at("def f():║⏎")
    assert features_of(pieces("\n", "    return 1", "\n", "x"), place).length == pytest.approx(
        features_of(pieces("    return", " 1", "\n"), place).length
    )


def test_copies_count_by_their_share_of_the_line():
    place = place_at("assert is_even(total_of(a))⏎    ║⏎")
    whole = features_of(pieces("assert is_even(total_of(a))"), place)
    half = features_of(pieces("assert is_even(", "xxxxxxxxxxxxxxx"), place)
    none = features_of(pieces("return None"), place)
    assert (whole.copied, half.copied, none.copied) == (1.0, 0.5, 0.0)
    assert whole.starts_line == 1.0
    on = place_at("assert is_even(total_of(a))⏎assert is_even(║⏎")
    assert features_of(pieces("tota"), on).copied == 1.0


def test_a_script_tells_nothing_and_is_shown():
    place = place_at("x = ║⏎")
    assert confidence_of([Piece("1"), Piece("\n")], place) is None
    assert confidence_of([Piece("1", 1), *pieces("2")], place) is None
    assert confidence_of([], place) is None
    assert confidence_of(pieces("\n", "  "), place) is None
    assert all(is_sure(None, eagerness) for eagerness in Eagerness)


features = st.builds(
    Features,
    total=st.floats(-25, 0),
    mean=st.floats(-8, 0),
    lowest=st.floats(-8, 0),
    first=st.floats(-8, 0),
    length=st.floats(0, 5),
    copied=st.floats(0, 1),
    starts_line=st.sampled_from([0.0, 1.0]),
)


@given(features, st.sampled_from(LOG_PROBS), st.floats(0, 8))
def test_a_likelier_line_is_never_less_sure(found, name, more):
    likelier = replace(found, **{name: getattr(found, name) + more})
    assert confidence(likelier) >= confidence(found)
    assert 0 <= confidence(found) <= 1


def test_every_feature_that_should_never_count_against_a_line_does_not():
    assert all(getattr(WEIGHTS.weights, name) >= 0 for name in LOG_PROBS)
    assert {field.name for field in fields(Features)} >= set(LOG_PROBS)


def test_who_is_eager_sees_all_that_others_see():
    assert list(THRESHOLDS) == list(Eagerness)
    assert 0 < THRESHOLDS[Eagerness.EAGER] < THRESHOLDS[Eagerness.BALANCED]
    assert THRESHOLDS[Eagerness.BALANCED] < THRESHOLDS[Eagerness.QUIET] < 1


@given(log_probs=st.lists(st.floats(-30, 0), min_size=1, max_size=30), margin=st.floats(-30, 30))
def test_any_line_has_a_confidence(log_probs, margin):
    written = [Piece("ab", n, log_prob, margin, 9) for n, log_prob in enumerate(log_probs)]
    assert 0 <= confidence_of(written, place_at("x = ║⏎")) <= 1


WORDS = st.sampled_from(["x", " = ", "total", "\n", "    ", "return self.amounts[name]", "(", ")"])
ROWS = st.lists(st.tuples(WORDS, st.floats(-9, 0), st.floats(0, 12)), min_size=1, max_size=12)


@given(ROWS, st.integers(1, 12))
def test_no_text_is_surer_than_its_beginning_could_have_become(rows, num_seen):
    """So what is given up as hopeless would not have been shown at its end either."""
    place = place_at("total = 1\nreturn self.amounts[name]\n║")
    whole = [Piece(text, 1, log_prob=log_prob, margin=margin) for text, log_prob, margin in rows]
    found = confidence_of(whole, place)
    if found is not None:
        assert found <= most_confident(whole[:num_seen], place, 12) + 1e-9


def test_a_doubtful_beginning_is_hopeless_and_a_likely_one_is_not():
    place = place_at("x = ║")
    doubtful = pieces("total", " = ", log_prob=-6.0, margin=0.1)
    assert not is_sure(most_confident(doubtful, place, 64), Eagerness.BALANCED)
    assert is_sure(most_confident(pieces("total"), place, 64), Eagerness.QUIET)


def test_nothing_is_hopeless_of_which_nothing_is_told():
    place = place_at("x = ║")
    assert most_confident([Piece("total")], place, 64) == 1.0
    assert most_confident([Piece("\n", 1, log_prob=-9.0, margin=0.0)], place, 64) == 1.0
