"""Plots as inline SVG: lengths in percent of the width and text in pixels, so that a plot is as
legible on a narrow screen as on a wide one. Colours are classes of the page's style sheet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_TOP = 8
"""Pixels above the highest bar, for half of its line's label."""
_AXIS = 22
"""Pixels below the bars for the names."""
_ROW = 40
"""Pixels of a row of `rows`."""


@dataclass(frozen=True, slots=True)
class Column:
    """Bars side by side, or one on another, over one place of the axis."""

    name: str
    """Below the axis; empty: none there, since they would not all fit."""
    tip: str
    """Shown where the mouse rests on the column."""
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """A bar with its name and number above it."""

    name: str
    value: str
    share: float
    """Of the full width."""
    tip: str
    css: str


def columns(
    entries: Sequence[Column],
    *,
    label: str,
    classes: Sequence[str],
    height: int = 170,
    unit: str = "",
    overlaid: bool = False,
    top: float | None = None,
) -> str:
    """Columns over an axis; `classes` colour the values of each.

    Args:
        label: what the plot shows, for those who cannot see it.
        unit: behind the numbers of the axis.
        overlaid: the second value lies over the first, of which it is a part.
        top: value of the full height; None: a round number above the largest.
    """
    full = top or round_up(max((v for entry in entries for v in entry.values), default=0))
    marks = [_gridline(full * share, full, height, unit) for share in (1.0, 0.5)]
    width = 100 / len(entries)
    drawn = [
        _column(entry, index * width, width, full, height, classes, overlaid)
        for index, entry in enumerate(entries)
    ]
    base = f'<line class="base" x1="0" x2="100%" y1="{height}" y2="{height}"/>'
    return _svg(label, height + _AXIS, [*marks, base, *drawn], "columns")


def _column(
    entry: Column,
    left: float,
    width: float,
    full: float,
    height: int,
    classes: Sequence[str],
    overlaid: bool,
) -> str:
    parts = [
        f"<title>{escape(entry.tip)}</title>",
        f'<rect class="hit" x="{left:.3f}%" y="0" width="{width:.3f}%" height="{height}"/>',
    ]
    gap = width * 0.12
    step = (width - 2 * gap) / (1 if overlaid else len(entry.values))
    for index, (value, css) in enumerate(zip(entry.values, classes, strict=False)):
        if value <= 0:
            continue
        size = max(2.0, value / full * (height - _TOP))
        x = left + gap + (0 if overlaid else index * step)
        # Between two bars of one place a hair's breadth.
        bar = step if overlaid or len(entry.values) == 1 else step * 0.9
        parts.append(
            f'<rect class="{css}" x="{x:.3f}%" y="{height - size:.1f}" width="{bar:.3f}%"'
            f' height="{size:.1f}" rx="2"/>'
        )
    if entry.name:
        middle = left + width / 2
        parts.append(
            f'<text class="tick" x="{middle:.3f}%" y="{height + 16}"'
            f' text-anchor="{_anchor(middle)}">{escape(entry.name)}</text>'
        )
    return f'<g class="column">{"".join(parts)}</g>'


def _anchor(middle: float) -> str:
    """Names at the edges stay inside the plot."""
    return "start" if middle < 3 else "end" if middle > 97 else "middle"


def _gridline(value: float, full: float, height: int, unit: str) -> str:
    y = height - value / full * (height - _TOP)
    text = f"{value:,.0f}{escape(unit)}"
    return (
        f'<line class="grid" x1="0" x2="100%" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="tick" x="-8" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
    )


def rows(entries: Sequence[Row], *, label: str) -> str:
    """Bars below each other, each with its name and number above it."""
    drawn = []
    for index, entry in enumerate(entries):
        y = index * _ROW
        width = min(100.0, max(0.4, 100 * entry.share)) if entry.share > 0 else 0
        drawn.append(
            f'<g class="row"><title>{escape(entry.tip)}</title>'
            f'<rect class="hit" x="0" y="{y}" width="100%" height="{_ROW}"/>'
            f'<text class="name" x="0" y="{y + 15}">{escape(entry.name)}</text>'
            f'<text class="value" x="100%" y="{y + 15}" text-anchor="end">'
            f"{escape(entry.value)}</text>"
            f'<rect class="track" x="0" y="{y + 23}" width="100%" height="8" rx="4"/>'
            f'<rect class="{entry.css}" x="0" y="{y + 23}"'
            f' width="{width:.2f}%" height="8" rx="4"/></g>'
        )
    return _svg(label, len(entries) * _ROW, drawn, "rows")


def _svg(label: str, height: int, parts: Sequence[str], css: str) -> str:
    head = f'<svg class="{css}" role="img" aria-label="{escape(label)}"'
    return f'{head} width="100%" height="{height}">{"".join(parts)}</svg>'


def round_up(value: float) -> float:
    """The next of 2, 4, 6, 8, 10, 20, 40, ...: its half is a round number too."""
    power = 1.0
    while power * 10 < value:
        power *= 10
    return next(power * step for step in (2, 4, 6, 8, 10) if power * step >= value)
