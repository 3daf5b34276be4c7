"""The file `weights.data`: arrays one after another, which the graphs refer to by offset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from export.config import WeightFormat
from export.quantize import BITS, BLOCK_SIZE, quantize_blocks
from lsp_server.errors import UnsupportedModelError

WEIGHTS_NAME = "weights.data"
ALIGNMENT = 4096
"""One memory page: onnxruntime maps each tensor instead of reading it."""


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """Where a tensor lies in the file; two of them may share the same bytes."""

    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    offset: int
    length: int


class WeightFile:
    """Writes each array as it comes, so that memory holds one tensor at a time."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.tensors: dict[str, StoredTensor] = {}

    def add(self, name: str, array: NDArray[np.generic]) -> None:
        """Append little-endian `array`; raises OSError when the disk is full."""
        self._file.write(bytes(-self._file.tell() % ALIGNMENT))
        offset = self._file.tell()
        data = np.ascontiguousarray(array)
        self._file.write(data.data)
        self.tensors[name] = StoredTensor(data.dtype, data.shape, offset, data.nbytes)

    def add_view(self, name: str, of: str, shape: tuple[int, ...]) -> None:
        """Another name and shape for bytes that are already there: a tied table is stored once."""
        stored = self.tensors[of]
        self.tensors[name] = StoredTensor(stored.dtype, shape, stored.offset, stored.length)

    def add_linear(self, name: str, matrix: NDArray[np.float32], weights: WeightFormat) -> None:
        """A matrix [out, in] that is only multiplied with."""
        if weights == "fp32":
            self.add(name, matrix.T)
        else:
            self._add_blocks(name, matrix, BITS[weights])

    def add_table(self, name: str, matrix: NDArray[np.float32], weights: WeightFormat) -> None:
        """An embedding or a head [tokens, hidden], for `GraphParts.embedding` and `head`."""
        if weights == "fp32":
            self.add(name, matrix)
        else:
            self._add_blocks(name, matrix, BITS[weights])
            codes = self.tensors[f"{name}.codes"]
            rows = (codes.shape[0], codes.shape[1] * codes.shape[2])
            self.add_view(f"{name}.rows", f"{name}.codes", rows)

    def _add_blocks(self, name: str, matrix: NDArray[np.float32], bits: int) -> None:
        num_columns = matrix.shape[1]
        if num_columns % BLOCK_SIZE:
            raise UnsupportedModelError(
                f"The tensor {name} has {num_columns} columns, which is no multiple of"
                f" {BLOCK_SIZE}; build with --weights fp32."
            )
        codes, scales = quantize_blocks(matrix, bits)
        self.add(f"{name}.codes", codes)
        self.add(f"{name}.scales", scales)
