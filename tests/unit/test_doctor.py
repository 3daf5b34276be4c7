"""What `doctor` verifies besides the model: the drafters that the settings name."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from lsp_server.__main__ import main
from lsp_server.commands.doctor import Report, _page, examine
from lsp_server.engine.drafter_manifest import DRAFTER_MANIFEST_NAME
from lsp_server.settings.tree import Settings
from lsp_server.syntax import grammars
from tests.tiny_model import build_tiny_drafters, build_tiny_model


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("doctor")
    build_tiny_model(root / "target")
    return {"target": root / "target", **build_tiny_drafters(root / "drafters", root / "target")}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TABAHEAD_HOME", str(tmp_path / "home"))


def examined(built, sources=("draft", "heads"), **folders: Path) -> Report:
    used = {**built, "heads": built["eagle"], **folders}
    named = {"draft_model": str(used["draft"]), "heads": str(used["heads"])}
    return examine(Settings(model=str(used["target"]), sources=sources, **named))


def broken(folder: Path, into: Path, name: str = "weights.data") -> Path:
    """A copy with one byte changed."""
    shutil.copytree(folder, into)
    data = bytearray((into / name).read_bytes())
    data[len(data) // 2] ^= 1
    (into / name).write_bytes(data)
    return into


def made_for(folder: Path, into: Path, **target: str) -> Path:
    """A copy that says that it was made for another target."""
    shutil.copytree(folder, into)
    path = into / DRAFTER_MANIFEST_NAME
    raw = json.loads(path.read_text())
    path.write_text(json.dumps(raw | {"target": raw["target"] | target}))
    return into


def test_sound_drafters_are_verified_and_what_they_cost_is_shown(built):
    report = examined(built)
    assert report.problems == []
    assert report.facts["draft_model"].endswith(f"files verified in {built['draft']}")
    assert report.facts["heads"].startswith("eagle, ")
    costs = report.facts["draft_ms"]
    assert all(cost["step"] > 0 for cost in costs.values())
    page = _page(report)
    for name in ("draft", "eagle"):
        assert f"  {name}: step: {costs[name]['step']}; row: {costs[name]['row']}" in page


def test_the_page_says_in_words_what_was_found(built):
    page = _page(examined(built, sources=("lookup",)))
    assert "grammars: python, javascript" in page
    assert "\nstrict mode: bit-exact here\n" in page
    assert page.endswith("\nCompletions can be served.")


def test_an_absent_grammar_is_a_warning_with_the_remedy(built, monkeypatch):
    grammars.load.cache_clear()
    monkeypatch.setitem(sys.modules, "tree_sitter_go", None)
    warnings = examined(built, sources=("lookup",)).warnings
    grammars.load.cache_clear()
    assert [w for w in warnings if "no grammar of go:" in w and "extra `syntax`" in w]


def test_what_cannot_serve_says_so_last(built, tmp_path):
    page = _page(examined({**built, "target": tmp_path / "absent"}, sources=("lookup",)))
    assert page.endswith("\nCompletions cannot be served.")


def test_a_broken_file_of_the_workspace_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tabahead.toml").write_text("zork = [")
    main(["doctor", "--model", str(tmp_path / "absent")])
    assert "tabahead.toml" in capsys.readouterr().out


def test_drafters_without_training_are_a_warning_each(built):
    warnings = examined(built).warnings
    assert [w for w in warnings if "tiny-draft has not been trained" in w]
    assert [w for w in warnings if "tiny-eagle has not been trained" in w]


def test_every_broken_drafter_is_named_with_its_remedy(built, tmp_path):
    heads = broken(built["eagle"], tmp_path / "heads")
    draft = broken(built["draft"], tmp_path / "draft")
    of_draft, of_heads = examined(built, heads=heads, draft=draft).problems
    assert f"{draft / 'weights.data'} is corrupt" in of_draft
    assert f"{heads / 'weights.data'} is corrupt" in of_heads
    assert "tabahead export heads" in of_heads


def test_heads_for_another_tokenizer_are_a_problem_with_both_sides_named(built, tmp_path):
    heads = made_for(built["eagle"], tmp_path / "heads", tokenizer_sha256="f" * 64)
    (problem,) = examined(built, heads=heads).problems
    assert "tiny-eagle and the model tiny-0 have different tokenizers" in problem


def test_heads_for_other_weights_of_the_same_shape_are_a_warning(built, tmp_path):
    heads = made_for(built["eagle"], tmp_path / "heads", source_sha256="f" * 64)
    report = examined(built, heads=heads)
    assert report.problems == []
    assert [w for w in report.warnings if "other weights than those of tiny-0" in w]
    assert not [w for w in examined(built).warnings if "other weights" in w]


def test_a_drafter_that_is_not_there_is_a_problem(built, tmp_path):
    absent = tmp_path / "absent"
    (problem,) = examined(built, heads=absent).problems
    assert f"No drafter in {absent}" in problem


def test_a_drafter_that_no_source_uses_is_not_looked_at(built, tmp_path):
    report = examined(built, sources=("lookup",), heads=tmp_path / "absent")
    assert report.problems == []
    assert report.facts["draft_ms"] == {}
    assert not {"heads", "draft_model"} & report.facts.keys()


def test_a_source_without_its_setting_is_a_problem(built):
    (problem,) = examine(Settings(model=str(built["target"]), sources=("heads",))).problems
    assert "`heads` is not set" in problem
