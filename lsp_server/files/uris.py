"""What a document's URI says: its scheme, its path, and whether that is one of this machine.

Clients spell URIs in many ways, and some do not encode them. Nothing here fails or reads the disk.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from urllib.parse import unquote

VIEWS = frozenset(
    {
        *("output", "debug", "search-editor", "search", "term", "walkthrough", "vscode-terminal"),
        *("git", "gitlens", "gitlens-git", "git-graph", "fugitive", "diffview", "gitsigns"),
        *("review", "pr", "githubpr", "conflictresolution", "merge-conflict.conflict-diff"),
        *("jdt", "omnisharp-metadata", "csharp", "deno", "zipfile", "jar", "http", "https"),
    }
)
"""Schemes of what editors show and nobody writes: consoles, old versions, libraries' sources."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
"""Two characters at least: one alone is a drive of Windows."""
_DRIVE = re.compile(r"[A-Za-z]:/")

_WHOLE = frozenset({"", "file", "untitled"})
"""Schemes that know neither query nor fragment: `#` and `?` are what a client did not encode."""
_OF_THIS_MACHINE = frozenset({"vscode-notebook-cell", "vscode-remote", "vscode-interactive"})
"""Their paths lie where the server runs, whatever host they name."""


def scheme_of(uri: str) -> str:
    """In lower case; empty for a plain path."""
    found = _SCHEME.match(uri)
    return found[1].lower() if found else ""


def path_of(uri: str) -> str:
    """The path of a URI with forward slashes; a plain path, or what is no URI, stays what it is."""
    return _paths(uri)[0]


def file_of(uri: str) -> str:
    """The URI of what is one file to the user: of a notebook's cell the part that all have."""
    return uri.partition("#")[0] if scheme_of(uri) == "vscode-notebook-cell" else uri


def names_of(uri: str) -> tuple[str, ...]:
    """All paths that a URI may mean: the one that `path_of` gives, and those with a query or a
    fragment cut off. For rules that are to hold whatever is meant."""
    return _paths(uri)


def disk_path(uri: str) -> Path | None:
    """The absolute path on this machine; None where the document can be in no folder of it."""
    native = native_path(uri, windows=os.name == "nt")
    return None if native is None else Path(os.path.normpath(native))


def native_path(uri: str, *, windows: bool) -> str | None:
    """An absolute path as the system would have it, with forward slashes."""
    scheme, host, _ = _parts(uri)
    path = path_of(uri)
    if scheme in VIEWS or "\0" in path:
        return None
    if windows and _DRIVE.match(path.removeprefix("/")):
        return path.removeprefix("/")
    if host.lower() not in ("", "localhost") and scheme not in _OF_THIS_MACHINE:
        return f"//{host}{path}" if windows and scheme == "file" else None
    return path if path.startswith("/") else None


def _paths(uri: str) -> tuple[str, ...]:
    scheme, _, rest = _parts(uri)
    cut = re.split("[?#]", rest, maxsplit=1)[0]
    found = [rest, rest.partition("#")[0], cut] if scheme in _WHOLE else [cut]
    if scheme:
        found = [unquote(path, errors="surrogateescape") for path in found]
    return tuple(dict.fromkeys(map(_tidy, found)))


def _parts(uri: str) -> tuple[str, str, str]:
    """Scheme, host, and the rest as it is written."""
    scheme = scheme_of(uri)
    if not scheme:
        return "", "", uri
    rest = uri[len(scheme) + 1 :]
    if not rest.startswith("//"):
        return scheme, "", rest
    host, slash, path = rest[2:].partition("/")
    return scheme, unquote(host), slash + path


def _tidy(path: str) -> str:
    path = path.replace("\\", "/")
    if "/../" in path or "/./" in path:
        path = posixpath.normpath(path)
    return path
