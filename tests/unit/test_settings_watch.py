"""A settings file that changes is noticed while somebody types, and not oftener than need be."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from lsp_server.scheduler import Scheduler
from lsp_server.settings import watch as settings_watch
from lsp_server.settings.watch import KEY, SettingsWatch


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    (tmp_path / "there.toml").write_text("a = 1", "utf-8")
    return [tmp_path / "there.toml", tmp_path / "absent.toml"]


def run(files: list[Path], *changes: object) -> list[int]:
    """How often a change is told after each of the changes, with a look after each."""

    async def main() -> list[int]:
        disk, told, counts = Scheduler("disk"), list[bool](), list[int]()
        watch = SettingsWatch(disk)
        watch.poke()  # nothing has been read yet
        watch.changed = lambda: told.append(True)
        watch.reading(files)
        for change in changes:
            assert callable(change)
            change()
            watch.poke()
            await disk.submit("behind it", lambda cancel: None)
            await asyncio.sleep(0)  # callbacks run
            counts.append(len(told))
            if told:
                watch.reading(files)
        disk.stop()
        assert await asyncio.to_thread(disk.join, 20)
        return counts

    return asyncio.run(main())


def test_changed_new_and_removed_files_are_told_once_each(
    files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings_watch, "PERIOD", 0.0)
    there, absent = files
    counts = run(
        files,
        lambda: None,
        lambda: os.utime(there, ns=(1, 1)),
        lambda: None,
        lambda: absent.write_text("b", "utf-8"),
        there.unlink,
        lambda: None,
    )
    assert counts == [0, 1, 1, 2, 3, 3]


def test_between_two_looks_nothing_is_asked(files: list[Path]) -> None:
    counts = run(files, lambda: None, files[0].unlink, lambda: None)
    assert counts == [0, 0, 0]


def test_what_was_read_again_meanwhile_is_no_change(
    files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings_watch, "PERIOD", 0.0)

    async def main() -> list[bool]:
        disk, told = Scheduler("disk"), list[bool]()
        watch = SettingsWatch(disk)
        watch.changed = lambda: told.append(True)
        watch.reading(files)
        files[0].unlink()
        watch.poke()
        watch.reading(files)
        await disk.submit("behind it", lambda cancel: None)
        watch.poke()
        disk.cancel(KEY)  # as when the server ends
        await asyncio.sleep(0)  # callbacks run
        return told

    assert asyncio.run(main()) == []
