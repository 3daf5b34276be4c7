"""A real Neovim with the plugin and the real server, driven as by somebody who types."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pynvim

from tests.clients.neovim.screen import Screen

T = TypeVar("T")

HERE = Path(__file__).parent
PLUGIN = HERE.parents[2] / "editor-clients" / "neovim"
TIMEOUT = 30.0
"""Seconds that anything may take before the test fails: far more than it does."""
LIFE = 300.0
"""Seconds after which a Neovim is ended: one that asks a question answers nobody."""
WIDTH, HEIGHT = 78, 24
SERVER = (sys.executable, "-P", "-m", "lsp_server", "--stdio")
NAMESPACES = ("nvim.lsp.inline_completion", "tabahead")


def eventually(
    look: Callable[[], T], what: str, *, pause: float = 0.02, timeout: float = TIMEOUT
) -> T:
    """The first true thing that `look` gives, with seconds of `pause` between two looks; fails
    after `timeout`."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(pause)  # the editor works on its own; nobody tells when
    raise AssertionError(f"{what}: not within {timeout:.0f} s")


def connect(socket: Path) -> pynvim.Nvim | None:
    """None: nobody listens there yet."""
    try:
        return pynvim.attach("socket", path=str(socket))
    except (FileNotFoundError, ConnectionRefusedError):
        return None


