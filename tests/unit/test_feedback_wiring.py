"""What the server hears of items goes to the counters and to the engine."""

from __future__ import annotations

import asyncio
import json

import pytest

from lsp_server.backend.scripted import ScriptedBackend
from lsp_server.commands.serve import Wiring
from lsp_server.completion import CompletionStats
from lsp_server.session import Listener
from lsp_server.statistics.file import read
from lsp_server.statistics.shown import Shown


@pytest.fixture
def learned(monkeypatch):
    """What the engine is told of accepted text."""
    texts: list[str] = []
    monkeypatch.setattr(ScriptedBackend, "accepted", lambda self, text: texts.append(text))
    return texts


@pytest.fixture
def wiring(monkeypatch, tmp_path):
    monkeypatch.setenv("TABAHEAD_HOME", str(tmp_path))
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"after": "", "text": "x"}]))
    return Wiring(f"scripted:{script}")


def heard(wiring: Wiring) -> Listener:
    """Who hears of items, once the model is there."""

    async def with_model() -> Listener:
        listener = wiring.hooks().listener
        listener.model(None, None)
        return listener

    return asyncio.run(with_model())


def item() -> Shown:
    return Shown("1", "file:///a.py", "print(one, two)", CompletionStats())


def test_whole_items_are_learned_at_once_and_parts_once_they_are_kept(wiring, learned):
    listener, whole, part = heard(wiring), item(), item()
    listener.accepted(whole)
    assert learned == ["print(one, two)"]
    whole.num_done, whole.is_over = 15, True
    listener.kept(whole, True)
    listener.partially_accepted(part, 5)
    part.num_done, part.has_parts = 5, True
    listener.kept(part, False)
    assert learned == ["print(one, two)"]
    listener.kept(part, True)
    assert learned == ["print(one, two)", "print"]


def test_all_of_it_is_counted(wiring, learned, tmp_path):
    listener = heard(wiring)
    listener.seen(item())
    listener.partially_accepted(item(), 5)
    listener.accepted(item())
    listener.kept(item(), True)
    wiring.save_statistics()
    totals = read(tmp_path / "state").totals
    assert (totals["shown"], totals["partially_accepted"], totals["accepted"]) == (1, 1, 1)
    assert totals["kept"] == 1
