"""Faults that users reported to other completion products, each as a tiny case, on the script.

The numbers are those of the collection the cases come from. Not here, since they need what is
not built yet or another layer: 15, 34, 37, 40 (cache of shown texts), 19 (blanks at the seam with
the line below), 58, 59 (context of other files), 33, 36, 42, 44, 48, 49, 51, 52, 54 (server
sessions) and 47 (threads of the engine).
"""

from __future__ import annotations

import pytest

from lsp_server.completion import Mode, Reason
from lsp_server.prompt import build_prompt
from tests.marks import accepted, ask, request_at, unmark

RESULTS = {
    # number: (document, what the model writes, document after acceptance)
    "1 a quote and closers with text between": (
        'printf ("║");',
        r'n=%d\n", n);',
        r'printf ("n=%d\n", n);',
    ),
    "3 a suffix that is not re-emitted survives": (
        "def hi(n: s║):",
        "tr",
        "def hi(n: str):",
    ),
    "4 one closing brace": (
        "function f() {⏎··let a = 1⏎··║⏎}",
        "return a⏎}",
        "function f() {⏎··let a = 1⏎··return a⏎}",
    ),
    "6 a closer before the line break": (
        "call(║)⏎next()",
        "a, b)",
        "call(a, b)⏎next()",
    ),
    "7 line rest and brace": (
        "if (ok║) {⏎}",
        " && x) {⏎··go()⏎}",
        "if (ok && x) {⏎}",
    ),
    "9 the next line at the end of a line": (
        "f(1)║⏎f(3)",
        "⏎f(2)",
        "f(1)⏎f(2)⏎f(3)",
    ),
    "10 three lines at the end of a file": (
        "def f(a):⏎····║",
        "b = 1⏎····c = 2⏎····return c",
        "def f(a):⏎····b = 1⏎····c = 2⏎····return c",
    ),
    "10 three lines after a statement": (
        "a = 1⏎║",
        "b = 2⏎c = 3⏎d = 4",
        "a = 1⏎b = 2⏎c = 3⏎d = 4",
    ),
    "10 three lines before blanks only": (
        "a = ║⏎··⏎⏎",
        "1⏎b = 2⏎c = 3",
        "a = 1⏎b = 2⏎c = 3⏎··⏎⏎",
    ),
    "14 less indentation than the cursor has": (
        "def f(a):⏎····c = []⏎····for x in a:⏎········c.append(x)⏎········║",
        "····return c",
        "def f(a):⏎····c = []⏎····for x in a:⏎········c.append(x)⏎····return c",
    ),
    "16 tabs present already": (
        "func f() {⏎→║⏎}",
        "→x()⏎→y()",
        "func f() {⏎→x()⏎→y()⏎}",
    ),
    "16 cursor before the tab": (
        "func f() {⏎║⏎}",
        "→x()",
        "func f() {⏎→x()⏎}",
    ),
    "16 only what is there is removed": (
        "func f() {⏎→║⏎}",
        "→→x()",
        "func f() {⏎→→x()⏎}",
    ),
    "18 blanks present already": ("····║", "····return x", "····return x"),
    "21 one blank after an equals sign": ("x =·║", "·5", "x = 5"),
    "23 letters of two bytes": ('print("привет║")', " мир", 'print("привет мир")'),
    "31 last line without line end": ("a = 1⏎b =║", "·2", "a = 1⏎b = 2"),
}


@pytest.mark.parametrize("name", RESULTS)
def test_accepting_gives_the_right_document(name):
    marked, model, expected = RESULTS[name]
    result = ask(marked, model)
    assert result.reason is None
    assert accepted(marked, result) == unmark(expected)


@pytest.mark.parametrize("name", RESULTS)
def test_crlf_files_get_the_same_answer(name):
    """28: the same file with other line ends gives the same text; only the file keeps its `\\r`."""
    marked, model, expected = RESULTS[name]
    result = ask(marked, model, line_end="\r\n")
    assert "\r" not in result.text
    assert accepted(marked, result, "\r\n").replace("\r\n", "\n") == unmark(expected)


def test_the_range_covers_what_the_text_repeats():
    """1: the item replaces `");`, which its own text has again."""
    result = ask('printf ("║");', r'n=%d\n", n);')
    assert (result.start, result.end) == (9, 12)


def test_code_accepted_at_the_end_of_a_file_is_not_offered_again():
    """12"""
    assert ask("x = 1║", "x = 1").reason is Reason.REPETITION
    assert ask("x = 1⏎║", "x = 1").reason is Reason.REPETITION
    assert ask("x = 1║", "⏎x = 1").reason is Reason.REPETITION


def test_the_range_never_leaves_a_short_line():
    """23: offsets are those of characters; start and end are the cursor's."""
    result = ask('print("привет║")', " мир")
    assert (result.start, result.end) == (13, 13)


def test_a_cursor_after_any_character_splits_correctly():
    """24"""
    prompt = build_prompt(*_at("plot('µ║m')"), budget=100)
    assert (prompt.prefix, prompt.suffix) == ("plot('µ", "m')")
    assert ask("plot('µm')⏎║", "show()").text == "show()"
    assert ask("plot('µ║m')", "m").reason is Reason.MID_WORD


def test_text_larger_than_the_budget_is_cut_between_characters():
    """26"""
    text = "漢字仮名交じり文" * 4000
    request = request_at(text + "║" + text)
    prompt = build_prompt(request.snapshot, request.offset, budget=200)
    assert text.endswith(prompt.prefix)
    assert 0 < len(prompt.prefix) <= 200
    assert ask(text + "║。" + text, "です", invoked=True).text == "です"


@pytest.mark.parametrize("name", RESULTS)
def test_the_prompt_is_the_same_for_both_line_ends(name):
    """28"""
    marked = RESULTS[name][0]
    prompts = [
        build_prompt(request.snapshot, request.offset, budget=100)
        for request in (request_at(marked), request_at(marked, "\r\n"))
    ]
    assert prompts[0] == prompts[1]


def test_a_carriage_return_is_no_rest_of_the_line():
    """29: with CRLF an opened block is still completed over several lines."""
    marked, model = "def f(a):║⏎⏎x = 1⏎", "⏎····b = 1⏎····return b⏎x"
    answers = [ask(marked, model, line_end=end).text for end in ("\n", "\r\n")]
    assert answers == ["\n    b = 1\n    return b"] * 2


MARKERS = (
    *("<|endoftext|>", "<|fim_middle|>", "<|fim_prefix|>", "<|im_end|>", "<|file_separator|>"),
    *("<fim_suffix>", "<file_sep>", "<MID>", "</s>", "<|user_cursor_is_here|>", "<｜fim▁end｜>"),  # noqa: RUF001 - the marker is so
)


@pytest.mark.parametrize("marker", MARKERS)
@pytest.mark.parametrize("mode", Mode)
def test_no_control_marker_is_ever_shown(marker, mode):
    """55"""
    assert ask("x =·║⏎y", f"5{marker} + 7", mode=mode).text == "5"
    assert ask("x =·║⏎y", f"{marker}5", mode=mode).reason is Reason.EMPTY


def test_a_marker_cut_off_by_the_end_is_not_shown():
    """55"""
    assert ask("x =·║⏎y", "5<|endof").text == "5"


def test_strike_through_in_a_document_that_has_it_is_no_marker():
    assert ask("<p><s>║⏎", "old</s>").text == "old</s>"


def _at(marked):
    request = request_at(marked)
    return request.snapshot, request.offset
