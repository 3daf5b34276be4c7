"""One tiny real model for all tests of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from lsp_server.engine.onnx_model import OnnxModel
from tests.tiny_model import build_tiny_model


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "model"
    build_tiny_model(folder)
    return folder


@pytest.fixture(scope="session")
def model(tiny_folder: Path) -> OnnxModel:
    return OnnxModel(tiny_folder, threads=1, slot_tokens=512)
