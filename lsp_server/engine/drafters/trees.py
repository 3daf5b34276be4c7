"""The shapes of drafts that grow depth by depth: chains, static trees, dynamic trees."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lsp_server.engine.types import ROOT, Draft

TreePath = tuple[int, ...]
"""A node by ranks: (0, 2) is the third guess behind the first guess."""


@dataclass(frozen=True, slots=True)
class Node:
    token: int
    parent: int
    """Index of a node before it, or ROOT."""
    path: TreePath
    log_prob: float
    """Of the token, by the drafter."""
    path_log_prob: float


class Shape(Protocol):
    """Which nodes get children, and which are proposed."""

    @property
    def depth(self) -> int:
        """Tokens of the longest path, at most."""
        ...

    @property
    def num_parents(self) -> int:
        """Nodes that get children, at most; the root is not counted."""
        ...

    def num_children(self, path: TreePath) -> int:
        """Guesses wanted behind the node at `path`; the root's is empty."""
        ...

    def parents(self, nodes: Sequence[Node], level: Sequence[int]) -> list[int]:
        """Those of the deepest level (indices into `nodes`) that get children."""
        ...

    def proposed(self, nodes: Sequence[Node]) -> list[int]:
        """The nodes of the draft, parents first."""
        ...


@dataclass(frozen=True, slots=True)
class Chain:
    """The likeliest token at each depth, up to where the drafter is in doubt."""

    depth: int = 16
    stop_below: float = 0.3
    """It ends before a token less probable than this, but never before its first: what a source is
    worth shows only when it drafts. (Heads trained for less than half an hour gain by it where wide
    passes are dear, and lose little where they are not.)"""

    @property
    def num_parents(self) -> int:
        return self.depth - 1

    def num_children(self, path: TreePath) -> int:
        return int(len(path) < self.depth)

    def parents(self, nodes: Sequence[Node], level: Sequence[int]) -> list[int]:
        return [index for index in level if self._is_sure(nodes[index])]

    def proposed(self, nodes: Sequence[Node]) -> list[int]:
        return [index for index, node in enumerate(nodes) if self._is_sure(node)]

    def _is_sure(self, node: Node) -> bool:
        return node.parent == ROOT or math.exp(node.log_prob) >= self.stop_below


class StaticTree:
    """Always the same paths, which the product trees of Medusa are (arXiv 2401.10774)."""

    def __init__(self, paths: Sequence[TreePath]) -> None:
        """`paths`: parents before children, and the ranks of siblings 0, 1, 2, ..."""
        self._num_children: dict[TreePath, int] = {}
        self._depth = 0
        known: set[TreePath] = {()}
        for path in paths:
            rank = self.num_children(path[:-1])
            if path[-1] != rank or path[:-1] not in known:
                raise ValueError(f"the path {path} lacks its parent or a sibling before it")
            known.add(path)
            self._num_children[path[:-1]] = rank + 1
            self._depth = max(self._depth, len(path))

    @property
    def depth(self) -> int:
        return self._depth

    @property
    def num_parents(self) -> int:
        return len(self._num_children) - 1

    def num_tokens(self, depth: int) -> int:
        """Of a draft so deep."""
        counts = self._num_children.items()
        return sum(count for path, count in counts if len(path) < depth)

    def num_children(self, path: TreePath) -> int:
        return self._num_children.get(path, 0)

    def parents(self, nodes: Sequence[Node], level: Sequence[int]) -> list[int]:
        return [index for index in level if self.num_children(nodes[index].path)]

    def proposed(self, nodes: Sequence[Node]) -> list[int]:
        return list(range(len(nodes)))


@dataclass(frozen=True, slots=True)
class DynamicTree:
    """EAGLE-2 (Li et al. 2024, arXiv 2406.16858): at each depth the `num_beams` likeliest nodes get
    as many children each, and of all nodes the `num_nodes` likeliest are proposed."""

    num_beams: int = 4
    num_nodes: int = 15
    depth: int = 4

    @property
    def num_parents(self) -> int:
        return self.num_beams * (self.depth - 1)

    def num_tokens(self, depth: int) -> int:
        """Of a draft so deep, at most: which nodes are the likeliest shows only then."""
        num_levels = min(depth, self.depth)
        grown = self.num_beams + self.num_beams**2 * (num_levels - 1)
        return min(self.num_nodes, grown)

    def num_children(self, path: TreePath) -> int:
        return self.num_beams if len(path) < self.depth else 0

    def parents(self, nodes: Sequence[Node], level: Sequence[int]) -> list[int]:
        return _likeliest(nodes, level)[: self.num_beams]

    def proposed(self, nodes: Sequence[Node]) -> list[int]:
        return _likeliest(nodes, range(len(nodes)))[: self.num_nodes]


def _likeliest(nodes: Sequence[Node], indices: Sequence[int]) -> list[int]:
    """A path is at most as likely as its beginning, and sorting keeps the order of equals: parents
    come before children, and what is cut from the end leaves the likeliest."""
    return sorted(indices, key=lambda index: -nodes[index].path_log_prob)


def static_paths(budget: int) -> tuple[TreePath, ...]:
    """A tree of 2^budget - 1 nodes, parents first: rank r costs r + 1 of a path's budget.

    The deeper a node, the fewer and the likelier guesses lead to it.

    >>> static_paths(2)
    ((0,), (1,), (0, 0))
    """
    level: list[TreePath] = [()]
    found: list[TreePath] = []
    while level:
        costs = [(path, sum(path) + len(path)) for path in level]
        level = [(*path, rank) for path, cost in costs for rank in range(budget - cost)]
        found += level
    return tuple(found)


def path_of(nodes: Sequence[Node], index: int) -> TreePath:
    """The path of a node, or of ROOT."""
    return () if index == ROOT else nodes[index].path


def append_children(
    nodes: list[Node], parent: int, choices: Sequence[tuple[int, float]]
) -> list[int]:
    """Append a node for each of the choices (token, log-probability), best first; their indices."""
    path = path_of(nodes, parent)
    before = 0.0 if parent == ROOT else nodes[parent].path_log_prob
    begin = len(nodes)
    for rank, (token, log_prob) in enumerate(choices):
        nodes.append(Node(token, parent, (*path, rank), log_prob, before + log_prob))
    return list(range(begin, len(nodes)))


def to_draft(nodes: Sequence[Node], indices: Sequence[int], source: str) -> Draft:
    """The draft of these nodes, parents first; a chain where a path is all it is."""
    place = {ROOT: ROOT} | {index: number for number, index in enumerate(indices)}
    draft = Draft(
        tuple(nodes[index].token for index in indices),
        source,
        parents=tuple(place[nodes[index].parent] for index in indices),
    )
    return draft if draft.is_tree else draft.first_path()
