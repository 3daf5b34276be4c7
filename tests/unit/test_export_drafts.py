"""What drafts from the target's own weights: hidden states, early exit, pruned copies, vocabulary.

Compared with the Llama in numpy of `test_export_graph.py`, which shares no code with the builder.
"""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np
import onnx
import pytest
from tokenizers import Tokenizer

from export.build import build, build_draft, default_layers
from export.check import check, form_logits
from export.draft_vocabulary import draft_ids
from export.folder import hashed, silent
from export.graph import feature_layers
from export.parameters import num_parameters
from lsp_server.engine.manifest import DRAFT_IDS_NAME, MANIFEST_NAME, Manifest
from lsp_server.errors import InferenceError, ModelFilesError, SettingsError
from tests.graph_runner import IDS, Runner
from tests.numpy_llama import NumpyLlama
from tests.tiny_model import HIDDEN_SIZE, write_tiny_gguf

NUM_LAYERS = 6
"""Enough for the three feature layers (2, 3, 3) not to be the last ones."""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("drafts") / "m.gguf"
    write_tiny_gguf(path, layers=NUM_LAYERS)
    return path


@pytest.fixture(scope="module")
def exact(checkpoint) -> Path:
    folder = checkpoint.parent / "fp32"
    build(checkpoint, folder, name="t", weights="fp32", exit_layers=2, draft_vocabulary=100)
    return folder


@pytest.fixture(scope="module")
def llama(checkpoint) -> NumpyLlama:
    return NumpyLlama(checkpoint)


@pytest.mark.parametrize("form", ["chain", "tree"])
def test_hidden_states_are_what_the_head_reads(exact, llama, form):
    found = Runner(exact, form).outputs(IDS, ["hidden_states", "logits"])
    np.testing.assert_allclose(
        found["hidden_states"][0] @ llama.head.T, found["logits"][0], atol=1e-4
    )
    expected = llama.normed(llama.streams(IDS)[-1], "output_norm")
    np.testing.assert_allclose(found["hidden_states"][0], expected, atol=1e-3)


@pytest.mark.parametrize("form", ["chain", "tree"])
def test_features_are_the_residual_stream_after_the_named_layers(exact, llama, form):
    manifest = Manifest.load(exact)
    assert manifest.feature_layers == feature_layers(NUM_LAYERS) == (2, 3, 3)
    streams = llama.streams(IDS)
    expected = np.concatenate([streams[count] for count in manifest.feature_layers], axis=-1)
    features = Runner(exact, form).outputs(IDS, ["features"])["features"][0]
    np.testing.assert_allclose(features, expected, atol=1e-3)


@pytest.mark.parametrize(
    ("num_layers", "expected"), [(30, (2, 15, 27)), (4, (2, 2, 2)), (2, (2, 2, 2)), (1, (1, 1, 1))]
)
def test_feature_layers_exist_in_every_model(num_layers, expected):
    assert feature_layers(num_layers) == expected


def test_early_exit_is_the_model_cut_after_its_first_layers(exact, llama):
    ids = np.load(exact / DRAFT_IDS_NAME)
    expected = llama.normed(llama.streams(IDS)[2], "output_norm") @ llama.head.T
    found = Runner(exact, "exit", num_layers=2)(IDS, 0)
    np.testing.assert_allclose(found, expected[:, ids], atol=1e-3)


def test_early_exit_writes_the_rows_that_the_whole_model_writes(exact):
    """So a slot's buffers may be bound: what verification does not reach stays as it was."""
    presents = [f"present.{layer}.{kind}" for layer in range(2) for kind in ("key", "value")]
    chain = Runner(exact, "chain").outputs(IDS, presents)
    early = Runner(exact, "exit", num_layers=2).outputs(IDS, presents)
    for name in presents:
        np.testing.assert_array_equal(early[name], chain[name])


def test_early_exit_takes_part_of_the_inputs_of_chain(exact):
    inputs = {}
    for form in ("chain", "exit"):
        graph = onnx.load(exact / f"{form}.onnx", load_external_data=False).graph
        inputs[form] = {value.name for value in graph.input}
    missing = inputs["chain"] - inputs["exit"]
    assert inputs["exit"] < inputs["chain"]
    assert missing == {
        f"past_key_values.{layer}.{kind}" for layer in range(2, 6) for kind in ("key", "value")
    }


