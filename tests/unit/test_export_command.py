"""The command line of the builder."""

from __future__ import annotations

import argparse

import pytest

from export.__main__ import add_subcommands, main
from lsp_server.engine.manifest import Manifest
from tests.tiny_model import build_tiny_model, write_tiny_gguf


def test_build_then_check(tmp_path, capsys):
    write_tiny_gguf(tmp_path / "m.gguf")
    out = tmp_path / "folder"
    assert main(["build", str(tmp_path / "m.gguf"), "--out", str(out), "--weights", "int4"]) == 0
    captured = capsys.readouterr()
    assert captured.out.count("\n") == 1
    assert "int4" in captured.out
    manifest = Manifest.load(out)
    assert (manifest.name, manifest.weight_format) == ("folder", "int4")
    assert main(["check", str(out)]) == 0
    assert "is complete and runs" in capsys.readouterr().out


def test_a_fault_is_one_sentence_on_stderr_and_exit_1(tmp_path, capsys):
    assert main(["build", str(tmp_path / "none.gguf"), "--out", str(tmp_path / "m")]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.strip().splitlines()[-1].endswith("does not exist; name a .gguf file.")
    assert "Traceback" not in captured.err


def test_ctrl_c_is_one_sentence_too(tmp_path, capsys, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("export.build.build", interrupted)
    assert main(["build", "m.gguf", "--out", str(tmp_path / "m")]) == 130
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("damage", ["truncate", "flip"])
def test_check_finds_a_damaged_file(tmp_path, capsys, damage):
    build_tiny_model(tmp_path / "m")
    path = tmp_path / "m" / "weights.data"
    data = bytearray(path.read_bytes())
    if damage == "truncate":
        del data[-1000:]
    else:
        data[1000] ^= 1
    path.write_bytes(data)
    assert main(["check", str(tmp_path / "m")]) == 1
    assert "weights.data" in capsys.readouterr().err


def test_help_has_an_example(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    assert "tabahead export build SmolLM2" in capsys.readouterr().out


def test_another_program_can_host_the_same_commands(tmp_path):
    parser = argparse.ArgumentParser()
    add_subcommands(parser)
    arguments = parser.parse_args(["check", str(tmp_path)])
    assert callable(arguments.run)
