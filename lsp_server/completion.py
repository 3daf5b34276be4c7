"""What a completion is asked with and what comes back; free of LSP types and of heavy imports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import zip_longest
from typing import Any, Protocol

from lsp_server.cancellation import CancelToken


class Reason(StrEnum):
    """Why an answer carries no item. "Nothing happened" is never the whole story."""

    EXCLUDED = "excluded"
    SECRET = "secret"
    TOO_LARGE = "too-large"
    BINARY = "binary"
    NOT_OPEN = "not-open"
    MODEL_LOADING = "model-loading"
    MODEL_MISSING = "model-missing"
    PAUSED = "paused"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"
    STALE = "stale"
    DEADLINE = "deadline"
    MID_WORD = "mid-word"
    MID_LINE = "mid-line"
    EMPTY = "empty"
    DUPLICATE_SUFFIX = "duplicate-suffix"
    REPETITION = "repetition"
    UNBALANCED = "unbalanced"
    LOW_CONFIDENCE = "low-confidence"
    PROSE = "prose"
    SELECTED_MISMATCH = "selected-mismatch"
    ENGINE_ERROR = "engine-error"


IN_THE_TEXT = frozenset(
    {
        Reason.EMPTY,
        Reason.MID_WORD,
        Reason.MID_LINE,
        Reason.DUPLICATE_SUFFIX,
        Reason.REPETITION,
        Reason.UNBALANCED,
        Reason.LOW_CONFIDENCE,
        Reason.PROSE,
    }
)
"""Reasons that lie in the text: to ask the model again would give them again."""


class Mode(StrEnum):
    """How much to complete: the rest of the line, a block, or what the place suggests."""

    LINE = "line"
    BLOCK = "block"
    AUTO = "auto"


class Eagerness(StrEnum):
    """How sure the model must be for its text to be shown while typing."""

    EAGER = "eager"
    BALANCED = "balanced"
    QUIET = "quiet"


class Origin(StrEnum):
    """Where an answer came from."""

    ENGINE = "engine"
    CACHE = "cache"
    TYPED_THROUGH = "typed_through"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An open document as it was when a request arrived. Offsets count code points."""

    uri: str
    version: int
    language_id: str
    text: str
    above: tuple[str, ...] = ()
    """Of a notebook's cell the texts of the cells above: no part of the text and its offsets, but
    of what the model sees before it."""

    def split(self, offset: int) -> tuple[str, str]:
        """Text before and after the cursor."""
        return self.text[:offset], self.text[offset:]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a document gets no completions at all."""

    reason: Reason
    message: str | None = None
    """The sentence for the user: what rule it was, and where it stands."""


@dataclass(frozen=True, slots=True)
class Selected:
    """The entry chosen in the editor's suggest widget; an item must start with its text."""

    start: int
    end: int
    """Offsets of what the entry replaces."""
    text: str


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    snapshot: Snapshot
    offset: int
    """The cursor, in code points from the start of the text."""
    invoked: bool = False
    """True when the user asked by key or command, False while typing."""
    num_items: int = 1
    """Most different completions to give: the likeliest, and others that part from it."""
    eagerness: Eagerness = Eagerness.BALANCED
    """How sure the model must be; without effect on what was asked for by key or command."""
    prose: bool = False
    """Comments and documents of prose are completed too; what was asked for by key always is."""
    use_context: bool = True
    """The prompt may hold text of other files."""
    healing: bool = True
    """What stands right before the cursor is generated again, so that a word begun there can go on
    as one token."""
    forced_ids: tuple[int, ...] = ()
    """The generation begins with these tokens: those of another one for the same place, up to where
    this one is to part from it."""
    mode: Mode = Mode.AUTO
    max_tokens: int = 64
    sources: tuple[str, ...] = ("lookup",)
    strict: bool = False
    temperature: float = 0.0
    seed: int = 0
    deadline_ms: float | None = None
    """Decoding stops so long after its first token and what is whole is kept; None: no limit."""
    selected: Selected | None = None
    is_foreseen: bool = False
    """The snapshot has text that the user may take, and has not taken yet: it is completed in, and
    nothing is learned from it."""
    tab_size: int | None = None
    insert_spaces: bool | None = None


