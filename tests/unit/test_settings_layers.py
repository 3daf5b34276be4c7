"""Settings: which layer wins, what an untrusted one may do, and what is said of faults."""

from __future__ import annotations

import dataclasses
import os

import pytest

from lsp_server.completion import Mode
from lsp_server.errors import SettingsError
from lsp_server.settings.layers import MAX_FILE_BYTES, WORKSPACE_FILE, load
from lsp_server.settings.tree import WORKSPACE_KEYS, Settings, describe


@pytest.fixture
def workspace(tmp_path):
    def write(toml):
        (tmp_path / WORKSPACE_FILE).write_text(toml, "utf-8")
        return tmp_path

    return write


def user_file(tmp_path, toml):
    path = tmp_path / "settings.toml"
    path.write_text(toml, "utf-8")
    return path


def test_without_layers_the_defaults_hold():
    assert load().settings == Settings()
    assert load().warnings == ()


def test_each_layer_is_over_the_next(tmp_path):
    layers = {
        "user_file": user_file(tmp_path, "max_tokens = 11\n"),
        "initialization": {"maxTokens": 12},
        "section": {"maxTokens": 13},
        "command_line": {"max_tokens": 14},
    }
    for number in (14, 13, 12, 11):
        assert load(**layers).settings.max_tokens == number
        layers.popitem()


def test_what_one_layer_leaves_out_comes_from_the_next(tmp_path):
    path = user_file(tmp_path, "seed = 3\n[engine]\nthreads = 2\nprovider = 'cpu'\n")
    settings = load(user_file=path, section={"engine": {"threads": 1}}).settings
    assert (settings.seed, settings.engine.threads, settings.engine.provider) == (3, 1, "cpu")


def test_clients_may_write_camel_case_dots_and_their_section():
    for values in (
        {"deadlineMs": {"automatic": 50}, "engine": {"kvMemoryMb": 64}},
        {"deadline_ms.automatic": 50, "engine.kv_memory_mb": 64},
        {"tabahead": {"deadlineMs": {"automatic": 50}, "engine": {"kvMemoryMb": 64}}},
    ):
        loaded = load(initialization=values)
        assert loaded.settings.deadline_ms.automatic == 50
        assert loaded.settings.engine.kv_memory_mb == 64
        assert loaded.warnings == ()


def test_what_copilot_clients_send_is_no_unknown_setting():
    names = ("editorInfo", "editorPluginInfo", "networkProxy", "copilotCapabilities")
    extras = {name: {"name": "x"} for name in names}
    assert load(initialization=extras).warnings == ()


def test_an_unknown_key_gets_the_nearest_name():
    loaded = load(section={"maxTokns": 5, "engine": {"thread": 1}, "zzz": 1})
    assert loaded.settings == Settings()
    assert "`max_tokens`" in loaded.warnings[0]
    assert "`engine.threads`" in loaded.warnings[1]
    assert "README" in loaded.warnings[2]


def test_a_key_without_its_group_gets_its_whole_name():
    for name, key in (("threads", "engine.threads"), ("automatic", "deadline_ms.automatic")):
        (warning,) = load(section={name: 1}).warnings
        assert f"did you mean `{key}`?" in warning


def test_a_file_with_a_byte_order_mark_is_read_as_one_without(tmp_path):
    path = user_file(tmp_path, "\ufeffmax_tokens = 11\n")
    assert load(user_file=path).settings.max_tokens == 11
    assert load(user_file=path).warnings == ()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("max_tokens", 0),
        ("max_tokens", "64"),
        ("max_tokens", True),
        ("max_tokens", 1.5),
        ("temperature", float("nan")),
        ("temperature", -1),
        ("strict", 1),
        ("mode", "word"),
        ("mode", ["line"]),
        ("model", ""),
        ("sources", "lookup,magic"),
        ("exclude", {"a": 1}),
        ("exclude", [1]),
        ("exclude", ["*.md"] * 501),
        ("log_level", "loud"),
        ("engine.threads", None),
    ],
)
def test_a_bad_value_leaves_the_default_and_says_so(key, value):
    loaded = load(section={key: value})
    assert loaded.settings == Settings()
    (warning,) = loaded.warnings
    assert f"`{key}`" in warning


def test_a_bad_value_does_not_hide_a_good_one_below():
    loaded = load(initialization={"seed": 4}, section={"seed": "x", "strict": True})
    assert (loaded.settings.seed, loaded.settings.strict) == (4, True)


