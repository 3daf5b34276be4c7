"""How much is completed at a place, with grammars and without, and where a block ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.completion import Mode, Reason
from lsp_server.generation.amount import stop_rule
from lsp_server.generation.stops import find_stop
from lsp_server.syntax import Syntax, grammars
from tests.marks import accepted, ask, place_at, request_at, unmark

BLOCK, LINE = Mode.BLOCK, Mode.LINE


@pytest.fixture
def no_grammars(monkeypatch):
    monkeypatch.setattr(Syntax, "of", lambda *_: None)


def rule_at(marked, line_end="\n", **options):
    request = request_at(marked, line_end, **options)
    return stop_rule(request, place_at(marked, line_end, request.snapshot.language_id))


SAME = [
    ("python", "def f(a):║⏎⏎x = 1", BLOCK),
    ("python", "def f(a):⏎····║⏎⏎x = 1", BLOCK),
    ("python", "if a:⏎····║⏎else:⏎····b()⏎", BLOCK),
    ("python", "class A:⏎····def f(self):⏎········║⏎⏎····def g(self):⏎········pass", BLOCK),
    ("python", "x = [⏎····║⏎]", BLOCK),
    ("python", "x = {⏎····║⏎}", BLOCK),
    ("python", "def f(a):⏎····║⏎····return a⏎", LINE),
    ("python", "def f(a):⏎····b = ║⏎····return a⏎", LINE),
    ("python", "def f(a):⏎····b = 1⏎····║⏎⏎x = 1", LINE),
    ("python", "f(║)⏎x = 1", LINE),
    ("javascript", "function f() {║⏎}⏎", BLOCK),
    ("javascript", "it('works', () => {⏎··║⏎});⏎", BLOCK),
    ("javascript", "function f() {║⏎⏎function g() {⏎··return 1;⏎}⏎", BLOCK),
    ("javascript", "if (a) {⏎··║⏎··b();⏎}⏎", LINE),
    ("javascript", "const a = ║⏎b();", LINE),
    ("go", "func f() {⏎→║⏎}⏎", BLOCK),
    ("go", "if err != nil {║⏎}⏎", BLOCK),
    ("go", "type A interface {⏎→║⏎}⏎", BLOCK),
    ("go", "func f() {⏎→a()⏎→║⏎}⏎", LINE),
    ("rust", "impl T {⏎····║⏎}⏎", BLOCK),
    ("rust", "match a {⏎····║⏎}⏎", BLOCK),
    ("rust", "fn f() {⏎····let a = A {⏎········║⏎····};⏎}⏎", BLOCK),
    ("rust", "fn f() {⏎····let a = [⏎········║⏎····];⏎}⏎", BLOCK),
    ("rust", "fn f() {⏎····let a = ║⏎}⏎", LINE),
    ("java", "class A {⏎····void f() {⏎········║⏎····}⏎}⏎", BLOCK),
    ("java", "class A {⏎····int[] a = {⏎········║⏎····};⏎}⏎", BLOCK),
    ("java", "class A {⏎····int x;⏎····║⏎}⏎", LINE),
]
"""What indentation tells as well as a grammar."""

BY_GRAMMAR = [
    ("python", 'def f(a):⏎····"""What it does."""⏎····║⏎⏎x = 1', BLOCK),
    ("python", "def f(a):⏎····# why⏎····║⏎⏎x = 1", BLOCK),
    ("python", "key = lambda x:║⏎y = 1", LINE),
    ("python", "count:║⏎y = 1", LINE),
    ("javascript", "x = a ? b :║⏎y();", LINE),
    ("javascript", "const x = {⏎··a:║⏎}⏎", LINE),
    ("typescript", "let x:║⏎y();", LINE),
    ("rust", "fn f() ->║⏎{⏎}⏎", LINE),
    ("ruby", "class A⏎··║⏎end⏎", BLOCK),
    ("ruby", "def f║⏎end⏎", BLOCK),
    ("cpp", "switch (a) {⏎case 1:⏎··║⏎}⏎", BLOCK),
    ("csharp", "class A⏎{⏎····║⏎}⏎", BLOCK),
    ("shellscript", "if a; then⏎··║⏎fi⏎", BLOCK),
]
"""What only a grammar can tell, or tells better."""


@pytest.mark.parametrize(("language", "marked", "mode"), SAME)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_several_lines_come_only_where_a_block_begins(language, marked, mode, line_end):
    assert Syntax.of(language) is not None
    assert rule_at(marked, line_end, language=language).mode is mode


@pytest.mark.parametrize(("language", "marked", "mode"), SAME)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.usefixtures("no_grammars")
def test_they_do_so_by_indentation_where_no_grammar_is(language, marked, mode, line_end):
    assert rule_at(marked, line_end, language=language).mode is mode


@pytest.mark.parametrize(("language", "marked", "mode"), BY_GRAMMAR)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_grammar_knows_more_beginnings_of_blocks(language, marked, mode, line_end):
    assert rule_at(marked, line_end, language=language).mode is mode


@pytest.mark.parametrize("language", ["python", "unknown"])
def test_on_request_several_lines_come_wherever_nothing_follows_on_the_line(language):
    places = ("def f():⏎····a = 1⏎····║⏎⏎x = 1", "a = ║⏎b = 1")
    for marked in places:
        assert rule_at(marked, language=language).mode is LINE
        assert rule_at(marked, language=language, invoked=True).mode is BLOCK
    assert rule_at("f(║)⏎x = 1", language=language, invoked=True).mode is LINE


@pytest.mark.parametrize("mode", [BLOCK, LINE])
def test_what_the_user_has_chosen_goes_before_what_the_place_suggests(mode):
    for marked in ("def f():║⏎⏎x = 1", "a = ║⏎b = 1", "f(║)"):
        assert rule_at(marked, mode=mode, language="python").mode is mode


@pytest.mark.parametrize(
    ("language", "marked", "model", "result"),
    [
        (
            "python",
            'def f(a):⏎····"""What."""⏎····║⏎⏎x = 1',
            "b = a⏎····return b⏎⏎def g():⏎····pass",
            'def f(a):⏎····"""What."""⏎····b = a⏎····return b⏎⏎x = 1',
        ),
        (
            "python",
            "def f(a):⏎····║⏎⏎x = 1",
            'b = """⏎one⏎two"""⏎····return b⏎y = 2',
            'def f(a):⏎····b = """⏎one⏎two"""⏎····return b⏎⏎x = 1',
        ),
        (
            "javascript",
            "function f() {║⏎⏎next();",
            "⏎··const a = `⏎one⏎`;⏎··return a;⏎}⏎⏎function g() {⏎}",
            "function f() {⏎··const a = `⏎one⏎`;⏎··return a;⏎}⏎⏎next();",
        ),
        (
            "javascript",
            "function f() {⏎··if (a) {║⏎··c();⏎}",
            "⏎····b();⏎····}⏎····d();⏎····e();",
            "function f() {⏎··if (a) {⏎····b();⏎····}⏎··c();⏎}",
        ),
        (
            "go",
            "func f() {⏎→if a {║⏎→}⏎}⏎",
            "⏎→→b()⏎→}⏎→c()⏎}",
            "func f() {⏎→if a {⏎→→b()⏎→}⏎}⏎",
        ),
        (
            "ruby",
            "class A⏎··║⏎end⏎",
            "def f⏎····1⏎··end⏎end⏎A.new.f",
            "class A⏎··def f⏎····1⏎··end⏎end⏎",
        ),
        (
            "java",
            "class A {⏎····void f() {⏎········║⏎····}⏎}⏎",
            "a();⏎········b();⏎····}⏎⏎····void g() {",
            "class A {⏎····void f() {⏎········a();⏎········b();⏎····}⏎}⏎",
        ),
    ],
)
def test_a_block_ends_where_it_is_closed(language, marked, model, result):
    answer = ask(marked, model, language=language)
    assert answer.reason is None
    assert accepted(marked, answer) == unmark(result)


codes = st.text("ab():{}[]=,\"'`#\n\t ", max_size=60)


@given(
    before=codes, after=codes, raw=codes,
    language=st.sampled_from([*sorted(grammars.PACKAGES), "unknown"]), invoked=st.booleans(),
)  # fmt: skip
def test_any_text_has_an_amount_and_a_stop_within_it(before, after, raw, language, invoked):
    rule = rule_at(f"{before}║{after}", language=language, invoked=invoked)
    assert rule.mode in (BLOCK, LINE)
    if rule.place.rest.strip():
        assert rule.mode is LINE
    stop = find_stop(raw, rule)
    assert stop is None or 0 <= stop <= len(raw)
    if stop is not None:
        assert find_stop(raw + "a\nb\n", rule) == stop


def test_an_answer_that_goes_on_a_word_without_healing_is_not_given():
    place = "x = tot║⏎y = 1"
    assert ask(place, "al(1)").text == "al(1)"
    assert ask(place, "al(1)", healing=False).reason is Reason.MID_WORD
    assert ask(place, "(1)", healing=False).text == "(1)"
    assert ask(place, "al(1)", healing=False, invoked=True).text == "al(1)"


def test_a_function_before_closers_ends_where_it_is_closed_or_with_its_line():
    def kept(marked, raw, **options):
        return raw[: find_stop(raw, rule_at(marked, language="typescript", **options))]

    assert kept("f(║)", "() => {\n  a({}, {\n  });\n}, b);\nc();\n") == (
        "() => {\n  a({}, {\n  });\n}, b);"
    )
    assert kept("  f(║)", "() => {\n    a();\nb();\n") == "() => {"
    assert kept("f(║)\n  a();\n", "() => {\n  a();\n});\n") == "() => {"
    assert kept("f(║, b)", "() => {\n  a();\n});\n") == "() => {"
    assert kept("f(║)", "() => {\n  a();\n});\n", mode=LINE) == "() => {"
