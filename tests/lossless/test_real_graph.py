"""Strict decoding on a real graph: bit-equal logits with and without speculation.

The tiny model's tokens alone would prove little (a last bit seldom turns a choice), so the logits
behind every emitted token are compared byte by byte.
"""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from lsp_server.cancellation import CancelToken
from lsp_server.engine.decode import PREFILL_CHUNK, decode
from lsp_server.engine.drafters.prompt_lookup import PromptLookup
from lsp_server.engine.onnx_model import OnnxModel
from lsp_server.engine.types import DecodeParams, Draft
from lsp_server.errors import Cancelled, InferenceError
from tests.fake_model import KINDS, AdversarialDrafter, FixedLengthController
from tests.real_graph import RecordingSlot
from tests.tiny_model import build_tiny_model

EOS = 2
STRICT = DecodeParams(max_new_tokens=16, strict=True)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "model"
    build_tiny_model(folder)
    return folder


@pytest.fixture(scope="module")
def model(tiny_folder: Path) -> OnnxModel:
    return OnnxModel(tiny_folder, threads=1, slot_tokens=512)


def prompt_of(length: int, seed: int, alphabet: int = 300) -> list[int]:
    rng = random.Random(f"{length} {seed}")
    return [rng.randrange(3, 3 + alphabet) for _ in range(length)]


def generate(slot, prompt, params=STRICT, **more) -> list[int]:
    return [t for step in decode(slot, prompt, params, **more) for t in step.token_ids]


def generate_bits(slot: RecordingSlot, prompt, **more) -> tuple[list[int], list[bytes]]:
    slot.bits.clear()
    tokens = generate(slot, prompt, **more)
    return tokens, [slot.bits[len(prompt) + i] for i in range(len(tokens))]


def adversary(prompt, tokens, kind, wrong_at, model) -> AdversarialDrafter:
    right = [*prompt, *tokens]
    return AdversarialDrafter(right, kind, wrong_at, vocab=model.spec.vocab_size, eos=EOS)


def rows_of(slot, prefix: list[int], chunks: list[int], *, strict: bool) -> np.ndarray:
    """Logits behind `prefix`, fed in passes of these widths."""
    slot.truncate(0)
    for width in chunks:
        begin = len(slot.token_ids)
        logits = slot.forward(prefix[begin : begin + width], [width - 1], strict=strict)
        slot.commit(width)
    assert len(slot.token_ids) == len(prefix)
    return logits[0].copy()


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
    default = DecodeParams(max_new_tokens=16)
    for seed in range(10):
        prompt = prompt_of(40 + seed, seed)
        tokens = generate(used, prompt, default)  # rows of width 1 now lie in the slot
        longer = [*prompt, *tokens[:9]]
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


# KV rows


@pytest.mark.parametrize("kind", ["right", "wrong", "wrong_at", "alternating"])
def test_after_each_round_the_rows_are_those_of_a_fresh_prefill(model, kind):
    prompt = prompt_of(33, 4)
    tokens = generate(model.slot("plain"), prompt)
    for wrong_at in range(5):
        slot = RecordingSlot(model.slot("drafted"))
        slot.truncate(0)
        drafter = adversary(prompt, tokens, kind, wrong_at, model)
        steps = decode(slot, prompt, STRICT, drafter=drafter, controller=FixedLengthController(5))
        for _ in steps:
            committed = list(slot.token_ids)
            probe = slot.inner.forward([7, 8], [0, 1], strict=True).copy()
            fresh = rows_of(
                model.slot("probe"), [*committed, 7, 8], [len(committed), 2], strict=True
            )
            np.testing.assert_array_equal(probe[1], fresh)


def test_two_slots_interleaved_give_what_each_gives_alone(model):
    prompts = {key: prompt_of(length, 9) for key, length in (("a", 20), ("b", 41))}
    alone = {key: generate(model.slot("plain"), prompt) for key, prompt in prompts.items()}
    running = {key: decode(model.slot(key), prompt, STRICT) for key, prompt in prompts.items()}
    found = {key: [] for key in prompts}
    for _ in range(STRICT.max_new_tokens):
        for key, steps in running.items():
            found[key] += next(steps).token_ids
    assert found == alone


