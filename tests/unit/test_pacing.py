"""When a generation may start, for keys at given times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.answering.pacing import LONGEST_WAIT_IN_BURST, Pace


def starts(times: list[float], answer_seconds: float) -> list[float]:
    """When the engine is started for keys at `times`, each with other text than was foretold, and
    answers that take so long."""
    pace, found = Pace(), []
    answered = due = None
    is_behind = False
    for now, following in zip(times, [*times[1:], float("inf")], strict=True):
        pace.asked(now)
        if answered is not None and answered <= now:
            is_behind = False
        due = now + pace.wait(now, is_behind)
        is_behind, answered = True, None
        if due < following:
            found.append(due)
            answered = due + answer_seconds
    return found


def keys(num: int, gap: float) -> list[float]:
    return [gap * key for key in range(num)]


@pytest.mark.parametrize("answer_seconds", [0.0, 0.001, 0.03, 0.3, 2.0])
def test_thirty_keys_at_twenty_a_second_start_the_engine_four_times_at_most(answer_seconds):
    assert 1 <= len(starts(keys(30, 0.05), answer_seconds)) <= 4


@given(
    st.lists(st.floats(-0.012, 0.012), min_size=30, max_size=30),
    st.floats(0.0, 2.0),
)
def test_uneven_keys_of_that_pace_do_so_too(jitter, answer_seconds):
    times = [time + shift for time, shift in zip(keys(30, 0.05), jitter, strict=True)]
    assert 1 <= len(starts(times, answer_seconds)) <= 4


@pytest.mark.parametrize("answer_seconds", [0.0, 0.3, 5.0])
def test_the_first_key_after_a_pause_starts_it_at_once(answer_seconds):
    times = keys(10, 0.05)
    times.append(times[-1] + 1.0)
    found = starts(times, answer_seconds)
    assert found[0] == times[0]
    assert found[-1] == times[-1]


@pytest.mark.parametrize("gap", [0.1, 0.2, 0.4, 3.0])
def test_keys_that_come_no_faster_than_answers_are_never_delayed(gap):
    times = keys(20, gap)
    assert starts(times, answer_seconds=gap / 2) == times


@given(st.lists(st.floats(0.0, 3.0), min_size=1, max_size=40), st.booleans())
def test_no_wait_is_longer_than_the_longest_and_time_that_has_passed_counts(gaps, is_behind):
    pace, now = Pace(), 0.0
    for gap in gaps:
        now += gap
        pace.asked(now)
        wait = pace.wait(now, is_behind)
        assert 0.0 <= wait <= LONGEST_WAIT_IN_BURST + 1e-9
        assert pace.wait(now + LONGEST_WAIT_IN_BURST + 1e-9, is_behind) == 0.0


def test_the_last_key_of_a_burst_starts_it():
    times = keys(12, 0.06)
    assert starts(times, 0.3)[-1] >= times[-1]


def test_before_the_first_request_there_is_nothing_to_wait_for():
    assert Pace().wait(1.0, is_behind=True) == 0.0
