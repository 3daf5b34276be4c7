"""The public checkpoint layouts of heads -> named matrices and the graphs over them.

Medusa (`{i}.{j}.linear.weight`), EAGLE-1/2 (`fc`, `layers.0.*`), EAGLE-3 (`fc`, `midlayer.*`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from export.config import AttentionShape, WeightFormat
from export.gguf_source import Matrix
from export.head_graph import (
    HEAD,
    EagleConfig,
    MedusaConfig,
    eagle_graph,
    fuse_graph,
    medusa_graph,
)
from export.head_source import HeadSource
from export.target import TargetFolder
from export.weights import StoredTensor
from lsp_server.errors import ModelFilesError, UnsupportedModelError

Ids = NDArray[np.int64] | None
"""Ids of a reduced head, ascending; None: the whole vocabulary."""

Graph = Callable[[WeightFormat, Mapping[str, StoredTensor]], ir.Model]


@dataclass(slots=True)
class Head:
    """One head, ready to be written: its matrices by their names in the graphs."""

    ids: Ids
    linears: dict[str, Matrix] = field(default_factory=dict)
    vectors: dict[str, Matrix] = field(default_factory=dict)
    tables: dict[str, Matrix] = field(default_factory=dict)
    graphs: dict[str, Graph] = field(default_factory=dict)
    num_parameters: int = 0
    num_medusa_heads: int = 0
    attention: AttentionShape | None = None
    rope_base: float = 0.0
    feature_layers: tuple[int, ...] = ()


def read_medusa(source: HeadSource, target: TargetFolder, ids: Ids) -> Head:
    """Heads of residual blocks; rows of their own if the checkpoint has any, else the target's."""
    num_heads, num_layers = source.size("medusa_num_heads"), source.size("medusa_num_layers", 1)
    prefix = "medusa_head." if any(n.startswith("medusa_head.") for n in source.names) else ""
    size = target.manifest.hidden_size
    _require_fit("hidden size", source.array(f"{prefix}0.0.linear.weight").shape[0], size, target)
    own_rows = f"{prefix}0.{num_layers}.weight" in source
    head = Head(ids, num_medusa_heads=num_heads)
    for i in range(num_heads):
        for j in range(num_layers):
            name = f"{prefix}{i}.{j}.linear"
            head.linears[f"{i}.{j}"] = source.matrix(f"{name}.weight", (size, size))
            head.vectors[f"{i}.{j}.bias"] = source.matrix(f"{name}.bias", (size,))
        if own_rows:
            name = f"{prefix}{i}.{num_layers}.weight"
            head.tables[f"{i}.{HEAD}"] = _own_rows(source, name, target, ids)
    head.num_parameters = _count(head)
    if not own_rows:
        head.tables[HEAD] = target.head_rows(ids)
    config = MedusaConfig(size, num_heads, num_layers, own_rows)
    head.graphs["medusa"] = lambda weights, tensors: medusa_graph(config, weights, tensors)
    return head


def read_eagle(source: HeadSource, target: TargetFolder, ids: Ids) -> Head:
    """EAGLE-1 and 2: fc on embedding and state, a layer without input norm, the target's rows."""
    config = _eagle_config(source, target, third=False)
    size = config.hidden_size
    head = Head(ids, attention=config.attention, rope_base=_rope_base(source))
    head.linears["fc"] = source.matrix("fc.weight", (size, 2 * size))
    if "fc.bias" in source:
        head.vectors["fc.bias"] = source.matrix("fc.bias", (size,))
    _read_layer(source, head, config, "layers.0", input_size=size)
    if "lm_head.weight" in source:
        head.tables[HEAD] = _own_rows(source, "lm_head.weight", target, ids)
    _finish_eagle(source, target, head)
    head.graphs["eagle"] = lambda weights, tensors: eagle_graph(config, weights, tensors)
    return head


def read_eagle3(source: HeadSource, target: TargetFolder, ids: Ids) -> Head:
    """EAGLE-3: fc on the features of three layers, normed inputs side by side, rows of its own."""
    config = _eagle_config(source, target, third=True)
    size = config.hidden_size
    if "d2t" in source:
        ids = _mapped_ids(source, target)
    head = Head(ids, attention=config.attention, rope_base=_rope_base(source))
    head.feature_layers = target.manifest.feature_layers
    head.linears["fc"] = source.matrix("fc.weight", (size, config.num_features * size))
    _read_layer(source, head, config, "midlayer", input_size=2 * size)
    for name, tensor in (
        ("input_norm", "midlayer.input_layernorm.weight"),
        ("hidden_norm", "midlayer.hidden_norm.weight"),
        ("output_norm", "norm.weight"),
    ):
        head.vectors[name] = source.matrix(tensor, (size,))
    if "d2t" in source and ids is not None:
        rows = source.matrix("lm_head.weight", (len(ids), size))
        head.tables[HEAD] = rows[np.argsort(_offset_ids(source))]
    elif "lm_head.weight" in source:
        head.tables[HEAD] = _own_rows(source, "lm_head.weight", target, ids)
    _finish_eagle(source, target, head)
    head.graphs["eagle"] = lambda weights, tensors: eagle_graph(config, weights, tensors)
    head.graphs["fuse"] = lambda weights, tensors: fuse_graph(config, weights, tensors)
    return head


