"""`python -m models`: exit codes, sentences and JSON."""

import argparse
import json
import subprocess
import sys
import textwrap

import psutil
import pytest

from lsp_server.engine.manifest import MANIFEST_NAME
from lsp_server.errors import FetchError
from models import __main__ as command
from models import fetch as fetching
from models import store
from models.fetch import Fetched

NAME = "smollm2-135m"
BUILD = "c" * 16


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TABAHEAD_HOME", str(tmp_path / "home"))


def put_build(text="{"):
    folder = store.model_root(NAME) / BUILD
    folder.mkdir(parents=True)
    (folder / MANIFEST_NAME).write_text(text)
    store.point(NAME, BUILD)
    return folder


def test_list_as_json_is_one_object_and_names_the_default(capsys):
    assert command.main(["list", "--json"]) == 0
    out, err = capsys.readouterr()
    rows = json.loads(out)["models"]
    assert [row["name"] for row in rows if row["default"]] == [NAME]
    assert rows[0]["state"] == "not fetched"
    assert err == ""


def test_list_tells_a_broken_model(capsys):
    folder = put_build()
    assert command.main(["list"]) == 0
    out = capsys.readouterr().out
    assert "broken" in out
    assert str(folder) in out


@pytest.mark.parametrize("arguments", [["path", NAME], ["verify", NAME], ["fetch", "smolm2"]])
def test_an_expected_failure_is_one_sentence_on_stderr_and_exit_1(capsys, arguments):
    assert command.main(arguments) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert NAME in err


def test_path_prints_the_folder_alone(capsys):
    folder = put_build()
    assert command.main(["path", NAME]) == 0
    assert capsys.readouterr().out == f"{folder}\n"


def test_fetch_shows_each_stage_and_where_the_model_is(capsys, monkeypatch, tmp_path):
    def fetch(name, *, from_file, weights, progress):
        for done in range(3):
            progress("download", done, 2)
        progress("weights", 1, 1)
        return Fetched(tmp_path, fresh=True)

    monkeypatch.setattr(fetching, "fetch", fetch)
    assert command.main(["fetch", NAME]) == 0
    out, err = capsys.readouterr()
    assert out == f"{NAME} is ready in {tmp_path}\n"
    assert err == "download ...\nweights ...\n"


def test_fetch_on_a_terminal_draws_bars(capsys, monkeypatch, tmp_path):
    def fetch(name, *, from_file, weights, progress):
        progress("download", 0, 0)
        progress("download", 5_000_000, 10_000_000)
        progress("weights", 2, 2)
        return Fetched(tmp_path, fresh=False)

    monkeypatch.setattr(fetching, "fetch", fetch)
    monkeypatch.setattr(command.sys.stderr, "isatty", lambda: True, raising=False)
    assert command.main(["fetch", NAME]) == 0
    out, err = capsys.readouterr()
    assert "here already" in out
    assert "50%" in err
    assert "2/2" in err


def test_fetch_with_json_progress_prints_objects_only_and_ends_with_ready(
    capsys, monkeypatch, tmp_path
):
    def fetch(name, *, from_file, weights, progress):
        progress("download", 0, 1000)
        for done in range(1, 1001):
            progress("download", done, 1000)
        progress("weights", 0, 3)
        return Fetched(tmp_path, fresh=True)

    monkeypatch.setattr(fetching, "fetch", fetch)
    monkeypatch.setattr(command, "_LINE_INTERVAL_S", 1000.0)
    assert command.main(["fetch", NAME, "--progress", "json"]) == 0
    out, err = capsys.readouterr()
    assert [tuple(json.loads(line).values()) for line in out.splitlines()] == [
        ("download", 0, 1000),
        ("download", 1000, 1000),
        ("weights", 0, 3),
        ("ready", 1, 1),
    ]
    assert set(json.loads(out.splitlines()[0])) == {"stage", "done", "total"}
    assert err == ""


def test_a_failure_with_json_progress_is_a_sentence_on_stderr(capsys, monkeypatch):
    def fetch(name, *, from_file, weights, progress):
        progress("download", 0, 0)
        raise FetchError("No network; use --from-file.")

    monkeypatch.setattr(fetching, "fetch", fetch)
    assert command.main(["fetch", NAME, "--progress", "json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out) == {"stage": "download", "done": 0, "total": 0}
    assert err == "No network; use --from-file.\n"


UNREAD = """
    import signal, subprocess, sys
    from models import __main__ as command, fetch

    # As a shell has it for what it starts in the background.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def stalled(name, progress, **more):
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1, stdout=-1)
        progress("download", child.pid, 0)
        try:
            child.stdout.read()
        finally:
            child.kill()
            child.wait()

    def busy(name, progress, **more):
        for n in range(10**9):
            progress(f"stage {n}", 0, 0)

    fetch.fetch = %s
    sys.exit(command.main(["fetch", "x", "--progress", "json"]))
"""


@pytest.mark.parametrize("how", ["stalled", "busy"])
def test_a_fetch_whose_progress_nobody_reads_any_more_stops_and_leaves_no_process(how):
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(UNREAD % how)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    step = json.loads(process.stdout.readline())
    process.stdout.close()
    assert process.wait(60) != 0
    assert b"the same command continues" in process.stderr.read()
    if how == "stalled":
        assert not psutil.pid_exists(step["done"])


def test_an_interrupt_says_how_to_go_on(capsys, monkeypatch):
    def fetch(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(fetching, "fetch", fetch)
    assert command.main(["fetch", NAME]) == 130
    assert "continues" in capsys.readouterr().err


def test_a_fetch_error_is_shown_as_it_is(capsys, monkeypatch):
    def fetch(*_, **__):
        raise FetchError("No network; use --from-file.")

    monkeypatch.setattr(fetching, "fetch", fetch)
    assert command.main(["fetch", NAME]) == 1
    assert capsys.readouterr().err == "No network; use --from-file.\n"


def test_remove_refuses_while_a_server_uses_the_model(capsys):
    folder = put_build()
    with store.use(folder):
        assert command.main(["remove", NAME]) == 1
        assert "in use" in capsys.readouterr().err
    assert command.main(["remove", NAME]) == 0
    assert not folder.exists()
    assert command.main(["remove", NAME]) == 0
    assert "was not here" in capsys.readouterr().out


def test_the_same_commands_can_be_mounted_on_another_parser(capsys):
    parser = argparse.ArgumentParser(prog="tabahead")
    subparsers = parser.add_subparsers()
    command.configure(subparsers.add_parser("models"))
    assert command.run(parser.parse_args(["models", "list", "--json"])) == 0
    assert json.loads(capsys.readouterr().out)


def test_help_gives_an_example(capsys):
    with pytest.raises(SystemExit, match="0"):
        command.main(["--help"])
    assert f"models fetch {NAME}" in capsys.readouterr().out
