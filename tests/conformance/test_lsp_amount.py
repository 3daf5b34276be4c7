"""How much a server shows: nothing in prose, nothing it is unsure of, several items on request."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lsp_server.completion import Eagerness
from lsp_server.generation.confidence import THRESHOLDS
from tests.editor import Editor
from tests.lsp_client import ServerProcess
from tests.marks import CURSOR, unmark
from tests.tiny_model import build_tiny_model

INVOKED, AUTOMATIC = 1, 2
BLOCK = "a = 1\n    b = 2\n    return b\n\ndef g():\n    pass"
CODE = "def f():⏎    ║"


def opened(client: ServerProcess, marked: str, language: str, uri: str) -> Editor:
    before, _, after = unmark(marked).partition(CURSOR)
    return Editor(client, uri, before + after, len(before), language=language)


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.json"
    entries = [{"after": "f():\n    ", "text": BLOCK}, {"after": "", "text": "word\nmore\n"}]
    path.write_text(json.dumps(entries))
    return f"scripted:{path}"


@pytest.fixture
def client(script: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    options = getattr(request, "param", {})
    with ServerProcess("--model", script, env={"TABAHEAD_HOME": str(tmp_path)}) as client:
        client.initialize(initializationOptions=options)
        yield client
        assert client.stop() == 0


PROSE = [
    ("# what it ║⏎x = 1⏎", "python"),
    ('def g():⏎    """Adds ║⏎', "python"),
    ("// what it ║⏎a();⏎", "javascript"),
    ("Once upon a ║⏎", "markdown"),
    ("Once upon a ║⏎", "plaintext"),
]


@pytest.mark.parametrize(("marked", "language"), PROSE)
def test_prose_is_completed_on_request_only(client, marked, language):
    editor = opened(client, marked, language, "file:///prose")
    assert (editor.ask(), editor.reason()) == (None, "prose")
    item = editor.ask(kind=INVOKED)
    assert item is not None
    assert item["insertText"].startswith("word")


@pytest.mark.parametrize("client", [{"prose": True}], indirect=True)
def test_who_wants_prose_gets_it(client):
    for number, (marked, language) in enumerate(PROSE):
        editor = opened(client, marked, language, f"file:///wanted-{number}")
        item = editor.ask()
        assert item is not None
        assert item["insertText"].startswith("word")


@pytest.mark.parametrize("client", [{"eagerness": "quiet"}], indirect=True)
def test_text_of_a_script_of_which_nothing_is_known_is_shown(client):
    item = opened(client, "x = ║⏎y = 1⏎", "python", "file:///known.py").ask()
    assert item is not None
    assert "confidence" not in client.explain("file:///known.py")["stats"]


def test_a_block_comes_where_one_begins_and_elsewhere_on_request(client):
    begun = opened(client, f"{CODE}⏎⏎x = 1⏎", "python", "file:///begun.py")
    assert begun.ask()["insertText"] == "a = 1\n    b = 2\n    return b"
    inside = opened(client, "x = 1⏎║⏎y = 1⏎", "python", "file:///inside.py")
    assert inside.ask()["insertText"] == "word"
    assert inside.ask(kind=INVOKED)["insertText"] == "word\nmore"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A real model that knows nothing, and is sure of nothing."""
    folder = tmp_path_factory.mktemp("tiny")
    build_tiny_model(folder / "model")
    home = {"TABAHEAD_HOME": str(folder)}
    with ServerProcess("--model", str(folder / "model"), env=home) as client:
        client.initialize(initializationOptions={"max_tokens": 8, "mode": "block"})
        editor = opened(client, CODE, "python", "file:///first.py")
        while editor.ask() is None and editor.reason() == "model-loading":
            time.sleep(0.1)  # no message tells when the model is ready
        yield client
        assert client.stop() == 0


def test_a_guess_is_kept_back_while_typing_and_says_how_unsure_it_is(tiny):
    editor = opened(tiny, CODE, "python", "file:///guess.py")
    for origin in ("engine", "cache"):
        assert (editor.ask(), editor.reason()) == (None, "low-confidence")
        stats = tiny.explain(editor.uri)["stats"]
        assert stats["origin"] == origin
        assert 0 <= stats["confidence"] < THRESHOLDS[Eagerness.BALANCED]


def test_on_request_there_are_several_items_that_then_stay(tiny):
    editor = opened(tiny, "value = ║", "python", "file:///several.py")
    items = editor.items(kind=INVOKED)
    texts = [item["insertText"] for item in items]
    assert len(set(texts)) == len(texts) == 3
    sure = tiny.explain(editor.uri)["stats"]["confidence"]
    kept = editor.items(kind=AUTOMATIC)
    assert [item["insertText"] for item in kept] == texts
    editor.type(texts[0][0])
    typed = editor.items(kind=AUTOMATIC)
    assert [item["insertText"] for item in typed][:1] == [texts[0][1:]]
    stats = tiny.explain(editor.uri)["stats"]
    assert (stats["origin"], stats["confidence"]) == ("typed_through", sure)
