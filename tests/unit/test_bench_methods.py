"""The methods that `bench matrix` compares: what each adds to the model, and what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from export.parameters import num_parameters
from lsp_server.bench import methods as module
from lsp_server.bench.methods import Method, load_methods, make_drafters
from lsp_server.engine.drafter_manifest import DrafterManifest
from lsp_server.errors import ModelFilesError, ModelMissingError
from lsp_server.settings.tree import Settings
from models import catalogue
from tests.tiny_model import build_tiny_drafters, build_tiny_model


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("methods")
    build_tiny_model(root / "target")
    build_tiny_drafters(root / "drafters", root / "target")
    return root


@pytest.fixture(scope="module")
def methods(root) -> dict[str, Method]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TABAHEAD_HOME", str(root / "home"))
        found, _ = load_methods(Settings(model=str(root / "target")), root / "drafters", [], 64)
    return {method.label: method for method in found}


def test_each_method_is_there_as_a_chain_and_where_it_can_as_a_tree(methods):
    free = ["lookup chain", "session corpus chain"]
    names = ("draft model", "early exit", "medusa", "eagle")
    priced = [f"{name} {form}" for name in names for form in ("chain", "tree")]
    assert list(methods) == [*free, *priced, "combined chain"]


def test_what_a_drafter_adds_to_the_model_is_counted(methods, root):
    for form in ("chain", "tree"):
        drafted = methods[f"draft model {form}"].extra_parameters
        assert drafted == num_parameters(root / "drafters" / "draft" / "chain.onnx") > 0
        for kind in ("medusa", "eagle"):
            manifest = DrafterManifest.load(root / "drafters" / kind)
            assert methods[f"{kind} {form}"].extra_parameters == manifest.num_parameters > 0
        assert methods[f"early exit {form}"].extra_parameters == 0


def test_a_tree_is_as_wide_as_the_product_drafts_it_and_a_chain_has_a_token_a_depth(methods):
    sizes = {label: [m.num_tokens(depth) for depth in (1, 2, 3, 4)] for label, m in methods.items()}
    assert sizes["draft model tree"] == sizes["early exit tree"] == [3, 5, 6, 7]
    assert sizes["medusa tree"] == [3, 6, 7, 7]
    assert sizes["eagle tree"] == [4, 15, 15, 15]
    assert all(found == [1, 2, 3, 4] for label, found in sizes.items() if label.endswith("chain"))


@pytest.mark.parametrize(("place", "held"), [("eagle", "eagle3"), ("medusa", "eagle")])
def test_a_head_of_another_kind_is_refused_with_what_belongs_there(root, tmp_path, place, held):
    folder = Path(shutil.copytree(root / "drafters", tmp_path / "drafters"))
    shutil.rmtree(folder / place)
    shutil.copytree(root / "drafters" / held, folder / place)
    message = rf"{place} holds a head of kind {held}.*`tabahead export heads {place}`"
    with pytest.raises(ModelFilesError, match=message):
        load_methods(Settings(model=str(root / "target")), folder, [], 64)


def test_a_folder_without_heads_says_how_to_make_them(root, tmp_path):
    with pytest.raises(ModelMissingError, match="tabahead export heads"):
        load_methods(Settings(model=str(root / "target")), tmp_path, [], 64)


def test_what_makes_heads_is_looked_for_before_anything_is_made(tmp_path, monkeypatch):
    monkeypatch.setenv("TABAHEAD_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "cache" / "downloads" / "smollm2-135m").mkdir(parents=True)
    (tmp_path / "home" / "cache" / "downloads" / "smollm2-135m" / "a.gguf").touch()
    monkeypatch.setattr(catalogue, "resolve", lambda name: tmp_path / "target")
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(ModelMissingError, match="pip install"):
        make_drafters(Settings())
