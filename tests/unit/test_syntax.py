"""Syntax: one face over the grammars, the same in every language, exact in code points."""

from __future__ import annotations

import gc
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server import syntax as syntax_module
from lsp_server.syntax import AFTER, BEFORE, Syntax, Zone, grammars
from tests.marks import CURSOR, unmark

LANGUAGES = sorted(grammars.PACKAGES)
CODE, COMMENT, STRING = Zone.CODE, Zone.COMMENT, Zone.STRING


@pytest.fixture
def other_packages(monkeypatch):
    """The table of packages, for a test to change: what was looked up is looked up again."""

    def forget():
        grammars.load.cache_clear()
        syntax_module._syntax.cache_clear()

    forget()
    yield monkeypatch
    monkeypatch.undo()
    forget()


def parsed_at(language, marked, line_end="\n"):
    text = unmark(marked, line_end)
    offset = text.index(CURSOR)
    text = text.replace(CURSOR, "")
    found = Syntax.of(language).around(text, offset)
    return found, text, offset


def cut(text, span):
    return None if span is None else text[span[0] : span[1]]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_grammar_of_the_extra_is_installed_and_fits(language):
    assert Syntax.of(language) is not None


def test_an_unknown_language_and_one_without_its_package_have_no_syntax(other_packages):
    assert Syntax.of("plaintext") is None
    assert Syntax.of("", "file:///notes.txt") is None
    other_packages.setitem(grammars.PACKAGES, "zig", ("no_such_package", "language"))
    assert Syntax.of("zig") is None


def test_the_suffix_tells_the_language_where_the_editor_does_not():
    assert Syntax.of("", "file:///a/b.rs") is Syntax.of("rust")
    assert Syntax.of("typescriptreact") is Syntax.of("", "c:\\x\\y.TSX")


def test_a_grammar_that_does_not_fit_is_warned_of_once_and_not_used(other_packages, caplog):
    other_packages.setitem(grammars.PACKAGES, "lua", ("json", "dumps"))
    assert [Syntax.of("lua") for _ in range(3)] == [None] * 3
    assert len(caplog.records) == 1
    assert "json" in caplog.text


