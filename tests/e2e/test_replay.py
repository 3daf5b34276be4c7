"""The replay on a real server with a script: every key is asked for, accounted for and judged."""

from __future__ import annotations

import json
import time

import pytest

from lsp_server import probe
from lsp_server.bench.client import StdioClient
from lsp_server.bench.replay_figures import Session, figures_of
from lsp_server.bench.slips import slips_of
from lsp_server.bench.traces import Edit, Patch, Trace
from lsp_server.bench.typist import type_trace

URI = "file:///typed.py"
LINE = "total = left + right"
SECONDS = 0.1


def typing(line: str) -> Trace:
    """A key each SECONDS, with a pause before the last word."""
    pause = line.rindex(" ") + 1
    edits = [
        Edit((Patch(n, 0, key),), n + 1, SECONDS * n + (n >= pause) * 0.9)
        for n, key in enumerate(line)
    ]
    return Trace("typed.py", "python", "", tuple(edits), ())


@pytest.fixture
def client(tmp_path):
    script = tmp_path / "script.json"
    entries = [
        {"after": "total = left + ", "text": "right", "delay_ms": 0},
        {"after": "total = ", "text": "lost" * 20, "delay_ms": 60},
        {"after": "", "text": "", "delay_ms": 0},
    ]
    script.write_text(json.dumps(entries))
    home = {"TABAHEAD_HOME": str(tmp_path), probe.SWITCH: "1"}
    client = StdioClient(f"scripted:{script}", home)
    yield client
    client.process.kill()
    client.process.wait()


def test_every_key_is_asked_for_and_its_answer_judged(client):
    trace, keys = typing(LINE), []
    client.start_session({})
    client.open(URI, "python", "")
    before = client.request(probe.REQUEST, {"beat": True})
    asked = type_trace(client, URI, trace, lambda: keys.append(time.perf_counter()))
    after = client.request(probe.REQUEST, {"beat": False})
    client.close()

    assert len(keys) == len(asked) == len(LINE)
    outcomes = [request.outcome for request in asked]
    assert outcomes[len("total = ") - 1] == "cancelled", "overtaken by the next key"
    pause = len("total = left + ") - 1
    assert asked[pause].item["insertText"] == "right"
    assert asked[pause].in_time

    session = Session(trace, asked, after, after["cpu_s"] - before["cpu_s"])
    figures = figures_of([session], [])
    assert figures["keys"] == len(LINE)
    told = ("answered", "empty", "cancelled", "failed", "unanswered")
    assert sum(figures[name] for name in told) == len(LINE)
    assert figures["unanswered"] == figures["failed"] == 0
    assert figures["right_at_pause"] == 1.0
    assert figures["keystrokes_saved"] == len("right")
    assert figures["cpu_s_per_1000_keys"] > 0
    assert sum(figures["count"].values()) == figures["answered"]


def test_what_was_shown_before_a_slip_comes_back_from_the_cache(client):
    trace = typing(LINE)
    shown = [key == len("total = left + ") - 1 for key in range(len(LINE))]
    slips = slips_of(trace, shown)
    client.start_session({})
    client.open(URI, "python", slips.text)
    client.request(probe.REQUEST, {"beat": True})
    asked = type_trace(client, URI, slips, lambda: None)
    after = client.request(probe.REQUEST, {"beat": False})
    client.close()
    session = Session(slips, asked, after, 0.0)
    assert [origin for _, _, origin in session.points()] == ["engine", "cache"]
    (first, wrong, again) = asked
    assert first.item["insertText"] == again.item["insertText"] == "right"
    assert wrong.item is None
    figures = figures_of([session], [session])
    assert (figures["slips"], figures["count"]["cache"]) == (1, 2)


def test_without_the_switch_a_server_has_no_probe(tmp_path, monkeypatch):
    monkeypatch.delenv(probe.SWITCH, raising=False)
    script = tmp_path / "script.json"
    script.write_text("[]")
    client = StdioClient(f"scripted:{script}", {"TABAHEAD_HOME": str(tmp_path)})
    client.start_session({})
    assert client.request(probe.REQUEST, {"beat": True}) is None
    client.close()
