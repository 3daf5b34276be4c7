"""What the parts of the engine exchange: token ids, logits, drafts and steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from lsp_server.cancellation import CancelToken

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Logits = NDArray[np.float32]
    Probs = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """What the decoding loop must know of a target model."""

    name: str
    vocab_size: int
    context_length: int
    """Tokens that the KV buffer of one slot holds."""
    eos_ids: frozenset[int]
    identity: str
    """Weights, graph form, provider, processor, threads and library version: the key of measured
    costs."""
    tree_rows_exact: bool = False
    """A row of a tree pass has the bits that a chain pass gives it."""


class Constraint(Protocol):
    """Narrows the target's distribution by what has been generated."""

    def allowed(self, new_ids: Sequence[int]) -> NDArray[np.intp] | None:
        """Ascending ids, at least one, of the tokens that may follow `new_ids`, the generation so
        far; None: all. Depends on nothing else, so that drafts can be judged row by row."""
        ...


@dataclass(frozen=True, slots=True)
class Choice:
    """How sure the target was of a token; natural logarithms of its own probabilities, before any
    processing."""

    log_prob: float
    runner_up: int
    """The likeliest other token that was allowed; the token itself where there was no other."""
    runner_up_log_prob: float
    log_allowed: float = 0.0
    """Of all tokens together that were allowed; 0 where all were."""


@dataclass(frozen=True, slots=True)
class DecodeParams:
    max_new_tokens: int = 64
    min_new_tokens: int = 0
    """New tokens before which no end of text may come."""
    temperature: float = 0.0
    """0 means greedy: the arg max, ties to the lowest id."""
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    constraint: Constraint | None = None
    """Which tokens may come next; None: all."""
    with_choices: bool = False
    """Steps say how probable their tokens were."""
    seed: int = 0
    strict: bool = False
    """Rows bit-identical at every width, so greedy output cannot depend on speculation."""

    @property
    def greedy(self) -> bool:
        return self.temperature < 1e-5

    @property
    def penalised(self) -> bool:
        """A row's distribution depends on the tokens before it beyond what the model makes of
        them."""
        return (
            self.repetition_penalty != 1.0
            or self.presence_penalty != 0.0
            or self.frequency_penalty != 0.0
        )


ROOT = -1
"""The parent of a draft's first tokens: the last committed token."""


@dataclass(frozen=True, slots=True)
class Draft:
    """Tokens proposed to follow the committed ones: a chain, or a tree of continuations."""

    token_ids: tuple[int, ...]
    source: str
    draft_probs: Probs | None = None
    """[num_tokens, vocab] distributions that the tokens of a chain were drawn from; None: the
    tokens are there whatever the target says, each with q one-hot.

    Such a draft is exact only if it is verified whole, since leaving a drawn token out because of
    what it is changes the law; its length is chosen before it is drawn, by `limit`.
    """
    strength: int = 0
    """How good the source thinks it is (match length); the controller learns each apart."""
    parents: tuple[int, ...] | None = None
    """Per token the index of its parent, smaller than its own, or ROOT. None: a chain. Siblings
    have different tokens."""

    @property
    def is_tree(self) -> bool:
        """More than one path: a tree of width 1 is verified as the chain that it is."""
        if self.parents is None:
            return False
        return any(parent != node - 1 for node, parent in enumerate(self.parents))

    @property
    def depth(self) -> int:
        """Tokens on the longest path."""
        return max(self.depths, default=0)

    @property
    def depths(self) -> tuple[int, ...]:
        """Per token, how many tokens of the draft lead to it, itself included."""
        if self.parents is None:
            return tuple(range(1, len(self.token_ids) + 1))
        found: list[int] = []
        for parent in self.parents:
            found.append(1 if parent == ROOT else found[parent] + 1)
        return tuple(found)

    def children(self, node: int) -> tuple[int, ...]:
        """Indices of the tokens that follow `node` (or ROOT) directly, in draft order."""
        if self.parents is None:
            return (node + 1,) if node + 1 < len(self.token_ids) else ()
        return tuple(i for i, parent in enumerate(self.parents) if parent == node)

    def path(self, node: int) -> tuple[int, ...]:
        """Indices from the first token to `node`; empty for ROOT."""
        if self.parents is None:
            return tuple(range(node + 1))
        found: list[int] = []
        while node != ROOT:
            found.append(node)
            node = self.parents[node]
        return tuple(reversed(found))

    def hits(self, emitted: Sequence[int]) -> Iterator[bool]:
        """Position by position, whether the draft holds what the target emitted; ends behind the
        first miss, and where either ends."""
        node = ROOT
        for token in emitted:
            children = self.children(node)
            hit = next((child for child in children if self.token_ids[child] == token), None)
            if not children:
                return
            yield hit is not None
            if hit is None:
                return
            node = hit

    def select(self, nodes: Sequence[int]) -> Draft:
        """The draft of these tokens only: ascending indices, each with its parent among them."""
        if len(nodes) == len(self.token_ids):
            return self
        place = {ROOT: ROOT} | {node: index for index, node in enumerate(nodes)}
        return Draft(
            tuple(self.token_ids[node] for node in nodes),
            self.source,
            None if self.draft_probs is None else self.draft_probs[list(nodes)],
            self.strength,
            None if self.parents is None else tuple(place[self.parents[node]] for node in nodes),
        )

    def first_path(self) -> Draft:
        """The chain of first children: what is left of a tree where only chains are exact."""
        if self.parents is None:
            return self
        nodes: list[int] = []
        node = ROOT
        while following := self.children(node):
            node = following[0]
            nodes.append(node)
        chain = self.select(nodes)
        return Draft(chain.token_ids, self.source, None, self.strength)


