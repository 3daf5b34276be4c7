"""`bench lossless --full`: all sources are compared, a difference is told, Ctrl-C is no loss."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lsp_server.__main__ import main
from lsp_server.bench import lossless
from lsp_server.bench.engine import Bench
from tests.tiny_model import build_tiny_drafters, build_tiny_model


@pytest.fixture(scope="module")
def command(tmp_path_factory) -> list[str]:
    root = tmp_path_factory.mktemp("bench")
    build_tiny_model(root / "target")
    build_tiny_drafters(root / "drafters", root / "target")
    model = ["--model", str(root / "target"), "--drafters", str(root / "drafters")]
    return ["bench", "lossless", "--full", "--cases", "3", *model]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TABAHEAD_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)  # without the public sets: the same places everywhere


def last_line(capsys) -> dict:
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_every_source_drafts_and_none_changes_a_token(command, capsys):
    assert main(command) == 0
    result = last_line(capsys)
    assert (result["cases"], result["mismatches"], result["whole"]) == (3, 0, True)
    words = {name.split()[0] for name, count in result["proposed_by_method"].items() if count}
    assert words >= {"lookup", "session", "draft", "early", "medusa", "eagle"}


def test_a_difference_is_told_with_its_place_and_fails(command, capsys, monkeypatch):
    run = Bench.run

    def changed(self, token_ids, params, *, drafter=None, controller=None):
        done = run(self, token_ids, params, drafter=drafter, controller=controller)
        if drafter is not None and drafter.name == "eagle":
            done = replace(done, token_ids=[*done.token_ids[:5], 7, *done.token_ids[6:]])
        return done

    monkeypatch.setattr(Bench, "run", changed)
    assert main(command) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out.splitlines()[-1])["mismatches"] == 3
    assert sum("eagle chain: from token 5" in line for line in printed.err.splitlines()) == 3


@pytest.mark.parametrize("is_equal", [True, False])
def test_the_whole_compares_bits_too(command, capsys, monkeypatch, tmp_path, is_equal):
    number = command.index("--cases")
    monkeypatch.setattr(lossless, "_CASES", 1)
    monkeypatch.setattr(lossless, "_CHECKOUT", tmp_path)
    test = tmp_path / lossless._BITS
    test.parent.mkdir(parents=True)
    condition = f"environ['TABAHEAD_ALL_PROMPTS'] == '1' and {is_equal}"
    test.write_text(f"from os import environ\ndef test_it():\n    assert {condition}\n")
    assert main([*command[:number], *command[number + 2 :]]) == (0 if is_equal else 1)
    assert last_line(capsys)["bits_equal"] is is_equal


def test_an_interruption_tells_what_was_compared_so_far(command, capsys, monkeypatch):
    compared = []

    def judge(bench, prompt, strict, name, *more):
        compared.append(name)
        if len(compared) == 12:
            raise KeyboardInterrupt

    monkeypatch.setattr(lossless, "_judge", judge)
    assert main(command) == 130
    result = last_line(capsys)
    assert (result["cases"], result["whole"]) == (1, False)
