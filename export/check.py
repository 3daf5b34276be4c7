"""Does a model folder run? Files, then one pass of each form through onnxruntime."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from lsp_server.engine.manifest import Manifest
from lsp_server.errors import InferenceError, ModelFilesError, RuntimeMissingError

PROMPT = "def add(a, b):\n    return a + b\n"
FORM_TOLERANCE = 0.1
"""Largest |logit| difference between the forms: the bias takes another path through the attention,
which rounds differently; a wiring fault is off by several units."""


def check(folder: Path) -> Manifest:
    """The manifest of a good folder; ModelFilesError or InferenceError says what is wrong.

    Verifies every hash, opens both graphs on the CPU and compares their logits for a short text.
    """
    manifest = Manifest.load(folder)
    manifest.check_hashes(folder)
    manifest.check_tokenizer(folder)
    token_ids = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(PROMPT).ids
    logits = {
        form: form_logits(folder / name, manifest, token_ids, tree=form == "tree")
        for form, name in manifest.forms.items()
    }
    for form, values in logits.items():
        if not np.isfinite(values).all():
            raise InferenceError(
                f"{folder / manifest.forms[form]} gives logits that are not finite; build it again."
            )
    if {"chain", "tree"} <= logits.keys():
        difference = float(np.abs(logits["chain"] - logits["tree"]).max())
        if difference > FORM_TOLERANCE:
            raise InferenceError(
                f"The chain and tree graphs in {folder} disagree by {difference:.3g}; build again."
            )
    return manifest


def form_logits(
    path: Path, manifest: Manifest, token_ids: list[int], *, tree: bool
) -> NDArray[np.float32]:
    """All logits float32 [len(token_ids), vocab] of one pass from an empty cache on the CPU."""
    session = _open(path)
    num_tokens = len(token_ids)
    feed: dict[str, Any] = {
        "input_ids": np.array([token_ids], np.int64),
        "seqlens_k": np.array([num_tokens - 1], np.int32),
        "total_sequence_length": np.array(num_tokens, np.int32),
        "logit_rows": np.arange(num_tokens, dtype=np.int64),
    }
    if tree:
        feed["position_ids"] = np.arange(num_tokens, dtype=np.int64)[None]
        feed["attention_bias"] = np.zeros((1, 1, num_tokens, num_tokens), np.float32)
    # One row more than needed: a buffer that is exactly full counts as a cache to concatenate to.
    shape = (1, manifest.num_kv_heads, num_tokens + 1, manifest.head_size)
    for layer in range(manifest.num_layers):
        for kind in ("key", "value"):
            feed[f"past_key_values.{layer}.{kind}"] = np.zeros(shape, np.float32)
    try:
        (logits,) = session.run(["logits"], feed)
    except Exception as error:  # its errors have no common base
        raise InferenceError(f"{path} does not run ({error}); build it again.") from error
    result: NDArray[np.float32] = logits[0]
    return result


def _open(path: Path) -> Any:
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        import onnxruntime
    except ImportError as error:
        raise RuntimeMissingError(
            "onnxruntime is not installed; install `tabahead[cpu]` (or `tabahead[cuda]`)."
        ) from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no common base
        raise ModelFilesError(f"{path} cannot be loaded ({error}); build it again.") from error
