"""Drafting with heads, on heads without weights: what is fed, what is proposed, what is kept.

The fake EAGLE rows answer by a hash of everything on their path, so that a state, token or row out
of place changes the draft.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from dataclasses import dataclass, field

import numpy as np
import pytest

from lsp_server.cancellation import CancelToken
from lsp_server.engine.drafters.eagle import Eagle
from lsp_server.engine.drafters.heads import top_choices
from lsp_server.engine.drafters.medusa import Medusa
from lsp_server.engine.drafters.trees import Chain, DynamicTree, StaticTree, static_paths
from lsp_server.engine.types import ROOT, DecodeStats
from lsp_server.errors import Cancelled, InferenceError
from tests.decoding import GREEDY, plain, run, tokens
from tests.fake_model import EOS, VOCAB, FakeModel, FakeSlot

IDS = np.arange(VOCAB)
WHOLE = Chain(stop_below=0.0)
SHAPES = [WHOLE, StaticTree(static_paths(4)), DynamicTree(), DynamicTree(3, 7, 3)]


class StatefulSlot(FakeSlot):
    """State j is [j, a hash of tokens 0..j]."""

    def states(self, name: str) -> np.ndarray:
        assert name == "hidden_states"
        states = np.zeros((len(self.rows), 2), np.float32)
        for index in range(len(self.rows)):
            text = repr(self.token_ids[: index + 1]).encode()
            digest = hashlib.sha256(text).digest()
            states[index] = index, int.from_bytes(digest[:2], "big")
        return states


def holding(text, eos_ids=frozenset({EOS})) -> StatefulSlot:
    """All but the last token committed, as before a plain step."""
    slot = StatefulSlot(FakeModel(eos_ids=eos_ids))
    commit(slot, text)
    return slot


def commit(slot, text) -> None:
    slot.truncate(0)
    if len(text) > 1:
        slot.forward(text[:-1], [0])
        slot.commit(len(text) - 1)


def digest(before: bytes, state: np.ndarray, token: int) -> bytes:
    own = np.asarray(state, np.float32).tobytes()
    return hashlib.sha256(before + own + str(token).encode()).digest()


def answer(path: bytes) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(list(path))
    logits = 2 * rng.standard_normal(VOCAB).astype(np.float32)
    return logits, rng.standard_normal(2).astype(np.float32)


@dataclass
class HashRows:
    num_tokens: int
    num_drafted: int
    text: list[bytes] = field(default_factory=list)
    drafted: list[tuple[bytes, int]] = field(default_factory=list)
    """Digest of the path, depth."""
    num_fed: list[int] = field(default_factory=list)
    fail_with: Exception | None = None
    nan: bool = False

    @property
    def num_rows(self) -> int:
        return len(self.text)

    def rollback(self, num_rows: int) -> None:
        self.drafted = []
        del self.text[num_rows:]

    def feed(self, states, token_ids, cancel=None):
        assert len(states) == len(token_ids) > 0
        assert len(self.text) + len(token_ids) <= self.num_tokens
        self.drafted = []
        self.num_fed.append(len(token_ids))
        for state, token in zip(states, token_ids, strict=True):
            if self.fail_with is not None and len(self.text) % 3 == 2:
                raise self.fail_with
            self.text.append(digest(self.text[-1] if self.text else b"", state, token))
        logits, own = answer(self.text[-1])
        return np.full_like(logits, np.nan) if self.nan else logits, own

    def draft(self, states, token_ids, parents, cancel=None):
        begin = len(self.drafted)
        for state, token, parent in zip(states, token_ids, parents, strict=True):
            assert ROOT <= parent < begin
            before, depth = (self.text[-1], 0) if parent == ROOT else self.drafted[parent]
            assert len(self.text) + depth < self.num_tokens
            self.drafted.append((digest(before, state, token), depth + 1))
        assert len(self.drafted) <= self.num_drafted
        answers = [answer(path) for path, _ in self.drafted[begin:]]
        return tuple(np.stack(part) for part in zip(*answers, strict=True))


@dataclass
class HashHead:
    num_tokens: int = 512
    column_ids: np.ndarray = field(default_factory=lambda: IDS)
    state_name: str = "hidden_states"
    step_cost_ms: float = 1.0
    made: list[HashRows] = field(default_factory=list)

    def cache(self, num_tokens: int, num_drafted: int) -> HashRows:
        self.made.append(HashRows(min(num_tokens, self.num_tokens), num_drafted))
        return self.made[-1]


def fresh_draft(text, limit: int, shape):
    return Eagle(HashHead(), holding(text), shape).propose(text, limit)


def some_text(rng: random.Random, length: int) -> list[int]:
    return [rng.randrange(1, VOCAB) for _ in range(length)]


# Choices


def test_choices_are_the_largest_logits_lowest_column_first_with_their_log_softmax():
    logits = np.array([1, 3, 2, 3, 3, 0], np.float32)
    ids = np.array([10, 20, 30, 40, 50, 60])
    found = top_choices(logits, ids, 4)
    assert [token for token, _ in found] == [20, 40, 50, 30]
    probs = np.exp(logits.astype(float)) / np.exp(logits.astype(float)).sum()
    np.testing.assert_allclose([p for _, p in found], np.log(probs[[1, 3, 4, 2]]), rtol=1e-6)
    assert top_choices(logits, ids, 1) == found[:1]
    assert len(top_choices(logits, ids, 99)) == 6


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_logits_that_are_no_numbers_are_an_error(bad):
    logits = np.zeros(8, np.float32)
    logits[3] = bad
    with pytest.raises(InferenceError, match="not numbers"):
        top_choices(logits, np.arange(8), 2)
    with pytest.raises(InferenceError, match="not numbers"):
        top_choices(np.full(8, -np.inf, np.float32), np.arange(8), 1)


# Shapes


def test_a_static_tree_has_its_parents_first_and_siblings_without_gaps():
    for budget in range(1, 6):
        paths = static_paths(budget)
        assert len(paths) == len(set(paths)) == 2**budget - 1
        StaticTree(paths)
    for gap in ([(1,)], [(0,), (0, 1)], [(0, 0), (0,)], [(0,), (0,)]):
        with pytest.raises(ValueError, match="lacks"):
            StaticTree(gap)


@pytest.mark.parametrize("shape", SHAPES)
def test_parents_come_first_and_siblings_differ(shape):
    for seed in range(20):
        draft = fresh_draft(some_text(random.Random(seed), 9), 6, shape)
        parents = draft.parents or tuple(range(-1, len(draft.token_ids) - 1))
        assert all(ROOT <= parent < node for node, parent in enumerate(parents))
        assert len(set(zip(parents, draft.token_ids, strict=True))) == len(parents)
        assert draft.depth <= min(6, shape.depth)


# Medusa


@dataclass
class TableHead:
    """Heads that look the right text up by the state's position."""

    right: list[int]
    num_heads: int = 4
    sure: float = 20.0
    column_ids: np.ndarray = field(default_factory=lambda: IDS)
    step_cost_ms: float = 1.0

    def logits(self, state, cancel=None) -> np.ndarray:
        logits = np.random.default_rng(int(state[1])).standard_normal((self.num_heads, VOCAB))
        for head in range(self.num_heads):
            place = int(state[0]) + 2 + head
            if place < len(self.right):
                logits[head, self.right[place]] += self.sure
        return logits.astype(np.float32)


