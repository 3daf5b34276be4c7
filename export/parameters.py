"""How many weights a graph of this builder reads."""

from __future__ import annotations

import math
from pathlib import Path

import onnx_ir as ir

from export.quantize import BLOCK_SIZE


def num_parameters(path: Path) -> int:
    """Of the graph at `path`: each stored table and matrix once, quantised or not.

    Rotary tables are computed, not trained, and do not count. A quantised matrix has a scale for
    each block of weights; its codes lie there under one name or two.
    """
    count = 0
    for name, value in ir.load(path).graph.initializers.items():
        shape = value.shape
        assert shape is not None  # every initializer has data
        size = math.prod(int(dim) for dim in shape)
        if name.endswith(".scales"):
            count += size * BLOCK_SIZE
        elif not name.endswith((".codes", ".rows")) and not name.startswith("rope_"):
            count += size
    return count
