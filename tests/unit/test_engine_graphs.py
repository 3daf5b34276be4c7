"""What a graph and its session must be: any width, logits of every row, nothing captured."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import onnx
import pytest

from lsp_server.engine import providers
from lsp_server.engine.drafter_manifest import DRAFTER_MANIFEST_NAME
from lsp_server.engine.manifest import MANIFEST_NAME
from lsp_server.engine.onnx_heads import EagleHead
from lsp_server.engine.onnx_model import OnnxModel
from lsp_server.errors import ModelFilesError
from tests.tiny_model import build_tiny_drafters, build_tiny_model


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("graphs")
    build_tiny_model(root / "target")
    return {"target": root / "target", **build_tiny_drafters(root / "drafters", root / "target")}


def changed(
    folder: Path, into: Path, form: str, change: Callable[[onnx.GraphProto], None], manifest: str
) -> Path:
    """A copy whose graph is another, of which the manifest knows the size."""
    shutil.copytree(folder, into)
    path = into / f"{form}.onnx"
    model = onnx.load(path, load_external_data=False)
    change(model.graph)
    onnx.save(model, path)
    raw = json.loads((into / manifest).read_text())
    raw["files"][path.name]["size"] = path.stat().st_size
    (into / manifest).write_text(json.dumps(raw))
    return into


def fix(name: str, dimension: int, size: int = 8) -> Callable[[onnx.GraphProto], None]:
    def change(graph: onnx.GraphProto) -> None:
        (found,) = (item for item in graph.input if item.name == name)
        found.type.tensor_type.shape.dim[dimension].dim_value = size

    return change


FIXED = [
    ("chain", "input_ids", 1),
    ("chain", "logit_rows", 0),
    ("chain", "past_key_values.0.key", 2),
    ("tree", "input_ids", 1),
    ("tree", "position_ids", 1),
    ("tree", "attention_bias", 2),
    ("tree", "attention_bias", 3),
    ("exit", "input_ids", 1),
]


@pytest.mark.parametrize(("form", "name", "dimension"), FIXED)
def test_a_graph_of_one_width_is_refused_and_the_fixed_dimension_named(
    built, tmp_path, form, name, dimension
):
    """Rows that pad it would be dirty: the cache would hold tokens that nobody wrote."""
    change = fix(name, dimension)
    folder = changed(built["target"], tmp_path / "copy", form, change, MANIFEST_NAME)
    message = rf"{form}\.onnx fixes dimension {dimension} of {name} to 8"
    with pytest.raises(ModelFilesError, match=message):
        OnnxModel(folder, threads=1).sessions.of(form)


@pytest.mark.parametrize("form", ["eagle", "fuse"])
def test_a_head_of_one_width_is_refused_and_the_fixed_dimension_named(built, tmp_path, form):
    target = OnnxModel(built["target"], threads=1, states=("features",))
    change = fix("features", 1)
    folder = changed(built["eagle3"], tmp_path / "copy", form, change, DRAFTER_MANIFEST_NAME)
    with pytest.raises(ModelFilesError, match=rf"{form}\.onnx fixes dimension 1 of features to 8"):
        EagleHead(folder, target)


def test_a_graph_with_logits_of_its_last_row_only_is_refused(built, tmp_path):
    def change(graph: onnx.GraphProto) -> None:
        rows = onnx.helper.make_tensor("logit_rows", onnx.TensorProto.INT64, [1], [0])
        graph.initializer.append(rows)
        inputs = [item for item in graph.input if item.name != "logit_rows"]
        del graph.input[:]
        graph.input.extend(inputs)

    folder = changed(built["target"], tmp_path / "copy", "chain", change, MANIFEST_NAME)
    with pytest.raises(ModelFilesError, match="last row only"):
        OnnxModel(folder)


def test_no_session_captures_graphs_whose_buffers_other_widths_would_share(built):
    """Asked of onnxruntime for what runs here, and of what is passed on for a GPU."""
    model = OnnxModel(built["target"], threads=1, states=("hidden_states",))
    eagle = EagleHead(built["eagle"], model)
    for session in (*(model.sessions.of(form) for form in model.manifest.forms), eagle.session):
        for options in session.get_provider_options().values():
            assert not [key for key, value in options.items() if "graph" in key and value != "0"]
    asked = []
    runtime = SimpleNamespace(
        SessionOptions=model.ort.SessionOptions,
        InferenceSession=lambda path, options, providers: asked.extend(providers),
    )
    for provider in providers.PROVIDERS.values():
        providers.create_session(runtime, Path("chain.onnx"), threads=1, provider=provider)
    assert asked == [
        ("CPUExecutionProvider", {}),
        ("CUDAExecutionProvider", {"enable_cuda_graph": "0"}),
    ]
