"""Slots of a real graph: eviction, capacity, cancellation, refusals."""

from __future__ import annotations

import random
import threading
import time

import numpy as np
import pytest

from lsp_server.cancellation import CancelToken
from lsp_server.engine.decode import decode
from lsp_server.engine.onnx_model import OnnxModel
from lsp_server.engine.types import DecodeParams
from lsp_server.errors import Cancelled, InferenceError
from tests.real_graph import (
    STRICT,
    RecordingSlot,
    adversary,
    generate,
    generate_bits,
    prompt_of,
)
from tests.tiny_model import build_tiny_model

# Several documents


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


def test_places_of_one_document_keep_their_caches_side_by_side(tiny_folder):
    model = OnnxModel(tiny_folder, threads=1, slot_tokens=512, kv_memory_mb=1)
    here, there = prompt_of(40, 1), prompt_of(50, 2)
    expected = {len(prompt): generate(model.slot("alone"), prompt) for prompt in (here, there)}
    slots = [model.slot("a", here)]
    for prompt in (here, there, [*here, 5], [*there, 7], here[:30], there):
        slot = model.slot("a", prompt)
        slots.append(slot)
        tokens = generate(slot, prompt)
        assert tokens == expected.get(len(prompt), tokens)
    assert slots[0] is slots[1] is slots[3] is slots[5]
    assert slots[2] is slots[4] is slots[6]
    assert slots[1] is not slots[2]
    assert model.slot("a") is slots[6], "without a prompt it is the latest"


def test_a_prompt_that_was_read_in_part_is_read_on(tiny_folder):
    model = OnnxModel(tiny_folder, threads=1, slot_tokens=512, kv_memory_mb=1)
    prompt = prompt_of(300, 1)
    slot = model.slot("a", prompt)
    slot.forward(prompt[:40], [39])
    slot.commit(40)
    assert model.slot("a", prompt) is slot
    assert model.slot("a", [*prompt[:200], 7]) is slot
    assert model.slot("a", prompt_of(300, 2)) is not slot


def test_places_of_documents_share_the_memory_and_are_released_together(tiny_folder):
    model = OnnxModel(tiny_folder, threads=1, slot_tokens=512, kv_memory_mb=1)
    num_slots = model._max_slots
    slots = []
    for seed in range(num_slots + 2):
        prompt = prompt_of(30 + seed, seed)
        slots.append(model.slot("a", prompt))
        generate(slots[-1], prompt)
    assert len({id(slot) for slot in slots}) == num_slots == len(model._slots)
    assert model.num_held("a", prompt_of(30, 0)) == 0, "the least recently used is gone"
    assert model.num_held("b", prompt) == 0
    assert model.holds("a")
    assert not model.holds("b")
    assert not model.has_room()
    other = model.slot("b")
    assert model.holds("b")
    model.release("a")
    assert model.has_room()
    taken = [model.slot(f"c{n}") for n in range(num_slots - 1)]
    assert other not in taken
    assert not model.has_room()


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

    def forward(self, token_ids, logit_rows, *, cancel=None, **options):
        self._passes.append(not cancel.cancelled)
        return self._slot.forward(token_ids, logit_rows, cancel=cancel, **options)


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
