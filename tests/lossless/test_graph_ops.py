"""What a target's graph may be made of, where that decides whether speculation can be exact."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from lsp_server.engine.sampling import process
from lsp_server.engine.types import DecodeParams
from tests.tiny_model import build_tiny_model

_PER_TENSOR = {"DynamicQuantizeLinear", "DynamicQuantizeMatMul", "MatMulInteger"}
"""One scale for all rows of a pass: a rejected token would change the rows before it."""


@pytest.mark.parametrize("weights", ["int8", "int4", "fp32"])
def test_no_graph_scales_the_rows_of_a_pass_together(tmp_path, weights):
    folder = tmp_path / "model"
    build_tiny_model(folder, weights=weights)
    graphs = sorted(folder.glob("*.onnx"))
    assert graphs
    for path in graphs:
        model = onnx.load(path, load_external_data=False)
        assert not {node.op_type for node in model.graph.node} & _PER_TENSOR


def test_probabilities_are_computed_in_double_precision_over_a_large_vocabulary():
    logits = np.random.default_rng(0).standard_normal(152_064).astype(np.float32) * 4
    probs = process(logits, DecodeParams(temperature=0.8), [])
    assert probs.dtype == np.float64
    assert probs.shape == logits.shape
    assert abs(probs.sum() - 1) < 1e-12
