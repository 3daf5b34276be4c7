"""Other units of positions than UTF-8, which the other tests have: places and counts stay right."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.clients.neovim.editor import SERVER

SMILE = "\U0001f600"
SCRIPT = {
    f'a = "{SMILE}é" + ': f'"{SMILE}{SMILE}" + rest',
    f'draw("{SMILE}é", ': f'"{SMILE}")',
}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_text_and_place_are_right_in_every_encoding(scripted, encoding):
    editor = scripted(SCRIPT, encodings=[encoding])
    editor.edit("smile.py", f'draw("{SMILE}é", )\n')
    assert editor.lua("return require('tabahead.server').client().offset_encoding") == encoding
    editor.type("$i")
    editor.wait_for_ghost(f'"{SMILE}"')
    editor.type("<Tab><Esc>")
    assert editor.text() == f'draw("{SMILE}é", "{SMILE}")'
    editor.type(f'oa = "{SMILE}é" + ')
    editor.wait_for_ghost(f'"{SMILE}{SMILE}" + rest')
    # Accepted before the server has said anew what is left.
    editor.freeze_server()
    editor.type('"')
    editor.type("<M-Right>")
    editor.thaw_server()
    assert editor.text().split("\n")[1] == f'a = "{SMILE}é" + "{SMILE}{SMILE}'
    editor.type("<Esc>")
    editor.close()
    editor.wait_for_end()
    printed = subprocess.run(
        [*SERVER[:-1], "stats", "--json"],
        env=editor.environment,
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    counted = json.loads(printed)
    assert (counted["accepted"], counted["partially_accepted"]) == (1, 1)
    # The quote was typed.
    assert counted["characters"] == len(f'"{SMILE}"') + len(f"{SMILE}{SMILE}")
