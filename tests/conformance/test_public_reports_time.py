"""Reported faults: stale answers, races, and text that is known already. Numbers: `reports/`."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.lsp_client import at
from tests.scripted_product import directed, edit, shown

COMPLETE = "textDocument/inlineCompletion"


@pytest.fixture
def server():
    with directed() as (client, model):
        yield client, model


# Stale places.


@pytest.mark.parametrize("line", [1, 2, 5, 2**31 - 1])
def test_33_a_request_below_the_last_line_is_no_error(server, line):
    client, model = server
    model.text = "1"
    editor = edit(client, "a = 1⏎b =·║")
    assert editor.ask() is not None
    editor.replace(5, len(editor.text), "")
    assert client.complete(editor.uri, line, 4) == {"items": []}
    assert editor.ask() is not None, "the server lives on"


def test_33_a_request_in_a_document_that_was_emptied_is_no_error(server):
    client, model = server
    model.text = "1"
    editor = edit(client, "a = 1⏎b =·║")
    editor.replace(0, len(editor.text), "")
    assert client.complete(editor.uri, 1, 4) == {"items": []}
    assert shown(editor.ask()) == "1"


# Stale texts.


@pytest.mark.parametrize(
    ("place", "inserted"),
    [
        ("below", "⏎b = 3"),
        ("below", "⏎"),
        ("on the line", "; c"),
        ("above", "import os⏎"),
    ],
)
def test_34_a_text_is_not_shown_again_once_what_surrounds_it_has_changed(server, place, inserted):
    client, model = server
    model.text = "old()"
    editor = edit(client, "x = 0⏎a =·║⏎z = 1")
    assert shown(editor.ask()) == "old()"
    model.text = "new()"
    cursor = editor.cursor
    where = {"above": 0, "on the line": cursor, "below": len(editor.text)}[place]
    editor.replace(where, where, inserted.replace("⏎", "\n"))
    editor.cursor = cursor + (len(inserted) if place == "above" else 0)
    assert shown(editor.ask(kind=1)) == "new()"


def test_34_a_text_is_not_shown_in_another_document_of_the_same_beginning(server):
    client, model = server
    model.text = "old()"
    assert shown(edit(client, "a =·║⏎b", "file:///a").ask()) == "old()"
    model.text = "new()"
    assert shown(edit(client, "a =·║⏎c", "file:///b").ask()) == "new()"


# Races.


def test_36_an_answer_for_a_place_that_was_left_is_dropped(server):
    client, model = server
    model.text, model.is_held = "1", True
    editor = edit(client, "p =·║⏎q =·⏎r")
    first = client.start(COMPLETE, at(editor.uri, 0, 4))
    assert model.pieces.get(timeout=20)
    second = client.start(COMPLETE, at(editor.uri, 1, 4))
    client.explain(editor.uri)  # the server has read the second request
    model.release(9)
    assert client.response(first)["result"] is None
    (item,) = client.response(second)["result"]["items"]
    assert item["range"]["start"] == {"line": 1, "character": 4}


@pytest.mark.parametrize("what", ["edit", "close", "open"])
def test_36_an_answer_for_a_text_that_is_gone_is_dropped(server, what):
    client, model = server
    model.text, model.is_held = "1", True
    editor = edit(client, "p =·║⏎q =·")
    request = client.start(COMPLETE, at(editor.uri, 0, 4))
    assert model.pieces.get(timeout=20)
    if what == "edit":
        editor.replace(len(editor.text), len(editor.text), "2")
    else:
        editor.close()
    if what == "open":
        client.open(editor.uri, "another text")
    client.explain(editor.uri)  # the server has read what came before
    model.release(9)
    assert client.response(request)["result"] is None


# Text that is known already.


def test_12_accepted_code_is_not_offered_again_at_the_same_place(server):
    client, model = server
    model.text = "x = 1"
    editor = edit(client, "║")
    assert editor.accept(editor.ask()) == "x = 1"
    assert editor.ask() is None
    editor.enter()
    assert editor.ask() is None
    assert editor.reason() == "repetition"


def test_37_what_is_typed_of_a_shown_text_is_taken_from_it(server):
    client, model = server
    model.text = "return total"
    editor = edit(client, "def f():⏎····║⏎")
    assert shown(editor.ask()) == "return total"
    model.text = "another()"
    for typed, left in (("re", "turn total"), ("turn", " total"), (" tot", "al")):
        editor.type(typed)
        assert shown(editor.ask()) == left
    assert len(model.requests) == 1, "the model was asked once only"


@settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=st.from_regex(r"[a-z(][a-z ()=.é👍]{0,12}[a-z)]", fullmatch=True), data=st.data())
def test_37_any_beginning_of_a_shown_text_may_be_typed(server, text, data):
    client, model = server
    model.text = f" {text}"
    editor = edit(client, "a =║⏎b = 1")
    whole = shown(editor.ask())
    model.text = "another()"
    num_typed = data.draw(st.integers(0, len(whole) - 1))
    editor.type(whole[:num_typed])
    item = editor.ask()
    assert editor.accept(item) == f"a ={whole}\nb = 1"
    editor.close()


def test_37_a_text_comes_back_when_what_was_typed_of_it_is_deleted(server):
    client, model = server
    model.text = "return total"
    editor = edit(client, "def f():⏎····║⏎")
    assert shown(editor.ask()) == "return total"
    model.text = "another()"
    editor.type("ret")
    editor.backspace(3)
    assert shown(editor.ask()) == "return total"
    assert len(model.requests) == 1


def test_37_a_text_is_gone_once_something_else_is_typed(server):
    client, model = server
    model.text = "return total"
    editor = edit(client, "def f():⏎····║⏎")
    assert shown(editor.ask()) == "return total"
    model.text = "x = 1"
    editor.type("if ")
    assert shown(editor.ask()) == "x = 1"


def test_15_a_shown_block_goes_on_behind_a_new_line(server):
    client, model = server
    model.text = "⏎····b = 2⏎····c = 3".replace("⏎", "\n").replace("·", " ")
    editor = edit(client, "def f():⏎····a = 1║")
    assert shown(editor.ask()) == "\n    b = 2\n    c = 3"
    model.text = "another()"
    editor.enter("    ")
    assert shown(editor.ask()) == "b = 2\n    c = 3"
    assert len(model.requests) == 1


@pytest.mark.parametrize("indent", ["", "\t"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_15_a_shown_block_goes_on_whatever_blanks_the_editor_sets(server, indent, line_end):
    client, model = server
    model.text = "\n\tb()\n\tc()"
    editor = edit(client, "func f() {⏎→a()║", line_end=line_end)
    whole = editor.text + shown(editor.ask()).replace("\n", line_end)
    model.text = "another()"
    editor.enter(indent)
    assert editor.accept(editor.ask()) == whole
    assert len(model.requests) == 1


@pytest.mark.parametrize("num_left", [1, 2, 5])
def test_40_a_shown_text_is_gone_when_the_cursor_moves_left(server, num_left):
    client, model = server
    model.text = "old()"
    editor = edit(client, "total =·║⏎")
    assert shown(editor.ask()) == "old()"
    model.text = "new()"
    editor.cursor -= num_left
    assert shown(editor.ask()) != "old()"


def test_40_a_shown_text_is_gone_on_another_line_of_the_same_beginning(server):
    client, model = server
    model.text = "old()"
    editor = edit(client, "a =·║⏎a =·⏎")
    assert shown(editor.ask()) == "old()"
    model.text = "new()"
    editor.cursor = len("a = \na = ")
    assert shown(editor.ask()) == "new()"
