"""The process around the protocol: the client's death, hostile workspaces, sockets, start-up."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest

import lsp_server
from tests.lsp_client import ROOT, RawClient, ServerProcess, at, environment

GONE_WITHIN = 5.0
COMPLETE = "textDocument/inlineCompletion"
MODULE = (sys.executable, "-P", "-m", "lsp_server")

# Our server with an engine that neither ends nor listens.
DEAF = """
import sys, time
from lsp_server.backend.scripted import ScriptedBackend
ScriptedBackend.generate = lambda self, request, cancel: time.sleep(1000)
from lsp_server.__main__ import main
sys.exit(main())
"""

# A client that starts the command given to it, has it work, and then waits to be killed.
CLIENT = """
import json, os, subprocess, sys, time
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def send(**message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    server.stdin.write(b"Content-Length: %d\\r\\n\\r\\n%s" % (len(body), body))
    server.stdin.flush()
send(id=1, method="initialize", params={"processId": os.getpid(), "capabilities": {}})
server.stdout.readline()
send(method="initialized", params={})
document = {"uri": "u", "languageId": "x", "version": 1, "text": "slow"}
send(method="textDocument/didOpen", params={"textDocument": document})
send(id=2, method="textDocument/inlineCompletion", params={"textDocument": {"uri": "u"},
     "position": {"line": 0, "character": 4}, "context": {"triggerKind": 1}})
time.sleep(0.5)  # for the request to reach the engine, which tells nobody
print(server.pid, flush=True)
time.sleep(1000)
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("script") / "script.json"
    entries = [
        {"after": "slow", "text": "abcd" * 999, "delay_ms": 100},
        {"after": "", "text": "ok"},
    ]
    path.write_text(json.dumps(entries))
    return f"scripted:{path}"


def wait_until_gone(process: psutil.Process) -> float:
    """Seconds until the process has ended; fails when it does not."""
    start = time.monotonic()
    while time.monotonic() - start < 30:
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                break
        except psutil.NoSuchProcess:
            break
        time.sleep(0.02)  # another's child cannot be waited for
    else:
        process.kill()
        pytest.fail("the server is still there")
    return time.monotonic() - start


@pytest.mark.parametrize("engine", ["scripted", "deaf"])
def test_the_end_of_stdin_ends_the_process_whatever_runs(model: str, engine: str) -> None:
    command = MODULE if engine == "scripted" else (sys.executable, "-P", "-c", DEAF)
    with ServerProcess("--model", model, command=command) as client:
        client.initialize()
        client.open("file:///a", "slow")
        client.start(COMPLETE, at("file:///a", 0, 4, kind=1))
        client.request("foo")
        client.end_input()
        assert wait_until_gone(psutil.Process(client.process.pid)) < GONE_WITHIN
        assert client.process.wait(20) == 1


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this platform")
@pytest.mark.parametrize("engine", ["scripted", "deaf"])
def test_a_killed_client_takes_the_server_with_it(model: str, engine: str) -> None:
    command = MODULE if engine == "scripted" else (sys.executable, "-P", "-c", DEAF)
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, *command, "--model", model],
        stdout=subprocess.PIPE,
        env=environment(),
        text=True,
    )
    assert client.stdout is not None
    server = psutil.Process(int(client.stdout.readline()))
    client.send_signal(signal.SIGKILL)
    client.wait()
    assert wait_until_gone(server) < GONE_WITHIN


@pytest.mark.parametrize("how", ["processId", "--clientProcessId"])
def test_the_death_of_the_parent_is_noticed_although_stdin_stays_open(how: str, model: str) -> None:
    parent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    option = ("--clientProcessId", str(parent.pid)) if how.startswith("-") else ()
    with ServerProcess(*option, "--model", model) as client:
        client.initialize(processId=None if option else parent.pid)
        assert client.request("foo")["error"]["code"] == -32601
        parent.kill()
        assert wait_until_gone(psutil.Process(client.process.pid)) < GONE_WITHIN
    parent.wait()


