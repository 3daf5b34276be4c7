"""What the disk says of a document: the ignore files above it, and where its links lead.

Reads the disk: not for the event loop, and for one thread at a time.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from lsp_server.completion import Reason, Refusal
from lsp_server.files.exclusion import refuse_name
from lsp_server.files.ignore_files import IgnoreFiles
from lsp_server.files.uris import disk_path
from lsp_server.settings.tree import Settings


class FileRules:
    """One workspace's rules under one version of the settings."""

    def __init__(
        self, settings: Settings, folders: Sequence[Path], ignore_files: IgnoreFiles
    ) -> None:
        """`folders` are the workspace's roots, absolute."""
        self._settings = settings
        self._folders = tuple(Path(os.path.normpath(folder)) for folder in folders)
        self._ignore_files = ignore_files

    @property
    def num_changes(self) -> int:
        """Of ignore files, as far as they were noticed; may be asked from any thread."""
        return self._ignore_files.num_changes

    def refuse(self, uri: str) -> Refusal | None:
        """Why a document is left alone, by its place on the disk; None where it may be completed.

        A link is refused by what it leads to as well.
        """
        path = disk_path(uri)
        if path is None:
            return None
        folders = {*self._folders, *map(_target, self._folders)}
        refusal = self._refuse_ignored(path, folders)
        if refusal is not None:
            return refusal
        target = _target(path)
        if target == path:
            return None
        refusal = refuse_name(str(target), self._settings)
        if refusal is None:
            refusal = self._refuse_ignored(target, folders)
        if refusal is None:
            return None
        return Refusal(refusal.reason, f"It is a link to {target}. {refusal.message}")

    def _refuse_ignored(self, path: Path, folders: Collection[Path]) -> Refusal | None:
        gitignore = self._settings.respect_gitignore
        ruling = self._ignore_files.ruling(path, folders, gitignore=gitignore)
        return Refusal(Reason.EXCLUDED, f"Ignored by {ruling}.") if ruling is not None else None


def _target(path: Path) -> Path:
    """Where links lead, as far as they do; the path itself where the system cannot say."""
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError):
        return path
