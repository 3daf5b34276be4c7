"""URIs as clients spell them, and the paths and schemes that they mean."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.files.uris import VIEWS, disk_path, names_of, native_path, path_of, scheme_of

PARTS = st.text(
    st.characters(blacklist_categories=["Cs"], blacklist_characters="/\0\\"), min_size=1
)


@pytest.mark.parametrize(
    ("uri", "scheme", "path"),
    [
        ("file:///w/a%20b.py", "file", "/w/a b.py"),
        ("FILE:///w/a.py", "file", "/w/a.py"),
        ("file:/w/a.py", "file", "/w/a.py"),
        ("file://host/share/a.py", "file", "/share/a.py"),
        ("file:///c%3A/w/a.py", "file", "/c:/w/a.py"),
        ("file:///w/C#/a.py", "file", "/w/C#/a.py"),
        ("file:///w/%23a.py", "file", "/w/#a.py"),
        ("file:///w/x/../.env", "file", "/w/.env"),
        ("file:///w/x/..%2F.env", "file", "/w/.env"),
        ("file:///", "file", "/"),
        ("file://", "file", ""),
        ("file:", "file", ""),
        ("file://[x/y.py", "file", "/y.py"),
        ("untitled:Untitled-1", "untitled", "Untitled-1"),
        ("untitled:/w/new.py", "untitled", "/w/new.py"),
        ("vscode-notebook-cell:/w/a.ipynb#W0sZmlsZQ%3D%3D", "vscode-notebook-cell", "/w/a.ipynb"),
        ("vscode-remote://ssh-remote%2Bhost/w/a.py", "vscode-remote", "/w/a.py"),
        ("git:/w/a.py?%7B%22ref%22%3A%22~%22%7D", "git", "/w/a.py"),
        ("output:extension-output-1", "output", "extension-output-1"),
        ("C:\\w\\a.py", "", "C:/w/a.py"),
        ("/w/a%20b.py", "", "/w/a%20b.py"),
        ("", "", ""),
        ("%", "", "%"),
    ],
)
def test_scheme_and_path(uri, scheme, path):
    assert (scheme_of(uri), path_of(uri)) == (scheme, path)


def test_what_may_be_a_fragment_or_a_name_is_taken_for_both():
    assert names_of("file:///w/a.pem#L1") == ("/w/a.pem#L1", "/w/a.pem")
    assert names_of("file:///w/a.pem?x#y") == ("/w/a.pem?x#y", "/w/a.pem?x", "/w/a.pem")
    assert names_of("git:/w/a.pem?x#y") == ("/w/a.pem",)


@pytest.mark.parametrize(
    ("uri", "posix", "windows"),
    [
        ("file:///w/a.py", "/w/a.py", "/w/a.py"),
        ("file://localhost/w/a.py", "/w/a.py", "/w/a.py"),
        ("file:///c%3A/w/a.py", "/c:/w/a.py", "c:/w/a.py"),
        ("C:\\w\\a.py", None, "C:/w/a.py"),
        ("file://server/share/a.py", None, "//server/share/a.py"),
        ("vscode-remote://wsl%2Bubuntu/w/a.py", "/w/a.py", "/w/a.py"),
        ("vscode-notebook-cell://ssh/w/a.ipynb#W1", "/w/a.ipynb", "/w/a.ipynb"),
        ("sftp://server/w/a.py", None, None),
        ("untitled:Untitled-1", None, None),
        ("untitled:/w/new.py", "/w/new.py", "/w/new.py"),
        ("git:/w/a.py?x", None, None),
        ("file:///w/a%00b.py", None, None),
        ("a.py", None, None),
        ("file:", None, None),
        ("", None, None),
    ],
)
def test_a_document_lies_on_a_disk_of_this_machine_or_on_none(uri, posix, windows):
    assert native_path(uri, windows=False) == posix
    assert native_path(uri, windows=True) == windows


def test_views_lie_on_no_disk():
    assert all(disk_path(f"{scheme}:/w/a.py") is None for scheme in VIEWS)


@pytest.mark.skipif(os.name == "nt", reason="paths of other systems are as they are there")
@given(st.lists(PARTS, min_size=1, max_size=5))
def test_the_uri_of_a_path_gives_the_path(parts):
    path = Path(os.path.normpath("/" + "/".join(parts)))
    assert disk_path(path.as_uri()) == path


@given(st.one_of(st.text(), st.builds("{}:{}".format, st.sampled_from(["file", "x-y"]), st.text())))
def test_no_string_is_a_reason_to_fail(uri):
    assert path_of(uri) == names_of(uri)[0]
    assert "\\" not in path_of(uri)
    path = disk_path(uri)
    assert path is None or path.is_absolute()
