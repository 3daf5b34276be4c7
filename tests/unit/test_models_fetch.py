"""Fetching: idempotent, taken up where it stopped, one at a time, never half done."""

from __future__ import annotations

import json
import os
import threading

import pytest

from lsp_server.engine.manifest import MANIFEST_NAME, Manifest
from lsp_server.errors import Cancelled, FetchError
from models import fetch as fetching
from models import store
from tests.fetch_world import CHECKPOINT, World, kept


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setenv("TABAHEAD_HOME", str(tmp_path / "home"))
    return World(tmp_path)


def test_a_fetch_downloads_verifies_builds_and_points(world):
    fetched = world.fetch()
    assert fetched.fresh
    assert store.current("tiny") == fetched.folder
    assert kept().read_bytes() == CHECKPOINT
    assert list(dict.fromkeys(world.stages)) == ["download", "extract", "weights"]
    assert world.leftovers() == []


def test_a_second_fetch_does_nothing(world):
    first = world.fetch()
    world.stages.clear()
    second = world.fetch()
    assert (second.folder, second.fresh) == (first.folder, False)
    assert (world.num_downloads, world.num_builds, world.stages) == (1, 1, [])


def test_a_newer_builder_rebuilds_from_the_kept_checkpoint(world):
    old = world.fetch().folder
    world.version = 2
    new = world.fetch().folder
    assert (world.num_downloads, world.num_builds) == (1, 2)
    assert new != old
    assert store.current("tiny") == new
    assert not old.exists(), "nobody used it"


def test_a_rebuild_leaves_the_build_of_a_running_server_alone(world):
    old = world.fetch().folder
    world.version = 2
    with store.use(old):
        world.fetch()
        assert (old / "weights.data").read_bytes() == b"int8 1"


def test_other_weights_are_another_build(world):
    world.fetch()
    folder = world.fetch(weights="fp32").folder
    assert (folder / "weights.data").read_bytes() == b"fp32 1"
    assert world.num_downloads == 1


def test_unknown_weights_are_refused_by_name(world):
    with pytest.raises(FetchError, match=r"'int3'.* int8, fp32"):
        world.fetch(weights="int3")
    assert world.num_downloads == 0


def test_a_complete_build_without_a_pointer_is_taken_up(world):
    """Killed between the rename and the pointer: half a minute of building is not repeated."""
    folder = world.fetch().folder
    (folder.parent / store.CURRENT).unlink()
    assert world.fetch().folder == folder
    assert store.current("tiny") == folder
    assert world.num_builds == 1


@pytest.mark.parametrize("damage", ["truncate", "delete", "bytes", "manifest"])
def test_a_broken_build_is_made_again_from_the_kept_checkpoint(world, damage):
    folder = world.fetch().folder
    if damage == "truncate":
        os.truncate(folder / "weights.data", 2)
    elif damage == "delete":
        (folder / "weights.data").unlink()
    elif damage == "bytes":
        (folder / "weights.data").write_bytes(b"INT8 1")
    else:
        (folder / MANIFEST_NAME).write_text("{")
    assert world.fetch().fresh
    Manifest.load(folder).check_hashes(folder)
    assert (world.num_downloads, world.num_builds) == (1, 2)


def test_cancelling_from_the_progress_callback_leaves_a_clean_start(world):
    for last in ("download", "extract", "weights"):

        def stop(stage, done, total, last=last):
            if stage == last:
                raise Cancelled("shutdown")

        with pytest.raises(Cancelled):
            world.fetch(progress=stop)
        assert world.leftovers() == []
    assert world.num_downloads == 2, "after the extraction the checkpoint is kept"
    assert world.fetch().fresh
    assert world.num_downloads == 2


def test_what_a_killed_run_left_is_cleared_away(world):
    for folder in (store.downloads("tiny"), store.model_root("tiny")):
        (folder / f"{store.PARTIAL}abc" / "deep").mkdir(parents=True)
        (folder / f"{store.PARTIAL}abc" / "deep" / "file").write_bytes(b"x" * 100)
    world.fetch()
    assert world.leftovers() == []


def test_the_second_of_two_fetches_waits_and_finds_it_done(world):
    building, waited = threading.Event(), threading.Event()
    results = {}

    def first_progress(stage, done, total):
        if stage == "weights":
            building.set()
            assert waited.wait(60)

    def second_progress(stage, done, total):
        assert stage == "wait"
        waited.set()

    first = threading.Thread(
        target=lambda: results.update(first=world.fetch(progress=first_progress))
    )
    first.start()
    assert building.wait(60)
    results["second"] = world.fetch(progress=second_progress)
    first.join()
    assert results["first"].fresh
    assert not results["second"].fresh
    assert results["first"].folder == results["second"].folder
    assert (world.num_downloads, world.num_builds) == (1, 1)


def test_whoever_waits_can_stop_waiting(world):
    def stop(stage, done, total):
        raise Cancelled("shutdown")

    with store.fetching("tiny", lambda: None), pytest.raises(Cancelled):
        world.fetch(progress=stop)


def test_the_shipped_builder_has_the_face_that_fetch_calls():
    builder = fetching.default_builder()
    assert isinstance(builder.version, int)
    assert json.dumps(builder.version)
