"""What every graph is made of: inputs, stored weights, quantised products, norms, one attention.

Knows the operators and the formats of the weights, and no model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from export.config import AttentionShape, WeightFormat
from export.quantize import BITS, BLOCK_SIZE
from export.weights import WEIGHTS_NAME, StoredTensor

IR_VERSION = 10
OPSET = 21
MICROSOFT = "com.microsoft"


class GraphParts:
    """Collects the nodes of one graph in order; `model` closes it."""

    def __init__(self, weights: WeightFormat, tensors: Mapping[str, StoredTensor]) -> None:
        self._weights = weights
        self._tensors = tensors
        self._nodes: list[ir.Node] = []
        self.inputs: dict[str, ir.Value] = {}
        self._outputs: list[ir.Value] = []
        self._presents: list[ir.Value] = []
        self._initializers: dict[str, ir.Value] = {}

    def model(self, name: str) -> ir.Model:
        graph = ir.Graph(
            list(self.inputs.values()),
            [*self._outputs, *self._presents],
            nodes=self._nodes,
            initializers=list(self._initializers.values()),
            opset_imports={"": OPSET, MICROSOFT: 1},
            name=name,
        )
        return ir.Model(graph, ir_version=IR_VERSION, producer_name="tabahead")

    def input(self, name: str, dtype: ir.DataType, shape: Sequence[int | str]) -> ir.Value:
        value = ir.Value(name=name)
        describe(value, dtype, shape)
        self.inputs[name] = value
        return value

    def output(self, value: ir.Value, name: str, shape: Sequence[int | str]) -> None:
        value.name = name
        describe(value, ir.DataType.FLOAT, shape)
        self._outputs.append(value)

    def declare_pass(self, layers: int, shape: AttentionShape, *, tree: bool) -> None:
        """The inputs of a pass over a cache of `layers` layers, but for what is embedded."""
        self.input("seqlens_k", ir.DataType.INT32, [1])
        self.input("total_sequence_length", ir.DataType.INT32, [])
        self.input("logit_rows", ir.DataType.INT64, ["num_rows"])
        if tree:
            self.input("position_ids", ir.DataType.INT64, [1, "num_tokens"])
            self.input("attention_bias", ir.DataType.FLOAT, [1, 1, "num_tokens", "total"])
        for layer in range(layers):
            for kind in ("key", "value"):
                name = f"past_key_values.{layer}.{kind}"
                self.input(name, ir.DataType.FLOAT, _cache_shape(shape))

    def embedding(self) -> ir.Value:
        """Rows of the table `token_embd` for `input_ids`."""
        ids = self.inputs["input_ids"]
        if self._weights == "fp32":
            return self.node("Gather", [self.stored("token_embd"), ids], "embedding")
        return self.node(
            "GatherBlockQuantized",
            [self.stored("token_embd.rows"), ids, self.stored("token_embd.scales")],
            "embedding",
            domain=MICROSOFT,
            bits=BITS[self._weights],
            block_size=BLOCK_SIZE,
            gather_axis=0,
            quantize_axis=1,
        )

    def norm(self, name: str, hidden: ir.Value, epsilon: float) -> ir.Value:
        """RMSNorm of `hidden`."""
        return self.node(
            "SimplifiedLayerNormalization",
            [hidden, self.stored(name)],
            f"{name}.out",
            axis=-1,
            epsilon=epsilon,
            stash_type=1,
        )

    def add_norm(
        self, name: str, hidden: ir.Value, delta: ir.Value, epsilon: float
    ) -> tuple[ir.Value, ir.Value]:
        """RMSNorm of `hidden` + `delta`, and the sum itself."""
        outputs = [ir.Value(name=f"{name}.out"), *_unused(2), ir.Value(name=f"{name}.sum")]
        inputs = [hidden, delta, self.stored(name)]
        kind = "SkipSimplifiedLayerNormalization"
        self._append(kind, inputs, outputs, MICROSOFT, {"epsilon": epsilon})
        return outputs[0], outputs[3]

    def attention(
        self, layer: int, qkv: ir.Value, shape: AttentionShape, *, tree: bool
    ) -> ir.Value:
        """Grouped-query attention over packed `qkv`; its present keys and values are outputs."""
        attended = ir.Value(name=f"blk.{layer}.attended")
        presents = [ir.Value(name=f"present.{layer}.{kind}") for kind in ("key", "value")]
        inputs = [
            qkv,
            None,
            None,
            self.inputs[f"past_key_values.{layer}.key"],
            self.inputs[f"past_key_values.{layer}.value"],
            self.inputs["seqlens_k"],
            self.inputs["total_sequence_length"],
            self.stored("rope_cos"),
            self.stored("rope_sin"),
        ]
        if tree:
            inputs += [self.inputs["position_ids"], self.inputs["attention_bias"]]
        attributes = {
            "num_heads": shape.num_heads,
            "kv_num_heads": shape.num_kv_heads,
            "do_rotary": 1,
            "rotary_interleaved": 0,
            "scale": shape.head_size**-0.5,
        }
        outputs = [attended, *presents]
        self._append("GroupQueryAttention", inputs, outputs, MICROSOFT, attributes)
        for present in presents:
            describe(present, ir.DataType.FLOAT, _cache_shape(shape))
        self._presents += presents
        return attended

    def gated_mlp(self, prefix: str, normed: ir.Value) -> ir.Value:
        """down(SiLU(gate(x)) * up(x))."""
        gate = self.silu(f"{prefix}.silu", self.linear(f"{prefix}.ffn_gate", normed))
        up = self.linear(f"{prefix}.ffn_up", normed)
        product = self.node("Mul", [gate, up], f"{prefix}.gated")
        return self.linear(f"{prefix}.ffn_down", product)

    def silu(self, name: str, inputs: ir.Value) -> ir.Value:
        # x * sigmoid(alpha * x) with alpha 1 is SiLU, in one node instead of two.
        return self.node("QuickGelu", [inputs], name, domain=MICROSOFT, alpha=1.0)

    def linear(self, name: str, inputs: ir.Value) -> ir.Value:
        """The product with a stored matrix, plus the stored `{name}.bias` if there is one."""
        if self._weights == "fp32":
            product = self.node("MatMul", [inputs, self.stored(name)], f"{name}.out")
        else:
            product = self._quantised(name, inputs)
        if f"{name}.bias" not in self._tensors:
            return product
        return self.node("Add", [product, self.stored(f"{name}.bias")], f"{name}.biased")

    def head(self, name: str, rows: ir.Value) -> ir.Value:
        """The product with a stored table, one column of logits for each of its rows."""
        if self._weights != "fp32":
            return self._quantised(name, rows)
        # Tables are [tokens, hidden] for the embedding's sake; transposing here keeps one copy.
        return self.node(
            "FusedMatMul", [rows, self.stored(name)], f"{name}.out", domain=MICROSOFT, transB=1
        )

    def rows_of(self, name: str) -> int:
        """Rows of a stored table."""
        return self._tensors[name if self._weights == "fp32" else f"{name}.scales"].shape[0]

    def wanted_rows(self, hidden: ir.Value) -> ir.Value:
        return self.node("Gather", [hidden, self.inputs["logit_rows"]], "rows", axis=1)

    def stored(self, name: str) -> ir.Value:
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
            describe(value, dtype, stored.shape)
            self._initializers[name] = value
        return self._initializers[name]

    def constant(self, name: str, values: Sequence[int]) -> ir.Value:
        """A small int64 vector inside the graph file."""
        tensor = ir.tensor(list(values), dtype=ir.DataType.INT64, name=name)
        value = ir.Value(name=name, const_value=tensor)
        describe(value, ir.DataType.INT64, [len(values)])
        self._initializers[name] = value
        return value

    def node(
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

    def _quantised(self, name: str, inputs: ir.Value) -> ir.Value:
        codes = self.stored(f"{name}.codes")
        scales = self.stored(f"{name}.scales")
        num_out, num_blocks = self._tensors[f"{name}.scales"].shape
        return self.node(
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


def describe(value: ir.Value, dtype: ir.DataType, shape: Sequence[int | str]) -> None:
    value.type = ir.TensorType(dtype)
    value.shape = ir.Shape(shape)


def _cache_shape(shape: AttentionShape) -> list[int | str]:
    return [1, shape.num_kv_heads, "capacity", shape.head_size]


def _unused(count: int) -> list[ir.Value]:
    """Optional outputs that nobody reads have an empty name."""
    return [ir.Value(name="") for _ in range(count)]
