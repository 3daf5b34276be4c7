"""Local counters: numbers only, added up over processes, never in the way of a completion."""

from __future__ import annotations

import json
import threading

import pytest

from lsp_server.__main__ import main
from lsp_server.statistics import FILE_NAME, SAVE_SECONDS, Statistics, add, latency_class, read


def test_counters_of_several_servers_add_up(tmp_path):
    threads = [
        threading.Thread(target=add, args=(tmp_path, {"requests": 1, "shown": 2})) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read(tmp_path) == {"requests": 8, "shown": 16}


def test_every_answer_is_counted_by_its_reason_or_its_latency(tmp_path):
    statistics = Statistics(tmp_path)
    statistics.answered(None, 12.0, {"lookup": {"proposed": 4, "accepted": 3}})
    statistics.answered("mid-word", 0.1, {})
    statistics.accepted(17)
    statistics.save()
    statistics.save()
    assert read(tmp_path) == {
        "requests": 2,
        "shown": 1,
        "latency_ms.<=25": 1,
        "empty.mid-word": 1,
        "sources.lookup.proposed": 4,
        "sources.lookup.accepted": 3,
        "accepted": 1,
        "characters": 17,
    }


def test_a_damaged_file_is_told_and_counting_starts_again(tmp_path, caplog):
    (tmp_path / FILE_NAME).write_text("[1, 2")
    assert read(tmp_path) == {}
    assert "damaged" in caplog.text
    add(tmp_path, {"requests": 1})
    assert json.loads((tmp_path / FILE_NAME).read_text()) == {"requests": 1}


@pytest.mark.parametrize("text", ['{"requests": 1e999}', '{"requests": {}}', "\xff"])
def test_counters_that_are_no_numbers_are_damage(tmp_path, caplog, text):
    (tmp_path / FILE_NAME).write_text(text, encoding="latin-1")
    assert read(tmp_path) == {}
    assert "damaged" in caplog.text


def test_counters_that_cannot_be_read_are_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TABAHEAD_HOME", str(tmp_path))
    (tmp_path / "state" / FILE_NAME).mkdir(parents=True)
    assert main(["stats"]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith("tabahead: ")
    assert FILE_NAME in printed
    assert printed.count("\n") == 1


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path, caplog):
    (tmp_path / "state").write_text("a file where the folder should be")
    add(tmp_path / "state", {"requests": 1})
    assert "cannot be kept" in caplog.text


def test_it_saves_by_itself_once_a_minute(tmp_path):
    now = [0.0]
    statistics = Statistics(tmp_path, clock=lambda: now[0])
    statistics.answered("empty", 1.0, {})
    statistics.save_sometimes()
    assert read(tmp_path) == {}
    now[0] = SAVE_SECONDS
    statistics.save_sometimes()
    for thread in threading.enumerate():
        if thread.name == "statistics":
            thread.join()
    assert read(tmp_path)["requests"] == 1


def test_latency_classes_meet_at_their_bounds():
    assert [latency_class(ms) for ms in (0.0, 5.0, 5.1, 5000.0, 5001.0)] == [
        "<=5",
        "<=5",
        "<=10",
        "<=5000",
        ">5000",
    ]