def test_early_exit_is_after_a_fifth_of_the_layers_unless_asked(checkpoint, tmp_path):
    assert build(checkpoint, tmp_path / "default", name="t").exit_layers == 1
    none = build(checkpoint, tmp_path / "none", name="t", exit_layers=0, draft_vocabulary=100)
    assert (none.exit_layers, set(none.forms), none.draft_vocab_size) == (0, {"chain", "tree"}, 0)
    assert not (tmp_path / "none" / DRAFT_IDS_NAME).exists()
    with pytest.raises(SettingsError, match="1 to 6 layers"):
        build(checkpoint, tmp_path / "deep", name="t", exit_layers=7)


def test_a_whole_draft_vocabulary_needs_no_map(checkpoint, tmp_path):
    """The default of 4,096 ids is more than this checkpoint has."""
    manifest = build(checkpoint, tmp_path / "m", name="t", weights="fp32")
    assert (manifest.reduced_forms, manifest.draft_vocab_size) == ((), 0)
    logits = Runner(tmp_path / "m", "exit", num_layers=1)(IDS, 0)
    assert logits.shape == (len(IDS), manifest.vocab_size)


def test_a_draft_model_is_the_kept_layers_in_order(checkpoint, llama, tmp_path):
    manifest = build_draft(
        checkpoint, tmp_path / "d", name="d", layers=[0, 2, 5], weights="fp32", draft_vocabulary=100
    )
    assert manifest == Manifest.load(tmp_path / "d")
    assert (manifest.trained, manifest.num_layers, manifest.exit_layers) == (False, 3, 0)
    assert manifest.source["layers"] == "0,2,5"
    ids = np.load(tmp_path / "d" / DRAFT_IDS_NAME)
    stream = llama.streams(IDS, layers=[0, 2, 5])[-1]
    expected = (llama.normed(stream, "output_norm") @ llama.head.T)[:, ids]
    for form in ("chain", "tree"):
        found = form_logits(tmp_path / "d" / f"{form}.onnx", manifest, IDS)
        np.testing.assert_allclose(found, expected, atol=1e-3)
    check(tmp_path / "d")


def test_a_draft_model_has_the_tokenizer_of_its_target(checkpoint, exact, tmp_path):
    manifest = build_draft(checkpoint, tmp_path / "d", name="d")
    target = Manifest.load(exact)
    assert target.trained
    assert manifest.tokenizer_sha256 == target.tokenizer_sha256
    assert manifest.vocab_size == target.vocab_size
    assert manifest.source["sha256"] == target.source["sha256"]


@pytest.mark.parametrize(
    ("num_layers", "kept"), [(30, (0, 1, 2, 3, 28, 29)), (6, tuple(range(6))), (1, (0,))]
)
def test_the_first_four_and_the_last_two_layers_are_kept(num_layers, kept):
    assert default_layers(num_layers) == kept


@pytest.mark.parametrize("layers", [[], [0, 6], [-1], [3, 2], [1, 1]])
def test_layers_that_do_not_exist_or_are_out_of_order_are_refused(checkpoint, tmp_path, layers):
    with pytest.raises(SettingsError, match="0-5 in ascending order"):
        build_draft(checkpoint, tmp_path / "d", name="d", layers=layers)


def test_the_draft_vocabulary_is_what_code_is_made_of(exact):
    tokenizer = Tokenizer.from_file(str(exact / "tokenizer.json"))
    ids = draft_ids(tokenizer, 280, (0, 2), 320)
    assert ids is not None
    assert ids.dtype == np.int64
    assert (len(ids), list(ids)) == (280, sorted(set(ids.tolist())))
    assert {0, 2} <= set(ids.tolist())
    code = "def total(values):\n    result = 0\n    return result\n"
    assert set(tokenizer.encode(code).ids) <= set(ids.tolist())


@pytest.mark.parametrize("size", [-1, 1, 2])
def test_a_draft_vocabulary_without_room_is_refused(exact, size):
    tokenizer = Tokenizer.from_file(str(exact / "tokenizer.json"))
    with pytest.raises(SettingsError, match="at least 3, or 0"):
        draft_ids(tokenizer, size, (0, 2), 320)


