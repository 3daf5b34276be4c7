"""Which rule of `.gitignore` and `.tabaheadignore` files ignores a path, from the top folder down.

Each file is read once a version. One that cannot be used costs a warning in the log, no completion.
Reads the disk: not for the event loop, and for one thread at a time.
"""

from __future__ import annotations

import logging
import os
import stat
import sys
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from lsp_server.files.git_config import GitConfig
from lsp_server.files.ignore_rules import Rule, last_match, parse
from lsp_server.files.versions import FileVersion, version_of

logger = logging.getLogger(__name__)

OWN_NAME = ".tabaheadignore"
GIT_NAME = ".gitignore"
MAX_BYTES = 256 * 1024
"""Of an ignore file; a larger one is none."""
MAX_FOLDERS = 100
"""Between the top folder and a file; rules in deeper ones are not read."""

_IGNORE_CASE = os.name == "nt" or sys.platform == "darwin"
_GIT_LINK = b"gitdir: "


@dataclass(frozen=True, slots=True)
class Ruling:
    """A rule that decides about a path, and where it stands."""

    file: Path
    rule: Rule

    def __str__(self) -> str:
        return f"line {self.rule.line} of {self.file} (`{self.rule.text}`)"


@dataclass(frozen=True, slots=True)
class _Source:
    """Rules that speak of what lies below a folder."""

    depth: int
    """Of that folder below the top."""
    file: Path
    rules: tuple[Rule, ...]


class IgnoreFiles:
    """What ignore files say; keeps those read last."""

    def __init__(self, max_files: int = 256) -> None:
        self._max_files = max_files
        self._git_config = GitConfig()
        self._read: OrderedDict[Path, tuple[FileVersion, tuple[Rule, ...]]] = OrderedDict()
        self.num_changes = 0
        """Of files, as far as they were noticed: new, written again, gone."""

    def __len__(self) -> int:
        return len(self._read)

    def ruling(self, path: Path, folders: Collection[Path], *, gitignore: bool) -> Ruling | None:
        """The rule that ignores a file; None where none does.

        `path` is absolute. Rules count from the workspace folder that holds it, or from the
        repository's where that lies further up. What `.tabaheadignore` says of a file, or of a
        folder above it, goes before all that `.gitignore` says, and `gitignore` tells whether that
        is heard at all.
        """
        top = _top(path, folders)
        parents = [folder for folder in reversed(path.parents) if folder.is_relative_to(top)]
        parts = [os.fsencode(part) for part in path.relative_to(top).parts]
        parents = parents[:MAX_FOLDERS]
        found = _decide(parts, self._sources(parents, OWN_NAME), folders_count=True)
        if found is None and gitignore:
            sources = self._sources(parents, GIT_NAME) + self._excludes(parents)
            found = _decide(parts, sources, folders_count=False)
        return found if found is not None and found.rule.ignores else None

    def _sources(self, folders: Sequence[Path], name: str) -> list[_Source]:
        """Of all files with this name, the deepest first."""
        found = [
            _Source(depth, folder / name, self._rules(folder / name))
            for depth, folder in enumerate(folders)
        ]
        return [source for source in reversed(found) if source.rules]

    def _excludes(self, folders: Sequence[Path]) -> list[_Source]:
        """Of `info/exclude` of the repositories that begin in these folders, and behind them all
        what the user's git ignores in any repository."""
        found, everywhere = list[_Source](), list[_Source]()
        own = self._git_config.excludes_file()
        for depth, folder in enumerate(folders):
            common = _git_folder(folder / ".git")
            if common is not None:
                file = common / "info" / "exclude"
                found.append(_Source(depth, file, self._rules(file)))
                if own is not None:
                    everywhere.append(_Source(depth, own, self._rules(own)))
        return [source for source in (*reversed(found), *reversed(everywhere)) if source.rules]

    def _rules(self, file: Path) -> tuple[Rule, ...]:
        version = version_of(file)
        known = self._read.pop(file, None)
        if version is None:
            self.num_changes += known is not None
            return ()
        if known is None or known[0] != version:
            known = (version, _parsed(file))
            self.num_changes += 1
        self._read[file] = known
        if len(self._read) > self._max_files:
            self._read.popitem(last=False)
        return known[1]


def _decide(
    parts: Sequence[bytes], sources: Sequence[_Source], *, folders_count: bool
) -> Ruling | None:
    """The rule that decides about the path of `parts`; an ignored folder ignores all in it.

    `sources` come in the order of their rank. `folders_count`: a rule that keeps a folder from
    being ignored holds for what is in it too, where no rule speaks of that.
    """
    decided: Ruling | None = None
    for length in range(1, len(parts) + 1):
        is_folder = length < len(parts)
        found = _first_match(parts[:length], is_folder, sources)
        if found is not None and is_folder and found.rule.ignores:
            return found
        if found is not None or not folders_count:
            decided = found
    return decided


def _first_match(
    parts: Sequence[bytes], is_folder: bool, sources: Sequence[_Source]
) -> Ruling | None:
    for source in sources:
        if source.depth < len(parts):
            rule = last_match(source.rules, b"/".join(parts[source.depth :]), is_folder)
            if rule is not None:
                return Ruling(source.file, rule)
    return None


def _top(path: Path, folders: Collection[Path]) -> Path:
    """The outermost of the workspace folders that hold the path and of its repository; the path's
    own folder where there is neither."""
    tops = [folder for folder in folders if folder in path.parents]
    repository = next((folder for folder in path.parents if os.path.lexists(folder / ".git")), None)
    if repository is not None:
        tops.append(repository)
    return min(tops, key=lambda folder: len(folder.parts), default=path.parent)


def _parsed(file: Path) -> tuple[Rule, ...]:
    """No rules, and a warning in the log, where the file cannot be used."""
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
            raise ValueError(f"it must be an ordinary file of at most {MAX_BYTES} bytes")
        data = file.read_bytes()
        if b"\0" in data:
            raise ValueError("it is not text")
    except (OSError, ValueError) as error:
        logger.warning("%s cannot be used (%s); what it ignores is completed.", file, error)
        return ()
    return parse(data, _IGNORE_CASE)


def _git_folder(entry: Path) -> Path | None:
    """The folder that a `.git` is or points to, as in work trees and submodules: the one that all
    work trees of the repository share."""
    try:
        if entry.is_dir():
            return entry
        if not entry.is_file() or entry.stat().st_size > MAX_BYTES:
            return None
        link = entry.read_bytes()
        if not link.startswith(_GIT_LINK):
            return None
        folder = entry.parent / os.fsdecode(link.removeprefix(_GIT_LINK).rstrip(b"\r\n"))
        common = folder / "commondir"
        if common.is_file() and common.stat().st_size <= MAX_BYTES:
            return folder / os.fsdecode(common.read_bytes().rstrip(b"\r\n"))
        return folder
    except (OSError, ValueError):
        return None
