"""A folder that appears complete or not at all, with what its manifest says of it."""

from __future__ import annotations

import errno
import io
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from export import BUILDER_VERSION
from lsp_server.engine.manifest import FileEntry, sha256_of
from lsp_server.errors import StorageError

Progress = Callable[[str, int, int], None]
"""Stage, steps done, steps in all; whatever it raises stops the build and leaves nothing behind."""

_LEFTOVER_SECONDS = 3600.0


def silent(stage: str, done: int, total: int) -> None:
    return None


def hashed(
    folder: Path, sources: Sequence[Path], report: Progress
) -> tuple[dict[str, FileEntry], list[str]]:
    """Every file of `folder` with its hash, and the hashes of `sources`."""
    paths = sorted(folder.iterdir())
    total = len(paths) + len(sources)
    files: dict[str, FileEntry] = {}
    for done, path in enumerate(paths):
        report("hashes", done, total)
        files[path.name] = FileEntry(sha256=sha256_of(path), size=path.stat().st_size)
    hashes = []
    for done, path in enumerate(sources, len(paths)):
        report("hashes", done, total)
        hashes.append(sha256_of(path))
    report("hashes", total, total)
    return files, hashes


def npy_bytes(array: NDArray[np.generic]) -> bytes:
    """The bytes of a `.npy` file."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def made_by(command: str, libraries: Sequence[str]) -> str:
    """The command and the versions that decide what it writes."""
    versions = ", ".join(f"{name} {_version(name)}" for name in libraries)
    return (
        f"tabahead {_version('tabahead')} export {command} (builder {BUILDER_VERSION}; {versions})"
    )


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "from source"


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A temporary sibling of `out`: becomes `out` if the block succeeds, is removed if not."""
    try:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise StorageError(f"{out} exists already; remove it or choose another folder.")
        out.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(out)
        folder = out.parent / f".{out.name}.partial-{os.getpid()}"
        folder.mkdir()
    except OSError as error:
        raise _storage_error(out, error) from error
    try:
        yield folder
        if out.exists():
            out.rmdir()
        folder.rename(out)
    except OSError as error:
        raise _storage_error(out, error) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_leftovers(out: Path) -> None:
    """What a killed build left; a young folder may belong to a build that still runs."""
    for path in out.parent.glob(f".{out.name}.partial-*"):
        if time.time() - path.stat().st_mtime > _LEFTOVER_SECONDS:
            shutil.rmtree(path, ignore_errors=True)


def _storage_error(out: Path, error: OSError) -> StorageError:
    if error.errno == errno.ENOSPC:
        return StorageError(
            f"The disk of {out.parent} is full; free some space (an int8 build needs about as many"
            " bytes as the model has parameters, fp32 four times that) or build elsewhere."
        )
    return StorageError(
        f"{out} cannot be written ({error.strerror or error}); choose a folder that you may write"
        " to, or set TABAHEAD_HOME."
    )


def sync(file: BinaryIO) -> None:
    """To the disk, so that no rename can outlive its data."""
    file.flush()
    os.fsync(file.fileno())


def write_synced(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        sync(file)
