"""The server behind the plugin: its life, its settings, why nothing is shown, what it is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.clients.neovim.conftest import ONLY_0_12
from tests.clients.neovim.editor import eventually

OFF = "tabahead \N{EN DASH}"
SCRIPT = {"value = ": "computed(1)", "other = ": "word_one word_two word_three"}


@pytest.fixture(scope="module")
def editor(scripted):
    return scripted(SCRIPT)


def show(editor):
    editor.type("<Esc>ccvalue = ")
    editor.wait_for_ghost("computed(1)")


def type_until(editor, look, what):
    """What has changed behind the server's back is seen by an answer to a later key."""

    def look_or_type():
        if found := look():
            return found
        editor.type("<BS> ")
        return None

    eventually(look_or_type, what, pause=0.5)


def explanation(editor, part):
    """The notice of `:Tabahead explain`."""
    num_before = len(editor.notices())
    editor.nvim.command("Tabahead explain")
    notices = eventually(lambda: editor.notices()[num_before:], "an explanation")
    assert part in notices[-1]
    return notices[-1]


def test_a_server_that_is_killed_is_started_again_and_serves_all_buffers(editor):
    editor.edit("first.py")
    editor.edit("second.py")
    show(editor)
    editor.type("<Esc>")
    old = editor.server()
    old.kill()
    eventually(lambda: (new := editor.server()) and new.pid != old.pid, "a new server")
    for name in ("second.py", "first.py"):
        editor.nvim.command(f"buffer {name}")
        eventually(editor.is_attached, f"the new server knows {name}")
        show(editor)
        editor.type("<Esc>")
    assert not old.is_running()
    assert editor.server().is_running()


@pytest.mark.parametrize("fileformat", ["unix", "dos"])
def test_what_is_typed_while_no_server_runs_is_known_to_the_next(editor, fileformat):
    """Neovim stops telling of a buffer that is changed while no server has it."""
    editor.edit(f"meanwhile_{fileformat}.py")
    editor.nvim.command(f"setlocal fileformat={fileformat}")
    show(editor)
    old = editor.server()
    old.kill()
    eventually(lambda: not editor.is_attached(), "Neovim knows of its end")
    editor.type("0 # typed meanwhile<CR>")
    eventually(editor.is_attached, "the new server knows the buffer")
    show(editor)
    editor.type("<Esc>oother = ")
    editor.wait_for_ghost("word_one word_two word_three")
    assert not old.is_running()
    editor.type("<Esc>")


def test_a_setting_that_is_changed_while_the_server_runs_is_heeded_and_explained(editor):
    editor.edit("settings.py")
    show(editor)
    editor.lua("require('tabahead').configure({ languages_off = { 'python' } })")
    type_until(editor, lambda: editor.reason() == "excluded", "the setting is heeded")
    assert editor.ghost() is None
    assert "`languages_off`" in explanation(editor, "(excluded)")
    editor.lua("require('tabahead').configure({ languages_off = {} })")
    type_until(editor, lambda: editor.ghost() == "computed(1)", "the setting is heeded")


def test_a_setting_that_is_changed_while_the_server_starts_is_heeded(scripted):
    editor = scripted(SCRIPT)
    editor.lua(
        "vim.cmd.edit('starting.py')"
        " require('tabahead').configure({ languages_off = { 'python' } })"
    )
    eventually(editor.is_attached, "the server knows the buffer")
    editor.type("ivalue = ")
    type_until(editor, lambda: editor.reason() == "excluded", "the setting is heeded")
    assert editor.ghost() is None
    assert "`languages_off`" in explanation(editor, "(excluded)")


def test_an_unknown_setting_is_reported_by_the_server(scripted):
    editor = scripted(SCRIPT, {"settings": {"modee": "line"}})
    editor.edit("unknown.py")
    assert "modee" in editor.wait_for_notice("`mode`")


def test_an_excluded_file_says_why_nothing_is_shown(editor):
    editor.edit(".env", "value = \n")
    editor.type("Go")
    editor.type("value = ")
    eventually(lambda: editor.reason() == "secret", "an answer")
    explanation(editor, "(secret)")
    assert editor.ghost() is None
    eventually(lambda: editor.status()["kind"] == "inactive", "the status says it too")
    assert editor.lua("return require('tabahead').statusline()") == OFF
    editor.type("<Esc>")


def test_a_buffer_without_a_name_says_why_nothing_is_shown(editor):
    editor.nvim.command("enew!")
    explanation(editor, "no name yet")
    path = editor.folder / "named.py"
    editor.type("ivalue = 1<Esc>")
    editor.nvim.command(f"write {path}")
    eventually(editor.is_attached, "the server knows it once it is written")
    show(editor)
    assert editor.reason() is None


def test_a_buffer_goes_on_under_its_new_name_before_it_is_written(editor):
    editor.edit("old_name.py")
    show(editor)
    editor.type("<Esc>")
    for command, name in (("file", "new_name.py"), ("saveas!", "third_name.py")):
        editor.nvim.command(f"{command} {name}")
        show(editor)
        editor.type("<Tab>")
        assert editor.text() == "value = computed(1)"
        editor.type("<Esc>")


def test_paused_nothing_is_shown_until_it_goes_on(editor):
    editor.edit("paused.py")
    show(editor)
    editor.nvim.command("Tabahead pause 10")
    eventually(lambda: editor.status()["kind"] == "inactive", "the status says so")
    type_until(editor, lambda: editor.reason() == "paused", "the pause is heeded")
    assert editor.ghost() is None
    explanation(editor, "(paused)")
    editor.nvim.command("Tabahead resume")
    editor.wait_for_ghost("computed(1)")  # without another key


