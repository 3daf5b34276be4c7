"""One status out of all that happens: the most important thing first, and changes only."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from lsp_server.completion import CompletionStats, Origin, Reason
from lsp_server.status import NUM_TIMED, SLOW_MS, Kind, Status, StatusSource

ENGINE = CompletionStats(origin=Origin.ENGINE)
CACHE = CompletionStats(origin=Origin.CACHE)
MODEL = {"model": "smollm2-135m", "provider": "CPUExecutionProvider"}


class Heard:
    """A status source and what it has told."""

    def __init__(self) -> None:
        self.source = StatusSource()
        self.all: list[Status] = []
        self.source.subscribe(self.all.append)

    def ready(self) -> None:
        self.source.model(None, None, MODEL)

    def answered(self, reason=None, ms=100.0, stats=ENGINE, message=None) -> None:
        self.source.answered(reason, message, ms, stats)

    @property
    def kinds(self) -> list[Kind]:
        return [status.kind for status in self.all]

    @property
    def last(self) -> tuple[Kind, str]:
        return self.all[-1].kind, self.all[-1].sentence


@pytest.fixture
def heard():
    """Within a running event loop, as the server has one."""

    async def inside() -> Heard:
        return Heard()

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield loop.run_until_complete(inside())
    loop.close()
    asyncio.set_event_loop(None)


def on_loop(work) -> None:
    async def run() -> None:
        work()
        await asyncio.sleep(0)  # callbacks run

    asyncio.get_event_loop().run_until_complete(run())


def test_it_begins_busy_and_names_model_and_provider_when_ready(heard):
    on_loop(lambda: heard.source.model(Reason.MODEL_LOADING, None, {}))
    on_loop(heard.ready)
    assert heard.kinds == [Kind.BUSY, Kind.BUSY, Kind.NORMAL]
    assert heard.last == (Kind.NORMAL, "smollm2-135m on CPU.")


def test_progress_is_told_in_steps_and_from_any_thread(heard):
    on_loop(lambda: heard.source.model(Reason.MODEL_LOADING, None, {}))
    before = len(heard.all)

    def load() -> None:
        for done in range(101):
            heard.source.loading("loading the model", done, 100)

    def from_a_thread() -> None:
        thread = threading.Thread(target=load)
        thread.start()
        thread.join()

    on_loop(from_a_thread)
    told = [status.sentence for status in heard.all[before:]]
    assert told == [f"Loading the model ({percent}%)." for percent in range(0, 101, 5)]


def test_progress_that_comes_late_does_not_undo_ready(heard):
    on_loop(lambda: heard.source.model(Reason.MODEL_LOADING, None, {}))
    on_loop(heard.ready)
    on_loop(lambda: heard.source.loading("loading the model", 1, 4))
    assert heard.last[0] is Kind.NORMAL


def test_a_missing_model_is_an_error_with_what_to_do(heard):
    remedy = "The model x is not on this machine; run `tabahead models fetch x`."
    on_loop(lambda: heard.source.model(Reason.MODEL_MISSING, remedy, {}))
    assert heard.last == (Kind.ERROR, remedy)


def test_only_changes_are_told_and_times_alone_are_none(heard):
    on_loop(heard.ready)
    told = len(heard.all)
    for ms in (120.0, 80.0, 95.0):
        heard.answered(ms=ms)
    heard.answered(Reason.EMPTY)
    heard.answered(Reason.SUPERSEDED)
    assert len(heard.all) == told + 1
    assert heard.last == (Kind.NORMAL, "smollm2-135m on CPU, last answer in 120 ms.")
    assert heard.source.now().sentence.endswith("last answer in 95 ms.")


@pytest.mark.parametrize(
    "reason", [Reason.EXCLUDED, Reason.SECRET, Reason.TOO_LARGE, Reason.BINARY]
)
def test_a_file_that_is_left_alone_is_inactive_until_another_one_is_asked_for(heard, reason):
    on_loop(heard.ready)
    heard.answered(reason, stats=None)
    heard.answered(Reason.SUPERSEDED, stats=None)
    assert heard.last[0] is Kind.INACTIVE
    heard.answered(reason, stats=None, message="Left alone by the rule *.md in .gitignore.")
    assert heard.last[1] == "Left alone by the rule *.md in .gitignore."
    heard.answered(Reason.MID_WORD, stats=None)
    assert heard.last[0] is Kind.NORMAL


def test_a_failing_engine_is_an_error_without_its_words_until_it_answers_again(heard):
    on_loop(heard.ready)
    heard.answered(Reason.ENGINE_ERROR, message="The engine failed: swordfish")
    kind, sentence = heard.last
    assert kind is Kind.ERROR
    assert "swordfish" not in sentence
    assert "tabahead doctor" in sentence
    heard.answered()
    assert heard.last[0] is Kind.NORMAL


def test_paused_comes_before_all_else(heard):
    on_loop(heard.ready)
    heard.source.paused(True)
    assert heard.last[0] is Kind.INACTIVE
    assert "tabahead.resume" in heard.last[1]
    told = len(heard.all)
    heard.answered(Reason.PAUSED, stats=None)
    heard.answered(Reason.EXCLUDED, stats=None)
    assert len(heard.all) == told
    heard.source.paused(False)
    assert heard.last[0] is Kind.INACTIVE, "the file is still left alone"


def test_a_slow_machine_is_told_once_with_a_remedy(heard):
    on_loop(heard.ready)
    slow, fast = SLOW_MS * 2, SLOW_MS / 10
    for _ in range(NUM_TIMED - 1):
        heard.answered(ms=slow)
    assert heard.last[0] is Kind.NORMAL, "too few to judge"
    for _ in range(NUM_TIMED):
        heard.answered(ms=slow)
    assert heard.kinds.count(Kind.WARNING) == 1
    assert "max_tokens" in heard.last[1]
    assert "half of the last answers took over 3.0 s" in heard.last[1]
    for ms in [fast] * NUM_TIMED + [slow] * NUM_TIMED:
        heard.answered(ms=ms)
    assert heard.kinds.count(Kind.WARNING) == 1
    assert heard.last[0] is Kind.NORMAL
    on_loop(heard.ready)  # another model is judged anew
    for _ in range(NUM_TIMED):
        heard.answered(ms=slow)
    assert heard.kinds.count(Kind.WARNING) == 2


def test_answers_that_are_known_already_say_nothing_of_the_engine(heard):
    on_loop(heard.ready)
    for _ in range(2 * NUM_TIMED):
        heard.answered(ms=SLOW_MS * 2, stats=CACHE)
    assert Kind.WARNING not in heard.kinds


def test_changes_are_logged_at_the_level_of_information(heard, caplog):
    caplog.set_level(logging.INFO, "lsp_server.status")
    on_loop(heard.ready)
    assert ("lsp_server.status", logging.INFO, "status: normal: smollm2-135m on CPU.") in (
        caplog.record_tuples
    )


def test_a_late_subscriber_hears_at_once_how_things_stand(heard):
    on_loop(heard.ready)
    late: list[Status] = []
    heard.source.subscribe(late.append)
    assert [status.as_json() for status in late] == [
        {
            "kind": "normal",
            "message": "smollm2-135m on CPU.",
            "model": "smollm2-135m",
            "provider": "CPU",
        }
    ]


def test_model_provider_and_time_are_told_by_themselves_while_there_is_a_model(heard):
    assert set(heard.source.now().as_json()) == {"kind", "message"}
    on_loop(heard.ready)
    heard.answered(ms=12.34)
    heard.source.paused(True)
    told = heard.source.now().as_json()
    assert (told["kind"], told["model"], told["provider"]) == ("inactive", "smollm2-135m", "CPU")
    assert told["last_ms"] == 12.3
    on_loop(lambda: heard.source.model(Reason.MODEL_LOADING, None, {}))
    assert set(heard.source.now().as_json()) == {"kind", "message"}
