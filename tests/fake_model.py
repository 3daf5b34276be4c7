"""A target model without weights, and drafters that misbehave on purpose.

The fake's logits are a hash of the whole prefix, so that any token too many, too few or out of
place in the KV cache changes everything after it. It can imitate the real graph's one numeric
weakness: a row written by a pass of width 1 has other bits, also for all rows behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from lsp_server.cancellation import CancelToken
from lsp_server.engine.prefill import PREFILL_CHUNK
from lsp_server.engine.types import Draft, ModelSpec
from lsp_server.errors import Cancelled, InferenceError

EOS = 0
VOCAB = 16


@dataclass(frozen=True)
class Pass:
    """One call of `forward`."""

    committed: int
    token_ids: tuple[int, ...]
    logit_rows: tuple[int, ...]
    strict: bool

    @property
    def width(self) -> int:
        return max(len(self.token_ids), 2 if self.strict else 1)


@dataclass
class FakeModel:
    """Model protocol. Everything that shapes the logits is set here and shared by its slots."""

    vocab: int = VOCAB
    capacity: int = 512
    eos_ids: frozenset[int] = frozenset({EOS})
    order: int | None = None
    """Logits depend on the last `order` tokens only: small values give text that repeats."""
    width_sensitive: bool = False
    sharpness: float = 3.0
    forced: Mapping[int, int] = field(default_factory=dict)
    """Position -> the token that is certain there; end of text occurs nowhere else."""
    table: Callable[[tuple[int, ...]], Sequence[float]] | None = None
    """Prefix -> exact probabilities, instead of the hash."""
    nan_from: int | None = None
    """Rows at this position and behind are NaN."""
    max_slots: int = 4
    slots: dict[str, FakeSlot] = field(default_factory=dict)
    _known: dict[tuple[int, ...], np.ndarray] = field(default_factory=dict)

    @property
    def spec(self) -> ModelSpec:
        return ModelSpec("fake", self.vocab, self.capacity, self.eos_ids, "fake")

    def slot(self, key: str = "a") -> FakeSlot:
        slot = self.slots.pop(key, None)
        if slot is None and len(self.slots) >= self.max_slots:
            slot = self.slots.pop(next(iter(self.slots)))
            slot.truncate(0)
        self.slots[key] = slot or FakeSlot(self)
        return self.slots[key]

    def logits(self, rows: Sequence[tuple[int, bool]]) -> np.ndarray:
        """float32 [vocab] behind `rows`: pairs of token and `written by a pass of width 1`."""
        prefix = tuple(token for token, _ in rows)
        position = len(prefix)
        if self.nan_from is not None and position >= self.nan_from:
            return np.full(self.vocab, np.nan, np.float32)
        if position in self.forced:
            row = np.full(self.vocab, -30.0, np.float32)
            row[self.forced[position]] = 0.0
            return row
        if self.table is not None:
            with np.errstate(divide="ignore"):
                return np.log(np.asarray(self.table(prefix), np.float64)).astype(np.float32)
        seen = rows if self.order is None else rows[-self.order :]
        key = tuple(token for token, _ in seen)
        if self.width_sensitive:
            key += tuple(int(narrow) for _, narrow in seen)
        if key not in self._known:
            row = np.random.default_rng(key).standard_normal(self.vocab).astype(np.float32)
            row *= self.sharpness
            row[list(self.eos_ids)] = -30.0
            self._known[key] = row
        return self._known[key]


def paths(
    new: list[tuple[int, bool]], parents: Sequence[int] | None, rows: Sequence[int]
) -> Iterator[list[tuple[int, bool]]]:
    """What each row sees of the pass: everything up to it, or in a tree its ancestors."""
    for row in rows:
        if parents is None:
            yield new[: row + 1]
            continue
        path = [row]
        while parents[path[-1]] >= 0:
            path.append(parents[path[-1]])
        yield [new[index] for index in reversed(path)]


class FakeSlot:
    """Slot protocol, with assertions on how the loop uses it."""

    def __init__(self, model: FakeModel) -> None:
        self.model = model
        self.spec = model.spec
        self.chunk = PREFILL_CHUNK
        self.rows: list[tuple[int, bool]] = []
        self.pending: list[tuple[int, bool]] | None = None
        self.passes: list[Pass] = []
        self.commits: list[int] = []
        self.during_pass: Callable[[int], None] = lambda num_passes: None
        """Called inside each pass with the number of passes so far."""

    @property
    def token_ids(self) -> list[int]:
        return [token for token, _ in self.rows]

    def forward(
        self,
        token_ids: Sequence[int],
        logit_rows: Sequence[int],
        *,
        parents: Sequence[int] | None = None,
        strict: bool = False,
        cancel: CancelToken | None = None,
    ) -> np.ndarray:
        assert parents is None or (self.rows and len(parents) == len(token_ids))
        assert len(token_ids) >= 1
        assert len(logit_rows) >= 1
        assert all(0 <= row < len(token_ids) for row in logit_rows)
        assert all(0 <= token < self.model.vocab for token in token_ids)
        if len(self.rows) + len(token_ids) > self.model.capacity:
            raise InferenceError("the slot is full")
        if cancel is not None:
            cancel.raise_if_cancelled()
        done = Pass(len(self.rows), tuple(token_ids), tuple(logit_rows), strict)
        self.passes.append(done)
        self.pending = None
        self.during_pass(len(self.passes))
        if cancel is not None and cancel.cancelled:
            raise Cancelled(cancel.reason)
        new = [(int(token), done.width == 1) for token in token_ids]
        self.pending = new
        return np.stack(
            [self.model.logits(self.rows + path) for path in paths(new, parents, logit_rows)]
        )

    def commit(self, num_tokens: int, path: Sequence[int] = ()) -> None:
        assert self.pending is not None, "commit without a pass"
        assert 0 <= num_tokens <= len(self.pending)
        assert all(num_tokens <= row < len(self.pending) for row in path)
        self.rows += self.pending[:num_tokens] + [self.pending[row] for row in path]
        self.commits.append(num_tokens + len(path))
        self.pending = None

    def truncate(self, num_tokens: int, *, strict: bool = False) -> None:
        assert num_tokens >= 0
        del self.rows[num_tokens:]
        if strict:
            narrow = next((i for i, row in enumerate(self.rows) if row[1]), len(self.rows))
            del self.rows[narrow:]
        self.pending = None


@dataclass
class AdversarialDrafter:
    """Drafts from what the right text is known to be, wrong where and how it is told.

    `right` is prompt and output of the same request without drafts.
    """

    right: Sequence[int]
    kind: str = "right"
    """right, wrong, wrong_at, alternating, unknown_id, negative_id, eos_inside, raising,
    too_long, empty, not_a_draft."""
    wrong_at: int = 0
    vocab: int = VOCAB
    eos: int = EOS
    name: str = "adversary"
    calls: list[tuple[int, ...]] = field(default_factory=list)

    def propose(
        self, token_ids: Sequence[int], limit: int, cancel: CancelToken | None = None
    ) -> Draft:
        self.calls.append(tuple(token_ids))
        at = len(token_ids)
        count = limit + 3 if self.kind == "too_long" else limit
        truth = [self._right(at + i) for i in range(count)]
        match self.kind:
            case "raising":
                raise RuntimeError("the drafter has a defect")
            case "not_a_draft":
                return None  # type: ignore[return-value]  # the defect that is played
            case "empty":
                truth = []
            case "wrong":
                truth = [self._other(token) for token in truth]
            case "wrong_at":
                truth = [self._other(t) if i >= self.wrong_at else t for i, t in enumerate(truth)]
            case "alternating" if len(self.calls) % 2:
                truth = [self._other(token) for token in truth]
            case "unknown_id":
                truth[min(self.wrong_at, count - 1)] = self.vocab + 7
            case "negative_id":
                truth[min(self.wrong_at, count - 1)] = -1
            case "eos_inside":
                truth[min(self.wrong_at, count - 1)] = self.eos
        return Draft(tuple(truth), self.name, strength=4)

    def _right(self, position: int) -> int:
        return self.right[position] if position < len(self.right) else 1 + position % 3

    def _other(self, token: int) -> int:
        return 1 + token % (self.vocab - 2)


KINDS = (
    "right",
    "wrong",
    "wrong_at",
    "alternating",
    "unknown_id",
    "negative_id",
    "eos_inside",
    "raising",
    "too_long",
    "empty",
    "not_a_draft",
)


@dataclass
class FixedLengthController:
    """Stands in for the controller: always the same draft length, and a record of observations."""

    length: int
    observed: list[tuple[Draft, tuple[int, ...]]] = field(default_factory=list)

    def cut(self, draft: Draft, num_fresh: int, *, strict: bool = False) -> Draft:
        return draft.select(range(min(self.length, len(draft.token_ids))))

    def observe(self, draft: Draft, emitted: Sequence[int]) -> None:
        self.observed.append((draft, tuple(emitted)))
