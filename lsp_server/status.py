"""One sentence on how things stand, made of all that happens: for a status bar, and for the log.

Tells changes only. Runs on the event loop, except for `loading`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from lsp_server.answers import SENTENCES
from lsp_server.completion import CompletionStats, Origin, Reason

_log = logging.getLogger(__name__)

SLOW_MS = 1500.0
"""Where half of the engine's answers take longer, most come after the next key."""
NUM_TIMED = 20
"""The engine's last answers, by which it is judged."""
PERCENT_STEP = 5
"""Progress is told in such steps."""

RESUME_COMMAND = "tabahead.resume"


class Kind(StrEnum):
    BUSY = "busy"
    NORMAL = "normal"
    WARNING = "warning"
    INACTIVE = "inactive"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Status:
    kind: Kind
    message: str
    """A sentence without its full stop."""
    time: str = field(default="", compare=False)
    """Goes on with what was measured: new with each answer, so that it alone is no change."""
    model: str | None = None
    provider: str | None = None
    """Such as `CPU`; both are None while there is no model."""
    last_ms: float | None = field(default=None, compare=False)
    """What the last answer with an item took when this was told; alone it is no change."""

    @property
    def sentence(self) -> str:
        return f"{self.message}{self.time}."

    def as_json(self) -> dict[str, Any]:
        """The parameters of `tabahead/status`."""
        facts = {"model": self.model, "provider": self.provider, "last_ms": self.last_ms}
        known = {name: fact for name, fact in facts.items() if fact is not None}
        return {"kind": self.kind.value, "message": self.sentence, **known}


Hear = Callable[[Status], None]

_OF_DOCUMENT = (Reason.EXCLUDED, Reason.SECRET, Reason.TOO_LARGE, Reason.BINARY)
_SLOW = (
    "Completions are slow here: lower `max_tokens` or `prompt_tokens`, take a smaller `model`, or"
    " free the processor"
)
_PAUSED = Status(Kind.INACTIVE, f"Paused; the command {RESUME_COMMAND} goes on")
_FAILED = Status(
    Kind.ERROR, "The engine failed on the last request; `tabahead doctor` looks for the cause"
)


class StatusSource:
    def __init__(self) -> None:
        self._hearers: list[Hear] = []
        self._model = Status(Kind.BUSY, "Starting")
        self._name: str | None = None
        self._provider: str | None = None
        self._is_ready = False
        self._is_paused = False
        self._of_answer: Status | None = None
        """What the last answer says of its document or of the engine."""
        self._times_ms: deque[float] = deque(maxlen=NUM_TIMED)
        self._last_ms: float | None = None
        self._is_slow = False
        self._has_warned = False
        self._told: Status | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._progress = ("", 0)

    def subscribe(self, hear: Hear) -> None:
        """From now on `hear` is told of changes, and at once how things stand."""
        self._hearers.append(hear)
        hear(self.now())

    def now(self) -> Status:
        """How things stand."""
        last_ms = None if self._last_ms is None else round(self._last_ms, 1)
        return replace(self._state(), model=self._name, provider=self._provider, last_ms=last_ms)

    def _state(self) -> Status:
        """What keeps all documents from being completed comes first."""
        if self._is_paused:
            return _PAUSED
        if not self._is_ready:
            return self._model
        if self._of_answer is not None:
            return self._of_answer
        if self._is_slow:
            half = _time(self._median_ms)
            return Status(Kind.WARNING, _SLOW, f"; half of the last answers took over {half}")
        last = "" if self._last_ms is None else f", last answer in {_time(self._last_ms)}"
        name = self._name or "the model"
        return Status(Kind.NORMAL, f"{name} on {self._provider}" if self._provider else name, last)

    def model(
        self, reason: Reason | None, message: str | None, description: Mapping[str, Any]
    ) -> None:
        """There is a model now (no reason, `description` of the backend), or why there is none."""
        self._loop = asyncio.get_running_loop()
        self._is_ready = reason is None
        self._name = description.get("model")
        provider = str(description.get("provider") or "")
        self._provider = provider.removesuffix("ExecutionProvider") or None
        self._of_answer = self._last_ms = None
        self._is_slow = self._has_warned = False
        self._times_ms.clear()
        if reason is Reason.MODEL_MISSING:
            self._model = Status(Kind.ERROR, _bare(message) or "There is no model")
        elif reason is not None:
            self._progress = ("", 0)
            self._model = Status(Kind.BUSY, _bare(message) or "Loading the model")
        self._tell()

    def loading(self, stage: str, done: int, total: int) -> None:
        """Progress of bringing or loading the model; from any thread."""
        percent = PERCENT_STEP * (100 * done // total // PERCENT_STEP) if total else 0
        if self._loop is None or (stage, percent) == self._progress:
            return
        self._progress = (stage, percent)
        with suppress(RuntimeError):  # the loop is closed: the server is ending
            self._loop.call_soon_threadsafe(self._show_progress, stage, percent)

    def _show_progress(self, stage: str, percent: int) -> None:
        if self._model.kind is Kind.BUSY and not self._is_ready:
            self._model = Status(Kind.BUSY, f"{stage[:1].upper()}{stage[1:]} ({percent}%)")
            self._tell()

    def paused(self, is_paused: bool) -> None:
        self._is_paused = is_paused
        self._tell()

    def answered(
        self,
        reason: Reason | None,
        message: str | None,
        ms: float,
        stats: CompletionStats | None,
    ) -> None:
        """A request was answered after `ms`, with an item where there is no reason."""
        if reason is not None and reason in _OF_DOCUMENT:
            self._of_answer = Status(Kind.INACTIVE, _bare(message or SENTENCES[reason]))
        elif reason is Reason.ENGINE_ERROR:
            self._of_answer = _FAILED  # its own message may hold text of the document
        elif reason not in (Reason.SUPERSEDED, Reason.STALE, Reason.CANCELLED, Reason.NOT_OPEN):
            self._of_answer = None
        if reason in (None, Reason.DEADLINE) and stats and stats.origin is Origin.ENGINE:
            self._times_ms.append(ms)
            self._judge()
        if reason is None:
            self._last_ms = ms
        self._tell()

    def _judge(self) -> None:
        """Slow is told once a model; not again when it comes back."""
        if len(self._times_ms) < NUM_TIMED:
            return
        is_slow = self._median_ms > SLOW_MS
        self._is_slow = is_slow and (self._is_slow or not self._has_warned)
        self._has_warned |= is_slow

    @property
    def _median_ms(self) -> float:
        return sorted(self._times_ms)[len(self._times_ms) // 2]

    def _tell(self) -> None:
        """Times change with each answer: they are told when something else does."""
        status = self.now()
        told = self._told
        if told is not None and told == status and bool(told.time) == bool(status.time):
            return
        self._told = status
        _log.info("status: %s: %s", status.kind.value, status.sentence)
        for hear in self._hearers:
            hear(status)


def _bare(message: str | None) -> str:
    return (message or "").removesuffix(".")


def _time(ms: float) -> str:
    return f"{ms / 1000:.1f} s" if ms >= 995 else f"{ms:.0f} ms"
