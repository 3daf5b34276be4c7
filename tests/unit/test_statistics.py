"""What is counted of answers, acceptances and the engine's work: numbers only, never text."""

from __future__ import annotations

import json
import threading
from datetime import datetime

import pytest

from lsp_server.completion import CompletionStats, Origin, Reason
from lsp_server.statistics.counting import SAVE_SECONDS, Statistics, latency_class, part_kind
from lsp_server.statistics.file import FILE_NAME, read
from lsp_server.statistics.shown import Shown

SECRET = "swordfish = 17\nsalmon"


@pytest.fixture
def statistics(tmp_path):
    return Statistics(tmp_path, now=lambda: datetime(2026, 1, 31, 13, 59))


def saved(statistics, folder):
    """What is on the disk after a save."""
    statistics.save()
    return read(folder)


def item(text: str = SECRET) -> Shown:
    return Shown("1", "file:///secret.py", text, CompletionStats(), head="key = ")


def from_(origin: Origin) -> CompletionStats:
    return CompletionStats(origin=origin)


def test_every_answer_is_counted_by_its_reason_or_its_origin_and_latency(statistics, tmp_path):
    statistics.answered(None, 120.0, from_(Origin.ENGINE))
    statistics.answered(None, 0.4, from_(Origin.CACHE))
    statistics.answered(Reason.MID_WORD, 0.1, None)
    assert saved(statistics, tmp_path).totals == {
        "requests": 3,
        "latency_ms.engine.<=150": 1,
        "latency_ms.cache.<=1": 1,
        "empty.mid-word": 1,
    }


def test_the_engines_work_is_counted_whether_it_was_shown_or_not(statistics, tmp_path):
    work = CompletionStats(
        tokens=9,
        passes=4,
        prompt_tokens=100,
        reused_tokens=90,
        sources={"lookup": {"proposed": 8, "accepted": 5}},
        drafted_at={"lookup": [3, 3, 2]},
        accepted_at={"lookup": [3, 2]},
    )
    statistics.generated(work)
    statistics.generated(work)
    assert saved(statistics, tmp_path).totals == {
        "generations": 2,
        "tokens": 18,
        "passes": 8,
        "prompt_tokens": 200,
        "reused_tokens": 180,
        "sources.lookup.proposed": 16,
        "sources.lookup.accepted": 10,
        "positions.lookup.1.drafted": 6,
        "positions.lookup.2.drafted": 6,
        "positions.lookup.3.drafted": 4,
        "positions.lookup.1.accepted": 6,
        "positions.lookup.2.accepted": 4,
    }


def test_what_was_refused_before_the_engine_began_is_no_generation(statistics, tmp_path):
    statistics.generated(CompletionStats())
    assert saved(statistics, tmp_path).totals == {}


def test_characters_taken_in_parts_count_once(statistics, tmp_path):
    shown = item("one two\nthree four")
    for num_characters in (3, 7, 13):
        statistics.partially_accepted(shown, num_characters)
        shown.num_done, shown.has_parts = num_characters, True
    statistics.accepted(shown)
    totals = saved(statistics, tmp_path).totals
    assert totals == {
        "accepted": 1,
        "accepted_in_parts": 1,
        "partially_accepted": 1,
        "parts.word": 1,
        "parts.line": 2,
        "characters": len("one two\nthree four"),
    }


def test_characters_that_were_typed_are_not_taken(statistics, tmp_path):
    shown = item("print(x)")
    shown.num_done = 2
    statistics.accepted(shown)
    totals = saved(statistics, tmp_path).totals
    assert totals == {"accepted": 1, "characters": len("int(x)")}


@pytest.mark.parametrize(
    ("start", "end", "kind"),
    [(0, 3, "word"), (0, 7, "line"), (3, 7, "line"), (7, 8, "line"), (8, 11, "word")],
)
def test_a_part_to_the_end_of_a_line_is_a_line(start, end, kind):
    assert part_kind("one two\nthree", start, end) == kind


def test_some_counts_are_kept_by_the_hour(statistics, tmp_path):
    statistics.answered(None, 1.0, from_(Origin.CACHE))
    statistics.shown(item("abc"))
    statistics.accepted(item("abc"))
    statistics.kept(item(), True)
    statistics.kept(item(), False)
    counters = saved(statistics, tmp_path)
    assert counters.hours == {
        "2026-01-31T13": {"requests": 1, "shown": 1, "accepted": 1, "characters": 3}
    }
    assert (counters.totals["kept"], counters.totals["not_kept"]) == (1, 1)
    assert counters.since == "2026-01-31"


def test_no_text_name_or_path_reaches_the_disk(statistics, tmp_path):
    statistics.answered(None, 1.0, from_(Origin.ENGINE))
    statistics.shown(item())
    statistics.partially_accepted(item(), 9)
    statistics.accepted(item())
    statistics.kept(item(), True)
    statistics.save()
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert json.loads((tmp_path / FILE_NAME).read_text())["totals"]["accepted"] == 1
    for word in (b"swordfish", b"salmon", b"key", b"secret"):
        assert word not in written


def test_it_saves_by_itself_once_a_minute(tmp_path):
    now = [0.0]
    statistics = Statistics(tmp_path, clock=lambda: now[0])
    statistics.answered(Reason.EMPTY, 1.0, None)
    statistics.save_sometimes()
    assert read(tmp_path).totals == {}
    now[0] = SAVE_SECONDS
    statistics.save_sometimes()
    for thread in threading.enumerate():
        if thread.name == "statistics":
            thread.join()
    assert read(tmp_path).totals["requests"] == 1


def test_nothing_is_lost_where_two_threads_count_and_a_third_saves(statistics, tmp_path):
    def count():
        for _ in range(500):
            statistics.answered(Reason.EMPTY, 1.0, None)

    threads = [threading.Thread(target=count) for _ in range(2)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        statistics.save()
    assert saved(statistics, tmp_path).totals["requests"] == 1000


def test_latency_classes_meet_at_their_bounds():
    assert [latency_class(ms) for ms in (0.0, 5.0, 5.1, 10_000.0, 10_001.0)] == [
        "<=1",
        "<=5",
        "<=10",
        "<=10000",
        ">10000",
    ]
