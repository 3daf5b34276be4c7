"""Head checkpoints and graphs as tests use them: read, altered, run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from lsp_server.engine.drafter_manifest import DrafterManifest
from tests.conftest import missing
from tests.tiny_model import HIDDEN_SIZE, NUM_HEADS, NUM_KV_HEADS


def safetensors_numpy() -> Any:
    """The library, or the end of the test that needs it."""
    try:
        import safetensors.numpy
    except ImportError:
        missing("safetensors is absent (extra `export`)")
    return safetensors.numpy


def session(folder: Path, form: str):
    try:
        import onnxruntime
    except ImportError:
        missing("onnxruntime is absent (extra `cpu`)")
    path = folder / DrafterManifest.load(folder).forms[form]
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


class EagleRunner:
    """One EAGLE graph and its cache of 32 rows."""

    def __init__(self, folder: Path) -> None:
        self._session = session(folder, "eagle")
        shape = (1, NUM_KV_HEADS, 32, HIDDEN_SIZE // NUM_HEADS)
        self._cache = {
            f"past_key_values.0.{kind}": np.zeros(shape, np.float32) for kind in ("key", "value")
        }

    def __call__(self, ids, features, past, *, depths=None, bias=None):
        """Logits [rows, draft vocabulary] and states [rows, hidden]."""
        total = past + len(ids)
        positions = np.arange(past, total) if depths is None else np.array(depths)
        feed = {
            "input_ids": np.array([ids], np.int64),
            "features": np.asarray(features, np.float32)[None],
            "seqlens_k": np.array([total - 1], np.int32),
            "total_sequence_length": np.array(total, np.int32),
            "logit_rows": np.arange(len(ids), dtype=np.int64),
            "position_ids": positions[None].astype(np.int64),
            "attention_bias": np.zeros((1, 1, len(ids), total), np.float32)
            if bias is None
            else bias,
            **self._cache,
        }
        names = ["logits", "hidden", "present.0.key", "present.0.value"]
        logits, hidden, key, value = self._session.run(names, feed)
        self._cache = {"past_key_values.0.key": key, "past_key_values.0.value": value}
        return logits[0], hidden[0]


def checkpoint(folder: Path) -> dict[str, np.ndarray]:
    tensors = safetensors_numpy().load_file(folder / "model.safetensors")
    return {name: values.astype(np.float64) for name, values in tensors.items()}


def rewrite(source: Path, out: Path, config=None, drop=(), **tensors: np.ndarray) -> Path:
    """A copy of a checkpoint with other settings and tensors (None drops a setting)."""
    shutil.copytree(source, out)
    changed = safetensors_numpy().load_file(source / "model.safetensors") | tensors
    for name in drop:
        del changed[name]
    safetensors_numpy().save_file(changed, out / "model.safetensors")
    settings = json.loads((source / "config.json").read_text()) | (config or {})
    settings = {key: value for key, value in settings.items() if value is not None}
    (out / "config.json").write_text(json.dumps(settings))
    return out
