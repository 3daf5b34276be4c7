"""Cutting a stream into messages, and watching the client's process."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server import stdio
from lsp_server.stdio import (
    MessageReader,
    OversizedMessage,
    ThreadedWriter,
    content_length,
    is_loopback,
    is_running,
    socket_channel,
    watch_process,
)


def reader_of(data: bytes, step: int = 7) -> MessageReader:
    """A stream that gives a few bytes at a time."""
    position = 0

    def read(size: int) -> bytes:
        nonlocal position
        piece = data[position : position + min(size, step)]
        position += len(piece)
        return piece

    return MessageReader(read)


def everything(reader: MessageReader) -> list[bytes | OversizedMessage]:
    messages = []
    while (message := reader.next()) is not None:
        messages.append(message)
    return messages


@given(st.lists(st.binary(max_size=40), max_size=5), st.integers(1, 100))
def test_bodies_come_out_as_they_went_in_however_the_stream_is_cut(
    bodies: list[bytes], step: int
) -> None:
    data = b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(body), body) for body in bodies)
    assert everything(reader_of(data, step)) == bodies


@pytest.mark.parametrize(
    "header",
    [
        b"content-length: 2",
        b"CONTENT-LENGTH:2",
        b"Content-Type: x\r\nContent-Length:  2 ",
        b"Content-Length: 2\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8",
        b"not a header\r\nContent-Length: 2",
    ],
)
def test_header_names_have_no_case_and_other_headers_do_not_matter(header: bytes) -> None:
    assert everything(reader_of(header + b"\r\n\r\n{}")) == [b"{}"]


@pytest.mark.parametrize(
    "block", [b"", b"X: 1", b"Content-Length: -4", b"Content-Length: x", b"Content-Length:"]
)
def test_a_block_without_a_length_is_passed_over(block: bytes) -> None:
    assert everything(reader_of(block + b"\r\n\r\nContent-Length: 2\r\n\r\n{}")) == [b"{}"]


def test_the_end_in_the_middle_of_a_message_is_an_end() -> None:
    assert everything(reader_of(b"Content-Length: 10\r\n\r\n{}")) == []
    assert everything(reader_of(b"Content-Le")) == []


def test_a_message_beyond_the_limit_is_read_past(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MAX_MESSAGE_BYTES", 10)
    data = b"Content-Length: 11\r\n\r\n12345678901Content-Length: 2\r\n\r\n{}"
    first, second = everything(reader_of(data))
    assert isinstance(first, OversizedMessage)
    assert second == b"{}"


def test_a_length_of_many_digits_is_no_crash() -> None:
    assert content_length(b"Content-Length: " + b"9" * 5000) == sys.maxsize


def test_a_header_that_never_ends_does_not_fill_memory() -> None:
    reader = reader_of(b"x" * 500_000 + b"\r\n\r\nContent-Length: 2\r\n\r\n{}", step=1 << 15)
    assert everything(reader) == [b"{}"]


def test_what_was_written_is_sent_before_close_returns() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        writer = ThreadedWriter(socket_channel(ours))
        for n in range(100):
            writer.write(b"%d," % n)
        writer.close()
        assert theirs.recv(10_000) == b"".join(b"%d," % n for n in range(100))


def test_a_reset_connection_ends_reader_and_writer() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours:
        writer = ThreadedWriter(socket_channel(ours))
        writer.write(b"x" * 1_000_000)
        writer.close()
        assert not writer._thread.is_alive()
        assert MessageReader(ours.recv).next() is None


def test_a_process_that_has_ended_counts_as_gone_even_if_nobody_reaped_it() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert is_running(process.pid)
    gone = threading.Event()
    watch_process(process.pid, gone.set, interval=0.01)
    process.kill()
    assert gone.wait(20)
    process.wait()
    assert not is_running(process.pid)


def test_this_process_and_impossible_ids_count_as_running() -> None:
    assert is_running(os.getpid())
    assert is_running(2**70)


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False)],
)
def test_only_addresses_of_this_machine_are_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
