"""A draft model and an early exit on tiny real graphs: right caches, lossless, exact in law."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from export.build import build, build_draft
from lsp_server.engine import decode as decode_module
from lsp_server.engine.drafters.draft_model import DraftModel, measure_draft_model
from lsp_server.engine.drafters.early_exit import EarlyExit, measure_exit
from lsp_server.engine.drafters.growth import Growth
from lsp_server.engine.drafters.vocabulary import (
    DraftVocabulary,
    check_draft_model,
    read_draft_ids,
)
from lsp_server.engine.onnx_model import OnnxModel
from lsp_server.engine.prefix import common_prefix
from lsp_server.engine.sampling import process
from lsp_server.engine.tokenizer import Tokenizer
from lsp_server.engine.types import DecodeParams, DecodeStats
from lsp_server.errors import InferenceError, ModelFilesError, TokenizerMismatchError
from tests.exact_law import Law
from tests.lossless.test_law_of_decoding import p_value
from tests.real_graph import STRICT, RecordingSlot, generate, generate_bits, prompt_of
from tests.tiny_model import write_tiny_gguf

EVERY = Growth(min_probability=0.0)
SAMPLING = DecodeParams(max_new_tokens=16, temperature=1.0, top_k=20)


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    """A target of four layers with an early exit of three, and what may draft for it."""
    root = tmp_path_factory.mktemp("pair")
    source = root / "tiny.gguf"
    write_tiny_gguf(source, layers=4)
    made = {name: root / name for name in ("target", "whole", "pruned", "reduced", "no_exit")}
    build(source, made["target"], name="target", exit_layers=3, draft_vocabulary=64)
    build(source, made["no_exit"], name="no_exit", exit_layers=0)
    build(source, made["whole"], name="whole", exit_layers=3, draft_vocabulary=0)
    layers = (0, 1, 3)
    build_draft(source, made["pruned"], name="pruned", layers=layers, draft_vocabulary=0)
    build_draft(source, made["reduced"], name="reduced", layers=layers, draft_vocabulary=64)
    return made


@pytest.fixture(scope="module")
def models(folders) -> dict[str, OnnxModel]:
    return {name: opened(folder) for name, folder in folders.items()}


def opened(folder: Path) -> OnnxModel:
    return OnnxModel(folder, threads=1, slot_tokens=512)


def vocabulary_of(model: OnnxModel, form: str) -> DraftVocabulary:
    manifest, ids = model.manifest, None
    columns, size = manifest.num_columns(form), manifest.vocab_size
    if form in manifest.reduced_forms:
        ids = read_draft_ids(model.folder, columns, size)
    return DraftVocabulary(columns, size, num_tokens=size, ids=ids)


def drafter(models, name: str, growth: Growth = EVERY, slot=None):
    """`exit`, `exit_whole` (of a target whose early head knows all ids), or a draft model."""
    if name.startswith("exit"):
        slot = slot or models["target"].slot("drafted")
        model = models["whole" if name == "exit_whole" else "target"]
        return EarlyExit(slot, vocabulary_of(model, "exit"), growth=growth)
    vocabulary = vocabulary_of(models[name], "chain")
    return DraftModel(models[name], "drafted", vocabulary, growth=growth)


NAMES = ("whole", "pruned", "reduced", "exit")


# Lossless


@pytest.mark.parametrize("limit", range(1, 17))
@pytest.mark.parametrize("name", NAMES)
def test_strict_logits_are_bit_equal_whatever_is_drafted(models, monkeypatch, name, limit):
    monkeypatch.setattr(decode_module, "MAX_DRAFT", limit)
    plain = RecordingSlot(models["target"].slot("plain"))
    for seed in range(3):
        prompt = prompt_of(5 + 7 * seed + limit, seed)
        expected = generate_bits(plain, prompt)
        slot, stats = RecordingSlot(models["target"].slot("drafted")), DecodeStats()
        found = generate_bits(slot, prompt, drafter=drafter(models, name), stats=stats)
        assert found == expected
        assert stats.num_drafter_failures == 0
        assert stats.sources[_source(name)]["proposed"] > 0


def _source(name: str) -> str:
    return "early_exit" if name.startswith("exit") else "draft"


@pytest.mark.parametrize("name", NAMES)
def test_trees_give_plain_tokens(models, name):
    target = models["target"]
    for seed in range(4):
        prompt = prompt_of(12 + seed, seed)
        params = DecodeParams(max_new_tokens=24)
        expected = generate(target.slot("plain"), prompt, params)
        stats = DecodeStats()
        source = drafter(models, name, Growth(0.0, width=3))
        found = generate(target.slot("drafted"), prompt, params, drafter=source, stats=stats)
        assert found == expected
        assert stats.num_drafter_failures == 0


@pytest.mark.parametrize("limit", range(1, 17))
def test_the_target_drafting_for_itself_is_always_right(models, monkeypatch, limit):
    monkeypatch.setattr(decode_module, "MAX_DRAFT", limit)
    params = dataclasses.replace(STRICT, max_new_tokens=40)
    for seed in range(3):
        stats = DecodeStats()
        prompt = prompt_of(150 + seed, seed)
        source = drafter(models, "whole")
        generate(models["target"].slot("drafted"), prompt, params, drafter=source, stats=stats)
        assert stats.sources["draft"]["accepted"] == stats.sources["draft"]["proposed"]
        assert stats.num_passes == -(-stats.num_tokens // (limit + 1)) + (stats.num_tokens < 40)


def test_what_is_pruned_or_leaves_early_is_sometimes_right(models):
    """So the tests of exactness see acceptances and rejections."""
    for name in ("pruned", "reduced", "exit"):
        stats = DecodeStats()
        for seed in range(12):
            prompt = prompt_of(12, seed)
            source = drafter(models, name)
            generate(models["target"].slot("drafted"), prompt, drafter=source, stats=stats)
        counts = stats.sources[_source(name)]
        assert 0 < counts["accepted"] < counts["proposed"]


# Caches


@pytest.mark.parametrize("params", [STRICT, SAMPLING], ids=["greedy", "sampling"])
@pytest.mark.parametrize("name", ["pruned", "reduced"])
def test_after_every_round_the_draft_cache_is_that_of_a_fresh_prefill(models, name, params):
    own, prompt = models[name].slot("drafted"), prompt_of(20, 1)
    source = drafter(models, name)
    source.set_params(params)
    history = list(prompt)
    for step in decode_module.decode(
        models["target"].slot("drafted"), prompt, params, drafter=source
    ):
        history += step.token_ids
        kept = common_prefix(own.token_ids, history)
        assert kept >= len(history) - 2
        fresh = models[name].slot("fresh")
        fresh.truncate(0)
        fresh.forward(history[:kept], [0])
        fresh.commit(kept)
        own.truncate(kept)
        np.testing.assert_allclose(own.forward([5], [0])[0], fresh.forward([5], [0])[0], atol=1e-3)


@pytest.mark.parametrize("name", ["exit", "exit_whole"])
def test_an_early_exit_drafts_what_its_layers_say_of_the_whole_text(models, folders, name):
    """One pass over everything from an empty slot, against fresh tokens behind committed ones."""
    model = models["whole" if name == "exit_whole" else "target"]
    slot, alone = model.slot("drafted"), model.slot("alone")
    source = drafter(models, name, slot=slot)
    num_drafted = 0
    for num_fresh in (1, 2, 9, 16):
        prompt = prompt_of(40, num_fresh)
        slot.truncate(0)
        slot.forward(prompt[:-num_fresh], [0])
        slot.commit(len(prompt) - num_fresh)
        draft = source.propose(prompt, 6)
        expected: list[int] = []
        while len(expected) < 6 and not slot.spec.eos_ids & {*expected}:
            alone.truncate(0)
            logits = alone.exit_forward([*prompt, *expected], 0)
            expected.append(int(np.argmax(vocabulary_of(model, "exit").expand(logits))))
        assert list(draft.token_ids) == [t for t in expected if t not in slot.spec.eos_ids]
        assert slot.token_ids == prompt[:-num_fresh]
        num_drafted += len(draft.token_ids)
    assert num_drafted > 8


def test_an_early_exit_leaves_a_slot_of_another_text_alone(models):
    slot = models["target"].slot("drafted")
    source = drafter(models, "exit")
    prompt = prompt_of(30, 1)
    slot.truncate(0)
    slot.forward(prompt[:20], [0])
    slot.commit(20)
    assert source.propose(prompt[:25], 3).token_ids
    for text in (prompt[:20], prompt[:10], [9, *prompt[1:25]], prompt_of(60, 2), []):
        assert source.propose(text, 3).token_ids == ()
    assert source.propose([*prompt[:20], *prompt_of(17, 3)], 3).token_ids == ()


# Sampling


@pytest.mark.parametrize("name", ["reduced", "exit"])
def test_a_reduced_head_draws_from_its_ids_only(models, name):
    model = models["target" if name == "exit" else name]
    ids = read_draft_ids(model.folder, 64, model.manifest.vocab_size)
    slot, prompt = models["target"].slot("drafted"), prompt_of(12, 3)
    slot.truncate(0)
    slot.forward(prompt[:-1], [0])
    slot.commit(len(prompt) - 1)
    source = drafter(models, name)
    source.set_params(DecodeParams(temperature=1.0))
    draft = source.propose(prompt, 8)
    assert len(draft.token_ids) > 3
    assert draft.draft_probs.shape == (len(draft.token_ids), model.manifest.vocab_size)
    np.testing.assert_allclose(draft.draft_probs.sum(axis=1), 1.0, rtol=1e-12)
    outside = np.setdiff1d(np.arange(model.manifest.vocab_size), ids)
    assert (draft.draft_probs[:, ids] > 0).all()
    assert not draft.draft_probs[:, outside].any()


PAIR = DecodeParams(max_new_tokens=3, temperature=3.0, top_k=3)
NUM_TEXTS = 1700
"""Of three tokens: 5,100 draws a source."""


def law_of_texts(slot, prompt) -> Law:
    law = Law({(): Fraction(1)})
    for _ in range(PAIR.max_new_tokens):
        longer = Law()
        for text, weight in law.items():
            history = [*prompt, *text]
            slot.truncate(0)
            probs = process(slot.forward(history, [len(history) - 1])[0], PAIR, history)
            for token in np.flatnonzero(probs):
                longer[(*text, int(token))] = weight * Fraction(float(probs[token]))
        law = longer
    return law


@pytest.mark.parametrize("name", NAMES)
def test_texts_drawn_with_drafts_have_the_targets_law(models, name):
    target, prompt = models["target"], prompt_of(8, 4)
    law = law_of_texts(target.slot("plain"), prompt)
    assert not any(target.spec.eos_ids & {*text} for text in law)
    source, stats, counts = drafter(models, name), DecodeStats(), Counter()
    for seed in range(NUM_TEXTS):
        params = dataclasses.replace(PAIR, seed=seed)
        source.set_params(params)
        slot = target.slot("drafted")
        counts[tuple(generate(slot, prompt, params, drafter=source, stats=stats))] += 1
    assert stats.num_drafter_failures == 0
    drafted = stats.sources[_source(name)]
    assert drafted["proposed"] > NUM_TEXTS
    assert (
        drafted["accepted"] == drafted["proposed"] if name == "whole" else drafted["accepted"] > 0
    )
    assert p_value(counts, law) > 1e-6


# Refusals


def tokenizer_of(folder: Path) -> Tokenizer:
    return Tokenizer(folder / "tokenizer.json")


def test_a_draft_with_the_targets_vocabulary_is_accepted(models, folders):
    tokenizers = [tokenizer_of(folders[name]) for name in ("reduced", "target")]
    manifests = [models[name].manifest for name in ("reduced", "target")]
    num_tokens = check_draft_model(manifests[0], tokenizers[0], manifests[1], tokenizers[1])
    assert num_tokens == 320


def test_padding_of_either_side_is_no_reason_to_refuse(models, folders):
    tokenizer, manifest = tokenizer_of(folders["target"]), models["target"].manifest
    for own, other in ((384, 448), (448, 384)):
        draft = dataclasses.replace(manifest, name="d", vocab_size=own)
        target = dataclasses.replace(manifest, vocab_size=other)
        assert check_draft_model(draft, tokenizer, target, tokenizer) == 320


def changed_tokenizer(folder: Path, tmp_path: Path, change) -> Tokenizer:
    raw = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    change(raw)
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(raw), encoding="utf-8")
    return Tokenizer(path)


def _swap_two_tokens(raw) -> None:
    vocab = raw["model"]["vocab"]
    a, b = (next(token for token, i in vocab.items() if i == number) for number in (50, 51))
    vocab[a], vocab[b] = vocab[b], vocab[a]


def _make_a_control_token_text(raw) -> None:
    del raw["added_tokens"][1]


@pytest.mark.parametrize("change", [_swap_two_tokens, _make_a_control_token_text])
def test_another_vocabulary_of_the_same_size_is_refused_and_both_sides_named(
    models, folders, tmp_path, change
):
    other = changed_tokenizer(folders["pruned"], tmp_path, change)
    own = tokenizer_of(folders["target"])
    assert other.vocab_size == own.vocab_size
    with pytest.raises(TokenizerMismatchError, match="pruned and the model target") as caught:
        check_draft_model(models["pruned"].manifest, other, models["target"].manifest, own)
    assert f"id {50 if change is _swap_two_tokens else 1} is" in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [{"vocab_size": 319}, {"bos_id": 0}, {"eos_ids": (7,)}, {"fim_ids": {"prefix": 9}}],
    ids=["rows", "begin", "end", "infilling"],
)
def test_a_draft_whose_ids_mean_something_else_is_refused_and_both_sides_named(
    models, folders, change
):
    tokenizer = tokenizer_of(folders["target"])
    target = dataclasses.replace(models["target"].manifest, fim_ids={"prefix": 8, "suffix": 9})
    draft = dataclasses.replace(target, name="d", **change)
    with pytest.raises(TokenizerMismatchError, match="model d and the model target"):
        check_draft_model(draft, tokenizer, target, tokenizer)
    unsaid = dataclasses.replace(target, name="d", bos_id=None, eos_ids=(), fim_ids={})
    assert check_draft_model(unsaid, tokenizer, target, tokenizer) == 320


def test_a_model_without_an_early_exit_is_refused_when_its_step_is_measured(models):
    vocabulary = vocabulary_of(models["no_exit"], "chain")
    with pytest.raises(ModelFilesError, match="no_exit"):
        measure_exit(models["no_exit"].slot(""), vocabulary)


def test_steps_are_measured_and_leave_empty_slots(models):
    for model, form, measure in (
        (models["reduced"], "chain", measure_draft_model),
        (models["target"], "exit", measure_exit),
    ):
        slot = model.slot("")
        measure(slot, vocabulary_of(model, form)).check()
        assert list(slot.token_ids) == []


@pytest.mark.parametrize("name", ["pruned", "exit"])
def test_logits_that_are_no_numbers_cost_plain_steps_and_are_counted(folders, name):
    models = {key: opened(folders[key]) for key in ("target", "pruned")}
    prompt = prompt_of(9, 1)
    expected = generate(models["target"].slot("plain"), prompt)
    slot = models["target" if name == "exit" else "pruned"].slot("drafted")
    method = "exit_forward" if name == "exit" else "forward"
    whole = getattr(slot, method)
    setattr(slot, method, lambda *args, **more: np.full_like(whole(*args, **more), np.nan))
    source, stats = drafter(models, name), DecodeStats()
    with pytest.raises(InferenceError):
        source.propose(prompt, 2)
    found = generate(models["target"].slot("drafted"), prompt, drafter=source, stats=stats)
    assert found == expected
    assert stats.num_drafter_failures == stats.num_passes - 1
