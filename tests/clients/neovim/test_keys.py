"""The keys: the user's, with a <Tab> that others come before, and that does what it did."""

from __future__ import annotations

import pytest

SCRIPT = {"value = ": "computed(1)"}


@pytest.fixture(scope="module")
def editor(scripted):
    before = ["inoremap <C-l> <C-o>:let g:was_pressed = 1<CR>", "inoremap <expr> <C-j> 'j' .. 'k'"]
    keys = {"accept": "<Tab>", "accept_word": "<C-l>", "accept_line": "<C-j>", "next": False}
    return scripted(SCRIPT, {"keys": keys}, before=before)


@pytest.fixture(autouse=True)
def empty_file(editor):
    editor.edit("keys.py")
    yield
    editor.type("<Esc>")
    editor.nvim.command("%bwipeout!")


def test_tab_is_a_tab_where_nothing_is_shown(editor):
    editor.type("ix<Tab>y")
    assert editor.text() == "x   y"


def test_tab_accepts_where_something_is_shown(editor):
    editor.type("ivalue = ")
    editor.wait_for_ghost("computed(1)")
    editor.type("<Tab>")
    assert editor.text() == "value = computed(1)"


def test_tab_jumps_in_a_snippet_first(editor):
    editor.type("i")
    editor.lua("vim.snippet.expand('${1:value = }, ${2:last}')")
    editor.type("value = ")
    editor.wait_for_ghost("computed(1)")
    editor.type("<Tab>")
    editor.type("end<Esc>")
    assert editor.text() == "value = , end"


def test_a_menu_of_a_plugin_gets_tab_first(editor):
    editor.lua("package.loaded['blink.cmp'] = { is_menu_visible = function() return true end }")
    editor.type("ivalue = ")
    editor.wait_for_ghost("computed(1)")
    editor.type("<Tab>")
    assert editor.text() == "value =     "
    editor.lua("package.loaded['blink.cmp'] = nil")


def test_a_key_that_was_mapped_does_that_where_nothing_is_shown(editor):
    editor.type("ix<C-l>y")
    assert editor.text() == "xy"
    assert editor.lua("return vim.g.was_pressed") == 1
    editor.type("<C-j>")
    assert editor.text() == "xyjk"


def test_a_key_that_was_mapped_accepts_where_something_is_shown(editor):
    editor.type("ivalue = ")
    editor.wait_for_ghost("computed(1)")
    editor.type("<C-l>")
    assert editor.text() == "value = computed"
    editor.type("<C-j>")
    assert editor.text() == "value = computed(1)"


def test_setting_up_again_gives_the_old_keys_back(editor):
    editor.lua("require('tabahead').setup(...)", {"keys": {"accept": "<C-y>"}})
    assert "was_pressed" in editor.lua("return vim.fn.maparg('<C-l>', 'i')")
    tab = editor.lua("return vim.fn.maparg('<Tab>', 'i', false, true).desc or ''")
    assert not tab.startswith("tabahead")
    assert editor.lua("return vim.fn.maparg('<C-y>', 'i', false, true).desc") == "tabahead: accept"
