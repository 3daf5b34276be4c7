"""What the event loop knows of the disk: looks happen elsewhere, hold for a while, and end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from lsp_server.completion import Reason, Refusal, Snapshot
from lsp_server.files import admission
from lsp_server.files.admission import MAX_KNOWN, Admission
from lsp_server.files.ignore_files import IgnoreFiles
from lsp_server.files.rules import FileRules
from lsp_server.scheduler import Scheduler
from lsp_server.settings.tree import Settings

URI = "file:///w/a.py"
IGNORED = Refusal(Reason.EXCLUDED, "Ignored by a rule.")


class Rules(FileRules):
    """Says what it is told to, on whatever thread it is asked."""

    def __init__(self) -> None:
        super().__init__(Settings(), [], IgnoreFiles())
        self.says: Refusal | Exception | None = None
        self.asked: list[str] = []
        self.threads: set[str] = set()
        self.told: list[int] = []
        self.gate = threading.Event()
        self.gate.set()
        self.changes = 0

    @property
    def num_changes(self) -> int:
        return self.changes

    def tell(self) -> None:
        self.told.append(self.changes)

    def refuse(self, uri: str) -> Refusal | None:
        self.asked.append(uri)
        self.threads.add(threading.current_thread().name)
        self.gate.wait(20)
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def snapshot(uri: str = URI, text: str = "x = ") -> Snapshot:
    return Snapshot(uri, 1, "python", text)


def run(body: Callable[[Rules, Admission, Clock], Awaitable[None]], **settings) -> None:
    async def main() -> None:
        rules, clock = Rules(), Clock()
        disk = Scheduler("disk")
        try:
            admitted = Admission(Settings(**settings), rules, disk, rules.tell, clock)
            await body(rules, admitted, clock)
        finally:
            rules.gate.set()
            disk.stop()
            assert await asyncio.to_thread(disk.join, 20)

    asyncio.run(main())


def test_what_the_disk_says_is_asked_on_its_own_thread_and_holds_for_a_while() -> None:
    async def body(rules: Rules, admitted: Admission, clock: Clock) -> None:
        await admitted.look(URI)
        assert admitted.refuse(snapshot()) is None
        rules.says = IGNORED
        clock.now = admission.FRESH / 2
        await admitted.look(URI)
        assert admitted.refuse(snapshot()) is None
        assert rules.asked == [URI]
        clock.now = admission.FRESH
        while admitted.refuse(snapshot()) is None:
            await admitted.look(URI)
        assert admitted.refuse(snapshot()) == IGNORED
        assert rules.asked == [URI, URI]
        assert rules.threads == {"disk"}

    run(body)


def test_without_a_look_a_file_is_refused_and_what_is_on_no_disk_is_not() -> None:
    async def body(rules: Rules, admitted: Admission, clock: Clock) -> None:
        refusal = admitted.refuse(snapshot())
        assert refusal is not None
        assert refusal.reason is Reason.EXCLUDED
        assert "disk" in (refusal.message or "")
        await admitted.look("untitled:Untitled-1")
        assert admitted.refuse(snapshot("untitled:Untitled-1")) is None
        assert rules.asked == []

    run(body)


def test_name_and_text_decide_before_the_disk() -> None:
    async def body(rules: Rules, admitted: Admission, clock: Clock) -> None:
        rules.says = IGNORED
        for uri in (URI, "file:///w/.env"):
            await admitted.look(uri)
        secret = admitted.refuse(snapshot("file:///w/.env"))
        assert secret is not None
        assert secret.reason is Reason.SECRET
        binary = admitted.refuse(snapshot(text="\0"))
        assert binary is not None
        assert binary.reason is Reason.BINARY

    run(body)


def test_a_disk_that_hangs_holds_up_nobody_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "PATIENCE", 0.01)
    monkeypatch.setattr(admission, "PATIENCE_AGAIN", 0.01)

    async def body(rules: Rules, admitted: Admission, clock: Clock) -> None:
        await admitted.look(URI)
        rules.gate.clear()
        clock.now = admission.FRESH
        for _ in range(3):
            await admitted.look(URI)  # what was known holds on
            await admitted.look("file:///w/b.py")
        assert admitted.refuse(snapshot()) is None
        assert admitted.refuse(snapshot("file:///w/b.py")) is not None
        assert rules.asked == [URI, URI], "one look at a time, and none twice"
        rules.gate.set()
        while admitted.refuse(snapshot("file:///w/b.py")) is not None:
            await admitted.look("file:///w/b.py")

    run(body)


def test_changed_rules_are_told_once_and_not_too_often() -> None:
    async def body(rules: Rules, admitted: Admission, clock: Clock) -> None:
        for now, changes, told in (
            (0.0, 1, []),
            (admission.CALM, 1, [1]),
            (2 * admission.CALM, 1, [1]),
            (2 * admission.CALM + 1, 2, [1, 2]),
            (2 * admission.CALM + 2, 3, [1, 2]),
            (3 * admission.CALM + 1, 4, [1, 2, 4]),
        ):
            clock.now, rules.changes = now, changes
            await admitted.look(f"file:///w/{now}")
            assert rules.told == told

    run(body)


def test_a_defect_costs_a_line_in_the_log_and_no_completion(caplog) -> None:
    async def body(rules: Rules, admitted: Admission, clock: Clock) -> None:
        rules.says = RuntimeError("a defect")
        await admitted.look(URI)
        assert admitted.refuse(snapshot()) is None

    run(body)
    assert "RuntimeError" in caplog.text


def test_what_is_known_is_bounded() -> None:
    async def body(rules: Rules, admitted: Admission, clock: Clock) -> None:
        for n in range(MAX_KNOWN + 5):
            await admitted.look(f"file:///w/{n}")
        assert len(admitted) == MAX_KNOWN
        assert admitted.refuse(snapshot("file:///w/0")) is not None
        assert admitted.refuse(snapshot(f"file:///w/{MAX_KNOWN}")) is None

    run(body)
