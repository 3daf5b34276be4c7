"""Bytes in and out: framing, the reader and writer threads, and what happens when the client dies.

File descriptor 1 belongs to the protocol alone: whatever else prints lands on stderr. Free of
protocol libraries; the same code serves a pipe and a socket.
"""

from __future__ import annotations

import os
import queue
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAX_MESSAGE_BYTES = 512 * 1024 * 1024
"""A longer message is a broken client; it is read past, never held."""

READ_SIZE = 1 << 16

FLUSH_TIMEOUT = 1.0


class OversizedMessage:
    """Stands for a message that was read past."""


@dataclass(frozen=True, slots=True)
class Channel:
    """The two directions to one client. Both calls block, and neither holds a lock of a stream
    object, which a thread could not give back at exit."""

    read: Callable[[int], bytes]
    """At most that many bytes; empty at the end."""
    write: Callable[[bytes], None]


def stdio_channel() -> Channel:
    """Take fds 0 and 1 for the protocol; the process is left an empty input and its stderr."""
    protocol_in, protocol_out = os.dup(0), os.dup(1)
    sys.stdout.flush()
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    try:
        os.dup2(2, 1)
    except OSError:
        # There is no stderr: what is printed has nowhere to go.
        os.dup2(null, 1)
    os.close(null)
    return Channel(lambda size: os.read(protocol_in, size), lambda data: _write(protocol_out, data))


def socket_channel(connection: socket.socket) -> Channel:
    return Channel(connection.recv, connection.sendall)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class MessageReader:
    """Cuts the stream into message bodies. Header names are case-insensitive."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._buffer = bytearray()

    def next(self) -> bytes | OversizedMessage | None:
        """The next body; None at the end of the stream, also in the middle of a message."""
        while True:
            header = self._header()
            if header is None:
                return None
            length = content_length(header)
            if length is None:
                continue
            if length > MAX_MESSAGE_BYTES:
                return OversizedMessage() if self._skip(length) else None
            return self._take(length)

    def _header(self) -> bytes | None:
        """Up to the empty line. A block that never ends is cut, so that it cannot fill memory."""
        searched = 0
        while (end := self._buffer.find(b"\r\n\r\n", max(0, searched - 3))) < 0:
            searched = len(self._buffer)
            if searched > READ_SIZE:
                del self._buffer[: searched - 3]
                searched = 0
            if not self._fill():
                return None
        header = bytes(self._buffer[:end])
        del self._buffer[: end + 4]
        return header

    def _take(self, length: int) -> bytes | None:
        while len(self._buffer) < length:
            if not self._fill():
                return None
        body = bytes(self._buffer[:length])
        del self._buffer[:length]
        return body

    def _skip(self, length: int) -> bool:
        while length > len(self._buffer):
            length -= len(self._buffer)
            self._buffer.clear()
            if not self._fill():
                return False
        del self._buffer[:length]
        return True

    def _fill(self) -> bool:
        try:
            data = self._read(READ_SIZE)
        except OSError:
            # A reset connection is an end like any other.
            return False
        self._buffer += data
        return bool(data)


def content_length(header: bytes) -> int | None:
    """None: this block announces no body."""
    for line in header.split(b"\r\n"):
        name, _, value = line.partition(b":")
        value = value.strip()
        if name.strip().lower() == b"content-length" and value.isdigit():
            return int(value) if len(value) < len(str(sys.maxsize)) else sys.maxsize
    return None


def start_reader(
    channel: Channel, deliver: Callable[[bytes | OversizedMessage | None], None]
) -> None:
    """Call `deliver` from a thread of its own with every body, and with None at the end."""

    def run() -> None:
        reader = MessageReader(channel.read)
        while (message := reader.next()) is not None:
            deliver(message)
        deliver(None)

    threading.Thread(target=run, name="tabahead-reader", daemon=True).start()


class ThreadedWriter:
    """Sends from a thread, so that a client that does not read never blocks the event loop."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="tabahead-writer", daemon=True)
        self._thread.start()

    def write(self, data: bytes) -> None:
        self._queue.put(data)

    def close(self) -> None:
        """Send what is queued, for at most `FLUSH_TIMEOUT` seconds."""
        self._queue.put(None)
        self._thread.join(FLUSH_TIMEOUT)

    def _run(self) -> None:
        while (data := self._queue.get()) is not None:
            try:
                self._channel.write(data)
            except OSError:
                # The client is gone; the reader meets the end of the stream and ends the server.
                return


def exit_after(seconds: float, code: int) -> None:
    """The last resort: end the process although something still runs."""

    def run() -> None:
        time.sleep(seconds)  # a grace, on a thread that nobody waits for
        os._exit(code)

    threading.Thread(target=run, name="tabahead-last-resort", daemon=True).start()


def watch_process(pid: int, when_gone: Callable[[], None], interval: float = 1.0) -> None:
    """Call `when_gone` from a thread once the process has ended, a zombie included."""

    def run() -> None:
        while is_running(pid):
            time.sleep(interval)  # no portable call waits for a process that is not a child
        when_gone()

    threading.Thread(target=run, name="tabahead-parent-watch", daemon=True).start()


def is_running(pid: int) -> bool:
    if sys.platform == "win32":
        return _is_running_on_windows(pid)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        # Somebody else's process lives; a number that is no process id says nothing.
        return True
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return True  # no such file system here
    return stat.rpartition(b")")[2].split()[:1] not in ([b"Z"], [b"X"])


def _is_running_on_windows(pid: int) -> bool:
    import ctypes

    kernel: Any = ctypes.windll.kernel32  # type: ignore[attr-defined, unused-ignore]  # Windows
    synchronize, wait_timeout = 0x00100000, 0x102
    handle = kernel.OpenProcess(synchronize, False, pid)
    if not handle:
        return False
    state = kernel.WaitForSingleObject(handle, 0)
    kernel.CloseHandle(handle)
    return bool(state == wait_timeout)


def listen_once(host: str, port: int) -> Channel:
    """Wait for one client at HOST:PORT; say on stderr where, since port 0 means any free one."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    with socket.socket(family, kind, protocol) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1)
        where = f"{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
        print(f"tabahead: listening on {where}", file=sys.stderr, flush=True)
        connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return socket_channel(connection)


def is_loopback(host: str) -> bool:
    """Whether every address of `host` stays on this machine."""
    import ipaddress

    addresses = {
        str(entry[4][0]).partition("%")[0]
        for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    }
    return all(ipaddress.ip_address(address).is_loopback for address in addresses)
