"""Strict decoding on a real graph: bit-equal logits with and without speculation.

The tiny model's tokens alone would prove little (a last bit seldom turns a choice), so the logits
behind every emitted token are compared byte by byte.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from lsp_server.engine.drafters.prompt_lookup import PromptLookup
from lsp_server.engine.onnx_model import OnnxModel
from lsp_server.engine.prefill import LEAST_CHUNK, PREFILL_CHUNK
from lsp_server.engine.types import DecodeParams, Draft
from tests.fake_model import KINDS, FixedLengthController
from tests.real_graph import (
    STRICT,
    RecordingSlot,
    adversary,
    generate,
    generate_bits,
    prompt_of,
    rows_of,
)
from tests.tiny_model import build_tiny_model

# What strict mode stands on


@pytest.mark.parametrize("weights", ["int8", "int4", "fp32"])
@pytest.mark.parametrize("threads", [1, 2])
def test_rows_are_bit_equal_at_every_strict_width(tmp_path_factory, weights, threads):
    folder = tmp_path_factory.mktemp(f"tiny-{weights}-{threads}") / "model"
    build_tiny_model(folder, weights=weights, seed=1)
    slot = OnnxModel(folder, threads=threads, slot_tokens=512).slot("a")
    prompt = prompt_of(210, 0)
    whole = rows_of(slot, prompt, [210], strict=True)
    for width in (*range(1, 18), 31, 32, 33, 34, 64, 65, 96, 97, PREFILL_CHUNK, PREFILL_CHUNK + 1):
        for count in (1, 100 // width):
            chunks = [210 - count * width, *[width] * count]
            np.testing.assert_array_equal(rows_of(slot, prompt, chunks, strict=True), whole)


def test_a_row_alone_in_its_block_has_other_bits_or_strict_mode_would_prove_nothing(tiny_folder):
    slot = OnnxModel(tiny_folder, threads=1, slot_tokens=512).slot("a")
    prompt = prompt_of(210, 0)
    whole = rows_of(slot, prompt, [210], strict=True)
    for chunks in ([*[2] * 55, *[1] * 100], [177, 33], [11, *[33] * 6, 1]):
        narrow = rows_of(slot, prompt, chunks, strict=False)
        assert np.abs(narrow - whole).max() > 0
        np.testing.assert_allclose(narrow, whole, atol=1e-3)


# Strict equality


@pytest.mark.parametrize("kind", KINDS)
def test_strict_logits_are_bit_equal_whatever_is_drafted(model, kind):
    slot, other = RecordingSlot(model.slot("plain")), RecordingSlot(model.slot("drafted"))
    for seed in range(12):
        prompt = prompt_of(random.Random(seed).randint(1, 90), seed)
        expected = generate_bits(slot, prompt)
        for length in (1, 2, 3, 5, 8):
            drafter = adversary(prompt, expected[0], kind, random.Random(seed).randrange(8), model)
            found = generate_bits(
                other, prompt, drafter=drafter, controller=FixedLengthController(length)
            )
            assert found == expected


def test_strict_logits_are_bit_equal_at_every_prompt_length(model):
    """The last chunk has any width and drafts widen it: one row may be left over in a block."""
    plain, drafted = RecordingSlot(model.slot("plain")), RecordingSlot(model.slot("drafted"))
    params = DecodeParams(max_new_tokens=9, strict=True)
    whole = prompt_of(PREFILL_CHUNK + 70, 5)
    for length in range(1, len(whole) + 1):
        prompt = whole[:length]
        plain.truncate(0)
        drafted.truncate(0)
        expected = generate_bits(plain, prompt, params=params)
        drafter = adversary(prompt, expected[0], "right", 0, model)
        controller = FixedLengthController(1 + length % 8)
        found = generate_bits(
            drafted, prompt, params=params, drafter=drafter, controller=controller
        )
        assert found == expected


@pytest.mark.parametrize("base", [1, 2])
@pytest.mark.parametrize("extra", [-1, 0, 1, 2])
def test_strict_logits_are_bit_equal_around_the_chunk_and_after_one_character_edits(
    model, base, extra
):
    """A prompt of chunk * k + 1 tokens, or one typed token, is a pass of width 1."""
    fresh, used = RecordingSlot(model.slot("plain")), RecordingSlot(model.slot("used"))
    length = base * PREFILL_CHUNK + extra
    prompt = prompt_of(length, 1)
    expected = generate_bits(fresh, prompt)
    edits = [
        prompt,
        [*prompt, 17],
        [*prompt, 17, 18],
        prompt,
        prompt[:-1],
        [*prompt[:-1], 19],
        [*prompt[:50], 20, *prompt[51:]],
        prompt,
    ]
    for text in edits:
        fresh.truncate(0)
        expected = generate_bits(fresh, text)
        drafter = adversary(text, expected[0], "alternating", 0, model)
        assert generate_bits(used, text, drafter=drafter) == expected


@pytest.mark.parametrize("chunk", [LEAST_CHUNK, 17, 33, 64, 127])
def test_strict_logits_are_bit_equal_however_wide_the_passes_that_read_the_prompt(model, chunk):
    """Passes that were cut short are narrower the next time."""
    wide, narrow = RecordingSlot(model.slot("wide")), RecordingSlot(model.slot("narrow"))
    for length in (chunk + 1, 2 * chunk + 2, 3 * PREFILL_CHUNK + 1):
        prompt = prompt_of(length, chunk)
        wide.truncate(0)
        narrow.truncate(0)
        narrow.chunk = chunk
        narrow.widths.clear()
        expected = generate_bits(wide, prompt)
        drafter = adversary(prompt, expected[0], "alternating", 0, model)
        assert generate_bits(narrow, prompt, drafter=drafter) == expected
        assert narrow.widths[0] <= chunk + 1


def test_strict_logits_are_bit_equal_with_lookup_on_repeating_text(model):
    num_drafted = 0
    for seed in range(40):
        prompt = prompt_of(60, seed, alphabet=4)
        expected = generate_bits(RecordingSlot(model.slot("plain")), prompt)
        slot = RecordingSlot(model.slot("drafted"))
        slot.truncate(0)
        lookup = PromptLookup()
        lookup.set_suffix(prompt_of(40, seed + 100, alphabet=4))
        assert generate_bits(slot, prompt, drafter=lookup) == expected
        num_drafted += sum(slot.widths) > len(prompt) + STRICT.max_new_tokens
    assert num_drafted > 20


def test_strict_logits_do_not_depend_on_what_used_the_slot_before(model):
    fresh, used = RecordingSlot(model.slot("plain")), RecordingSlot(model.slot("used"))
    default = DecodeParams(max_new_tokens=8)
    for seed in range(20):
        prompt = prompt_of(40 + seed, seed)
        # Rows of passes of width 1 now lie in the slot, and behind them those of a wider one.
        first = generate(used, prompt, default)
        expected = generate(model.slot("plain"), [*prompt, *first], default)
        drafter = adversary([*prompt, *first], expected, "right", 0, model)
        tokens = [*first, *generate(used, [*prompt, *first], default, drafter=drafter)]
        longer = [*prompt, *tokens[:14]]
        fresh.truncate(0)
        assert generate_bits(used, longer) == generate_bits(fresh, longer)


def test_sampled_text_is_that_of_plain_sampling_with_the_same_seed(model):
    for seed in range(12):
        params = DecodeParams(max_new_tokens=16, strict=True, temperature=0.8, seed=seed, top_k=20)
        prompt = prompt_of(30, seed)
        expected = generate_bits(RecordingSlot(model.slot("plain")), prompt, params=params)
        for kind in ("right", "alternating", "wrong"):
            drafter = adversary(prompt, expected[0], kind, 0, model)
            slot = RecordingSlot(model.slot("drafted"))
            assert generate_bits(slot, prompt, params=params, drafter=drafter) == expected


def test_a_draft_of_numpy_integers_gives_plain_tokens(model):
    class Numpy:
        name = "numpy"

        def propose(self, token_ids, limit, cancel=None):
            return Draft(tuple(np.arange(5, 5 + limit)), self.name)

    prompt = prompt_of(10, 0)
    slot = model.slot("numpy")
    assert generate(slot, prompt, drafter=Numpy()) == generate(model.slot("plain"), prompt)
