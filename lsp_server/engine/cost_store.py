"""What passes and drafts cost on this machine: measured at the first load, kept for later ones.

Target passes, V(M), are measured here; what a draft takes, where each source is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lsp_server.engine.controller import CostCurve
from lsp_server.engine.drafters.cost import DraftCost
from lsp_server.engine.timing import Clock, best_ms

if TYPE_CHECKING:
    from lsp_server.engine.types import Slot

_log = logging.getLogger(__name__)

_WIDTHS = (1, 2, 3, 4, 5, 6, 9, 16)
_MEASURE_CONTEXT = 192
_UNUSABLE = (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError)
"""What reading a file raises that is not as it was written."""


Costs = TypeVar("Costs", CostCurve, DraftCost)


class CostStore:
    """A folder with one file for each thing that was measured: model or drafter, provider,
    processor (machines may share a home directory), thread count and library.

    What cannot be kept, or was measured while the machine was busy, is measured again at the next
    load, which the log says.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def curve(self, slot: Slot, clock: Clock = time.perf_counter) -> CostCurve:
        """V(M) of the slot's model; the slot is empty afterwards if it was measured."""
        return self._kept(slot.spec.identity, _read_curve, partial(measure, slot, clock))

    def draft(self, identity: str, measure_it: Callable[[], DraftCost]) -> DraftCost:
        """The cost of one source. `identity`: its files and all that its time depends on."""
        return self._kept(identity, _read_draft, measure_it)

    def _kept(
        self, identity: str, read: Callable[[Any], Costs], measure_it: Callable[[], Costs]
    ) -> Costs:
        name = hashlib.sha256(identity.encode()).hexdigest()[:16]
        path = self._folder / f"{name}.json"
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            if raw["identity"] != identity:
                raise ValueError("they are of something else")
            costs = read(raw)
            costs.check()
            return costs
        except FileNotFoundError:
            pass
        except _UNUSABLE as error:
            _log.warning("The costs kept in %s are unusable (%s); measuring again.", path, error)
        costs = measure_it()
        if costs.is_quiet:
            self._keep(path, {"identity": identity, **dataclasses.asdict(costs)})
        else:
            _log.info("The machine was busy while costs were timed; the next load repeats that.")
        return costs

    def _keep(self, path: Path, raw: Mapping[str, Any]) -> None:
        temporary = path.with_suffix(f".{os.getpid()}")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps(raw), encoding="utf-8")
            temporary.replace(path)
        except OSError as error:
            _log.warning("Measured costs cannot be kept in %s (%s).", self._folder, error)
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)


def measure(slot: Slot, clock: Clock = time.perf_counter) -> CostCurve:
    """Measure V(M) on an empty slot, and make it increasing.

    Takes about 40 passes. The slot is empty afterwards.
    """
    slot.truncate(0)
    num_context = min(_MEASURE_CONTEXT, slot.spec.context_length - max(_WIDTHS) - 1)
    tokens = [i % slot.spec.vocab_size for i in range(num_context)]
    slot.forward(tokens, [num_context - 1])
    slot.commit(num_context)
    ms, is_quiet = best_ms(
        {width: partial(slot.forward, tokens[:width], range(width)) for width in _WIDTHS}, clock
    )
    slot.truncate(0)
    best = list(ms.values())
    rising = tuple(round(max(best[: i + 1]), 4) for i in range(len(best)))
    return CostCurve(_WIDTHS, rising, is_quiet)


def _read_curve(raw: Any) -> CostCurve:
    curve = CostCurve(tuple(map(int, raw["widths"])), tuple(map(float, raw["ms"])))
    if curve.widths != _WIDTHS:
        raise ValueError("other widths were measured")
    return curve


def _read_draft(raw: Any) -> DraftCost:
    return DraftCost(float(raw["step_ms"]), float(raw["row_ms"]))