def test_a_client_that_never_reads_does_not_keep_the_server_alive(model: str) -> None:
    process = subprocess.Popen(
        [*MODULE, "--model", model],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdin is not None
    body = b'{"jsonrpc":"2.0","id":1,"method":"%s"}' % (b"x" * 10_000)
    for _ in range(200):
        process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    process.stdin.close()
    assert wait_until_gone(psutil.Process(process.pid)) < GONE_WITHIN
    process.wait()


HOSTILE = "raise SystemExit('the workspace was imported: ' + __file__)\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A project whose own modules have the names of ours and of what we use."""
    for name in ("models", "export", "numpy", "lsp_server", "tokenizers", "pygls", "onnxruntime"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(HOSTILE)
    for name in ("json", "logging", "asyncio", "argparse", "tomllib", "attrs", "gguf", "uuid"):
        (tmp_path / f"{name}.py").write_text(HOSTILE)
    (tmp_path / "sitecustomize.py").write_text("")
    return tmp_path


@pytest.fixture
def console_script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What an installer writes for `tabahead`."""
    path = tmp_path_factory.mktemp("bin") / "tabahead"
    path.write_text("import sys\nfrom lsp_server.__main__ import main\nsys.exit(main())\n")
    return path


@pytest.fixture(params=["module", "safe module", "console script", "empty entry in PYTHONPATH"])
def command(
    request: pytest.FixtureRequest, workspace: Path, console_script: Path
) -> Iterator[Sequence[str]]:
    if request.param in ("module", "empty entry in PYTHONPATH"):
        # Nothing inside the package can help where the workspace has a package of its name.
        (workspace / "lsp_server" / "__init__.py").unlink()
        (workspace / "lsp_server").rmdir()
        # Python itself looks for these in the current directory before our first line runs.
        yield (sys.executable, "-m", "lsp_server")
    elif request.param == "safe module":
        yield (sys.executable, "-P", "-m", "lsp_server")
    else:
        yield (sys.executable, str(console_script))


def test_nothing_of_the_workspace_is_imported(
    command: Sequence[str], workspace: Path, model: str, request: pytest.FixtureRequest
) -> None:
    env = {"TABAHEAD_HOME": str(workspace / "home")}
    if "PYTHONPATH" in request.node.name:
        env["PYTHONPATH"] = os.pathsep.join(["", str(ROOT)])
    with ServerProcess("--model", model, command=command, cwd=workspace, env=env) as client:
        client.initialize(rootUri=workspace.as_uri())
        client.open("file:///a", "x = ")
        assert client.complete("file:///a", 0, 4)["items"]
        assert client.stop() == 0
        assert client.stderr() == ""
    with ServerProcess("--model", "none", command=command, cwd=workspace, env=env) as client:
        client.initialize(rootUri=workspace.as_uri())
        told = client.notification("window/showMessage")["message"]
        assert "could not be loaded" not in told, "the loader met a module of the workspace"
        assert client.stop() == 0


def test_a_checkout_finds_its_own_packages(model: str) -> None:
    env = {**os.environ, "PYTHONPATH": ""}
    code = "import lsp_server.__main__, models, export; print(models.__path__[0])"
    output = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    assert Path(output.stdout.strip()) == ROOT / "models"


def test_the_version_is_that_of_the_distribution() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert lsp_server.__version__ == project["version"]


def test_a_socket_serves_like_stdio(model: str) -> None:
    process = subprocess.Popen(
        [*MODULE, "--tcp", "127.0.0.1:0", "--model", model],
        stderr=subprocess.PIPE,
        env=environment(),
        text=True,
    )
    assert process.stderr is not None
    where = re.search(r"listening on 127\.0\.0\.1:(\d+)", process.stderr.readline())
    assert where is not None
    with socket.create_connection(("127.0.0.1", int(where[1]))) as connection:
        stream = connection.makefile("rb")
        client = RawClient(connection.sendall, stream.readline, stream.read)
        client.initialize()
        client.open("file:///a", "x = ")
        assert client.complete("file:///a", 0, 4)["items"]
        client.request("shutdown")
        client.notify("exit")
        assert process.wait(20) == 0


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("0.0.0.0:0", "--allow-remote"),
        ("[::]:0", "--allow-remote"),
        ("127.0.0.1", "HOST:PORT"),
        ("127.0.0.1:x", "HOST:PORT"),
        ("127.0.0.1:99999", "HOST:PORT"),
        ("no.such.host.invalid:1", "Cannot listen"),
    ],
)
def test_addresses_that_are_wrong_or_not_of_this_machine_are_refused(
    address: str, message: str
) -> None:
    run = subprocess.run(
        [*MODULE, "--tcp", address],
        env=environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert run.returncode == 1
    assert run.stdout == ""
    assert message in run.stderr
    assert run.stderr.count("\n") == 1, "one sentence, no traceback"


def test_where_nothing_can_be_kept_requests_are_answered_and_the_reason_is_told() -> None:
    with ServerProcess(env={"TABAHEAD_HOME": "~nobody-at-all/tabahead"}) as server:
        server.initialize()
        server.open("file:///a", "x = ")
        assert server.complete("file:///a", 0, 4)["items"] == []
        assert "TABAHEAD_HOME" in server.explain("file:///a")["message"]
        assert server.stop() == 0
        assert "Traceback" not in server.stderr()


def test_a_script_that_is_wrong_is_refused_in_one_sentence(tmp_path: Path) -> None:
    run = subprocess.run(
        [*MODULE, "--model", f"scripted:{tmp_path / 'absent.json'}"],
        env=environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert run.returncode == 1
    assert "cannot be read" in run.stderr
    assert run.stderr.count("\n") == 1


def test_initialize_is_answered_before_anything_heavy_is_imported() -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}'
    leave = b'{"jsonrpc":"2.0","method":"exit"}'
    run = subprocess.run(
        [sys.executable, "-P", "-X", "importtime", "-m", "lsp_server"],
        input=b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(b), b) for b in (body, leave)),
        env=environment(), capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert b"inlineCompletionProvider" in run.stdout
    imported = set(re.findall(r"\| +([\w.]+)$", run.stderr.decode(), re.MULTILINE))
    assert "lsprotocol.types" in imported
    heavy = {"numpy", "tokenizers", "onnx", "onnxruntime", "onnx_ir", "gguf", "models", "export"}
    later = {"lsp_server.settings.tree", "lsp_server.completer", "lsp_server.paths", "platformdirs"}
    assert not (heavy | later | {"importlib.metadata"}) & imported


def test_help_names_every_command_and_imports_none() -> None:
    run = subprocess.run(
        [*MODULE, "--help"], env=environment(), capture_output=True, text=True, check=True
    )
    for name in ("serve", "complete", "doctor", "bench", "stats", "models", "export"):
        assert re.search(rf"^ +{name} ", run.stdout, re.MULTILINE)


def test_an_unknown_command_is_refused() -> None:
    run = subprocess.run(
        [*MODULE, "servve"], env=environment(), capture_output=True, text=True, check=False
    )
    assert run.returncode == 2
    assert "servve" in run.stderr
