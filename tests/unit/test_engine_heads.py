"""Drafting with heads: what is fed, what is proposed, what is kept."""

from __future__ import annotations

import random

import numpy as np
import pytest

from lsp_server.cancellation import CancelToken
from lsp_server.engine.drafters.cost import DraftCost
from lsp_server.engine.drafters.eagle import Eagle
from lsp_server.engine.drafters.heads import top_choices
from lsp_server.engine.drafters.medusa import Medusa
from lsp_server.engine.drafters.trees import Chain, DynamicTree, StaticTree, static_paths
from lsp_server.engine.types import ROOT, DecodeStats
from lsp_server.errors import Cancelled, InferenceError
from tests.decoding import GREEDY, plain, run, tokens
from tests.fake_heads import (
    IDS,
    SHAPES,
    WHOLE,
    HashHead,
    HashRows,
    StatefulSlot,
    TableHead,
    answer,
    commit,
    digest,
    fresh_draft,
    holding,
    some_text,
)
from tests.fake_model import EOS, VOCAB, FakeModel

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


# Medusa


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


def test_what_a_draft_costs_counts_the_text_that_eagle_is_still_to_read():
    cost, text = DraftCost(step_ms=2.0, row_ms=0.5), some_text(random.Random(0), 100)
    slot = holding(text)
    drafter = Eagle(HashHead(), slot, WHOLE, cost)
    assert drafter.draft_cost_ms(3) == 6.0
    assert drafter.reading_cost_ms(text) == cost.reading_ms(100)
    drafter.propose(text, 2)
    assert drafter.reading_cost_ms([*text, 1]) == cost.reading_ms(2)
    assert Medusa(TableHead([]), slot, WHOLE, cost).draft_cost_ms(3) == 2.0


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
