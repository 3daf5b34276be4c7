"""Trees through the decoding loop on a fake model: the same text, the same ends, honest counts."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest

from lsp_server.engine.decode import MAX_TREE
from lsp_server.engine.types import ROOT, DecodeParams, DecodeStats, Draft
from tests.decoding import GREEDY, PROMPT, SAMPLING, plain, run, tokens
from tests.fake_model import EOS, VOCAB, FakeModel, FakeSlot


class RandomTrees:
    """Trees of any shape around what is right, which is somewhere among the children or nowhere."""

    name = "trees"

    def __init__(self, right: Sequence[int], seed: int, hit_rate: float, size: int = 10) -> None:
        self.right, self.rng = right, random.Random(seed)
        self.hit_rate, self.size = hit_rate, size

    def propose(self, token_ids, limit, cancel=None):
        parents: list[int] = []
        drafted: list[int] = []
        on_path = {ROOT: len(token_ids)}
        for node in range(self.size):
            parent = self.rng.choice([ROOT, *range(node)])
            taken = {t for t, p in zip(drafted, parents, strict=True) if p == parent}
            position = on_path.get(parent, len(self.right))
            token = self.right[position] if position < len(self.right) else EOS
            if token in taken or self.rng.random() > self.hit_rate or position >= len(self.right):
                wrong = [t for t in range(1, VOCAB) if t not in taken and t != token]
                token = self.rng.choice(wrong)
            else:
                on_path[node] = position + 1
            parents.append(parent)
            drafted.append(token)
        return Draft(tuple(drafted), self.name, parents=tuple(parents))


PENALISED = DecodeParams(
    max_new_tokens=24, temperature=0.9, seed=3, repetition_penalty=1.3, frequency_penalty=0.4
)


@pytest.mark.parametrize("params", [GREEDY, SAMPLING, PENALISED], ids=["greedy", "drawn", "penal"])
@pytest.mark.parametrize("hit_rate", [0.0, 0.5, 1.0])
def test_whatever_tree_is_drafted_the_output_is_that_of_plain_decoding(hit_rate, params):
    model = FakeModel()
    expected = plain(model, params=params)
    num_accepted = 0
    for seed in range(12):
        slot, stats = FakeSlot(model), DecodeStats()
        drafter = RandomTrees([*PROMPT, *expected], seed, hit_rate)
        assert tokens(run(slot, params=params, drafter=drafter, stats=stats)) == expected
        assert slot.token_ids == [*PROMPT, *expected][: len(slot.token_ids)]
        num_accepted += stats.sources["trees"]["accepted"]
    assert (num_accepted > 0) == (hit_rate > 0)


def test_a_tree_of_which_nothing_is_accepted_is_a_plain_step():
    model = FakeModel()
    expected = plain(model)
    slot = FakeSlot(model)
    steps = run(slot, drafter=RandomTrees([*PROMPT, *expected], 1, hit_rate=0.0))
    assert [step.token_ids for step in steps] == [(token,) for token in expected]
    assert {step.num_accepted for step in steps} == {0}
    assert slot.commits == [len(PROMPT), *[1] * (len(expected) - 1)]


@pytest.mark.parametrize("params", [GREEDY, SAMPLING], ids=["greedy", "sampling"])
def test_every_end_is_where_plain_decoding_ends_with_trees_too(params):
    for eos_at, max_new_tokens in itertools.product(range(6), range(1, 6)):
        model = FakeModel(forced={len(PROMPT) + eos_at: EOS})
        limited = DecodeParams(max_new_tokens, params.temperature, seed=params.seed)
        expected = run(FakeSlot(model), params=limited)
        beyond = [*PROMPT, *tokens(expected), *[9] * 9]
        for seed in range(3):
            steps = run(
                FakeSlot(model), params=limited, drafter=RandomTrees(beyond, seed, hit_rate=1.0)
            )
            assert tokens(steps) == tokens(expected)
            assert steps[-1].finish == expected[-1].finish


def test_no_branch_is_deeper_than_the_tokens_that_remain():
    """The bonus token needs one of them."""
    model = FakeModel()
    expected = plain(model)

    class Deep:
        name = "deep"

        def propose(self, token_ids, limit, cancel=None):
            self.limit = limit
            path = tuple(expected[len(token_ids) - len(PROMPT) :][:9])
            return Draft((15, *path), self.name, parents=(ROOT, ROOT, *range(1, len(path))))

    for remaining in range(2, 7):
        slot = FakeSlot(model)
        slot.forward(PROMPT[:2], [1])
        slot.commit(2)
        steps = run(slot, params=DecodeParams(max_new_tokens=remaining), drafter=Deep())
        assert tokens(steps) == expected[:remaining]
        assert len(steps) == 1
        assert steps[0].num_accepted == remaining - 1
        assert steps[0].num_proposed == remaining  # and the wrong sibling


def test_a_tree_is_cut_to_what_a_pass_may_hold_parents_included():
    model = FakeModel()
    slot = FakeSlot(model)
    expected = plain(model)
    run(slot, drafter=RandomTrees([*PROMPT, *expected], 4, hit_rate=0.7, size=3 * MAX_TREE))
    widths = [len(done.token_ids) for done in slot.passes[1:]]
    assert max(widths) == 1 + MAX_TREE


@pytest.mark.parametrize("seed", range(6))
def test_the_counters_of_trees_add_up_and_count_nothing_behind_an_end(seed):
    model = FakeModel(forced={len(PROMPT) + 9: EOS})
    expected = plain(model)
    slot, stats = FakeSlot(model), DecodeStats()
    drafter = RandomTrees([*PROMPT, *expected, EOS, 9, 9], seed, hit_rate=0.8)
    steps = run(slot, drafter=drafter, stats=stats)
    assert stats.num_tokens == len(expected)
    assert all(0 <= step.num_accepted <= step.num_proposed for step in steps)
    for step in steps:
        assert len(step.token_ids) == step.num_accepted + (step.finish != "eos")
    proposed = sum(step.num_proposed for step in steps)
    accepted = sum(step.num_accepted for step in steps)
    assert stats.sources == {"trees": {"proposed": proposed, "accepted": accepted}}
    assert sum(stats.accepted_at["trees"]) == accepted
    for position, num_drafts in enumerate(stats.drafted_at["trees"]):
        assert num_drafts == sum(step.depth > position for step in steps)
    assert sum(len(done.token_ids) for done in slot.passes) == len(PROMPT) + len(steps) - 1 + (
        proposed
    )
    assert sum(slot.commits) == len(slot.token_ids)
