"""What is shown of a raw text: golden cases, and the properties they are examples of."""

from __future__ import annotations

import tomllib
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.completion import Mode, Reason
from lsp_server.postprocess import STEPS, Dropped, Edit, postprocess, suffix
from lsp_server.postprocess.suffix import cover_rest
from lsp_server.text.brackets import imbalance
from lsp_server.text.place import Place
from tests.marks import accepted, ask, unmark

CASES = [
    case
    for path in sorted((Path(__file__).parent / "cases").glob("*.toml"))
    for case in tomllib.loads(path.read_text("utf-8"))["case"]
]
OPTIONS = ("language", "invoked", "tab_size", "insert_spaces")

words = st.text("ab_1 ,", max_size=8)
code = st.text('ab (){}[]";,:.=\n\t', max_size=40)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_golden_case(case):
    options = {key: case[key] for key in OPTIONS if key in case}
    mode = Mode(case.get("mode", "auto"))
    result = ask(case["doc"], case["model"], mode=mode, prose=True, **options)
    if "reason" in case:
        assert (result.reason, result.text) == (Reason(case["reason"]), "")
    else:
        assert result.reason is None
        assert accepted(case["doc"], result) == unmark(case["result"])


def test_names_of_cases_are_unique():
    assert len({case["name"] for case in CASES}) == len(CASES)


@given(before=code, after=code, raw=code)
def test_an_edit_stays_on_its_line_and_has_text(before, after, raw):
    place = Place.at(before + after, len(before))
    outcome = postprocess(raw, place)
    if isinstance(outcome, Dropped):
        return
    assert outcome.text.strip()
    assert not outcome.text.endswith("\n")
    assert 0 <= outcome.num_left <= len(place.line_before)
    assert 0 <= outcome.num_right <= len(place.rest)
    assert not place.line_before[len(place.line_before) - outcome.num_left :].strip()


@given(text=code.map(lambda text: text.replace("\n", "")), rest=st.text('ab ()";,:', max_size=8))
def test_nothing_of_the_rest_is_lost(text, rest):
    """Every character of the rest that the range covers is in the text, in order."""
    edit, place = Edit(text), Place("x = ", rest, (), (), at_end=False)
    outcome = cover_rest(edit, place)
    with mock.patch.object(suffix, "_is_broken", return_value=False):
        of_any_version = cover_rest(edit, place)
    if isinstance(of_any_version, Dropped):
        assert _is_subsequence(text.strip(), rest) or not text.strip()
        assert isinstance(outcome, Dropped)
    for kept in (outcome, of_any_version):
        if isinstance(kept, Edit):
            left = kept.text + rest.rstrip()[kept.num_right :]
            assert _is_subsequence(_dense(rest), _dense(left))
    if isinstance(outcome, Dropped) and isinstance(of_any_version, Edit):
        assert not set(rest).isdisjoint('ab"'), "only words and strings have other versions"


@given(new=words.filter(str.strip), rest=st.sampled_from([")", "))", ");", '"', '");', "]) + b"]))
def test_a_rest_that_the_text_ends_with_is_never_there_twice(new, rest):
    before = {")": "f(", "))": "f(g(", ");": "f(", '"': 'a = "', '");': 'f("'}.get(rest, "f([")
    outcome = cover_rest(Edit(new + rest), Place(before, rest, (), (), at_end=False))
    assert isinstance(outcome, Edit)
    assert before + outcome.text + rest[outcome.num_right :] == before + new + rest


@given(before=words, new=words.filter(str.strip), rest=st.text("()[]{}", max_size=6))
def test_covering_the_rest_never_unbalances_a_line(before, new, rest):
    outcome = cover_rest(Edit(new), Place(before, rest, (), (), at_end=False))
    if isinstance(outcome, Edit):
        line = before + outcome.text + rest[outcome.num_right :]
        assert imbalance(line) <= imbalance(before + new + rest)


@given(before=code, after=code, raw=code)
def test_steps_never_add_text(before, after, raw):
    """Each step only cuts; of the model's text nothing but blanks is changed."""
    place = Place.at(before + after, len(before))
    edit = Edit(raw)
    for step in STEPS:
        outcome = step(edit, place)
        if isinstance(outcome, Dropped):
            return
        assert _dense(outcome.text) in _dense(edit.text)
        edit = outcome


def _dense(text):
    return "".join(text.split())


def _is_subsequence(part, whole):
    remaining = iter(whole)
    return all(character in remaining for character in part)
