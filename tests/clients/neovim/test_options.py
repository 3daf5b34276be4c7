"""What setup() and :Tabahead say about what is wrong; help; nothing runs before setup()."""

from __future__ import annotations

import shutil

import pytest

from tests.clients.neovim.editor import PLUGIN


@pytest.fixture(scope="module")
def editor(start):
    return start(None)


def complaint(editor, options):
    return editor.lua(
        "local ok, message = pcall(require('tabahead').setup, ...)"
        " return ok and 'no complaint' or message",
        options,
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"cmds": ["x"]}, "tabahead: unknown option `cmds`; did you mean `cmd`?"),
        (
            {"keys": {"acept_word": "<C-l>"}},
            "tabahead: unknown option `keys.acept_word`; did you mean `keys.accept_word`?",
        ),
        (
            {"keys": {"accept": 9}},
            "tabahead: `keys.accept` must be a key such as '<C-l>', or false for none",
        ),
        (
            {"cmd": "tabahead --stdio"},
            "tabahead: `cmd` must be a list of strings, such as { 'tabahead', '--stdio' }",
        ),
        (
            {"cmd": ["tabahead"]},
            "tabahead: `cmd` must hold `--stdio`, by which the server is told to speak with an"
            " editor",
        ),
        (
            {"settings": "fast"},
            "tabahead: `settings` must be a table of the server's settings, such as"
            " { mode = 'line' }",
        ),
        (
            {"display": "overlay"},
            "tabahead: `display` must be 'auto', 'builtin' or 'extmark', not 'overlay'",
        ),
        (
            {"root_markers": [1]},
            "tabahead: `root_markers` must be a list of file names, such as { '.git' }",
        ),
        ("all", "tabahead: setup() takes a table of options, not a string"),
    ],
    ids=str,
)
def test_a_wrong_option_is_named_with_what_to_do(editor, options, expected):
    assert complaint(editor, options) == expected


def test_the_display_of_0_12_is_refused_before_it(editor, version):
    taken = editor.lua(
        "local ok, taken = pcall(require('tabahead.config').take, { display = 'builtin' })"
        " return ok and taken.display or taken"
    )
    refused = "tabahead: `display = 'builtin'` needs Neovim 0.12; leave it out, or take 'extmark'"
    assert taken == ("builtin" if version == "0.12" else refused)


def test_before_setup_the_command_says_that_it_is_needed(editor):
    editor.nvim.command("Tabahead restart")
    assert editor.notices()[-1] == (
        "tabahead: call require('tabahead').setup() in your configuration first"
    )
    assert editor.server() is None


def test_an_unknown_subcommand_is_answered_with_the_nearest(editor):
    editor.nvim.command("Tabahead statistic")
    assert editor.notices()[-1] == (
        "tabahead: there is no `:Tabahead statistic`; did you mean `statistics`?"
    )


def test_subcommands_are_completed(editor):
    complete = "return vim.fn.getcompletion(..., 'cmdline')"
    assert editor.lua(complete, "Tabahead accept") == ["accept", "accept_line", "accept_word"]


def test_a_server_that_is_not_there_is_named_once_with_how_to_install_it(editor):
    editor.lua("require('tabahead').setup(...)", {"cmd": ["/nowhere/tabahead", "--stdio"]})
    editor.edit("one.py", attached=False)
    editor.edit("two.py", attached=False)
    found = [notice for notice in editor.notices() if "/nowhere/tabahead" in notice]
    assert len(found) == 1
    assert "pipx install" in found[0]
    assert editor.status()["kind"] == "error"


@pytest.mark.parametrize("subcommand", ["statistics", "trigger", "explain", "status"])
def test_without_the_server_a_subcommand_says_how_to_install_it(editor, subcommand):
    editor.lua("require('tabahead').setup(...)", {"cmd": ["/nowhere/tabahead", "--stdio"]})
    editor.edit("three.py", attached=False)
    count = len(editor.notices())
    editor.nvim.command(f"Tabahead {subcommand}")
    assert "pipx install" in editor.notices()[count:][-1]


def test_the_help_has_every_option_function_and_subcommand(editor):
    """helptags complains of tags that occur twice, and the help is found under its names."""
    copy = editor.folder / "doc"
    copy.mkdir()
    shutil.copy(PLUGIN / "doc" / "tabahead.txt", copy)
    editor.nvim.command(f"helptags {copy}")
    tags = {line.split("\t")[0] for line in (copy / "tags").read_text().splitlines()}
    functions = editor.lua("return vim.tbl_keys(require('tabahead'))")
    expected = {f"tabahead.{name}()" for name in functions if name != "is_set_up"}
    expected |= {f"tabahead-{name}" for name in ("cmd", "settings", "keys", "display")}
    expected |= {"tabahead-root_markers", ":Tabahead", "tabahead-statusline", "tabahead-highlights"}
    names = editor.lua("return vim.fn.getcompletion('Tabahead ', 'cmdline')")
    expected |= {f":Tabahead-{name}" for name in names}
    assert expected - tags == set()
