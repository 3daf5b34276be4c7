"""Documents that are not completed: secrets, excluded, too large, binary; and light imports."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.completion import Reason, Snapshot
from lsp_server.files.exclusion import (
    has_longer_line,
    has_more_lines,
    matches,
    refuse_document,
    refuse_name,
)
from lsp_server.settings.tree import Settings


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
    *("file://[x/.env", "file:///w/a#b/.env", "file:///w/server.pem#L1", "file:///w/.env?x"),
    *("vscode-notebook-cell:/w/.aws/a.ipynb#W0", "file:///w/x/..%2F.env", "file:///w/server.pem."),
    *("file:///w/secrets.yml", "file:///w/.bash_history", "//server/share/.env", "output:/w/.env"),
    *("file:///w/terraform.tfstate.backup", "file:///w/a.tfstate.1700000000.backup"),
    *("file:///w/dev.auto.tfvars.json", "file:///w/.dev.vars", "file:///w/.dev.vars.staging"),
    *("file:///w/client_secret_1.apps.googleusercontent.com.json", "file:///w/Passwords.txt"),
    *("file:///home/x/.vault-token", "file:///w/.vault_pass.txt", "file:///home/x/.my.cnf"),
)
ORDINARY = (
    *("file:///w/main.py", "file:///w/environment.py", "file:///w/keys.py", "untitled:Untitled-1"),
    *("file:///w/envoy.yaml", "file:///", "", "file:///w/secrets.py", "file:///w/monkey.ts"),
    *("file://[x/y.py", "file:///w/credentials.py", "file:///w/secrets_test.go", "a"),
    *("file:///w/password.py", "file:///w/locales/passwords.yml", "file:///w/client_secret.ts"),
    *("vscode-notebook-cell:/w/a.ipynb#W0", "file://server/share/a.py", "C:\\w\\a.py"),
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


@pytest.mark.parametrize("scheme", ["output", "git", "search-editor", "gitlens", "jdt", "OUTPUT"])
def test_what_editors_only_show_is_not_completed(scheme):
    assert excluded(f"{scheme}:/w/a.py?x", Settings()) is Reason.EXCLUDED


def test_cells_are_excluded_by_the_path_of_their_notebook():
    settings = Settings(exclude=("drafts/*.ipynb",))
    for scheme in ("vscode-notebook-cell", "nb-cell"):
        assert excluded(f"{scheme}:/w/drafts/a.ipynb#W1", settings) is Reason.EXCLUDED
        assert excluded(f"{scheme}:/w/final/a.ipynb#W1", settings) is None


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
    assert judge("x = 1", "markdown", "untitled:Untitled-1") is Reason.EXCLUDED


@given(st.text("ab\n\r", max_size=40), st.integers(1, 12))
def test_long_texts_and_long_lines_are_found_without_reading_all(text, limit):
    lines = re.split("\r\n|\r|\n", text)
    assert has_longer_line(text, limit) == (max(map(len, lines)) > limit)
    one_kind = text.replace("\r", "\n")
    assert has_more_lines(one_kind, limit) == (one_kind.count("\n") + 1 > limit)


def test_minified_and_endless_files_are_too_large_and_the_setting_is_named():
    def judge(text, **limits):
        return refuse_document(
            Snapshot("file:///w/a.js", 1, "javascript", text), Settings(**limits)
        )

    assert judge("x\n" * 99_999) is None
    assert judge("x;" * 5_000) is None
    for text, name in (
        ("x\n" * 100_000, "max_lines"),
        ("x;" * 5_001, "max_line_length"),
        ("x" * 2_000_001, "max_file_bytes"),
    ):
        refusal = judge(text)
        assert refusal is not None
        assert refusal.reason is Reason.TOO_LARGE
        assert f"`{name}`" in (refusal.message or "")
        assert judge(text, max_lines=10**6, max_line_length=10**7, max_file_bytes=10**7) is None


def test_a_text_with_a_private_key_is_secret_whatever_its_name():
    key = "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj" * 2
    for uri in ("file:///w/a.py", "untitled:Untitled-1"):
        refusal = refuse_document(Snapshot(uri, 1, "python", f"x = 1\n{key}"), Settings())
        assert refusal is not None
        assert refusal.reason is Reason.SECRET


def test_the_completer_needs_nothing_heavy():
    """Imported before `initialize` is answered, so neither arrays nor protocol may come with it."""
    code = (
        "import sys; import lsp_server.completer, lsp_server.backend.scripted;"
        " import lsp_server.files.exclusion;"
        " heavy = {'numpy', 'onnxruntime', 'tokenizers', 'onnx', 'pygls', 'lsprotocol'};"
        " print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
