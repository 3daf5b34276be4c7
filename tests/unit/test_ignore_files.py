"""Ignore files in folders: which of them speak of a file, what wins, and what cannot be used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsp_server.files.ignore_files import MAX_BYTES, IgnoreFiles
from tests.git_ignore import deciding_rules, new_repository, set_home

FOLDERS = ("", "a", "a/b", "b")
LINES = ("a", "b", "a/", "/b", "b/a", "*", "!*", "!a", "!b/", "!/a/b", "**/c", "*.py", "!c.py", "")
PATHS = ("c.py", "a/c.py", "a/a", "a/b/c.py", "a/b/c", "b/c.py", "b/a/c.py", "c/b/a")


@pytest.fixture(scope="module", autouse=True)
def nothing_of_the_machine(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        set_home(patch, tmp_path_factory.mktemp("home"))
        yield


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = new_repository(tmp_path_factory.mktemp("git") / "repository")
    for name in FOLDERS:
        (folder / name).mkdir(exist_ok=True)
    return folder


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def ruling(path: Path, *folders: Path, gitignore: bool = True) -> str | None:
    """The rule that ignores the path, as `file:line`."""
    found = IgnoreFiles().ruling(path, folders, gitignore=gitignore)
    return f"{found.file.parent.name}/{found.file.name}:{found.rule.line}" if found else None


@settings(max_examples=150)
@given(
    files=st.fixed_dictionaries(
        {}, optional={name: st.lists(st.sampled_from(LINES), max_size=4) for name in FOLDERS}
    ),
    exclude=st.lists(st.sampled_from(LINES), max_size=2),
    own=st.lists(st.sampled_from(LINES), max_size=2),
)
def test_nested_files_decide_as_git_says(repository, files, exclude, own):
    for name in FOLDERS:
        (repository / name / ".gitignore").unlink(missing_ok=True)
        if name in files:
            write(repository / name / ".gitignore", "\n".join(files[name]))
    write(repository / ".git/info/exclude", "\n".join(exclude))
    home = repository.parent / "home"
    write(home / ".config/git/ignore", "\n".join(own))
    with pytest.MonkeyPatch.context() as patch:
        set_home(patch, home)
        told = deciding_rules(repository, PATHS, own=True)
        rulings = [IgnoreFiles().ruling(repository / path, [], gitignore=True) for path in PATHS]
    for path, found, expected in zip(PATHS, rulings, told, strict=True):
        if expected is not None:
            file, line = repository / expected[0], expected[1]
            text = file.read_text("utf-8").split("\n")[line - 1]
            expected = None if text.startswith("!") else (file, line)
        assert (None if found is None else (found.file, found.rule.line)) == expected, path


CONFIGURATIONS = {
    "none": {},
    "a path": {".gitconfig": "[user]\n\tname = a\n[core]\n\texcludesFile = ~/mine\n"},
    "other case": {".gitconfig": "[CORE]\nEXCLUDESFILE=~/mine\r\n"},
    "one line": {".gitconfig": "[core] autocrlf = true\n[core] excludesfile = ~/mine ; comment"},
    "quotes": {".gitconfig": '[core]\nexcludesFile = "~/my own" # comment\n'},
    "escapes": {".gitconfig": '[core]\nexcludesFile = ~/my\\t"#own"'},
    "continued": {".gitconfig": "[core]\nexcludesFile = \\\n  ~/mi\\\nne\n"},
    "byte order mark": {".gitconfig": "\ufeff[core]\nexcludesFile = ~/mine\n"},
    "the last": {".gitconfig": "[core]\nexcludesFile = ~/my own\nexcludesFile = ~/mine\n"},
    "elsewhere": {".gitconfig": '[core "x"]\nexcludesFile = ~/mine\n[corex]\nexcludesFile = x'},
    "a comment": {".gitconfig": "[core]\n# excludesFile = ~/mine\n;excludesFile = ~/mine\n"},
    "empty": {".gitconfig": "[core]\nexcludesFile =\n"},
    "absent": {".gitconfig": "[core]\nexcludesFile = ~/absent\n"},
    "the other place": {".config/git/config": "[core]\nexcludesFile = ~/mine\n"},
    "both places": {
        ".config/git/config": "[core]\nexcludesFile = ~/my own\n",
        ".gitconfig": "[core]\nexcludesFile = ~/mine\n",
    },
}
"""Files in the home folder."""


@pytest.mark.parametrize("files", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_what_ones_own_git_ignores_everywhere_is_found_as_git_finds_it(
    tmp_path, monkeypatch, files
):
    home, repository = tmp_path / "home", new_repository(tmp_path / "repository")
    set_home(monkeypatch, home)
    names = {".config/git/ignore": "a", "mine": "b", "my own": "c", "my\t#own": "d"}
    for name, ignored in names.items():
        write(home / name, f"# one's own\n{ignored}.py\n")
    for name, text in files.items():
        write(home / name, text)
    paths = [f"{name}.py" for name in names.values()]
    for path, expected in zip(paths, deciding_rules(repository, paths, own=True), strict=True):
        found = IgnoreFiles().ruling(repository / path, [], gitignore=True)
        assert (None if found is None else (str(found.file), found.rule.line)) == expected
        assert ruling(repository / path, gitignore=False) is None


def test_what_ones_own_git_ignores_counts_in_repositories_only_and_is_read_anew(
    tmp_path, monkeypatch
):
    home, repository = tmp_path / "home", new_repository(tmp_path / "repository")
    set_home(monkeypatch, home)
    write(home / ".config/git/ignore", "a.py\n")
    files = IgnoreFiles()

    def is_ignored(path: Path) -> bool:
        return files.ruling(path, [tmp_path], gitignore=True) is not None

    assert is_ignored(repository / "a.py")
    assert not is_ignored(tmp_path / "a.py")
    config = write(home / ".gitconfig", f"[core]\nexcludesFile = {home.as_posix()}/mine\n")
    assert not is_ignored(repository / "a.py")
    write(home / "mine", "b.py\n")
    assert is_ignored(repository / "b.py")
    config.unlink()
    assert is_ignored(repository / "a.py")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "absent"))
    assert not is_ignored(repository / "a.py")


def test_our_own_file_goes_before_gits_whatever_the_folder(tmp_path):
    write(tmp_path / ".gitignore", "*.log\nbuild/\n")
    write(tmp_path / "sub/.gitignore", "*.py\n")
    write(tmp_path / ".tabaheadignore", "!keep.log\n!build/\nprivate/\nsub/*\n!sub/b.py\n")
    cases = {
        "a.log": f"{tmp_path.name}/.gitignore:1",
        "keep.log": None,
        "build/a.c": None,
        "build/a.log": None,
        "private/x/a.c": f"{tmp_path.name}/.tabaheadignore:3",
        "sub/a.py": f"{tmp_path.name}/.tabaheadignore:4",
        "sub/b.py": None,
        "a.c": None,
    }
    assert {name: ruling(tmp_path / name, tmp_path) for name in cases} == cases


def test_a_folder_that_ours_ignores_stays_ignored_below(tmp_path):
    write(tmp_path / ".tabaheadignore", "a/\n!a/b.py\n")
    assert ruling(tmp_path / "a/b.py", tmp_path) == f"{tmp_path.name}/.tabaheadignore:1"


def test_gitignore_counts_only_where_it_is_to(tmp_path):
    write(tmp_path / ".gitignore", "*.py\n")
    write(tmp_path / ".tabaheadignore", "*.c\n")
    assert ruling(tmp_path / "a.py", tmp_path, gitignore=False) is None
    assert ruling(tmp_path / "a.c", tmp_path, gitignore=False) is not None


def test_rules_count_from_the_workspace_folder_or_the_repository_further_up(tmp_path):
    write(tmp_path / ".gitignore", "*.a\n")
    write(tmp_path / "repo/.gitignore", "*.b\n")
    write(tmp_path / "repo/space/.gitignore", "*.c\n")
    (tmp_path / "repo/.git").mkdir()
    space = tmp_path / "repo/space"
    for folders in ([], [space], [tmp_path / "elsewhere"], [space, tmp_path / "repo"]):
        assert ruling(space / "x.a", *folders) is None
        assert ruling(space / "x.b", *folders) == "repo/.gitignore:1"
        assert ruling(space / "x.c", *folders) == "space/.gitignore:1"
    assert ruling(space / "x.a", tmp_path) == f"{tmp_path.name}/.gitignore:1"


def test_a_file_in_no_workspace_and_no_repository_has_its_own_folder(tmp_path):
    write(tmp_path / ".tabaheadignore", "a.py\nsub/a.py\n")
    assert ruling(tmp_path / "a.py") is not None
    assert ruling(tmp_path / "sub/a.py") is None


def test_a_work_tree_heeds_the_exclude_file_of_its_repository(tmp_path):
    write(tmp_path / "main/.git/info/exclude", "*.py\n")
    write(tmp_path / "main/.git/worktrees/w/commondir", "../..\n")
    write(tmp_path / "tree/.git", f"gitdir: {tmp_path}/main/.git/worktrees/w\n")
    write(tmp_path / "module/.git", "gitdir: ../main/.git\n")
    assert ruling(tmp_path / "tree/a.py") == "info/exclude:1"
    assert ruling(tmp_path / "module/a.py") == "info/exclude:1"


@pytest.mark.parametrize("link", ["", "nothing", "gitdir: absent", "gitdir: \0", "gitdir: ../tree"])
def test_a_git_file_that_leads_nowhere_is_no_reason_to_fail(tmp_path, link):
    write(tmp_path / "tree/.git", link)
    assert ruling(tmp_path / "tree/a.py") is None


def test_a_changed_file_is_read_again_and_an_unchanged_one_is_not(tmp_path, monkeypatch):
    file = write(tmp_path / ".tabaheadignore", "a.py\n")
    files, reads = IgnoreFiles(), list[Path]()
    read = Path.read_bytes

    def counted(path: Path) -> bytes:
        reads.append(path)
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", counted)

    def is_ignored(name: str) -> bool:
        return files.ruling(tmp_path / name, [tmp_path], gitignore=True) is not None

    assert (is_ignored("a.py"), is_ignored("b.py"), is_ignored("a.py")) == (True, False, True)
    assert reads == [file]
    write(file, "b.py\n")
    os.utime(file, ns=(1, 1))
    assert (is_ignored("a.py"), is_ignored("b.py")) == (False, True)
    file.unlink()
    assert not is_ignored("b.py")
    assert not is_ignored("b.py")
    assert len(reads) == 2
    assert files.num_changes == 3


def test_files_that_cannot_be_used_cost_one_warning_and_no_answer(tmp_path, caplog):
    for name, data in {
        "binary": b"*.py\n\0\n",
        "huge": b"#" * MAX_BYTES + b"\n*.py",
        "locked": b"*.py",
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / ".gitignore").write_bytes(data)
    (tmp_path / "locked/.gitignore").chmod(0)
    (tmp_path / "folder/.gitignore").mkdir(parents=True)
    files = IgnoreFiles()
    may_read = os.access(tmp_path / "locked/.gitignore", os.R_OK)  # as the superuser may
    for name in ("binary", "huge", "locked", "folder"):
        for _ in range(2):
            ignored = files.ruling(tmp_path / name / "a.py", [tmp_path], gitignore=True)
            assert (ignored is not None) == (name == "locked" and may_read)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == (2 if may_read else 3)
    assert all(".gitignore cannot be used" in message for message in told)
    assert "not text" in told[0]
    assert str(MAX_BYTES) in told[1]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_in_a_files_place_is_not_waited_for(tmp_path, caplog):
    os.mkfifo(tmp_path / ".gitignore")
    assert ruling(tmp_path / "a.py", tmp_path) is None
    assert "ordinary file" in caplog.text


def test_files_are_kept_in_bounded_number(tmp_path):
    files = IgnoreFiles(max_files=3)
    for n in range(10):
        folder = tmp_path / str(n)
        write(folder / ".gitignore", "*.py\n")
        assert files.ruling(folder / "a.py", [tmp_path], gitignore=True) is not None
    assert len(files) <= 3


@pytest.mark.parametrize("name", ["x" * 5000, "a/" * 1500 + "a.py", "\udcff.py", "a\nb.py"])
def test_odd_paths_are_judged_and_never_fail(tmp_path, name):
    write(tmp_path / ".gitignore", "*.py\n")
    expected = None if name.startswith("x") else f"{tmp_path.name}/.gitignore:1"
    assert ruling(tmp_path / name, tmp_path) == expected
