"""The default model in a real Neovim: ghost text, its acceptance, further ones; and a picture."""

from __future__ import annotations

import re

import pytest

from tests.clients.neovim.conftest import ROOT, SCREENSHOTS
from tests.clients.neovim.editor import SERVER, eventually

SAMPLE = ROOT / "tests" / "samples" / "shopping.py"


@pytest.fixture(scope="module")
def editor(start, default_model_folder, tmp_path_factory):
    return start(
        {"cmd": [*SERVER, "--model", str(default_model_folder)]},
        environment={"TABAHEAD_HOME": str(tmp_path_factory.mktemp("home"))},
    )


@pytest.fixture(autouse=True)
def normal_mode(editor):
    yield
    editor.type("<Esc>")
    editor.nvim.command("%bwipeout!")


def test_the_sample_is_completed_and_shown(editor, version):
    editor.edit("shopping.py", SAMPLE.read_bytes())
    editor.nvim.command("set number nowrap")
    # The model is still being loaded: its answer comes without another key.
    editor.type("GAself.prices")
    ghost = editor.wait_for_any_ghost()
    before = editor.text()
    screen = editor.screen()
    screen.save(SCREENSHOTS / f"neovim-{version}.svg", f"Neovim {version}")
    shown = "\n".join(line[4:] for line in screen.lines())  # without the numbers
    assert f"total += self.prices{ghost}\n" in shown
    editor.type("<Tab>")
    assert editor.text() == before + ghost


def test_further_suggestions_are_asked_for_and_one_can_go_back(editor):
    editor.edit("shopping.py", SAMPLE.read_bytes())
    editor.type("GA<M-Bslash>")
    first = editor.wait_for_any_ghost()
    editor.type("<M-]>")
    pattern = re.compile(r"\(2/\d\)")
    eventually(lambda: any(map(pattern.search, editor.screen().lines())), "the second")
    second = re.sub(r" \(\d/\d\)$", "", editor.ghost() or "")
    assert second != first
    editor.type("<M-[>")
    eventually(lambda: (editor.ghost() or "").startswith(first), "the first again")
    editor.type("<M-]><Tab>")
    assert editor.text().endswith(f"total += {second}")
