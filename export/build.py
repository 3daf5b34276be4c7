"""Checkpoint -> model folder: read, quantise, write, hash, rename. No torch, no onnxruntime."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import onnx_ir as ir

from export import BUILDER_VERSION
from export.config import FORMS, MAX_CONTEXT, WEIGHT_FORMATS, ModelConfig, WeightFormat
from export.gguf_source import GgufSource, Matrix, TokenizerData
from export.graph import BITS, WEIGHTS_NAME, build_graph, rotary_tables
from export.quantize import BLOCK_SIZE, quantize_blocks
from export.tokenizer import build_tokenizer, end_ids, fim_ids
from export.weights import WeightFile
from lsp_server.engine.manifest import (
    MANIFEST_NAME,
    SCHEMA_VERSION,
    FileEntry,
    Manifest,
    sha256_of,
)
from lsp_server.errors import SettingsError, StorageError, UnsupportedModelError

TOKENIZER_NAME = "tokenizer.json"

Progress = Callable[[str, int, int], None]
"""Stage, steps done, steps in all; whatever it raises stops the build and leaves nothing behind."""

_LEFTOVER_SECONDS = 3600.0


def build(
    source: Path,
    out: Path,
    *,
    name: str,
    weights: str = "int8",
    context_length: int = MAX_CONTEXT,
    licence: str | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Build the GGUF file `source` into the new folder `out`, which appears complete or not at all.

    `context_length` is an upper bound on the checkpoint's own. `licence` defaults to what the
    checkpoint says. Raises SettingsError, ModelFilesError or UnsupportedModelError for what cannot
    be built, StorageError for a place that cannot be written.
    """
    if weights not in WEIGHT_FORMATS:
        raise SettingsError(
            f"Unknown weight format {weights!r}; use one of {', '.join(WEIGHT_FORMATS)}."
        )
    if context_length < 1:
        raise SettingsError(f"The context length must be at least 1 token, not {context_length}.")
    weight_format = cast(WeightFormat, weights)
    report = progress or _silent
    report("checkpoint", 0, 1)
    checkpoint = GgufSource(source)
    config = checkpoint.config(context_length)
    vocabulary = checkpoint.tokenizer_data()
    tokenizer_json = build_tokenizer(vocabulary).to_str()
    report("checkpoint", 1, 1)
    with _new_folder(out) as folder:
        _write_synced(folder / TOKENIZER_NAME, tokenizer_json.encode())
        _write_graphs(checkpoint, config, weight_format, folder, report)
        manifest = _manifest(
            checkpoint,
            config,
            vocabulary,
            folder,
            name=name,
            weights=weight_format,
            licence=licence,
            report=report,
        )
        _write_synced(folder / MANIFEST_NAME, manifest.to_json().encode())
    return manifest


def _silent(stage: str, done: int, total: int) -> None:
    return None


def _write_graphs(
    checkpoint: GgufSource,
    config: ModelConfig,
    weights: WeightFormat,
    folder: Path,
    report: Progress,
) -> None:
    parts = _parts(config)
    with (folder / WEIGHTS_NAME).open("wb") as file:
        stored = WeightFile(file)
        for done, (name, tensor_names) in enumerate(parts.items()):
            report("weights", done, len(parts))
            matrices = [checkpoint.matrix(tensor_name) for tensor_name in tensor_names]
            _store(stored, name, np.concatenate(matrices), weights)
        for name, table in zip(("rope_cos", "rope_sin"), rotary_tables(config), strict=True):
            stored.add(name, table)
        _sync(file)
    report("weights", len(parts), len(parts))
    for form in FORMS:
        ir.save(build_graph(config, weights, form, stored.tensors), folder / f"{form}.onnx")