@pytest.mark.parametrize("shape", [None, StaticTree(static_paths(3)), StaticTree(static_paths(4))])
def test_medusa_heads_that_know_the_text_are_accepted_whole(shape):
    model = FakeModel()
    prompt = [3, 1, 4, 1, 5]
    right = plain(model, prompt)
    slot = StatefulSlot(model)
    drafter = Medusa(TableHead([*prompt, *right]), slot, shape)
    steps = run(slot, prompt, drafter=drafter)
    assert tokens(steps) == right
    assert steps[0].num_proposed == 0  # five tokens were fresh
    depth = 4 if shape is None else min(4, shape.depth)
    assert [step.num_accepted for step in steps[1:-1]] == [depth] * (len(steps) - 2)


def test_medusa_trees_hold_the_best_choices_of_each_head_in_every_combination():
    text = [3, 1, 4, 1, 5]
    head = TableHead([], num_heads=3)
    slot = holding(text)
    ranked = np.argsort(-head.logits(slot.states("hidden_states")[-1]), axis=1)
    draft = Medusa(head, slot, StaticTree(static_paths(4))).propose(text, 8)
    found = {tuple(draft.token_ids[i] for i in draft.path(n)) for n in range(len(draft.token_ids))}
    wanted = {
        tuple(int(ranked[head_index, rank]) for head_index, rank in enumerate(path))
        for path in static_paths(4)
        if len(path) <= 3
    }
    assert found == wanted
    assert len(draft.token_ids) == 14


