"""What the latency tests share: their figures in `out/latency.json`, and a process that echoes."""

from __future__ import annotations

import json
from pathlib import Path

FIGURES = Path(__file__).parents[2] / "out" / "latency.json"
ECHO = """
import sys
stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
while line := stdin.readline():
    stdout.write(line)
    stdout.flush()
"""


def keep(name: str, **figures: float) -> None:
    """Print the figures of one comparison and add them to the file of this run."""
    print(name, json.dumps(figures))
    FIGURES.parent.mkdir(exist_ok=True)
    kept = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    kept[name] = figures
    FIGURES.write_text(json.dumps(kept, indent=2) + "\n")
