"""The builder against `transformers` on the same checkpoint and the same ids.

Always against logits recorded by `make_logits_golden.py`. Where the extra `reference` (torch,
transformers) is installed, also against all logits of a live run; its absence fails only under
TABAHEAD_REQUIRE_ALL=1 with TABAHEAD_REFERENCE=1, since torch is no part of an ordinary test run.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from export.build import build
from export.check import form_logits
from lsp_server.engine.manifest import Manifest
from models import catalogue, store
from tests.conformance.make_logits_golden import OUT as GOLDEN
from tests.conformance.make_logits_golden import reference_logits
from tests.conftest import missing

TOLERANCE = 1e-3
CLEAR_CHOICE = 2e-3
"""Where the reference's two best are nearer than this, rounding may order them either way."""

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def golden():
    return np.load(GOLDEN)


@pytest.fixture(scope="module")
def checkpoint() -> Path:
    """The kept GGUF of the default model, or the file that TABAHEAD_TEST_GGUF names."""
    named = os.environ.get("TABAHEAD_TEST_GGUF")
    entry = catalogue.entry(catalogue.DEFAULT_MODEL)
    path = Path(named) if named else store.downloads(entry.name) / entry.source.file_name
    if not path.is_file():
        missing(f"the checkpoint is absent: {path}; run `python -m models fetch {entry.name}`")
    return path


@pytest.fixture(scope="module")
def fp32_folder(checkpoint, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("parity") / "fp32"
    build(checkpoint, folder, name="parity", weights="fp32", context_length=512)
    return folder


def _logits(folder: Path, form: str, ids: np.ndarray) -> np.ndarray:
    manifest = Manifest.load(folder)
    path = folder / manifest.forms[form]
    return form_logits(path, manifest, ids.tolist())


@pytest.mark.parametrize("form", ["chain", "tree"])
def test_fp32_logits_equal_the_recorded_reference(form, fp32_folder, golden):
    logits = _logits(fp32_folder, form, golden["ids"])
    assert len(logits) >= 200
    ours = np.take_along_axis(logits, golden["top_ids"].astype(np.int64), axis=1)
    assert np.abs(ours - golden["top_logits"]).max() < TOLERANCE
    total = np.logaddexp.reduce(logits.astype(np.float64), axis=1)
    assert np.abs(total - golden["logsumexp"]).max() < TOLERANCE
    clear = golden["top_logits"][:, 0] - golden["top_logits"][:, 1] >= CLEAR_CHOICE
    assert clear.sum() >= 200
    assert (logits.argmax(axis=1) == golden["top_ids"][:, 0])[clear].all()


def test_fp32_logits_equal_a_live_reference_over_the_whole_vocabulary(
    checkpoint, fp32_folder, golden
):
    if not all(importlib.util.find_spec(name) for name in ("torch", "transformers", "accelerate")):
        what = "torch, transformers and accelerate are absent (extra `reference`)"
        if os.environ.get("TABAHEAD_REFERENCE") == "1":
            missing(what)
        pytest.skip(what)
    ids = golden["ids"]
    expected = reference_logits(checkpoint, ids.tolist())
    logits = _logits(fp32_folder, "chain", ids)
    assert np.abs(logits - expected).max() < TOLERANCE
    two = np.sort(expected, axis=1)[:, -2:]
    clear = two[:, 1] - two[:, 0] >= CLEAR_CHOICE
    assert (logits.argmax(axis=1) == expected.argmax(axis=1))[clear].all()


def test_the_default_model_chooses_as_the_reference_does(default_model_folder, golden):
    """8-bit weights keep at least 95 of 100 choices; 4-bit weights lose one in five."""
    logits = _logits(default_model_folder, "chain", golden["ids"])
    assert (logits.argmax(axis=1) == golden["top_ids"][:, 0]).mean() >= 0.95


@pytest.mark.skipif(sys.platform == "win32", reason="needs the resource module")
def test_the_default_build_fits_in_two_gigabytes_and_is_repeatable(
    checkpoint, default_model_folder, tmp_path
):
    import resource

    command = [sys.executable, "-m", "export", "build", str(checkpoint), "--out"]
    subprocess.run([*command, str(tmp_path / "again")], check=True, capture_output=True)
    # The largest of all children so far: at least this one's.
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert peak * (1 if sys.platform == "darwin" else 1024) < 2e9
    again, installed = Manifest.load(tmp_path / "again"), Manifest.load(default_model_folder)
    if again.made_by == installed.made_by:  # same format, builder and libraries
        assert again.files == installed.files
