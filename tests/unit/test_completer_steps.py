"""From a request to an answer: mode, stop, deadline, cancellation, the chosen entry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.cancellation import CancelToken
from lsp_server.completer import complete
from lsp_server.completion import CompletionStats, Mode, Piece, Reason, Selected
from lsp_server.errors import Cancelled, InferenceError
from lsp_server.generation.amount import stop_rule
from lsp_server.generation.collecting import Finish, collect
from lsp_server.generation.stops import find_stop
from tests.marks import accepted, ask, place_at, request_at, unmark


class Tokens:
    """A backend whose tokens are given texts with the ids 0, 1, 2 ..., and a hook before each."""

    def __init__(self, *texts, before=lambda index: None):
        self.texts, self.before = texts, before
        self.num_yielded, self.closed, self.requests = 0, False, []
        self.stats = CompletionStats()

    def generate(self, request, cancel):
        self.requests.append(request)
        return self

    def __iter__(self):
        try:
            for index, text in enumerate(self.texts):
                self.before(index)
                self.num_yielded += 1
                yield Piece(text, index)
        finally:
            self.closed = True

    def describe(self):
        return {}

    def close(self):
        pass


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def answer(backend, marked="a = ║⏎b", cancel=None, clock=None, **options):
    options.setdefault("max_tokens", 64)
    request = request_at(marked, **options)
    return complete(request, backend, cancel or CancelToken(), clock or Clock())


def test_the_token_that_meets_the_stop_is_the_last_one_taken():
    backend = Tokens("1", "2", "\n", "c", "d")
    result = answer(backend)
    assert (result.text, result.token_ids) == ("12", (0, 1, 2))
    assert backend.num_yielded == 3
    assert backend.closed


def test_a_model_that_ends_by_itself_keeps_its_text():
    assert answer(Tokens("1", "2")).text == "12"


def rule_at(marked, line_end="\n", **options):
    request = request_at(marked, line_end, **options)
    return stop_rule(request, place_at(marked, line_end))


def test_a_document_is_not_asked_for_inside_a_word():
    backend = Tokens("x")
    assert answer(backend, "ab║cd").reason is Reason.MID_WORD
    assert answer(backend, "é║é").reason is Reason.MID_WORD
    assert backend.requests == []
    assert answer(backend, "ab║cd", invoked=True).text == "x"
    assert answer(backend, "ab║(cd)").text == "x"


def test_a_deadline_keeps_whole_lines():
    clock = Clock()
    texts = ("\n    a", " = 1", "\n    b", " = ", "2", "\n    c")

    def tick(index):
        clock.now = index * 0.1

    backend = Tokens(*texts, before=tick)
    result = answer(backend, "def f():║", clock=clock, deadline_ms=350)
    assert (result.text, result.reason) == ("\n    a = 1", None)
    assert result.token_ids == (0, 1, 2, 3, 4)
    assert backend.closed


def test_a_deadline_before_the_first_whole_line_is_told():
    clock = Clock()

    def tick(index):
        clock.now = float(index)

    result = answer(Tokens("1", "2", "3", before=tick), clock=clock, deadline_ms=500)
    assert (result.text, result.reason) == ("", Reason.DEADLINE)


def test_the_deadline_runs_from_the_first_token_so_a_cold_prompt_is_not_in_vain():
    clock = Clock()

    def tick(index):
        clock.now = 60.0 + index * 0.1

    result = answer(Tokens("1", "2", "\n", before=tick), clock=clock, deadline_ms=500)
    assert (result.text, result.reason) == ("12", None)


def test_no_deadline_is_no_limit():
    clock = Clock()

    def tick(index):
        clock.now = index * 1e6

    assert answer(Tokens("1", "2", "\n", before=tick), clock=clock).text == "12"


@pytest.mark.parametrize("reason", ["cancelled", "superseded", "stale"])
def test_a_cancelled_request_stops_at_the_next_piece_and_says_why(reason):
    cancel = CancelToken()

    def stop(index):
        if index == 1:
            cancel.cancel(reason)

    backend = Tokens("1", "2", "3", "\n", before=stop)
    result = answer(backend, cancel=cancel)
    assert (result.text, result.reason) == ("", Reason(reason))
    assert backend.num_yielded == 2
    assert backend.closed


def test_a_cancel_out_of_a_running_pass_says_why():
    cancel = CancelToken()

    def stop(index):
        cancel.cancel("superseded")
        cancel.raise_if_cancelled()

    assert answer(Tokens("1", before=stop), cancel=cancel).reason is Reason.SUPERSEDED


def test_a_cancel_by_the_clock_keeps_whole_lines():
    cancel = CancelToken()

    def stop(index):
        if index == 2:
            cancel.cancel("deadline")
            raise Cancelled("deadline")

    backend = Tokens("\n    a = 1", "\n    b", " = 2", before=stop)
    assert answer(backend, "def f():║", cancel=cancel).text == "\n    a = 1"


def test_an_unusable_graph_is_an_answer_with_its_message():
    def fail(index):
        raise InferenceError("The model gave NaN; verify it.")

    result = answer(Tokens("1", before=fail))
    assert (result.reason, result.message) == (
        Reason.ENGINE_ERROR,
        "The model gave NaN; verify it.",
    )


def test_a_block_cut_off_by_its_number_of_tokens_loses_its_last_line():
    texts = ("\n    a = 1", "\n    b", " =")
    assert answer(Tokens(*texts), "def f():║", max_tokens=3).text == "\n    a = 1"
    assert answer(Tokens(*texts), "def f():║", max_tokens=4).text == "\n    a = 1\n    b ="
    assert answer(Tokens("1", "2"), max_tokens=2).text == "12"


def test_the_total_time_is_in_the_statistics():
    clock = Clock()

    def tick(index):
        clock.now = 0.25

    assert answer(Tokens("1", before=tick), clock=clock).stats.ms["total"] == 250.0


def test_the_chosen_entry_is_completed_as_if_accepted():
    """The item starts with the entry and takes the place that the entry would."""
    backend = Tokens("(1)", "\n")
    request = request_at("f(ba║)⏎y")
    marked_start = request.offset - 2
    selected = Selected(marked_start, request.offset, "banana")
    result = answer(backend, "f(ba║)⏎y", selected=selected)
    assert (result.start, result.end) == (marked_start, request.offset)
    assert result.text == "banana(1)"
    assert backend.requests[0].snapshot.text == "f(banana)\ny"
    assert backend.requests[0].offset == len("f(banana")


def test_the_chosen_entry_and_a_repeated_rest():
    selected = Selected(8, 9, "puts")
    result = ask('printf ("p║");', '(n)", n);', selected=Selected(9, 10, "puts"))
    assert result.text.startswith("puts")
    assert accepted('printf ("p║");', result) == 'printf ("puts(n)", n);'
    assert ask("printf ('p║');⏎", "x", selected=selected).reason is Reason.SELECTED_MISMATCH


@pytest.mark.parametrize(
    ("marked", "mode"),
    [
        ("def f():║", Mode.BLOCK),
        ("def f():⏎    ║⏎⏎x = 1", Mode.BLOCK),
        ("def f():⏎    ║⏎    return 1", Mode.LINE),
        ("f(x) {║⏎}", Mode.BLOCK),
        ("f(║)", Mode.LINE),
        ("a = ║⏎b = 1", Mode.LINE),
        ("a = ║", Mode.BLOCK),
        ("a = ║··⏎⏎", Mode.BLOCK),
        ("# note:║⏎x", Mode.LINE),
        ("║", Mode.BLOCK),
    ],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_auto_mode_follows_the_place(marked, mode, line_end):
    assert rule_at(marked, line_end).mode is mode
    assert rule_at(marked, line_end, mode=Mode.LINE).mode is Mode.LINE
    assert rule_at(marked, line_end, mode=Mode.BLOCK).mode is Mode.BLOCK


raws = st.text("ab {}():=\n\t\r", max_size=60)
places = st.sampled_from(
    ["def f():║", "f(x) {║⏎}", "a = ║⏎b", "··║⏎}", "║", "→→║", "if a:⏎··║⏎b", "f(║)"]
)


@given(marked=places, raw=raws, sizes=st.lists(st.integers(1, 9), max_size=40))
def test_the_stop_does_not_depend_on_how_the_text_arrives(marked, raw, sizes):
    """A pass brings one token or several; what is kept is the same."""
    rule = rule_at(marked)
    kept = [_collect(rule, _cut(raw, lengths)) for lengths in ([1] * len(raw), sizes)]
    assert kept[0] == kept[1]


@given(marked=places, raw=raws)
def test_a_stop_is_inside_the_text(marked, raw):
    rule = rule_at(marked)
    stop = find_stop(raw.replace("\r", ""), rule)
    assert stop is None or 0 <= stop <= len(raw)


def test_a_huge_line_is_no_trouble():
    line = "x" * 300_000 + "("
    assert ask(f"{line}║){line}", "a, b)").text == "a, b"


def test_an_empty_document_gets_an_answer():
    assert ask("║", "import os⏎").text == "import os"
    assert ask("║", "").reason is Reason.EMPTY


def _cut(raw, lengths):
    pieces = []
    for length in lengths:
        pieces.append(raw[:length])
        raw = raw[length:]
    return [*pieces, raw]


def _collect(rule, texts):
    collected = collect(
        Tokens(*texts), rule, CancelToken(), max_tokens=10_000, time_budget=None, clock=Clock()
    )
    assert collected.finish in (Finish.STOPPED, Finish.ENDED)
    return collected.text


def test_marks_are_read():
    assert unmark("a·→⏎") == "a \t\n"
