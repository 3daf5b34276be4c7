"""Tokenizing a long document leaves the interpreter to other threads, such as the event loop's."""

from __future__ import annotations

import threading
import time

from lsp_server.engine.tokenizer import Tokenizer
from tests.tiny_model import build_tiny_model

TICK, LEAST_TICKS = 0.001, 10


def test_other_threads_go_on_while_a_document_is_encoded(tmp_path):
    build_tiny_model(tmp_path / "tiny")
    tokenizer = Tokenizer(tmp_path / "tiny" / "tokenizer.json")
    ticks, done = [0], threading.Event()

    def tick() -> None:
        while not done.is_set():
            ticks[0] += 1
            time.sleep(TICK)

    thread = threading.Thread(target=tick)
    thread.start()
    before = ticks[0]
    tokenizer.encode("for value in values: total += value\n" * 20_000)
    after = ticks[0]
    done.set()
    thread.join()
    assert after - before >= LEAST_TICKS
