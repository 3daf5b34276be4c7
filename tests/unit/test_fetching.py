"""A fetch as a process: its steps, its last sentence, and that it never outlives who started it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from lsp_server import fetching
from lsp_server.errors import FetchError
from lsp_server.fetching import fetch_command, parse_step, run_fetch
from lsp_server.loading import fetch_step

ROOT = Path(__file__).parents[2]
PATIENCE_S = 30.0
posix = pytest.mark.skipif(sys.platform == "win32", reason="no signals on this platform")

# Says its process id as progress, and then does what is asked for.
STAND_IN = """
    import json, os, signal, subprocess, sys, time
    def say(stage, done):
        print(json.dumps({"stage": stage, "done": done, "total": 9}), flush=True)
"""
DEAF = "signal.signal(signal.SIGINT, signal.SIG_IGN); say('pid', os.getpid()); time.sleep(1000)"
TIDY = """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    say("pid", os.getpid())
    try:
        time.sleep(1000)
    finally:
        open(sys.argv[1], "w").close()
"""
WITH_CHILD = """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    say("pid", child.pid)
    time.sleep(1000)
"""

# The real command around a fetch that never gets on.
STALLED = """
    import os, sys, time
    from models import __main__ as command, fetch
    def stalled(name, progress, **more):
        progress("pid", os.getpid(), 0)
        time.sleep(1000)
    fetch.fetch = stalled
    sys.exit(command.main(["fetch", "x", "--progress", "json"]))
"""

# Stands for the server: it waits for the command in its arguments.
SERVER = """
    import asyncio, sys
    from lsp_server.fetching import run_fetch
    asyncio.run(run_fetch(sys.argv[1:], lambda *step: print(step[1], flush=True)))
"""


def stand_in(code: str, *arguments: str) -> list[str]:
    whole = textwrap.dedent(STAND_IN) + textwrap.dedent(code)
    return [sys.executable, "-c", whole, *arguments]


def run(command: list[str]) -> list[tuple[str, int, int]]:
    steps: list[tuple[str, int, int]] = []
    asyncio.run(run_fetch(command, lambda *step: steps.append(step)))
    return steps


def run_until_cancelled(command: list[str], times: int = 1) -> int:
    """Cancel once the process has said its number; that number."""
    pids: list[int] = []

    async def main() -> None:
        task = asyncio.ensure_future(run_fetch(command, lambda *step: pids.append(step[1])))
        while not pids and not task.done():
            await asyncio.sleep(0.01)  # the process says its number when it has started
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)  # let the cancellation arrive before the next
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    return pids[0]


def is_gone_in_time(pid: int) -> bool:
    """Whether the process ends before patience does."""
    give_up = time.monotonic() + PATIENCE_S
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > give_up:
            return False
        time.sleep(0.02)  # another's child cannot be waited for
    return True


def test_steps_arrive_in_order_and_other_output_is_passed_over():
    code = "say('a', 1); print('noise'); print('[]'); print('{}'); say('a', 2); say('b', 0)"
    assert run(stand_in(code)) == [("a", 1, 9), ("a", 2, 9), ("b", 0, 9)]


def test_a_failure_is_the_last_sentence_of_stderr():
    code = "print('first' * 9999 + '\\nThe disk is full.\\n', file=sys.stderr); sys.exit(1)"
    with pytest.raises(FetchError) as failure:
        run(stand_in(code))
    assert str(failure.value) == "The disk is full."


def test_a_failure_without_a_word_names_the_exit_code():
    with pytest.raises(FetchError, match="code 3"):
        run(stand_in("sys.exit(3)"))


def test_a_command_that_cannot_be_started_is_an_expected_failure(tmp_path):
    with pytest.raises(FetchError, match="could not be started"):
        run([str(tmp_path / "absent")])


def test_its_input_is_empty_and_the_environment_is_ours(monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "here")
    code = "assert sys.stdin.read() == ''; say(os.environ['PIP_INDEX_URL'], 1)"
    assert run(stand_in(code)) == [("here", 1, 9)]


def test_the_workspace_is_not_imported(tmp_path, monkeypatch):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "__main__.py").write_text("raise SystemExit('the workspace was run')")
    (tmp_path / "json.py").write_text("raise SystemExit('the workspace was run')")
    monkeypatch.setattr(sys, "path", ["", *(path for path in sys.path if path), str(ROOT)])
    monkeypatch.setenv("PYTHONPATH", os.pathsep)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FetchError, match="There is no model 'nonsense'"):
        run(fetch_command("nonsense"))


@posix
def test_a_cancelled_fetch_may_clean_up(tmp_path, monkeypatch):
    monkeypatch.setattr(fetching, "CLEAN_UP_TIME", PATIENCE_S)  # a busy machine may need it
    cleaned = tmp_path / "cleaned"
    pid = run_until_cancelled(stand_in(TIDY, str(cleaned)))
    assert is_gone_in_time(pid)
    assert cleaned.exists()


@posix
@pytest.mark.parametrize("code", [DEAF, WITH_CHILD], ids=["itself", "its child"])
def test_a_cancelled_fetch_that_does_not_listen_is_killed_with_its_children(code, monkeypatch):
    monkeypatch.setattr(fetching, "CLEAN_UP_TIME", 0.1)
    assert is_gone_in_time(run_until_cancelled(stand_in(code)))


def test_a_cancelled_fetch_is_killed_also_when_the_wait_for_it_is_cancelled():
    """As at the end of the event loop."""
    assert is_gone_in_time(run_until_cancelled(stand_in(DEAF), times=3))


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this platform")
def test_the_sudden_death_of_the_server_ends_the_fetch():
    stalled = [sys.executable, "-c", textwrap.dedent(STALLED)]
    server = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SERVER), *stalled],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    pid = int(server.stdout.readline())
    server.kill()
    server.communicate()
    assert is_gone_in_time(pid)


@pytest.mark.parametrize(
    "line", [b"", b"text", b"[]", b"{}", b'{"stage": "a", "done": null, "total": 1}', b"\xff"]
)
def test_lines_that_are_no_progress_are_none(line):
    assert parse_step(line) is None


def test_the_stages_of_a_fetch_make_one_rising_percentage():
    stages = ("wait", "download", "extract", "checkpoint", "weights", "hashes", "ready")
    percents = [fetch_step(stage, done, 4)[1] for stage in stages for done in range(5)]
    assert percents == sorted(percents)
    assert (percents[0], percents[-1]) == (0, 100)
    assert fetch_step("weights", 0, 0)[0] == "build: weights"
    assert 0 <= fetch_step("a stage of a later builder", 1, 1)[1] <= 100