def test_an_evicted_slot_answers_as_a_fresh_one_and_memory_stays_bounded(tiny_folder):
    small = OnnxModel(tiny_folder, threads=1, slot_tokens=512, kv_memory_mb=1)
    prompts = {f"document {i}": prompt_of(30 + i, i) for i in range(7)}
    alone = OnnxModel(tiny_folder, threads=1, slot_tokens=512)
    expected = {key: generate(alone.slot(key), prompt) for key, prompt in prompts.items()}
    used = set()
    for key in [*prompts, *reversed(prompts), *prompts]:
        slot = small.slot(key)
        used.add(id(slot))
        assert generate(slot, prompts[key]) == expected[key]
    assert 1 < len(used) < len(prompts)


def test_the_least_recently_used_slot_goes_first_unless_one_was_released(tiny_folder):
    model = OnnxModel(tiny_folder, threads=1, slot_tokens=512, kv_memory_mb=1)
    keys = [f"k{i}" for i in range(model._max_slots)]
    slots = {key: model.slot(key) for key in keys}
    assert model.slot(keys[0]) is slots[keys[0]]
    assert model.slot("new") is slots[keys[1]]
    model.release(keys[-1])
    model.release("unknown")
    assert model.slot("newer") is slots[keys[-1]]
    assert model.slot("newer").token_ids == []


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("kind", ["right", "empty", "too_long"])
def test_a_full_slot_ends_the_text_and_is_never_overrun(tiny_folder, strict, kind):
    model = OnnxModel(tiny_folder, threads=1, slot_tokens=64)
    capacity = model.spec.context_length
    prompt = prompt_of(capacity - 5, 3)
    params = DecodeParams(max_new_tokens=100, strict=strict)
    tokens = generate(model.slot("plain"), prompt, params)
    assert len(prompt) + len(tokens) == capacity
    drafter = adversary(prompt, [*tokens, *[9] * 20], kind, 0, model)
    assert generate(model.slot("a"), prompt, params, drafter=drafter) == tokens
    with pytest.raises(InferenceError, match="lower prompt_tokens"):
        generate(model.slot("a"), prompt_of(capacity, 3), params)
    with pytest.raises(InferenceError, match="do not fit"):
        model.slot("a").forward([1] * (capacity + 1), [0])


def test_logits_are_float32_rows_of_the_vocabulary_in_the_order_asked_for(model):
    slot = model.slot("shape")
    slot.truncate(0)
    rows = slot.forward([5, 6, 7], [2, 0]).copy()
    assert rows.dtype == np.float32
    assert rows.shape == (2, model.spec.vocab_size)
    np.testing.assert_array_equal(slot.forward([5, 6, 7], [0, 1, 2])[[2, 0]], rows)


# Cancellation


@pytest.fixture(scope="module")
def deep_model(tmp_path_factory: pytest.TempPathFactory) -> OnnxModel:
    folder = tmp_path_factory.mktemp("deep") / "model"
    build_tiny_model(folder, layers=16)
    return OnnxModel(folder, threads=1, slot_tokens=512)


def test_a_pass_cancelled_from_another_thread_stops_and_leaves_the_slot_right(deep_model):
    prompt = prompt_of(450, 1)
    expected = generate_bits(RecordingSlot(deep_model.slot("plain")), prompt)
    slot = RecordingSlot(deep_model.slot("cancelled"))
    start = time.perf_counter()
    generate(slot, prompt)
    whole = time.perf_counter() - start
    rng = random.Random(0)
    num_cancelled = num_within_a_pass = 0
    for _ in range(25):
        slot.truncate(rng.choice([0, 0, 0, 200]))
        token = CancelToken()
        passes: list[bool] = []
        inside = _Inside(slot, passes)
        timer = threading.Timer(rng.uniform(0, whole), token.cancel, ["superseded"])
        timer.start()
        try:
            generate(inside, prompt, cancel=token)
        except Cancelled:
            num_cancelled += 1
            num_within_a_pass += passes[-1]
        timer.join()
        assert [*prompt, *expected[0]][: len(slot.token_ids)] == list(slot.token_ids)
        assert generate_bits(slot, prompt) == expected
    assert num_cancelled > 0
    assert num_within_a_pass > 0


