"""How every suite reports: a table for people, then one line of JSON with the machine in it."""

from __future__ import annotations

import json
import math
import os
import platform
import random
import statistics
from collections.abc import Sequence
from typing import Any


def machine(threads: int) -> dict[str, Any]:
    """What the figures were measured on."""
    from lsp_server.engine.providers import (
        installed_runtimes,
        physical_cores,
        processor_name,
    )

    return {
        "cpu": processor_name(),
        "cores": physical_cores(),
        "threads": threads,
        "python": platform.python_version(),
        "onnxruntime": ", ".join(f"{n} {v}" for n, v in installed_runtimes().items()),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width; the first row is the head."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def publish(result: dict[str, Any], text: str, *, json_only: bool) -> None:
    if not json_only:
        print(text + "\n")
    print(json.dumps(result, separators=(",", ":")))


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(statistics.fmean(math.log(value) for value in values))


def percentile(values: Sequence[float], percent: float) -> float:
    """Nearest-rank percentile."""
    ordered = sorted(values)
    rank = max(1, math.ceil(percent / 100 * len(ordered)))
    return ordered[rank - 1]


def bootstrap_interval(values: Sequence[float], rounds: int = 2000) -> tuple[float, float]:
    """95 % interval of the geometric mean over prompts (Efron 1979), seeded."""
    rng = random.Random(0)
    means = [geometric_mean(rng.choices(values, k=len(values))) for _ in range(rounds)]
    return percentile(means, 2.5), percentile(means, 97.5)