def test_a_fault_on_the_command_line_is_an_error():
    for values in ({"max_tokens": 0}, {"max_tokn": 5}):
        with pytest.raises(SettingsError, match="max_tok"):
            load(command_line=values)


def test_sources_may_be_a_string_or_none():
    assert load(command_line={"sources": "lookup, draft"}).settings.sources == ("lookup", "draft")
    assert load(command_line={"sources": "none"}).settings.sources == ()
    assert load(section={"sources": ["none"]}).settings.sources == ()


def test_a_workspace_may_not_choose_what_runs(workspace):
    """A cloned repository must not make the editor load its own model or libraries."""
    toml = (
        "model = '/tmp/evil'\nstrict = true\nsources = ['none']\nlog_level = 'debug'\n"
        "[engine]\nthreads = 64\nprovider = 'x'\nkv_memory_mb = 1000\nslot_tokens = 9999\n"
    )
    loaded = load(workspaces=[workspace(toml)])
    assert loaded.settings == Settings()
    assert len(loaded.warnings) == 8
    assert all("not trusted" in warning for warning in loaded.warnings)


def test_a_workspace_may_only_lower_limits(workspace, tmp_path):
    root = workspace("max_tokens = 8\nprompt_tokens = 9999\n[deadline_ms]\nautomatic = 99999\n")
    loaded = load(workspaces=[root], user_file=user_file(tmp_path, "max_tokens = 10"))
    assert loaded.settings.max_tokens == 8
    assert loaded.settings.prompt_tokens == Settings().prompt_tokens
    assert loaded.settings.deadline_ms == Settings().deadline_ms


def test_each_folder_of_a_workspace_may_narrow_and_the_first_chooses(tmp_path):
    for name, toml in {
        "a": "mode = 'line'\nmax_tokens = 20\nexclude = ['a/']\n",
        "b": "mode = 'block'\nmax_tokens = 10\nmax_lines = 9\nexclude = ['b/']\n",
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / WORKSPACE_FILE).write_text(toml, "utf-8")
    settings = load(workspaces=[tmp_path / "a", tmp_path / "b"]).settings
    assert settings.mode is Mode.LINE
    assert (settings.max_tokens, settings.max_lines) == (10, 9)
    assert set(settings.exclude) == {"a/", "b/"}


def test_a_workspace_may_exclude_and_choose_the_mode(workspace, tmp_path):
    root = workspace("mode = 'line'\nexclude = ['*.md', 'a/']\nlanguages_off = ['xml']\n")
    path = user_file(tmp_path, "exclude = ['*.min.js', '*.md']\n")
    settings = load(workspaces=[root], user_file=path, section={"exclude": ["x"]}).settings
    assert settings.mode is Mode.LINE
    assert settings.exclude == ("*.min.js", "*.md", "a/", "x")
    assert settings.languages_off == ("xml",)


def test_files_that_cannot_be_used_are_named(workspace, tmp_path):
    loaded = load(workspaces=[workspace("a = [")], user_file=tmp_path / "absent.toml")
    assert loaded.settings == Settings()
    (warning,) = loaded.warnings
    assert str(tmp_path / WORKSPACE_FILE) in warning
    (tmp_path / "binary.toml").write_bytes(b"\xff\x00")
    assert len(load(user_file=tmp_path / "binary.toml").warnings) == 1


@pytest.mark.parametrize("text", ["a = " + "[" * 20_000, "#" * (MAX_FILE_BYTES + 1)])
def test_a_file_made_to_hold_up_the_server_is_named(workspace, text):
    (warning,) = load(workspaces=[workspace(text)]).warnings
    assert WORKSPACE_FILE in warning


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_in_a_files_place_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / WORKSPACE_FILE)
    assert len(load(workspaces=[tmp_path]).warnings) == 1


def test_every_setting_has_a_row_with_a_meaning():
    rows = {row.key: row for row in describe()}
    assert set(rows) >= WORKSPACE_KEYS
    assert {key.split(".")[0] for key in rows} == {f.name for f in dataclasses.fields(Settings)}
    assert all(row.doc.endswith((".", "`")) and "\n" not in row.doc for row in rows.values())
    assert rows["max_tokens"].default == "64"
    assert rows["mode"].type == "line | block | auto"


def test_every_default_is_a_value_that_may_be_set():
    flat = {}
    for row in describe():
        value = Settings()
        for part in row.key.split("."):
            value = getattr(value, part)
        flat[row.key] = value.value if isinstance(value, Mode) else value
    assert load(command_line=flat).settings == Settings()
