"""Ghost text in a real Neovim, on the real server with a script in the model's place."""

from __future__ import annotations

import pytest

from tests.clients.neovim.conftest import ONLY_0_12
from tests.clients.neovim.editor import eventually

HEAD = "def area(width, height):\n"
BODY = "result = width * height\n    return result"
GO_HEAD = "package shapes\n\nfunc area(w, h int) int {\n"
LOOP = "def f(x):\n    for y in x:\n        go(y)\n"
SCRIPT = {
    f"{LOOP}        ": "    return x\n",
    f"{HEAD}    return ": "width * height",
    f"{HEAD}    ": BODY,
    "def draw():\n    print(": "width, height)",
    'printf("': 'n=%d", n);',
    f"{GO_HEAD}\t": "result := w * h\n\treturn result",
    "def total(a):\r\n    ": "part = a + 1\n    return part",
    'flag = "\U0001f600é" + ': 'other + "\U0001f389" + end',
    "alpha_beta = alpha_gamma = 1\nal": "pha_delta",
    "one = ": "first_file",
    "two = ": "second_file",
    "slow = a": "bc",
    "slow = ab": "c_now",
}


@pytest.fixture(scope="module")
def editor(scripted):
    return scripted(SCRIPT)


@pytest.fixture(autouse=True)
def fresh(editor):
    """Back to normal mode with no other buffers."""
    yield
    editor.thaw_server()
    editor.type("<Esc>")
    editor.nvim.command("%bwipeout!")


def show_product(editor):
    """Ghost text for the rest of a line."""
    editor.edit("shapes.py", HEAD)
    editor.type("Goreturn ")
    editor.wait_for_ghost("width * height")


def test_what_the_server_suggests_is_drawn_behind_the_cursor(editor):
    show_product(editor)
    assert editor.screen().lines()[1] == "    return width * height"
    assert editor.text() == f"{HEAD}    return "


def test_several_lines_are_drawn_below_each_other(editor):
    editor.edit("shapes.py", HEAD + "# the end\n")
    editor.type("jO")
    editor.wait_for_ghost(BODY)
    drawn = editor.screen().lines()[:4]
    assert drawn == [HEAD.strip(), *f"    {BODY}".split("\n"), "# the end"]


def test_typing_what_is_shown_keeps_the_rest_without_the_server(editor):
    show_product(editor)
    editor.freeze_server()
    for typed in ("w", "id", "th "):
        editor.type(typed)
    assert editor.ghost() == "* height"
    assert editor.screen().lines()[1] == "    return width * height"


def test_typing_something_else_takes_the_ghost_away_without_the_server(editor):
    show_product(editor)
    editor.freeze_server()
    editor.type("x")
    assert editor.ghost() is None
    assert editor.screen().lines()[1] == "    return x"


def test_leaving_insert_mode_by_control_c_takes_the_ghost_away(editor):
    show_product(editor)
    editor.freeze_server()
    editor.type("<C-c>")
    assert editor.nvim.api.get_mode()["mode"] == "n"
    assert editor.ghost() is None
    editor.type("ggO")  # where what Neovim keeps of it would be drawn again
    assert editor.ghost() is None


def test_accepting_at_once_after_typing_leaves_nothing_behind(editor):
    """Neovim 0.12's own acceptance leaves what was typed in the last 200 ms behind the text."""
    show_product(editor)
    editor.freeze_server()
    editor.type("wid<Tab>")
    assert editor.text() == f"{HEAD}    return width * height"
    assert editor.cursor() == (1, len("    return width * height"))
    assert editor.ghost() is None


def test_keys_typed_right_after_accepting_come_behind_the_text(editor):
    show_product(editor)
    editor.type("<Tab> + 1")
    assert editor.text() == f"{HEAD}    return width * height + 1"


def test_a_word_a_line_and_the_rest_are_accepted_one_after_the_other(editor):
    editor.edit("shapes.py", HEAD)
    editor.type("Go")
    editor.wait_for_ghost(BODY)
    editor.freeze_server()
    editor.type("<M-Right>")
    assert editor.text() == f"{HEAD}    result"
    assert editor.ghost() == " = width * height\n    return result"
    editor.type("<M-Right><M-Right>")
    assert editor.text() == f"{HEAD}    result = width"
    editor.type("<M-C-Right>")
    assert editor.text() == f"{HEAD}    result = width * height"
    editor.type("<M-Right>")
    assert editor.text() == f"{HEAD}    result = width * height\n    return"
    editor.type("<Tab>")
    assert editor.text() == f"{HEAD}    {BODY}"
    assert editor.cursor() == (2, len("    return result"))


