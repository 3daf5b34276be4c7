"""Fetching with the real pip and real processes: no network, killed halfway, twice at once."""

import dataclasses
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest

from lsp_server.errors import Cancelled
from models import store
from models.catalogue import Entry, WheelSource
from models.download import pip_download

ROOT = Path(__file__).parents[2]
WHEEL = "tinymodel-1.0-py3-none-any.whl"
PATIENCE_S = 60


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A wheel in a local folder and the process environment that finds only it."""
    index = tmp_path / "index"
    index.mkdir()
    checkpoint = b"GGUF" + random.Random(1).randbytes(3_000_000)
    write_wheel(index / WHEEL, checkpoint)
    entry = Entry(
        name="tiny",
        description="",
        licence="Apache-2.0",
        source=WheelSource(
            requirement="tinymodel==1.0",
            size=(index / WHEEL).stat().st_size,
            sha256=hashlib.sha256((index / WHEEL).read_bytes()).hexdigest(),
            member="tinymodel/tiny.gguf",
            member_size=len(checkpoint),
            member_sha256=hashlib.sha256(checkpoint).hexdigest(),
        ),
        weights="int8",
        context_length=128,
        room_mb={"int8": 1},
    )
    (tmp_path / "entry.json").write_text(json.dumps(dataclasses.asdict(entry)))
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    for name, value in {
        "TABAHEAD_HOME": str(tmp_path / "home"),
        "PYTHONPATH": str(ROOT),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(index),
    }.items():
        monkeypatch.setenv(name, value)
    return tmp_path


def write_wheel(path, checkpoint):
    info = "tinymodel-1.0.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tinymodel/tiny.gguf", checkpoint)
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tinymodel\nVersion: 1.0\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")


def start(folder, *arguments):
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("fetch_tiny.py")), str(folder / "entry.json")]
        + [str(argument) for argument in arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out.split("\n")[:-1], err


def wait_for(process, stage):
    for line in process.stdout:
        if line.strip() == stage:
            return
    raise AssertionError(f"ended before {stage}: {process.stderr.read()}")


def kill(process):
    process.send_signal(signal.SIGKILL if os.name != "nt" else signal.SIGTERM)
    process.communicate()


def unfinished():
    return [
        path
        for folder in (store.model_root("tiny"), store.downloads("tiny"))
        for path in folder.glob(f"{store.PARTIAL}*")
    ]


def test_the_real_pip_brings_the_wheel_from_where_the_user_points_it(tiny):
    assert finish(start(tiny)) == (0, ["download", "extract", "build", "fresh"], "")
    assert finish(start(tiny)) == (0, ["there already"], "")
    assert [path.name for path in store.downloads("tiny").iterdir()] == ["tiny.gguf"]


def test_without_an_index_that_has_it_the_remedies_are_named(tiny, monkeypatch):
    monkeypatch.setenv("PIP_FIND_LINKS", str(tiny / "nowhere"))
    code, out, err = finish(start(tiny))
    assert (code, out) == (1, ["download"])
    assert "No matching distribution" in err
    assert "--from-file" in err
    assert "PIP_INDEX_URL" in err
    assert unfinished() == []


def test_an_index_with_another_wheel_of_that_name_is_refused(tiny):
    write_wheel(tiny / "index" / WHEEL, b"GGUF something else")
    code, _, err = finish(start(tiny))
    assert code == 1
    assert "not the one in the catalogue" in err


def test_the_working_directory_is_not_run(tiny):
    """`python -m pip` would take a workspace's own pip/ or json.py for the real one."""
    for name in ("pip.py", "json.py", "zipfile.py"):
        (tiny / name).write_text("raise SystemExit('the workspace was run')\n")
    assert finish(start(tiny))[0] == 0


def test_killed_while_building_the_next_run_builds_without_downloading(tiny):
    process = start(tiny, tiny / "never")
    wait_for(process, "build")
    kill(process)
    assert store.current("tiny") is None
    assert unfinished() != [], "the test must kill it halfway"
    assert finish(start(tiny)) == (0, ["build", "fresh"], "")
    assert unfinished() == []


def test_two_processes_at_once_build_once(tiny):
    first = start(tiny, tiny / "go on")
    wait_for(first, "build")
    second = start(tiny)
    wait_for(second, "wait")
    (tiny / "go on").touch()
    assert finish(first) == (0, ["fresh"], "")
    assert finish(second) == (0, ["there already"], "")


def test_a_waiting_process_takes_over_when_the_first_is_killed(tiny):
    first = start(tiny, tiny / "never")
    wait_for(first, "build")
    second = start(tiny)
    wait_for(second, "wait")
    kill(first)
    assert finish(second) == (0, ["build", "fresh"], "")


class SlowIndex:
    """A package index that sends half the wheel, then the rest once `release` is set."""

    def __init__(self, wheel):
        self.release = threading.Event()
        self.num_resumed = 0
        index = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                data = wheel.read_bytes()
                if not self.path.endswith(".whl"):
                    data = f'<a href="/{WHEEL}">{WHEEL}</a>'.encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                half = len(data) // 2 if self.path.endswith(".whl") else len(data)
                self.wfile.write(data[:half])
                self.wfile.flush()
                if half < len(data):
                    index.release.wait(PATIENCE_S)
                    index.num_resumed += 1
                    for at in range(half, len(data), 10_000):
                        self.wfile.write(data[at : at + 10_000])

            def log_message(self, format, *arguments):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/simple/"


@pytest.fixture
def slow_index(tiny, monkeypatch):
    index = SlowIndex(tiny / "index" / WHEEL)
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", index.url)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    thread = threading.Thread(target=index.server.serve_forever)
    thread.start()
    yield index
    index.release.set()
    index.server.shutdown()
    thread.join()
    index.server.server_close()


def test_the_download_itself_reports_bytes(tiny, slow_index):
    process = start(tiny)
    wait_for(process, "downloading")
    slow_index.release.set()
    assert finish(process) == (0, ["extract", "build", "fresh"], "")


def test_stopping_from_the_progress_callback_does_not_wait_for_the_network(
    tiny, slow_index, monkeypatch
):
    monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", str(10 * PATIENCE_S))

    def stop(stage, done, total):
        if 0 < done < total:
            raise Cancelled("shutdown")

    with pytest.raises(Cancelled):
        pip_download("tinymodel==1.0", tiny, stop)
    assert slow_index.num_resumed == 0
    assert psutil.Process().children() == []


def test_killed_while_downloading_pip_ends_too_and_the_next_run_starts_clean(
    tiny, slow_index, monkeypatch
):
    """What pip had so far lies in the model's own scratch folder, not in the system's."""
    (tiny / "tmp").mkdir()
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.setenv(name, str(tiny / "tmp"))
    process = start(tiny)
    wait_for(process, "downloading")
    (pip,) = psutil.Process(process.pid).children()
    assert list((tiny / "tmp").iterdir()) == []
    kill(process)
    slow_index.release.set()
    give_up = time.monotonic() + PATIENCE_S
    while psutil.pid_exists(pip.pid) and pip.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < give_up, "pip outlived the process that started it"
        time.sleep(0.05)  # another's child cannot be waited for
    assert unfinished() != [], "the test must kill it halfway"
    assert finish(start(tiny))[0] == 0
    assert unfinished() == []
