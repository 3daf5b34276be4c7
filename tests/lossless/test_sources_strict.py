"""Strict mode, every real source and every adversary, drafts of 1 to 16 tokens: on a seeded sample
of 20 of 300 prompts the logits behind each token are those of plain decoding, bit for bit.

All 300, for a quiet quarter of an hour, with a progress bar (`tabahead bench lossless --full` too):

    TABAHEAD_ALL_PROMPTS=1 python -m pytest -s tests/lossless/test_sources_strict.py
"""

from __future__ import annotations

import os
import random

import pytest
from tqdm import tqdm

from lsp_server.engine import decode as decode_module
from lsp_server.engine.types import DecodeParams, Drafter
from tests.fake_model import FixedLengthController
from tests.lossless.sources import SOURCES, Tiny, open_tiny
from tests.real_graph import RecordingSlot, adversary, generate_bits, prompt_of

PARAMS = DecodeParams(max_new_tokens=24, strict=True)
NUM_PROMPTS = 300
ALL_PROMPTS = os.environ.get("TABAHEAD_ALL_PROMPTS") == "1"
CHOSEN = range(NUM_PROMPTS) if ALL_PROMPTS else random.Random(7).sample(range(NUM_PROMPTS), 20)
LENGTHS = range(1, 17)
ADVERSARIES = ("right", "wrong", "wrong_at")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Tiny:
    return open_tiny(tmp_path_factory.mktemp("strict"))


def prompt_number(index: int) -> list[int]:
    """Short and long, on chunk boundaries, with much and with little repetition."""
    return prompt_of(2 + 7 * (index % 41), seed=index, alphabet=8 + 40 * (index % 5))


def drafter(tiny: Tiny, name: str, prompt: list[int], plain: list[int], length: int) -> Drafter:
    if name in ADVERSARIES:
        return adversary(prompt, plain, name, length // 2, tiny.target)
    known = [*prompt[len(prompt) // 2 :], *plain]
    return tiny.alone(name, tiny.target.slot("strict"), known)


@pytest.mark.parametrize("name", [*ADVERSARIES, *SOURCES])
def test_no_draft_of_any_length_changes_a_bit_of_a_strict_text(tiny, name, monkeypatch):
    monkeypatch.setattr(decode_module, "MAX_DRAFT", 16)
    slot = RecordingSlot(tiny.target.slot("strict"))
    num_proposed = 0
    for index in tqdm(CHOSEN, desc=name, unit="prompt", disable=not ALL_PROMPTS):
        prompt = prompt_number(index)
        slot.truncate(0)
        plain = generate_bits(slot, prompt, params=PARAMS)
        for length in LENGTHS:
            controller = FixedLengthController(length)
            proposer = drafter(tiny, name, prompt, plain[0], length)
            more = {"params": PARAMS, "drafter": proposer, "controller": controller}
            assert generate_bits(slot, prompt, **more) == plain, (index, length)
            num_proposed += sum(len(draft.token_ids) for draft, _ in controller.observed)
    assert num_proposed > 100
