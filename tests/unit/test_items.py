"""Several items for one place, and silence where the model is not sure of its first."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from lsp_server.cancellation import CancelToken
from lsp_server.completer import complete
from lsp_server.completion import CompletionStats, Eagerness, Piece, Reason, Selected
from lsp_server.errors import InferenceError
from lsp_server.generation.items import MAX_MARGIN, branches
from tests.marks import accepted, request_at, unmark

SURE, TORN, HOPELESS = (-0.02, 5.0), (-0.8, 0.1), (-7.0, 0.1)


@dataclass
class Wavering:
    """A model of one place: what it writes by how it begins, each token with how sure it was.

    Tokens are their texts' places in `words`; each text is `(word, how sure, runner-up)`.
    """

    texts: dict[str, list[tuple[str, tuple[float, float], str]]]
    """Beginning, as one string -> what follows it."""
    words: list[str] = field(default_factory=list)
    requests: list = field(default_factory=list)
    before: object = lambda piece: None

    def token(self, word):
        if word not in self.words:
            self.words.append(word)
        return self.words.index(word)

    def generate(self, request, cancel):
        self.requests.append(request)
        return Generation(self, request, cancel)

    def write(self, request, cancel):
        forced = [self.words[token_id] for token_id in request.forced_ids]
        for word in forced:
            yield Piece(word, self.token(word))
        for word, (log_prob, margin), other in self.texts["".join(forced)]:
            self.before(word)
            cancel.raise_if_cancelled()
            yield Piece(word, self.token(word), log_prob, margin, self.token(other))


class Generation:
    def __init__(self, model, request, cancel):
        self.stats = CompletionStats(passes=1, sources={"lookup": {"proposed": 2, "accepted": 1}})
        self._pieces = model.write(request, cancel)

    def __iter__(self):
        for piece in self._pieces:
            self.stats.tokens += 1
            yield piece


SUM = {
    "": [
        ("total", SURE, "x"),
        ("(", TORN, "["),
        ("a", SURE, "b"),
        (")", (-0.1, 1.0), ","),
        ("\n", SURE, ";"),
    ],
    "total[": [("0", SURE, "1"), ("]", SURE, ","), ("\n", SURE, ";")],
    "total(a,": [(" b", SURE, "c"), (")", SURE, ","), ("\n", SURE, ";")],
}
PLACE = "x = ║⏎y = 1"


def answer(model, marked=PLACE, **options):
    options = {"invoked": True, "num_items": 3, **options}
    request = request_at(marked, **options)
    return complete(request, model, options.get("cancel") or CancelToken(), Clock())


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 0.001
        return self.now


def texts(result):
    return [result.text, *(other.text for other in result.alternatives)]


def test_the_first_item_is_the_greedy_one_and_others_part_where_it_wavered_most():
    model = Wavering(SUM)
    result = answer(model)
    assert texts(result) == ["total(a)", "total[0]", "total(a, b)"]
    assert result.token_ids == tuple(map(model.token, ("total", "(", "a", ")", "\n")))
    forced = [[model.words[i] for i in request.forced_ids] for request in model.requests]
    assert forced == [[], ["total", "["], ["total", "(", "a", ","]]


def test_there_are_as_many_items_as_asked_for_and_while_typing_one():
    assert len(texts(answer(Wavering(SUM), num_items=2))) == 2
    for options in ({"num_items": 1}, {"invoked": False}):
        model = Wavering(SUM)
        assert texts(answer(model, **options)) == ["total(a)"]
        assert len(model.requests) == 1


def test_items_that_come_to_the_same_are_one():
    same = {
        "": [("a", TORN, " a"), (" + b", TORN, " - b"), ("\n", TORN, "  ")],
        " a": [(" + b", SURE, "x"), ("\n", SURE, "x")],
        "a - b": [("\n", SURE, "x")],
        "a + b  ": [("\n", SURE, "x")],
    }
    result = answer(Wavering(same))
    assert texts(result) == ["a + b", "a - b"]


NOTHING_FIRST = {
    "": [("y", TORN, "z"), (" = 1", SURE, "x"), ("\n", SURE, ";")],  # the line below again
    "z": [(" = 2", SURE, "x"), ("\n", SURE, ";")],
}


@pytest.mark.parametrize("num_items", [1, 3])
def test_by_key_another_text_comes_where_nothing_is_left_of_the_greedy_one(num_items):
    model = Wavering(NOTHING_FIRST)
    result = answer(model, "║⏎y = 1", num_items=num_items)
    assert texts(result) == ["z = 2"]
    assert result.token_ids == tuple(map(model.token, ("z", " = 2", "\n")))
    assert result.stats.passes == 2


def test_while_typing_nothing_comes_where_nothing_is_left_of_the_greedy_one():
    result = answer(Wavering(NOTHING_FIRST), "║⏎y = 1", invoked=False)
    assert (result.text, result.reason) == ("", Reason.DUPLICATE_SUFFIX)


def test_nothing_is_begun_with_a_runner_up_that_is_far_behind():
    sure = [Piece("a", 1, -0.1, MAX_MARGIN + 0.1, 2), Piece("b", 3, -0.1, MAX_MARGIN, 4)]
    assert branches(sure) == [(1, 4)]


def test_a_script_and_a_token_without_a_rival_begin_nothing():
    assert branches([Piece("a"), Piece("b", 1), Piece("c", 2, -0.1, 0.0, 2)]) == []


def test_texts_that_part_in_the_first_line_come_first():
    block = [Piece("a", 1, -1, 2.0, 9), Piece("\n", 2, -1, 1.0, 9), Piece("b", 3, -1, 0.1, 9)]
    assert branches(block) == [(1, 9), (9,), (1, 2, 9)]


@pytest.mark.parametrize(("seconds_a_word", "num_items"), [(0.01, 3), (1.0, 2)])
def test_others_may_take_as_long_together_as_the_first(seconds_a_word, num_items):
    """Or at least half a second: their reader waits for the first."""
    clock, more = Clock(), {**SUM, "total(a,": [(" b", SURE, "c")] * 3 + SUM["total(a,"]}
    model = Wavering(more)

    def tick(word):
        clock.now += seconds_a_word

    model.before = tick
    request = request_at(PLACE, invoked=True, num_items=3)
    assert len(texts(complete(request, model, CancelToken(), clock))) == num_items


def test_no_item_comes_after_the_deadline():
    late = Wavering(SUM)
    clock = Clock()

    def tick(word):
        clock.now += 1.0

    late.before = tick
    request = request_at(PLACE, invoked=True, num_items=3, deadline_ms=5500)
    result = complete(request, late, CancelToken(), clock)
    assert texts(result) == ["total(a)"]
    assert len(late.requests) == 2


def test_a_request_that_is_cancelled_between_two_items_still_has_those_it_has():
    model, cancel = Wavering(SUM), CancelToken()
    model.before = lambda word: word == " b" and cancel.cancel("superseded")
    request = request_at(PLACE, invoked=True, num_items=3)
    assert texts(complete(request, model, cancel, Clock())) == ["total(a)", "total[0]"]


def test_an_item_that_cannot_be_written_costs_the_others_nothing():
    model = Wavering(SUM)

    def fail(word):
        if word == "0":
            raise InferenceError("no numbers")

    model.before = fail
    assert texts(answer(model)) == ["total(a)", "total(a, b)"]


def test_each_item_is_processed_and_put_where_it_belongs():
    closing = {
        "": [("a", SURE, "x"), (")", TORN, ", b"), (";", SURE, "x"), ("\n", SURE, "x")],
        "a, b": [(")", SURE, "x"), (";", SURE, "x"), ("\n", SURE, "x")],
    }
    marked = "f(║);⏎y"
    result = answer(Wavering(closing), marked)
    others = result.alternatives
    assert accepted(marked, result) == "f(a);\ny"
    assert [accepted(marked, other) for other in others] == ["f(a, b);\ny"]


def test_items_begin_with_the_chosen_entry():
    selected = Selected(4, 5, "total")
    entry = {
        "": [("(", TORN, "["), ("a)", SURE, "x"), ("\n", SURE, "x")],
        "[": [("0]", SURE, "x"), ("\n", SURE, "x")],
    }
    result = answer(Wavering(entry), "x = t║⏎y", selected=selected)
    assert texts(result) == ["total(a)", "total[0]"]
    assert {(result.start, result.end)} == {(o.start, o.end) for o in result.alternatives}


def test_the_work_for_all_items_is_counted():
    stats = answer(Wavering(SUM)).stats
    assert (stats.tokens, stats.passes) == (5 + 5 + 7, 3)
    assert stats.sources == {"lookup": {"proposed": 6, "accepted": 3}}


GUESS = {"": [("foo", HOPELESS, "x"), ("(bar", HOPELESS, "x"), (")", TORN, "x"), ("\n", SURE, "x")]}


@pytest.mark.parametrize("eagerness", Eagerness)
def test_a_guess_is_kept_back_unless_it_was_asked_for(eagerness):
    model = Wavering(GUESS)
    silent = answer(model, invoked=False, eagerness=eagerness)
    assert (silent.reason, silent.text) == (Reason.LOW_CONFIDENCE, "")
    assert 0 < silent.stats.confidence < 0.01
    whole = tuple(map(model.token, ("foo", "(bar", ")", "\n")))
    assert silent.token_ids == whole[: len(silent.token_ids)]
    assert answer(Wavering(GUESS), eagerness=eagerness, num_items=1).text == "foo(bar)"


def test_a_sure_line_is_shown_to_everybody_and_says_how_sure():
    sure = {"": [("1", SURE, "x"), ("\n", SURE, "x")]}
    for eagerness in Eagerness:
        result = answer(Wavering(sure), invoked=False, eagerness=eagerness)
        assert result.text == "1"
        assert result.stats.as_json()["confidence"] == round(result.stats.confidence, 3) > 0.5


def test_how_sure_the_model_is_does_not_depend_on_what_follows_the_first_line():
    line = [("⏎····return a".replace("⏎", "\n").replace("·", " "), SURE, "x"), ("\n", SURE, "x")]
    more = [("    ", HOPELESS, "x"), ("foo", HOPELESS, "x"), ("\n", HOPELESS, "x")]
    marked = "def f(a):║⏎⏎z = 1"
    short, long = (
        answer(Wavering({"": found}), marked, invoked=False) for found in (line, line + more)
    )
    assert short.stats.confidence == long.stats.confidence
    assert unmark(marked).count("\n") == 2


def test_a_text_that_cannot_be_shown_is_not_written_to_its_end():
    words = [(word, HOPELESS, "other") for word in ("alpha", " + ", "beta", " + ", "gamma", "\n")]
    model = Wavering({"": words})
    result = complete(request_at("x = ║\n"), model, CancelToken())
    assert result.reason is Reason.LOW_CONFIDENCE
    assert result.stats.tokens < len(words)
    assert result.stats.confidence is not None


def test_what_is_asked_for_by_key_is_written_to_its_end_however_doubtful():
    words = [(word, HOPELESS, word) for word in ("alpha", " + ", "beta", "\n")]
    result = complete(request_at("x = ║\n", invoked=True), Wavering({"": words}), CancelToken())
    assert result.text == "alpha + beta"
