"""Whether a file is still the one that was read."""

from __future__ import annotations

import stat
from pathlib import Path

FileVersion = tuple[int, int, int]
"""Time of the last change in ns, size in bytes, number of the file."""


def version_of(file: Path) -> FileVersion | None:
    """None where there is no file that could be read. Opens nothing: a pipe may wait for ever."""
    try:
        status = file.stat()
    except (OSError, ValueError):
        return None
    if stat.S_ISDIR(status.st_mode):
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
