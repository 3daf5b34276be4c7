"""Does a folder run? Files, then one pass of each of its graphs through onnxruntime."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from lsp_server.engine.drafter_manifest import DRAFTER_MANIFEST_NAME, DrafterManifest
from lsp_server.engine.manifest import DRAFT_IDS_NAME, Manifest
from lsp_server.errors import InferenceError, ModelFilesError, RuntimeMissingError

PROMPT = "def add(a, b):\n    return a + b\n"
FORM_TOLERANCE = 0.1
"""Largest |logit| difference between the forms: the bias takes another path through the attention,
which rounds differently; a wiring fault is off by several units."""
STATE_TOLERANCE = 0.3
"""The same for states, whose sizes differ by model: times `FORM_TOLERANCE` and the largest one."""

_HEAD_ROWS = 5
"""Rows of made-up states that a head is tried on."""

Array = NDArray[np.float32]


def check(folder: Path) -> Manifest | DrafterManifest:
    """The manifest of a good folder; ModelFilesError or InferenceError says what is wrong.

    Verifies every hash, opens every graph on the CPU and compares what they say of a short text.
    """
    if (folder / DRAFTER_MANIFEST_NAME).is_file():
        return _check_drafter(folder)
    manifest = Manifest.load(folder)
    manifest.check_hashes(folder)
    manifest.check_tokenizer(folder)
    if manifest.reduced_forms:
        _check_ids(folder, manifest.draft_vocab_size, manifest.vocab_size)
    token_ids = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(PROMPT).ids
    found = {
        form: _run_form(folder / name, manifest, token_ids, _outputs(form, manifest))
        for form, name in manifest.forms.items()
    }
    for form, arrays in found.items():
        for output, values in arrays.items():
            _require_finite(folder / manifest.forms[form], output, values)
            # Early exit says something else, but writes what the whole model does.
            if form != "exit" or output != "logits":
                _require_same(folder, form, output, values, found["chain"][output])
    return manifest


def form_logits(path: Path, manifest: Manifest, token_ids: list[int]) -> Array:
    """All logits float32 [len(token_ids), vocab] of one pass from an empty cache on the CPU."""
    logits: Array = _run_form(path, manifest, token_ids, ["logits"])["logits"][0]
    return logits


def _outputs(form: str, manifest: Manifest) -> list[str]:
    """What is looked at, each of which `chain` gives too."""
    hidden = ["hidden_states", "features"] if manifest.hidden_outputs and form != "exit" else []
    return ["logits", *hidden, *(f"present.{i}.value" for i in range(manifest.exit_layers))]


def _run_form(
    path: Path, manifest: Manifest, token_ids: Sequence[int], outputs: Sequence[str]
) -> dict[str, Array]:
    session = _open(path)
    num_tokens = len(token_ids)
    feed = _pass_feed(session, 0, num_tokens, manifest.num_kv_heads, manifest.head_size)
    feed["input_ids"] = np.array([token_ids], np.int64)
    return _run(session, path, outputs, feed)


def _check_drafter(folder: Path) -> DrafterManifest:
    manifest = DrafterManifest.load(folder)
    manifest.check_hashes(folder)
    if manifest.reduced:
        _check_ids(folder, manifest.draft_vocab_size, manifest.vocab_size)
    rng = np.random.default_rng(0)
    states: Array = rng.standard_normal((1, _HEAD_ROWS, manifest.hidden_size), dtype=np.float32)
    if "fuse" in manifest.forms:
        path = folder / manifest.forms["fuse"]
        features = np.concatenate([states] * len(manifest.feature_layers), axis=-1)
        states = _run(_open(path), path, ["fused"], {"features": features})["fused"]
        _require_finite(path, "fused", states)
    if manifest.kind == "medusa":
        _check_medusa(folder / manifest.forms["medusa"], manifest, states)
    else:
        _check_eagle(folder / manifest.forms["eagle"], manifest, states)
    return manifest


def _check_medusa(path: Path, manifest: DrafterManifest, states: Array) -> None:
    logits = _run(_open(path), path, ["logits"], {"hidden": states})["logits"]
    _require_finite(path, "logits", logits)
    expected = (_HEAD_ROWS, manifest.num_medusa_heads, manifest.draft_vocab_size)
    if logits.shape != expected:
        raise InferenceError(f"{path} gives {logits.shape} logits instead of {expected}.")


def _check_eagle(path: Path, manifest: DrafterManifest, states: Array) -> None:
    """All rows at once must say what they say one after another."""
    session = _open(path)
    token_ids = np.arange(_HEAD_ROWS, dtype=np.int64)[None] % manifest.vocab_size
    shape = manifest.num_kv_heads, manifest.head_size
    cache: dict[str, Array] = {}
    whole: list[Array] = []
    single: list[Array] = []
    for rows in (slice(0, _HEAD_ROWS), *(slice(i, i + 1) for i in range(_HEAD_ROWS))):
        feed = _pass_feed(session, rows.start, rows.stop - rows.start, *shape)
        feed |= cache if rows.start else {}
        feed |= {"input_ids": token_ids[:, rows], "features": states[:, rows]}
        found = _run(session, path, ["logits", "present.0.key", "present.0.value"], feed)
        cache = {f"past_key_values.0.{kind}": found[f"present.0.{kind}"] for kind in _KINDS}
        (whole if rows == slice(0, _HEAD_ROWS) else single).append(found["logits"])
    _require_finite(path, "logits", whole[0])
    difference = float(np.abs(whole[0] - np.concatenate(single, axis=1)).max())
    if difference > FORM_TOLERANCE:
        raise InferenceError(
            f"{path} says something else row by row than at once (by {difference:.3g}); build it"
            " again."
        )


_KINDS = ("key", "value")


def _pass_feed(
    session: Any, committed: int, num_tokens: int, num_kv_heads: int, head_size: int
) -> dict[str, Any]:
    """What a pass over a cache takes besides its rows; the cache is empty."""
    total = committed + num_tokens
    feed: dict[str, Any] = {
        "seqlens_k": np.array([total - 1], np.int32),
        "total_sequence_length": np.array(total, np.int32),
        "logit_rows": np.arange(num_tokens, dtype=np.int64),
        "position_ids": np.arange(committed, total, dtype=np.int64)[None],
        "attention_bias": np.zeros((1, 1, num_tokens, total), np.float32),
    }
    names = {value.name for value in session.get_inputs()}
    # One row more than needed: a buffer that is exactly full counts as a cache to concatenate to.
    shape = (1, num_kv_heads, max(total, _HEAD_ROWS) + 1, head_size)
    for name in names:
        if name.startswith("past_key_values."):
            feed[name] = np.zeros(shape, np.float32)
    return {name: value for name, value in feed.items() if name in names}


def _check_ids(folder: Path, size: int, vocab_size: int) -> None:
    path = folder / DRAFT_IDS_NAME
    try:
        ids = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ModelFilesError(f"{path} cannot be read ({error}); build it again.") from error
    good = ids.dtype == np.int64 and ids.shape == (size,) and 0 <= ids[0] <= ids[-1] < vocab_size
    if not good or not (np.diff(ids) > 0).all():
        raise ModelFilesError(
            f"{path} is not {size} ascending ids below {vocab_size}; build it again."
        )


def _require_same(folder: Path, form: str, output: str, values: Array, expected: Array) -> None:
    difference = float(np.abs(values - expected).max())
    scale = 1.0 if output == "logits" else STATE_TOLERANCE * float(np.abs(expected).max())
    if difference > FORM_TOLERANCE * scale:
        raise InferenceError(
            f"The chain and {form} graphs in {folder} disagree by {difference:.3g} in {output};"
            " build again."
        )


def _require_finite(path: Path, output: str, values: Array) -> None:
    if not np.isfinite(values).all():
        raise InferenceError(f"{path} gives {output} that are not finite; build it again.")


def _run(
    session: Any, path: Path, outputs: Sequence[str], feed: dict[str, Any]
) -> dict[str, Array]:
    try:
        return dict(zip(outputs, session.run(list(outputs), feed), strict=True))
    except Exception as error:  # its errors have no common base
        raise InferenceError(f"{path} does not run ({error}); build it again.") from error


def _open(path: Path) -> Any:
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        import onnxruntime
    except ImportError as error:
        raise RuntimeMissingError(
            "No onnxruntime is installed; install one with `pip install onnxruntime`"
            " (or `onnxruntime-gpu` for an NVIDIA GPU)."
        ) from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no common base
        raise ModelFilesError(f"{path} cannot be loaded ({error}); build it again.") from error