def test_one_undo_takes_back_what_was_accepted_and_no_more(editor):
    show_product(editor)
    editor.type("<Tab> + 1<Esc>")
    assert editor.text() == f"{HEAD}    return width * height + 1"
    editor.type("u")
    assert editor.text() == f"{HEAD}    return width * height"
    editor.type("u")
    assert editor.text() == f"{HEAD}    return "
    editor.type("u")
    assert editor.text() == HEAD.strip()
    editor.type("<C-r><C-r><C-r>")
    assert editor.text() == f"{HEAD}    return width * height + 1"


def test_before_a_closer_only_what_is_new_is_drawn_and_inserted(editor):
    editor.edit("shapes.py", "def draw():\n    print()\n")
    editor.type("jf)i")
    editor.wait_for_ghost("width, height")
    assert editor.screen().lines()[1] == "    print(width, height)"
    editor.type("<Tab>")
    assert editor.text() == "def draw():\n    print(width, height)"
    assert editor.cursor() == (1, len("    print(width, height"))


def test_what_the_text_says_again_on_the_right_is_replaced(editor):
    editor.edit("main.c", 'int main(void) {\n    printf("");\n')
    editor.type('jf"a')
    editor.wait_for_ghost("n=%d, n")
    assert editor.screen().lines()[1] == '    printf("n=%d", n);'
    editor.type("n=<Tab>")
    assert editor.text() == 'int main(void) {\n    printf("n=%d", n);'


def test_a_line_that_begins_further_left_than_the_cursor_is_drawn_there(editor):
    editor.edit("leave.py", LOOP + "        \n")
    editor.type("GA")
    editor.wait_for_ghost("    return x")
    assert editor.screen().lines()[3] == "    return x"
    editor.type("<M-Right>")
    assert editor.text() == f"{LOOP}    return"
    assert editor.ghost() == " x"
    editor.type("<Tab>")
    assert editor.text() == f"{LOOP}    return x"


def test_a_file_with_crlf_gets_crlf(editor):
    path = editor.edit("ledger.py", b"import math\r\n\r\ndef total(a):\r\n")
    assert editor.nvim.current.buffer.options["fileformat"] == "dos"
    editor.type("Go")
    editor.wait_for_ghost("part = a + 1\n    return part")
    editor.type("<Tab><Esc>")
    editor.nvim.command("write")
    assert path.read_bytes() == (
        b"import math\r\n\r\ndef total(a):\r\n    part = a + 1\r\n    return part\r\n"
    )


def test_tabs_are_drawn_as_wide_as_they_will_be(editor):
    editor.edit("area.go", GO_HEAD + "\t\n}\n")
    editor.nvim.command("setlocal tabstop=4 noexpandtab")
    editor.type("4GA")
    editor.wait_for_any_ghost()
    assert editor.screen().lines()[3:6] == ["    result := w * h", "    return result", "}"]
    editor.type("<Tab>")
    assert editor.text() == f"{GO_HEAD}\tresult := w * h\n\treturn result\n}}"


def test_with_characters_of_several_bytes_on_the_left_the_place_is_right(editor):
    editor.edit("flags.py", "")
    editor.type('iflag = "\U0001f600é" + ')
    editor.wait_for_ghost('other + "\U0001f389" + end')
    editor.type("oth<M-Right>")
    assert editor.text() == 'flag = "\U0001f600é" + other'
    editor.type("<Tab>")
    assert editor.text() == 'flag = "\U0001f600é" + other + "\U0001f389" + end'


def test_an_open_completion_menu_gets_the_key_first(editor):
    editor.edit("names.py", "alpha_beta = alpha_gamma = 1\n")
    editor.type("Goal")
    editor.wait_for_ghost("pha_delta")
    editor.type("<C-x><C-n>")
    assert editor.lua("return vim.fn.pumvisible()") == 1
    editor.type("<Tab>")
    assert editor.text().split("\n")[1] == "al  "
    editor.type("<BS>")
    editor.wait_for_ghost("pha_delta")
    editor.type("<Tab>")
    assert editor.text().split("\n")[1] == "alpha_delta"


