"""A day of typing compressed: memory stays flat, slots and caches stay within their caps."""

from __future__ import annotations

import asyncio
import gc
import json
from pathlib import Path
from typing import Any

import psutil
import pytest

from lsp_server.answering.known import MAX_BYTES, MAX_RECORDS
from lsp_server.asking import RequestOptions
from lsp_server.backend.engine_backend import EngineBackend
from lsp_server.backend.loader import load_engine
from lsp_server.cancellation import CancelToken
from lsp_server.completer import complete, refuse_place
from lsp_server.completion import Engine
from lsp_server.context.store import MAX_CHARACTERS, MAX_FILES
from lsp_server.documents import Change, DocumentStore, Position, Range
from lsp_server.files.admission import MAX_KNOWN, Admission
from lsp_server.files.ignore_files import IgnoreFiles
from lsp_server.files.rules import FileRules
from lsp_server.params import InlineCompletionParams
from lsp_server.scheduler import Scheduler
from lsp_server.session import Listener, Session
from lsp_server.settings.tree import EngineSettings, Settings
from tests.lsp_client import ServerProcess, at
from tests.tiny_model import build_tiny_model
from tests.typist import Edit, File, Typist

NUM_FILES = 300
NUM_EDITS = 100_000
EDITS_A_REQUEST, ENGINE_EDITS_A_REQUEST = 20, 80
INVOKED, AUTOMATIC = 1, 2
AUTOMATIC_EVERY = 10 * EDITS_A_REQUEST
"""Most are asked for by key: automatic ones in such a burst are held up, as they should be."""
MAX_GROWTH, MAX_ENGINE_GROWTH = 15 * 2**20, 30 * 2**20
"""Bytes, after the first fifth of the server's edits and the first half of the engine's, in which
all files have been seen."""
SCRIPT = [
    {"after": ":", "text": "\n    pass\n    return"},
    {"after": "=", "text": " load(name)"},
    {"after": " ", "text": "value"},
    {"after": "", "text": "(items, key=name)"},
]


def test_memory_of_a_server_stays_flat_over_a_day_of_typing(tmp_path: Path) -> None:
    """The first fifth is to warm up."""
    script = tmp_path / "script.json"
    script.write_text(json.dumps(SCRIPT), "utf-8")
    typist, num_shown, before = Typist(num_files=NUM_FILES), 0, 0
    with ServerProcess("--model", f"scripted:{script}") as client:
        client.initialize(rootUri=tmp_path.as_uri())
        process = psutil.Process(client.process.pid)
        for n in range(NUM_EDITS):
            if n == NUM_EDITS // 5:
                before = process.memory_info().rss
            if (visit := typist.visit()) is not None:
                file, closed = visit
                if file.version == 1:
                    client.open(file.uri, file.text)
                if closed is not None:
                    client.notify("textDocument/didClose", {"textDocument": {"uri": closed}})
            edit, file = typist.edit(), typist.file
            where = None if edit.range is None else (*edit.range[0], *edit.range[1])
            client.change(file.uri, file.version, edit.text, where)
            if n % EDITS_A_REQUEST == 0:
                kind = AUTOMATIC if n % AUTOMATIC_EVERY == 0 else INVOKED
                asked = at(file.uri, file.line, file.column, kind=kind)
                result = client.request("textDocument/inlineCompletion", asked)["result"]
                for item in (result or {"items": []})["items"]:
                    num_shown += 1
                    client.request("workspace/executeCommand", item["command"])
        growth = process.memory_info().rss - before
        assert client.stop() == 0
        assert client.stderr() == ""
    assert typist.num_seen == NUM_FILES
    assert num_shown > NUM_EDITS // EDITS_A_REQUEST // 2
    print(f"grew by {growth / 2**20:.1f} MB; {num_shown} items")
    assert growth < MAX_GROWTH, f"grew by {growth / 2**20:.1f} MB"


def change_of(edit: Edit) -> Change:
    if edit.range is None:
        return Change(None, edit.text)
    start, end = edit.range
    return Change(Range(Position(*start), Position(*end)), edit.text)


def params_at(file: File, invoked: bool) -> InlineCompletionParams:
    more: dict[str, Any] = {"selected": None, "tab_size": None, "insert_spaces": None}
    position = Position(file.line, file.column)
    return InlineCompletionParams(file.uri, file.version, position, invoked, **more)


