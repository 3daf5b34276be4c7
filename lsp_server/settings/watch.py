"""Tells when a settings file has changed since it was read.

Looks while somebody is typing, on the thread that may wait for a disk: an idle server does nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from lsp_server.files.versions import FileVersion, version_of
from lsp_server.scheduler import Scheduler

PERIOD = 2.0
"""Seconds from one look to the next."""

KEY = "settings"
"""The scheduler's key; no document's URI is this."""


class SettingsWatch:
    """Belongs to the event loop."""

    def __init__(self, disk: Scheduler) -> None:
        self._disk = disk
        self._files: tuple[Path, ...] = ()
        self._versions: list[FileVersion | None] = []
        self._due = 0.0
        self.changed: Callable[[], None] = lambda: None
        """Called when a file is another one: it is to be read again."""

    def reading(self, files: Sequence[Path]) -> None:
        """These are the files, and they are about to be read."""
        self._files = tuple(files)
        self._versions = [version_of(file) for file in files]

    def poke(self) -> None:
        """Somebody is typing: look, where the last look is a while ago."""
        now = asyncio.get_running_loop().time()
        if now < self._due or not self._files:
            return
        self._due = now + PERIOD
        files, versions = self._files, self._versions
        look = self._disk.submit(KEY, lambda _: [version_of(file) for file in files])
        look.add_done_callback(lambda done: self._compare(done, versions))

    def _compare(
        self, look: asyncio.Future[list[FileVersion | None]], versions: list[FileVersion | None]
    ) -> None:
        if look.cancelled() or look.exception() is not None or self._versions is not versions:
            return  # the server is ending, or the files were read again meanwhile
        if look.result() != versions:
            self.changed()
