"""Several items from a real graph: each is what the model writes behind its beginning, and none
reads the prompt again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lsp_server.backend.loader import load_engine
from lsp_server.cancellation import CancelToken
from lsp_server.completer import complete
from lsp_server.completion import CompletionRequest, Mode, Snapshot
from lsp_server.generation.items import branches
from lsp_server.settings.tree import Settings

TEXT = "def add(a, b):\n    return a + b\n\n\ndef mul(a, b):\n    return "


@pytest.fixture(scope="module")
def engine(tiny_folder, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TABAHEAD_HOME", str(tmp_path_factory.mktemp("home")))
        settings = Settings(model=str(tiny_folder), prompt_tokens=200)
        return load_engine(settings, lambda *_: None, CancelToken())


def request(text=TEXT, uri="file:///a.py", **options):
    options = {"invoked": True, "mode": Mode.BLOCK, "max_tokens": 12, "strict": True, **options}
    return CompletionRequest(Snapshot(uri, 1, "python", text), len(text), **options)


def written(engine, asked):
    return list(engine.generate(asked, CancelToken()))


def forced(pieces):
    return branches(pieces)[:4]


def test_a_text_that_parts_from_another_is_what_the_model_writes_behind_that_beginning(engine):
    pieces = written(engine, request())
    assert len(forced(pieces)) == 4
    for forced_ids in forced(pieces):
        engine.forget("file:///fresh.py")
        fresh = written(engine, request(uri="file:///fresh.py", forced_ids=forced_ids))
        written(engine, request())
        again = written(engine, request(forced_ids=forced_ids))
        assert [piece.token_id for piece in again] == [piece.token_id for piece in fresh]
        assert tuple(piece.token_id for piece in again[: len(forced_ids)]) == forced_ids
        assert len(again) <= 12


@pytest.mark.parametrize("healing", [True, False])
def test_the_texts_begin_with_what_stands_at_the_cursor_whatever_is_forced(engine, healing):
    asked = request("value = 1\nprint(val", healing=healing)
    pieces = written(engine, asked)
    for forced_ids in forced(pieces):
        text = "".join(p.text for p in written(engine, replace(asked, forced_ids=forced_ids)))
        assert text != "".join(piece.text for piece in pieces)


def test_no_text_but_the_first_reads_the_prompt(engine):
    asked = request(strict=False)
    pieces = written(engine, asked)
    for forced_ids in forced(pieces):
        generation = engine.generate(replace(asked, forced_ids=forced_ids), CancelToken())
        list(generation)
        stats = generation.stats
        assert stats.prompt_tokens - stats.reused_tokens <= len(forced_ids) + 1
        assert stats.reused_tokens > 10


def test_an_end_of_text_that_is_forced_ends_the_text(engine):
    (end, *_) = sorted(engine.model.spec.eos_ids)
    assert [p.token_id for p in written(engine, request(forced_ids=(5, end)))] == [5]


def test_items_are_distinct_and_the_first_is_what_a_request_for_one_gets(engine):
    one = complete(request("a = 1\n", num_items=1), engine, CancelToken())
    several = complete(request("a = 1\n", num_items=3), engine, CancelToken())
    assert one.text
    assert (several.text, several.token_ids) == (one.text, one.token_ids)
    texts = [several.text, *(other.text for other in several.alternatives)]
    assert len(set(texts)) == len(texts) == 3
    assert several.stats.tokens > one.stats.tokens
    assert several.stats.confidence == one.stats.confidence is not None
