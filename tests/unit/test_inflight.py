"""Whether a generation under way may still be the answer where the user has got to."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.answering.inflight import Flight, Stream, agree
from lsp_server.answering.spot import Spot
from lsp_server.cancellation import CancelToken
from lsp_server.completion import Mode, Selected
from tests.marks import request_at

TEXT = st.text(alphabet="ab (\n", max_size=8)


def flight_at(marked: str, raw: str = "", **options) -> Flight:
    flight = Flight(Spot(request_at(marked, **options)))
    flight.stream.arrived(raw, CancelToken())
    return flight


def serves(flight: Flight, marked: str, **options) -> bool:
    return flight.serves(Spot(request_at(marked, **options)))


@pytest.mark.parametrize("raw", ["", "  ", "tot", "total(x)", " total"])
def test_it_is_kept_while_what_is_typed_may_come_true(raw):
    flight = flight_at("a =·║⏎b", raw)
    for typed in ("", "t", "to", "tot"):
        assert serves(flight, f"a =·{typed}║⏎b")


def test_it_is_kept_when_the_editor_closes_a_bracket():
    assert serves(flight_at("f║⏎b", "(a, b)"), "f(║)⏎b")


@pytest.mark.parametrize("raw", ["x", "ta", " x"])
def test_it_is_of_no_use_once_it_writes_something_else(raw):
    assert not serves(flight_at("a =·║⏎b", raw), "a =·to║⏎b")


@pytest.mark.parametrize("elsewhere", ["a =·║⏎c", "A =·t║⏎b", "a =║·⏎b", "a =·t║u⏎b", "║", "a║⏎b"])
def test_it_is_of_no_use_elsewhere(elsewhere):
    assert not serves(flight_at("a =·║⏎b"), elsewhere)


def test_it_is_of_no_use_for_another_question():
    assert not serves(flight_at("a =·║"), "a =·║", mode=Mode.LINE)
    assert not serves(flight_at("a =·║"), "a =·║", invoked=True)
    assert serves(flight_at("a =·║", invoked=True, num_items=3), "a =·║")


def test_a_page_that_was_pasted_does_not_wait():
    assert not serves(flight_at("a =·║"), "a =·" + "x" * 2000 + "║")


def test_an_edited_document_is_looked_at_without_knowing_the_cursor():
    flight = flight_at("a =·║⏎b", "tot")
    assert flight.foretells("a = to\nb")
    assert flight.foretells("a = \nb")
    for other in ("a = x\nb", "a = to\nc", "", "b", "\nb"):
        assert not flight.foretells(other)


def test_an_accepted_entry_is_what_was_foretold():
    asked = replace(request_at("x.he║⏎"), selected=Selected(2, 4, "heading"))
    flight = Flight(Spot(asked))
    assert flight.foretells("x.heading\n")
    assert flight.foretells("x.heading(\n")
    assert not flight.foretells("x.height\n")


@given(TEXT, TEXT)
def test_agreement_ends_for_good_where_the_letters_part(raw, typed):
    letters, wanted = raw.replace(" ", "").replace("\n", ""), typed.translate({32: "", 10: ""})
    parted = any(a != b for a, b in zip(letters, wanted, strict=False))
    assert agree(raw, typed) is not parted


@given(TEXT, TEXT)
def test_one_of_both_sides_sees_the_difference_whoever_comes_last(raw, typed):
    text_last, typed_last = Stream(), Stream()
    cancel = CancelToken()
    text_last.expect(typed)
    text_last.arrived(raw, cancel)
    typed_last.arrived(raw, CancelToken())
    assert typed_last.expect(typed) is not cancel.cancelled
    assert cancel.reason in (None, "superseded")
