"""Text to tokens and back, on vocabularies of both kinds; long documents leave the interpreter to
other threads, such as the event loop's."""

from __future__ import annotations

import json
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.engine.tokenizer import Tokenizer
from tests.fim_models import VOCABULARIES, write_tokenizer
from tests.tiny_model import build_tiny_model

TICK, LEAST_TICKS = 0.001, 10


def test_other_threads_go_on_while_a_document_is_encoded(tmp_path):
    build_tiny_model(tmp_path / "tiny")
    tokenizer = Tokenizer(tmp_path / "tiny" / "tokenizer.json")
    ticks, done = [0], threading.Event()

    def tick() -> None:
        while not done.is_set():
            ticks[0] += 1
            time.sleep(TICK)  # to wake needs the interpreter, which is what is counted

    thread = threading.Thread(target=tick)
    thread.start()
    before = ticks[0]
    tokenizer.encode("for value in values: total += value\n" * 20_000)
    after = ticks[0]
    done.set()
    thread.join()
    assert after - before >= LEAST_TICKS


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory) -> dict[str, Tokenizer]:
    folder = tmp_path_factory.mktemp("vocabularies")
    for number, vocabulary in enumerate(VOCABULARIES.values()):
        write_tokenizer(folder / f"{number}.json", vocabulary)
    made = {name: Tokenizer(folder / f"{n}.json") for n, name in enumerate(VOCABULARIES)}
    return made | {"Metaspace": _with_metaspace(folder)}


def _with_metaspace(folder) -> Tokenizer:
    """SentencePiece's blanks as newer files have them: in a pre-tokenizer, not a normalizer."""
    path = folder / "metaspace.json"
    write_tokenizer(path, VOCABULARIES["Codestral"])
    raw = json.loads(path.read_text(encoding="utf-8"))
    raw["normalizer"] = None
    raw["pre_tokenizer"] = {
        "type": "Metaspace",
        "replacement": "▁",
        "prepend_scheme": "first",
        "split": False,
    }
    path.write_text(json.dumps(raw), encoding="utf-8")
    return Tokenizer(path)


@pytest.mark.parametrize("name", [*VOCABULARIES, "Metaspace"])
@given(text=st.text(st.sampled_from("abdefr ()<|>_\n\t漢é😀\u0301\x00"), max_size=80))
def test_text_survives_and_nothing_is_put_before_it(tokenizers, name, text):
    tokenizer = tokenizers[name]
    assert b"".join(map(tokenizer.token_bytes, tokenizer.encode(text))) == text.encode()


@pytest.mark.parametrize("name", VOCABULARIES)
def test_control_tokens_are_found_by_name_and_never_in_text(tokenizers, name):
    tokenizer = tokenizers[name]
    for token_id, spelling in enumerate(VOCABULARIES[name].control):
        assert tokenizer.control_id(spelling) == token_id
        assert token_id not in tokenizer.encode(f"a {spelling} b")
        assert tokenizer.decode([token_id]) == ""
    assert tokenizer.control_id("unheard of") is None


def test_a_token_that_text_can_become_is_no_control_token(tokenizers):
    tokenizer = tokenizers["none"]
    name = tokenizer.spelling(tokenizer.encode("a")[0])
    assert name == "a"
    assert tokenizer.control_id(name) is None
