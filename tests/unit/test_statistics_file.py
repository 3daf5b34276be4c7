"""The counters on disk: added up over servers, carried over from old forms, never in the way."""

from __future__ import annotations

import json
import threading
from datetime import date, timedelta

import pytest

from lsp_server.__main__ import main
from lsp_server.statistics.file import (
    DAMAGED_NAME,
    FILE_NAME,
    NUM_DAYS,
    VERSION,
    Counters,
    add,
    read,
    reset,
)

TODAY = date(2026, 3, 1)


def counted(hour: str | None = None, **totals: int) -> Counters:
    counters = Counters()
    for name, number in totals.items():
        counters.add(name, number, hour)
    return counters


def test_counters_of_several_servers_add_up(tmp_path):
    hour = "2026-03-01T09"
    threads = [
        threading.Thread(target=add, args=(tmp_path, counted(hour, requests=1, shown=2), TODAY))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = read(tmp_path)
    assert found.totals == {"requests": 8, "shown": 16}
    assert found.hours == {hour: {"requests": 8, "shown": 16}}
    assert found.since == "2026-03-01"


def test_the_first_day_stays(tmp_path):
    add(tmp_path, counted(requests=1), TODAY)
    add(tmp_path, counted(requests=1), TODAY + timedelta(days=9))
    assert read(tmp_path).since == TODAY.isoformat()


def test_the_first_form_of_the_file_is_carried_over(tmp_path):
    old = {"requests": 5, "latency_ms.<=25": 2, "latency_ms.>5000": 1, "empty.mid-word": 2}
    (tmp_path / FILE_NAME).write_text(json.dumps(old))
    carried = {
        "requests": 5,
        "latency_ms.engine.<=25": 2,
        "latency_ms.engine.>5000": 1,
        "empty.mid-word": 2,
    }
    assert read(tmp_path).totals == carried
    add(tmp_path, counted(requests=1), TODAY)
    found = read(tmp_path)
    assert found.totals == {**carried, "requests": 6}
    assert found.since is None, "when it began is not known"
    assert json.loads((tmp_path / FILE_NAME).read_text())["version"] == VERSION


def test_hours_are_kept_for_so_many_days_and_totals_for_ever(tmp_path):
    for ago in range(NUM_DAYS + 10):
        day = TODAY - timedelta(days=ago)
        add(tmp_path, counted(f"{day}T12", requests=1), TODAY)
    add(tmp_path, counted("2031-01-01T00", requests=1), TODAY)  # the clock was wrong
    found = read(tmp_path)
    assert found.totals == {"requests": NUM_DAYS + 11}
    assert len(found.hours) == NUM_DAYS
    assert min(found.hours) == f"{TODAY - timedelta(days=NUM_DAYS - 1)}T12"


def test_a_damaged_file_is_put_aside_and_counting_starts_again(tmp_path, caplog):
    (tmp_path / FILE_NAME).write_text("[1, 2")
    assert read(tmp_path).totals == {}
    assert "damaged" in caplog.text
    add(tmp_path, counted(requests=1), TODAY)
    assert read(tmp_path).totals == {"requests": 1}
    assert (tmp_path / DAMAGED_NAME).read_text() == "[1, 2"


@pytest.mark.parametrize(
    "text",
    [
        '{"requests": 1e999}',
        '{"requests": {}}',
        "[]",
        "7",
        '{"version": 2}',
        '{"version": "x"}',
        '{"version": 2, "totals": {}, "hours": {"x": 1}}',
        '{"version": 2, "totals": {"requests": null}, "hours": {}}',
        '{"requests": 1' + "0" * 400 + "}",
        '{"empty.\\ud800": 1}',
        "[" * 100_000,
        "\xff",
    ],
    ids=lambda text: text[:60],
)
def test_what_are_no_counters_is_damage(tmp_path, caplog, text):
    (tmp_path / FILE_NAME).write_text(text, encoding="latin-1")
    assert read(tmp_path).totals == {}
    assert "damaged" in caplog.text


def test_the_file_of_a_newer_version_is_left_alone(tmp_path, caplog):
    newer = json.dumps({"version": VERSION + 1, "figures": []})
    (tmp_path / FILE_NAME).write_text(newer)
    add(tmp_path, counted(requests=1), TODAY)
    assert (tmp_path / FILE_NAME).read_text() == newer
    assert read(tmp_path).totals == {}
    assert "newer" in caplog.text


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path, caplog):
    (tmp_path / "state").write_text("a file where the folder should be")
    add(tmp_path / "state", counted(requests=1), TODAY)
    assert "cannot be kept" in caplog.text


def test_a_full_disk_leaves_the_counters_as_they_were(tmp_path, monkeypatch, caplog):
    add(tmp_path, counted(requests=1), TODAY)

    def full(self, *args, **kwargs):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.write_text", full)
        add(tmp_path, counted(requests=1), TODAY)
    assert "No space left" in caplog.text
    assert read(tmp_path).totals == {"requests": 1}
    assert {path.name for path in tmp_path.iterdir()} <= {FILE_NAME, f"{FILE_NAME}.lock"}


def test_a_reset_removes_all_of_it_and_says_whether_there_was_any(tmp_path):
    assert not reset(tmp_path / "absent")
    assert not reset(tmp_path)
    add(tmp_path, counted(requests=1), TODAY)
    (tmp_path / DAMAGED_NAME).write_text("x")
    assert reset(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} <= {f"{FILE_NAME}.lock"}


# The command


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("TABAHEAD_HOME", str(tmp_path))
    return tmp_path / "state"


def test_counters_that_cannot_be_read_are_one_sentence(state, capsys):
    (state / FILE_NAME).mkdir(parents=True)
    assert main(["stats"]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith("tabahead: ")
    assert FILE_NAME in printed
    assert printed.count("\n") == 1


def test_a_page_that_cannot_be_written_is_one_sentence(state, tmp_path, capsys):
    assert main(["stats", "--html", str(tmp_path / "absent" / "page.html")]) == 1
    printed = capsys.readouterr().err
    assert "page.html cannot be written" in printed
    assert printed.count("\n") == 1


def test_every_form_of_the_command_works_without_counters(state, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main(["stats"]) == 0
    assert "Nothing has been counted yet" in capsys.readouterr().out
    assert main(["stats", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["requests"] == 0
    assert main(["stats", "--html", str(page)]) == 0
    assert str(page) in capsys.readouterr().out
    assert "Nothing has been counted yet" in page.read_text(encoding="utf-8")
    assert main(["stats", "--reset"]) == 0
    assert "no counters" in capsys.readouterr().out


def test_a_reset_says_what_it_removed(state, capsys):
    add(state, counted(requests=3), TODAY)
    assert main(["stats", "--reset"]) == 0
    assert str(state / FILE_NAME) in capsys.readouterr().out
    assert read(state).totals == {}
