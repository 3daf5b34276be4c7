"""The ONNX graphs of a Llama-shaped decoder over tensors that lie in `weights.data`.

`chain` is for text that continues in one line; `tree` takes positions and an attention bias too, so
that several continuations are verified in one pass; `exit` drafts with the first layers only. All
keep past and present keys and values in one shared buffer (`GroupQueryAttention`): a smaller length
is a rollback.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from export.config import Form, ModelConfig, WeightFormat
from export.graph_parts import GraphParts
from export.weights import StoredTensor

REDUCED_HEAD = "draft_head"
"""Name of the table with the head's rows for the draft vocabulary only."""


def build_graph(
    config: ModelConfig,
    weights: WeightFormat,
    form: Form,
    tensors: Mapping[str, StoredTensor],
    *,
    reduced: bool = False,
) -> ir.Model:
    """The graph of one form; the README of this folder is the contract of inputs and outputs.

    With `reduced` the logits have one column for each row of the stored `draft_head`.
    """
    parts = GraphParts(weights, tensors)
    tree = form == "tree"
    num_layers = config.exit_layers if form == "exit" else config.num_layers
    parts.input("input_ids", ir.DataType.INT64, [1, "num_tokens"])
    parts.declare_pass(num_layers, config.attention, tree=tree)
    hidden, delta, streams = parts.embedding(), None, {}
    for layer in range(num_layers):
        hidden, delta, streams[layer] = _layer(parts, config, layer, hidden, delta, tree=tree)
    assert delta is not None  # every checkpoint has a layer
    normed, streams[num_layers] = parts.add_norm("output_norm", hidden, delta, config.norm_epsilon)
    table = REDUCED_HEAD if reduced else "token_embd" if config.tied_head else "output"
    logits = parts.head(table, parts.wanted_rows(normed))
    parts.output(logits, "logits", [1, "num_rows", parts.rows_of(table)])
    if form != "exit":
        width = config.hidden_size
        parts.output(normed, "hidden_states", [1, "num_tokens", width])
        chosen = [streams[count] for count in feature_layers(config.num_layers)]
        features = parts.node("Concat", chosen, "features", axis=-1)
        parts.output(features, "features", [1, "num_tokens", len(chosen) * width])
    return parts.model(form)


def feature_layers(num_layers: int) -> tuple[int, int, int]:
    """After how many layers EAGLE-3 reads the residual stream: low, middle, high.

    2, half and all but 3 (Li et al. 2025, their repository); in models of fewer than 5 layers as
    near to that as there are layers, never falling.
    """
    low = min(2, num_layers)
    middle = max(low, num_layers // 2)
    return low, middle, max(middle, num_layers - 3)


def _layer(
    parts: GraphParts,
    config: ModelConfig,
    layer: int,
    hidden: ir.Value,
    delta: ir.Value | None,
    *,
    tree: bool,
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """One block on `hidden` + `delta`: the two to add up next, and the sum that it started from.

    The last sum is left to the next norm, which does both in one node.
    """
    prefix, epsilon = f"blk.{layer}", config.norm_epsilon
    if delta is None:
        normed, start = parts.norm(f"{prefix}.attn_norm", hidden, epsilon), hidden
    else:
        normed, start = parts.add_norm(f"{prefix}.attn_norm", hidden, delta, epsilon)
    qkv = parts.linear(f"{prefix}.attn_qkv", normed)
    attended = parts.attention(layer, qkv, config.attention, tree=tree)
    delta = parts.linear(f"{prefix}.attn_output", attended)
    normed, hidden = parts.add_norm(f"{prefix}.ffn_norm", start, delta, epsilon)
    return hidden, parts.gated_mlp(prefix, normed), start


def rotary_tables(
    head_size: int, context_length: int, rope_base: float
) -> tuple[np.ndarray, np.ndarray]:
    """Cosine and sine float32 [context, head_size / 2], computed in double precision."""
    exponents = np.arange(0, head_size, 2, dtype=np.float64) / head_size
    positions = np.arange(context_length, dtype=np.float64)
    angles = positions[:, None] * rope_base**-exponents
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
