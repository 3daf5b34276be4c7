"""The graphs against a Llama written in numpy, and the rules that speculation relies on.

The numpy model reads the checkpoint as llama.cpp lays it (neighbouring rotary rows), so it shares
neither layout nor code with the builder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from export.build import build
from lsp_server.engine.manifest import Manifest
from tests.conftest import missing
from tests.tiny_model import HEAD_SIZE, HIDDEN_SIZE, NUM_HEADS, NUM_KV_HEADS, write_tiny_gguf

IDS = [7, 19, 250, 3, 44, 44, 101, 270, 9, 31, 300, 12, 200, 5, 66, 90]
CAPACITY = 64
LAYER_MATRICES = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")


class Runner:
    """Feeds one graph; keys and values live in buffers that are input and output at once."""

    def __init__(self, folder: Path, form: str) -> None:
        try:
            import onnxruntime
        except ImportError:
            missing("onnxruntime is absent (extra `cpu`)")
        manifest = Manifest.load(folder)
        path = folder / manifest.forms[form]
        self._session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        self._binding = self._session.io_binding()
        shape = (1, manifest.num_kv_heads, CAPACITY, manifest.head_size)
        for layer in range(manifest.num_layers):
            for kind in ("key", "value"):
                zeros = np.zeros(shape, np.float32)
                buffer = onnxruntime.OrtValue.ortvalue_from_numpy(zeros)
                self._binding.bind_ortvalue_input(f"past_key_values.{layer}.{kind}", buffer)
                self._binding.bind_ortvalue_output(f"present.{layer}.{kind}", buffer)

    def __call__(
        self, ids: list[int], past: int, rows: list[int] | None = None, **more: Any
    ) -> np.ndarray:
        total = past + len(ids)
        feed = {
            "input_ids": np.array([ids], np.int64),
            "seqlens_k": np.array([total - 1], np.int32),
            "total_sequence_length": np.array(total, np.int32),
            "logit_rows": np.array(range(len(ids)) if rows is None else rows, np.int64),
            **more,
        }
        for name, value in feed.items():
            self._binding.bind_cpu_input(name, value)
        self._binding.bind_output("logits", "cpu")
        self._session.run_with_iobinding(self._binding)
        return self._binding.get_outputs()[-1].numpy()[0].copy()


def numpy_llama(path: Path, ids: list[int], num_layers: int = 2) -> np.ndarray:
    """Logits [len(ids), vocab] in double precision."""
    tensors = {t.name: t.data.astype(np.float64) for t in gguf.GGUFReader(path).tensors}
    positions = np.arange(len(ids))
    frequencies = 10000.0 ** -(np.arange(0, HEAD_SIZE, 2) / HEAD_SIZE)
    angles = positions[:, None, None] * frequencies

    def rotated(x: np.ndarray, num_heads: int) -> np.ndarray:
        pairs = x.reshape(len(ids), num_heads, HEAD_SIZE // 2, 2)
        even, odd = pairs[..., 0], pairs[..., 1]
        turned = [
            even * np.cos(angles) - odd * np.sin(angles),
            even * np.sin(angles) + odd * np.cos(angles),
        ]
        return np.stack(turned, axis=-1).reshape(len(ids), num_heads, HEAD_SIZE)

    def normed(x: np.ndarray, name: str) -> np.ndarray:
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * tensors[f"{name}.weight"]

    x = tensors["token_embd.weight"][ids]
    for layer in range(num_layers):
        weights = {name: tensors[f"blk.{layer}.{name}.weight"] for name in LAYER_MATRICES}
        h = normed(x, f"blk.{layer}.attn_norm")
        q = rotated(h @ weights["attn_q"].T, NUM_HEADS)
        k = rotated(h @ weights["attn_k"].T, NUM_KV_HEADS)
        v = (h @ weights["attn_v"].T).reshape(len(ids), NUM_KV_HEADS, HEAD_SIZE)
        k, v = (np.repeat(each, NUM_HEADS // NUM_KV_HEADS, axis=1) for each in (k, v))
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(HEAD_SIZE)
        scores[:, positions[:, None] < positions[None, :]] = -np.inf
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        attended = np.einsum("hqk,khd->qhd", shares, v).reshape(len(ids), HIDDEN_SIZE)
        x = x + attended @ weights["attn_output"].T
        h = normed(x, f"blk.{layer}.ffn_norm")
        gate = h @ weights["ffn_gate"].T
        gated = gate / (1 + np.exp(-gate)) * (h @ weights["ffn_up"].T)
        x = x + gated @ weights["ffn_down"].T
    head = tensors.get("output.weight", tensors["token_embd.weight"])
    return normed(x, "output_norm") @ head.T


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[tuple[str, bool], Path]:
    root = tmp_path_factory.mktemp("graphs")
    made = {}
    for tied in (False, True):
        source = root / f"tied-{tied}.gguf"
        write_tiny_gguf(source, tied=tied)
        for weights in ("fp32", "int8", "int4"):
            made[weights, tied] = root / f"{weights}-{tied}"
            build(source, made[weights, tied], name="tiny", weights=weights)
    return made


@pytest.mark.parametrize("tied", [False, True])
def test_fp32_equals_a_llama_written_in_numpy(folders, tied):
    folder = folders["fp32", tied]
    expected = numpy_llama(folder.parent / f"tied-{tied}.gguf", IDS)
    np.testing.assert_allclose(Runner(folder, "chain")(IDS, 0), expected, atol=1e-3)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("weights", "share"), [("int8", 0.05), ("int4", 0.6)])
def test_quantised_logits_stay_near_those_of_fp32(folders, weights, share, tied):
    """Random weights are the worst case; a wrong table, scale or zero point gives 1.4."""
    exact = Runner(folders["fp32", tied], "chain")(IDS, 0)
    logits = Runner(folders[weights, tied], "chain")(IDS, 0)
    assert np.linalg.norm(logits - exact) < share * np.linalg.norm(exact)


@pytest.mark.parametrize("weights", ["fp32", "int8", "int4"])
@pytest.mark.parametrize("width", [2, 3, 5, 8])
def test_rows_do_not_depend_on_how_a_text_is_cut_into_passes(folders, weights, width):
    """Bit for bit at every width but one, where the attention has another kernel."""
    whole = Runner(folders[weights, False], "chain")(IDS, 0)
    runner = Runner(folders[weights, False], "chain")
    for start in range(0, len(IDS) - width + 1, width):
        end = start + width
        np.testing.assert_array_equal(runner(IDS[start:end], start), whole[start:end])


@pytest.mark.parametrize("weights", ["fp32", "int8", "int4"])
def test_a_smaller_length_is_a_rollback(folders, weights):
    whole = Runner(folders[weights, False], "chain")(IDS, 0)
    runner = Runner(folders[weights, False], "chain")
    runner(IDS[:8], 0)
    runner([1, 2, 3, 4, 5], 8)
    np.testing.assert_array_equal(runner(IDS[8:12], 8), whole[8:12])


def test_only_the_wanted_rows_are_computed(folders):
    runner = Runner(folders["int8", False], "chain")
    whole = runner(IDS, 0)
    np.testing.assert_array_equal(runner(IDS, 0, rows=[15, 3]), whole[[15, 3]])


@pytest.mark.parametrize("weights", ["fp32", "int8", "int4"])
def test_each_node_of_a_tree_sees_only_its_ancestors(folders, weights):
    """Prefix of 8; nodes A, B (children of the root), C, D (of A), E (of C)."""
    prefix, nodes = IDS[:8], [11, 22, 33, 44, 55]
    parents = [-1, -1, 0, 0, 2]
    paths = []
    for node, parent in enumerate(parents):
        paths.append(([] if parent < 0 else paths[parent]) + [node])
    bias = np.full((1, 1, len(nodes), len(prefix) + len(nodes)), np.finfo(np.float32).min)
    bias[..., : len(prefix)] = 0
    for node, path in enumerate(paths):
        for ancestor in path:
            bias[0, 0, node, len(prefix) + ancestor] = 0
    runner = Runner(folders[weights, False], "tree")
    whole = np.zeros((1, 1, len(prefix), len(prefix)), np.float32)
    runner(prefix, 0, position_ids=np.arange(8)[None], attention_bias=whole)
    depths = np.array([[len(prefix) + len(path) - 1 for path in paths]])
    found = runner(nodes, len(prefix), position_ids=depths, attention_bias=bias.astype(np.float32))
    for node, path in enumerate(paths):
        text = prefix + [nodes[step] for step in path]
        expected = Runner(folders[weights, False], "chain")(text, 0)[-1]
        # The bias takes another kernel: 8-bit activations may round to the next step.
        np.testing.assert_allclose(found[node], expected, atol=1e-3 if weights == "fp32" else 0.35)