@pytest.mark.parametrize("change", ["descending", "beyond", "short"])
def test_check_finds_an_id_map_that_does_not_fit(checkpoint, tmp_path, change):
    folder = tmp_path / "m"
    build(checkpoint, folder, name="t", draft_vocabulary=100)
    ids = np.load(folder / DRAFT_IDS_NAME)
    ids = {"descending": ids[::-1], "beyond": ids + 300, "short": ids[:-1]}[change]
    np.save(folder / DRAFT_IDS_NAME, np.ascontiguousarray(ids))
    _sign(folder)
    with pytest.raises(ModelFilesError, match="not 100 ascending ids below 320"):
        check(folder)


def test_check_finds_an_early_exit_over_other_weights(checkpoint, tmp_path):
    folder = tmp_path / "m"
    build(checkpoint, folder, name="t", exit_layers=2)
    model = onnx.load(folder / "exit.onnx", load_external_data=False)
    codes = {tensor.name: tensor for tensor in model.graph.initializer}
    first, second = (codes[f"blk.{layer}.attn_qkv.codes"] for layer in (0, 1))
    swapped = [list(tensor.external_data) for tensor in (second, first)]
    for tensor, places in zip((first, second), swapped, strict=True):
        del tensor.external_data[:]
        tensor.external_data.extend(places)
    onnx.save(model, folder / "exit.onnx")
    _sign(folder)
    with pytest.raises(InferenceError, match="chain and exit graphs"):
        check(folder)


def test_a_manifest_of_the_first_builder_still_reads(exact, tmp_path):
    raw = json.loads((exact / MANIFEST_NAME).read_text())
    for name in (
        "hidden_outputs",
        "feature_layers",
        "exit_layers",
        "reduced_forms",
        "draft_vocab_size",
        "tree_rows_exact",
        "trained",
    ):
        del raw[name]
    (tmp_path / MANIFEST_NAME).write_text(json.dumps(raw))
    manifest = Manifest.load(tmp_path)
    assert (manifest.hidden_outputs, manifest.exit_layers, manifest.trained) == (False, 0, True)


def test_states_have_the_width_that_the_manifest_says(exact):
    found = Runner(exact, "chain").outputs(IDS, ["hidden_states", "features"])
    assert found["hidden_states"].shape == (1, len(IDS), HIDDEN_SIZE)
    assert found["features"].shape == (1, len(IDS), 3 * HIDDEN_SIZE)


def _sign(folder: Path) -> None:
    """Bring the manifest's hashes up to the files, so that only `check`'s own look remains."""
    raw = json.loads((folder / MANIFEST_NAME).read_text())
    (folder / MANIFEST_NAME).unlink()
    files, _ = hashed(folder, [], silent)
    raw["files"] = {name: {"sha256": e.sha256, "size": e.size} for name, e in files.items()}
    (folder / MANIFEST_NAME).write_text(json.dumps(raw))


@pytest.mark.parametrize("weights", ["fp32", "int8", "int4"])
@pytest.mark.parametrize("tied", [False, True])
def test_the_parameters_of_a_graph_are_those_of_its_checkpoint_in_any_format(
    tmp_path, weights, tied
):
    """Those of a draft are those of the layers that were kept, and of its own head's rows."""
    path = tmp_path / "m.gguf"
    write_tiny_gguf(path, layers=NUM_LAYERS, tied=tied)
    tensors = gguf.GGUFReader(path).tensors
    build(path, tmp_path / "whole", name="m", weights=weights)
    assert num_parameters(tmp_path / "whole" / "chain.onnx") == sum(t.n_elements for t in tensors)
    size = {"draft_vocabulary": 64, "weights": weights}
    build_draft(path, tmp_path / "draft", name="d", layers=(0, 5), **size)
    kept = [t for t in tensors if t.name.split(".")[1] in ("0", "5", "weight")]
    expected = sum(int(t.n_elements) for t in kept if t.name != "output.weight")
    assert num_parameters(tmp_path / "draft" / "chain.onnx") == expected + 64 * HIDDEN_SIZE