@dataclass(slots=True)
class CompletionStats:
    tokens: int = 0
    passes: int = 0
    sources: dict[str, dict[str, int]] = field(default_factory=dict)
    drafted_at: dict[str, list[int]] = field(default_factory=dict)
    """source -> per position in the draft, from the first on, how many drafts reached it"""
    accepted_at: dict[str, list[int]] = field(default_factory=dict)
    """source -> per position, how many drafts were accepted up to it"""
    drafter_failures: int = 0
    """Drafts that could not be made; each cost a plain step."""
    prompt_tokens: int = 0
    reused_tokens: int = 0
    infilling: str = ""
    """The family and order of a prompt that tells what follows the cursor, or why none does."""
    prompt_parts: dict[str, int] = field(default_factory=dict)
    """Of the prompt's tokens, those of other `files` and of the `suffix`; and `healed_bytes`, which
    are generated again. Empty for a script."""
    origin: Origin = Origin.ENGINE
    confidence: float | None = None
    """Estimated chance that the first line is right; None where nothing tells."""
    num_typed: int = 0
    """Characters that the user has typed since the text was asked for; they are left out of it."""
    ms: dict[str, float] = field(
        default_factory=lambda: {"load": 0.0, "prefill": 0.0, "decode": 0.0, "total": 0.0}
    )

    def add(self, other: CompletionStats) -> None:
        """Count what was done for a further item of the same answer."""
        self.tokens += other.tokens
        self.passes += other.passes
        self.drafter_failures += other.drafter_failures
        for name, counts in other.sources.items():
            own = self.sources.setdefault(name, dict.fromkeys(counts, 0))
            for key, count in counts.items():
                own[key] += count
        _add_positions(self.drafted_at, other.drafted_at)
        _add_positions(self.accepted_at, other.accepted_at)
        self.ms["decode"] += other.ms["prefill"] + other.ms["decode"]

    def as_json(self) -> dict[str, Any]:
        failures = {"drafter_failures": self.drafter_failures} if self.drafter_failures else {}
        return failures | {
            "tokens": self.tokens,
            "passes": self.passes,
            "tokens_per_pass": round(self.tokens / self.passes, 3) if self.passes else 0.0,
            "sources": self.sources,
            "prompt_tokens": self.prompt_tokens,
            "reused_tokens": self.reused_tokens,
            "infilling": self.infilling,
            "prompt_parts": self.prompt_parts,
            "origin": self.origin.value,
            "num_typed": self.num_typed,
            **({} if self.confidence is None else {"confidence": round(self.confidence, 3)}),
            "ms": {name: round(value, 3) for name, value in self.ms.items()},
        }


def _add_positions(own: dict[str, list[int]], other: dict[str, list[int]]) -> None:
    for name, counts in other.items():
        sums = zip_longest(own.get(name, ()), counts, fillvalue=0)
        own[name] = [mine + theirs for mine, theirs in sums]


@dataclass(frozen=True, slots=True)
class TextEdit:
    """`text` in place of what stands from offset `start` to `end`."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class CompletionResult:
    text: str
    """What to insert, `\\n` line ends only, no trailing line end; empty when there is a reason."""
    start: int
    end: int
    """Offsets of the text to replace; start == end == cursor unless the text repeats its suffix."""
    reason: Reason | None
    stats: CompletionStats
    token_ids: tuple[int, ...] | None = None
    message: str | None = None
    """A sentence for the user where the reason has a remedy."""
    alternatives: tuple[TextEdit, ...] = ()
    """Further items, in the order to offer them; all differ from the first and each other."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A bit of generated text as it arrives; all but `text` is absent for a script."""

    text: str
    token_id: int | None = None
    log_prob: float | None = None
    """Natural logarithm of the target's own probability of the token, before any processing: given
    what stands before the cursor, where that is generated again."""
    margin: float | None = None
    """By how much that is above the runner-up's; below 0 where the token was drawn against odds."""
    runner_up: int | None = None
    """The likeliest other token that might have stood here."""


Watch = Callable[[str], None]
"""Hears of all raw text so far, `\\n` line ends only, whenever a piece has come."""


def unwatched(text: str) -> None:
    """Nobody wants to know before it is finished."""


Complete = Callable[[CompletionRequest, CancelToken, Watch], CompletionResult]
"""Blocking; runs on the inference thread."""


def _refuse_nothing(request: CompletionRequest) -> Reason | None:
    return None


@dataclass(frozen=True, slots=True)
class Engine:
    """What there is to answer requests with: a model, or a script in its place."""

    complete: Complete
    refuse: Callable[[CompletionRequest], Reason | None] = _refuse_nothing
    """Reasons that need no model and no time, such as that the cursor is inside a word."""
    prepare: Callable[[CompletionRequest, CancelToken], None] | None = None
    """Reads a request's prompt ahead; on the inference thread. None: idle time is of no use, as for
    a script."""


class Generation(Protocol):
    """Raw model text, piece by piece. Closing the iterator stops the work."""

    @property
    def stats(self) -> CompletionStats: ...

    def __iter__(self) -> Iterator[Piece]: ...


class Backend(Protocol):
    """What stands behind the completer: the engine, or a script in its place."""

    def generate(self, request: CompletionRequest, cancel: CancelToken) -> Generation: ...

    def prepare(self, request: CompletionRequest, cancel: CancelToken) -> None:
        """Read a request's prompt ahead of the request, so that it need not wait for that; nothing
        is generated. On the inference thread, while nobody waits. Raises Cancelled."""
        ...

    def learn(self, snapshot: Snapshot) -> None:
        """An open document that drafts may copy from. On the inference thread."""
        ...

    def forget(self, uri: str) -> None:
        """Keep nothing of a document: its text may not be used any more. On the inference thread,
        and no error where nothing is known of it."""
        ...

    def accepted(self, text: str) -> None:
        """Completed text that the user has taken. From any thread, and at once."""
        ...

    def describe(self) -> Mapping[str, Any]:
        """Model, provider, threads: for `doctor`, the status and the log."""
        ...

    def close(self) -> None: ...