def test_a_reduced_head_proposes_the_ids_of_its_columns():
    text = [3, 1, 4, 1, 5]
    head = TableHead([], num_heads=2)
    head.column_ids = IDS + 1000
    slot = holding(text)
    plain_draft = Medusa(TableHead([], num_heads=2), slot, WHOLE).propose(text, 8)
    draft = Medusa(head, slot, WHOLE).propose(text, 8)
    assert draft.token_ids == tuple(1000 + token for token in plain_draft.token_ids)
    assert draft.draft_probs is None


# When nothing is drafted, and where a draft ends


@pytest.mark.parametrize(("drafting", "head"), [(Medusa, TableHead([])), (Eagle, HashHead())])
def test_without_the_newest_state_nothing_is_drafted(drafting, head):
    text = [3, 1, 4, 1, 5]
    drafter = drafting(head, holding(text))
    assert drafter.propose(text, 4).token_ids
    assert drafter.propose(text, 0).token_ids == ()
    assert drafter.propose([*text, 9], 4).token_ids == ()  # two fresh tokens
    assert (
        drafting(head, StatefulSlot(FakeModel())).propose([3], 4).token_ids == ()
    )  # nothing committed


@pytest.mark.parametrize("limit", [1, 2, 5])
@pytest.mark.parametrize("shape", SHAPES)
def test_no_path_is_longer_than_the_limit(limit, shape):
    for seed in range(10):
        text = some_text(random.Random(seed), 12)
        draft = Eagle(HashHead(), holding(text, frozenset()), shape).propose(text, limit)
        if isinstance(shape, DynamicTree):
            assert 1 <= draft.depth <= min(limit, shape.depth)
        else:
            assert draft.depth == min(limit, shape.depth)


def test_a_chain_ends_before_a_token_in_doubt_but_has_its_first():
    text = [3, 1, 4, 1, 5]
    head, slot = HashHead(), holding(text)
    whole = Eagle(head, slot, WHOLE).propose(text, 8)
    assert len(whole.token_ids) == 8
    rows = HashRows(512, 16)
    logits, state = rows.feed(slot.states("hidden_states"), text[1:])
    probs = []
    for node, token in enumerate(whole.token_ids):
        probs.append(np.exp(logits - logits.max())[token] / np.exp(logits - logits.max()).sum())
        all_logits, own = rows.draft([state], [token], [node - 1])
        logits, state = all_logits[0], own[0]
    for stop_below in (0.2, 0.35, 0.5, 1.1):
        length = next((i for i, p in enumerate(probs) if i > 0 and p < stop_below), 8)
        draft = Eagle(head, slot, Chain(stop_below=stop_below)).propose(text, 8)
        assert draft.token_ids == whole.token_ids[:length]
    sure = TableHead([0, 0, 0, 0, 0, 7, 8, 9, 10])
    assert Medusa(sure, slot).propose(text, 8).token_ids == (7, 8, 9, 10)
    sure.right = [0, 0, 0, 0, 0, 7, 8]
    assert Medusa(sure, slot).propose(text, 8).token_ids == (7, 8)


def test_nothing_is_drafted_behind_an_end_of_text():
    num_ends = 0
    for seed in range(30):
        draft = fresh_draft(some_text(random.Random(seed), 9), 8, StaticTree(static_paths(4)))
        for node, token in enumerate(draft.token_ids):
            num_ends += token == EOS
            assert token != EOS or draft.children(node) == ()
    assert num_ends > 0


# EAGLE


