"""Pictures of what the suites found; matplotlib is an extra (`tabahead[plot]`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lsp_server.errors import SettingsError


def plot_matrix(result: dict[str, Any], path: Path) -> None:
    """Acceptance by position, and speed-up by method, side by side."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise SettingsError(
            "--plot needs matplotlib; install it with `pip install 'tabahead[plot]'`."
        ) from error
    figure = Figure(figsize=(12, 4.5), layout="constrained")
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
    predicted = [row["predicted_speedup"] or 0.0 for row in rows]
    right.barh([bar - 0.2 for bar in bars], predicted, 0.4, alpha=0.4)
    right.axvline(1.0, color="black", linewidth=0.8)
    right.set(title="Speed-up against plain (pale: predicted)", xlabel=result["model"])
    right.set_yticks(bars, labels)
    right.invert_yaxis()
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise SettingsError(f"The picture cannot be written to {path} ({error}).") from error


def _label(row: dict[str, Any]) -> str:
    kind = "" if row["trained"] else " (untrained)"
    return f"{row['method']} {row['form']}{kind}"
