"""What git itself says of ignore files: the oracle of ours."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conftest import missing

_ALONE = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
"""No setting of the machine takes part."""


def set_home(patch: pytest.MonkeyPatch, home: Path) -> None:
    """Have git, ours as well, look there for what is a user's own."""
    home.mkdir(parents=True, exist_ok=True)
    for name in ("HOME", "USERPROFILE"):
        patch.setenv(name, str(home))
    for name in ("XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL"):
        patch.delenv(name, raising=False)


def new_repository(folder: Path) -> Path:
    """An empty one; skips the test where there is no git."""
    if shutil.which("git") is None:
        missing("git is absent: install it")
    folder.mkdir(parents=True, exist_ok=True)
    _git(folder, "init", "-q")
    return folder


def deciding_rules(
    repository: Path, paths: Sequence[str], *, own: bool = False
) -> list[tuple[str, int] | None]:
    """For each path below the repository: (ignore file, line) of the rule that decides about it,
    whether it ignores the path or keeps it from being ignored; None where no rule matches. `own`:
    what lies in the home folder that was set takes part."""
    asked = b"\0".join(os.fsencode(path) for path in paths) + b"\0"
    question = ("check-ignore", "--no-index", "-v", "-n", "-z", "--stdin")
    told = _git(repository, *question, given=asked, own=own)
    fields = told.split(b"\0")[:-1]
    assert len(fields) == 4 * len(paths)
    return [
        (os.fsdecode(file), int(line)) if line else None
        for file, line, _, _ in zip(*[iter(fields)] * 4, strict=True)
    ]


def _git(folder: Path, *arguments: str, given: bytes = b"", own: bool = False) -> bytes:
    environment = {**os.environ, **_ALONE}
    options = ["-c", "core.ignoreCase=false"]
    if own:
        del environment["GIT_CONFIG_GLOBAL"]
    else:
        options += ["-c", "core.excludesFile="]
    done = subprocess.run(
        ["git", "-C", str(folder), *options, *arguments],
        input=given,
        capture_output=True,
        env=environment,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr  # 1: none of the paths is ignored
    return done.stdout
