"""Feeds one graph of a model folder directly, with no engine between."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lsp_server.engine.manifest import Manifest
from tests.conftest import missing

IDS = [7, 19, 250, 3, 44, 44, 101, 270, 9, 31, 300, 12, 200, 5, 66, 90]
"""Some text for a tiny model."""

CAPACITY = 64


class Runner:
    """Keys and values live in buffers that are input and output at once."""

    def __init__(self, folder: Path, form: str, num_layers: int | None = None) -> None:
        try:
            import onnxruntime
        except ImportError:
            missing("onnxruntime is absent (extra `cpu`)")
        manifest = Manifest.load(folder)
        path = folder / manifest.forms[form]
        self._session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        self._tree = form == "tree"
        self._binding = self._session.io_binding()
        self.caches: dict[str, np.ndarray] = {}
        shape = (1, manifest.num_kv_heads, CAPACITY, manifest.head_size)
        for layer in range(manifest.num_layers if num_layers is None else num_layers):
            for kind in ("key", "value"):
                zeros = self.caches[f"present.{layer}.{kind}"] = np.zeros(shape, np.float32)
                buffer = onnxruntime.OrtValue.ortvalue_from_numpy(zeros)
                self._binding.bind_ortvalue_input(f"past_key_values.{layer}.{kind}", buffer)
                self._binding.bind_ortvalue_output(f"present.{layer}.{kind}", buffer)

    def __call__(
        self, ids: list[int], past: int, rows: list[int] | None = None, **more: Any
    ) -> np.ndarray:
        """Logits [rows, vocab]; by default of all rows."""
        self._feed(ids, past, rows, more)
        self._binding.bind_output("logits", "cpu")
        self._session.run_with_iobinding(self._binding)
        return self._binding.get_outputs()[-1].numpy()[0].copy()

    def outputs(self, ids: list[int], names: Sequence[str]) -> dict[str, np.ndarray]:
        """The named outputs of a first pass; a tree's is one line."""
        length = len(ids)
        line = {
            "position_ids": np.arange(length)[None],
            "attention_bias": np.zeros((1, 1, length, length), np.float32),
        }
        self._feed(ids, 0, None, line if self._tree else {})
        plain = [name for name in names if name not in self.caches]
        for name in dict.fromkeys(("logits", *plain)):
            self._binding.bind_output(name, "cpu")
        self._session.run_with_iobinding(self._binding)
        bound = dict(
            zip(
                [*self.caches, *dict.fromkeys(("logits", *plain))],
                self._binding.get_outputs(),
                strict=True,
            )
        )
        return {name: bound[name].numpy().copy() for name in names}

    def _feed(
        self, ids: list[int], past: int, rows: list[int] | None, more: dict[str, Any]
    ) -> None:
        total = past + len(ids)
        feed = {
            "input_ids": np.array([ids], np.int64),
            "seqlens_k": np.array([total - 1], np.int32),
            "total_sequence_length": np.array(total, np.int32),
            "logit_rows": np.array(range(len(ids)) if rows is None else rows, np.int64),
            **more,
        }
        for name, value in feed.items():
            self._binding.bind_cpu_input(name, value)
