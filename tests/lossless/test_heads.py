"""Heads on real graphs: used caches equal fresh ones, what cannot be is refused, text is exact."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from lsp_server.cancellation import CancelToken
from lsp_server.engine import onnx_heads
from lsp_server.engine.drafter_manifest import DRAFTER_MANIFEST_NAME
from lsp_server.engine.drafters.eagle import Eagle
from lsp_server.engine.drafters.medusa import Medusa
from lsp_server.engine.drafters.trees import Chain, DynamicTree, StaticTree, static_paths
from lsp_server.engine.onnx_heads import STATE_OF_KIND, EagleHead, MedusaHead
from lsp_server.engine.onnx_model import OnnxModel
from lsp_server.engine.types import ROOT, DecodeParams, DecodeStats
from lsp_server.errors import (
    Cancelled,
    InferenceError,
    ModelFilesError,
    TokenizerMismatchError,
)
from tests.head_runner import safetensors_numpy
from tests.real_graph import RecordingSlot, generate, generate_bits, prompt_of
from tests.tiny_model import CONTEXT_LENGTH, build_tiny_drafters, build_tiny_model

TOLERANCE = 1e-5
WHOLE = Chain(stop_below=0.0)
STATIC = StaticTree(static_paths(4))
DEFAULT = DecodeParams(max_new_tokens=16)
EAGLES = ("eagle", "eagle3")


@pytest.fixture(scope="module")
def target_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("heads") / "model"
    build_tiny_model(folder, weights="fp32", layers=6)
    return folder


@pytest.fixture(scope="module")
def folders(target_folder: Path) -> dict[str, Path]:
    safetensors_numpy()
    return build_tiny_drafters(target_folder.parent / "drafters", target_folder, weights="fp32")


@pytest.fixture(scope="module")
def target(target_folder: Path) -> OnnxModel:
    states = ["hidden_states", "features"]
    return OnnxModel(target_folder, threads=1, slot_tokens=512, states=states)


@pytest.fixture(scope="module")
def heads(folders, target) -> dict[str, MedusaHead | EagleHead]:
    eagles = {kind: EagleHead(folders[kind], target) for kind in EAGLES}
    return {"medusa": MedusaHead(folders["medusa"], target), **eagles}


def drafting(head, slot, shape):
    return (Medusa if isinstance(head, MedusaHead) else Eagle)(head, slot, shape)


def commit(slot, text) -> None:
    """All but the last token."""
    slot.truncate(0)
    slot.forward(text[:-1], [len(text) - 2])
    slot.commit(len(text) - 1)


def fresh_rows(head, target, text, num_drafted=0):
    """A cache with all rows that `text` gives, the last of them without the newest token."""
    slot = target.slot("fresh")
    commit(slot, text)
    cache, states = head.cache(512, num_drafted), slot.states(head.state_name)
    cache.feed(states[:-1], text[1:-1])
    return cache, cache.feed(states[-1:], text[-1:])


# Medusa


def test_medusa_proposes_the_best_columns_of_each_head(heads, folders, target):
    """Recomputed from the graph itself, on the state of the newest committed token."""
    session = target.ort.InferenceSession(str(folders["medusa"] / "medusa.onnx"))
    ids = np.load(folders["medusa"] / "draft_ids.npy")
    slot = target.slot("a")
    for seed in range(5):
        text = prompt_of(10 + seed, seed)
        commit(slot, text)
        newest = slot.states("hidden_states")[-1]
        logits = session.run(["logits"], {"hidden": newest[None, None]})[0][0]
        ranked = [[int(ids[c]) for c in np.argsort(-row, kind="stable")] for row in logits]
        chain = Medusa(heads["medusa"], slot, WHOLE).propose(text, 16)
        assert chain.token_ids == tuple(row[0] for row in ranked)
        tree = Medusa(heads["medusa"], slot, STATIC).propose(text, 16)
        paths = [tree.path(node) for node in range(len(tree.token_ids))]
        found = [tuple(tree.token_ids[i] for i in path) for path in paths]
        assert found == [tuple(ranked[h][r] for h, r in enumerate(p)) for p in static_paths(4)]


# EAGLE


@pytest.mark.parametrize("kind", EAGLES)
def test_a_text_fed_in_pieces_has_the_rows_of_one_piece(heads, target, kind, monkeypatch):
    text = prompt_of(300, 2)
    pieces, (logits, state) = fresh_rows(heads[kind], target, text)
    logits = logits.copy()
    monkeypatch.setattr(onnx_heads, "MAX_PIECE", 512)
    whole, (same_logits, same_state) = fresh_rows(heads[kind], target, text)
    assert pieces.num_rows == whole.num_rows == 299
    np.testing.assert_allclose(logits, same_logits, atol=TOLERANCE, rtol=TOLERANCE)
    np.testing.assert_allclose(state, same_state, atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.parametrize("kind", EAGLES)
def test_drafted_rows_see_the_text_and_their_ancestors_only(heads, target, kind):
    """A tree drafted depth by depth gives each node what the chain of its path alone gives."""
    text = prompt_of(25, 3)
    cache, (_, root) = fresh_rows(heads[kind], target, text, num_drafted=8)
    tokens, parents = [5, 6, 7, 8, 9, 10], [ROOT, ROOT, 0, 1, 0, 2]
    logits, states = [], []
    for level in ([0, 1], [2, 3, 4], [5]):
        before = [root if parents[n] == ROOT else states[parents[n]] for n in level]
        drafted = [tokens[n] for n in level], [parents[n] for n in level]
        found = cache.draft(np.stack(before), *drafted)
        logits += list(found[0].copy())
        states += list(found[1].copy())
    for node in range(len(tokens)):
        path = [node]
        while parents[path[0]] != ROOT:
            path.insert(0, parents[path[0]])
        cache.rollback(cache.num_rows)
        state = root
        for place, index in enumerate(path):
            row, own = cache.draft(state[None], [tokens[index]], [place - 1])
            state = own[0].copy()
        np.testing.assert_allclose(row[0], logits[node], atol=TOLERANCE, rtol=TOLERANCE)
        np.testing.assert_allclose(state, states[node], atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.parametrize("shape", [WHOLE, STATIC, DynamicTree()])
@pytest.mark.parametrize("kind", EAGLES)
def test_a_used_cache_equals_a_fresh_one(heads, target, kind, shape):
    """After edits, truncations and rounds that accept any branch: same rows, same drafts."""
    rng = random.Random(f"{kind} {shape}")
    head, slot = heads[kind], target.slot("used")
    slot.truncate(0)
    used = Eagle(head, slot, shape)
    text = prompt_of(60, 1)
    for _ in range(15):
        match rng.randrange(4):
            case 0:
                text = [*text, *prompt_of(rng.randint(1, 3), rng.randrange(99))]
            case 1:
                text = text[: rng.randint(2, len(text))]
            case 2:
                text[rng.randrange(len(text))] = rng.randrange(3, 300)
            case 3:
                draft = used.propose(text, 4)
                node = rng.randrange(-1, len(draft.token_ids))
                text = [*text, *(draft.token_ids[i] for i in draft.path(node)), 7]
        commit(slot, text)
        draft = used.propose(text, 4)
        fresh = Eagle(head, slot, shape)
        assert fresh.propose(text, 4) == draft
        assert used._rows.num_rows == fresh._rows.num_rows == len(text) - 1
        for name, rows in used._rows._kv.arrays.items():
            same = fresh._rows._kv.arrays[name][:, :, : len(text) - 1]
            found = rows[:, :, : len(text) - 1]
            np.testing.assert_allclose(found, same, atol=TOLERANCE, rtol=TOLERANCE)


# Generations


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        *itertools.product(("medusa", *EAGLES), (None, WHOLE, STATIC)),
        *itertools.product(EAGLES, [DynamicTree()]),
    ],
)
def test_text_with_a_head_is_that_without(heads, target, kind, shape):
    slot = target.slot("drafted")
    num_proposed = 0
    for seed in range(6):
        prompt = prompt_of(random.Random(seed).randint(1, 140), seed)
        expected = generate(target.slot("plain"), prompt, DEFAULT)
        stats = DecodeStats()
        drafter = drafting(heads[kind], slot, shape)
        assert generate(slot, prompt, DEFAULT, drafter=drafter, stats=stats) == expected
        assert stats.num_drafter_failures == 0
        num_proposed += sum(counts["proposed"] for counts in stats.sources.values())
    assert num_proposed > 0


@pytest.mark.parametrize("shape", [WHOLE, STATIC])
@pytest.mark.parametrize("kind", ["medusa", *EAGLES])
def test_strict_logits_are_bit_equal_with_a_head(heads, target, kind, shape):
    plain, inner = RecordingSlot(target.slot("plain")), target.slot("drafted")
    slot = RecordingSlot(inner)
    drafter = drafting(heads[kind], inner, shape)
    for seed in range(4):
        prompt = prompt_of(33, seed)
        plain.truncate(0)
        slot.truncate(0)
        assert generate_bits(slot, prompt, drafter=drafter) == generate_bits(plain, prompt)


@pytest.mark.parametrize("kind", ["medusa", *EAGLES])
@pytest.mark.parametrize("slot_tokens", [64, CONTEXT_LENGTH], ids=["slot", "model"])
def test_at_the_end_of_the_slot_a_head_overruns_nothing(folders, target_folder, kind, slot_tokens):
    """Nor at the end of the positions that the model and the head know."""
    states = [STATE_OF_KIND[kind]]
    small = OnnxModel(target_folder, threads=1, slot_tokens=slot_tokens, states=states)
    head = (MedusaHead if kind == "medusa" else EagleHead)(folders[kind], small)
    slot = small.slot("a")
    for shape in (WHOLE, STATIC) if kind == "medusa" else (WHOLE, STATIC, DynamicTree()):
        drafter = drafting(head, slot, shape)
        prompt = prompt_of(small.spec.context_length - 9, 3)
        expected = generate(small.slot("plain"), prompt, DecodeParams(max_new_tokens=100))
        stats = DecodeStats()
        params = DecodeParams(max_new_tokens=100)
        assert generate(slot, prompt, params, drafter=drafter, stats=stats) == expected
        assert len(prompt) + len(expected) == small.spec.context_length
        assert stats.num_drafter_failures == 0


def test_rows_beyond_the_cache_are_refused_not_written(heads):
    cache = heads["eagle"].cache(10, 2)
    _, state = cache.feed(np.zeros((9, 64), np.float32), [5] * 9)
    states = np.stack([state] * 3)
    with pytest.raises(InferenceError, match="do not fit"):
        cache.draft(states, [5, 6, 7], [ROOT, ROOT, ROOT])
    cache.draft(states[:2], [5, 6], [ROOT, ROOT])
    with pytest.raises(InferenceError, match="does not fit"):
        cache.feed(np.zeros((4, 64), np.float32), [5] * 4)
    cache.rollback(9)
    cache.draft(states[:1], [5], [ROOT])
    with pytest.raises(InferenceError, match="do not fit"):
        cache.draft(states[:1], [5], [0])  # a position that the head does not know


@pytest.mark.parametrize("kind", ["medusa", *EAGLES])
def test_a_cancelled_token_stops_a_head(heads, target, kind):
    cancel = CancelToken()
    cancel.cancel("superseded")
    text = prompt_of(20, 1)
    slot = target.slot("a")
    commit(slot, text)
    drafter = drafting(heads[kind], slot, WHOLE)
    with pytest.raises(Cancelled, match="superseded"):
        drafter.propose(text, 4, cancel)
    assert drafter.propose(text, 4) == drafting(heads[kind], slot, WHOLE).propose(text, 4)


def test_what_a_step_takes_is_measured_and_what_reading_takes_where_a_head_reads(heads):
    for kind, head in heads.items():
        cost = head.measure()
        cost.check()
        assert (cost.row_ms > 0) == (kind != "medusa")


# Refusals


def changed(folder: Path, into: Path, **changes) -> Path:
    shutil.copytree(folder, into)
    path = into / DRAFTER_MANIFEST_NAME
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return into


@pytest.mark.parametrize("kind", ["medusa", *EAGLES])
def test_a_head_for_another_target_is_refused_at_load_naming_both(folders, target, tmp_path, kind):
    opened = MedusaHead if kind == "medusa" else EagleHead
    wide = changed(folders[kind], tmp_path / "wide", hidden_size=576)
    with pytest.raises(ModelFilesError, match=rf"tiny-{kind}.*tiny-0.*hidden size 576 and 64"):
        opened(wide, target)
    identity = dataclasses.asdict(target.manifest)["tokenizer_sha256"]
    other = {"name": "other", "tokenizer_sha256": "f" * 64, "source_sha256": "0" * 64}
    foreign = changed(folders[kind], tmp_path / "foreign", target=other)
    with pytest.raises(TokenizerMismatchError, match=f"tiny-{kind}.*tiny-0.*{identity[:12]}"):
        opened(foreign, target)


def test_a_head_of_another_kind_is_refused(folders, target):
    with pytest.raises(ModelFilesError, match="kind eagle3, where one of kind medusa"):
        MedusaHead(folders["eagle3"], target)
    with pytest.raises(ModelFilesError, match="kind medusa, where one of kind eagle or eagle3"):
        EagleHead(folders["medusa"], target)


def test_a_graph_that_is_not_what_its_manifest_says_is_refused_when_measured(
    folders, target, tmp_path
):
    wrong = changed(folders["medusa"], tmp_path / "heads", num_medusa_heads=7)
    with pytest.raises(InferenceError, match="failed while running"):
        MedusaHead(wrong, target).measure()


def test_a_target_that_keeps_no_states_is_a_mistake_of_the_caller(folders, target_folder):
    bare = OnnxModel(target_folder, threads=1, slot_tokens=64)
    with pytest.raises(ValueError, match="features"):
        EagleHead(folders["eagle3"], bare)