@pytest.mark.parametrize("shape", SHAPES)
def test_each_node_is_the_choice_behind_its_own_path(shape):
    """Row j has the state of token j and token j + 1; a drafted one its parent's own state."""
    for seed in range(20):
        text = some_text(random.Random(seed), 2 + seed)
        states = holding(text).states("hidden_states")
        path = b""
        for state, token in zip(states, text[1:], strict=True):
            path = digest(path, state, token)
        draft = fresh_draft(text, 6, shape)
        behind = {ROOT: path}
        for node, token in enumerate(draft.token_ids):
            parent = draft.path(node)[-2] if len(draft.path(node)) > 1 else ROOT
            logits, state = answer(behind[parent])
            ranked = list(np.argsort(-logits))
            rank = draft.children(parent).index(node)
            assert ranked[rank] == token
            behind[node] = digest(behind[parent], state, token)


def test_the_rows_of_a_used_cache_are_those_of_a_fresh_one():
    rng = random.Random(0)
    for shape in SHAPES:
        head = HashHead()
        text = some_text(rng, 20)
        slot = holding(text)
        drafter = Eagle(head, slot, shape)
        for _ in range(60):
            match rng.randrange(5):
                case 0:
                    text = [*text, *some_text(rng, rng.randint(1, 4))]
                case 1:
                    text = text[: rng.randint(2, len(text))]
                case 2:
                    text[rng.randrange(len(text))] = rng.randrange(1, VOCAB)
                case 3:  # a round of a generation that accepts a branch
                    draft = drafter.propose(text, 4)
                    node = rng.randrange(-1, len(draft.token_ids))
                    text += [draft.token_ids[i] for i in draft.path(node)] + some_text(rng, 1)
                case 4:
                    drafter.propose(text, 2)
            text = text[-200:] if len(text[-200:]) > 1 else some_text(rng, 5)
            commit(slot, text)
            assert drafter.propose(text, 4) == fresh_draft(text, 4, shape)


def test_only_new_rows_are_fed():
    head, text = HashHead(), [3, 1, 4, 1, 5, 9, 2, 6]
    slot = holding(text)
    drafter = Eagle(head, slot)
    drafter.propose(text, 4)
    text = [*text, 7, 8]
    commit(slot, text)
    drafter.propose(text, 4)
    drafter.propose(text, 4)  # the newest row again: its logits are wanted
    text = [*text[:5], 2, 3]
    commit(slot, text)
    drafter.propose(text, 4)
    assert head.made[0].num_fed == [7, 2, 1, 2]


def test_rows_that_are_not_finite_do_not_stay():
    text = [3, 1, 4, 1, 5, 9, 2, 6]
    head, slot = HashHead(), holding(text)
    drafter = Eagle(head, slot, WHOLE)
    head.made[0].nan = True
    for _ in range(2):
        with pytest.raises(InferenceError, match="not numbers"):
            drafter.propose(text, 4)
        assert head.made[0].num_rows == 0
    head.made[0].nan = False
    assert drafter.propose(text, 4) == fresh_draft(text, 4, WHOLE)


def test_a_feed_cancelled_half_way_is_taken_up_where_it_stopped():
    text = some_text(random.Random(1), 12)
    head, slot = HashHead(), holding(text)
    drafter = Eagle(head, slot, WHOLE)
    head.made[0].fail_with = Cancelled("superseded")
    with pytest.raises(Cancelled):
        drafter.propose(text, 4, CancelToken())
    head.made[0].fail_with = None
    text = [*text[:2], 9, *text[3:]]
    commit(slot, text)
    assert drafter.propose(text, 4) == fresh_draft(text, 4, WHOLE)


def test_at_the_end_of_its_positions_the_head_drafts_less_then_nothing():
    """`HashRows` refuses rows beyond."""
    for shape in (WHOLE, StaticTree(static_paths(4)), DynamicTree(num_nodes=99)):
        depths = []
        for length in range(6, 14):
            text = some_text(random.Random(length), length)
            drafter = Eagle(HashHead(num_tokens=10), holding(text, frozenset()), shape)
            depths.append(drafter.propose(text, 4).depth)
        assert depths == [4, 4, 4, 3, 2, 1, 0, 0]


