"""The file `weights.data`: arrays one after another, which both graphs refer to by offset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

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