def test_a_word_can_be_accepted_while_the_completion_menu_is_open(editor):
    editor.edit("names.py", "alpha_beta = alpha_gamma = 1\n")
    editor.type("Goal")
    editor.wait_for_ghost("pha_delta")
    editor.type("<C-x><C-n>")
    assert editor.lua("return vim.fn.pumvisible()") == 1
    editor.type("<M-Right>")
    assert editor.lua("return vim.fn.pumvisible()") == 0
    editor.type(" = 2")
    assert editor.text().split("\n")[1] == "alpha_delta = 2"


def test_each_of_two_files_gets_its_own(editor):
    editor.edit("first.py", "")
    editor.edit("second.py", "")
    editor.type("itwo = ")
    editor.wait_for_ghost("second_file")
    editor.type("<Esc>")
    eventually(lambda: editor.ghost() is None, "the ghost goes with insert mode")
    editor.nvim.command("buffer first.py")
    editor.type("ione = ")
    editor.wait_for_ghost("first_file")
    editor.type("<Tab><Esc>")
    editor.nvim.command("buffer second.py")
    assert editor.text() == "two = "
    editor.type("A")
    editor.wait_for_ghost("second_file")


def test_an_overtaken_request_is_cancelled(editor):
    editor.edit("slow.py", "")
    editor.lua(
        "_G.requests = {}"
        " vim.api.nvim_create_autocmd('LspRequest', { callback = function(event)"
        "   local request = event.data.request"
        "   if request.method == 'textDocument/inlineCompletion' and event.data.request_id > 0 then"
        "     table.insert(_G.requests, request.type) end end })"
    )
    editor.type("islow =")
    editor.type(" ")
    editor.freeze_server()
    editor.lua("_G.requests = {}")
    editor.type("a")
    editor.type("b")
    requests = editor.lua("return _G.requests")
    assert [kind for kind in requests if kind != "complete"][-3:] == [
        "pending",
        "cancel",
        "pending",
    ]
    editor.thaw_server()
    editor.wait_for_ghost("c_now")


def test_the_next_suggestion_is_one_that_fits_what_was_typed(scripted):
    other = scripted({"value = ": "table"})
    # A script writes one text: three stand in its place.
    other.lua(
        "local offer = require('tabahead.offer') local items = offer.items"
        " offer.items = function(...) local one = items(...)[1]"
        "   return one and vim.iter({ 'table', 'row', 'tape' }):map(function(text)"
        "     return vim.tbl_extend('force', one, { text = text }) end):totable() or {} end"
    )
    other.edit("table.py")
    other.type("ivalue = ")
    other.wait_for_ghost("table")
    other.freeze_server()
    other.type("t")
    for expected in ("ape", "able", "ape"):
        other.type("<M-]>")
        assert other.ghost() == expected
    other.type("<M-[>")
    assert other.ghost() == "able"
    other.thaw_server()


@ONLY_0_12
def test_neovims_own_acceptance_takes_what_is_shown_too(editor):
    show_product(editor)
    editor.freeze_server()
    editor.type("wid")
    eventually(lambda: editor.lua("return vim.lsp.inline_completion.get()"), "Neovim has asked")
    eventually(lambda: editor.text() == f"{HEAD}    return width * height", "the acceptance")
    assert editor.ghost() is None


@ONLY_0_12
def test_neovims_own_display_can_be_turned_off_and_on(editor):
    show_product(editor)
    editor.lua("vim.lsp.inline_completion.enable(false, { bufnr = 0 })")
    editor.type("w")
    assert editor.ghost() is None
    editor.type("<Tab>")
    assert editor.text() == f"{HEAD}    return w    "  # what is not seen is not accepted
    editor.type("<BS>")
    editor.lua("vim.lsp.inline_completion.enable(true, { bufnr = 0 })")
    editor.type("id")
    editor.wait_for_ghost("th * height")


@ONLY_0_12
def test_own_marks_can_be_chosen_and_are_drawn_once(scripted):
    everywhere = "lua vim.lsp.inline_completion.enable()"
    other = scripted(SCRIPT, {"display": "extmark"}, before=[everywhere])
    other.edit("main.c", 'int main(void) {\n    printf("");\n')
    other.type('jf"a')
    other.wait_for_ghost("n=%d, n")
    assert other.screen().lines()[1] == '    printf("n=%d", n);'
    other.type("<Tab>")
    assert other.text() == 'int main(void) {\n    printf("n=%d", n);'
