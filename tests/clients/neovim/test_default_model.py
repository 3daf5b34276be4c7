"""The default model in a real Neovim: ghost text, its acceptance, further ones; and a picture."""

from __future__ import annotations

import re

import pytest

from tests.clients.neovim.conftest import ROOT, SCREENSHOTS
from tests.clients.neovim.editor import SERVER, eventually

SAMPLE = ROOT / "tests" / "samples" / "shopping.py"


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """One for all versions: what the server measures of the machine is kept there."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def editor(start, default_model_folder, home):
    return start(
        {"cmd": [*SERVER, "--model", str(default_model_folder)]},
        environment={"TABAHEAD_HOME": str(home)},
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


def two_suggestions(editor):
    """The first and the second, somewhere: under load there may be time for one only."""
    pattern = re.compile(r" \(2/\d\)$")
    for start in ("total += ", "total = total + ", "self.prices["):
        editor.type(f"<Esc>Gcc{start}<M-Bslash>")
        first = editor.wait_for_any_ghost()
        editor.type("<M-]>")
        try:
            eventually(lambda: any(map(pattern.search, editor.screen().lines())), "", timeout=8.0)
        except AssertionError:  # another place, then
            continue
        return first, pattern.sub("", editor.ghost() or "")
    raise AssertionError("nowhere was there a second suggestion")


def test_further_suggestions_are_asked_for_and_one_can_go_back(editor):
    editor.edit("shopping.py", SAMPLE.read_bytes())
    first, second = two_suggestions(editor)
    before = editor.text()
    assert second != first
    editor.type("<M-[>")
    eventually(lambda: (editor.ghost() or "").startswith(first), "the first again")
    editor.type("<M-]><Tab>")
    assert editor.text() == before + second
