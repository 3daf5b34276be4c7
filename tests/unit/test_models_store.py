"""Builds on disk: the pointer is atomic, and nothing goes while somebody uses it."""

import subprocess
import sys
import threading

import pytest

from lsp_server.engine.manifest import MANIFEST_NAME
from lsp_server.errors import ModelMissingError, StorageError
from lsp_server.paths import paths
from models import store

OLD, NEW = "a" * 16, "b" * 16

HOLD = """
import sys
from pathlib import Path
from models import store
model = store.use(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TABAHEAD_HOME", str(tmp_path / "home"))


def publish(build):
    root = store.model_root("m")
    root.mkdir(parents=True, exist_ok=True)
    made = root / f"{store.PARTIAL}made"
    made.mkdir()
    (made / MANIFEST_NAME).write_text("{}")
    (made / "weights.data").write_bytes(b"w" * 1000)
    return store.publish("m", made, build)


def hold(folder):
    """Another process that uses `folder`."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    return process


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_equal_recipes_share_a_name_and_any_change_gives_another():
    base = ("s" * 64, 1, "int8", 8192)
    others = [("t" * 64, *base[1:]), ("s" * 64, 2, *base[2:])]
    others += [(*base[:2], "int4", 8192), (*base[:3], 4096)]
    assert store.build_hash(*base) == store.build_hash(*base)
    assert len({store.build_hash(*recipe) for recipe in [base, *others]}) == 5


def test_published_is_current_and_leaves_no_temporary_names():
    folder = publish(NEW)
    assert store.current("m") == folder
    assert names(store.model_root("m")) == [NEW, store.CURRENT]


def test_a_reader_always_sees_a_whole_pointer():
    """Truncate-and-write in place would let a starting server read an empty pointer."""
    publish(OLD)
    publish(NEW)
    seen, done = set(), threading.Event()

    def read():
        while not done.is_set():
            folder = store.current("m")
            seen.add(folder.name if folder else None)

    reader = threading.Thread(target=read)
    reader.start()
    for turn in range(100):
        store.point("m", OLD if turn % 2 else NEW)
    done.set()
    reader.join()
    assert seen <= {OLD, NEW}


def test_an_unused_old_build_is_collected():
    old = publish(OLD)
    new = publish(NEW)
    assert store.collect("m") == [old]
    assert not old.exists()
    assert new.exists()
    assert names(store.model_root("m")) == [NEW, store.CURRENT]


def test_a_build_in_use_by_another_process_stays_until_that_process_ends():
    old = publish(OLD)
    process = hold(old)
    try:
        publish(NEW)
        assert store.collect("m") == []
        assert (old / "weights.data").exists()
    finally:
        process.kill()
        process.communicate()
    assert store.collect("m") == [old], "a lock left by a killed process holds nothing"


def test_released_use_lets_the_build_go():
    old = publish(OLD)
    with store.use(old):
        publish(NEW)
        assert store.collect("m") == []
    assert store.collect("m") == [old]


def test_one_of_two_users_is_enough_to_keep_a_build():
    old = publish(OLD)
    first, second = store.use(old), store.use(old)
    publish(NEW)
    first.release()
    first.release()
    assert store.collect("m") == []
    second.release()
    assert store.collect("m") == [old]


def test_use_can_be_released_from_another_thread():
    old = publish(OLD)
    model = store.use(old)
    lock = model._lock
    thread = threading.Thread(target=model.release)
    thread.start()
    thread.join()
    assert not lock.is_locked
    publish(NEW)
    assert store.collect("m") == [old]


def test_using_a_collected_build_says_so():
    old = publish(OLD)
    publish(NEW)
    store.collect("m")
    with pytest.raises(ModelMissingError, match="models fetch m"):
        store.use(old)


def test_a_folder_outside_the_store_is_used_without_any_file_written(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / MANIFEST_NAME).write_text("{}")
    with store.use(folder) as model:
        assert model.folder == folder
        assert names(folder) == [MANIFEST_NAME]
        assert "home" not in names(tmp_path)


def test_a_store_that_cannot_be_written_is_used_all_the_same(monkeypatch):
    folder = publish(NEW)

    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(store, "_lock", refuse)
    with store.use(folder) as model:
        assert model.folder == folder
    assert store.collect("m") == []


def test_without_a_pointer_no_build_counts_as_old():
    folder = publish(NEW)
    (store.model_root("m") / store.CURRENT).unlink()
    assert store.collect("m") == []
    assert folder.exists()


def test_collecting_what_was_never_fetched_makes_no_folder():
    assert store.collect("m") == []
    assert not paths().cache.exists()


def test_a_file_that_cannot_be_deleted_does_not_fail_the_collection(monkeypatch):
    old = publish(OLD)
    publish(NEW)
    with monkeypatch.context() as patch:

        def refuse(path):
            raise PermissionError(13, "in use by somebody", str(path))

        patch.setattr(store.shutil, "rmtree", refuse)
        assert store.collect("m") == [old]
    store.collect("m")
    assert names(store.model_root("m")) == [NEW, store.CURRENT], "left for the next time"


def test_a_damaged_build_in_use_is_not_discarded():
    folder = publish(NEW)
    with store.use(folder), pytest.raises(StorageError, match="in use by process"):
        store.discard("m", NEW)
    assert folder.exists()
    store.discard("m", NEW)
    assert not folder.exists()


def test_remove_refuses_while_in_use_and_deletes_everything_after():
    folder = publish(NEW)
    store.downloads("m").mkdir(parents=True)
    (store.downloads("m") / "m.gguf").write_bytes(b"x")
    process = hold(folder)
    try:
        with pytest.raises(StorageError, match=str(process.pid)):
            store.remove("m")
        assert store.current("m") == folder
    finally:
        process.kill()
        process.communicate()
    assert store.remove("m")
    assert not store.model_root("m").exists()
    assert not store.downloads("m").exists()
    assert not store.remove("m")
