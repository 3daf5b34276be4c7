"""Model builds on disk: which one is current, who uses which, which may go.

Layout below the cache's `models/`: `NAME/<build-hash>/` are complete builds, `NAME/current` names
one of them, `NAME/.users/<build-hash>/*.lock` are held by the processes that map it. A build is
never changed, renamed or deleted while such a lock is held.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from lsp_server.engine.manifest import MANIFEST_NAME
from lsp_server.errors import ModelMissingError, StorageError
from lsp_server.paths import paths

if TYPE_CHECKING:
    from filelock import BaseFileLock

log = logging.getLogger(__name__)

CURRENT = "current"
"""The pointer file's name."""
PARTIAL = ".partial-"
"""Prefix of everything unfinished; whoever holds the fetch lock may delete it."""

_TRASH = ".trash-"
_USERS = ".users"
_LOCKS = ".locks"
_HASH = re.compile(r"[0-9a-f]{16}")
_GUARD_SECONDS = 10.0
_NUM_TRIES = 20

_T = TypeVar("_T")


def build_hash(source_sha256: str, builder_version: int, weights: str, context_length: int) -> str:
    """The folder name of a build: equal inputs, equal name."""
    recipe = json.dumps([source_sha256, builder_version, weights, context_length])
    return hashlib.sha256(recipe.encode()).hexdigest()[:16]


def model_root(name: str) -> Path:
    return paths().models / name


def downloads(name: str) -> Path:
    """Where the checkpoint of `name` is kept, so that a rebuild needs no network."""
    return paths().downloads / name


def current(name: str) -> Path | None:
    """The folder of the current build; None when there is none or the pointer is damaged."""
    return _current(model_root(name))


def _current(root: Path) -> Path | None:
    try:
        text = _patiently(lambda: (root / CURRENT).read_text(encoding="ascii")).strip()
    except (OSError, ValueError) as error:
        log.debug("no current build in %s: %s", root, error)
        return None
    if not _HASH.fullmatch(text):
        log.debug("damaged pointer in %s: %r", root, text[:40])
        return None
    folder = root / text
    return folder if (folder / MANIFEST_NAME).is_file() else None


def publish(name: str, built: Path, build: str) -> Path:
    """Give the complete folder `built` its name `build` and make it current, in one guarded step.

    `built` must be on the same file system. Raises OSError.
    """
    root = model_root(name)
    _sync_files(built)
    with _guard(root):
        # Not visible before it is current, or a collecting server would take it for an old one.
        os.replace(built, root / build)
        _write_pointer(root, build)
    return root / build


def point(name: str, build: str) -> Path:
    """Make an existing build current. Raises OSError."""
    root = model_root(name)
    with _guard(root):
        _write_pointer(root, build)
    return root / build


def discard(name: str, build: str) -> None:
    """Delete a damaged build; StorageError when a process still has it mapped."""
    root = model_root(name)
    with _guard(root):
        _refuse_if_used(root, build)
        trash = _to_trash(root, root / build)
    _delete(trash)


def remove(name: str) -> bool:
    """Delete all builds and the kept checkpoint of `name`; False when there was nothing.

    Raises StorageError while a process uses one of the builds, OSError when deleting fails.
    """
    root = model_root(name)
    for trash in root.parent.glob(f"{_TRASH}*"):
        _delete(trash)
    existed = root.exists() or downloads(name).exists()
    if root.exists():
        with _guard(root):
            for build in _builds(root):
                _refuse_if_used(root, build.name)
            (root / CURRENT).unlink(missing_ok=True)
            trash = root.with_name(f"{_TRASH}{secrets.token_hex(4)}")
            os.replace(root, trash)
        shutil.rmtree(trash)
    if downloads(name).exists():
        shutil.rmtree(downloads(name))
    return existed


def collect(name: str) -> list[Path]:
    """Delete builds that are neither current nor in use; called after a fetch and at server start.

    Returns what was deleted. Never fails: what cannot go now is left for the next time.
    """
    root = model_root(name)
    if not root.is_dir():
        return []
    gone: list[Path] = []
    try:
        with _guard(root):
            keep = _current(root)
            # Without a pointer nothing is old: the next fetch may take up a complete build.
            old = [build for build in _builds(root) if keep is not None and build != keep]
            for build in old:
                if not _users(root, build.name):
                    _to_trash(root, build)
                    gone.append(build)
    except OSError as error:
        log.debug("collecting in %s stopped: %s", root, error)
    for trash in root.glob(f"{_TRASH}*"):
        _delete(trash)
    return gone