def test_a_pause_outlives_the_server(editor):
    editor.edit("outlives.py")
    editor.nvim.command("Tabahead pause")
    eventually(lambda: editor.status()["kind"] == "inactive", "the pause begins")
    editor.nvim.command("Tabahead restart")
    eventually(editor.is_attached, "another server")
    eventually(lambda: "aused" in editor.status()["message"], "it is paused too")
    editor.nvim.command("Tabahead resume")
    show(editor)
    assert editor.status()["kind"] == "normal"


def test_a_pause_of_no_time_is_refused(editor):
    editor.nvim.command("Tabahead pause ten")
    assert editor.notices()[-1] == (
        "tabahead: `:Tabahead pause` takes a number of minutes, such as 10"
    )


def test_off_in_one_buffer_is_on_in_the_others(editor):
    editor.edit("off.py")
    show(editor)
    editor.nvim.command("Tabahead toggle")
    assert editor.ghost() is None
    editor.type("<BS> ")
    assert editor.ghost() is None
    explanation(editor, "off in this buffer")
    assert editor.lua("return require('tabahead').statusline()") == OFF
    editor.type("<Esc>")
    editor.edit("on.py")
    show(editor)
    editor.type("<Esc>")
    editor.nvim.command("buffer! off.py")
    editor.nvim.command("Tabahead toggle")
    show(editor)


def test_a_file_of_another_folder_brings_its_folder(editor):
    root = editor.folder / "elsewhere"
    (root / ".git").mkdir(parents=True)
    (root / "tabahead.toml").write_text('exclude = ["*.py"]\n')
    editor.edit("elsewhere/alone.py")
    editor.type("ivalue = ")
    type_until(editor, lambda: editor.reason() == "excluded", "the folder's settings are read")
    assert "`*.py`" in explanation(editor, "(excluded)")
    editor.type("<Esc>")


def test_what_is_accepted_is_reported_whole_and_in_part(scripted):
    editor = scripted(SCRIPT)
    editor.edit("report.py")
    show(editor)
    editor.type("<Tab>")
    editor.type("<Esc>ccother = ")
    editor.wait_for_ghost("word_one word_two word_three")
    editor.type("<M-Right>")
    editor.type("<Esc>")
    editor.close()
    editor.wait_for_end()
    command = [sys.executable, "-P", "-m", "lsp_server", "stats", "--json"]
    printed = subprocess.run(
        command, env=editor.environment, capture_output=True, check=True, text=True
    ).stdout
    counted = json.loads(printed)
    assert counted["accepted"] == 1
    assert counted["partially_accepted"] == 1
    assert counted["parts.word"] == 1


def test_statistics_open_in_a_window(editor):
    editor.edit("window.py")
    editor.nvim.command("Tabahead statistics")
    # There may be none yet: the server writes them from time to time.
    eventually(lambda: "counted" in editor.text().lower(), "the statistics")
    assert editor.nvim.current.buffer.options["buftype"] == "nofile"
    editor.type("q")


@pytest.mark.parametrize("import_path", ["{}", ":{}"])
def test_the_workspace_is_not_on_the_import_path(scripted, monkeypatch, import_path):
    """What the workspace has under the name of the server, or of what it needs, is never run."""
    monkeypatch.setenv("PYTHONPATH", import_path.format(os.environ.get("PYTHONPATH", "/nowhere")))
    command = [sys.executable, "-m", "lsp_server", "--stdio"]  # as somebody might write it
    trap = dict.fromkeys(("lsp_server.py", "json.py"), "open('run', 'w')\n")
    editor = scripted(SCRIPT, workspace=trap, command=command)
    editor.edit("trap.py")
    show(editor)
    editor.nvim.command("checkhealth tabahead")
    assert not (editor.folder / "run").exists()


def test_what_is_shown_can_be_accepted_after_the_server_has_ended(scripted):
    editor = scripted(SCRIPT)
    editor.edit("ended.py")
    show(editor)
    editor.server().kill()
    eventually(lambda: not editor.is_attached(), "Neovim knows of its end")
    editor.type("<Tab>")
    assert editor.text() == "value = computed(1)"
    assert [said for said in editor.notices() if said.startswith("tabahead: ")] == []


@ONLY_0_12
def test_a_server_that_ends_again_and_again_is_given_up_with_a_clear_message(start):
    command = [sys.executable, "-c", "raise SystemExit(3)", "--stdio"]
    editor = start({"cmd": command})
    editor.edit("dead.py", attached=False)
    said = editor.wait_for_notice("ended 5 times")
    assert said == (
        "tabahead: the server ended 5 times, last with exit code 3; `:checkhealth tabahead` looks"
        " for the cause, `:Tabahead restart` tries again"
    )
    assert editor.status()["kind"] == "error"
    assert editor.server() is None


def test_health_tells_version_model_buffers_keys_and_other_ghost_text(editor):
    editor.edit("healthy.py")
    editor.nvim.command("inoremap <buffer> <M-]> x")
    editor.lua("package.loaded['copilot.suggestion'] = {}")
    editor.nvim.command("checkhealth tabahead")
    report = eventually(lambda: "other ghost text" in editor.text() and editor.text(), "a report")
    for part in (
        "it runs, version 0.1.0",
        "model: scripted:",
        "buffers are completed",
        "accept: <Tab>",
        "next: <M-]> is mapped in `healthy.py`: x",
        "copilot.lua shows ghost text too",
    ):
        assert part in report
    assert "ERROR" not in report
    editor.nvim.command("bwipeout!")