class Editor:
    """One Neovim in a folder of its own; `close` ends it and its server."""

    def __init__(
        self,
        program: Path,
        folder: Path,
        options: Mapping[str, Any] | None,
        *,
        environment: Mapping[str, str] | None = None,
        encodings: Sequence[str] | None = None,
        before: Sequence[str] = (),
        workspace: Mapping[str, str] | None = None,
    ) -> None:
        """`options` go to setup(), None: it is not called; `before` are commands ahead of it;
        `workspace` are files, by name, of the folder."""
        self.folder = folder
        for name, text in (workspace or {}).items():
            (folder / name).write_text(text, encoding="utf-8")
        package = folder / "site" / "pack" / "tabahead" / "opt" / "tabahead"
        package.parent.mkdir(parents=True)
        package.symlink_to(PLUGIN)
        given = {"options": options, "encodings": encodings, "before": list(before)}
        socket = folder / "nvim.sock"
        self.environment = {
            **os.environ,
            **(environment or {}),
            "TABAHEAD_TEST": json.dumps(given),
            "XDG_STATE_HOME": str(folder / "xdg-state"),
            "XDG_DATA_HOME": str(folder / "xdg-data"),
        }
        self._is_closed = False
        self._last_server: psutil.Process | None = None
        self._process = subprocess.Popen(
            [
                *(program, "--clean", "--headless", "--listen", socket),
                *("--cmd", f"set packpath^={folder / 'site'}", "-u", HERE / "init.lua"),
            ],
            cwd=folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(folder / "nvim.stderr").open("wb"),
        )
        self._watchdog = threading.Timer(LIFE, self._process.kill)
        self._watchdog.daemon = True
        self._watchdog.start()
        try:
            self.nvim: pynvim.Nvim = eventually(lambda: connect(socket), "Neovim starts")
        except AssertionError:
            self._process.kill()
            raise
        # With messages drawn elsewhere, none waits for somebody to press Enter.
        self.nvim.ui_attach(WIDTH, HEIGHT, rgb=True, ext_linegrid=True, ext_messages=True)
        self._screen = Screen(WIDTH, HEIGHT)

    def close(self) -> None:
        """End Neovim; a second time is no error. Its server ends a little later: `wait_for_end`."""
        if self._is_closed:
            return
        self._is_closed = True
        self._last_server = self.server()
        errors: list[str] = []
        try:
            errors = self._errors()
            self.nvim.command("qa!")
        except EOFError:  # it is gone before it can answer
            pass
        finally:
            self.nvim.close()
        try:
            self._process.wait(TIMEOUT)
        finally:
            self._watchdog.cancel()
            self._process.kill()
        assert errors == [], errors

    def wait_for_end(self) -> None:
        """After `close`: until the server has ended, and written what it has to write."""
        server = self._last_server
        if server is not None:
            psutil.wait_procs([server], TIMEOUT)
            assert not server.is_running(), "the server outlives its editor"

    def _errors(self) -> list[str]:
        """What Neovim has told of faults of its own or of the plugin."""
        messages = self.nvim.api.exec2("messages", {"output": True})["output"].split("\n")
        return [line for line in messages if re.search(r"E\d+:|[Ee]rror", line)]

    def lua(self, code: str, *arguments: Any) -> Any:
        return self.nvim.exec_lua(code, *arguments)

    def edit(self, name: str, text: str | bytes = "", *, attached: bool = True) -> Path:
        """Write a file into the folder and open it; wait until the server knows it."""
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        self.nvim.command(f"edit {path}")
        if attached:
            self._wait(self.is_attached, f"the server knows {name}")
        return path

    def is_attached(self) -> bool:
        return self.lua(
            "local client = require('tabahead.server').client()"
            " return client ~= nil and vim.lsp.buf_is_attached(0, client.id)"
        )

    def type(self, keys: str) -> None:
        """Type keys, and wait until Neovim has worked them off."""
        self.nvim.input(keys.replace("<", "<lt>") if keys == "<" else keys)
        # A request is answered only when there is no key left.
        eventually(lambda: not self.nvim.api.get_mode()["blocking"], "Neovim takes keys")
        self.lua("return vim.fn.getchar(1)")

    def text(self) -> str:
        return "\n".join(self.nvim.current.buffer[:])

    def cursor(self) -> tuple[int, int]:
        """Line and column, both from 0, the column in bytes."""
        row, column = self.nvim.current.window.cursor
        return row - 1, column

    def ghost(self) -> str | None:
        """What is drawn as ghost text, read from its marks; None: nothing."""
        pieces: list[str] = []
        below: list[str] = []
        for name in NAMESPACES:
            namespace = self.nvim.api.create_namespace(name)
            marks = self.nvim.api.buf_get_extmarks(0, namespace, 0, -1, {"details": True})
            for _, _, _, details in marks:
                if details.get("virt_text_pos") != "eol":
                    pieces += [chunk[0] for chunk in details.get("virt_text", [])]
                lines = details.get("virt_lines", [])
                below += ["".join(chunk[0] for chunk in line) for line in lines]
        return "\n".join(["".join(pieces), *below]) if pieces or below else None

    def wait_for_ghost(self, expected: str) -> None:
        self._wait(lambda: self.ghost() == expected, f"the ghost {expected!r}")

    def wait_for_any_ghost(self) -> str:
        return self._wait(self.ghost, "a ghost") or ""

    def _wait(self, look: Callable[[], T], what: str) -> T:
        """As `eventually`; a failure tells how things are instead."""
        try:
            return eventually(look, what)
        except AssertionError as error:
            count = len(self.notices())
            self.nvim.command("Tabahead explain")
            eventually(lambda: len(self.notices()) > count, "an explanation")
            raise AssertionError(
                f"{error}; now {self.ghost()!r} in {self.text()[-200:]!r}, {self.status()},"
                f" {self.notices()[-3:]}"
            ) from error

    def notices(self) -> list[str]:
        return self.lua("return _G.notices")

    def wait_for_notice(self, part: str) -> str:
        def find() -> str | None:
            return next((notice for notice in self.notices() if part in notice), None)

        return self._wait(find, f"a notice with {part!r}") or ""

    def status(self) -> dict[str, str]:
        return self.lua("return require('tabahead').status()")

    def reason(self) -> str | None:
        """Why the server's last answer here has no text; None: it has, or there is no answer."""
        answer = self.lua(
            "local params = { textDocument = vim.lsp.util.make_text_document_params() }"
            " local answers = vim.lsp.buf_request_sync(0, 'tabahead/explain', params, 5000) or {}"
            " return select(2, next(answers))"
        )
        return ((answer or {}).get("result") or {}).get("reason")

    def screen(self) -> Screen:
        """All that Neovim has drawn by now."""
        channel = self.nvim.channel_id
        self.lua("vim.cmd.redraw() vim.rpcnotify(..., 'drawn')", channel)
        while True:
            _, name, arguments = self.nvim.next_message()
            if name == "drawn":
                return self._screen
            for event in arguments:
                self._screen.take(event)

    def server(self) -> psutil.Process | None:
        """The process of the server, if one runs."""
        try:
            for child in psutil.Process(self._process.pid).children():
                if "lsp_server" in child.cmdline():
                    return child
        except psutil.NoSuchProcess:  # one of them has ended meanwhile
            pass
        return None

    def freeze_server(self) -> None:
        """It answers nobody until `thaw_server`."""
        server = self.server()
        assert server is not None
        server.send_signal(signal.SIGSTOP)

    def thaw_server(self) -> None:
        server = self.server()
        assert server is not None
        server.send_signal(signal.SIGCONT)
