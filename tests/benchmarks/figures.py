"""What the latency tests share: their figures in `out/latency.json`, and a process that echoes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

FIGURES = Path(__file__).parents[2] / "out" / "latency.json"
_ECHO = """
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


def ms(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000


@contextmanager
def echo() -> Iterator[Callable[[], None]]:
    """One line to another process and back."""
    with subprocess.Popen(
        [sys.executable, "-c", _ECHO], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:

        def bounce() -> None:
            process.stdin.write(b"x" * 200 + b"\n")
            process.stdin.flush()
            process.stdout.readline()

        bounce()
        yield bounce
        process.stdin.close()
