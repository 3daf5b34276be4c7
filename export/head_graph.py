"""The ONNX graphs of trained heads: Medusa, and the layer of EAGLE in its first and third form.

The README of this folder is the contract of inputs and outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as ir

from export.config import AttentionShape, WeightFormat
from export.graph_parts import GraphParts
from export.weights import StoredTensor

HEAD = "head"
"""Name of the table with the head's rows; Medusa heads with rows of their own have `{i}.head`."""


@dataclass(frozen=True, slots=True)
class MedusaConfig:
    hidden_size: int
    num_heads: int
    num_layers: int
    """Residual blocks of a head."""
    own_rows: bool
    """Each head has an output matrix; otherwise all use the target's."""


@dataclass(frozen=True, slots=True)
class EagleConfig:
    third: bool
    """EAGLE-3: normed inputs side by side into the attention; otherwise fused before it."""
    hidden_size: int
    attention: AttentionShape
    norm_epsilon: float
    num_features: int
    """Width of what `fuse` reads, in hidden sizes."""


def medusa_graph(
    config: MedusaConfig, weights: WeightFormat, tensors: Mapping[str, StoredTensor]
) -> ir.Model:
    """Residual blocks x + SiLU(Wx + b) on the hidden state, one line of them a head (Cai 2024)."""
    parts = GraphParts(weights, tensors)
    hidden = parts.input("hidden", ir.DataType.FLOAT, [1, "num_rows", config.hidden_size])
    ends = []
    for head in range(config.num_heads):
        x = hidden
        for layer in range(config.num_layers):
            name = f"{head}.{layer}"
            delta = parts.silu(f"{name}.silu", parts.linear(name, x))
            x = parts.node("Add", [x, delta], f"{name}.sum")
        ends.append(parts.head(f"{head}.{HEAD}", x) if config.own_rows else x)
    # Side by side, a row holds its heads one after another: the split is free.
    side_by_side = parts.node("Concat", ends, "heads", axis=-1)
    shape = parts.constant("by_head", [-1, config.num_heads, _columns(parts, config)])
    logits = parts.node("Reshape", [side_by_side, shape], "rows_by_head")
    if not config.own_rows:
        logits = parts.head(HEAD, logits)
    table = f"0.{HEAD}" if config.own_rows else HEAD
    parts.output(logits, "logits", ["num_rows", config.num_heads, parts.rows_of(table)])
    return parts.model("medusa")


def _columns(parts: GraphParts, config: MedusaConfig) -> int:
    return parts.rows_of(f"0.{HEAD}") if config.own_rows else config.hidden_size


def eagle_graph(
    config: EagleConfig, weights: WeightFormat, tensors: Mapping[str, StoredTensor]
) -> ir.Model:
    """One decoder layer on state j and token j + 1 (Li et al. 2024, 2025)."""
    parts = GraphParts(weights, tensors)
    size, epsilon = config.hidden_size, config.norm_epsilon
    parts.input("input_ids", ir.DataType.INT64, [1, "num_tokens"])
    features = parts.input("features", ir.DataType.FLOAT, [1, "num_tokens", size])
    parts.declare_pass(1, config.attention, tree=True)
    embedding = parts.embedding()
    if config.third:
        normed = [
            parts.norm("input_norm", embedding, epsilon),
            parts.norm("hidden_norm", features, epsilon),
        ]
        start = features
        attended_on = parts.node("Concat", normed, "inputs", axis=-1)
    else:
        joined = parts.node("Concat", [embedding, features], "inputs", axis=-1)
        # This layer has no norm of its own before the attention.
        start = attended_on = parts.linear("fc", joined)
    qkv = parts.linear("blk.0.attn_qkv", attended_on)
    attended = parts.attention(0, qkv, config.attention, tree=True)
    delta = parts.linear("blk.0.attn_output", attended)
    normed_sum, middle = parts.add_norm("blk.0.ffn_norm", start, delta, epsilon)
    delta = parts.gated_mlp("blk.0", normed_sum)
    if config.third:
        read, hidden = parts.add_norm("output_norm", middle, delta, epsilon)
    else:
        read = hidden = parts.node("Add", [middle, delta], "state")
    logits = parts.head(HEAD, parts.wanted_rows(read))
    parts.output(logits, "logits", [1, "num_rows", parts.rows_of(HEAD)])
    parts.output(hidden, "hidden", [1, "num_tokens", size])
    return parts.model("eagle")


def fuse_graph(
    config: EagleConfig, weights: WeightFormat, tensors: Mapping[str, StoredTensor]
) -> ir.Model:
    """The target's features, side by side, to one state."""
    parts = GraphParts(weights, tensors)
    size = config.hidden_size
    width = config.num_features * size
    features = parts.input("features", ir.DataType.FLOAT, [1, "num_tokens", width])
    parts.output(parts.linear("fc", features), "fused", [1, "num_tokens", size])
    return parts.model("fuse")
