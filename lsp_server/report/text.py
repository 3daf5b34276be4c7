"""The figures as a table for a terminal, in sections."""

from __future__ import annotations

from lsp_server.report.figures import Figures
from lsp_server.report.wording import number, origin_name, percent, reason_name, time

EMPTY = "Nothing has been counted yet: numbers come with the first completions."
NUM_ROWS = 7
"""Days that are listed; the page has all of them."""

_WIDTH = 34


def text_report(figures: Figures) -> str:
    if not figures.counts["requests"]:
        return EMPTY
    sections = (
        ("Completions", _completions(figures)),
        ("Time to an item", _latency(figures)),
        ("No item because", _empty(figures)),
        ("Engine", _engine(figures)),
        ("Drafts, accepted tokens of proposed ones", _sources(figures)),
        ("Shown and accepted, the last days", _days(figures)),
    )
    since = f"Since {figures.since}. " if figures.since else ""
    head = f"{since}Counted on this machine, and kept on it."
    blocks = [head, *("\n".join([title, *rows]) for title, rows in sections if rows)]
    return "\n\n".join(blocks)


def _row(name: str, *values: str) -> str:
    return f"  {name:<{_WIDTH}}" + "  ".join(value.rjust(9) for value in values)


def _completions(figures: Figures) -> list[str]:
    counts = figures.counts
    taken = figures.num_taken / counts["shown"] if counts["shown"] else None
    kept = figures.share("kept", "kept", "not_kept")
    in_part_only = counts["partially_accepted"] - counts["accepted_in_parts"]
    rows = [
        _row("requests", number(counts["requests"])),
        _row("items shown", number(counts["shown"])),
        _row("accepted, whole or in part", number(figures.num_taken), percent(taken)),
        _row("  whole", number(counts["accepted"])),
        _row("  in part only", number(in_part_only)),
        _row("  by word, by line", number(counts["parts.word"]), number(counts["parts.line"])),
        _row("kept after 30 s", number(counts["kept"]), percent(kept)),
        _row("keystrokes saved", number(figures.keystrokes_saved)),
    ]
    if kept is None:
        del rows[-2]
    if not counts["partially_accepted"]:
        del rows[3:6]
    return rows


def _latency(figures: Figures) -> list[str]:
    if not figures.latency:
        return []
    rows = [_row("", "answers", "p50", "p95", "p99")]
    for origin, latency in figures.latency.items():
        percentiles = (time(latency.percentile(share)) for share in (0.5, 0.95, 0.99))
        rows.append(_row(origin_name(origin), number(latency.count), *percentiles))
    return rows


def _empty(figures: Figures) -> list[str]:
    total = figures.counts["requests"]
    return [
        _row(reason, number(count), percent(count / total)) + f"  {reason_name(reason)}"
        for reason, count in figures.empty.items()
    ]


def _engine(figures: Figures) -> list[str]:
    counts = figures.counts
    if not counts["passes"]:
        return []
    per_pass = figures.share("tokens", "passes") or 0.0
    return [
        _row("generations", number(counts["generations"])),
        _row("tokens", number(counts["tokens"])),
        _row("tokens a pass", f"{per_pass:.2f}"),
        _row("prompt tokens", number(counts["prompt_tokens"])),
        _row(
            "  of these known already",
            number(counts["reused_tokens"]),
            percent(figures.share("reused_tokens", "prompt_tokens")),
        ),
    ]


def _sources(figures: Figures) -> list[str]:
    rows = []
    for name, source in figures.sources.items():
        share = source.accepted / source.proposed if source.proposed else None
        tokens = (number(source.accepted), number(source.proposed))
        rows.append(_row(name, *tokens, percent(share)))
        at = [percent(a / d if d else None) for d, a in source.positions]
        if at:
            rows.append(_row("  by position in the draft") + "  ".join(at))
    return rows


def _days(figures: Figures) -> list[str]:
    days = [day for day in figures.days if day.shown or day.accepted]
    return [_row(day.name, number(day.shown), number(day.accepted)) for day in days[-NUM_ROWS:]]
