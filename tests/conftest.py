"""What every test run needs: the versions it ran on, end-to-end tests last, the default model."""

from __future__ import annotations

import importlib.metadata
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from lsp_server.errors import ModelMissingError
from models import catalogue

_REPORTED = ("onnxruntime", "numpy", "tokenizers", "onnx", "pygls", "lsprotocol")
_LAST = "e2e"

# No time limit an example: a busy machine would fail a test that is right.
hypothesis.settings.register_profile("tabahead", deadline=None)
hypothesis.settings.load_profile("tabahead")


def missing(what: str) -> None:
    """End a test that lacks a tool: skip and name it, or fail where TABAHEAD_REQUIRE_ALL=1."""
    if os.environ.get("TABAHEAD_REQUIRE_ALL") == "1":
        pytest.fail(f"TABAHEAD_REQUIRE_ALL=1, but {what}", pytrace=False)
    pytest.skip(what)


def pytest_report_header() -> str:
    versions = []
    for name in _REPORTED:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            versions.append(f"{name} absent")
    return ", ".join(versions)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole-process tests come last: what they would trip over shows sooner in a small test."""
    items.sort(key=lambda item: _LAST in item.path.parts)


@pytest.fixture(autouse=True)
def log_level() -> Iterator[None]:
    """A server in the test's own process sets it; the next test is not to be the quieter for it."""
    logger = logging.getLogger("lsp_server")
    level = logger.level
    yield
    logger.setLevel(level)


@pytest.fixture(scope="session")
def default_model_folder() -> Path:
    """The built default model, or the folder that TABAHEAD_TEST_MODEL names."""
    name = os.environ.get("TABAHEAD_TEST_MODEL", catalogue.DEFAULT_MODEL)
    try:
        return catalogue.resolve(name)
    except ModelMissingError as error:
        missing(f"the model is absent: {error}")
        raise
