"""What the sessions of `bench replay` come to: figures, bars, a page for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lsp_server.bench.client import offset_of
from lsp_server.bench.judgement import Suggestion, characters_saved, judge
from lsp_server.bench.report import percentile, table
from lsp_server.bench.traces import Trace
from lsp_server.bench.typist import Asked
from lsp_server.completion import Origin

CLASSES = (Origin.TYPED_THROUGH.value, Origin.CACHE.value, Origin.ENGINE.value)


@dataclass(frozen=True, slots=True)
class Session:
    """One trace as it went."""

    trace: Trace
    asked: list[Asked]
    figures: dict[str, Any]
    """What the server's probe told at the end."""
    cpu_s: float

    def origin(self, asked: Asked) -> str:
        """Class of a request that brought an item."""
        assert asked.item is not None
        return str(self.figures["origins"][asked.item["command"]["arguments"][0]])

    def made_in_time(self) -> list[bool]:
        """For each key whether the engine's item came before the next one."""
        engine = Origin.ENGINE.value
        return [
            asked.item is not None and asked.in_time and self.origin(asked) == engine
            for asked in self.asked
        ]

    def points(self) -> list[tuple[float, float, str]]:
        """Seconds since the first key, milliseconds and class of each answer with an item."""
        begin = self.asked[0].sent if self.asked else 0.0
        return [
            (request.sent - begin, request.ms, self.origin(request))
            for request in self.asked
            if request.item is not None
        ]


def figures_of(sessions: list[Session], slips: list[Session]) -> dict[str, Any]:
    """Over all traces together; of the `slips` only the answers from the cache count."""
    asked = [request for session in sessions for request in session.asked]
    outcomes = [request.outcome for request in asked]
    late_ms = [late for session in sessions for late in session.figures["late_ms"]]
    prefilled = [tokens for session in sessions for tokens in session.figures["prefilled"]]
    times: dict[str, list[float]] = {name: [] for name in CLASSES}
    for session in sessions:
        for request in session.asked:
            if request.item is not None:
                times[session.origin(request)].append(request.ms)
    cached = Origin.CACHE.value
    again = [ms for slip in slips for _, ms, origin in slip.points() if origin == cached]
    times[cached] += again
    return {
        "keys": len(asked),
        **{name: outcomes.count(name) for name in ("answered", "empty", "cancelled", "failed")},
        "unanswered": outcomes.count("unanswered"),
        "shown_before_next_key": _share(
            sum(request.item is not None and request.in_time for request in asked), len(asked)
        ),
        "reasons": dict(sum((Counter(s.figures["reasons"]) for s in sessions), Counter[str]())),
        **_pauses(sessions),
        "generations_started": sum(session.figures["generations"] for session in sessions),
        "generations_ahead": sum(session.figures["ahead"] for session in sessions),
        "prefill_tokens_per_key_p50": percentile(prefilled, 50) if prefilled else None,
        "cpu_s_per_1000_keys": round(
            1000 * sum(session.cpu_s for session in sessions) / len(asked), 2
        ),
        "loop_stall_p99_ms": round(percentile(late_ms, 99), 2),
        "loop_stall_max_ms": round(max(late_ms), 2),
        **{
            f"p{percent}_ms": {
                name: round(percentile(ms, percent), 2) if ms else None
                for name, ms in times.items()
            }
            for percent in (50, 95, 99)
        },
        "count": {name: len(ms) for name, ms in times.items()},
        "slips": len(again),
    }


def _pauses(sessions: list[Session]) -> dict[str, Any]:
    pauses = shown = num_right = saved = 0
    for session in sessions:
        trace = session.trace
        suggestions = list(_suggestions(session))
        right = judge(trace, suggestions)
        pauses += sum(trace.is_pause(key) for key in range(len(trace.edits)))
        shown += len(suggestions)
        num_right += len(right)
        saved += characters_saved(right)
    return {
        "pauses": pauses,
        "shown_at_pause": _share(shown, pauses),
        "right_at_pause": _share(num_right, pauses),
        "keystrokes_saved": saved,
    }


def _suggestions(session: Session) -> Iterator[Suggestion]:
    """What was there when the author paused."""
    text = session.trace.text
    for key, (edit, asked) in enumerate(zip(session.trace.edits, session.asked, strict=True)):
        text = edit.apply(text)
        item = asked.item
        if item is not None and asked.in_time and session.trace.is_pause(key):
            where = item["range"]
            start, end = offset_of(text, where["start"]), offset_of(text, where["end"])
            yield Suggestion(key, item["insertText"], start, end)


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0


def missed(result: dict[str, Any]) -> list[str]:
    """The bars that the run did not reach, each in words."""
    faults = [f"no sample of {name}" for name in CLASSES if not result["count"][name]]
    for name in (Origin.TYPED_THROUGH.value, Origin.CACHE.value):
        p99 = result["p99_ms"][name]
        if p99 is not None and p99 >= 10:
            faults.append(f"{name} answers at p99: {p99} ms, the bar is under 10")
    limits = (
        ("loop_stall_p99_ms", "event-loop stall at p99 in ms", 15, False),
        ("unanswered", "unanswered requests", 0, True),
        ("failed", "failed requests", 0, True),
        ("burst_generations", "generations in a burst of 30 keys", 4, True),
        ("prefill_tokens_per_key_p50", "prefilled tokens a keystroke at the median", 8, True),
        ("cpu_s_per_1000_keys", "CPU seconds per 1,000 keys", 100, True),
        ("idle_cpu_percent", "per cent of a core when idle", 0.3, False),
    )
    for key, words, limit, included in limits:
        value = result[key]
        if value is None:
            faults.append(f"{words}: no sample")
        elif value > limit or (value == limit and not included):
            faults.append(
                f"{words}: {value}, the bar is {'at most' if included else 'under'} {limit}"
            )
    return faults


def page(result: dict[str, Any]) -> str:
    rows: list[tuple[str, ...]] = [("answers from", "count", "p50 ms", "p95 ms", "p99 ms")]
    for name in CLASSES:
        times = [result[f"p{percent}_ms"][name] for percent in (50, 95, 99)]
        figures = ["" if ms is None else f"{ms:.1f}" for ms in times]
        rows.append((name, str(result["count"][name]), *figures))
    saved = result["keystrokes_saved"]
    lines = [
        table(rows),
        "",
        f"{result['keys']} keys: {result['answered']} answered, {result['empty']} empty,"
        f" {result['cancelled']} cancelled, {result['failed']} failed,"
        f" {result['unanswered']} unanswered",
        f"shown before the next key: {result['shown_before_next_key']:.1%}; at"
        f" {result['pauses']} pauses {result['shown_at_pause']:.1%} shown,"
        f" {result['right_at_pause']:.1%} right, {saved} keystrokes saved",
        "no item because of: "
        + ", ".join(f"{reason} {n}" for reason, n in sorted(result["reasons"].items())),
        f"engine: {result['generations_started']} generations,"
        f" {result['generations_ahead']} of them ahead of requests,"
        f" {result['prefill_tokens_per_key_p50']} tokens prefilled at the median,"
        f" {result['burst_generations']} generations in a burst",
        f"server: {result['cpu_s_per_1000_keys']} CPU seconds per 1,000 keys,"
        f" {result['idle_cpu_percent']} % of a core idle, event loop late by"
        f" {result['loop_stall_p99_ms']} ms at p99, {result['loop_stall_max_ms']} at most",
    ]
    lines += [f"MISSED {fault}" for fault in result["missed"]]
    return "\n".join(lines)
