"""`tabahead serve`: wires settings, loader and completer into the server and runs it.

Imports before `initialize` is answered are kept to the protocol's; the rest comes when it is used.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsp_server import __version__, probe
from lsp_server.errors import SettingsError
from lsp_server.status import StatusSource

if TYPE_CHECKING:
    from lsp_server.answers import Answer
    from lsp_server.cancellation import CancelToken
    from lsp_server.completion import (
        Backend,
        CompletionRequest,
        CompletionResult,
        Engine,
        Reason,
        Snapshot,
        Watch,
    )
    from lsp_server.files.ignore_files import IgnoreFiles
    from lsp_server.loading import Fetch, Progress
    from lsp_server.scheduler import Scheduler
    from lsp_server.server import Configuration, Hooks
    from lsp_server.settings.watch import SettingsWatch
    from lsp_server.statistics.counting import Statistics
    from lsp_server.statistics.shown import Shown
    from lsp_server.stdio import Channel

GRACE = 3.0
"""Seconds from the client's death to ours, whatever still runs."""

JOIN_TIMEOUT = 1.0
"""Seconds that a running inference gets to notice that the server is ending."""


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "serve",
        help="serve an editor (the default)",
        epilog="example:\n  tabahead --stdio\n  tabahead --tcp 127.0.0.1:8765 --model ./my-model",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    channel = parser.add_mutually_exclusive_group()
    channel.add_argument("--stdio", action="store_true", help="talk over stdin and stdout")
    channel.add_argument("--tcp", metavar="HOST:PORT", help="wait for one client there instead")
    parser.add_argument(
        "--allow-remote", action="store_true", help="let --tcp listen beyond this machine"
    )
    parser.add_argument("--model", help="name in the catalogue, a model folder, or scripted:FILE")
    # Some clients add it to every server's command line.
    parser.add_argument("--clientProcessId", type=int, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    from lsp_server.stdio import stdio_channel

    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s"
    )
    # It logs every message that it sends, document text included, at INFO.
    logging.getLogger("pygls").setLevel(logging.WARNING)
    if not args.tcp and sys.stdin.isatty():
        print(
            "tabahead: waiting for an editor on stdin; `tabahead --help` tells of the commands.",
            file=sys.stderr,
        )
    channel = _listen(args.tcp, args.allow_remote) if args.tcp else stdio_channel()
    code, finished = _serve(channel, Wiring(args.model), args.clientProcessId)
    if not finished:
        os._exit(code)
    return code


def _serve(channel: Channel, wiring: Wiring, client: int | None) -> tuple[int, bool]:
    """The exit code, and whether the threads have ended."""
    # The protocol library makes many objects that live for ever; to look through them again and
    # again while they are made, and at each full collection later, is wasted time.
    gc.disable()
    from lsp_server.server import Server
    from lsp_server.stdio import exit_after

    gc.freeze()
    gc.enable()
    server = Server(wiring.hooks(), __version__)
    wiring.settings_files.changed = server.configure_again
    wiring.rules_changed = server.session.reconsider
    try:
        code = asyncio.run(server.run(channel, client, lambda: exit_after(GRACE, 1)))
    except KeyboardInterrupt:
        server.stop()
        code = 130
    wiring.save_statistics()
    return code, server.join(JOIN_TIMEOUT)


