"""A fetch as a process of its own: building costs the event loop and the inference thread nothing.

The process leads a group of its own, which is ended with the task that waits for it. Should this
process die without a word, the other one notices that its lines are not read, and stops too.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from lsp_server.errors import FetchError

Progress = Callable[[str, int, int], None]
"""(stage, done, total); called on the event loop."""

CLEAN_UP_TIME = 2.0
"""Seconds that an interrupted fetch gets to delete its partial files."""

_DEATH_TIME = 1.0
"""Seconds that a killed process may take to be gone."""

_STDOUT = 1
_MAX_BYTES = 4096
"""Kept of an unfinished line, and of stderr."""


def fetch_command(name: str) -> list[str]:
    return [sys.executable, "-P", "-m", "models", "fetch", name, "--progress", "json"]


async def run_fetch(command: Sequence[str], progress: Progress) -> None:
    """Run `command` to its end; cancelling the task ends the process and what it has started.

    Raises FetchError with the last sentence that the process wrote on stderr.
    """
    loop = asyncio.get_running_loop()
    try:
        transport, output = await loop.subprocess_exec(
            lambda: _Output(progress, loop),
            *command,
            stdin=subprocess.DEVNULL,
            env=_environment(),
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except OSError as error:
        raise FetchError(f"The fetch could not be started ({error}); try again.") from error
    try:
        await output.closed
    finally:
        await _end(transport, output)
        transport.close()
    code = transport.get_returncode()
    if code != 0:
        raise FetchError(
            output.last_sentence()
            or f"The fetch ended with code {code} and gave no reason; run `tabahead models fetch`"
            " in a terminal."
        )


def parse_step(line: bytes) -> tuple[str, int, int] | None:
    """One line of progress; None for whatever else a process may print."""
    try:
        step = json.loads(line)
        return str(step["stage"]), int(step["done"]), int(step["total"])
    except (ValueError, TypeError, KeyError):
        return None


def _environment() -> Mapping[str, str]:
    """Ours, with our import path: from a checkout too, and never with the workspace on it."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}


class _Output(asyncio.SubprocessProtocol):
    """Lines of stdout become steps; of stderr the end is kept."""

    def __init__(self, progress: Progress, loop: asyncio.AbstractEventLoop) -> None:
        self.exited: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        """The process has ended and everything that it wrote has been read."""
        self._progress = progress
        self._line = b""
        self._errors = b""

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd != _STDOUT:
            self._errors = (self._errors + data)[-_MAX_BYTES:]
            return
        *lines, rest = (self._line + data).split(b"\n")
        self._line = rest[-_MAX_BYTES:]
        for line in lines:
            if (step := parse_step(line)) is not None:
                self._progress(*step)

    def process_exited(self) -> None:
        self.exited.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.closed.done():  # cancelled with the task that waited for it
            self.closed.set_result(None)

    def last_sentence(self) -> str:
        lines = self._errors.decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


async def _end(transport: asyncio.SubprocessTransport, output: _Output) -> None:
    """Interrupt what still runs, as Ctrl-C would, and kill it if it does not heed that.

    To be cancelled meanwhile, as at the end of the event loop, only ends the patience.
    """
    if sys.platform != "win32" and not output.exited.done():
        _signal_group(transport.get_pid(), signal.SIGINT)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([output.exited], timeout=CLEAN_UP_TIME)
    if output.exited.done():
        return
    if sys.platform == "win32":
        transport.kill()
    else:
        _signal_group(transport.get_pid(), signal.SIGKILL)
    loop = asyncio.get_running_loop()
    end = loop.time() + _DEATH_TIME
    while not output.exited.done() and (left := end - loop.time()) > 0:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([output.exited], timeout=left)


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)
