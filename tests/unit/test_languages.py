"""Languages: comments that read as such, and what a text leaves open without any grammar."""

from __future__ import annotations

import pytest

from lsp_server.text.languages import Zone, language_of


@pytest.mark.parametrize(
    ("language_id", "uri", "line"),
    [
        ("python", "", "# a/b.py"),
        ("typescriptreact", "", "// a/b.py"),
        ("", "file:///x/main.lua", "-- a/b.py"),
        ("css", "", "/* a/b.py */"),
        ("html", "", "<!-- a/b.py -->"),
        ("ocaml", "", "(* a/b.py *)"),
        ("no-such-language", "", "# a/b.py"),
        ("", "untitled:Untitled-1", "# a/b.py"),
    ],
)
def test_a_line_becomes_a_comment_of_the_language(language_id, uri, line):
    language = language_of(language_id, uri)
    assert language.comment("a/b.py") == line


@pytest.mark.parametrize("language_id", ["python", "c", "css", "html", "lua", "sql", "haskell"])
def test_a_comment_is_open_nowhere_behind_its_line(language_id):
    language = language_of(language_id)
    assert language.open_at_end(language.comment('it\'s "a" line') + "\n") is Zone.CODE


@pytest.mark.parametrize(
    ("language_id", "text", "zone"),
    [
        ("python", "x = 'a", Zone.STRING),
        ("python", "x = 'a\n", Zone.CODE),
        ("python", "x = 'a\\\n b", Zone.STRING),
        ("python", r"x = 'a\'", Zone.STRING),
        ("python", r"x = 'a\\'", Zone.CODE),
        ("python", "'''a'\n\"", Zone.STRING),
        ("python", "'''a'''", Zone.CODE),
        ("python", "x = '#' # it's", Zone.COMMENT),
        ("python", "# it's\n", Zone.CODE),
        ("python", "# it's\r", Zone.CODE),
        ("javascript", "`a\n\n", Zone.STRING),
        ("javascript", "/* ' \n", Zone.COMMENT),
        ("javascript", "/* ' */", Zone.CODE),
        ("rust", "fn f<'a>(x: &'a str", Zone.CODE),
        ("css", "a { /* b", Zone.COMMENT),
        ("markdown", "it's", Zone.CODE),
        ("no-such-language", 'say "a', Zone.CODE),
        ("c", "", Zone.CODE),
    ],
)
def test_a_text_leaves_a_comment_or_a_string_open_or_neither(language_id, text, zone):
    assert language_of(language_id).open_at_end(text) is zone


def test_languages_that_use_each_others_code_are_of_one_family():
    assert language_of("javascript").family == language_of("typescriptreact").family
    assert language_of("c").family == language_of("", "file:///a.hpp").family
    assert language_of("python").family != language_of("ruby").family
