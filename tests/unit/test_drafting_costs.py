"""Which costs a load measures, and which it finds kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lsp_server.backend.loader import load_engine
from lsp_server.cancellation import CancelToken
from lsp_server.engine import cost_store
from lsp_server.engine.drafter_manifest import DRAFTER_MANIFEST_NAME
from lsp_server.engine.drafters import cost
from lsp_server.settings.tree import EngineSettings, Settings
from tests.tiny_model import build_tiny_drafters, build_tiny_model

NAMED = ("draft", "heads", "early_exit")


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("costs")
    build_tiny_model(root / "target")
    return {"target": root / "target", **build_tiny_drafters(root / "drafters", root / "target")}


class Loads:
    """Loads everything, on a machine that is always quiet; says what was measured."""

    def __init__(self, folders: dict[str, Path], monkeypatch) -> None:
        self._folders = folders
        self._measured: list[set] = []
        for module in (cost, cost_store):
            monkeypatch.setattr(module, "best_ms", self._best_ms)

    def _best_ms(self, calls, clock):
        for call in calls.values():
            call()
        self._measured.append(set(calls))
        return dict.fromkeys(calls, 3.0), True

    def __call__(self, heads: str = "eagle", threads: int = 1) -> list[set]:
        settings = Settings(
            model=str(self._folders["target"]),
            sources=NAMED,
            draft_model=str(self._folders["draft"]),
            heads=str(self._folders[heads]),
            engine=EngineSettings(threads=threads),
        )
        self._measured.clear()
        engine = load_engine(settings, lambda *_: None, CancelToken())
        assert {name: found["step"] for name, found in engine.sources.describe().items()} == (
            dict.fromkeys(["eagle" if heads == "eagle" else "medusa", "draft", "early_exit"], 3.0)
        )
        engine.close()
        return list(self._measured)


@pytest.fixture
def load(folders, tmp_path, monkeypatch) -> Loads:
    monkeypatch.setenv("TABAHEAD_HOME", str(tmp_path / "home"))
    return Loads(folders, monkeypatch)


PASSES = {1, 2, 3, 4, 5, 6, 9, 16}
READS, STEPS = {"step", "read"}, {"step"}


def test_a_first_load_measures_passes_and_every_source_and_the_next_one_nothing(load):
    assert load() == [PASSES, READS, READS, STEPS]
    assert load() == []


def test_other_heads_are_measured_for_themselves(load):
    load()
    assert load("medusa") == [STEPS]


def test_another_thread_count_is_measured_for_itself(load):
    load()
    assert len(load(threads=2)) == 4
    assert load() == []


def test_heads_that_were_made_again_are_measured_again(load, folders):
    load()
    path = folders["eagle"] / DRAFTER_MANIFEST_NAME
    text = path.read_text()
    path.write_text(json.dumps(json.loads(text) | {"made_by": "another build"}))
    assert load() == [READS]
    path.write_text(text)
    assert load() == []
