"""Heads without weights, over the fake model's slots.

The fake EAGLE rows answer by a hash of everything on their path, so that a state, token or row out
of place changes the draft.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from dataclasses import dataclass, field

import numpy as np

from lsp_server.engine.drafters.eagle import Eagle
from lsp_server.engine.drafters.trees import Chain, DynamicTree, StaticTree, static_paths
from lsp_server.engine.types import ROOT
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
    made: list[HashRows] = field(default_factory=list)

    def cache(self, num_tokens: int, num_drafted: int) -> HashRows:
        self.made.append(HashRows(min(num_tokens, self.num_tokens), num_drafted))
        return self.made[-1]


def fresh_draft(text, limit: int, shape):
    return Eagle(HashHead(), holding(text), shape).propose(text, limit)


def some_text(rng: random.Random, length: int) -> list[int]:
    return [rng.randrange(1, VOCAB) for _ in range(length)]


@dataclass
class TableHead:
    """Heads that look the right text up by the state's position."""

    right: list[int]
    num_heads: int = 4
    sure: float = 20.0
    column_ids: np.ndarray = field(default_factory=lambda: IDS)

    def logits(self, state, cancel=None) -> np.ndarray:
        logits = np.random.default_rng(int(state[1])).standard_normal((self.num_heads, VOCAB))
        for head in range(self.num_heads):
            place = int(state[0]) + 2 + head
            if place < len(self.right):
                logits[head, self.right[place]] += self.sure
        return logits.astype(np.float32)


class Chances:
    """A head whose guesses depend on the drafted tokens alone: 1 to 4, by a table of logits."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.tables = {path: 1.5 * rng.standard_normal(4) for n in range(3) for path in paths_of(n)}
        self.column_ids, self.state_name = IDS[1:5], "hidden_states"
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


def paths_of(length: int):
    return itertools.product(range(4), repeat=length)