@pytest.mark.parametrize(
    ("language", "marked", "expected"),
    [
        ("python", "x = 1 # foo║⏎y = 2", COMMENT),
        ("python", "x = 1 # foo║", COMMENT),
        ("python", "# foo⏎║y = 2", CODE),
        ("python", 'x = "a║b"', STRING),
        ("python", 'x = ║"ab"', CODE),
        ("python", 'x = "ab"║', CODE),
        ("python", 'x = "ab║⏎y = 2⏎z = "c"⏎', STRING),
        ("python", 'f("ab", ║)', CODE),
        ("python", 'def f():⏎    """doc║⏎    return 1⏎', STRING),
        ("python", 'def f():⏎    """doc⏎    more║⏎    return 1⏎', STRING),
        ("python", 'print(f"a{b║}c")', CODE),
        ("python", 'print(f"a║{b}c")', STRING),
        ("python", "it = ('a' | ║'b')", CODE),
        ("javascript", "let a = `x${b║}`", CODE),
        ("javascript", "let a = `x║${b}`", STRING),
        ("javascript", "let a = `foo ║⏎let b = 2;⏎", STRING),
        ("javascript", "/* foo⏎ * b║⏎", COMMENT),
        ("javascript", "let a = 1; /* x */║", CODE),
        ("javascript", 'it = x.replace(/"/g, ║"b")', CODE),
        ("typescript", "let s: string║ = 1", CODE),
        ("tsx", "const a = <b>{c ║}</b>;", CODE),
        ("go", "x := `foo║⏎", STRING),
        ("rust", 'let s = "foo║;⏎', STRING),
        ("rust", "fn f<'a>(x: &'a str║", CODE),
        ("java", 'String s = "foo║;⏎int b;', STRING),
        ("c", "int a; /* foo ║", COMMENT),
        ("c", "char c = '║'", STRING),
        ("cpp", "#include <ios║⏎int x;", CODE),
        ("csharp", 'var x = $"a{b║}c";', CODE),
        ("ruby", 'x = "foo #{a║} b"', CODE),
        ("ruby", 'x = "foo║ #{a} b"', STRING),
        ("php", "<?php // a║⏎$x", COMMENT),
        ("shellscript", 'echo "foo ║$x"', STRING),
    ],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("above", ["", "# é漢😀 // 'unclosed⏎"])
def test_a_cursor_is_in_code_in_a_comment_or_in_a_string(
    language, marked, expected, line_end, above
):
    if above and language not in ("python", "ruby", "shellscript"):
        above = '/* é漢😀 "unclosed */⏎'
    if language == "php":
        above = ""
    found, _, offset = parsed_at(language, above + marked, line_end)
    assert found.zone(offset) is expected


DEFINED = {
    "python": (
        "import os⏎from a import (b,⏎  c)⏎@d⏎def f(é):⏎  return 1⏎class K(B):⏎  def m(self): pass",
        ["@d⏎def f(é):", "class K(B):", "def m(self):"],
        ["import os", "from a import (b,⏎  c)"],
    ),
    "javascript": (
        "import x from './m';⏎const q = require('r');⏎export class A { f(a) { return 1 } }⏎"
        "export const k = async (a) => { return a };⏎let n = 3;",
        ["export class A", "f(a)", "export const k = async (a) =>"],
        ["import x from './m';", "const q = require('r');"],
    ),
    "typescript": (
        "import type {T} from '../t';⏎interface I { m(x: number): void }⏎type U = I | T;⏎"
        "declare function q(x: number): string;",
        ["interface I", "m(x: number): void", "type U = I | T;", "function q(x: number): string;"],
        ["import type {T} from '../t';"],
    ),
    "go": (
        'package p⏎import (⏎→"fmt"⏎)⏎type S struct { A int }⏎'
        "func (s *S) M(a int) error { return nil }",
        ["type S struct", "func (s *S) M(a int) error"],
        ['import (⏎→"fmt"⏎)'],
    ),
    "rust": (
        "use std::a;⏎mod foo;⏎pub struct S { a: i32 }⏎impl T for S { fn m(&self) -> i32 { 1 } }",
        ["pub struct S", "impl T for S", "fn m(&self) -> i32"],
        ["use std::a;", "mod foo;"],
    ),
    "java": (
        "import a.b.C;⏎public class A extends B { A(int y) { x = y; } enum E { P } }",
        ["public class A extends B", "A(int y)", "enum E"],
        ["import a.b.C;"],
    ),
    "c": (
        '#include "a.h"⏎struct s { int a; };⏎struct s v;⏎int f(int a);⏎int *g(void) { return 0; }',
        ["struct s", "int f(int a);", "int *g(void)"],
        ['#include "a.h"⏎'],
    ),
    "cpp": (
        "#include <v>⏎namespace n { template <typename T> class A { A(); }; }⏎"
        "int A::f() { return 1; }",
        ["template <typename T> class A", "A();", "int A::f()"],
        ["#include <v>⏎"],
    ),
    "csharp": (
        "using System;⏎namespace N { public class A { public int F(int a) { return 1; } } }",
        ["public class A", "public int F(int a)"],
        ["using System;"],
    ),
    "ruby": (
        "require 'a'⏎module M⏎  class A < B⏎    def f(a)⏎      a⏎    end⏎  end⏎end",
        ["module M", "class A < B", "def f(a)"],
        ["require 'a'"],
    ),
    "php": (
        "<?php⏎use A\\B;⏎require_once 'x.php';⏎class A { function f($a) { return 1; } }",
        ["class A", "function f($a)"],
        ["use A\\B;", "require_once 'x.php';"],
    ),
    "shell": ("source ./lib.sh⏎foo() { echo 1; }", ["foo()"], ["source ./lib.sh"]),
}


@pytest.mark.parametrize("language", DEFINED)
def test_definitions_have_their_signatures_and_imports_are_found(language):
    marked, signatures, imports = DEFINED[language]
    text = unmark(marked)
    found = Syntax.of(language).parse(text)
    assert not found._root.has_error
    definitions = found.definitions()
    assert [text[d.start : d.body].rstrip() for d in definitions] == [*map(unmark, signatures)]
    assert [cut(text, span) for span in found.imports()] == [*map(unmark, imports)]


@pytest.mark.parametrize(
    ("language", "marked", "imports"),
    [
        ("c", "#ifndef A⏎#define A⏎#include <b.h>⏎int f(int a);⏎#endif⏎", ["#include <b.h>⏎"]),
        (
            "python",
            "try:⏎··import a⏎except ImportError:⏎··import b⏎if T:⏎··from c import d⏎",
            ["import a", "import b", "from c import d"],
        ),
        ("csharp", "namespace N⏎{⏎··using A;⏎··class C { }⏎}⏎", ["using A;"]),
        ("javascript", "try {⏎··var a = require('a');⏎} catch (e) { }⏎", ["var a = require('a');"]),
        ("python", "def f():⏎··import a⏎", []),
    ],
)
def test_imports_under_a_condition_or_in_a_namespace_are_found(language, marked, imports):
    text = unmark(marked)
    found = Syntax.of(language).parse(text)
    assert [cut(text, span) for span in found.imports()] == [*map(unmark, imports)]


def test_a_member_knows_the_type_that_has_it():
    found = Syntax.of("cpp").parse("class A { int f(); };\nint B::g() { return 1; }\n")
    members = [(d.name, d.owner, d.is_type) for d in found.definitions()]
    assert members == [("A", "", True), ("f", "A", False), ("g", "B", False)]


LONG = "".join(f"def f_{n}(a):\n    return 'é' * {n}\n\n\n" for n in range(2000))


def test_a_window_begins_at_a_definition_and_its_answers_are_in_the_whole_texts_offsets():
    offset = LONG.index("return 'é' * 1000")
    found = Syntax.of("python").around(LONG, offset)
    assert found.end - found.start <= BEFORE + AFTER + 2000
    assert LONG.startswith("def ", found.start)
    assert not found._root.has_error
    (here,) = [one for one in found.definitions() if one.name == "f_1000"]
    assert LONG[here.start : here.end] == "def f_1000(a):\n    return 'é' * 1000"
    assert found.zone(offset + len("return 'é")) is STRING


def test_a_text_that_is_too_long_or_no_code_at_all_has_no_tree(monkeypatch):
    monkeypatch.setattr(syntax_module, "MAX_CHARACTERS", 1000)
    assert Syntax.of("python").parse("x = 1\n" * 200) is None
    assert Syntax.of("java").around("a<" * 4000, 4000) is None


def test_parsing_again_and_again_keeps_no_memory():
    syntax = Syntax.of("python")
    text = "".join(f"def f_{n}(a):\n    return 'é' * {n}\n" for n in range(300))

    def parse(times):
        for number in range(times):
            assert not syntax.parse(f"{text}# {number}\n")._root.has_error
        gc.collect()
        return sys.getallocatedblocks()

    before = parse(20)
    assert parse(200) - before < 100  # a block for each part that is read would be thousands


PIECES = st.one_of(
    st.sampled_from(["def f():", "x", "é", "漢", "😀", "\ud800", "e\u0301", "\u2028"]),
    st.sampled_from(["\n", "\r\n", "\r", "\t", "    ", " ", "\\", "<", "${"]),
    st.sampled_from(["(", ")", "{", "}", '"', "'", "`", '"""', "/*", "*/", "#", "//"]),
)


@given(
    language=st.sampled_from(LANGUAGES),
    pieces=st.lists(PIECES, max_size=40),
    where=st.floats(0, 1),
)
def test_no_text_however_broken_is_an_error_and_every_answer_lies_within_it(
    language, pieces, where
):
    text = "".join(pieces)
    offset = int(where * len(text))
    found = Syntax.of(language).around(text, offset)
    if found is None:
        return
    assert found.zone(offset) in Zone
    for span in found.imports():
        assert 0 <= span.start <= span.end <= len(text)
    for definition in found.definitions():
        assert 0 <= definition.start <= definition.body <= definition.end <= len(text)


@given(pieces=st.lists(PIECES, max_size=40))
def test_the_answers_depend_on_the_text_alone(pieces):
    """Whatever was asked before, and whether the answer is kept or made anew."""
    text = "".join(pieces)
    first = Syntax.of("python").around(text, len(text))
    for other in range(6):
        Syntax.of("python").around(text + "x" * other, 0)
    again = Syntax.of("python").around(text, len(text))
    assert (first is None) == (again is None)
    if first is not None and again is not None:
        assert first.definitions() == again.definitions()
        assert [first.zone(n) for n in range(len(text))] == [
            again.zone(n) for n in range(len(text))
        ]