class ModelUse:
    """A model folder that stays as it is until `release`; also a context manager."""

    def __init__(self, folder: Path, lock: BaseFileLock | None) -> None:
        self.folder = folder
        self._lock = lock

    def release(self) -> None:
        """Idempotent; from any thread. The end of the process releases too."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()
            _delete(Path(lock.lock_file))

    def __enter__(self) -> ModelUse:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def use(folder: Path) -> ModelUse:
    """Mark a build as in use by this process; a folder outside the store needs no mark.

    Raises ModelMissingError when the build was collected meanwhile. A store that cannot be written
    gives an unmarked use: whoever cannot write there cannot collect there either.
    """
    root = folder.parent
    if not (root / CURRENT).is_file():
        return ModelUse(folder, None)
    try:
        with _guard(root):
            if not (folder / MANIFEST_NAME).is_file():
                raise ModelMissingError(
                    f"The model build {folder} is gone; run `tabahead models fetch {root.name}`."
                )
            users = root / _USERS / folder.name
            users.mkdir(parents=True, exist_ok=True)
            lock = _lock(users / f"{os.getpid()}-{secrets.token_hex(4)}.lock")
            lock.acquire(timeout=0)
    except OSError as error:
        log.debug("%s is used without a mark: %s", folder, error)
        return ModelUse(folder, None)
    return ModelUse(folder, lock)


@contextmanager
def fetching(name: str, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the inter-process lock under which `name` is fetched or removed.

    `waiting` is called about twice a second while another process holds it; what it raises ends
    the wait. Raises OSError when the lock file cannot be made.
    """
    from filelock import Timeout

    lock = _lock(_lock_path(model_root(name), "fetch"))
    timeout = 0.0
    while not lock.is_locked:
        try:
            lock.acquire(timeout=timeout)
        except Timeout:
            waiting()
            timeout = 0.5
    try:
        yield
    finally:
        lock.release()


def clean(directory: Path) -> None:
    """Delete what interrupted runs left unfinished; only under the fetch lock."""
    for leftover in directory.glob(f"{PARTIAL}*"):
        _delete(leftover)


def _builds(root: Path) -> list[Path]:
    return sorted(path for path in root.iterdir() if path.is_dir() and _HASH.fullmatch(path.name))


def _users(root: Path, build: str) -> list[str]:
    """Process ids that hold a lock on `build`; locks left by dead processes are cleared away."""
    from filelock import Timeout

    held: list[str] = []
    for path in sorted((root / _USERS / build).glob("*.lock")):
        lock = _lock(path)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            held.append(path.stem.partition("-")[0])
        else:
            lock.release()
            _delete(path)
    return held


def _refuse_if_used(root: Path, build: str) -> None:
    users = _users(root, build)
    if users:
        raise StorageError(
            f"The model {root.name} is in use by process {', '.join(users)}; close the editors"
            " that run tabahead and try again."
        )


def _to_trash(root: Path, build: Path) -> Path:
    trash = root / f"{_TRASH}{secrets.token_hex(4)}"
    os.replace(build, trash)
    _delete(root / _USERS / build.name)
    return trash


def _delete(path: Path) -> None:
    """Delete a file or tree as far as possible; Windows keeps what somebody has open."""
    try:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        log.debug("%s stays for now: %s", path, error)


def _write_pointer(root: Path, build: str) -> None:
    temporary = root / f"{PARTIAL}{secrets.token_hex(4)}"
    try:
        with temporary.open("w", encoding="ascii") as file:
            file.write(f"{build}\n")
            file.flush()
            os.fsync(file.fileno())
        _patiently(lambda: os.replace(temporary, root / CURRENT))
    finally:
        _delete(temporary)
    _sync_directory(root)


def _sync_files(folder: Path) -> None:
    """On disk before the name is, so that a power cut cannot leave a named folder of holes."""
    for path in folder.iterdir():
        with path.open("r+b") as file:
            os.fsync(file.fileno())
    _sync_directory(folder)


def _sync_directory(folder: Path) -> None:
    if os.name == "nt":  # directories cannot be opened there
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _patiently(action: Callable[[], _T]) -> _T:
    """Windows refuses to open or replace a file in the instant another process does the same."""
    for _ in range(_NUM_TRIES):
        try:
            return action()
        except PermissionError:
            if os.name != "nt":
                raise
            time.sleep(0.05)  # the other process is done in an instant and tells nobody
    return action()


def _lock_path(root: Path, purpose: str) -> Path:
    """Beside the model's folder, not in it, so that `remove` can delete the folder under it."""
    folder = root.parent / _LOCKS
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{root.name}.{purpose}"


@contextmanager
def _guard(root: Path) -> Iterator[None]:
    """Held for the moments in which builds appear, vanish or gain a user."""
    with _lock(_lock_path(root, "guard")).acquire(timeout=_GUARD_SECONDS):
        yield


def _lock(path: Path) -> BaseFileLock:
    """Released from any thread; imported late since the server's start should not pay for it."""
    from filelock import FileLock

    return FileLock(path, thread_local=False)
