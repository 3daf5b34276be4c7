"""Head checkpoints that cannot be built for a target: refused by name, nothing left behind."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from export.heads import build_heads
from export.random_heads import write_random_heads
from lsp_server.engine.manifest import MANIFEST_NAME
from lsp_server.errors import ModelFilesError, SettingsError, UnsupportedModelError
from tests.head_runner import rewrite, safetensors_numpy
from tests.tiny_model import build_tiny_drafters, build_tiny_model


@pytest.fixture(scope="module")
def target(tmp_path_factory) -> Path:
    safetensors_numpy()
    folder = tmp_path_factory.mktemp("heads") / "target"
    build_tiny_model(folder)
    return folder


@pytest.fixture(scope="module")
def drafters(target) -> dict[str, Path]:
    return build_tiny_drafters(target.parent / "drafters", target)


@pytest.mark.parametrize(
    ("kind", "config", "message"),
    [
        ("eagle", {"hidden_size": 128}, "tiny-0 do not fit: hidden size 128 and 64"),
        ("eagle", {"vocab_size": 152064}, "tiny-0 do not fit: vocabulary 152064 and 320"),
        ("eagle", {"intermediate_size": None}, "lacks intermediate_size"),
        ("eagle", {"rms_norm_eps": None}, "lacks rms_norm_eps"),
        ("medusa", {"medusa_num_heads": 5}, r"lacks the tensor 4\.0\.linear\.weight"),
        ("eagle3", {"num_key_value_heads": 4}, r"k_proj\.weight of shape \[32, 128\]; \[64, 128\]"),
    ],
)
def test_a_head_of_another_shape_is_refused(drafters, target, tmp_path, kind, config, message):
    source = drafters[kind].parent / f"{kind}-checkpoint"
    rewrite(source, tmp_path / "bad", config)
    with pytest.raises(ModelFilesError, match=message):
        build_heads(kind, tmp_path / "bad", target, tmp_path / "out", name="h")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("kind", "config", "tensors", "message"),
    [
        ("eagle", {"rope_scaling": {"type": "linear"}}, {}, "rope_scaling"),
        ("eagle", {}, {"layers.0.input_layernorm.weight": (64,)}, "input_layernorm"),
        ("eagle", {"num_attention_heads": "four"}, {}, "num_attention_heads = 'four'"),
        ("medusa", {}, {"4.0.linear.weight": (64, 64)}, r"tensor 4\.0\.linear\.weight"),
        ("eagle3", {}, {"midlayer.self_attn.q_proj.bias": (64,)}, r"q_proj\.bias"),
    ],
)
def test_a_variant_that_the_graph_would_ignore_is_refused(
    drafters, target, tmp_path, kind, config, tensors, message
):
    zeros = {name: np.zeros(shape, np.float32) for name, shape in tensors.items()}
    rewrite(drafters[kind].parent / f"{kind}-checkpoint", tmp_path / "bad", config, **zeros)
    with pytest.raises(UnsupportedModelError, match=message):
        build_heads(kind, tmp_path / "bad", target, tmp_path / "out", name="h")


def test_medusa_heads_of_another_model_are_refused_with_both_sides_named(target, tmp_path):
    tensors = {
        "0.0.linear.weight": np.zeros((32, 32), np.float32),
        "0.0.linear.bias": np.zeros(32, np.float32),
    }
    (tmp_path / "bad").mkdir()
    safetensors_numpy().save_file(tensors, tmp_path / "bad" / "model.safetensors")
    (tmp_path / "bad" / "config.json").write_text('{"medusa_num_heads": 1}')
    with pytest.raises(ModelFilesError, match="tiny-0 do not fit: hidden size 32 and 64"):
        build_heads("medusa", tmp_path / "bad", target, tmp_path / "out", name="h")


@pytest.mark.parametrize("fault", ["twice", "beyond", "other t2d"])
def test_an_id_map_that_contradicts_itself_is_refused(drafters, target, tmp_path, fault):
    source = drafters["eagle3"].parent / "eagle3-checkpoint"
    tensors = safetensors_numpy().load_file(source / "model.safetensors")
    d2t, t2d = tensors["d2t"].copy(), tensors["t2d"].copy()
    if fault == "twice":
        d2t[1] = d2t[0] - 1
    elif fault == "beyond":
        d2t[-1] += 1000
    else:
        t2d[:] = ~t2d
    rewrite(source, tmp_path / "bad", d2t=d2t, t2d=t2d)
    with pytest.raises(ModelFilesError, match=r"t2d|d2t"):
        build_heads("eagle3", tmp_path / "bad", target, tmp_path / "out", name="h")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "medusa_lm_head.pt", "head.pth"])
def test_a_pickled_checkpoint_is_refused_with_the_conversion(target, tmp_path, name):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / name).write_bytes(b"\x80\x04")
    (tmp_path / "source" / "config.json").write_text("{}")
    with pytest.raises(UnsupportedModelError, match=rf"save_file.*{name} model.safetensors"):
        build_heads("medusa", tmp_path / "source", target, tmp_path / "out", name="h")


@pytest.mark.parametrize("fault", ["absent", "empty", "garbage", "no config", "list config"])
def test_a_folder_that_holds_no_head_is_said(drafters, target, tmp_path, fault):
    folder = tmp_path / "source"
    if fault != "absent":
        shutil.copytree(drafters["eagle"].parent / "eagle-checkpoint", folder)
    if fault == "empty":
        (folder / "model.safetensors").unlink()
    elif fault == "garbage":
        (folder / "model.safetensors").write_bytes(b"nothing of the kind")
    elif fault == "no config":
        (folder / "config.json").unlink()
    elif fault == "list config":
        (folder / "config.json").write_text("[]")
    with pytest.raises(ModelFilesError, match="source"):
        build_heads("eagle", folder, target, tmp_path / "out", name="h")


def test_a_target_of_the_first_builder_is_refused(drafters, target, tmp_path):
    old = shutil.copytree(target, tmp_path / "old")
    raw = json.loads((old / MANIFEST_NAME).read_text())
    del raw["hidden_outputs"]
    raw["builder_version"] = 1
    (old / MANIFEST_NAME).write_text(json.dumps(raw))
    with pytest.raises(UnsupportedModelError, match="builder 1 and gives no hidden states"):
        build_heads(
            "eagle", drafters["eagle"].parent / "eagle-checkpoint", old, tmp_path / "o", name="h"
        )


def test_an_unknown_kind_is_refused(target, tmp_path):
    with pytest.raises(SettingsError, match="'hydra'; use one of medusa, eagle, eagle3"):
        build_heads("hydra", tmp_path, target, tmp_path / "out", name="h")
    with pytest.raises(SettingsError, match="'hydra'"):
        write_random_heads("hydra", target, tmp_path / "out")
