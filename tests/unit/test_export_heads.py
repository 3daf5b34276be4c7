"""Trained heads: the graphs against Medusa and EAGLE written in numpy.

The numpy heads read the public checkpoints themselves, as Hugging Face lays them.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from export.build import build
from export.check import check
from export.draft_vocabulary import draft_ids
from export.heads import build_heads
from export.random_heads import write_random_heads
from export.target import TargetFolder
from lsp_server.engine.drafter_manifest import DrafterManifest
from lsp_server.engine.manifest import DRAFT_IDS_NAME, Manifest
from tests.head_runner import EagleRunner, checkpoint, rewrite, safetensors_numpy, session
from tests.numpy_llama import (
    NumpyLlama,
    causal_attention,
    gated,
    rms_normed,
    rotated_halves,
    silu,
)
from tests.tiny_model import (
    FEED_FORWARD,
    HIDDEN_SIZE,
    NUM_HEADS,
    NUM_KV_HEADS,
    build_tiny_drafters,
    build_tiny_model,
    write_tiny_gguf,
)

KINDS = ("medusa", "eagle", "eagle3")
VOCABULARY = 150
IDS = [7, 19, 250, 3, 44, 44, 101, 270]


@pytest.fixture(scope="module")
def target(tmp_path_factory) -> Path:
    safetensors_numpy()
    folder = tmp_path_factory.mktemp("heads") / "target"
    build_tiny_model(folder, layers=5, weights="fp32")
    return folder


@pytest.fixture(scope="module")
def llama(target) -> NumpyLlama:
    return NumpyLlama(target.parent / "target.gguf")


@pytest.fixture(scope="module")
def drafters(target) -> dict[str, Path]:
    return build_tiny_drafters(
        target.parent / "drafters", target, weights="fp32", draft_vocabulary=VOCABULARY
    )


@pytest.fixture(scope="module")
def states() -> np.ndarray:
    return np.random.default_rng(5).standard_normal((1, len(IDS), HIDDEN_SIZE), np.float32)


def numpy_eagle(
    tensors: dict[str, np.ndarray], embedding: np.ndarray, head: np.ndarray, features, ids
) -> tuple[np.ndarray, np.ndarray]:
    """EAGLE-1: logits and states of all rows (`cnets1.py` of its repository, in own words)."""
    joined = np.concatenate([embedding[ids], features], axis=-1)
    start = joined @ tensors["fc.weight"].T + tensors.get("fc.bias", 0)
    state = numpy_layer(tensors, "layers.0", start, start)
    return state @ head.T, state


def numpy_eagle3(
    tensors: dict[str, np.ndarray], embedding: np.ndarray, features, ids
) -> tuple[np.ndarray, np.ndarray]:
    """EAGLE-3 after `fc`."""
    normed = [
        rms_normed(embedding[ids], tensors["midlayer.input_layernorm.weight"]),
        rms_normed(features, tensors["midlayer.hidden_norm.weight"]),
    ]
    state = numpy_layer(tensors, "midlayer", np.concatenate(normed, axis=-1), features)
    return rms_normed(state, tensors["norm.weight"]) @ tensors["lm_head.weight"].T, state


def numpy_layer(tensors: dict[str, np.ndarray], prefix: str, inputs, residual) -> np.ndarray:
    weights = {
        name.removeprefix(f"{prefix}.").removesuffix(".weight"): values
        for name, values in tensors.items()
        if name.startswith(f"{prefix}.")
    }
    q = rotated_halves(inputs @ weights["self_attn.q_proj"].T, NUM_HEADS)
    k = rotated_halves(inputs @ weights["self_attn.k_proj"].T, NUM_KV_HEADS)
    v = (inputs @ weights["self_attn.v_proj"].T).reshape(k.shape)
    x = residual + causal_attention(q, k, v) @ weights["self_attn.o_proj"].T
    h = rms_normed(x, weights["post_attention_layernorm"])
    inner = gated(h @ weights["mlp.gate_proj"].T, h @ weights["mlp.up_proj"].T)
    return x + inner @ weights["mlp.down_proj"].T


def numpy_medusa(tensors, hidden, num_heads, num_layers, rows_of) -> np.ndarray:
    """[rows, heads, columns]"""
    ends = []
    for head in range(num_heads):
        x = hidden.astype(np.float64)
        for layer in range(num_layers):
            name = f"{head}.{layer}.linear"
            x = x + silu(x @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"])
        ends.append(x @ rows_of(head).T)
    return np.stack(ends, axis=1)


def test_medusa_equals_its_formula(drafters, llama, states):
    folder = drafters["medusa"]
    ids = np.load(folder / DRAFT_IDS_NAME)
    tensors = checkpoint(folder.parent / "medusa-checkpoint")
    expected = numpy_medusa(tensors, states[0], 4, 1, lambda head: llama.head[ids])
    (found,) = session(folder, "medusa").run(["logits"], {"hidden": states})
    assert found.shape == (len(IDS), 4, VOCABULARY)
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("prefix", ["", "medusa_head."])
def test_medusa_heads_with_rows_of_their_own_and_two_blocks(target, tmp_path, states, prefix):
    rng = np.random.default_rng(8)
    own = {
        f"{prefix}{head}.{layer}.linear.{part}": rng.standard_normal(
            (HIDDEN_SIZE, HIDDEN_SIZE) if part == "weight" else HIDDEN_SIZE, np.float32
        )
        / np.float32(8)
        for head in range(3)
        for layer in range(2)
        for part in ("weight", "bias")
    }
    own |= {
        f"{prefix}{head}.2.weight": rng.standard_normal((320, HIDDEN_SIZE), np.float32)
        for head in range(3)
    }
    source = tmp_path / "source"
    source.mkdir()
    safetensors_numpy().save_file(own, source / "medusa_lm_head.safetensors")
    (source / "config.json").write_text('{"medusa_num_heads": 3, "medusa_num_layers": 2}')
    out = tmp_path / "out"
    built = build_heads(
        "medusa", source, target, out, name="m", weights="fp32", draft_vocabulary=VOCABULARY
    )
    assert built.trained
    ids = np.load(out / DRAFT_IDS_NAME)
    plain = {name.removeprefix(prefix): values for name, values in own.items()}
    expected = numpy_medusa(plain, states[0], 3, 2, lambda head: plain[f"{head}.2.weight"][ids])
    (found,) = session(out, "medusa").run(["logits"], {"hidden": states})
    np.testing.assert_allclose(found, expected, atol=1e-4)
    check(out)


@pytest.mark.parametrize("kind", ["eagle", "eagle3"])
def test_eagle_equals_its_layer_in_every_cut_of_a_text(drafters, llama, states, kind):
    folder = drafters[kind]
    tensors = checkpoint(folder.parent / f"{kind}-checkpoint")
    if kind == "eagle":
        rows = llama.head[np.load(folder / DRAFT_IDS_NAME)]
        expected = numpy_eagle(tensors, llama.embedding, rows, states[0], IDS)
    else:
        expected = numpy_eagle3(tensors, llama.embedding, states[0], IDS)
    for cuts in ([0, 8], [0, 5, 8], [0, 3, 4, 5, 6, 7, 8]):
        runner = EagleRunner(folder)
        pieces = [
            runner(IDS[start:end], states[0, start:end], start)
            for start, end in itertools.pairwise(cuts)
        ]
        for found, wanted in zip(zip(*pieces, strict=True), expected, strict=True):
            np.testing.assert_allclose(np.concatenate(found), wanted, atol=1e-4)


@pytest.mark.parametrize("kind", ["eagle", "eagle3"])
def test_eagle_drafts_on_from_its_own_state(drafters, llama, states, kind):
    """Two steps: the second reads the first one's `hidden`, not fused again."""
    runner = EagleRunner(drafters[kind])
    _, hidden = runner(IDS[:4], states[0, :4], 0)
    logits, _ = runner(IDS[4:5], hidden[-1:], 4)
    tensors = checkpoint(drafters[kind].parent / f"{kind}-checkpoint")
    features = np.concatenate([states[0, :4], hidden[-1:]])
    if kind == "eagle":
        rows = llama.head[np.load(drafters[kind] / DRAFT_IDS_NAME)]
        expected, _ = numpy_eagle(tensors, llama.embedding, rows, features, IDS[:5])
    else:
        expected, _ = numpy_eagle3(tensors, llama.embedding, features, IDS[:5])
    np.testing.assert_allclose(logits[0], expected[-1], atol=1e-4)


