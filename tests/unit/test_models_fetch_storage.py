"""A disk that is full, or a place that cannot be written, while a model is fetched."""

from __future__ import annotations

import errno

import pytest

from lsp_server.errors import StorageError
from models import fetch as fetching
from models import store
from tests.fetch_world import World, kept


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setenv("TABAHEAD_HOME", str(tmp_path / "home"))
    return World(tmp_path)


def full():
    return OSError(errno.ENOSPC, "No space left on device")


def builder_full():
    """What `export.build` raises: its own sentence, with the refusal of the disk as its cause."""
    error = StorageError("The disk of .partial-x is full.")
    error.__cause__ = full()
    return error


FULL = r"disk is full at .*cache: tiny needs about 1001 MB .* MB are free; .*TABAHEAD_HOME"


def test_a_disk_that_fills_up_while_downloading_leaves_nothing(world):
    world.download_fault = full()
    with pytest.raises(StorageError, match=FULL):
        world.fetch()
    assert not kept().exists()
    assert world.leftovers() == []
    world.download_fault = None
    assert world.fetch().fresh


def test_a_disk_that_fills_up_while_extracting_leaves_nothing(world, monkeypatch):
    with monkeypatch.context() as patch:

        def refuse(descriptor):
            raise full()

        patch.setattr(fetching.os, "fsync", refuse)
        with pytest.raises(StorageError, match=FULL):
            world.fetch()
    assert not kept().exists()
    assert world.leftovers() == []
    assert world.fetch().fresh


@pytest.mark.parametrize("fault", [full, builder_full])
def test_a_disk_that_fills_up_while_building_keeps_the_checkpoint_only(world, fault):
    world.build_fault = fault()
    with pytest.raises(StorageError, match=FULL):
        world.fetch()
    assert store.current("tiny") is None
    assert list(store.model_root("tiny").iterdir()) == []
    assert kept().exists()
    world.build_fault = None
    assert world.fetch().fresh
    assert world.num_downloads == 1


def test_a_disk_that_fills_up_while_publishing_keeps_the_old_build(world, monkeypatch):
    old = world.fetch().folder
    world.version = 2
    with monkeypatch.context() as patch:

        def refuse(root, build):
            raise full()

        patch.setattr(store, "_write_pointer", refuse)
        with pytest.raises(StorageError, match=FULL):
            world.fetch()
    assert store.current("tiny") == old
    new = world.fetch().folder
    assert store.current("tiny") == new
    assert world.num_builds == 2, "the complete new build was taken up"


@pytest.mark.parametrize("blocked", ["home", "home/cache", "home/cache/models/tiny"])
def test_a_place_that_cannot_be_written_is_named_with_the_remedy(world, tmp_path, blocked):
    path = tmp_path / blocked
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("a file where a folder should be")
    with pytest.raises(StorageError, match=r"home.* cannot be written \(.*TABAHEAD_HOME"):
        world.fetch()


def test_a_refused_permission_is_named_with_the_remedy(world):
    world.build_fault = PermissionError(errno.EACCES, "Permission denied", "/some/place")
    with pytest.raises(StorageError, match=r"place cannot be written \(Permission denied\)"):
        world.fetch()
