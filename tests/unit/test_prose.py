"""Nothing is completed while typing where text is written for people."""

from __future__ import annotations

import pytest

from lsp_server.completion import Reason
from lsp_server.syntax import Syntax
from lsp_server.text.prose import is_prose_document
from tests.marks import ask, request_at

COMMENTS = [
    ("python", "x = 1  # the║⏎y = 2"),
    ("python", "# the║"),
    ("python", 'def f():⏎····"""Adds ║⏎····return 1⏎'),
    ("python", 'def f():⏎····"""Adds.⏎⏎····Gives ║⏎····"""⏎····return 1⏎'),
    ("python", '"""A module ║⏎'),
    ("python", 'class A:⏎····x = 1⏎····r"""What ║"""⏎'),
    ("javascript", "// the║⏎a();"),
    ("javascript", "/**⏎ * Adds ║⏎ */⏎function f() {}"),
    ("javascript", "a(); /* b ║⏎"),
    ("go", "// F adds ║⏎func F() {}"),
    ("rust", "/// Adds ║⏎fn f() {}"),
    ("java", "/** Adds ║ */⏎class A {}"),
    ("lua", "-- the║⏎x = 1"),
    ("kotlin", "/* one⏎ two ║⏎"),
    ("elixir", '@doc """⏎Adds ║⏎"""⏎'),
    ("svelte", "<script>⏎→// the ║⏎</script>"),
    ("vue", "<!-- the ║ -->"),
    ("unknown", "# the║⏎x"),
    ("no-such-language", "// the║⏎x"),
]
CODE = [
    ("python", "# the⏎║"),
    ("python", "x = ║ # all"),
    ("python", 'x = "the║"⏎'),
    ("python", 'x = """⏎select ║⏎"""⏎'),
    ("python", 'f(⏎····"""select ║"""⏎)'),
    ("python", '"""Module."""⏎import ║⏎'),
    ("python", 'def f():⏎····"""⏎····Doc.⏎····"""⏎····x = "a║"⏎'),
    ("javascript", 'a("// ║")'),
    ("javascript", "x = `# ║`"),
    ("go", 'a("/* ║")'),
    ("rust", "#[derive(║)]⏎struct A;"),
    ("c", "#include ║⏎"),
    ("java", "class A {⏎····║⏎}⏎"),
    ("lua", 'x = "--" ║⏎'),
    ("svelte", "<script>⏎→let x = ║⏎</script>"),
    ("html", '<a href="https://║">'),
    ("unknown", "x = ║⏎y"),
]


@pytest.mark.parametrize(("language", "marked"), COMMENTS)
def test_comments_and_documentation_are_left_to_their_writer(language, marked):
    assert ask(marked, "word", language=language).reason is Reason.PROSE


@pytest.mark.parametrize(("language", "marked"), CODE)
def test_code_is_completed(language, marked):
    assert ask(marked, "word", language=language).reason is None


@pytest.mark.parametrize(
    ("language", "marked"),
    [case for case in COMMENTS + CODE if "`" not in case[1]],
)
def test_without_a_grammar_it_is_much_the_same(language, marked, monkeypatch):
    monkeypatch.setattr(Syntax, "of", lambda *_: None)
    expected = Reason.PROSE if (language, marked) in COMMENTS else None
    assert ask(marked, "word", language=language).reason is expected


@pytest.mark.parametrize("language", ["markdown", "plaintext", "latex", "restructuredtext", "org"])
def test_a_document_of_prose_is_left_to_its_writer(language):
    marked = "Once upon a ║⏎"
    assert ask(marked, "time", language=language).reason is Reason.PROSE
    assert ask(marked, "time", language=language, prose=True).text == "time"
    assert ask(marked, "time", language=language, invoked=True).text == "time"


def test_code_in_the_fences_of_a_document_is_completed():
    fenced = "Do this:⏎⏎```python⏎x = ║⏎```⏎"
    assert ask(fenced, "1", language="markdown").text == "1"
    behind = "Do this:⏎⏎```python⏎x = 1⏎```⏎and ║⏎"
    assert ask(behind, "that", language="markdown").reason is Reason.PROSE


@pytest.mark.parametrize(
    ("opener", "is_fence"),
    [
        ("```", True),
        ("``````````python", True),
        ("~~~~", True),
        ("···```", True),
        ("⏎→·~~~", True),
        ("····```", False),
        ("⏎····```", False),
        ("``", False),
        ("so: ```", False),
        ("``` and ```", True),
    ],
)
def test_a_fence_begins_its_line_and_is_hardly_indented(opener, is_fence):
    request = request_at(f"{opener}⏎x = ║⏎", language="markdown")
    assert is_prose_document(request.snapshot, request.offset) is not is_fence


def test_a_heading_underlined_like_a_fence_begins_no_code():
    marked = "Title⏎~~~~~⏎⏎Once upon a ║⏎"
    assert ask(marked, "time", language="restructuredtext").reason is Reason.PROSE


@pytest.mark.parametrize("options", [{"prose": True}, {"invoked": True}])
def test_who_asks_for_it_gets_prose_a_line_at_a_time(options):
    answer = ask("# the ║⏎def f():⏎····pass", "first⏎# second", language="python", **options)
    assert answer.text == "first"
