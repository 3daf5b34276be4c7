"""The ONNX graphs of a Llama-shaped decoder over tensors that lie in `weights.data`.

`chain` is for text that continues in one line; `tree` takes positions and an attention bias too, so
that several continuations are verified in one pass. Both keep past and present keys and values in
one shared buffer (`GroupQueryAttention`): a smaller length is a rollback.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from export.config import Form, ModelConfig, WeightFormat
from export.quantize import BLOCK_SIZE
from export.weights import StoredTensor

IR_VERSION = 10
OPSET = 21
MICROSOFT = "com.microsoft"
WEIGHTS_NAME = "weights.data"
BITS: Mapping[str, int] = {"int8": 8, "int4": 4}


def build_graph(
    config: ModelConfig, weights: WeightFormat, form: Form, tensors: Mapping[str, StoredTensor]
) -> ir.Model:
    """The graph of one form; the README of this folder is the contract of inputs and outputs."""
    return _GraphBuilder(config, weights, form, tensors).build()


class _GraphBuilder:
    def __init__(
        self,
        config: ModelConfig,
        weights: WeightFormat,
        form: Form,
        tensors: Mapping[str, StoredTensor],
    ) -> None:
        self._config = config
        self._weights = weights
        self._form = form
        self._tensors = tensors
        self._nodes: list[ir.Node] = []
        self._inputs: dict[str, ir.Value] = {}
        self._outputs: list[ir.Value] = []
        self._initializers: dict[str, ir.Value] = {}

    def build(self) -> ir.Model:
        config = self._config
        self._declare_inputs()
        hidden = self._embedding()
        delta: ir.Value | None = None
        for layer in range(config.num_layers):
            hidden, delta = self._layer(layer, hidden, delta)
        normed, _ = self._norm("output_norm", hidden, delta)
        rows = self._node("Gather", [normed, self._inputs["logit_rows"]], "rows", axis=1)
        logits = self._head(rows)
        logits.name = "logits"
        self._describe(logits, ir.DataType.FLOAT, [1, "num_rows", config.vocab_size])
        graph = ir.Graph(
            list(self._inputs.values()),
            [logits, *self._outputs],
            nodes=self._nodes,
            initializers=list(self._initializers.values()),
            opset_imports={"": OPSET, MICROSOFT: 1},
            name=self._form,
        )
        return ir.Model(graph, ir_version=IR_VERSION, producer_name="tabahead")

    def _declare_inputs(self) -> None:
        config = self._config
        self._input("input_ids", ir.DataType.INT64, [1, "num_tokens"])
        self._input("seqlens_k", ir.DataType.INT32, [1])
        self._input("total_sequence_length", ir.DataType.INT32, [])
        self._input("logit_rows", ir.DataType.INT64, ["num_rows"])
        if self._form == "tree":
            self._input("position_ids", ir.DataType.INT64, [1, "num_tokens"])
            self._input("attention_bias", ir.DataType.FLOAT, [1, 1, "num_tokens", "total"])
        for layer in range(config.num_layers):
            for kind in ("key", "value"):
                name = f"past_key_values.{layer}.{kind}"
                self._input(name, ir.DataType.FLOAT, self._cache_shape())

    def _cache_shape(self) -> list[int | str]:
        return [1, self._config.num_kv_heads, "capacity", self._config.head_size]

    def _embedding(self) -> ir.Value:
        ids = self._inputs["input_ids"]
        if self._weights == "fp32":
            return self._node("Gather", [self._stored("token_embd"), ids], "embedding")
        return self._node(
            "GatherBlockQuantized",
            [self._stored("token_embd.rows"), ids, self._stored("token_embd.scales")],
            "embedding",
            domain=MICROSOFT,
            bits=BITS[self._weights],
            block_size=BLOCK_SIZE,
            gather_axis=0,
            quantize_axis=1,
        )

    def _layer(
        self, layer: int, hidden: ir.Value, delta: ir.Value | None
    ) -> tuple[ir.Value, ir.Value]:
        """One block on `hidden` + `delta`; its last sum is left to the next norm."""
        prefix = f"blk.{layer}"
        normed, hidden = self._norm(f"{prefix}.attn_norm", hidden, delta)
        attended = self._attention(layer, self._linear(f"{prefix}.attn_qkv", normed))
        delta = self._linear(f"{prefix}.attn_output", attended)
        normed, hidden = self._norm(f"{prefix}.ffn_norm", hidden, delta)
        gate = self._linear(f"{prefix}.ffn_gate", normed)
        up = self._linear(f"{prefix}.ffn_up", normed)
        # x * sigmoid(alpha * x) with alpha 1 is SiLU, in one node instead of two.
        gate = self._node("QuickGelu", [gate], f"{prefix}.silu", domain=MICROSOFT, alpha=1.0)
        product = self._node("Mul", [gate, up], f"{prefix}.gated")
        return hidden, self._linear(f"{prefix}.ffn_down", product)

    def _norm(
        self, name: str, hidden: ir.Value, delta: ir.Value | None
    ) -> tuple[ir.Value, ir.Value]:
        """RMSNorm of `hidden` + `delta`, and the sum itself."""
        epsilon = self._config.norm_epsilon
        if delta is None:
            normed = self._node(
                "SimplifiedLayerNormalization",
                [hidden, self._stored(name)],
                f"{name}.out",
                axis=-1,
                epsilon=epsilon,
                stash_type=1,
            )
            return normed, hidden
        outputs = [ir.Value(name=f"{name}.out"), *_unused(2), ir.Value(name=f"{name}.sum")]
        self._append(
            "SkipSimplifiedLayerNormalization",
            [hidden, delta, self._stored(name)],
            outputs,
            MICROSOFT,
            {"epsilon": epsilon},
        )
        return outputs[0], outputs[3]

    def _attention(self, layer: int, qkv: ir.Value) -> ir.Value:
        config = self._config
        outputs = [ir.Value(name=f"blk.{layer}.attended")]
        for kind in ("key", "value"):
            present = ir.Value(name=f"present.{layer}.{kind}")
            self._describe(present, ir.DataType.FLOAT, self._cache_shape())
            outputs.append(present)
        self._outputs += outputs[1:]
        inputs = [
            qkv,
            None,
            None,
            self._inputs[f"past_key_values.{layer}.key"],
            self._inputs[f"past_key_values.{layer}.value"],
            self._inputs["seqlens_k"],
            self._inputs["total_sequence_length"],
            self._stored("rope_cos"),
            self._stored("rope_sin"),
        ]
        if self._form == "tree":
            inputs += [self._inputs["position_ids"], self._inputs["attention_bias"]]
        attributes = {
            "num_heads": config.num_heads,
            "kv_num_heads": config.num_kv_heads,
            "do_rotary": 1,
            "rotary_interleaved": 0,
            "scale": config.head_size**-0.5,
        }
        self._append("GroupQueryAttention", inputs, outputs, MICROSOFT, attributes)
        return outputs[0]

    def _linear(self, name: str, inputs: ir.Value) -> ir.Value:
        if self._weights == "fp32":
            return self._node("MatMul", [inputs, self._stored(name)], f"{name}.out")
        codes = self._stored(f"{name}.codes")
        scales = self._stored(f"{name}.scales")
        num_out, num_blocks = self._tensors[f"{name}.scales"].shape
        return self._node(
            "MatMulNBits",
            [inputs, codes, scales],
            f"{name}.out",
            domain=MICROSOFT,
            K=num_blocks * BLOCK_SIZE,
            N=num_out,
            bits=BITS[self._weights],
            block_size=BLOCK_SIZE,
            # int8 activations: on CPUs 8-bit weights are a hundred times slower without.
            accuracy_level=4,
        )

    def _head(self, rows: ir.Value) -> ir.Value:
        name = "token_embd" if self._config.tied_head else "output"
        if self._weights != "fp32":
            return self._linear(name, rows)
        # The table is [vocab, hidden] for the embedding's sake; transposing it here keeps one copy.
        return self._node(
            "FusedMatMul", [rows, self._stored(name)], "head", domain=MICROSOFT, transB=1
        )

    def _input(self, name: str, dtype: ir.DataType, shape: Sequence[int | str]) -> None:
        value = ir.Value(name=name)
        self._describe(value, dtype, shape)
        self._inputs[name] = value

    def _stored(self, name: str) -> ir.Value:
        """The initializer for a tensor of `weights.data`, made at its first use."""
        if name not in self._initializers:
            stored = self._tensors[name]
            dtype = ir.DataType.from_numpy(stored.dtype)
            tensor = ir.ExternalTensor(
                WEIGHTS_NAME,
                stored.offset,
                stored.length,
                dtype,
                shape=ir.Shape(stored.shape),
                name=name,
            )
            value = ir.Value(name=name, const_value=tensor)
            self._describe(value, dtype, stored.shape)
            self._initializers[name] = value
        return self._initializers[name]

    def _node(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        output: str,
        *,
        domain: str = "",
        **attributes: int | float,
    ) -> ir.Value:
        value = ir.Value(name=output)
        self._append(op_type, inputs, [value], domain, attributes)
        return value

    def _append(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        outputs: Sequence[ir.Value],
        domain: str,
        attributes: Mapping[str, int | float],
    ) -> None:
        self._nodes.append(
            ir.node(
                op_type,
                inputs,
                attributes=dict(attributes),
                domain=domain,
                outputs=outputs,
                name=f"{outputs[0].name}/{op_type}",
            )
        )

    @staticmethod
    def _describe(value: ir.Value, dtype: ir.DataType, shape: Sequence[int | str]) -> None:
        value.type = ir.TensorType(dtype)
        value.shape = ir.Shape(shape)


def _unused(count: int) -> list[ir.Value]:
    """Optional outputs that nobody reads have an empty name."""
    return [ir.Value(name="") for _ in range(count)]


def rotary_tables(config: ModelConfig) -> tuple[np.ndarray, np.ndarray]:
    """Cosine and sine float32 [context, head_size / 2], computed in double precision."""
    exponents = np.arange(0, config.head_size, 2, dtype=np.float64) / config.head_size
    positions = np.arange(config.context_length, dtype=np.float64)
    angles = positions[:, None] * config.rope_base**-exponents
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
