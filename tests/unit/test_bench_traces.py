"""Recorded typing is replayed as it was: the same edits at the author's pace, pauses cut."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from lsp_server.bench.traces import (
    MAX_PAUSE,
    Patch,
    Trace,
    cursor_after,
    load_traces,
    recorded,
    typed,
)
from lsp_server.errors import SettingsError


def recording(*transactions: tuple[int, list[list[Any]]], start: str = "") -> dict[str, Any]:
    """Of (second, patches); half of the transactions come before what is replayed."""
    times = [f"2020-09-10T04:23:{second:02}.000Z" for second, _ in transactions]
    patches = [made for _, made in transactions]
    txns = [{"time": t, "patches": p} for t, p in zip(times, patches, strict=True)]
    return {"startContent": start, "endContent": "", "txns": txns}


def typing(seconds: list[int]) -> Trace:
    """One key at each of these times, behind as many that only lead there."""
    before = [(0, [[0, 0, "x"]])] * len(seconds)
    keys = [(second, [[0, 0, "k"]]) for second in seconds]
    return recorded(recording(*before, *keys), "a.rs", "rust", len(seconds))


def texts(trace: Trace) -> list[str]:
    """After each edit."""
    text, found = trace.text, []
    for edit in (*trace.edits, *trace.beyond):
        text = edit.apply(text)
        found.append(text)
    return found


def test_the_replay_begins_in_the_middle_with_the_text_of_then():
    trace = recorded(
        recording(
            (0, [[0, 0, "abc"]]), (1, [[1, 1, ""]]), (2, [[2, 0, "d"]]), (3, [[0, 1, "ef"]]),
            start="-",
        ),
        "a.rs", "rust", 1,
    )  # fmt: skip
    assert trace.text == "ac-"
    assert texts(trace) == ["acd-", "efcd-"]
    assert (len(trace.edits), len(trace.beyond)) == (1, 1)


def test_patches_of_one_edit_apply_one_after_the_other():
    trace = recorded(
        recording((0, [[0, 0, "one two"]]), (1, [[4, 3, "2"], [0, 3, "1"]])), "a.rs", "rust", 1
    )
    assert texts(trace) == ["1 2"]


def test_the_edits_of_a_second_are_spread_evenly_over_it():
    trace = typing([5, 6, 6, 6, 6, 7])
    assert [edit.time for edit in trace.edits] == [0.0, 1.0, 1.25, 1.5, 1.75, 2.0]


def test_long_pauses_are_cut_and_still_known_as_pauses():
    trace = typing([1, 1, 1, 20, 21, 21])
    assert trace.due() == pytest.approx(
        [0.0, 1 / 3, 2 / 3, 2 / 3 + MAX_PAUSE, 2 / 3 + 2 * MAX_PAUSE, 2 / 3 + 2 * MAX_PAUSE + 0.5]
    )
    assert [trace.is_pause(key) for key in range(5)] == [False, False, True, True, False]


@pytest.mark.parametrize(
    ("made", "following", "cursor"),
    [
        ([Patch(3, 0, "x")], [[Patch(4, 0, "y")]], 4),
        ([Patch(3, 0, "()")], [[Patch(4, 0, "y")]], 4),
        ([Patch(3, 0, "()")], [[Patch(90, 0, "y")]], 5),
        ([Patch(3, 2, "")], [[Patch(3, 0, "y")]], 3),
        ([Patch(9, 0, "b"), Patch(3, 0, "a")], [], 4),
    ],
    ids=["typed", "between brackets", "elsewhere next", "deleted", "several cursors"],
)
def test_the_cursor_is_where_the_author_goes_on(made, following, cursor):
    assert cursor_after(made, following) == cursor


def test_a_typed_file_becomes_the_file_and_its_lines_come_indented():
    text = "def f(x):\n    y = x\n    return y\n\n\nprint(f(1))\nprint(2)\n" * 3
    trace = typed("a.py", text, 10_000)
    assert texts(trace)[-1] == text
    keys = [edit.patches[0].text for edit in trace.edits]
    assert all(len(key) == 1 or key.isspace() for key in keys)
    assert "\n    " in keys
    assert any(trace.is_pause(key) for key in range(len(keys)))
    assert not all(trace.is_pause(key) for key in range(len(keys)))


def test_without_the_recordings_the_standard_library_is_typed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    traces, origin = load_traces(30)
    assert origin == "the Python standard library"
    assert [len(trace.edits) for trace in traces] == [30, 30]


def test_a_folder_without_the_recordings_is_an_error_that_names_it(tmp_path):
    with pytest.raises(SettingsError, match=r"rustcode.json.gz cannot be read .* --data"):
        load_traces(30, tmp_path)


def test_a_folder_with_the_recordings_is_read(tmp_path):
    folder = tmp_path / "editing-traces"
    folder.mkdir()
    made = recording((0, [[0, 0, "ab"]]), (1, [[2, 0, "c"]]))
    for name in ("rustcode", "sveltecomponent"):
        with gzip.open(folder / f"{name}.json.gz", "wt", encoding="utf-8") as file:
            json.dump(made, file)
    traces, _ = load_traces(30, tmp_path)
    assert [(trace.language_id, texts(trace)) for trace in traces] == [
        ("rust", ["abc"]),
        ("svelte", ["abc"]),
    ]
