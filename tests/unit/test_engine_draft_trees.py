"""Shapes of drafts: chains, static trees, dynamic trees."""

from __future__ import annotations

import random

import pytest

from lsp_server.engine.controller import widths_by_depth
from lsp_server.engine.drafters.trees import DynamicTree, StaticTree, static_paths
from lsp_server.engine.types import ROOT
from tests.fake_heads import SHAPES, Chances, fresh_draft, paths_of, some_text
from tests.fake_model import EOS


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


@pytest.mark.parametrize("shape", [*SHAPES[1:], DynamicTree(2, 99, 3)])
def test_a_tree_has_at_most_the_tokens_that_its_shape_says_and_a_static_one_has_them(shape):
    is_bound = isinstance(shape, DynamicTree)
    for seed in range(20):
        draft = fresh_draft(some_text(random.Random(seed), 9), 6, shape)
        has_end = EOS in draft.token_ids
        for depth, count in enumerate(widths_by_depth(draft), start=1):
            most = shape.num_tokens(depth)
            assert count <= most if is_bound or has_end else count == most


def test_a_dynamic_tree_that_keeps_all_nodes_has_as_many_as_its_shape_says():
    for depth in (1, 2, 3):
        shape = DynamicTree(num_beams=2, num_nodes=99, depth=depth)
        assert len(Chances(0).drafted_by(shape)) == shape.num_tokens(depth) == shape.num_tokens(9)


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
