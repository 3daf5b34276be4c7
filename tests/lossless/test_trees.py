"""Trees on a real graph: rows see their ancestors only, and an accepted branch is the text itself.

On the fp32 graph a tree's rows differ from the chain's in the last bits only, so logits are
compared within 1e-5 (a wrong row is off by a thousand times that), and greedy tokens must be equal.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from lsp_server.cancellation import CancelToken
from lsp_server.engine.decode import MAX_TREE, decode
from lsp_server.engine.onnx_graph import tree_inputs
from lsp_server.engine.onnx_model import OnnxModel
from lsp_server.engine.types import ROOT, DecodeParams, DecodeStats, Draft
from lsp_server.errors import Cancelled
from tests.real_graph import STRICT, RecordingSlot, generate, generate_bits, prompt_of
from tests.tiny_model import build_tiny_model

TOLERANCE = 1e-5
DEFAULT = DecodeParams(max_new_tokens=16)
STATES = ("hidden_states", "features")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("fp32") / "model"
    build_tiny_model(folder, weights="fp32")
    return folder


@pytest.fixture(scope="module")
def model(folder) -> OnnxModel:
    return OnnxModel(folder, threads=1, slot_tokens=512, states=STATES)


def random_tree(rng: random.Random, num_nodes: int, depth: int) -> list[int]:
    """Parents; no path longer than `depth`."""
    parents: list[int] = []
    depths = {ROOT: 0}
    for node in range(num_nodes):
        parents.append(rng.choice([n for n, d in depths.items() if d < depth]))
        depths[node] = depths[parents[-1]] + 1
    return parents


def distinct_tokens(rng: random.Random, parents: Sequence[int]) -> list[int]:
    """A token for each node, another one than its siblings have."""
    tokens: list[int] = []
    for node, parent in enumerate(parents):
        siblings = [tokens[i] for i in range(node) if parents[i] == parent]
        tokens.append(rng.choice([t for t in range(3, 320) if t not in siblings]))
    return tokens


@dataclass
class TreeDrafter:
    """Random trees. Where they hold the right continuation, it goes on from any of the siblings."""

    right: Sequence[int]
    """Prompt and output without drafts."""
    rng: random.Random
    hit_rate: float = 0.7
    num_nodes: int = 12
    name: str = "trees"

    def propose(self, token_ids, limit, cancel=None) -> Draft:
        parents = random_tree(self.rng, self.num_nodes, limit)
        tokens = distinct_tokens(self.rng, parents)
        draft = Draft(tuple(tokens), self.name, parents=tuple(parents))
        node, place = ROOT, len(token_ids)
        while (children := draft.children(node)) and place < len(self.right):
            right = self.right[place]
            for child in children:  # nothing is right by chance
                while tokens[child] == right or tokens.count(tokens[child]) > 1:
                    tokens[child] = self.rng.randrange(3, 320)
            if self.rng.random() >= self.hit_rate:
                break
            node, place = self.rng.choice(children), place + 1
            tokens[node] = right
        return Draft(tuple(tokens), self.name, parents=tuple(parents))


def commit_all(slot, token_ids: Sequence[int]) -> None:
    slot.truncate(0)
    slot.forward(token_ids, [len(token_ids) - 1])
    slot.commit(len(token_ids))


def next_logits(slot) -> np.ndarray:
    return slot.forward([7, 8], [0, 1]).copy()


def fresh_logits(model, token_ids: Sequence[int]) -> np.ndarray:
    slot = model.slot("fresh")
    commit_all(slot, token_ids)
    return next_logits(slot)


# Passes


@pytest.mark.parametrize("seed", range(8))
def test_a_row_of_a_tree_is_that_of_its_path_alone(model, seed):
    rng = random.Random(seed)
    prompt = prompt_of(rng.randint(2, 60), seed)
    num_fresh = rng.randint(1, 3)
    parents = random_tree(rng, 14, 5)
    tokens = distinct_tokens(rng, parents)
    draft = Draft(tuple(tokens), "tree", parents=tuple(parents))
    slot, other = model.slot("tree"), model.slot("chain")
    commit_all(slot, prompt)
    fresh = prompt_of(num_fresh, seed + 100)
    rows = slot.forward(
        [*fresh, *tokens],
        range(num_fresh - 1, num_fresh + len(tokens)),
        parents=[*range(-1, num_fresh - 1), *(num_fresh + parent for parent in parents)],
    ).copy()
    commit_all(other, prompt)
    for node in range(-1, len(tokens)):
        path = [*fresh, *(tokens[i] for i in draft.path(node))] if node >= 0 else fresh
        alone = other.forward(path, [len(path) - 1])[0]
        np.testing.assert_allclose(rows[node + 1], alone, atol=TOLERANCE, rtol=TOLERANCE)


def test_a_row_does_not_change_with_tokens_that_are_not_its_ancestors(model):
    """Nor would the test before this one see it, were the logits insensitive."""
    slot = model.slot("tree")
    commit_all(slot, prompt_of(20, 0))
    parents = [-1, 0, 0, 1, 2, 2]
    before = slot.forward([5, 6, 7, 8, 9, 10], range(6), parents=parents).copy()
    after = slot.forward([5, 99, 7, 8, 77, 10], range(6), parents=parents).copy()
    for row, (ours, theirs) in enumerate(zip(before, after, strict=True)):
        if row in (1, 3, 4):  # the changed ones, and what hangs on them
            assert np.abs(ours - theirs).max() > 1000 * TOLERANCE
        else:
            np.testing.assert_array_equal(ours, theirs)


def test_positions_are_depths_and_a_token_sees_the_text_its_ancestors_and_itself():
    inputs = tree_inputs([-1, -1, 0, 0, 1, 3], committed=4)
    np.testing.assert_array_equal(inputs["position_ids"], [[4, 4, 5, 5, 5, 6]])
    seen = [
        [1, 1, 1, 1, 1, 0, 0, 0, 0, 0],
        [1, 1, 1, 1, 0, 1, 0, 0, 0, 0],
        [1, 1, 1, 1, 1, 0, 1, 0, 0, 0],
        [1, 1, 1, 1, 1, 0, 0, 1, 0, 0],
        [1, 1, 1, 1, 0, 1, 0, 0, 1, 0],
        [1, 1, 1, 1, 1, 0, 0, 1, 0, 1],
    ]
    np.testing.assert_array_equal(inputs["attention_bias"][0, 0] == 0, np.array(seen, bool))
    assert inputs["attention_bias"].max() == 0


@pytest.mark.parametrize("seed", range(10))
def test_an_accepted_branch_leaves_the_cache_and_the_states_of_its_text(model, seed):
    rng = random.Random(seed)
    text = prompt_of(rng.randint(1, 50), seed)
    slot = model.slot("tree")
    commit_all(slot, text)
    for _ in range(4):  # a wrong row of one round shows in the next
        fresh = prompt_of(rng.randint(1, 2), rng.randrange(99))
        parents = random_tree(rng, 12, 6)
        tokens = distinct_tokens(rng, parents)
        draft = Draft(tuple(tokens), "tree", parents=tuple(parents))
        path = draft.path(rng.randrange(-1, len(tokens)))
        nodes = [*range(-1, len(fresh) - 1), *(len(fresh) + parent for parent in parents)]
        slot.forward([*fresh, *tokens], [0], parents=nodes)
        slot.commit(len(fresh), [len(fresh) + node for node in path])
        text = [*text, *fresh, *(tokens[node] for node in path)]
        assert list(slot.token_ids) == text
        expected = fresh_logits(model, text)
        np.testing.assert_allclose(next_logits(slot), expected, atol=TOLERANCE, rtol=TOLERANCE)
        for name in STATES:
            np.testing.assert_allclose(
                slot.states(name), model.slot("fresh").states(name), atol=TOLERANCE, rtol=TOLERANCE
            )


def test_a_cancelled_pass_over_a_tree_leaves_the_text_as_it_was(model):
    slot = model.slot("tree")
    text = prompt_of(30, 5)
    commit_all(slot, text)
    cancel = CancelToken()
    cancel.cancel("superseded")
    with pytest.raises(Cancelled):
        slot.forward([5, 6, 7], [2], parents=[-1, 0, 0], cancel=cancel)
    np.testing.assert_array_equal(next_logits(slot), fresh_logits(model, text))


# Generations


@pytest.mark.parametrize("hit_rate", [0.0, 0.5, 0.9, 1.0])
def test_greedy_tokens_with_trees_are_those_without(model, hit_rate):
    for seed in range(10):
        prompt = prompt_of(random.Random(seed).randint(1, 140), seed)
        expected = generate(model.slot("plain"), prompt, DEFAULT)
        drafter = TreeDrafter([*prompt, *expected], random.Random(seed), hit_rate)
        stats = DecodeStats()
        slot = model.slot("trees")
        assert generate(slot, prompt, DEFAULT, drafter=drafter, stats=stats) == expected
        counts = stats.sources["trees"]
        assert (counts["accepted"] == 0) == (hit_rate == 0)
        assert stats.num_passes == len(expected) - counts["accepted"]
        text = list(slot.token_ids)
        np.testing.assert_allclose(
            next_logits(slot), fresh_logits(model, text), atol=TOLERANCE, rtol=TOLERANCE
        )


def test_sampled_text_with_trees_is_that_of_plain_sampling_with_the_same_seed(model):
    for seed in range(10):
        params = DecodeParams(max_new_tokens=16, temperature=0.8, seed=seed, top_p=0.95)
        prompt = prompt_of(30, seed)
        expected = generate(model.slot("plain"), prompt, params)
        drafter = TreeDrafter([*prompt, *expected], random.Random(seed))
        assert generate(model.slot("trees"), prompt, params, drafter=drafter) == expected


def test_penalties_count_the_tokens_of_the_path_only(model):
    params = DecodeParams(max_new_tokens=16, repetition_penalty=1.3, frequency_penalty=0.5)
    for seed in range(6):
        prompt = prompt_of(25, seed, alphabet=6)
        expected = generate(model.slot("plain"), prompt, params)
        drafter = TreeDrafter([*prompt, *expected], random.Random(seed))
        assert generate(model.slot("trees"), prompt, params, drafter=drafter) == expected


def test_a_tree_of_width_one_has_the_bits_of_the_chain(model):
    """`RecordingSlot` lets no tree pass."""

    class Narrow:
        name = "narrow"

        def __init__(self, right, parents):
            self.right, self.has_parents = right, parents

        def propose(self, token_ids, limit, cancel=None) -> Draft:
            begin = len(token_ids)
            tokens = [*self.right[begin : begin + 3], 17, 18][:limit]
            parents = tuple(range(-1, len(tokens) - 1))
            return Draft(tuple(tokens), self.name, parents=parents if self.has_parents else None)

    slot = RecordingSlot(model.slot("narrow"))
    for seed in range(5):
        prompt = prompt_of(30, seed)
        right = [*prompt, *generate(model.slot("plain"), prompt, DEFAULT)]
        slot.truncate(0)
        chain = generate_bits(slot, prompt, params=DEFAULT, drafter=Narrow(right, False))
        slot.truncate(0)
        tree = generate_bits(slot, prompt, params=DEFAULT, drafter=Narrow(right, True))
        assert tree == chain


def test_strict_mode_verifies_the_first_path_of_a_tree_as_a_chain(folder):
    """Bit for bit the plain text, and the tree's graph is not even opened."""
    strict = OnnxModel(folder, threads=1, slot_tokens=512)
    plain, slot = RecordingSlot(strict.slot("plain")), RecordingSlot(strict.slot("trees"))
    for seed in range(8):
        prompt = prompt_of(40, seed)
        expected = generate_bits(plain, prompt)
        drafter = TreeDrafter([*prompt, *expected[0]], random.Random(seed))
        assert generate_bits(slot, prompt, drafter=drafter) == expected
    assert len(slot.widths) < 8 * STRICT.max_new_tokens  # some first paths were right
    assert "tree" not in strict.sessions.opened


