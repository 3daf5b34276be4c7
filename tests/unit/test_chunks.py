"""Chunks: whole definitions and what is between them, with a grammar or by indentation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.context.chunks import MAX_LINE, MAX_LINES, chunks_of
from lsp_server.text.outline import outline_of

PYTHON = '''\
"""A module."""

import os
from a import (
    b,
)

LIMIT = 3
TABLE = {"one": 1, "two": 2}


@cached
def first(x: int) -> str:
    """Says it."""
    return x


class Shop(Base):
    """A shop."""

    rate = 1.5

    def __init__(self, name):
        self.name = name

    @property
    def total(self): return 2


if True:
    print("at the end of the module")
'''
JAVA = """\
package p;

import a.b.C;

public class Shop extends Base {
    private int rate = 1;

    @Override
    public int total(List<Item> items)
            throws IOException {
        return items.size();
    }

    interface Visitor {
        void visit(Item item);
    }
}
"""
KOTLIN = """\
import b.C

class Shop(val x: Int) : Base() {
    private val y = 3
    fun total(items: List<Item>): Int {
        return items.size
    }
}

fun main() {
    println("x")
}
"""


def named(text, language):
    return {chunk.names[0]: chunk for chunk in chunks_of(text, language, "") if chunk.names}


def test_functions_are_whole_and_have_a_declaration_as_their_outline():
    chunk = named(PYTHON, "python")["first"]
    assert chunk.text == PYTHON[PYTHON.index("@cached") : PYTHON.index("\n\n\nclass")] + "\n"
    assert chunk.outline == "@cached\ndef first(x: int) -> str: ...\n"


def test_a_type_is_its_own_lines_and_its_members_declarations():
    shop = named(PYTHON, "python")["Shop"]
    assert shop.text == (
        'class Shop(Base):\n    """A shop."""\n    rate = 1.5\n    def __init__(self, name): ...\n'
        "    @property\n    def total(self): ...\n"
    )
    shop = named(JAVA, "java")["Shop"]
    assert shop.text == (
        "public class Shop extends Base {\n    private int rate = 1;\n    @Override\n"
        "    public int total(List<Item> items)\n            throws IOException;\n"
        "    interface Visitor {\n        void visit(Item item);\n    }\n}\n"
    )
    assert shop.names == ("Shop", "visit")  # what has no chunk of its own


def test_a_member_knows_the_signature_of_its_type():
    total = named(JAVA, "java")["total"]
    assert total.header == "public class Shop extends Base\n"
    assert total.text.startswith("    @Override\n    public int total(")


def test_what_is_between_definitions_is_kept_without_the_imports():
    texts = [chunk.text for chunk in chunks_of(PYTHON, "python", "")]
    assert 'LIMIT = 3\nTABLE = {"one": 1, "two": 2}\n' in texts
    assert named(PYTHON, "python")["LIMIT"].names == ("LIMIT", "TABLE")
    assert any("at the end of the module" in text for text in texts)
    assert not any("import os" in text or "    b,\n" in text for text in texts)


def test_without_a_grammar_keywords_and_indentation_tell_much_the_same(monkeypatch):
    plain = (
        PYTHON.replace("@cached\n", "")
        .replace("    @property\n", "")
        .replace(": return", ":\n        return")
    )
    by_grammar = chunks_of(plain, "python", "")
    monkeypatch.setattr("lsp_server.text.outline.Syntax.of", lambda *_: None)
    defined = [chunk for chunk in by_grammar if chunk.names and chunk.names[0] != "LIMIT"]
    assert [c for c in chunks_of(plain, "python", "") if c.first >= defined[0].first] == [
        c for c in by_grammar if c.first >= defined[0].first
    ]
    assert "    fun total(items: List<Item>): Int\n" in named(KOTLIN, "kotlin")["Shop"].text
    assert named(KOTLIN, "kotlin")["main"].text == 'fun main() {\n    println("x")\n}\n'
    assert [KOTLIN[span.start : span.end] for span in outline_of(KOTLIN, "", "").imports] == [
        "import b.C"
    ]


def test_a_function_goes_by_its_own_name_and_not_by_that_of_its_module():
    lua = "local cart = require('shop.cart')\n\nfunction M.total(a)\n  return a\nend\n"
    lua += "\nfunction M.Shop:close()\n  self.x = 1\nend\n"
    assert set(named(lua, "lua")) == {"total", "close"}
    assert [lua[start:end] for start, end in outline_of(lua, "lua", "").imports] == [
        "local cart = require('shop.cart')"
    ]
    assert set(named("class Shop:Base() {\n    val a = 1\n}\n", "kotlin")) == {"Shop"}
    assert set(named("fun String.shout(): String {\n    return 1\n}\n", "kotlin")) == {"shout"}


def test_a_long_chunk_is_cut_at_a_line_and_a_line_too_long_to_read_ends_it():
    body = "".join(f"    value_{n} = {n}\n" for n in range(100))
    long = named(f"def long():\n{body}", "python")["long"]
    assert long.text.count("\n") == MAX_LINES
    wide = named(f"def wide():\n    a = 1\n    b = '{'x' * MAX_LINE}'\n", "python")["wide"]
    assert wide.text == "def wide():\n    a = 1\n"


@pytest.mark.parametrize("language", ["python", "java", "kotlin", "plaintext"])
@given(
    pieces=st.lists(
        st.sampled_from(
            ["class Shop:\n", "class Shop {\n", "    def total(self):\n", "fun f() {\n", "}\n"]
        )
        | st.sampled_from(
            ["    x = 1\n", "\n", "\t\n", "é漢 = 2\n", "import a\n", "def f(): pass\n"]
        )
        | st.text("ab(){}\"'\n \t", max_size=8),
        max_size=40,
    )
)
def test_chunks_are_lines_of_the_text_and_only_types_overlap_their_members(language, pieces):
    text = "".join(pieces)
    lines = {line.rstrip() for line in text.split("\n")}
    chunks = chunks_of(text, language, "")
    for chunk in chunks:
        assert chunk.text.endswith("\n") or not chunk.text
        if chunk.outline:  # a function, whole or cut
            assert {line for line in chunk.text.split("\n") if line} <= lines
    for number, chunk in enumerate(chunks):
        for other in chunks[number + 1 :]:
            if chunk.overlaps(other):
                assert chunk.first <= other.first
                assert other.last <= chunk.last
    for definition in outline_of(text, language, "").definitions:
        assert 0 <= definition.start <= definition.body <= definition.end <= len(text)
