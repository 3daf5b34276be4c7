"""The Neovims that set_up.sh has brought, and one with the plugin for each test or module."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.clients.neovim.editor import SERVER, Editor
from tests.conftest import missing

ROOT = Path(__file__).parents[3]
TOOLS = ROOT / "out" / "clients"
SCREENSHOTS = TOOLS / "screenshots"

Start = Callable[..., Editor]


VERSIONS = os.environ.get("NEOVIMS", "0.12 0.11").split()


ONLY_0_12 = pytest.mark.parametrize("version", ["0.12"], indirect=True, scope="session")
"""For what older ones do not have, or what takes long and is the same in all."""


@pytest.fixture(params=VERSIONS, scope="session")
def version(request: pytest.FixtureRequest) -> str:
    """0.12 draws ghost text by itself, those before leave it to the plugin."""
    return request.param


@pytest.fixture(scope="session")
def neovim(version: str) -> Path:
    program = TOOLS / f"nvim-{version}" / "nvim"
    if not program.exists():
        missing(f"Neovim {version} is absent: `make test-neovim NEOVIMS={version}` brings it")
    return program


@pytest.fixture(scope="module")
def start(neovim: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """start(options, **further) -> an editor with the plugin, ended with the module."""
    editors: list[Editor] = []

    def start_one(options: Mapping[str, Any] | None = None, **further: Any) -> Editor:
        editors.append(Editor(neovim, tmp_path_factory.mktemp("editor"), options, **further))
        return editors[-1]

    yield start_one
    for editor in editors:
        editor.close()
    for editor in editors:
        editor.wait_for_end()


@pytest.fixture(scope="module")
def scripted(start: Start, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Editor]:
    """scripted({text before the cursor: what the model writes then}, **further) -> an editor."""

    def start_one(
        script: Mapping[str, str],
        options: Mapping[str, Any] | None = None,
        command: Sequence[str] = SERVER,
        **further: Any,
    ) -> Editor:
        home = tmp_path_factory.mktemp("home")
        path = home / "script.json"
        entries = [{"after": after, "text": text} for after, text in script.items()]
        path.write_text(json.dumps(entries), encoding="utf-8")
        return start(
            {"cmd": [*command, "--model", f"scripted:{path}"], **(options or {})},
            environment={"TABAHEAD_HOME": str(home)},
            **further,
        )

    return start_one
