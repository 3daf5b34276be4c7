"""The manifest of trained heads: read strictly, refused where it cannot fit the target."""

from __future__ import annotations

import dataclasses
import json

import pytest

from lsp_server.engine.drafter_manifest import (
    DRAFTER_MANIFEST_NAME,
    DrafterManifest,
    TargetIdentity,
)
from lsp_server.engine.manifest import FileEntry, Manifest
from lsp_server.errors import ModelFilesError, ModelMissingError, TokenizerMismatchError

HEAD = DrafterManifest(
    schema_version=1,
    builder_version=2,
    name="head",
    kind="eagle3",
    trained=True,
    forms={"eagle": "eagle.onnx", "fuse": "fuse.onnx"},
    hidden_size=64,
    vocab_size=320,
    draft_vocab_size=100,
    num_medusa_heads=0,
    num_kv_heads=2,
    head_size=16,
    context_length=512,
    feature_layers=(2, 15, 27),
    num_parameters=1000,
    weight_format="int8",
    target=TargetIdentity("target", "a" * 64, "b" * 64),
    files={name: FileEntry("c" * 64, 4) for name in ("eagle.onnx", "fuse.onnx", "draft_ids.npy")},
    source={"kind": "safetensors", "file": "model.safetensors", "sha256": "d" * 64},
    licence="apache-2.0",
    made_by="a test",
)
TARGET = Manifest(
    schema_version=1,
    builder_version=2,
    name="target",
    family="llama",
    forms={"chain": "chain.onnx"},
    num_layers=30,
    num_heads=4,
    num_kv_heads=2,
    head_size=16,
    hidden_size=64,
    vocab_size=320,
    context_length=512,
    weight_format="int8",
    tokenizer_sha256="a" * 64,
    bos_id=None,
    eos_ids=(0,),
    fim_ids={},
    files={},
    source={"kind": "gguf", "file": "m.gguf", "sha256": "b" * 64},
    licence="apache-2.0",
    made_by="a test",
    hidden_outputs=True,
    feature_layers=(2, 15, 27),
)


def write(folder, **changes):
    raw = json.loads(HEAD.to_json()) | changes
    (folder / DRAFTER_MANIFEST_NAME).write_text(json.dumps(raw))


def test_what_was_written_is_read_back(tmp_path):
    write(tmp_path)
    assert DrafterManifest.load(tmp_path) == HEAD


def test_a_fitting_target_is_accepted():
    HEAD.check_target(TARGET)
    assert HEAD.same_weights(TARGET)
    assert not HEAD.same_weights(dataclasses.replace(TARGET, source={"sha256": "e" * 64}))


def test_another_tokenizer_is_refused_with_both_sides_named():
    other = dataclasses.replace(TARGET, tokenizer_sha256="f" * 64)
    with pytest.raises(TokenizerMismatchError, match=r"head.*target.*aaaaaaaaaaaa.*ffffffffffff"):
        HEAD.check_target(other)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocab_size": 152064}, "vocabulary 320 and 152064"),
        ({"hidden_size": 576}, "hidden size 64 and 576"),
        ({"feature_layers": (2, 6, 9)}, r"layers \[2, 15, 27\] and \[2, 6, 9\]"),
        ({"hidden_outputs": False}, "no hidden states"),
    ],
)
def test_a_target_of_another_shape_is_refused_with_both_sides_named(changes, message):
    with pytest.raises(ModelFilesError, match=message) as refusal:
        HEAD.check_target(dataclasses.replace(TARGET, **changes))
    assert "head" in str(refusal.value)
    assert "target" in str(refusal.value)


def test_an_absent_manifest_is_said(tmp_path):
    with pytest.raises(ModelMissingError, match="tabahead export heads"):
        DrafterManifest.load(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"schema_version": 99},
        {"kind": "oracle"},
        {"kind": []},
        {"forms": {"eagle": "eagle.onnx"}},
        {"forms": {"eagle": "eagle.onnx", "fuse": "elsewhere.onnx"}},
        {"files": {"eagle.onnx": {"sha256": "", "size": 1}}},
        {"files": None},
        {"target": {"name": "target"}},
        {"draft_vocab_size": None},
        {"num_kv_heads": "2"},
        {"context_length": None},
        {"feature_layers": 2},
        {"target": {"name": "target", "tokenizer_sha256": None, "source_sha256": ""}},
    ],
)
def test_a_damaged_manifest_is_refused_with_the_remedy(tmp_path, changes):
    write(tmp_path, **changes)
    with pytest.raises(ModelFilesError, match="tabahead export heads"):
        DrafterManifest.load(tmp_path)


def test_a_file_of_another_size_is_found(tmp_path):
    for name in HEAD.files:
        (tmp_path / name).write_bytes(b"1234")
    HEAD.check_sizes(tmp_path)
    (tmp_path / "fuse.onnx").write_bytes(b"123")
    with pytest.raises(ModelFilesError, match=r"fuse.onnx has 3 bytes instead of 4"):
        HEAD.check_sizes(tmp_path)
    (tmp_path / "fuse.onnx").write_bytes(b"1234")
    with pytest.raises(ModelFilesError, match="corrupt"):
        HEAD.check_hashes(tmp_path)