class Day:
    """A session with a real engine behind it, and what must stay within bounds."""

    def __init__(self, folder: Path) -> None:
        settings = Settings(
            model=str(folder),
            prompt_tokens=200,
            max_tokens=6,
            engine=EngineSettings(kv_memory_mb=16, slot_tokens=256),
        )
        backend = self.backend = load_engine(settings, lambda *_: None, CancelToken())
        assert isinstance(backend, EngineBackend)
        self.scheduler, self.disk = Scheduler(), Scheduler("disk")
        self.ignore_files = IgnoreFiles()
        rules = FileRules(settings, [folder], self.ignore_files)
        self.admission = Admission(settings, rules, self.disk)
        listener = Listener(
            accepted=lambda shown: backend.accepted(shown.text),
            learn=backend.learn,
            forget=backend.forget,
        )
        self.session = Session(self.scheduler, DocumentStore(), listener)
        self.session.options = RequestOptions(
            max_tokens=settings.max_tokens,
            sources=settings.sources,
            refuse=self.admission.refuse,
            look=self.admission.look,
        )
        self.engine = Engine(
            lambda request, cancel, watch: complete(request, backend, cancel, watch=watch),
            refuse_place,
            backend.prepare,
        )

    async def spend(self, typist: Typist, num_edits: int) -> int:
        """The number of items shown."""
        num_shown = 0
        for n in range(num_edits):
            if (visit := typist.visit()) is not None:
                file, closed = visit
                if file.version == 1:
                    self.session.documents.open(file.uri, "python", 1, file.text)
                    self.session.opened(file.uri)
                if closed is not None:
                    self.session.close(closed)
            edit, file = typist.edit(), typist.file
            assert self.session.change(file.uri, file.version, [change_of(edit)])
            if n % ENGINE_EDITS_A_REQUEST == 0:
                answer = await self.session.complete(params_at(file, n % AUTOMATIC_EVERY != 0))
                for item in answer.items:
                    num_shown += 1
                    self.session.accept(item.item_id)
                if n % 1000 == 0:
                    await asyncio.sleep(0.5)  # time to look ahead
                await self.check()
        return num_shown

    async def check(self) -> None:
        """Nothing is beyond its cap."""
        await self.scheduler.submit("check", lambda cancel: self.check_engine())
        answering = self.session._answering
        assert len(answering.known) <= MAX_RECORDS
        assert answering.known.num_bytes <= MAX_BYTES
        assert set(answering._desks) <= set(self.session.documents.uris())
        assert set(self.session._answers) <= set(self.session.documents.uris())
        assert len(self.admission) <= MAX_KNOWN

    def check_engine(self) -> None:
        """On its own thread, in between two pieces of work."""
        backend = self.backend
        assert len(backend.model._slots) <= backend.model._max_slots
        assert backend.sources.corpus.num_tokens <= 200_000
        assert len(backend._context._files) <= MAX_FILES
        assert backend._context.num_characters <= MAX_CHARACTERS
        assert len(backend._redactor) <= MAX_FILES


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TABAHEAD_HOME", str(tmp_path / "home"))
    return tmp_path


def test_slots_and_caches_of_an_engine_stay_within_their_caps(home: Path) -> None:
    build_tiny_model(home / "model")
    typist = Typist(num_files=NUM_FILES, edits_a_visit=NUM_EDITS // 2 // NUM_FILES)

    async def main() -> tuple[int, int]:
        day, process = Day(home / "model"), psutil.Process()
        day.session.use(day.engine)
        await day.spend(typist, NUM_EDITS // 2)
        assert typist.num_seen == NUM_FILES
        model = day.backend.model
        slots = {id(slot) for slot in model._slots.values()}
        gc.collect()
        before = process.memory_info().rss
        num_shown = await day.spend(typist, NUM_EDITS // 2)
        gc.collect()
        growth = process.memory_info().rss - before
        assert len(model._slots) == model._max_slots < NUM_FILES, "all are in use"
        assert {id(slot) for slot in model._slots.values()} == slots, "and none is made anew"
        for uri in day.session.documents.uris():
            day.session.close(uri)
        await day.check()
        assert len(day.session.documents) == 0
        for scheduler in (day.scheduler, day.disk):
            scheduler.stop()
            assert await asyncio.to_thread(scheduler.join, 20)
        day.backend.close()
        return num_shown, growth

    num_shown, growth = asyncio.run(main())
    print(f"grew by {growth / 2**20:.1f} MB; {num_shown} items")
    assert num_shown > 0
    assert growth < MAX_ENGINE_GROWTH, f"grew by {growth / 2**20:.1f} MB"
