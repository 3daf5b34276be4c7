"""A whole server in a workspace: what it leaves alone and says so, and settings that change."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.lsp_client import ServerProcess
from tests.tiny_model import build_tiny_model

TOKEN = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
KEY = "-----BEGIN PRIVATE " + "KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj" * 4
TEXT = f'marker_in_code = "{TOKEN}"\nx = '


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.json"
    path.write_text(json.dumps([{"after": "", "text": "one two three four"}]), "utf-8")
    return f"scripted:{path}"


@pytest.fixture
def space(tmp_path: Path) -> Path:
    space = tmp_path.resolve() / "space"
    (space / "sub").mkdir(parents=True)
    (space / ".gitignore").write_text("*.gen.py\n!kept.gen.py\n", "utf-8")
    (space / "sub/.tabaheadignore").write_text("\nprivate_*\n", "utf-8")
    return space


def configure(client: ServerProcess, **section: Any) -> None:
    client.notify("workspace/didChangeConfiguration", {"settings": {"tabahead": section}})


def shown(client: ServerProcess, uri: str, text: str = TEXT, language: str = "python") -> str:
    """The text shown at the end of a document, or the reason and the message in place of it."""
    client.open(uri, text, language=language)
    lines = text.split("\n")
    client.complete(uri, len(lines) - 1, len(lines[-1]))
    told = client.explain(uri)
    client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
    return str(told["text"]) or f"{told['reason']}: {told.get('message')}"


def test_what_is_left_alone_is_told_with_its_rule(script: str, space: Path) -> None:
    with ServerProcess("--model", script) as client:
        client.initialize(workspaceFolders=[{"uri": space.as_uri(), "name": "space"}])
        ignored = f"excluded: Ignored by line 1 of {space / '.gitignore'} (`*.gen.py`)."
        private = f"line 2 of {space / 'sub/.tabaheadignore'} (`private_*`)"
        assert shown(client, (space / "a.py").as_uri()) == "one two three four"
        assert shown(client, (space / "kept.gen.py").as_uri()) == "one two three four"
        assert shown(client, (space / "sub/a.gen.py").as_uri()) == ignored
        assert private in shown(client, (space / "sub/private_a.py").as_uri())
        cell = f"vscode-notebook-cell:{space.as_posix()}/sub/private_a.ipynb#W0sZmlsZQ%3D%3D"
        assert private in shown(client, cell)
        assert shown(client, cell.replace("private_", "")) == "one two three four"
        assert shown(client, "untitled:Untitled-1") == "one two three four"
        for scheme in ("output", "git", "search-editor"):
            assert shown(client, f"{scheme}:/a.py").startswith("excluded: ")
        assert shown(client, (space / ".env").as_uri()).startswith("secret: ")
        assert shown(client, (space / "b.py").as_uri(), f"{KEY}\nx = ").startswith("secret: ")
        assert shown(client, (space / "c.js").as_uri(), "x;" * 6000).startswith("too-large: ")
        assert client.stop() == 0


@pytest.mark.skipif(os.name == "nt", reason="links need a right there that few have")
def test_a_link_to_a_secret_is_secret(script: str, space: Path) -> None:
    (space / "keys.pem").write_text("x", "utf-8")
    (space / "notes.txt").symlink_to(space / "keys.pem")
    with ServerProcess("--model", script) as client:
        client.initialize(rootUri=space.as_uri())
        told = shown(client, (space / "notes.txt").as_uri())
        assert told.startswith(f"secret: It is a link to {space / 'keys.pem'}.")
        assert client.stop() == 0


def test_rules_and_settings_that_change_are_heeded_without_a_restart(
    script: str, space: Path
) -> None:
    uri = (space / "a.gen.py").as_uri()
    with ServerProcess("--model", script) as client:
        client.initialize(rootUri=space.as_uri())
        assert shown(client, uri).startswith("excluded: ")
        configure(client, respect_gitignore=False)
        assert shown(client, uri) == "one two three four"
        configure(client, exclude=["*.gen.py"])
        assert "`exclude` has `*.gen.py`" in shown(client, uri)
        configure(client, languagesOff=["python"])
        assert "`languages_off` has `python`" in shown(client, (space / "a.py").as_uri())
        configure(client, max_file_bytes=10)
        assert shown(client, (space / "a.py").as_uri()).startswith("too-large: ")
        configure(client)
        assert shown(client, (space / "a.py").as_uri()) == "one two three four"
        (space / ".gitignore").write_text("other\n", "utf-8")
        while shown(client, uri) != "one two three four":
            pass  # what the disk has said holds for a second
        removed = {"uri": space.as_uri(), "name": ""}
        configure(client, exclude=["b.py"])
        (space / "tabahead.toml").write_text("languages_off = ['markdown']\n", "utf-8")
        for event in ({"added": [], "removed": [removed]}, {"added": [removed], "removed": []}):
            client.notify("workspace/didChangeWorkspaceFolders", {"event": event})
        assert "languages_off" in shown(client, (space / "a.md").as_uri(), language="markdown")
        assert client.stop() == 0


def test_what_the_second_folder_of_a_workspace_excludes_is_left_alone_too(
    script: str, space: Path
) -> None:
    for name in ("one", "two"):
        (space / name).mkdir()
        (space / name / "tabahead.toml").write_text(f"exclude = ['{name}.py']\n", "utf-8")
    with ServerProcess("--model", script) as client:
        folders = [{"uri": (space / name).as_uri(), "name": name} for name in ("one", "two")]
        client.initialize(workspaceFolders=folders)
        for name in ("one", "two"):
            uri = (space / name / f"{name}.py").as_uri()
            assert shown(client, uri) == f"excluded: The setting `exclude` has `{name}.py`."
        (space / "two/tabahead.toml").unlink()
        while shown(client, uri) != "one two three four":
            pass  # the files are looked at every two seconds
        assert client.stop() == 0


def test_a_settings_file_that_is_written_is_heeded_while_somebody_types(
    script: str, space: Path, tmp_path: Path
) -> None:
    config = tmp_path / "home/config"
    config.mkdir(parents=True)
    uri = (space / "a.py").as_uri()
    with ServerProcess("--model", script, env={"TABAHEAD_HOME": str(tmp_path / "home")}) as client:
        client.initialize(rootUri=space.as_uri())
        assert shown(client, uri) == "one two three four"
        for file in (space / "tabahead.toml", config / "settings.toml"):
            file.write_text("languages_off = ['python']\nmodle = 1\n", "utf-8")
            while shown(client, uri) == "one two three four":
                pass  # the files are looked at every two seconds
            told = client.notification("window/showMessage")
            assert f"Unknown setting `modle` in {file}; did you mean `mode`" in told["message"]
            file.unlink()
            while shown(client, uri) != "one two three four":
                pass
        assert client.stop() == 0


def test_no_text_of_a_document_is_logged_at_any_level(script: str, space: Path) -> None:
    with ServerProcess("--model", script) as client:
        client.initialize(initializationOptions={"log_level": "debug"}, rootUri=space.as_uri())
        for name in ("a.py", "a.gen.py", ".env"):
            shown(client, (space / name).as_uri())
        shown(client, (space / "k.py").as_uri(), f"{TEXT}\n{KEY}")
        client.change((space / "a.py").as_uri(), 2, TEXT)
        messages = json.dumps([m for m in client.messages if "id" not in m])
        assert client.stop() == 0
    for text in (client.stderr(), messages):
        assert not any(secret in text for secret in (TOKEN, "marker_in_code", "MIIEvQ"))


def test_another_model_is_taken_without_a_restart_and_a_missing_one_is_not(
    tmp_path: Path, space: Path
) -> None:
    for n in (0, 1):
        build_tiny_model(tmp_path / f"model{n}", seed=n)

    def ready(client: ServerProcess) -> None:
        """Wait until this one is in use."""
        client.wait_for(lambda m: (m.get("params") or {}).get("message") == "tabahead: ready", 60)

    home = {"TABAHEAD_HOME": str(tmp_path / "home")}
    with ServerProcess("--stdio", env=home) as client:
        options = {"model": str(tmp_path / "model0"), "status": True}
        client.initialize(initializationOptions=options, rootUri=space.as_uri())
        ready(client)
        told = client.wait_for(lambda m: "tiny-0" in str(m.get("params")))
        assert told["params"]["kind"] == "normal"
        uri = (space / "a.py").as_uri()
        client.open(uri, "def total(values):\n    ")
        configure(client, model=str(tmp_path / "model1"))
        asked = []
        while not any("tiny-1" in str(m.get("params")) for m in client.messages):
            client.complete(uri, 1, 4)
            asked.append(client.explain(uri)["reason"])
        assert asked
        assert not {"model-loading", "model-missing", "engine-error"} & set(asked)
        ready(client)
        configure(client, model=str(tmp_path / "absent"))
        told = client.notification("window/showMessage")
        assert told["message"].endswith("Until then the model in use stays.")
        client.complete(uri, 1, 4, kind=1)
        assert client.explain(uri)["reason"] != "model-missing"
        assert client.stop() == 0