@pytest.mark.parametrize("kind", ["eagle", "eagle3"])
def test_each_node_of_a_drafted_tree_sees_only_its_ancestors(drafters, states, kind):
    """Prefix of 4 rows; nodes A, B (of the root), C (of A)."""
    prefix, nodes = states[0, :4], states[0, 4:7]
    runner = EagleRunner(drafters[kind])
    runner(IDS[:4], prefix, 0)
    bias = np.full((1, 1, 3, 7), np.finfo(np.float32).min, np.float32)
    bias[..., :4] = 0
    for node, ancestor in ((0, 0), (1, 1), (2, 2), (2, 0)):
        bias[0, 0, node, 4 + ancestor] = 0
    found, _ = runner([11, 22, 33], nodes, 4, depths=[4, 4, 5], bias=bias)
    for node, path in ((0, [0]), (1, [1]), (2, [0, 2])):
        alone = EagleRunner(drafters[kind])
        alone(IDS[:4], prefix, 0)
        wanted, _ = alone([[11, 22, 33][step] for step in path], nodes[path], 4)
        np.testing.assert_allclose(found[node], wanted[-1], atol=1e-4)


def test_eagle3_fuses_three_features(drafters):
    folder = drafters["eagle3"]
    tensors = checkpoint(folder.parent / "eagle3-checkpoint")
    features = np.random.default_rng(2).standard_normal((1, 5, 3 * HIDDEN_SIZE), np.float32)
    (fused,) = session(folder, "fuse").run(["fused"], {"features": features})
    np.testing.assert_allclose(fused[0], features[0] @ tensors["fc.weight"].T, atol=1e-4)