class Chances:
    """A head whose guesses depend on the drafted tokens alone: 1 to 4, by a table of logits."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.tables = {path: 1.5 * rng.standard_normal(4) for n in range(3) for path in paths_of(n)}
        self.column_ids, self.state_name, self.step_cost_ms = IDS[1:5], "hidden_states", 1.0
        self.num_tokens, self.num_rows = 512, 0
        self.drafted: list[tuple[int, ...]] = []

    def cache(self, num_tokens, num_drafted):
        return self

    def rollback(self, num_rows):
        self.drafted = []

    def feed(self, states, token_ids, cancel=None):
        return self.tables[()].astype(np.float32), np.zeros(2, np.float32)

    def draft(self, states, token_ids, parents, cancel=None):
        begin = len(self.drafted)
        for token, parent in zip(token_ids, parents, strict=True):
            before = () if parent == ROOT else self.drafted[parent]
            self.drafted.append((*before, token - 1))
        new = self.drafted[begin:]
        logits = np.stack([self.tables[path] for path in new]).astype(np.float32)
        return logits, np.zeros((len(new), 2), np.float32)

    def chance(self, path) -> float:
        rows = [self.tables[path[:depth]] for depth in range(len(path))]
        logs = [
            row[token] - np.log(np.exp(row).sum()) for row, token in zip(rows, path, strict=True)
        ]
        return sum(logs)

    def likeliest(self, paths) -> list[tuple[int, ...]]:
        return sorted(paths, key=self.chance, reverse=True)

    def drafted_by(self, shape) -> list[tuple[int, ...]]:
        text = [3, 1, 4, 1, 5]
        draft = Eagle(self, holding(text), shape).propose(text, 8)
        nodes = range(len(draft.token_ids))
        return [tuple(draft.token_ids[i] - 1 for i in draft.path(node)) for node in nodes]


@pytest.mark.parametrize("num_nodes", [1, 5, 12, 30])
def test_a_dynamic_tree_that_tries_everything_holds_the_likeliest_paths(num_nodes):
    """In their order, so that whatever is cut off the end is the least likely."""
    head = Chances(seed=num_nodes)
    everything = [path for n in (1, 2, 3) for path in paths_of(n)]
    shape = DynamicTree(num_beams=16, num_nodes=num_nodes, depth=3)
    assert head.drafted_by(shape) == head.likeliest(everything)[:num_nodes]


@pytest.mark.parametrize("num_beams", [1, 2, 3])
def test_a_dynamic_tree_goes_on_from_its_likeliest_nodes(num_beams):
    for seed in range(10):
        head = Chances(seed)
        beams, seen = [()], []
        for _ in range(3):
            level = []
            for beam in beams:
                children = head.likeliest([(*beam, token) for token in range(4)])
                level += children[:num_beams]
            beams = head.likeliest(level)[:num_beams]
            seen += level
        shape = DynamicTree(num_beams=num_beams, num_nodes=9, depth=3)
        assert head.drafted_by(shape) == head.likeliest(seen)[:9]


def paths_of(length: int):
    return itertools.product(range(4), repeat=length)


# Through the decoding loop


@pytest.mark.parametrize("shape", SHAPES)
def test_text_with_an_eagle_head_is_that_without(shape):
    model = FakeModel()
    for seed in range(10):
        prompt = some_text(random.Random(seed), 1 + seed)
        slot = StatefulSlot(model)
        stats = DecodeStats()
        drafter = Eagle(HashHead(), slot, shape)
        assert tokens(run(slot, prompt, drafter=drafter, stats=stats)) == plain(model, prompt)
        assert stats.num_drafter_failures == 0
        assert stats.sources["eagle"]["proposed"] > 0


def test_a_head_with_nan_costs_plain_steps_that_are_counted():
    model = FakeModel()
    prompt = [3, 1, 4, 1, 5]
    slot = StatefulSlot(model)
    head = HashHead()
    drafter = Eagle(head, slot)
    head.made[0].nan = True
    stats = DecodeStats()
    assert tokens(run(slot, prompt, drafter=drafter, stats=stats)) == plain(model, prompt)
    # Neither the first step (no state yet) nor the last (one token left) asks the head.
    assert stats.num_drafter_failures == GREEDY.max_new_tokens - 2