def _parts(config: ModelConfig) -> dict[str, list[str]]:
    """Name in the graph -> tensors of the checkpoint, stacked along their output axis."""
    parts = {"token_embd": ["token_embd.weight"]}
    for layer in range(config.num_layers):
        block = f"blk.{layer}"
        for name in ("attn_norm", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down"):
            parts[f"{block}.{name}"] = [f"{block}.{name}.weight"]
        # One product for the three: the op takes them packed, and their input is rounded once.
        parts[f"{block}.attn_qkv"] = [f"{block}.attn_{part}.weight" for part in "qkv"]
    parts["output_norm"] = ["output_norm.weight"]
    if not config.tied_head:
        parts["output"] = ["output.weight"]
    return parts


def _store(stored: WeightFile, name: str, matrix: Matrix, weights: WeightFormat) -> None:
    is_table = name in ("token_embd", "output")
    if matrix.ndim == 1:
        stored.add(name, matrix)
    elif weights == "fp32":
        stored.add(name, matrix if is_table else matrix.T)
    else:
        num_rows, num_columns = matrix.shape
        if num_columns % BLOCK_SIZE:
            raise UnsupportedModelError(
                f"The tensor {name} has {num_columns} columns, which is no multiple of"
                f" {BLOCK_SIZE}; build with --weights fp32."
            )
        codes, scales = quantize_blocks(matrix, BITS[weights])
        stored.add(f"{name}.codes", codes)
        stored.add(f"{name}.scales", scales)
        if is_table:
            stored.add_view(f"{name}.rows", f"{name}.codes", (num_rows, codes[0].size))


def _manifest(
    checkpoint: GgufSource,
    config: ModelConfig,
    vocabulary: TokenizerData,
    folder: Path,
    *,
    name: str,
    weights: WeightFormat,
    licence: str | None,
    report: Progress,
) -> Manifest:
    paths = sorted(folder.iterdir())
    files: dict[str, FileEntry] = {}
    for done, path in enumerate(paths):
        report("hashes", done, len(paths) + 1)
        files[path.name] = FileEntry(sha256=sha256_of(path), size=path.stat().st_size)
    report("hashes", len(paths), len(paths) + 1)
    source_sha256 = sha256_of(checkpoint.path)
    report("hashes", len(paths) + 1, len(paths) + 1)
    return Manifest(
        schema_version=SCHEMA_VERSION,
        builder_version=BUILDER_VERSION,
        name=name,
        family=config.family,
        forms={form: f"{form}.onnx" for form in FORMS},
        num_layers=config.num_layers,
        num_heads=config.num_heads,
        num_kv_heads=config.num_kv_heads,
        head_size=config.head_size,
        hidden_size=config.hidden_size,
        vocab_size=config.vocab_size,
        context_length=config.context_length,
        weight_format=weights,
        tokenizer_sha256=files[TOKENIZER_NAME].sha256,
        bos_id=vocabulary.bos_id,
        eos_ids=end_ids(vocabulary),
        fim_ids=fim_ids(vocabulary),
        files=files,
        source={"kind": "gguf", "file": checkpoint.path.name, "sha256": source_sha256},
        licence=licence or checkpoint.licence or "unknown",
        made_by=_made_by(weights),
    )


def _made_by(weights: WeightFormat) -> str:
    libraries = ", ".join(f"{name} {_version(name)}" for name in ("gguf", "numpy", "onnx-ir"))
    return (
        f"tabahead {_version('tabahead')} export build --weights {weights}"
        f" (builder {BUILDER_VERSION}; {libraries})"
    )


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "from source"


@contextmanager
def _new_folder(out: Path) -> Iterator[Path]:
    """A temporary sibling of `out`: becomes `out` if the block succeeds, is removed if not."""
    try:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise StorageError(f"{out} exists already; remove it or choose another folder.")
        out.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(out)
        folder = out.parent / f".{out.name}.partial-{os.getpid()}"
        folder.mkdir()
    except OSError as error:
        raise _storage_error(out, error) from error
    try:
        yield folder
        if out.exists():
            out.rmdir()
        folder.rename(out)
    except OSError as error:
        raise _storage_error(out, error) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_leftovers(out: Path) -> None:
    """What a killed build left; a young folder may belong to a build that still runs."""
    for path in out.parent.glob(f".{out.name}.partial-*"):
        if time.time() - path.stat().st_mtime > _LEFTOVER_SECONDS:
            shutil.rmtree(path, ignore_errors=True)


def _storage_error(out: Path, error: OSError) -> StorageError:
    if error.errno == errno.ENOSPC:
        return StorageError(
            f"The disk of {out.parent} is full; free some space (an int8 build needs about as many"
            " bytes as the model has parameters, fp32 four times that) or build elsewhere."
        )
    return StorageError(
        f"{out} cannot be written ({error.strerror or error}); choose a folder that you may write"
        " to, or set TABAHEAD_HOME."
    )


def _sync(file: BinaryIO) -> None:
    """To the disk, so that no rename can outlive its data."""
    file.flush()
    os.fsync(file.fileno())


def _write_synced(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        _sync(file)
