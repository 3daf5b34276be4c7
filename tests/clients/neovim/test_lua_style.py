"""The plugin's Lua as luacheck and StyLua want it, by the files of its folder."""

from __future__ import annotations

import shutil
import subprocess

from tests.clients.neovim.conftest import ROOT, TOOLS
from tests.clients.neovim.editor import HERE, PLUGIN
from tests.conftest import missing

FILES = sorted([*PLUGIN.rglob("*.lua"), *HERE.glob("*.lua")])


def test_luacheck_finds_nothing():
    luacheck = TOOLS / "nvim-0.12" / "luacheck"
    if not luacheck.exists():
        missing("luacheck is absent: `make test-neovim` brings it")
    command = [luacheck, "--config", PLUGIN / ".luacheckrc", "--no-color", *FILES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_stylua_would_change_nothing():
    folder = TOOLS / "stylua"
    node = shutil.which("node")
    if node is None or not folder.exists():
        missing("StyLua is absent: `make test-neovim` brings it where there is Node")
    command = [node, HERE / "stylua.mjs", PLUGIN / "stylua.toml", *FILES]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert len(FILES) > 15, ROOT
