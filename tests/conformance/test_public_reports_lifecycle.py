"""Reported faults: cancelling, load, and the life of a server. Numbers: `reports/suffix.toml`."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

import pytest

from lsp_server.scheduler import NICENESS
from tests.lsp_client import TIMEOUT, ServerProcess, at
from tests.lsp_product import Product, served
from tests.scripted_product import directed, edit, shown

COMPLETE = "textDocument/inlineCompletion"
CANCELLED = -32800
LONG = "abcd" * 256


@pytest.fixture
def server():
    with directed() as (client, model):
        yield client, model


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.json"
    path.write_text(json.dumps([{"after": "", "text": "hello()"}]))
    return f"scripted:{path}"


# Cancelling.


@pytest.mark.parametrize("num_pieces", [1, 3, 20])
def test_42_the_engine_is_idle_within_one_step_of_a_cancel(server, num_pieces):
    client, model = server
    model.text, model.is_held = LONG, True
    editor = edit(client, "a =·║")
    request = client.start(COMPLETE, at(editor.uri, 0, 4))
    model.release(num_pieces - 1)
    for _ in range(num_pieces):
        model.pieces.get(timeout=TIMEOUT)
    client.notify("$/cancelRequest", {"id": request})
    assert client.response(request)["error"]["code"] == CANCELLED
    assert model.idle.wait(TIMEOUT)
    assert model.pieces.empty(), "nothing was generated after the cancel"


def test_42_what_was_cancelled_in_the_queue_is_never_started(server):
    client, model = server
    model.text, model.is_held = LONG, True
    busy = client.start(COMPLETE, at(edit(client, "a =·║", "file:///a").uri, 0, 4))
    model.pieces.get(timeout=TIMEOUT)
    queued = [
        client.start(COMPLETE, at(edit(client, "b =·║", f"file:///b{n}").uri, 0, 4))
        for n in range(3)
    ]
    for request in queued:
        client.notify("$/cancelRequest", {"id": request})
        assert client.response(request)["error"]["code"] == CANCELLED
    client.notify("$/cancelRequest", {"id": busy})
    client.response(busy)
    model.is_held, model.text = False, "done"
    last = edit(client, "c =·║", "file:///c")
    assert shown(last.ask()) == "done"
    assert [r.snapshot.uri for r in model.requests] == ["file:///a", "file:///c"]


def test_42_a_cancel_of_what_is_answered_or_was_never_asked_is_no_error(server):
    client, model = server
    model.text = "1"
    editor = edit(client, "a =·║")
    request = client.start(COMPLETE, at(editor.uri, 0, 4))
    assert client.response(request)["result"]["items"]
    for msg_id in (request, request + 1000, "never"):
        client.notify("$/cancelRequest", {"id": msg_id})
    assert editor.ask() is not None


# Load.


@pytest.mark.parametrize("cancels", [False, True])
def test_44_every_request_of_a_burst_is_answered_once(server, cancels):
    client, model = server
    model.text = "text()"
    editor = edit(client, "a =·║")
    requests = []
    for _ in range(10):
        editor.type("x")
        requests.append(client.start(COMPLETE, at(editor.uri, *editor.position(editor.cursor))))
        if cancels:
            client.notify("$/cancelRequest", {"id": requests[-1]})
    answers = [client.response(request) for request in requests]
    for answer in answers:
        assert ("result" in answer) or answer["error"]["code"] == CANCELLED
    assert editor.ask() is not None
    assert not [m for m in client.messages if m.get("id") in requests], "none is answered twice"


def test_47_edits_and_questions_are_answered_while_the_engine_works(server):
    client, model = server
    model.text, model.is_held = LONG, True
    editor = edit(client, "a =·║")
    request = client.start(COMPLETE, at(editor.uri, 0, 4))
    model.pieces.get(timeout=TIMEOUT)
    other = edit(client, "b =·║", "file:///other")
    for _ in range(50):
        other.type("x")
        client.explain(other.uri)
    assert not model.idle.is_set(), "all that while the engine was at work"
    client.notify("$/cancelRequest", {"id": request})
    client.response(request)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities of threads")
def test_47_the_engine_gives_way_to_the_editor(server):
    client, model = server
    model.text = "1"
    assert edit(client, "a =·║").ask() is not None
    here = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    assert model.thread_id != threading.get_native_id()
    assert os.getpriority(os.PRIO_PROCESS, model.thread_id) == max(here, NICENESS)


# Documents.


@pytest.mark.parametrize("uri", ["untitled:Untitled-1", "file:///", "", "buffer"])
def test_48_odd_and_equal_uris_are_no_crash(server, uri):
    client, model = server
    model.text = "1"
    client.change(uri, 1, "before it is open")
    first, second = edit(client, "a =·║", uri), edit(client, "bb =·║", uri)
    assert shown(second.ask()) == "1"
    first.close()
    assert client.complete(uri, 0, 4) == {"items": []}
    assert client.explain(uri)["reason"] == "not-open"
    assert shown(edit(client, "c =·║", uri).ask()) == "1"


def test_49_of_closed_documents_nothing_is_kept(server):
    """The memory of a process over 10,000 requests: `test_stdio_session.py`."""
    client, model = server
    model.text = "1"
    for n in range(200):
        editor = edit(client, "a =·║", f"file:///{n}")
        editor.ask()
        editor.close()
    assert client.explain("file:///0")["reason"] == "not-open"
    session = model.server.session
    assert session.documents.uris() == []
    assert session._answers == {}


# Clients and models.


@pytest.mark.parametrize(
    "inline", [None, {}, {"dynamicRegistration": False}, {"dynamicRegistration": True}]
)
def test_51_the_capability_is_static_and_never_registered(inline):
    text_document = {} if inline is None else {"inlineCompletion": inline}
    product = Product()
    product.gate.set()
    with served(product) as client:
        answer = client.initialize(capabilities={"textDocument": text_document})
        assert answer["result"]["capabilities"]["inlineCompletionProvider"] == {}
        edit(client, "a =·║").ask()
        registered = [
            registration["method"]
            for message in client.messages
            if message.get("method") == "client/registerCapability"
            for registration in message["params"]["registrations"]
        ]
        assert COMPLETE not in registered


@pytest.mark.parametrize("model", ["no-such-model", "missing/folder"])
def test_54_an_unknown_model_is_named_and_what_to_do_is_said(tmp_path, model):
    with ServerProcess("--model", model, env={"TABAHEAD_HOME": str(tmp_path)}) as client:
        client.initialize()
        told = client.notification("window/showMessage")["message"]
        assert model in told
        editor = edit(client, "a =·║")
        assert editor.ask() is None
        explained = client.explain(editor.uri)
        assert explained["reason"] == "model-missing"
        assert explained["message"] in told
        assert client.stop() == 0


def test_54_a_folder_that_is_no_model_is_named_with_what_it_lacks(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with ServerProcess("--model", str(tmp_path), env={"TABAHEAD_HOME": str(tmp_path)}) as client:
        client.initialize()
        told = client.notification("window/showMessage")["message"]
        assert str(tmp_path) in told
        assert "manifest.json" in told
        assert client.stop() == 0


# Secrets.


@pytest.mark.parametrize("name", [".env", ".env.local", "id_rsa", "server.pem", "credentials"])
def test_59_a_file_of_secrets_never_reaches_the_model_or_the_log(script, name):
    secret = "hunter2hunter2"
    with ServerProcess("--model", script) as client:
        client.initialize()
        editor = edit(client, f"KEY={secret}⏎OTHER=║", f"file:///project/{name}")
        assert editor.ask(kind=1) is None
        explained = client.explain(editor.uri)
        assert explained["reason"] == "secret"
        assert explained["stats"]["passes"] == 0
        assert client.stop() == 0
        assert secret not in client.stderr()
        assert secret not in json.dumps(client.messages)


def test_59_an_ignored_file_never_reaches_the_model(script, tmp_path):
    (tmp_path / ".gitignore").write_text("private/\n")
    (tmp_path / ".tabaheadignore").write_text("*.draft\n")
    (tmp_path / "private").mkdir()
    with ServerProcess("--model", script, cwd=tmp_path) as client:
        client.initialize(rootUri=tmp_path.as_uri())
        for name in ("private/a.py", "b.draft"):
            path = tmp_path / name
            path.write_text("a = ")
            editor = edit(client, "a =·║", path.as_uri())
            assert editor.ask(kind=1) is None
            assert editor.reason() == "excluded"
        assert shown(edit(client, "a =·║", (tmp_path / "c.py").as_uri()).ask()) == "hello()"
        assert client.stop() == 0


def test_59_no_text_of_documents_is_written_to_disk(script, tmp_path):
    text = "unmistakable_name"
    with ServerProcess("--model", script, env={"TABAHEAD_HOME": str(tmp_path)}) as client:
        client.initialize()
        editor = edit(client, f"{text} =·║")
        editor.accept(editor.ask())
        assert client.stop() == 0
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in written if text.encode() in path.read_bytes()]
    assert os.environ.get("TABAHEAD_HOME") != str(tmp_path)
