"""The model folder as a whole: complete or absent, repeatable, and light to import."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

import export.build
from export import BUILDER_VERSION
from export.build import build
from export.weights import WeightFile
from lsp_server.engine.manifest import MANIFEST_NAME, Manifest
from lsp_server.errors import SettingsError, StorageError, UnsupportedModelError
from tests.tiny_model import build_tiny_model, write_tiny_gguf


@pytest.fixture
def checkpoint(tmp_path) -> Path:
    path = tmp_path / "source" / "tiny.gguf"
    path.parent.mkdir()
    write_tiny_gguf(path)
    return path


def _nothing_left(folder: Path) -> bool:
    return list(folder.iterdir()) == []


def test_a_built_folder_passes_its_own_manifest(tmp_path):
    built = build_tiny_model(tmp_path / "m")
    manifest = Manifest.load(tmp_path / "m")
    assert manifest == built
    manifest.check_hashes(tmp_path / "m")
    manifest.check_tokenizer(tmp_path / "m")
    on_disk = {path.name for path in (tmp_path / "m").iterdir()}
    assert on_disk == {*manifest.files, MANIFEST_NAME}
    assert manifest.forms == {form: f"{form}.onnx" for form in ("chain", "tree", "exit")}
    assert manifest.builder_version == BUILDER_VERSION
    assert manifest.licence == "apache-2.0"


def test_building_twice_gives_the_same_bytes(checkpoint, tmp_path):
    for name in ("one", "two"):
        build(checkpoint, tmp_path / name, name="same")
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name


def test_all_forms_share_one_weights_file(tmp_path):
    build_tiny_model(tmp_path / "m")
    for form in ("chain", "tree", "exit"):
        model = onnx.load(tmp_path / "m" / f"{form}.onnx", load_external_data=False)
        places = {
            {entry.key: entry.value for entry in tensor.external_data}["location"]
            for tensor in model.graph.initializer
        }
        assert places == {"weights.data"}


@pytest.mark.parametrize("weights", ["int8", "int4", "fp32"])
def test_a_tied_table_is_stored_once(tmp_path, weights):
    sizes = {}
    for tied in (True, False):
        write_tiny_gguf(tmp_path / "m.gguf", tied=tied)
        manifest = build(tmp_path / "m.gguf", tmp_path / str(tied), name="m", weights=weights)
        sizes[tied] = manifest.files["weights.data"].size
    table = 320 * 64 * {"int8": 1, "int4": 0.5, "fp32": 4}[weights]
    assert sizes[False] - sizes[True] >= table


def test_an_interrupted_build_leaves_nothing(checkpoint, tmp_path):
    out = tmp_path / "out" / "m"

    def interrupt(stage: str, done: int, total: int) -> None:
        if (stage, done) == ("weights", 5):
            assert not _nothing_left(out.parent)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(checkpoint, out, name="m", progress=interrupt)
    assert _nothing_left(out.parent)


@pytest.mark.parametrize("weights", ["int8", "fp32"])
def test_a_full_disk_is_said_and_leaves_nothing(checkpoint, tmp_path, monkeypatch, weights):
    def full(self, name, array):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(WeightFile, "add", full)
    with pytest.raises(StorageError, match="is full; free some space"):
        build(checkpoint, tmp_path / "out" / "m", name="m", weights=weights)
    assert _nothing_left(tmp_path / "out")


def test_a_place_that_cannot_be_written_is_said(checkpoint, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="cannot be written"):
        build(checkpoint, tmp_path / "file" / "m", name="m")


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere"
)
def test_a_read_only_folder_is_said(checkpoint, tmp_path):
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    with pytest.raises(StorageError, match="cannot be written"):
        build(checkpoint, locked / "m", name="m")


def test_an_existing_folder_is_never_overwritten(checkpoint, tmp_path):
    out = tmp_path / "m"
    out.mkdir()
    (out / "precious").write_text("mine")
    with pytest.raises(StorageError, match="exists already"):
        build(checkpoint, out, name="m")
    assert (out / "precious").read_text() == "mine"


def test_an_empty_folder_is_filled(checkpoint, tmp_path):
    (tmp_path / "m").mkdir()
    build(checkpoint, tmp_path / "m", name="m")
    assert Manifest.load(tmp_path / "m").name == "m"


def test_leftovers_of_a_killed_build_are_removed_once_they_are_old(checkpoint, tmp_path):
    old, young = tmp_path / ".m.partial-1", tmp_path / ".m.partial-2"
    for folder in (old, young):
        folder.mkdir()
    os.utime(old, (0, 0))
    build(checkpoint, tmp_path / "m", name="m")
    assert not old.exists()
    assert young.exists()


def test_an_unknown_weight_format_is_refused(checkpoint, tmp_path):
    with pytest.raises(SettingsError, match="'int3'; use one of int8, int4, fp32"):
        build(checkpoint, tmp_path / "m", name="m", weights="int3")


@pytest.mark.parametrize("length", [0, 63])
def test_a_context_that_nothing_fits_into_is_refused(checkpoint, tmp_path, length):
    with pytest.raises(SettingsError, match=f"at least 64 tokens, not {length}"):
        build(checkpoint, tmp_path / "m", name="m", context_length=length)


def test_an_unknown_pre_tokenizer_stops_the_build_before_it_writes(tmp_path):
    write_tiny_gguf(tmp_path / "m.gguf", pre="klingon")
    with pytest.raises(UnsupportedModelError, match="klingon"):
        build(tmp_path / "m.gguf", tmp_path / "out" / "m", name="m")
    assert not (tmp_path / "out").exists()


def test_progress_rises_to_its_end_in_every_stage(checkpoint, tmp_path):
    seen: dict[str, list[tuple[int, int]]] = {}
    build(
        checkpoint,
        tmp_path / "m",
        name="m",
        progress=lambda stage, done, total: seen.setdefault(stage, []).append((done, total)),
    )
    assert list(seen) == ["checkpoint", "weights", "hashes"]
    for steps in seen.values():
        assert steps == sorted(steps)
        assert steps[-1][0] == steps[-1][1]


def test_the_builder_needs_neither_onnxruntime_nor_torch():
    script = "import sys, json, export.build; print(json.dumps(sorted(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in json.loads(result.stdout)}
    assert not loaded & {"onnxruntime", "torch", "transformers", "pygls", "lsprotocol"}


def test_reading_the_builder_version_imports_nothing_heavy():
    script = "import sys; import export; print('numpy' in sys.modules or 'onnx' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "False"
    assert export.build.BUILDER_VERSION == BUILDER_VERSION
