"""What the disk says of a document: ignore files and where links lead, with the rule's place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lsp_server.completion import Reason, Refusal
from lsp_server.files.ignore_files import IgnoreFiles
from lsp_server.files.rules import FileRules
from lsp_server.settings.tree import Settings

links = pytest.mark.skipif(os.name == "nt", reason="links need a right there that few have")


@pytest.fixture
def root(tmp_path) -> Path:
    """A workspace with rules and a few files."""
    root = tmp_path.resolve() / "space"
    (root / "sub").mkdir(parents=True)
    (root / ".gitignore").write_text("# made by a build\n*.gen.py\nout/\n", "utf-8")
    (root / "sub/a.py").write_text("x = 1\n", "utf-8")
    return root


def refuse(root: Path, uri: str, **settings) -> Refusal | None:
    return FileRules(Settings(**settings), [root], IgnoreFiles()).refuse(uri)


def link(at: Path, to: Path) -> str:
    at.parent.mkdir(parents=True, exist_ok=True)
    at.symlink_to(to)
    return at.as_uri()


def test_the_message_names_the_file_the_line_and_the_rule(root):
    refusal = refuse(root, (root / "sub/b.gen.py").as_uri())
    assert refusal is not None
    assert refusal.reason is Reason.EXCLUDED
    assert refusal.message == f"Ignored by line 2 of {root / '.gitignore'} (`*.gen.py`)."


def test_a_setting_decides_whether_gitignore_counts(root):
    uri = (root / "out/a.py").as_uri()
    assert refuse(root, uri) is not None
    assert refuse(root, uri, respect_gitignore=False) is None
    (root / ".tabaheadignore").write_text("out/\n", "utf-8")
    assert refuse(root, uri, respect_gitignore=False) is not None


def test_all_ways_to_name_a_file_are_judged_alike(root):
    path = root / "out/my file.py"
    for uri in (
        path.as_uri(),
        str(path),
        path.as_uri().replace("file:///", "file:/"),
        f"file://localhost{path.as_posix()}",
        f"vscode-notebook-cell:{path.as_posix()}#W0sZmlsZQ%3D%3D",
        f"untitled:{path.as_posix()}",
        f"file://{root}/sub/../out/my%20file.py",
    ):
        assert refuse(root, uri) is not None, uri


def test_documents_on_no_disk_are_not_judged(root):
    for uri in ("untitled:Untitled-1", "output:x", f"sftp://host{root}/out/a.py", "", "file:///"):
        assert refuse(root, uri) is None, uri


@links
def test_a_link_is_refused_by_what_it_leads_to(root):
    (root / "out").mkdir()
    for name in ("out/a.py", "secrets.toml", "notes.md"):
        (root / name).write_text("x", "utf-8")
    ignored = refuse(root, link(root / "l1.py", root / "out/a.py"))
    assert ignored is not None
    assert ignored.reason is Reason.EXCLUDED
    assert ignored.message is not None
    assert ignored.message.startswith(f"It is a link to {root / 'out/a.py'}. Ignored by line 3")
    secret = refuse(root, link(root / "l2.py", root / "secrets.toml"))
    assert secret is not None
    assert secret.reason is Reason.SECRET
    uri = link(root / "l3.py", root / "notes.md")
    assert refuse(root, uri) is None
    assert refuse(root, uri, exclude=("*.md",)) is not None
    chain = link(root / "l4.py", root / "l2.py")
    assert refuse(root, chain) == secret


@links
def test_a_link_to_a_folder_leads_what_is_in_it_there(root, tmp_path):
    (tmp_path / ".ssh").mkdir()
    link(root / "kept", tmp_path / ".ssh")
    refusal = refuse(root, (root / "kept/config.txt").as_uri())
    assert refusal is not None
    assert refusal.reason is Reason.SECRET


@links
def test_a_workspace_that_is_a_link_has_the_rules_of_its_folder(root, tmp_path):
    other = tmp_path / "other"
    link(other, root)
    assert refuse(other, (other / "out/a.py").as_uri()) is not None
    assert refuse(other, (root / "out/a.py").as_uri()) is not None
    assert refuse(root, (other / "out/a.py").as_uri()) is not None
    assert refuse(other, (other / "sub/a.py").as_uri()) is None


@links
def test_loops_and_links_that_lead_nowhere_are_judged_by_name(root):
    link(root / "loop/a", root / "loop/b")
    link(root / "loop/b", root / "loop/a")
    link(root / "up", root)
    broken = link(root / "broken.py", root / "absent.py")
    assert refuse(root, (root / "loop/a/x.py").as_uri()) is None
    assert refuse(root, broken) is None
    assert refuse(root, (root / ("up/" * 60) / "sub/a.py").as_uri()) is None
    assert refuse(root, (root / ("up/" * 60) / "out/a.py").as_uri()) is not None
    assert refuse(root, link(root / "gone.py", root / ".env")) is not None