def test_eagle3_brings_its_own_ids_in_any_order(drafters, target, tmp_path, states):
    """`d2t` may name ids out of order; the folder's map ascends and its rows go with it."""
    source = drafters["eagle3"].parent / "eagle3-checkpoint"
    tensors = safetensors_numpy().load_file(source / "model.safetensors")
    ids = (tensors["d2t"] + np.arange(VOCABULARY))[::-1]
    shuffled = rewrite(
        source,
        tmp_path / "shuffled",
        d2t=np.ascontiguousarray(ids - np.arange(VOCABULARY)),
        **{"lm_head.weight": np.ascontiguousarray(tensors["lm_head.weight"][::-1])},
    )
    out = tmp_path / "out"
    build_heads("eagle3", shuffled, target, out, name="e", weights="fp32", draft_vocabulary=7)
    np.testing.assert_array_equal(np.load(out / DRAFT_IDS_NAME), ids[::-1])
    expected, _ = EagleRunner(drafters["eagle3"])(IDS, states[0], 0)
    found, _ = EagleRunner(out)(IDS, states[0], 0)
    np.testing.assert_array_equal(found, expected)


def test_a_head_takes_embedding_bias_and_rows_from_its_checkpoint_if_there(
    drafters, target, tmp_path, states
):
    rng = np.random.default_rng(4)
    own = {
        "embed_tokens.weight": rng.standard_normal((320, HIDDEN_SIZE), np.float32),
        "lm_head.weight": rng.standard_normal((320, HIDDEN_SIZE), np.float32),
        "fc.bias": rng.standard_normal(HIDDEN_SIZE, np.float32),
    }
    source = rewrite(drafters["eagle"].parent / "eagle-checkpoint", tmp_path / "own", **own)
    out = tmp_path / "out"
    build_heads("eagle", source, target, out, name="e", weights="fp32", draft_vocabulary=0)
    assert not (out / DRAFT_IDS_NAME).exists()
    expected, _ = numpy_eagle(
        checkpoint(source), own["embed_tokens.weight"], own["lm_head.weight"], states[0], IDS
    )
    found, _ = EagleRunner(out)(IDS, states[0], 0)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_bfloat16_checkpoints_are_read(drafters, target, tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    source = drafters["eagle"].parent / "eagle-checkpoint"
    tensors = safetensors_numpy().load_file(source / "model.safetensors")
    halves = {name: values.astype(ml_dtypes.bfloat16) for name, values in tensors.items()}
    widened = {name: values.astype(np.float32) for name, values in halves.items()}
    made = []
    for name, changed in (("halves", halves), ("widened", widened)):
        rewrite(source, tmp_path / name, **changed)
        built = build_heads("eagle", tmp_path / name, target, tmp_path / f"{name}-out", name="e")
        made.append(built.files["weights.data"].sha256)
    assert made[0] == made[1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_built_head_passes_check_and_fits_its_target(drafters, target, kind):
    manifest = check(drafters[kind])
    assert isinstance(manifest, DrafterManifest)
    model = Manifest.load(target)
    manifest.check_target(model)
    assert manifest.same_weights(model)
    assert (manifest.kind, manifest.trained, manifest.reduced) == (kind, False, True)
    on_disk = {path.name for path in drafters[kind].iterdir()}
    assert on_disk == {*manifest.files, "drafter.json"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weights", ["int8", "int4"])
def test_quantised_heads_stay_near_those_of_fp32(drafters, target, tmp_path, states, kind, weights):
    out = tmp_path / "out"
    source = drafters[kind].parent / f"{kind}-checkpoint"
    build_heads(kind, source, target, out, name="h", weights=weights, draft_vocabulary=VOCABULARY)
    check(out)
    if kind == "medusa":
        exact, found = (
            session(folder, "medusa").run(["logits"], {"hidden": states})[0]
            for folder in (drafters[kind], out)
        )
    else:
        exact, found = (
            EagleRunner(folder)(IDS, states[0], 0)[0] for folder in (drafters[kind], out)
        )
    share = {"int8": 0.05, "int4": 0.6}[weights]
    assert np.linalg.norm(found - exact) < share * np.linalg.norm(exact)


def test_the_parameters_counted_are_those_of_the_head_alone(drafters):
    size = HIDDEN_SIZE
    assert DrafterManifest.load(drafters["medusa"]).num_parameters == 4 * (size * size + size)
    own_rows = VOCABULARY * size
    eagle3 = DrafterManifest.load(drafters["eagle3"]).num_parameters
    assert eagle3 > own_rows + 3 * size * size


def test_random_heads_are_the_same_for_the_same_seed(target, tmp_path):
    for name, seed in (("one", 3), ("two", 3), ("other", 4)):
        write_random_heads("eagle3", target, tmp_path / name, seed=seed, draft_vocabulary=99)
    one, two, other = (
        (tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two", "other")
    )
    assert one == two != other
    config = json.loads((tmp_path / "one" / "config.json").read_text())
    assert (config["trained"], config["draft_vocab_size"]) == (False, 99)


def test_building_heads_twice_gives_the_same_bytes(drafters, target, tmp_path):
    source = drafters["eagle"].parent / "eagle-checkpoint"
    made = [build_heads("eagle", source, target, tmp_path / name, name="e") for name in "ab"]
    assert made[0] == made[1]


def test_a_draft_vocabulary_of_a_head_is_that_of_the_target(drafters, target):
    tokenizer = Tokenizer.from_file(str(target / "tokenizer.json"))
    expected = draft_ids(tokenizer, VOCABULARY, Manifest.load(target).eos_ids, 320)
    for kind in ("draft", *KINDS):
        np.testing.assert_array_equal(np.load(drafters[kind] / DRAFT_IDS_NAME), expected)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("weights", "share"), [("fp32", 1e-7), ("int8", 0.01), ("int4", 0.12)])
def test_tables_are_read_back_from_a_target_of_any_format(tmp_path, tied, weights, share):
    write_tiny_gguf(tmp_path / "m.gguf", tied=tied)
    build(tmp_path / "m.gguf", tmp_path / "m", name="m", weights=weights)
    folder, exact = TargetFolder(tmp_path / "m"), NumpyLlama(tmp_path / "m.gguf")
    ids = np.array([5, 17, 300])
    for found, wanted in (
        (folder.embedding(), exact.embedding),
        (folder.head_rows(None), exact.head),
        (folder.head_rows(ids), exact.head[ids]),
    ):
        assert found.shape == wanted.shape
        assert np.linalg.norm(found - wanted) < share * np.linalg.norm(wanted)
    assert folder.intermediate_size() == FEED_FORWARD
