"""Pictures of what the suites found; matplotlib is in the extra `plot`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lsp_server.errors import SettingsError


def plot_matrix(result: dict[str, Any], path: Path) -> None:
    """Acceptance by position, and speed-up by method, side by side."""
    figure = _figure(12, 4.5)
    left, right = figure.subplots(1, 2)
    rows = [row for row in result["rows"] if row["method"] != "plain"]
    labels = [_label(row) for row in rows]
    for row, label in zip(rows, labels, strict=True):
        if any(row["acceptance"]):
            places = range(1, len(row["acceptance"]) + 1)
            left.plot(places, row["acceptance"], marker="o", label=label)
    left.set(title="Acceptance by position", xlabel="position in the draft", ylim=(0, 1))
    left.set_xticks(range(1, 5))
    left.legend(fontsize="small")
    bars = list(range(len(rows)))
    right.barh([bar + 0.2 for bar in bars], [row["speedup"] for row in rows], 0.4)
    predicted = [row["predicted_speedup"] for row in rows]
    right.barh([bar - 0.2 for bar in bars], predicted, 0.4, alpha=0.4)
    right.axvline(1.0, color="black", linewidth=0.8)
    right.set(title="Speed-up against plain (pale: predicted)", xlabel=result["model"])
    right.set_yticks(bars, labels)
    right.invert_yaxis()
    _save(figure, path)


def plot_replay(sessions: Sequence[Sequence[tuple[float, float, str]]], path: Path) -> None:
    """Latency of each answer over the session, one picture below the other.

    Of each answer: seconds since the first key, milliseconds, class.
    """
    figure = _figure(12, 3.5 * len(sessions))
    for axes, answers in zip(
        figure.subplots(len(sessions), 1, squeeze=False)[:, 0], sessions, strict=True
    ):
        for name in sorted({name for _, _, name in answers}):
            seconds = [second for second, _, kind in answers if kind == name]
            times = [ms for _, ms, kind in answers if kind == name]
            axes.scatter(seconds, times, s=12, label=name.replace("_", " "))
        axes.axhline(10.0, color="black", linewidth=0.8)
        axes.set(yscale="log", xlabel="seconds of typing", ylabel="ms to the answer")
        axes.legend(fontsize="small")
    _save(figure, path)


def plot_quality(result: dict[str, Any], path: Path) -> None:
    """What is shown against how much of it is right, and of the right and wrong lines how many are
    shown, both by the confidence that is asked for."""
    confidence = result["confidence"]
    figure = _figure(12, 4.5)
    left, right = figure.subplots(1, 2)
    curve = [row for row in confidence["curve"] if row["coverage"] > 0]
    left.plot([row["coverage"] for row in curve], [row["precision"] for row in curve])
    for name, row in confidence["settings"].items():
        left.plot(row["coverage"], row["precision"], "o", label=name)
        right.axvline(row["threshold"], color="grey", linewidth=0.8)
        right.text(row["threshold"], 1.02, name, ha="center", fontsize="small")
    left.set(xlabel="lines shown", ylabel="right of these", xlim=(0, 1), ylim=(0, 1.05))
    left.set_title(f"{result['model']}, {confidence['checked']} lines")
    left.legend()
    thresholds = [row["threshold"] for row in confidence["curve"]]
    for key in ("right", "wrong"):
        shares = [row[key] for row in confidence["curve"]]
        right.plot(thresholds, shares, label=f"{key} lines that are shown")
    right.set(xlabel="confidence asked for", xlim=(0, 1), ylim=(0, 1.3))
    right.legend()
    _save(figure, path)


def need_matplotlib() -> None:
    """Before minutes of measuring. Raises SettingsError."""
    _figure(1, 1)


def _figure(width: float, height: float) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise SettingsError(
            "--plot needs matplotlib; install it with `pip install matplotlib`."
        ) from error
    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: Any, path: Path) -> None:
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise SettingsError(f"The picture cannot be written to {path} ({error}).") from error


def _label(row: dict[str, Any]) -> str:
    kind = "" if row["trained"] else " (untrained)"
    return f"{row['method']} {row['form']}{kind}"
