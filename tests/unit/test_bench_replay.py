"""The bars of `bench replay`: each is missed just beyond it, by name."""

from __future__ import annotations

import pytest

from lsp_server.bench.replay_figures import CLASSES, missed

RESULT = {
    "count": dict.fromkeys(CLASSES, 5),
    "p99_ms": dict.fromkeys(CLASSES, 9.0),
    "loop_stall_p99_ms": 14.9,
    "unanswered": 0,
    "failed": 0,
    "burst_generations": 4,
    "prefill_tokens_per_key_p50": 8,
    "cpu_s_per_1000_keys": 100.0,
    "idle_cpu_percent": 0.29,
}


def test_a_run_on_every_bar_misses_none():
    assert missed(RESULT) == []


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"count": {**RESULT["count"], "cache": 0}}, "no sample of cache"),
        ({"p99_ms": {**RESULT["p99_ms"], "cache": 10.0}}, "cache answers at p99"),
        ({"p99_ms": {**RESULT["p99_ms"], "typed_through": 10.0}}, "typed_through answers at p99"),
        ({"loop_stall_p99_ms": 15.0}, "event-loop stall"),
        ({"unanswered": 1}, "unanswered requests"),
        ({"failed": 1}, "failed requests"),
        ({"burst_generations": 5}, "generations in a burst"),
        ({"prefill_tokens_per_key_p50": 9}, "prefilled tokens"),
        ({"prefill_tokens_per_key_p50": None}, "prefilled tokens"),
        ({"cpu_s_per_1000_keys": 100.1}, "CPU seconds"),
        ({"idle_cpu_percent": 0.3}, "when idle"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_each_missed_bar_is_named(change, named):
    (fault,) = missed({**RESULT, **change})
    assert named in fault


def test_slow_engine_answers_miss_no_bar():
    assert missed({**RESULT, "p99_ms": {**RESULT["p99_ms"], "engine": 900.0}}) == []
