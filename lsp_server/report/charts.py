"""Which plots the page has, and what each draws of the figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from html import escape
from itertools import chain, repeat

from lsp_server.report.figures import OVERTAKEN, Figures, Latency, Source, Span
from lsp_server.report.plots import Column, Row, columns, rows
from lsp_server.report.wording import counted, number, origin_name, percent, reason_name, time

_ORIGIN_CLASSES = {"engine": "engine", "cache": "cache", "typed_through": "typed"}
_SOURCE_CLASSES = ("engine", "cache", "typed", "more")
"""Colours of the sources, the busiest first; all further ones are grey."""
_NAMED_CLASSES = {5.0, 50.0, 300.0, 1000.0, 5000.0}
"""Latency classes with a name below them; all would not fit."""

_FEWEST_COLUMNS = 5
"""One column alone would be a wall."""


@dataclass(frozen=True, slots=True)
class Chart:
    name: str
    title: str
    explains: str
    without: str
    """Stands in its place where there is nothing to draw."""
    draw: Callable[[Figures], str | None]
    width: str = "half"


def _latency(figures: Figures) -> str | None:
    if not figures.latency:
        return None
    axis = [(low, high) for low, high, _ in figures.all_latency.classes]
    drawn = []
    for origin, latency in figures.latency.items():
        head = (
            f"<h3>{escape(origin_name(origin))}<span>{counted(latency.count, 'answer')}, median"
            f" {time(latency.percentile(0.5))}, 95% within {time(latency.percentile(0.95))}</span>"
            "</h3>"
        )
        drawn.append(head + _histogram(origin, latency, axis))
    return "".join(drawn)


def _histogram(origin: str, latency: Latency, axis: Sequence[tuple[float, float | None]]) -> str:
    counts = {(low, high): count for low, high, count in latency.classes}
    entries = []
    for low, high in axis:
        count = counts.get((low, high), 0)
        span = f"over {_bound(low)}" if high is None else f"{_bound(low)} to {_bound(high)}"
        name = _bound(high) if high in _NAMED_CLASSES else ""
        share = count / latency.count
        tip = f"{span}: {counted(count, 'answer')} ({percent(share)})"
        entries.append(Column(name, tip, (100 * share,)))
    label = f"Histogram of the times to an item, {origin_name(origin)}"
    css = _ORIGIN_CLASSES.get(origin, "more")
    return columns(entries, label=label, classes=(css,), height=92, unit="%")


def _bound(ms: float) -> str:
    return f"{ms / 1000:g} s" if ms >= 1000 else f"{ms:g} ms"


def _empty(figures: Figures) -> str | None:
    total = figures.counts["requests"]
    if not figures.empty:
        return None
    largest = max(figures.empty.values())
    entries = [
        Row(
            reason_name(reason),
            f"{number(count)} ({percent(count / total)})",
            count / largest,
            f"{reason}: {number(count)} of {number(total)} requests",
            css="quiet" if reason in OVERTAKEN else "engine",
        )
        for reason, count in figures.empty.items()
    ]
    return rows(entries, label="Reasons of answers without an item")


def _by_source(figures: Figures) -> str | None:
    entries = []
    for name, source, css in _busiest(figures):
        share = source.accepted / source.proposed if source.proposed else 0.0
        counts = f"{number(source.accepted)} of {number(source.proposed)} tokens"
        entries.append(Row(name, percent(share), share, f"{name}: {counts}", css))
    if not entries:
        return None
    return rows(entries, label="Share of drafted tokens accepted, by source")


def _busiest(figures: Figures) -> list[tuple[str, Source, str]]:
    """The sources with their colours, by the tokens that they have drafted."""
    found = sorted(figures.sources.items(), key=lambda entry: (-entry[1].proposed, entry[0]))
    classes = chain(_SOURCE_CLASSES, repeat("quiet"))
    return [(name, source, css) for (name, source), css in zip(found, classes, strict=False)]


def _by_position(figures: Figures) -> str | None:
    drafting = [entry for entry in _busiest(figures) if entry[1].positions][: len(_SOURCE_CLASSES)]
    if not drafting:
        return None
    shown = {name: source for name, source, _ in drafting}
    depth = max(_FEWEST_COLUMNS, *(len(source.positions) for source in shown.values()))
    entries = [
        Column(str(position + 1), _position_tip(shown, position), _position_shares(shown, position))
        for position in range(depth)
    ]
    classes = tuple(css for _, _, css in drafting)
    label = "Share of drafts accepted up to each position, by source"
    drawn = columns(entries, label=label, classes=classes, unit="%", top=100)
    return drawn + _legend(tuple(zip(shown, classes, strict=True)))


def _position_shares(sources: dict[str, Source], position: int) -> tuple[float, ...]:
    return tuple(
        100 * source.positions[position][1] / source.positions[position][0]
        if position < len(source.positions) and source.positions[position][0]
        else 0.0
        for source in sources.values()
    )


def _position_tip(sources: dict[str, Source], position: int) -> str:
    lines = [f"token {position + 1} of the draft"]
    for name, source in sources.items():
        if position < len(source.positions):
            drafted, accepted = source.positions[position]
            lines.append(f"{name}: {number(accepted)} of {number(drafted)} drafts")
    return "\n".join(lines)


def _tokens(figures: Figures) -> str | None:
    if not figures.yields:
        return None
    total = sum(figures.yields)
    padded = (*figures.yields, *[0] * (_FEWEST_COLUMNS - len(figures.yields)))
    entries = [
        Column(
            str(tokens),
            f"{counted(tokens, 'token')}: {counted(count, 'pass', 'passes')}"
            f" ({percent(count / total)})",
            (100 * count / total,),
        )
        for tokens, count in enumerate(padded, start=1)
    ]
    label = "Share of passes of the model by the tokens that they gave"
    return columns(entries, label=label, classes=("engine",), unit="%", top=100)


def _hours(figures: Figures) -> str | None:
    names = {0: "0:00", 6: "6:00", 12: "12:00", 18: "18:00"}
    return _spans(
        figures.hours,
        [names.get(hour, "") for hour in range(24)],
        "Items shown and accepted by the hour of the day",
    )


def _days(figures: Figures) -> str | None:
    names = [
        _day_name(span.name) if index % 7 == 1 else "" for index, span in enumerate(figures.days)
    ]
    return _spans(figures.days, names, "Items shown and accepted on each of the last days")


def _spans(spans: Sequence[Span], names: Sequence[str], label: str) -> str | None:
    if not any(span.shown or span.accepted for span in spans):
        return None
    entries = [
        Column(
            name,
            f"{span.name}\n{number(span.shown)} shown, {number(span.accepted)} accepted",
            (float(span.shown), float(min(span.accepted, span.shown))),
        )
        for span, name in zip(spans, names, strict=True)
    ]
    drawn = columns(entries, label=label, classes=("quiet", "engine"), overlaid=True)
    return drawn + _legend((("shown", "quiet"), ("accepted", "engine")))


def _day_name(day: str) -> str:
    """`31 Jan`"""
    found = date.fromisoformat(day)
    return f"{found.day} {found:%b}"


def _legend(entries: Sequence[tuple[str, str]]) -> str:
    items = "".join(
        f'<span style="--swatch: var(--{css})">{escape(name)}</span>' for name, css in entries
    )
    return f'<div class="legend">{items}</div>'


CHARTS = (
    Chart(
        "latency",
        "Time to an item",
        "From the request to the answer, as a share of the answers of each origin.",
        "No request was answered with an item yet.",
        _latency,
    ),
    Chart(
        "reasons",
        "Why there was no item",
        "Of all requests. Grey: typing simply went on.",
        "Every request was answered with an item.",
        _empty,
    ),
    Chart(
        "hours",
        "Over the day",
        "Items shown and accepted by the hour, over the last 30 days.",
        "Nothing was shown in the last 30 days.",
        _hours,
    ),
    Chart(
        "days",
        "The last 30 days",
        "Items shown and accepted each day.",
        "Nothing was shown in the last 30 days.",
        _days,
    ),
    Chart(
        "sources",
        "Drafts by source",
        "Tokens that the model accepted of those that were drafted.",
        "Nothing was drafted yet.",
        _by_source,
        width="third",
    ),
    Chart(
        "positions",
        "Drafts by position",
        "Drafts that reach a position and are accepted up to it.",
        "Nothing was drafted yet.",
        _by_position,
        width="third",
    ),
    Chart(
        "tokens",
        "Tokens a pass",
        "Passes of the model by the tokens that they gave; without speculation all give one.",
        "The model has made no pass yet.",
        _tokens,
        width="third",
    ),
)
"""In the order of the page."""
