"""The command line of the builder."""

from __future__ import annotations

import argparse

import pytest

from export.__main__ import add_subcommands, main
from lsp_server.engine.manifest import Manifest
from tests.head_runner import safetensors_numpy
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


@pytest.mark.parametrize("command", [(), ("draft",), ("heads",), ("random-heads",)])
def test_help_has_an_example(capsys, command):
    with pytest.raises(SystemExit) as stop:
        main([*command, "--help"])
    assert stop.value.code == 0
    wanted = "build SmolLM2" if not command else f"{command[0]} "
    assert f"example:\n  tabahead export {wanted}" in capsys.readouterr().out


def test_a_draft_model_on_the_command_line(tmp_path, capsys):
    write_tiny_gguf(tmp_path / "m.gguf")
    out = tmp_path / "draft"
    options = ["--layers", "1", "--draft-vocab", "100"]
    assert main(["draft", str(tmp_path / "m.gguf"), "--out", str(out), *options]) == 0
    assert "1 layers, int8, not trained" in capsys.readouterr().out
    manifest = Manifest.load(out)
    assert (manifest.source["layers"], manifest.draft_vocab_size) == ("1", 100)
    assert main(["check", str(out)]) == 0
    with pytest.raises(SystemExit):
        main(["draft", str(tmp_path / "m.gguf"), "--out", str(tmp_path / "e"), "--layers", "some"])
    assert "'some' is not a list like 0,1,2,3,28,29" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["medusa", "eagle", "eagle3"])
def test_random_heads_then_heads_then_check(tmp_path, capsys, kind):
    safetensors_numpy()
    build_tiny_model(tmp_path / "target")
    target = ["--target", str(tmp_path / "target"), "--draft-vocab", "100"]
    source, out = str(tmp_path / "source"), str(tmp_path / "out")
    assert main(["random-heads", kind, *target, "--out", source, "--seed", "2"]) == 0
    assert main(["heads", kind, source, *target, "--out", out]) == 0
    assert main(["check", out]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"random {kind} heads, not trained" in lines[0]
    assert f"out, {kind}, int8, not trained" in lines[1]
    assert "is complete and runs" in lines[2]


def test_another_program_can_host_the_same_commands(tmp_path):
    parser = argparse.ArgumentParser()
    add_subcommands(parser)
    arguments = parser.parse_args(["check", str(tmp_path)])
    assert callable(arguments.run)
