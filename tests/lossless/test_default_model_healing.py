"""Healing on the default model: the same strict text with drafts as without, wherever the cursor
stands, and never other than what the target says of the tokens that agree."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from lsp_server.backend.engine_backend import EngineBackend
from lsp_server.backend.loader import load_engine
from lsp_server.cancellation import CancelToken
from lsp_server.completion import CompletionRequest, Snapshot
from lsp_server.settings.tree import Settings

pytestmark = pytest.mark.model
SOURCE = Path(__file__).parents[2] / "lsp_server" / "engine" / "sampling.py"
NUM_PLACES, NUM_CHARACTERS, NUM_TOKENS = 20, 300, 12


@pytest.fixture(scope="module")
def engine(default_model_folder: Path) -> EngineBackend:
    settings = Settings(model=str(default_model_folder), sources=("lookup",))
    return load_engine(settings, lambda *_: None, CancelToken())


def places() -> list[str]:
    """Text before the cursor, which stands anywhere: in words, behind blanks, at line starts."""
    text, rng = SOURCE.read_text(encoding="utf-8"), random.Random(0)
    starts = [rng.randrange(len(text) - NUM_CHARACTERS) for _ in range(NUM_PLACES)]
    return [text[start : start + NUM_CHARACTERS] for start in starts]


def request(before: str, **options) -> CompletionRequest:
    snapshot = Snapshot("file:///a.py", 1, "python", before)
    options = {"strict": True, "max_tokens": NUM_TOKENS, "use_context": False, **options}
    return CompletionRequest(snapshot, len(before), **options)


def tokens(engine: EngineBackend, asked: CompletionRequest) -> list[int | None]:
    return [piece.token_id for piece in engine.generate(asked, CancelToken())]


def test_strict_text_is_the_same_with_lookup_as_without(engine):
    num_healed = 0
    for before in places():
        plain = tokens(engine, request(before, sources=()))
        assert tokens(engine, request(before, sources=("lookup",))) == plain
        num_healed += bool(engine.prompt(request(before)).seam.text)
    assert num_healed >= NUM_PLACES * 3 // 4


def test_the_first_token_is_the_likeliest_of_those_that_agree(engine):
    """Said once more without the code that says so: over all tokens, by their bytes."""
    for before in places()[:8]:
        prompt = engine.prompt(request(before))
        if not prompt.seam.text:
            continue
        slot = engine.model.slot("check")
        slot.truncate(0)
        row = slot.forward(prompt.token_ids, [len(prompt.token_ids) - 1], strict=True)[0].copy()
        begins = tuple(text for text in (prompt.seam.text, prompt.seam.instead) if text)
        for token_id in range(engine.tokenizer.vocab_size):
            own = engine.tokenizer.token_bytes(token_id)
            if not own or not any(own.startswith(t) or t.startswith(own) for t in begins):
                row[token_id] = -np.inf
        found = tokens(engine, request(before, sources=(), max_tokens=1))
        assert found == [int(row.argmax())]


def test_a_word_that_was_begun_goes_on(engine):
    before = "def add(first, second):\n    retur"
    pieces = engine.generate(request(before), CancelToken())
    assert "".join(piece.text for piece in pieces).startswith("n first + second")
