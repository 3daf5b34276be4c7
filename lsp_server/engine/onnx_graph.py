"""One session bound to its KV buffers, and a pass of it: the mechanics that all graphs share.

Binding anew costs more than the host's other work, so each graph keeps one IOBinding and each
output one buffer; only the small inputs change from pass to pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from lsp_server.cancellation import CancelToken
from lsp_server.errors import Cancelled, InferenceError, ModelFilesError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


_VARYING = {
    "input_ids": (1,),
    "logit_rows": (0,),
    "position_ids": (1,),
    "attention_bias": (2, 3),
    "features": (1,),
}
"""Input -> its dimensions that differ from pass to pass."""
_CAPACITY = 2
"""Dimension of a KV buffer that is as long as its slot."""


def check_widths(session: Any, path: Path) -> None:
    """Refuse a graph of one width, such as compilers for NPUs ask for: a pass that is narrower than
    it would write padded rows into the cache. Raises ModelFilesError."""
    for item in session.get_inputs():
        is_cache = item.name.startswith("past_key_values.")
        for dimension in (_CAPACITY,) if is_cache else _VARYING.get(item.name, ()):
            if isinstance(item.shape[dimension], int):
                raise ModelFilesError(
                    f"{path} fixes dimension {dimension} of {item.name} to"
                    f" {item.shape[dimension]}, but passes are as wide as their text and draft;"
                    " export it with a dynamic dimension there, or build the model with `tabahead"
                    " export`."
                )


class KVBuffers:
    """Keys and values of some layers, float32 [1, kv heads, capacity, head size] each.

    Written in place by every graph that is bound to them. Fresh zero pages cost no memory until a
    row is written.
    """

    def __init__(
        self, ort: ModuleType, *, num_layers: int, num_kv_heads: int, capacity: int, head_size: int
    ) -> None:
        self.arrays: dict[str, Array] = {}
        self.values: dict[str, Any] = {}
        for layer in range(num_layers):
            for part in ("key", "value"):
                rows = np.zeros((1, num_kv_heads, capacity, head_size), np.float32)
                self.arrays[f"{layer}.{part}"] = rows
                self.values[f"{layer}.{part}"] = ort.OrtValue.ortvalue_from_numpy(rows)

    def gather(self, start: int, rows: Sequence[int]) -> None:
        """Move rows (ascending, from `start` on) to `start`, `start` + 1, ..."""
        if list(rows) == list(range(start, start + len(rows))):
            return
        for array in self.arrays.values():
            array[0, :, start : start + len(rows)] = array[0][:, list(rows)]


class BoundGraph:
    """A session whose past and present are KV buffers. Not thread-safe."""

    def __init__(self, ort: ModuleType, session: Any, kv: KVBuffers | None = None) -> None:
        self._ort = ort
        self._session = session
        self._binding = session.io_binding()
        self._buffers: dict[str, Array] = {}
        names = {item.name for item in session.get_inputs()}
        for name, value in (kv.values if kv else {}).items():
            if f"past_key_values.{name}" in names:
                self._binding.bind_ortvalue_input(f"past_key_values.{name}", value)
                self._binding.bind_ortvalue_output(f"present.{name}", value)

    def run(
        self,
        inputs: Mapping[str, Array],
        outputs: Mapping[str, tuple[int, ...]],
        cancel: CancelToken | None = None,
    ) -> dict[str, Array]:
        """One pass.

        Args:
            inputs: everything but the KV, contiguous arrays in the graph's dtypes.
            outputs: what is wanted -> its shape, float32.
            cancel: stops the pass between two nodes.

        Returns:
            Views that the next pass overwrites.
        """
        wrap = self._ort.OrtValue.ortvalue_from_numpy
        for name, array in inputs.items():
            self._binding.bind_ortvalue_input(name, wrap(array))
        results = {name: self._buffer(name, shape) for name, shape in outputs.items()}
        for name, array in results.items():
            self._binding.bind_ortvalue_output(name, wrap(array))
        self._run(cancel or CancelToken())
        return results

    def _buffer(self, name: str, shape: tuple[int, ...]) -> Array:
        """A view of the output's one buffer, which grows: a width that is new costs nothing."""
        size = int(np.prod(shape))
        if name not in self._buffers or self._buffers[name].size < size:
            self._buffers[name] = np.empty(size, np.float32)
        return self._buffers[name][:size].reshape(shape)

    def _run(self, cancel: CancelToken) -> None:
        options = self._ort.RunOptions()
        cancel.raise_if_cancelled()
        with cancel.on_cancel(lambda: setattr(options, "terminate", True)):
            try:
                self._session.run_with_iobinding(self._binding, options)
            except Exception as error:
                if cancel.cancelled:
                    raise Cancelled(cancel.reason) from error
                raise InferenceError(f"The model failed while running ({error}).") from error


def chain_inputs(
    token_ids: Sequence[int], committed: int, logit_rows: Sequence[int]
) -> dict[str, Array]:
    """What every decoder graph reads: ids, lengths, rows of the head."""
    total = committed + len(token_ids)
    return {
        "input_ids": np.array([token_ids], np.int64),
        "seqlens_k": np.array([total - 1], np.int32),
        "total_sequence_length": np.array(total, np.int32),
        "logit_rows": np.array(logit_rows, np.int64),
    }


def tree_inputs(parents: Sequence[int], committed: int) -> dict[str, Array]:
    """Positions by depth, and a bias under which each token sees the text and its ancestors only.

    `parents` are indices into the pass, -1 for the committed text. Shapes: [1, T] int64 and
    [1, 1, T, committed + T] float32.
    """
    num_tokens = len(parents)
    depths = np.zeros(num_tokens, np.int64)
    sees = np.zeros((num_tokens, num_tokens), bool)
    for token, parent in enumerate(parents):
        if parent >= 0:
            depths[token] = depths[parent] + 1
            sees[token] = sees[parent]
        sees[token, token] = True
    bias = np.zeros((1, 1, num_tokens, committed + num_tokens), np.float32)
    bias[0, 0, :, committed:] = np.where(sees, 0.0, np.finfo(np.float32).min)
    return {"position_ids": committed + depths[None], "attention_bias": bias}