@pytest.mark.parametrize("num_nodes", [3, 12, 60])
def test_a_tree_at_the_end_of_the_slot_is_cut_to_what_fits(folder, num_nodes):
    model = OnnxModel(folder, threads=1, slot_tokens=64)
    capacity = model.spec.context_length
    for left in (1, 2, 3, 7, 20):
        prompt = prompt_of(capacity - left, 3)
        params = DecodeParams(max_new_tokens=100)
        expected = generate(model.slot("plain"), prompt, params)
        assert len(prompt) + len(expected) == capacity
        drafter = TreeDrafter([*prompt, *expected], random.Random(left), num_nodes=num_nodes)
        stats = DecodeStats()
        slot = model.slot("trees")
        assert generate(slot, prompt, params, drafter=drafter, stats=stats) == expected
        assert stats.num_drafter_failures == 0


def test_a_pass_holds_no_more_of_a_tree_than_it_may(model):
    widths = []
    slot = model.slot("wide")
    forward = slot.forward

    def counting(token_ids, *args, **options):
        widths.append(len(token_ids))
        return forward(token_ids, *args, **options)

    slot.forward = counting
    prompt = prompt_of(20, 1)
    drafter = TreeDrafter(prompt, random.Random(0), num_nodes=200)
    tokens = generate(slot, prompt, DEFAULT, drafter=drafter)
    assert tokens == generate(model.slot("plain"), prompt, DEFAULT)
    assert max(widths[1:]) == 1 + MAX_TREE


@pytest.mark.parametrize("seed", range(4))
def test_requests_with_trees_amid_edits_and_abandoned_steps_equal_a_fresh_engine(model, seed):
    rng = random.Random(seed)
    used, fresh = model.slot("used"), model.slot("plain")
    text = prompt_of(rng.randint(1, 140), seed)
    for _ in range(15):
        match rng.randrange(4):
            case 0:
                text = [*text, *prompt_of(rng.randint(1, 3), rng.randrange(99))]
            case 1:
                text = text[: rng.randint(1, len(text))]
            case 2:
                text[rng.randrange(len(text))] = rng.randrange(3, 300)
            case 3:
                used.truncate(rng.randint(0, len(used.token_ids)))
        fresh.truncate(0)
        expected = generate(fresh, text, DEFAULT)
        drafter = TreeDrafter([*text, *expected], rng)
        steps = decode(used, text, DEFAULT, drafter=drafter)
        for _ in range(rng.randint(0, 3)):
            next(steps, None)
        steps.close()
        assert generate(used, text, DEFAULT, drafter=drafter) == expected
        text = [*text, *expected[: rng.randint(0, 5)]][-300:]
