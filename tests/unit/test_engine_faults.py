"""A model folder or an onnxruntime that cannot be used: each case has its error and its remedy."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from lsp_server.engine import providers
from lsp_server.engine.decode import decode
from lsp_server.engine.manifest import Manifest
from lsp_server.engine.onnx_model import OnnxModel
from lsp_server.engine.tokenizer import TextStream, Tokenizer
from lsp_server.engine.types import DecodeParams
from lsp_server.errors import (
    InferenceError,
    ModelFilesError,
    ModelMissingError,
    RuntimeMissingError,
    SettingsError,
    TokenizerMismatchError,
    UnsupportedModelError,
)
from tests.tiny_model import build_tiny_model

FILES = ("chain.onnx", "weights.data", "tokenizer.json", "tree.onnx")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faults") / "model"
    build_tiny_model(folder)
    return folder


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "copy"))


def load(folder: Path, **more) -> OnnxModel:
    return OnnxModel(folder, threads=1, slot_tokens=128, **more)


def change_manifest(folder: Path, **change) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))


# The folder


def test_a_whole_folder_loads_and_verifies(folder):
    model = load(folder)
    model.manifest.check_hashes(folder)
    assert model.provider == "CPUExecutionProvider"
    assert model.spec.context_length == 127
    assert "threads=1" in model.spec.identity


@pytest.mark.parametrize("name", [".", "absent"])
def test_no_model_says_how_to_get_one(tmp_path, name):
    with pytest.raises(ModelMissingError, match="models fetch"):
        load(tmp_path / name)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(ModelFilesError, match=rf"{name} is missing; build it again with"):
        load(folder)


def test_what_the_catalogue_has_is_fetched_again_and_nothing_else(folder, tmp_path):
    (folder / "weights.data").unlink()
    kept = shutil.copytree(folder, tmp_path / Manifest.load(folder).name / "0123456789abcdef")
    with pytest.raises(ModelFilesError, match="run `tabahead models fetch tiny"):
        load(kept)


@pytest.mark.parametrize("name", FILES)
def test_a_truncated_file_is_named_before_it_is_opened(folder, name):
    path = folder / name
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(ModelFilesError, match=rf"{name} has \d+ bytes instead of \d+"):
        load(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_changed_byte_is_found_by_the_thorough_check(folder, name):
    path = folder / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(ModelFilesError, match=rf"{name} is corrupt"):
        Manifest.load(folder).check_hashes(folder)


def test_a_graph_that_is_no_graph_is_a_model_error(folder):
    path = folder / "chain.onnx"
    path.write_bytes(b"\xff" * path.stat().st_size)
    with pytest.raises(ModelFilesError, match="cannot be loaded by onnxruntime"):
        load(folder)


def test_the_tokenizer_of_another_model_is_refused_although_its_size_fits(folder):
    path = folder / "tokenizer.json"
    text = path.read_text()
    other = text.replace("<|im_end|>", "<|im_eod|>")
    assert len(other) == len(text)
    path.write_text(other)
    with pytest.raises(TokenizerMismatchError, match="not the tokenizer of this model"):
        load(folder)


def test_a_tokenizer_that_vanished_is_a_model_error(folder):
    manifest = Manifest.load(folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ModelFilesError, match="cannot be read"):
        manifest.check_tokenizer(folder)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "{}", '{"schema_version": 1}', "\x00"], ids=repr
)
def test_a_manifest_that_is_none_is_a_model_error(folder, text):
    (folder / "manifest.json").write_text(text)
    with pytest.raises(ModelFilesError, match="fetch or build the model again"):
        load(folder)


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": 2},
        {"schema_version": None},
        {"forms": {}},
        {"forms": {"tree": "tree.onnx"}},
        {"forms": {"chain": "elsewhere.onnx"}},
        {"forms": None},
        {"files": {}},
        {"files": {"chain.onnx": {"size": 1}}},
        {"files": None},
        {"eos_ids": None},
        {"eos_ids": ["2"]},
        {"fim_ids": {"prefix": None}},
        {"name": None},
        {"vocab_size": "320"},
        {"vocab_size": True},
        {"context_length": None},
        {"context_length": 0},
        {"num_layers": [2]},
        {"num_kv_heads": 0},
        {"head_size": -16},
        {"feature_layers": None},
        {"reduced_forms": "exit"},
        {"tokenizer_sha256": None},
    ],
    ids=str,
)
def test_a_manifest_that_does_not_name_what_is_needed_is_a_model_error(folder, change):
    change_manifest(folder, **change)
    with pytest.raises(ModelFilesError, match="fetch or build the model again"):
        load(folder)


def test_a_manifest_survives_its_own_format(folder):
    manifest = Manifest.load(folder)
    (folder / "manifest.json").write_text(manifest.to_json())
    assert Manifest.load(folder) == manifest


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_damaged_weights_end_in_an_error_and_never_in_text(folder, temperature):
    """Not a number in every scale: the graph runs, and what it gives is unusable."""
    path = folder / "weights.data"
    path.write_bytes(np.full(path.stat().st_size // 4, np.nan, np.float32).tobytes())
    slot = load(folder).slot("a")
    params = DecodeParams(temperature=temperature)
    for _ in range(2):
        with pytest.raises(InferenceError, match=r"not numbers.*models verify"):
            list(decode(slot, [5, 6, 7], params))
        assert slot.token_ids == []


# onnxruntime


def installed(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    def version(name: str) -> str:
        try:
            return versions[name.replace("-", "_")]
        except KeyError:
            raise importlib.metadata.PackageNotFoundError(name) from None

    monkeypatch.setattr(importlib.metadata, "version", version)


def test_no_onnxruntime_says_what_to_install(monkeypatch, folder):
    installed(monkeypatch)
    with pytest.raises(
        RuntimeMissingError, match=r"`pip install onnxruntime` \(or `onnxruntime-gpu`"
    ):
        load(folder)


def test_two_onnxruntimes_are_named_with_the_way_out(monkeypatch, folder):
    installed(monkeypatch, onnxruntime="1.32.0", onnxruntime_gpu="1.31.0")
    with pytest.raises(
        RuntimeMissingError, match="pip uninstall onnxruntime onnxruntime-gpu` and install"
    ):
        load(folder)


def test_an_onnxruntime_that_cannot_be_imported_says_so(monkeypatch):
    installed(monkeypatch, onnxruntime_gpu="1.32.0")

    def broken(name: str):
        raise ImportError("libcudart.so.13: cannot open shared object file")

    monkeypatch.setattr(importlib, "import_module", broken)
    with pytest.raises(RuntimeMissingError, match=r"libcudart.*--force-reinstall onnxruntime-gpu"):
        providers.import_runtime()


def test_telemetry_is_off_before_onnxruntime_is_imported(monkeypatch):
    monkeypatch.delenv("ORT_DISABLE_TELEMETRY", raising=False)
    seen = []

    def record(name: str):
        seen.append((name, providers.os.environ.get("ORT_DISABLE_TELEMETRY")))
        return SimpleNamespace()

    installed(monkeypatch, onnxruntime="1.32.0")
    monkeypatch.setattr(importlib, "import_module", record)
    providers.import_runtime()
    assert seen == [("onnxruntime", "1")]


def test_an_unknown_provider_is_a_settings_error_with_the_choices(folder):
    with pytest.raises(SettingsError, match="choose one of auto, cpu, cuda"):
        load(folder, provider="cdua")


def runtime_with(*names: str) -> SimpleNamespace:
    return SimpleNamespace(get_available_providers=lambda: list(names))


def test_a_provider_that_is_not_built_in_names_the_package_that_has_it():
    with pytest.raises(SettingsError, match="install `onnxruntime-gpu` in its place"):
        providers.choose_provider(runtime_with("CPUExecutionProvider"), "cuda")


def test_auto_takes_the_gpu_where_there_is_one():
    both = runtime_with("CUDAExecutionProvider", "CPUExecutionProvider")
    assert providers.choose_provider(both, "auto") == "CUDAExecutionProvider"
    assert providers.choose_provider(both, "cpu") == "CPUExecutionProvider"
    assert providers.choose_provider(runtime_with(), "auto") == "CPUExecutionProvider"


@pytest.mark.parametrize(
    ("cores", "threads"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (8, 3), (64, 3)]
)
def test_threads_leave_the_editor_a_core(monkeypatch, cores, threads):
    monkeypatch.setattr(providers, "physical_cores", lambda: cores)
    assert providers.default_threads() == threads


def test_what_was_measured_on_another_processor_has_another_key(folder, monkeypatch):
    here = load(folder).spec.identity
    assert load(folder).spec.identity == here
    monkeypatch.setattr(providers, "processor_name", lambda: "another")
    assert load(folder).spec.identity != here


# The tokenizer


def tokenizer_json(folder: Path, **change) -> Path:
    raw = json.loads((folder / "tokenizer.json").read_text())
    path = folder / "changed.json"
    path.write_text(json.dumps(raw | change))
    return path


@pytest.mark.parametrize("text", ["", "{}", "not JSON", "[]"])
def test_a_tokenizer_file_that_is_none_is_a_model_error(tmp_path, text):
    path = tmp_path / "tokenizer.json"
    path.write_text(text)
    with pytest.raises(ModelFilesError, match="not a usable tokenizer"):
        Tokenizer(path)


def test_a_tokenizer_that_is_not_byte_level_is_refused_by_name(folder):
    with pytest.raises(UnsupportedModelError, match="'Metaspace' decoder"):
        Tokenizer(
            tokenizer_json(
                folder,
                decoder={"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
            )
        )


TEXTS = [
    "def f(x):\n    return x\n",
    "a\r\nb\rc\tü 漢字 🙂 👩‍👩‍👧",
    "\ufeffé\u0301\u2028\x0c\x00",
    "<|im_end|><|endoftext|>",
    "   ",
    "",
]


@pytest.mark.parametrize("text", TEXTS, ids=repr)
def test_text_survives_encoding_whole_and_in_pieces(built, text):
    tokenizer = Tokenizer(built / "tokenizer.json")
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    stream = TextStream(tokenizer)
    pieces = [stream.push(token) for token in ids]
    assert "".join(pieces) == text
    assert "\ufffd" not in "".join(pieces)


def test_control_tokens_in_a_document_are_characters_and_have_no_text_of_their_own(built):
    tokenizer = Tokenizer(built / "tokenizer.json")
    assert not {0, 1, 2} & set(tokenizer.encode("<|endoftext|><|im_start|><|im_end|>"))
    assert tokenizer.decode([0, 1, 2]) == ""
    assert tokenizer.vocab_size == Manifest.load(built).vocab_size


def test_half_an_emoji_from_a_client_is_no_crash(built):
    assert Tokenizer(built / "tokenizer.json").encode("a\ud83d") == Tokenizer(
        built / "tokenizer.json"
    ).encode("a?")


def test_an_added_token_that_is_no_control_token_keeps_its_own_characters(folder):
    raw = json.loads((folder / "tokenizer.json").read_text())
    added = [
        *raw["added_tokens"],
        {
            "id": 320,
            "content": "é ü",
            "special": False,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
        },
    ]
    tokenizer = Tokenizer(tokenizer_json(folder, added_tokens=added))
    assert tokenizer.decode([320]) == "é ü"
