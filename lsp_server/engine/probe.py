"""Whether a row of logits depends on how many rows run with it: the ground under exactness.

The acceptance rule is exact for the logits that a pass gives; where those change with the width of
the pass, greedy output may change with the draft. Measured per machine, never assumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lsp_server.engine.types import Slot

WIDTHS = (1, 2, 3, 4, 5, 8, 9, 16, 17)
_CONTEXT = 96
NUM_PREFIXES = 4


@dataclass(frozen=True, slots=True)
class WidthProbe:
    widths: tuple[int, ...]
    max_difference: tuple[float, ...]
    """Per width, the largest difference of the first row's logits from those at width 2."""
    num_flips: tuple[int, ...]
    """Per width, how many arg maxes differ from those at width 2."""

    @property
    def near_tie(self) -> float:
        """Logits that two tokens may be apart and yet change places with the width: each moves by
        what the widths differ."""
        return 2.0 * max(self.max_difference)

    @property
    def exact_from_two(self) -> bool:
        """Strict mode holds: every width from two on gives the same bits."""
        pairs = zip(self.widths, self.max_difference, strict=True)
        return all(difference == 0.0 for width, difference in pairs if width >= 2)


def probe_widths(slot: Slot) -> WidthProbe:
    """Compare the first row's logits over widths after a few prefixes; empties the slot."""
    differences = dict.fromkeys(WIDTHS, 0.0)
    flips = dict.fromkeys(WIDTHS, 0)
    rng = np.random.default_rng(0)
    for _ in range(NUM_PREFIXES):
        ids = [int(i) for i in rng.integers(0, slot.spec.vocab_size, _CONTEXT + max(WIDTHS))]
        slot.truncate(0)
        slot.forward(ids[:_CONTEXT], [_CONTEXT - 1])
        slot.commit(_CONTEXT)
        tail = ids[_CONTEXT:]
        reference = slot.forward(tail[:2], [0])[0].copy()
        for width in WIDTHS:
            row = slot.forward(tail[:width], [0])[0]
            differences[width] = max(differences[width], float(np.abs(row - reference).max()))
            flips[width] += int(row.argmax() != reference.argmax())
    slot.truncate(0)
    return WidthProbe(WIDTHS, tuple(differences.values()), tuple(flips.values()))


def arg_max_depends_on_width(slot: Slot, history: Sequence[int], chunk: int) -> bool:
    """Whether the token after `history` changes with the number of rows in the pass."""
    _read(slot, history, chunk)
    found = {int(np.argmax(slot.forward([history[-1]] * w, [0])[0])) for w in WIDTHS}
    return len(found) > 1


def margin(slot: Slot, history: Sequence[int], chunk: int) -> float:
    """Logits between the likeliest token after `history` and the next one."""
    _read(slot, history, chunk)
    second, first = np.partition(slot.forward([history[-1]], [0])[0], -2)[-2:]
    return float(first - second)


def _read(slot: Slot, history: Sequence[int], chunk: int) -> None:
    """Commit all but the last token."""
    slot.truncate(0)
    while len(history) - 1 > len(slot.token_ids):
        part = list(history[len(slot.token_ids) : -1][:chunk])
        slot.forward(part, [len(part) - 1])
        slot.commit(len(part))
