"""A server in this process with stand-ins for everything behind it: loading, fetching, engine."""

from __future__ import annotations

import asyncio
import queue
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from lsp_server.asking import RequestOptions
from lsp_server.cancellation import CancelToken
from lsp_server.completion import (
    CompletionRequest,
    CompletionResult,
    CompletionStats,
    Engine,
    Watch,
)
from lsp_server.loading import Fetch, Progress
from lsp_server.server import Configuration, Hooks, Server
from lsp_server.session import Listener
from lsp_server.statistics.shown import Shown
from lsp_server.stdio import socket_channel
from tests.lsp_client import TIMEOUT, RawClient

URI = "file:///a.py"
C = TypeVar("C", bound=RawClient)


def says(text: str) -> Engine:
    def complete(request: CompletionRequest, cancel: CancelToken, watch: Watch) -> CompletionResult:
        return CompletionResult(text, request.offset, request.offset, None, CompletionStats())

    return Engine(complete)


@dataclass
class Product:
    """Stands for everything behind the server; loading waits for `gate`."""

    gate: threading.Event = field(default_factory=threading.Event)
    loads: list[Any] = field(default_factory=list)
    cancelled: queue.Queue[str | None] = field(default_factory=queue.Queue)
    configured: list[tuple[Any, Any, list[Path]]] = field(default_factory=list)
    accepted: list[Shown] = field(default_factory=list)
    fail: Exception | None = None
    thread: str = ""
    fetchable: tuple[str, ...] = ()
    fetched: threading.Event = field(default_factory=threading.Event)
    """A fetch waits for it."""
    fetches: list[str] = field(default_factory=list)
    fetch_fails: Exception | None = None
    fetch_ended: queue.Queue[str] = field(default_factory=queue.Queue)
    server: Server | None = None
    exit_code: int | None = None
    """Of the server, once it has ended by itself."""

    def configure(
        self, initialization: Mapping[str, Any], section: Mapping[str, Any], folders: Sequence[Path]
    ) -> Configuration:
        self.configured.append((dict(initialization), dict(section), list(folders)))
        merged = {**initialization, **section}
        return Configuration(
            options=RequestOptions(max_tokens=merged.get("max_tokens", 64)),
            model=(merged.get("model", "default"), merged.get("prompt_tokens")),
            settings=merged.get("model", "default"),
            warnings=tuple(f"warning {n}" for n in range(int(merged.get("odd", 0)))),
        )

    def load(
        self, settings: Any, progress: Callable[[str, int, int], None], cancel: CancelToken
    ) -> Engine:
        self.thread = threading.current_thread().name
        self.loads.append(settings)
        progress("building", 1, 4)
        with cancel.on_cancel(self.gate.set):
            assert self.gate.wait(TIMEOUT)
        self.cancelled.put(cancel.reason)
        cancel.raise_if_cancelled()
        if self.fail is not None:
            raise self.fail
        return says(f"from {settings}")

    def fetch(self, settings: Any) -> Fetch | None:
        if settings not in self.fetchable:
            return None

        async def run(progress: Progress) -> None:
            self.fetches.append(settings)
            progress("download", 1, 2)
            try:
                while not self.fetched.is_set():
                    await asyncio.sleep(0.01)  # set by the test, from another thread
            except asyncio.CancelledError:
                self.fetch_ended.put("cancelled")
                raise
            self.fetch_ended.put("done")
            if self.fetch_fails is not None:
                raise self.fetch_fails
            self.fail = None

        return Fetch(settings, 93, run)

    def hooks(self) -> Hooks:
        listener = Listener(accepted=self.accepted.append)
        return Hooks(self.configure, self.load, self.fetch, listener)


@contextmanager
def served(product: Product, client_class: type[C] = RawClient) -> Iterator[C]:
    ours, theirs = socket.socketpair()
    codes: list[int] = []

    def serve() -> None:
        server = product.server = Server(product.hooks(), "0")
        codes.append(asyncio.run(server.run(socket_channel(ours))))
        assert server.scheduler.join(TIMEOUT)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    stream = theirs.makefile("rb")
    client = client_class(theirs.sendall, stream.readline, stream.read)
    try:
        yield client
        client.request("shutdown")
        client.notify("exit")
        thread.join(TIMEOUT)
        assert codes == [0]
        product.exit_code = codes[0]
    finally:
        product.gate.set()
        product.fetched.set()
        theirs.shutdown(socket.SHUT_RDWR)
        thread.join(TIMEOUT)
        ours.close()


def ready(client: RawClient) -> None:
    """Wait for the log line that says so."""
    client.wait_for(lambda m: (m.get("params") or {}).get("message") == "tabahead: ready")


def text_of(result: Any) -> str:
    (item,) = result["items"]
    return str(item["insertText"])
