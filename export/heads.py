"""Head checkpoint + target folder -> drafter folder. No torch, no onnxruntime."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir
from tokenizers import Tokenizer

from export import BUILDER_VERSION
from export.build import check_weights
from export.config import DRAFT_VOCABULARY, AttentionShape, WeightFormat
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
from export.graph import rotary_tables
from export.head_source import HeadSource
from export.heads_layout import READERS, Head
from export.target import TargetFolder
from export.weights import WEIGHTS_NAME, WeightFile
from lsp_server.engine.drafter_manifest import (
    DRAFTER_MANIFEST_NAME,
    DRAFTER_SCHEMA_VERSION,
    DrafterManifest,
    TargetIdentity,
)
from lsp_server.engine.manifest import DRAFT_IDS_NAME
from lsp_server.errors import SettingsError

_LIBRARIES = ("numpy", "onnx-ir", "safetensors")


def build_heads(
    kind: str,
    source: Path,
    target: Path,
    out: Path,
    *,
    name: str,
    weights: str = "int8",
    draft_vocabulary: int = DRAFT_VOCABULARY,
    licence: str | None = None,
    progress: Progress | None = None,
) -> DrafterManifest:
    """Build the head in the folder `source`, for the model folder `target`, into the folder `out`.

    `kind` is `medusa`, `eagle` or `eagle3`. `draft_vocabulary` is the number of ids that the head
    knows (0: all); an EAGLE-3 checkpoint brings its own. Raises SettingsError, ModelFilesError or
    UnsupportedModelError for what cannot be built, StorageError for a place that cannot be written.
    """
    report = progress or silent
    if kind not in READERS:
        raise SettingsError(f"Unknown kind of head {kind!r}; use one of {', '.join(READERS)}.")
    weight_format = check_weights(weights)
    report("checkpoint", 0, 1)
    checkpoint, model = HeadSource(source), TargetFolder(target)
    tokenizer = Tokenizer.from_file(str(target / "tokenizer.json"))
    manifest = model.manifest
    ids = draft_ids(tokenizer, draft_vocabulary, manifest.eos_ids, manifest.vocab_size)
    head = READERS[kind](checkpoint, model, ids)
    checkpoint.refuse_unread()
    report("checkpoint", 1, 1)
    with new_folder(out) as folder:
        if head.ids is not None:
            write_synced(folder / DRAFT_IDS_NAME, npy_bytes(head.ids))
        _write_graphs(head, manifest.context_length, weight_format, folder, report)
        built = _manifest(
            kind, checkpoint, model, head, folder, name, weight_format, licence, report
        )
        write_synced(folder / DRAFTER_MANIFEST_NAME, built.to_json().encode())
    return built


def _write_graphs(
    head: Head, context_length: int, weights: WeightFormat, folder: Path, report: Progress
) -> None:
    total = len(head.linears) + len(head.tables)
    with (folder / WEIGHTS_NAME).open("wb") as file:
        stored = WeightFile(file)
        for name, vector in head.vectors.items():
            stored.add(name, vector)
        for done, (name, matrix) in enumerate(head.linears.items()):
            report("weights", done, total)
            stored.add_linear(name, matrix, weights)
        for done, (name, matrix) in enumerate(head.tables.items(), len(head.linears)):
            report("weights", done, total)
            stored.add_table(name, matrix, weights)
        if head.attention is not None:
            tables = rotary_tables(head.attention.head_size, context_length, head.rope_base)
            for name, table in zip(("rope_cos", "rope_sin"), tables, strict=True):
                stored.add(name, table)
        sync(file)
    report("weights", total, total)
    for form, graph in head.graphs.items():
        ir.save(graph(weights, stored.tensors), folder / f"{form}.onnx")


def _manifest(
    kind: str,
    checkpoint: HeadSource,
    model: TargetFolder,
    head: Head,
    folder: Path,
    name: str,
    weights: WeightFormat,
    licence: str | None,
    report: Progress,
) -> DrafterManifest:
    target = model.manifest
    files, hashes = hashed(folder, checkpoint.files, report)
    shape = head.attention or AttentionShape(0, 0, 0)
    said = checkpoint.config.get("license")
    return DrafterManifest(
        schema_version=DRAFTER_SCHEMA_VERSION,
        builder_version=BUILDER_VERSION,
        name=name,
        kind=kind,
        trained=checkpoint.config.get("trained", True) is not False,
        forms={form: f"{form}.onnx" for form in head.graphs},
        hidden_size=target.hidden_size,
        vocab_size=target.vocab_size,
        draft_vocab_size=target.vocab_size if head.ids is None else len(head.ids),
        num_medusa_heads=head.num_medusa_heads,
        num_kv_heads=shape.num_kv_heads,
        head_size=shape.head_size,
        context_length=0 if head.attention is None else target.context_length,
        feature_layers=head.feature_layers,
        num_parameters=head.num_parameters,
        weight_format=weights,
        target=TargetIdentity(target.name, target.tokenizer_sha256, target.source["sha256"]),
        files=files,
        source={
            "kind": "safetensors",
            "file": ", ".join(path.name for path in checkpoint.files),
            "sha256": ", ".join(hashes),
        },
        licence=licence or (str(said) if said else "unknown"),
        made_by=made_by(f"heads {kind} --weights {weights}", _LIBRARIES),
    )