class _Inside:
    """Notes of each pass whether the token was unset when it began: then it was stopped inside."""

    def __init__(self, slot, passes: list[bool]) -> None:
        self._slot, self._passes = slot, passes

    def __getattr__(self, name: str):
        return getattr(self._slot, name)

    def forward(self, token_ids, logit_rows, *, strict=False, cancel=None):
        self._passes.append(not cancel.cancelled)
        return self._slot.forward(token_ids, logit_rows, strict=strict, cancel=cancel)


def test_a_token_cancelled_before_the_pass_stops_it_at_once(model):
    token = CancelToken()
    token.cancel("deadline")
    slot = model.slot("early")
    slot.truncate(0)
    with pytest.raises(Cancelled, match="deadline"):
        slot.forward([5, 6], [1], cancel=token)
    assert slot.token_ids == []


@pytest.mark.parametrize("cancel", [None, CancelToken()], ids=["no token", "a token"])
def test_a_failing_pass_is_an_inference_error_and_commits_nothing(model, cancel):
    slot = model.slot("failing")
    slot.truncate(0)
    with pytest.raises(InferenceError, match="failed while running"):
        slot.forward([5], [99], cancel=cancel)
    assert slot.token_ids == []
    assert len(generate(slot, prompt_of(5, 0))) > 0


@pytest.mark.parametrize("token", [-1, 320, 10**6])
def test_an_id_outside_the_vocabulary_is_refused_since_the_graph_would_not(model, token):
    slot = model.slot("unknown id")
    slot.truncate(0)
    with pytest.raises(InferenceError, match="outside the vocabulary of 320"):
        slot.forward([5, token], [0])


# Fuzz


@pytest.mark.parametrize("seed", range(6))
def test_any_sequence_of_requests_edits_and_cancellations_equals_a_fresh_engine(model, seed):
    rng = random.Random(seed)
    used, fresh = RecordingSlot(model.slot("used")), RecordingSlot(model.slot("plain"))
    text = prompt_of(rng.randint(1, 140), seed)
    lookup = PromptLookup()
    for _ in range(25):
        match rng.randrange(6):
            case 0 | 1:
                text = [*text, *prompt_of(rng.randint(1, 3), rng.randrange(99))]
            case 2:
                text = text[: rng.randint(1, len(text))]
            case 3:
                text[rng.randrange(len(text))] = rng.randrange(3, 300)
            case 4:
                generate(used, text, DecodeParams(max_new_tokens=rng.randint(1, 6)))
            case 5:
                used.truncate(rng.randint(0, len(used.token_ids)))
        fresh.truncate(0)
        expected = generate_bits(fresh, text)
        drafter = rng.choice(
            [None, lookup, adversary(text, expected[0], rng.choice(KINDS), 1, model)]
        )
        steps = decode(used, text, STRICT, drafter=drafter)
        for _ in range(rng.randint(0, 3)):  # abandoned by its reader
            next(steps, None)
        steps.close()
        assert generate_bits(used, text, drafter=drafter) == expected
        text = [*text, *expected[0][: rng.randint(0, 5)]][-300:]


def test_a_draft_of_numpy_integers_gives_plain_tokens(model):
    class Numpy:
        name = "numpy"

        def propose(self, token_ids, limit):
            return Draft(tuple(np.arange(5, 5 + limit)), self.name)

    prompt = prompt_of(10, 0)
    slot = model.slot("numpy")
    assert generate(slot, prompt, drafter=Numpy()) == generate(model.slot("plain"), prompt)
