"""Checkpoint -> model folder: read, quantise, write, hash, rename. No torch, no onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from tokenizers import Tokenizer

from export import BUILDER_VERSION
from export.config import (
    DRAFT_VOCABULARY,
    LEAST_CONTEXT,
    MAX_CONTEXT,
    WEIGHT_FORMATS,
    Form,
    ModelConfig,
    WeightFormat,
)
from export.draft_vocabulary import draft_ids
from export.folder import (
    Progress,
    hashed,
    made_by,
    new_folder,
    npy_bytes,
    silent,
    sync,
    write_synced,
)
from export.gguf_source import GgufSource, Matrix, TokenizerData
from export.graph import REDUCED_HEAD, build_graph, feature_layers, rotary_tables
from export.tokenizer import build_tokenizer, end_ids, fim_ids
from export.weights import WEIGHTS_NAME, WeightFile
from lsp_server.engine.manifest import DRAFT_IDS_NAME, MANIFEST_NAME, SCHEMA_VERSION, Manifest
from lsp_server.errors import SettingsError

TOKENIZER_NAME = "tokenizer.json"

_LIBRARIES = ("gguf", "numpy", "onnx-ir", "tokenizers")


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    weights: GgufSource
    vocabulary: TokenizerData
    tokenizer: Tokenizer


@dataclass(frozen=True, slots=True)
class _Plan:
    """One folder to make: which layers of the checkpoint, in which format, in which forms."""

    command: str
    name: str
    weights: WeightFormat
    config: ModelConfig
    layers: tuple[int, ...]
    """Layers of the checkpoint, in order."""
    ids: NDArray[np.int64] | None
    """What the reduced heads know; None: no head is reduced."""
    forms: tuple[Form, ...]
    reduced_forms: tuple[Form, ...]
    licence: str | None
    pruned: bool = False
    """No training has fitted these layers to each other."""


def build(
    source: Path,
    out: Path,
    *,
    name: str,
    weights: str = "int8",
    context_length: int = MAX_CONTEXT,
    exit_layers: int | None = None,
    draft_vocabulary: int = DRAFT_VOCABULARY,
    licence: str | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Build the GGUF file `source` into the new folder `out`, which appears complete or not at all.

    `context_length` is an upper bound on the checkpoint's own. `exit_layers` is the depth of the
    early exit (None: a fifth of the layers; 0: no such form), `draft_vocabulary` the number of ids
    that its head knows (0: all). `licence` defaults to what the checkpoint says. Raises
    SettingsError, ModelFilesError or UnsupportedModelError for what cannot be built, StorageError
    for a place that cannot be written.
    """
    report = progress or silent
    checkpoint, config = _open(source, weights, context_length, report)
    if exit_layers is None:
        exit_layers = max(1, config.num_layers // 5)
    if not 0 <= exit_layers <= config.num_layers:
        raise SettingsError(
            f"The early exit must be after 1 to {config.num_layers} layers (or 0 for none), not"
            f" {exit_layers}."
        )
    ids = _ids(checkpoint, draft_vocabulary, config) if exit_layers else None
    plan = _Plan(
        command=f"build --weights {weights}",
        name=name,
        weights=check_weights(weights),
        config=replace(config, exit_layers=exit_layers),
        layers=tuple(range(config.num_layers)),
        ids=ids,
        forms=("chain", "tree", "exit") if exit_layers else ("chain", "tree"),
        reduced_forms=() if ids is None else ("exit",),
        licence=licence,
    )
    return _make(checkpoint, plan, out, report)


def build_draft(
    source: Path,
    out: Path,
    *,
    name: str,
    layers: Sequence[int] | None = None,
    weights: str = "int8",
    context_length: int = MAX_CONTEXT,
    draft_vocabulary: int = DRAFT_VOCABULARY,
    licence: str | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Build a draft model out of some layers of `source`, which no training has fitted together.

    `layers` are indices in ascending order (None: the first four and the last two).
    `draft_vocabulary` is the number of ids that its head knows (0: all). Otherwise like `build`.
    """
    report = progress or silent
    checkpoint, config = _open(source, weights, context_length, report)
    chosen = default_layers(config.num_layers) if layers is None else tuple(layers)
    if not chosen or list(chosen) != sorted(set(chosen) & set(range(config.num_layers))):
        raise SettingsError(
            f"The layers {','.join(map(str, chosen))} cannot be kept; name some of"
            f" 0-{config.num_layers - 1} in ascending order."
        )
    ids = _ids(checkpoint, draft_vocabulary, config)
    plan = _Plan(
        command=f"draft --weights {weights} --layers {','.join(map(str, chosen))}",
        name=name,
        weights=check_weights(weights),
        config=replace(config, num_layers=len(chosen)),
        layers=chosen,
        ids=ids,
        forms=("chain", "tree"),
        reduced_forms=() if ids is None else ("chain", "tree"),
        licence=licence,
        pruned=True,
    )
    return _make(checkpoint, plan, out, report)


def default_layers(num_layers: int) -> tuple[int, ...]:
    """The first four and the last two, or all if there are no more."""
    return tuple(sorted({*range(min(4, num_layers)), *range(max(0, num_layers - 2), num_layers)}))


def check_weights(weights: str) -> WeightFormat:
    """Raises SettingsError for a format that is not known."""
    if weights not in WEIGHT_FORMATS:
        raise SettingsError(
            f"Unknown weight format {weights!r}; use one of {', '.join(WEIGHT_FORMATS)}."
        )
    return cast(WeightFormat, weights)


def _open(
    source: Path, weights: str, context_length: int, report: Progress
) -> tuple[_Checkpoint, ModelConfig]:
    check_weights(weights)
    if context_length < LEAST_CONTEXT:
        raise SettingsError(
            f"The context length must be at least {LEAST_CONTEXT} tokens, not {context_length}."
        )
    report("checkpoint", 0, 1)
    weights_of = GgufSource(source)
    config = weights_of.config(context_length)
    vocabulary = weights_of.tokenizer_data()
    checkpoint = _Checkpoint(weights_of, vocabulary, build_tokenizer(vocabulary))
    report("checkpoint", 1, 1)
    return checkpoint, config


def _ids(checkpoint: _Checkpoint, size: int, config: ModelConfig) -> NDArray[np.int64] | None:
    always = end_ids(checkpoint.vocabulary)
    return draft_ids(checkpoint.tokenizer, size, always, config.vocab_size)


def _make(checkpoint: _Checkpoint, plan: _Plan, out: Path, report: Progress) -> Manifest:
    with new_folder(out) as folder:
        write_synced(folder / TOKENIZER_NAME, checkpoint.tokenizer.to_str().encode())
        if plan.ids is not None:
            write_synced(folder / DRAFT_IDS_NAME, npy_bytes(plan.ids))
        _write_graphs(checkpoint.weights, plan, folder, report)
        manifest = _manifest(checkpoint, plan, folder, report)
        write_synced(folder / MANIFEST_NAME, manifest.to_json().encode())
    return manifest


def _write_graphs(source: GgufSource, plan: _Plan, folder: Path, report: Progress) -> None:
    config = plan.config
    parts = _parts(config, plan.layers)
    with (folder / WEIGHTS_NAME).open("wb") as file:
        stored = WeightFile(file)
        for done, (name, tensor_names) in enumerate(parts.items()):
            report("weights", done, len(parts))
            matrices = [source.matrix(tensor_name) for tensor_name in tensor_names]
            _store(stored, name, np.concatenate(matrices), plan.weights)
        tables = rotary_tables(config.attention.head_size, config.context_length, config.rope_base)
        for name, table in zip(("rope_cos", "rope_sin"), tables, strict=True):
            stored.add(name, table)
        if plan.ids is not None:
            head = source.matrix("token_embd.weight" if config.tied_head else "output.weight")
            stored.add_table(REDUCED_HEAD, head[plan.ids], plan.weights)
        sync(file)
    report("weights", len(parts), len(parts))
    for form in plan.forms:
        reduced = form in plan.reduced_forms
        graph = build_graph(config, plan.weights, form, stored.tensors, reduced=reduced)
        ir.save(graph, folder / f"{form}.onnx")


def _parts(config: ModelConfig, layers: Sequence[int]) -> dict[str, list[str]]:
    """Name in the graph -> tensors of the checkpoint, stacked along their output axis."""
    parts = {"token_embd": ["token_embd.weight"]}
    for layer, kept in enumerate(layers):
        block, source = f"blk.{layer}", f"blk.{kept}"
        for name in ("attn_norm", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down"):
            parts[f"{block}.{name}"] = [f"{source}.{name}.weight"]
        # One product for the three: the op takes them packed, and their input is rounded once.
        parts[f"{block}.attn_qkv"] = [f"{source}.attn_{part}.weight" for part in "qkv"]
    parts["output_norm"] = ["output_norm.weight"]
    if not config.tied_head:
        parts["output"] = ["output.weight"]
    return parts


def _store(stored: WeightFile, name: str, matrix: Matrix, weights: WeightFormat) -> None:
    if matrix.ndim == 1:
        stored.add(name, matrix)
    elif name in ("token_embd", "output"):
        stored.add_table(name, matrix, weights)
    else:
        stored.add_linear(name, matrix, weights)


def _manifest(checkpoint: _Checkpoint, plan: _Plan, folder: Path, report: Progress) -> Manifest:
    config, vocabulary = plan.config, checkpoint.vocabulary
    path = checkpoint.weights.path
    files, (source_sha256,) = hashed(folder, [path], report)
    source = {"kind": "gguf", "file": path.name, "sha256": source_sha256}
    if plan.pruned:
        source["layers"] = ",".join(map(str, plan.layers))
    return Manifest(
        schema_version=SCHEMA_VERSION,
        builder_version=BUILDER_VERSION,
        name=plan.name,
        family=config.family,
        forms={form: f"{form}.onnx" for form in plan.forms},
        num_layers=config.num_layers,
        num_heads=config.attention.num_heads,
        num_kv_heads=config.attention.num_kv_heads,
        head_size=config.attention.head_size,
        hidden_size=config.hidden_size,
        vocab_size=config.vocab_size,
        context_length=config.context_length,
        weight_format=plan.weights,
        tokenizer_sha256=files[TOKENIZER_NAME].sha256,
        bos_id=vocabulary.bos_id,
        eos_ids=end_ids(vocabulary),
        fim_ids=fim_ids(vocabulary),
        files=files,
        source=source,
        licence=plan.licence or checkpoint.weights.licence or "unknown",
        made_by=made_by(plan.command, _LIBRARIES),
        hidden_outputs=True,
        feature_layers=feature_layers(config.num_layers),
        exit_layers=config.exit_layers,
        reduced_forms=plan.reduced_forms,
        draft_vocab_size=0 if plan.ids is None else len(plan.ids),
        tree_rows_exact=False,
        trained=not plan.pruned,
    )
