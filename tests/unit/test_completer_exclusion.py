"""Documents that are not completed: secrets, excluded, too large, binary; and light imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lsp_server.completion import Reason, Snapshot
from lsp_server.exclusion import matches, path_of, refuse_document, refuse_name
from lsp_server.settings import Settings


def excluded(uri: str, settings: Settings) -> Reason | None:
    refusal = refuse_name(uri, settings)
    return None if refusal is None else refusal.reason


SECRETS = (
    *("file:///w/.env", "file:///w/.env.local", "file:///w/prod.env", "/home/x/.npmrc"),
    *("file:///w/server.pem", "file:///w/SERVER.KEY", "file:///w/id_rsa", "/w/id_ed25519.pub"),
    *("file:///w/credentials", "file:///w/credentials.json", "C:\\w\\.netrc"),
    *("file:///home/x/.ssh/config", "file:///home/x/.aws/config", "file:///c%3A/w/%2Eenv"),
    *("file:///w/gcp-credentials-1.json", "untitled:.env", "vscode-remote://h/w/.env"),
    *("git:/w/server.pem?%7B%22ref%22%3A%22~%22%7D", "file:/w/%2Eenv", "nb-cell:/w/a.pem#W0"),
    "file://[x/.env",
)
ORDINARY = (
    *("file:///w/main.py", "file:///w/environment.py", "file:///w/keys.py", "untitled:Untitled-1"),
    *("file:///w/envoy.yaml", "file:///", "", "file:///w/secrets.py", "file:///w/monkey.ts"),
    "file://[x/y.py",
)


@pytest.mark.parametrize("uri", SECRETS)
def test_files_for_keys_and_passwords_are_secret(uri):
    assert excluded(uri, Settings()) is Reason.SECRET


@pytest.mark.parametrize("uri", ORDINARY)
def test_ordinary_files_are_not(uri):
    assert excluded(uri, Settings()) is None


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.md", "/w/docs/a.md", True),
        ("*.md", "/w/docs/a.mdx", False),
        ("docs/", "/w/docs/a/b.py", True),
        ("docs/", "/w/mydocs/b.py", False),
        ("**/gen/*.py", "/w/x/gen/b.py", True),
        ("src/**/b.py", "/w/src/b.py", True),
        ("src/**/b.py", "/w/src/x/y/b.py", True),
        ("./a.py", "/w/a.py", True),
        ("/w/a.py", "/w/a.py", True),
        ("a.py", "/w/ba.py", False),
    ],
)
def test_globs_mean_what_users_expect(pattern, path, expected):
    assert matches(path, pattern) is expected


def test_an_excluded_file_is_told_apart_from_a_secret():
    settings = Settings(exclude=("*.md", "*.env"))
    assert excluded("file:///w/a.md", settings) is Reason.EXCLUDED
    assert excluded("file:///w/a.env", settings) is Reason.SECRET


def test_uris_and_paths_name_the_same_file():
    assert path_of("file:///c%3A/w/a%20b.py") == "/c:/w/a b.py"
    assert path_of("C:\\w\\a.py") == "C:/w/a.py"


def test_documents_are_judged_by_language_size_and_content():
    settings = Settings(max_file_bytes=10, languages_off=("markdown",))

    def judge(text, language="python", uri="file:///w/a"):
        refusal = refuse_document(Snapshot(uri, 1, language, text), settings)
        return None if refusal is None else refusal.reason

    assert judge("x = 1") is None
    assert judge("x = 1", "markdown") is Reason.EXCLUDED
    assert judge("x" * 10) is None
    assert judge("x" * 11) is Reason.TOO_LARGE
    assert judge("漢" * 4) is Reason.TOO_LARGE
    assert judge("\ud800" * 3) is None
    assert judge("a\0b") is Reason.BINARY
    assert judge("a\0b", uri="file:///w/.env") is Reason.SECRET


def test_the_completer_needs_nothing_heavy():
    """Imported before `initialize` is answered, so neither arrays nor protocol may come with it."""
    code = (
        "import sys; import lsp_server.completer, lsp_server.scripted, lsp_server.exclusion;"
        " heavy = {'numpy', 'onnxruntime', 'tokenizers', 'onnx', 'pygls', 'lsprotocol'};"
        " print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
