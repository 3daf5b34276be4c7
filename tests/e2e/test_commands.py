"""`doctor` and `bench` as a user runs them: exit codes, the last line of JSON, the remedies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tiny_model import build_tiny_model


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("commands") / "tiny"
    build_tiny_model(folder)
    return folder


@pytest.fixture
def tabahead(tmp_path, monkeypatch):
    monkeypatch.setenv("TABAHEAD_HOME", str(tmp_path / "home"))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-P", "-m", "lsp_server", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False
        )

    return run


def test_doctor_says_that_a_sound_model_can_serve_and_how_it_runs(tabahead, tiny):
    done = tabahead("doctor", "--model", str(tiny), "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["problems"]) == (0, [])
    assert report["runs"]["provider"] == "CPUExecutionProvider"
    assert report["runs"]["infilling"] == "not supported by this model, prefix only"
    assert report["healing"] == "on"
    assert report["width_probe"]["exact_from_two"]
    assert set(report["cost_ms"]) >= {"1", "2", "5", "9"}


def test_complete_says_what_the_prompt_was_made_of(tabahead, tiny, tmp_path):
    (tmp_path / "a.py").write_text("def total(values):\n    res")
    done = tabahead("complete", "a.py:2:8", "--model", str(tiny), "--json")
    stats = json.loads(done.stdout)["stats"]
    assert stats["infilling"] == "not supported by this model, prefix only"
    assert stats["prompt_parts"] == {"files": 0, "suffix": 0, "healed_bytes": len(" res")}


def test_doctor_names_what_is_broken_and_the_remedy(tabahead, tiny, tmp_path):
    broken = tmp_path / "broken"
    broken.mkdir()
    for path in tiny.iterdir():
        (broken / path.name).write_bytes(path.read_bytes())
    data = bytearray((broken / "weights.data").read_bytes())
    data[1000] ^= 1
    (broken / "weights.data").write_bytes(data)
    done = tabahead("doctor", "--model", str(broken))
    assert done.returncode == 1
    assert "PROBLEM" in done.stdout
    assert "weights.data is corrupt" in done.stdout


def test_doctor_without_a_model_says_how_to_fetch_it(tabahead):
    done = tabahead("doctor", "--json")
    (problem,) = json.loads(done.stdout)["problems"]
    assert done.returncode == 1
    assert "tabahead models fetch smollm2-135m" in problem


@pytest.mark.parametrize("suite", ["decode", "lossless"])
def test_a_suite_prints_its_table_and_then_one_line_of_json(tabahead, tiny, suite):
    done = tabahead("bench", suite, "--cases", "2", "--model", str(tiny))
    assert done.returncode == 0, done.stderr
    *table, last = done.stdout.strip().splitlines()
    result = json.loads(last)
    assert table
    assert (result["suite"], result["cases"]) == (suite, 2)
    assert {"cpu", "cores", "threads", "python", "onnxruntime"} <= result["machine"].keys()
    if suite == "lossless":
        assert (result["mismatches"], result["mode"]) == (0, "strict")
    else:
        assert result["plain_ms_per_token"] > 0
        assert {"speedup", "p5_prompt_speedup", "tokens_per_pass"} <= result.keys()


def test_quality_compares_variants_and_judges_the_confidence(tabahead, tiny, tmp_path):
    kept = tmp_path / "features.json"
    done = tabahead("bench", "quality", "--cases", "2", "--model", str(tiny))
    *table, last = done.stdout.strip().splitlines()
    result = json.loads(last)
    assert done.returncode == 1, "a model that knows nothing writes no right line"
    assert "more --cases" in result["missed"][0]
    assert any("without healing and context" in line for line in table)
    rows = {row.pop("variant"): row for row in result["rows"]}
    infilling = rows.pop("infilling")
    assert (infilling["status"], infilling["cases"]) == ("not supported", 0)
    assert {"exact_line", "edit_similarity"} <= infilling.keys()
    assert len(rows) == 4
    for row in rows.values():
        assert row["cases"] == 4
        assert 0 <= row["exact_line"] <= row["edit_similarity"] <= 1
    assert set(result["confidence"]["settings"]) == {"eager", "balanced", "quiet"}
    tabahead("bench", "quality", "--cases", "2", "--model", str(tiny), "--calibrate", str(kept))
    assert 1 < len(json.loads(kept.read_text())) <= 1 + 4


def test_several_items_are_told_where_they_are_asked_for(tabahead, tiny, tmp_path):
    (tmp_path / "a.py").write_text("value = ")
    asked = ("complete", "a.py:1:9", "--model", str(tiny), "--max-tokens", "8")
    several = json.loads(tabahead(*asked, "--items", "3", "--json").stdout)
    texts = [several["text"], *(other["text"] for other in several["alternatives"])]
    assert len(set(texts)) == len(texts) == 3
    assert 0 <= several["stats"]["confidence"] <= 1
    page = tabahead(*asked, "--items", "3").stdout
    assert page.count("\n\nor\n\n") == 2
    assert "confidence" in page
    one = json.loads(tabahead(*asked, "--json").stdout)
    assert one["text"] == several["text"]
    assert "alternatives" not in one
    refused = tabahead(*asked, "--items", "9")
    assert refused.returncode != 0
    assert "num_items" in refused.stderr


def test_an_option_of_another_suite_is_refused(tabahead):
    done = tabahead("bench", "round", "--check")
    assert done.returncode == 1
    assert done.stderr == "tabahead: --check is for replay, not for round.\n"


def test_json_alone_is_alone_on_stdout(tabahead, tiny):
    done = tabahead("bench", "lossless", "--cases", "1", "--model", str(tiny), "--json")
    assert json.loads(done.stdout)["cases"] == 1


def test_startup_without_a_model_stops_at_once_with_the_remedy(tabahead):
    done = tabahead("bench", "startup", "--rounds", "1")
    assert done.returncode == 1
    assert "tabahead models fetch" in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="there the system reports no broken pipe")
@pytest.mark.parametrize("command", ["stats --json", "models list", "doctor"])
def test_whoever_stops_reading_gets_no_traceback(tmp_path, command):
    """As `head` does, which ends with the first line."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "lsp_server", *command.split()],
        env={**os.environ, "TABAHEAD_HOME": str(tmp_path)},
        stdout=writer, stderr=subprocess.PIPE, timeout=120, check=False,
    )  # fmt: skip
    os.close(writer)
    assert done.stderr == b""
    assert done.returncode == 1


def test_the_version_is_told(tabahead):
    assert tabahead("--version").stdout.startswith("tabahead ")
