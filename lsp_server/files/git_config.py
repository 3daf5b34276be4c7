"""Which file git reads for all of a user's repositories besides their own: `core.excludesFile`.

The user's configuration is read as git reads it, but for other files that it includes. Git itself
is not asked: where the editor's PATH lacks it private files would be read, and a Mac without it
would offer to install it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from lsp_server.files.versions import FileVersion, version_of

MAX_BYTES = 256 * 1024
"""Of a configuration file; a larger one is none."""

_SECTION = re.compile(r'\s*\[\s*([\w.-]+)\s*("(?:[^"\\]|\\.)*")?\s*\]')
_ENTRY = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)[ \t]*=[ \t]*(.*)", re.DOTALL)
_CONTINUED = re.compile(r"\\\r?\n")
_ESCAPED = {"n": "\n", "t": "\t", "b": "\b"}


class GitConfig:
    """The user's; each file is read once a version. Reads the disk."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[FileVersion, str | None]] = {}

    def excludes_file(self) -> Path | None:
        """An absolute path, whether there is such a file or not; None where git is to read none."""
        home = Path(os.path.expanduser("~"))
        own = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "git"
        named = os.environ.get("GIT_CONFIG_GLOBAL")
        files = [own / "config", home / ".gitconfig"] if named is None else [Path(named)]
        found = [value for value in map(self._excludes_file, files) if value is not None]
        path = Path(os.path.expanduser(found[-1])) if found else own / "ignore"
        return path if path.is_absolute() else None

    def _excludes_file(self, file: Path) -> str | None:
        """The value as it is written, maybe empty; None where the file has none."""
        version = version_of(file)
        if version is None or version[1] > MAX_BYTES or not file.is_file():
            return None
        if file not in self._known or self._known[file][0] != version:
            self._known[file] = (version, _last_excludes_file(file))
        return self._known[file][1]


def _last_excludes_file(file: Path) -> str | None:
    try:
        text = file.read_text(encoding="utf-8-sig", errors="surrogateescape")
    except OSError:
        return None
    found = None
    for section, key, value in _entries(text):
        if (section, key) == ("core", "excludesfile"):
            found = value
    return found


def _entries(text: str) -> Iterator[tuple[str, str, str]]:
    """(section, key, value), names in lower case."""
    section = ""
    for line in _CONTINUED.sub("", text).split("\n"):
        rest = line
        if (header := _SECTION.match(line)) is not None:
            section = header[1].lower() + (header[2] or "")
            rest = line[header.end() :]
        if (entry := _ENTRY.fullmatch(rest)) is not None:
            yield section, entry[1].lower(), _value(entry[2])


def _value(written: str) -> str:
    """Without quotes, escapes, a comment and blanks at the end."""
    value, blanks, is_quoted = "", "", False
    characters = iter(written)
    for character in characters:
        if character == '"':
            is_quoted = not is_quoted
        elif not is_quoted and character in "#;":
            break
        elif not is_quoted and character.isspace():
            blanks += character
        else:
            if character == "\\":
                escaped = next(characters, "")
                character = _ESCAPED.get(escaped, escaped)
            value += blanks + character
            blanks = ""
    return value
