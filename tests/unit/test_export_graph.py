"""The graphs against a Llama written in numpy, and the rules that speculation relies on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from export.build import build
from tests.graph_runner import IDS, Runner
from tests.numpy_llama import NumpyLlama
from tests.tiny_model import write_tiny_gguf


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
    expected = NumpyLlama(folder.parent / f"tied-{tied}.gguf").logits(IDS)
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
