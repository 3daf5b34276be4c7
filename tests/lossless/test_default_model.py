"""The default model itself: strict equality on real code, and a cancelled pass of real length."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import numpy as np
import pytest

from lsp_server.cancellation import CancelToken
from lsp_server.engine.drafters.prompt_lookup import PromptLookup
from lsp_server.engine.onnx_model import OnnxModel
from lsp_server.engine.prefill import PREFILL_CHUNK
from lsp_server.engine.tokenizer import Tokenizer
from lsp_server.engine.types import DecodeParams
from lsp_server.errors import Cancelled
from tests.fake_model import AdversarialDrafter
from tests.real_graph import RecordingSlot, generate_bits, rows_of

pytestmark = pytest.mark.model
SOURCE = Path(__file__).parents[2] / "lsp_server" / "engine" / "sampling.py"
STRICT = DecodeParams(max_new_tokens=8, strict=True)


@pytest.fixture(scope="module")
def model(default_model_folder: Path) -> OnnxModel:
    return OnnxModel(default_model_folder, slot_tokens=512)


@pytest.fixture(scope="module")
def code(default_model_folder: Path) -> list[int]:
    tokenizer = Tokenizer(default_model_folder / "tokenizer.json")
    return tokenizer.encode(SOURCE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("length", [1, 33, PREFILL_CHUNK + 1])
def test_strict_logits_are_bit_equal_with_and_without_drafts(model, code, length):
    start = random.Random(length).randrange(len(code) - length)
    prompt = code[start : start + length]
    plain, used = RecordingSlot(model.slot("plain")), RecordingSlot(model.slot("used"))
    plain.truncate(0)
    tokens, bits = generate_bits(plain, prompt, params=STRICT)
    lookup = PromptLookup()
    lookup.set_suffix(code[:400])
    right = [*prompt, *tokens]
    for drafter in (lookup, AdversarialDrafter(right, "alternating")):
        assert generate_bits(used, prompt, params=STRICT, drafter=drafter) == (tokens, bits)
    edited = [*prompt[:-1], code[0]]
    plain.truncate(0)
    expected = generate_bits(plain, edited, params=STRICT)
    assert generate_bits(used, edited, params=STRICT, drafter=lookup) == expected


def test_strict_rows_are_bit_equal_around_the_largest_pass(model, code):
    """A last chunk of 121 to 128 tokens and its draft may leave one row over in a block."""
    slot = model.slot("plain")
    prompt = code[:200]
    whole = rows_of(slot, prompt, [160, 40], strict=True)
    for width in (PREFILL_CHUNK, PREFILL_CHUNK + 1):
        found = rows_of(slot, prompt, [200 - width, width], strict=True)
        np.testing.assert_array_equal(found, whole)


def test_a_prefill_cancelled_within_a_pass_leaves_the_slot_right(model, code):
    prompt = code[: 3 * PREFILL_CHUNK]
    plain = RecordingSlot(model.slot("plain"))
    plain.truncate(0)
    params = DecodeParams(max_new_tokens=2, strict=True)
    expected = generate_bits(plain, prompt, params=params)
    slot = RecordingSlot(model.slot("cancelled"))
    slot.truncate(0)
    token = CancelToken()
    timer = threading.Timer(0.02, token.cancel, ["superseded"])
    timer.start()
    with pytest.raises(Cancelled, match="superseded"):
        generate_bits(slot, prompt, params=params, cancel=token)
    assert len(slot.token_ids) < len(prompt)
    assert generate_bits(slot, prompt, params=params) == expected