@dataclass(frozen=True, slots=True)
class Step:
    """One pass of the target: 1 + accepted tokens, cut at the end of text."""

    token_ids: tuple[int, ...]
    source: str | None
    """The draft's source; None for a plain step."""
    num_proposed: int
    num_accepted: int
    finish: str | None = None
    """`eos` or `length` on the last step, else None."""
    depth: int = 0
    """Tokens on the longest path of what was proposed."""
    choices: tuple[Choice, ...] = ()
    """Per token, where the request wants them."""


@dataclass(slots=True)
class DecodeStats:
    """Filled while a generation runs; read when it has stopped."""

    num_tokens: int = 0
    num_passes: int = 0
    prompt_tokens: int = 0
    reused_tokens: int = 0
    prefill_ms: float = 0.0
    decode_ms: float = 0.0
    sources: dict[str, dict[str, int]] = field(default_factory=dict)
    """source -> {proposed, accepted}"""
    drafted_at: dict[str, list[int]] = field(default_factory=dict)
    """source -> per position in the draft, from the first on, how many drafts reached it"""
    accepted_at: dict[str, list[int]] = field(default_factory=dict)
    """source -> per position, how many drafts were accepted up to it"""
    num_drafter_failures: int = 0


class Slot(Protocol):
    """The KV cache of one document; the committed length is the only truth."""

    chunk: int
    """Tokens of a prompt that are read in one pass at most, as `engine.prefill` sets it."""

    @property
    def spec(self) -> ModelSpec: ...

    @property
    def token_ids(self) -> Sequence[int]:
        """The committed tokens, oldest first; their KV rows are valid."""
        ...

    def forward(
        self,
        token_ids: Sequence[int],
        logit_rows: Sequence[int],
        *,
        parents: Sequence[int] | None = None,
        strict: bool = False,
        cancel: CancelToken | None = None,
    ) -> Logits:
        """Write KV rows n..n+T-1 without committing them; logits float32 [len(logit_rows), vocab].

        `logit_rows` index into `token_ids`. With `parents` (per token the index of the one before
        it, ROOT for the committed text) the tokens form a tree, and each sees its ancestors only.
        Raises Cancelled from within a running pass.
        """
        ...

    def commit(self, num_tokens: int, path: Sequence[int] = ()) -> None:
        """Make the first `num_tokens` tokens of the last forward permanent, and those at the
        ascending indices `path` behind them: the accepted branch of a tree."""
        ...

    def truncate(self, num_tokens: int, *, strict: bool = False) -> None:
        """Forget all but the first `num_tokens` committed tokens.

        With `strict` also those from the first on whose row a pass that was not strict has written
        with other bits: a strict generation must not depend on what used the slot before it.
        """
        ...


class Model(Protocol):
    @property
    def spec(self) -> ModelSpec: ...

    def slot(self, key: str) -> Slot:
        """The slot kept for `key`; the least recently used one is emptied when memory is short."""
        ...


class Drafter(Protocol):
    """A source of drafts. It may be wrong, never harmful: what it proposes is verified."""

    @property
    def name(self) -> str: ...

    def propose(
        self, token_ids: Sequence[int], limit: int, cancel: CancelToken | None = None
    ) -> Draft:
        """At most `limit` tokens that may follow `token_ids` (prompt and output so far).

        Raises Cancelled when `cancel` is set; only sources that run a graph need to look at it.
        """
        ...