READERS: Mapping[str, Callable[[HeadSource, TargetFolder, Ids], Head]] = {
    "medusa": read_medusa,
    "eagle": read_eagle,
    "eagle3": read_eagle3,
}


def _eagle_config(source: HeadSource, target: TargetFolder, *, third: bool) -> EagleConfig:
    size = source.size("hidden_size")
    _require_fit("hidden size", size, target.manifest.hidden_size, target)
    vocab_size = source.size("vocab_size")
    _require_fit("vocabulary", vocab_size, target.manifest.vocab_size, target)
    path = source.folder / "config.json"
    for key in ("rope_scaling", "attention_bias"):
        if source.config.get(key):
            raise UnsupportedModelError(
                f"{path} has {key} = {source.config[key]!r}, which is not supported."
            )
    epsilon = source.config.get("rms_norm_eps")
    if not isinstance(epsilon, float):
        raise ModelFilesError(f"{path} lacks rms_norm_eps; add it.")
    num_heads = source.size("num_attention_heads")
    return EagleConfig(
        third=third,
        hidden_size=size,
        attention=AttentionShape(
            num_heads=num_heads,
            num_kv_heads=source.size("num_key_value_heads", num_heads),
            head_size=source.size("head_dim", size // num_heads),
        ),
        norm_epsilon=epsilon,
        num_features=len(target.manifest.feature_layers) if third else 1,
    )


def _rope_base(source: HeadSource) -> float:
    return float(source.config.get("rope_theta", 10000.0))


def _read_layer(
    source: HeadSource, head: Head, config: EagleConfig, prefix: str, *, input_size: int
) -> None:
    shape, size = config.attention, config.hidden_size
    widths = {
        "q": shape.num_heads * shape.head_size,
        "k": shape.num_kv_heads * shape.head_size,
        "v": shape.num_kv_heads * shape.head_size,
    }
    head.linears["blk.0.attn_qkv"] = np.concatenate(
        [
            source.matrix(f"{prefix}.self_attn.{part}_proj.weight", (width, input_size))
            for part, width in widths.items()
        ]
    )
    output = source.matrix(f"{prefix}.self_attn.o_proj.weight", (size, widths["q"]))
    head.linears["blk.0.attn_output"] = output
    inner = source.size("intermediate_size")
    for part, matrix_shape in (
        ("gate", (inner, size)),
        ("up", (inner, size)),
        ("down", (size, inner)),
    ):
        matrix = source.matrix(f"{prefix}.mlp.{part}_proj.weight", matrix_shape)
        head.linears[f"blk.0.ffn_{part}"] = matrix
    norm = source.matrix(f"{prefix}.post_attention_layernorm.weight", (size,))
    head.vectors["blk.0.ffn_norm"] = norm


def _finish_eagle(source: HeadSource, target: TargetFolder, head: Head) -> None:
    """Count what the head itself adds, then the tables that it shares with the target."""
    head.num_parameters = _count(head)
    if HEAD not in head.tables:
        head.tables[HEAD] = target.head_rows(head.ids)
    manifest = target.manifest
    if "embed_tokens.weight" in source:
        shape = manifest.vocab_size, manifest.hidden_size
        head.tables["token_embd"] = source.matrix("embed_tokens.weight", shape)
    else:
        head.tables["token_embd"] = target.embedding()


def _own_rows(source: HeadSource, name: str, target: TargetFolder, ids: Ids) -> Matrix:
    manifest = target.manifest
    _require_fit("vocabulary", source.array(name).shape[0], manifest.vocab_size, target)
    rows = source.matrix(name, (manifest.vocab_size, manifest.hidden_size))
    return rows if ids is None else rows[ids]


def _offset_ids(source: HeadSource) -> NDArray[np.int64]:
    """`d2t` holds what to add to a column to get its id."""
    offsets = source.array("d2t").astype(np.int64)
    return offsets + np.arange(len(offsets))


def _mapped_ids(source: HeadSource, target: TargetFolder) -> Ids:
    """The ids of `d2t`, ascending; None if they are the whole vocabulary. `t2d` must agree."""
    vocab_size = target.manifest.vocab_size
    ids = np.sort(_offset_ids(source))
    if ids[0] < 0 or ids[-1] >= vocab_size or (np.diff(ids) == 0).any():
        raise ModelFilesError(
            f"{source.folder} has a d2t that names an id twice or one outside the vocabulary of"
            f" {vocab_size} of {target.manifest.name}; use a head made for this model."
        )
    if "t2d" in source:
        used = source.array("t2d")
        _require_fit("vocabulary", len(used), vocab_size, target)
        if not np.array_equal(np.flatnonzero(used), ids):
            raise ModelFilesError(
                f"{source.folder} has a t2d that names other ids than its d2t; fetch it again."
            )
    return ids


def _require_fit(what: str, own: int, other: int, target: TargetFolder) -> None:
    if own != other:
        raise ModelFilesError(
            f"The head and the model {target.manifest.name} do not fit: {what} {own} and {other};"
            " use a head made for this model."
        )


def _count(head: Head) -> int:
    parts = (head.linears, head.vectors, head.tables)
    return sum(matrix.size for part in parts for matrix in part.values())
