"""The catalogue: complete entries, names resolved to folders, helpful refusals."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lsp_server.engine.manifest import MANIFEST_NAME
from lsp_server.errors import ModelMissingError, StorageError
from models import catalogue, store

BUILD = "0123456789abcdef"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TABAHEAD_HOME", str(tmp_path / "home"))


def put_build(name: str, build: str = BUILD) -> Path:
    folder = store.model_root(name) / build
    folder.mkdir(parents=True)
    (folder / MANIFEST_NAME).write_text("{}")
    return folder


def test_every_entry_is_pinned_and_buildable():
    known = catalogue.entries()
    assert catalogue.DEFAULT_MODEL in known
    for name, entry in known.items():
        assert entry.name == name
        assert re.fullmatch(r"[a-z0-9][a-z0-9.-]*", name)
        assert "==" in entry.source.requirement
        assert re.fullmatch(r"[0-9a-f]{64}", entry.source.sha256)
        assert re.fullmatch(r"[0-9a-f]{64}", entry.source.member_sha256)
        assert entry.source.size > 0
        assert entry.source.member_size > 0
        assert entry.weights in entry.room_mb
        assert entry.licence
        assert entry.description


def test_a_known_model_that_was_not_fetched_names_the_command():
    with pytest.raises(ModelMissingError, match="tabahead models fetch smollm2-135m"):
        catalogue.resolve("smollm2-135m")


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(ModelMissingError, match="did you mean smollm2-135m"):
        catalogue.resolve("smolm2-135")


def test_a_name_near_to_nothing_lists_what_there_is():
    with pytest.raises(ModelMissingError, match=r"it has .*smollm2-135m"):
        catalogue.resolve("zzz")


def test_a_fetched_model_resolves_to_its_current_build():
    folder = put_build("smollm2-135m")
    store.point("smollm2-135m", BUILD)
    assert catalogue.resolve("smollm2-135m") == folder


def test_a_model_folder_is_taken_as_it_is(tmp_path):
    (tmp_path / MANIFEST_NAME).write_text("{}")
    assert catalogue.resolve(str(tmp_path)) == tmp_path


def test_a_folder_without_a_model_is_refused_by_path(tmp_path):
    with pytest.raises(ModelMissingError, match=re.escape(str(tmp_path))):
        catalogue.resolve(str(tmp_path))


def test_a_folder_in_nobodys_home_is_refused_by_its_name():
    with pytest.raises(ModelMissingError, match="~nobody-at-all/model"):
        catalogue.resolve("~nobody-at-all/model")


def test_nobodys_home_cannot_hold_what_is_kept(monkeypatch):
    """Nor is it a folder with that name in the workspace."""
    monkeypatch.setenv("TABAHEAD_HOME", "~nobody-at-all/tabahead")
    with pytest.raises(StorageError, match="TABAHEAD_HOME begins with ~nobody-at-all"):
        store.current("smollm2-135m")


def test_a_workspace_folder_never_takes_a_catalogue_models_place(tmp_path, monkeypatch):
    """Opening a hostile project must not make the server load the model that lies in it."""
    impostor = tmp_path / "smollm2-135m"
    impostor.mkdir()
    (impostor / MANIFEST_NAME).write_text("{}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelMissingError, match="not on this machine yet"):
        catalogue.resolve("smollm2-135m")


@pytest.mark.parametrize("pointer", ["", "../../etc\n", "0123456789abcde\n", "\udcff", "0" * 16])
def test_a_damaged_pointer_means_not_fetched(pointer):
    put_build("smollm2-135m")
    path = store.model_root("smollm2-135m") / store.CURRENT
    path.write_bytes(pointer.encode("utf-8", "surrogateescape"))
    with pytest.raises(ModelMissingError, match="models fetch smollm2-135m"):
        catalogue.resolve("smollm2-135m")


def test_acquire_takes_the_new_build_when_the_old_one_goes_between_the_steps(monkeypatch):
    """A server that read the pointer just before a fetch replaced it must not fail to start."""
    old = put_build("smollm2-135m")
    new = put_build("smollm2-135m", "f" * 16)
    store.point("smollm2-135m", BUILD)
    use = store.use

    def use_late(folder):
        if folder == old:
            store.point("smollm2-135m", "f" * 16)
            assert store.collect("smollm2-135m") == [old]
        return use(folder)

    monkeypatch.setattr(store, "use", use_late)
    with catalogue.acquire("smollm2-135m") as model:
        assert model.folder == new


def test_the_catalogue_and_the_store_import_nothing_heavy():
    heavy = {"numpy", "onnx", "onnx_ir", "gguf", "tokenizers", "tqdm", "filelock", "export"}
    code = "import sys, models.catalogue, models.store; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert heavy.isdisjoint(found.stdout.split())