class Wiring:
    """The rest of the product in the form that the server wants it in."""

    def __init__(self, model: str | None) -> None:
        self._command_line = {} if model is None else {"model": model}
        self._backend: Backend | None = None
        """In use."""
        self._next: Backend | None = None
        """Loaded, to be in use soon."""
        self._probe = probe.Probe() if probe.wanted() else None
        self.status = StatusSource()
        self.rules_changed: Callable[[], None] = lambda: None
        """Called when ignore files have changed."""

    @cached_property
    def statistics(self) -> Statistics:
        from lsp_server.paths import paths
        from lsp_server.statistics.counting import Statistics

        return Statistics(paths().state)

    @cached_property
    def settings_files(self) -> SettingsWatch:
        from lsp_server.settings.watch import SettingsWatch

        return SettingsWatch(self._disk[0])

    @cached_property
    def _disk(self) -> tuple[Scheduler, IgnoreFiles]:
        """The thread that may wait for a disk, and what it has read there."""
        from lsp_server.files.ignore_files import IgnoreFiles
        from lsp_server.scheduler import Scheduler

        return Scheduler("tabahead-disk", gives_way=False), IgnoreFiles()

    @property
    def _counts(self) -> bool:
        """Not before the first settings, nor where these have no folder."""
        return "statistics" in vars(self)

    def save_statistics(self) -> None:
        if self._counts:
            self.statistics.save()

    def hooks(self) -> Hooks:
        from lsp_server.server import Hooks
        from lsp_server.session import Listener

        ready = None
        if self._command_line.get("model", "").startswith("scripted:"):
            from lsp_server.cancellation import CancelToken

            settings = self.configure({}, {}, ()).settings
            ready = self.load(settings, lambda stage, done, total: None, CancelToken())
        listener = Listener(
            answered=self._answered,
            seen=self._seen,
            accepted=self._accepted,
            learn=self._learn,
            forget=self._forget,
            partially_accepted=self._partially_accepted,
            kept=self._kept,
            model=self._model,
            paused=self.status.paused,
        )
        requests = {} if self._probe is None else {probe.REQUEST: self._probe.report}
        return Hooks(
            self.configure,
            self.load,
            self.fetch,
            listener,
            ready,
            requests,
            self.status,
            self._is_spare,
            self.save_statistics,
        )

    def _is_spare(self) -> bool:
        from lsp_server.answering.power import on_battery

        return not on_battery()

    def _answered(self, answer: Answer, ms: float) -> None:
        if self._probe is not None:
            self._probe.answered(answer)
        if self._counts:
            self.statistics.answered(answer.reason, ms, answer.stats)
            self.statistics.save_sometimes()
        self.settings_files.poke()
        self.status.answered(answer.reason, answer.message, ms, answer.stats)

    def _seen(self, shown: Shown) -> None:
        self.statistics.shown(shown)

    def _accepted(self, shown: Shown) -> None:
        self.statistics.accepted(shown)
        if self._backend is not None:
            self._backend.accepted(shown.text)

    def _partially_accepted(self, shown: Shown, num_characters: int) -> None:
        self.statistics.partially_accepted(shown, num_characters)

    def _kept(self, shown: Shown, is_kept: bool) -> None:
        self.statistics.kept(shown, is_kept)
        if is_kept and not shown.is_over and self._backend is not None:
            # Taken in part: no more of it will come now, and to learn each word alone is of no use.
            self._backend.accepted(shown.text[: shown.num_done])

    def _model(self, reason: Reason | None, message: str | None) -> None:
        """There is another model now, or none."""
        before = self._backend
        if reason is not None:
            self._backend = None
        elif self._next is not None:
            self._backend, self._next = self._next, None
        backend = self._backend
        if before is not None and before is not backend:
            before.close()
        self.status.model(reason, message, {} if backend is None else backend.describe())

    def _learn(self, snapshot: Snapshot) -> None:
        if self._backend is not None:
            self._backend.learn(snapshot)

    def _forget(self, uri: str) -> None:
        if self._backend is not None:
            self._backend.forget(uri)

    def configure(
        self,
        initialization: Mapping[str, Any],
        section: Mapping[str, Any],
        folders: Sequence[Path],
    ) -> Configuration:
        from lsp_server.asking import RequestOptions
        from lsp_server.files.admission import Admission
        from lsp_server.files.rules import FileRules
        from lsp_server.paths import paths
        from lsp_server.server import Configuration
        from lsp_server.settings.layers import WORKSPACE_FILE, load

        _ = self.statistics  # made on this thread, before the inference thread counts with it
        user_file = paths().config / "settings.toml"
        self.settings_files.reading([user_file, *(f / WORKSPACE_FILE for f in folders)])
        loaded = load(
            command_line=self._command_line,
            section=section,
            initialization=initialization,
            workspaces=folders,
            user_file=user_file,
        )
        settings = loaded.settings
        logging.getLogger("lsp_server").setLevel(settings.log_level.upper())
        disk, ignore_files = self._disk
        rules = FileRules(settings, folders, ignore_files)
        admission = Admission(settings, rules, disk, self.rules_changed)
        return Configuration(
            options=replace(
                RequestOptions.of(settings), refuse=admission.refuse, look=admission.look
            ),
            max_chars=settings.max_file_bytes,
            model=(
                settings.model,
                settings.prompt_tokens,
                settings.engine,
                settings.sources,
                settings.draft_model,
                settings.heads,
                settings.trees,
            ),
            settings=settings,
            status=settings.status,
            warnings=loaded.warnings,
        )

    def load(self, settings: Any, progress: Progress, cancel: CancelToken) -> Engine:
        """Beside the backend in use, which goes on until this one takes its place."""
        from lsp_server.backend.loader import load_backend
        from lsp_server.completer import complete, refuse_place
        from lsp_server.completion import Engine

        if self._next is not None:  # overtaken by this one before it was used
            self._next.close()
            self._next = None
        backend = self._next = load_backend(settings, self._told(progress), cancel)

        def work(request: CompletionRequest, cancel: CancelToken, watch: Watch) -> CompletionResult:
            result = complete(request, backend, cancel, watch=watch)
            self.statistics.generated(result.stats)
            return result

        return Engine(
            work if self._probe is None else self._probe.watch(work),
            refuse_place,
            None if settings.model.startswith("scripted:") else backend.prepare,
        )

    def fetch(self, settings: Any) -> Fetch | None:
        """How to fetch the model of the settings; None where the catalogue does not have it."""
        from lsp_server.fetching import fetch_command, run_fetch
        from lsp_server.loading import Fetch
        from models import catalogue

        entry = None if settings is None else catalogue.entries().get(settings.model)
        if entry is None:
            return None

        async def run(progress: Progress) -> None:
            await run_fetch(fetch_command(entry.name), self._told(progress, "fetching the model: "))

        return Fetch(entry.name, round(entry.source.size / 1e6), run)

    def _told(self, progress: Progress, prefix: str = "") -> Progress:
        """The same progress, told to the status too."""

        def tell(stage: str, done: int, total: int) -> None:
            progress(stage, done, total)
            self.status.loading(prefix + stage, done, total)

        return tell


def _listen(address: str, allow_remote: bool) -> Channel:
    from lsp_server.stdio import is_loopback, listen_once

    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdigit() or int(port) > 65535:
        raise SettingsError(f"--tcp needs HOST:PORT, such as 127.0.0.1:8765, not {address}.")
    try:
        if not (allow_remote or is_loopback(host)):
            raise SettingsError(
                f"{host} can be reached from other machines, and the protocol has no password;"
                " use 127.0.0.1, or add --allow-remote if you mean it."
            )
        return listen_once(host, int(port))
    except OSError as error:
        raise SettingsError(
            f"Cannot listen on {address} ({error}); choose another port."
        ) from error
