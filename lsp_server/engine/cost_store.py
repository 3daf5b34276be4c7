"""What this machine's passes cost, measured at the first load and kept for the next ones."""

from __future__ import annotations

import hashlib
import json
import logging
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lsp_server.engine.controller import CostCurve

if TYPE_CHECKING:
    from lsp_server.engine.types import Slot

_log = logging.getLogger(__name__)

_WIDTHS = (1, 2, 3, 4, 5, 6, 9, 16)
_MEASURE_CONTEXT = 192
_MEASURE_ROUNDS = 5
_QUIET = 1.3
"""Median over best of a width's times, above which something else ran too."""


def measure(slot: Slot, clock: Callable[[], float] = time.perf_counter) -> CostCurve:
    """Measure V(M) on an empty slot: the best of a few interleaved rounds, made increasing.

    Takes about 60 passes. The slot is empty afterwards.
    """
    slot.truncate(0)
    num_context = min(_MEASURE_CONTEXT, slot.spec.context_length - max(_WIDTHS) - 1)
    tokens = [i % slot.spec.vocab_size for i in range(num_context)]
    slot.forward(tokens, [num_context - 1])
    slot.commit(num_context)
    times: dict[int, list[float]] = {width: [] for width in _WIDTHS}
    for _ in range(_MEASURE_ROUNDS):
        for width in _WIDTHS:
            start = clock()
            slot.forward(tokens[:width], range(width))
            times[width].append((clock() - start) * 1000)
    slot.truncate(0)
    best = [min(times[width]) for width in _WIDTHS]
    rising = tuple(round(max(best[: i + 1]), 4) for i in range(len(best)))
    is_quiet = all(statistics.median(took) <= _QUIET * min(took) for took in times.values())
    return CostCurve(_WIDTHS, rising, is_quiet)


def cost_curve(
    slot: Slot, folder: Path, clock: Callable[[], float] = time.perf_counter
) -> CostCurve:
    """The kept curve of this model, provider, thread count and library, else a new measurement.

    One that cannot be kept, or was measured while the machine was busy, is measured again at the
    next load, which the log says.
    """
    path = folder / (hashlib.sha256(slot.spec.identity.encode()).hexdigest()[:16] + ".json")
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        curve = CostCurve(tuple(map(int, raw["widths"])), tuple(map(float, raw["ms"])))
        if raw["identity"] == slot.spec.identity and curve.widths == _WIDTHS:
            curve.check()
            return curve
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError, TypeError) as error:
        _log.warning("The cost curve in %s is unusable (%s); measuring again.", path, error)
    curve = measure(slot, clock)
    if not curve.is_quiet:
        _log.info("The machine was busy while passes were timed; they are timed again next time.")
        return curve
    try:
        folder.mkdir(parents=True, exist_ok=True)
        text = {"identity": slot.spec.identity, "widths": curve.widths, "ms": curve.ms}
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(text), encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        _log.warning("The cost curve cannot be kept in %s (%s).", folder, error)
    return curve
