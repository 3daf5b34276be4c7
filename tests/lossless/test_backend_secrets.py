"""Secrets and refused documents leave no trace in what other documents draft from."""

from __future__ import annotations

import pytest

from lsp_server.backend.loader import load_engine
from lsp_server.cancellation import CancelToken
from lsp_server.completion import CompletionRequest, Snapshot
from lsp_server.settings.tree import Settings
from tests.tiny_model import build_tiny_model

TOKEN = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
BEFORE, AFTER = "def total(values):\n", "\n    return sum(values)\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("secrets") / "target"
    build_tiny_model(folder)
    return folder


@pytest.fixture
def engine(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("TABAHEAD_HOME", str(tmp_path / "home"))
    settings = Settings(model=str(folder), sources=("corpus",), prompt_tokens=480)
    return load_engine(settings, lambda *_: None, CancelToken())


def corpus_of(engine) -> set[str]:
    """The texts that begin as the test's documents do."""
    start = engine.tokenizer.encode(BEFORE)[:2]
    found = engine.sources.corpus.matches(start)
    return {engine.tokenizer.decode([i for i in ids if i >= 0]) for ids, _ in found}


def ask(engine, uri: str, text: str) -> None:
    snapshot = Snapshot(uri, 1, "python", text)
    request = CompletionRequest(snapshot, len(text), max_tokens=2, sources=("corpus",))
    assert list(engine.generate(request, CancelToken()))


def test_a_token_in_code_stays_out_of_the_corpus_whichever_way_the_code_comes(engine):
    ask(engine, "file:///a.py", f'{BEFORE}    key = "{TOKEN}"{AFTER}')
    engine.accepted(f'{BEFORE}    other = "{TOKEN}"')
    ask(engine, "file:///b.py", "x = ")
    texts = corpus_of(engine)
    assert len(texts) == 2
    assert all("***" in text and TOKEN[:12] not in text for text in texts)
    assert any(text.endswith(AFTER) for text in texts)


def test_what_the_model_is_shown_of_other_files_has_no_secrets_and_nothing_refused(engine):
    shop = "class Basket:\n    def rate_of(self, code):\n        return self.rates[code]\n"
    user = "basket = Basket()\nprices = []\nfor code in codes:\n    pass\nbasket.rate_of("
    here = Snapshot("file:///here.py", 1, "python", user)
    asked = CompletionRequest(here, len(user), max_tokens=2)

    def prompt() -> str:
        return engine.tokenizer.decode(list(engine.prompt(asked, is_idle=True).token_ids))

    engine.learn(Snapshot("file:///shop.py", 1, "python", f'{shop}    token = "{TOKEN}"\n'))
    shown = prompt()
    assert "def rate_of(self, code)" in shown
    assert "***" in shown
    assert TOKEN[:12] not in shown
    engine.forget("file:///shop.py")
    assert "def rate_of" not in prompt()


def test_a_document_that_is_refused_is_gone_from_the_corpus(engine):
    ask(engine, "file:///a.py", BEFORE + AFTER)
    engine.learn(Snapshot("file:///c.py", 1, "python", BEFORE))
    assert len(corpus_of(engine)) == 1
    engine.forget("file:///c.py")
    engine.forget("file:///a.py")
    engine.forget("file:///absent.py")
    ask(engine, "file:///b.py", "x = ")
    assert corpus_of(engine) == set()
    assert engine.sources.corpus.num_tokens == 0
