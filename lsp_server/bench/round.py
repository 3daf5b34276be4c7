"""`bench round`: what one decoding round costs outside the model's pass, and the draft indexes.

Measured: looking up a draft of 8 tokens among 200,000, the controller's choice, processing,
verification, commit and counters, on a slot that returns logits made beforehand; no model is
loaded. Not measured: the pass itself. It is the work of one thread, whose own CPU time is what
counts, so that a busy machine does not change the figures much. Exit code 1 if a median is above
its target.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import sysconfig
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lsp_server.bench.report import machine, percentile, publish, table
from lsp_server.cancellation import CancelToken
from lsp_server.engine.controller import MAX_DRAFT, Controller, CostCurve
from lsp_server.engine.decode import decode
from lsp_server.engine.drafters.combined import Combined
from lsp_server.engine.drafters.corpus import CorpusDrafter, SessionCorpus
from lsp_server.engine.drafters.prompt_lookup import PromptLookup
from lsp_server.engine.prefill import PREFILL_CHUNK
from lsp_server.engine.types import DecodeParams, DecodeStats, Drafter, ModelSpec
from lsp_server.settings.tree import Settings

if TYPE_CHECKING:
    from lsp_server.engine.types import Logits

_clock = time.thread_time if os.name == "posix" else time.perf_counter  # elsewhere too coarse

_ROUNDS, _FULL = 60, 400
_WARM_UP = 5
_PROMPT, _FILE, _CORPUS = 2000, 20_000, 200_000
_GREEDY = DecodeParams(temperature=0.0)
_SAMPLING = DecodeParams(temperature=0.8)
_TRUNCATED = DecodeParams(temperature=0.8, top_k=40, top_p=0.95)
_NUCLEUS = DecodeParams(temperature=0.8, top_p=0.95)


@dataclass(frozen=True, slots=True)
class Kind:
    """A sort of round; the draft comes true, or its first token is as good as never drawn."""

    name: str
    params: DecodeParams
    vocab: int
    accepted: bool = True
    target_ms: float | None = None


KINDS = (
    Kind("greedy", _GREEDY, 50_000, target_ms=0.5),
    Kind("greedy", _GREEDY, 152_000, target_ms=1.5),
    Kind("sampling", _SAMPLING, 50_000, target_ms=3.0),
    Kind("sampling", _SAMPLING, 152_000),
    Kind("sampling, top-k and top-p", _TRUNCATED, 50_000, target_ms=3.0),
    Kind("sampling, top-p", _NUCLEUS, 50_000, target_ms=3.0),
    Kind("sampling, rejected", _SAMPLING, 50_000, accepted=False, target_ms=3.0),
    Kind("sampling, top-p, rejected", _NUCLEUS, 50_000, accepted=False, target_ms=3.0),
)


INDEXES = {
    "build_ms": ("lookup: build", 50.0),
    "keystroke_ms": ("lookup: update after a key and draft", 1.0),
    "lookup_ms": ("lookup: draft", None),
    "corpus_put_ms": ("corpus: put", None),
    "corpus_draft_ms": ("corpus: draft, 200,000 tokens known", None),
}
"""Figure -> what it is of, and its target in milliseconds if it has one."""


class ReadySlot:
    """Slot protocol without a model: every pass returns the same rows."""

    def __init__(self, logits: Logits) -> None:
        self._logits = logits
        self._pending: list[int] = []
        self.token_ids: list[int] = []
        self.num_rows = 0
        self.chunk = PREFILL_CHUNK
        self.spec = ModelSpec("ready", logits.shape[1], 1 << 20, frozenset({0}), "ready")

    def forward(
        self,
        token_ids: Sequence[int],
        logit_rows: Sequence[int],
        *,
        parents: Sequence[int] | None = None,
        strict: bool = False,
        cancel: CancelToken | None = None,
    ) -> Logits:
        self._pending = list(token_ids)
        self.num_rows = len(logit_rows)
        return self._logits[: self.num_rows]

    def commit(self, num_tokens: int, path: Sequence[int] = ()) -> None:
        self.token_ids += self._pending[:num_tokens]
        self.token_ids += [self._pending[row] for row in path]

    def truncate(self, num_tokens: int, *, strict: bool = False) -> None:
        del self.token_ids[num_tokens:]


def run(args: argparse.Namespace, settings: Settings) -> int:
    num_rounds = args.cases or (_FULL if args.full else _ROUNDS)
    text = code_token_ids(_CORPUS + _FILE)
    rounds = [(kind, time_rounds(kind, text, num_rounds)) for kind in KINDS]
    indexes = time_indexes(text, num_rounds)
    result: dict[str, Any] = {
        "suite": "round",
        "machine": machine(1),
        "rounds": num_rounds,
        "rows": [
            {
                "kind": kind.name,
                "vocab": kind.vocab,
                "draft": MAX_DRAFT,
                "ms": round(statistics.median(times), 4),
                "best_ms": round(min(times), 4),
                "p95_ms": round(percentile(times, 95), 4),
                "target_ms": kind.target_ms,
            }
            for kind, times in rounds
        ],
        "index_tokens": _FILE,
        "index": {name: round(ms, 4) for name, ms in indexes.items()},
    }
    result["above_target"] = above_target(result)
    publish(result, _page(result), json_only=args.json)
    return 1 if result["above_target"] else 0


def above_target(result: dict[str, Any]) -> list[str]:
    """A phrase for each figure that is not below its target."""
    figures = [
        (f"{row['kind']}, {row['vocab']:,} tokens", row["ms"], row["target_ms"])
        for row in result["rows"]
    ]
    figures += [(name, result["index"][key], target) for key, (name, target) in INDEXES.items()]
    return [
        f"{name}: {ms:.3f} ms, not < {target:g}"
        for name, ms, target in figures
        if target is not None and ms >= target
    ]


def time_rounds(kind: Kind, text: list[int], num_rounds: int) -> list[float]:
    """Milliseconds of each round; the text goes on in a loop, so that every draft is full."""
    loop = [kind.vocab - 1 - i for i in range(MAX_DRAFT + 1)]
    slot = ReadySlot(_logits(kind, loop))
    copies: list[Drafter] = [PromptLookup(), CorpusDrafter(_corpus(text[_PROMPT:]), "own")]
    times: list[float] = []
    for number in range(-_WARM_UP, num_rounds):
        if not kind.accepted or not times:  # one that has learnt of rejections would draft less
            controller = Controller(CostCurve((1, 16), (10.0, 10.1)))
        drafter = Combined(copies, [], controller, slot)
        prompt = text[:_PROMPT] + loop * (_WARM_UP + number + 4)
        if number == -_WARM_UP:
            slot.forward(prompt, [0])
            slot.commit(len(prompt) - 1)
        start = _clock()
        step = next(
            decode(
                slot,
                prompt,
                kind.params,
                drafter=drafter,
                controller=controller,
                stats=DecodeStats(),
            )
        )
        times.append((_clock() - start) * 1000)
        if slot.num_rows != MAX_DRAFT + 1 or (step.num_accepted == MAX_DRAFT) != kind.accepted:
            raise AssertionError(f"not the round that was to be measured: {step}")
    return times[_WARM_UP:]


def time_indexes(text: list[int], num_rounds: int) -> dict[str, float]:
    """Medians in milliseconds, for a file of 20,000 tokens and a corpus of 200,000."""
    file = text[:_FILE]
    lookup = PromptLookup()
    corpus = _corpus(text[_FILE:])
    drafter = CorpusDrafter(corpus, "own")

    few = max(3, num_rounds // 10)
    keys = range(num_rounds)
    ends = range(10, 10 + num_rounds * 7, 7)
    measured: dict[str, Iterator[Callable[[], object]]] = {
        "build_ms": (partial(PromptLookup().propose, file, 0) for _ in range(few)),
        "keystroke_ms": (partial(lookup.propose, _typed(file, key), MAX_DRAFT) for key in keys),
        "lookup_ms": (partial(lookup.propose, file, MAX_DRAFT) for _ in keys),
        "corpus_put_ms": (partial(SessionCorpus().put, "a", file) for _ in range(few)),
        "corpus_draft_ms": (
            partial(drafter.propose, file[:end][-_PROMPT:], MAX_DRAFT) for end in ends
        ),
    }
    return {name: statistics.median(_timed(calls)) for name, calls in measured.items()}


def _typed(file: list[int], key: int) -> list[int]:
    """As after a key: other objects, the last tokens gone, some new ones there."""
    return [token + 0 for token in file[: -5 - key % 3]] + [1, 2 + key, 3, 4]


def code_token_ids(count: int) -> list[int]:
    """Real code as ids: words, blanks and signs of the standard library, numbered as they come."""
    known: dict[str, int] = {}
    found: list[int] = []
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        for word in re.findall(r"\w+|\s+|.", text):
            found.append(known.setdefault(word, len(known) % 40_000 + 1))
        if len(found) >= count:
            break
    return found[:count]


def _corpus(text: list[int]) -> SessionCorpus:
    corpus = SessionCorpus(_CORPUS)
    step = _CORPUS // 60
    for start in range(0, len(text), step):
        corpus.put(f"file {start}", text[start : start + step])
    return corpus


def _logits(kind: Kind, loop: list[int]) -> Logits:
    """Rows whose certain tokens are those of the loop, or rows in which nothing is certain."""
    logits = np.random.default_rng(0).standard_normal((len(loop), kind.vocab)).astype(np.float32)
    if kind.accepted:
        logits[range(len(loop)), loop] = 40.0
    return logits


def _timed(calls: Iterator[Callable[[], object]]) -> Iterator[float]:
    for call in calls:
        start = _clock()
        call()
        yield (_clock() - start) * 1000


def _page(result: dict[str, Any]) -> str:
    rounds = [("round", "vocabulary", "ms", "best", "95th percentile", "target")]
    for row in result["rows"]:
        target = "" if row["target_ms"] is None else f"< {row['target_ms']}"
        figures = [f"{row[key]:.3f}" for key in ("ms", "best_ms", "p95_ms")]
        rounds.append((row["kind"], f"{row['vocab']:,}", *figures, target))
    indexes = [(f"a file of {_FILE:,} tokens", "ms", "target")]
    for key, (name, target_ms) in INDEXES.items():
        below = "" if target_ms is None else f"< {target_ms:g}"
        indexes.append((name, f"{result['index'][key]:.3f}", below))
    above = "\n".join(result["above_target"])
    verdict = f"ABOVE TARGET:\n{above}" if above else "Every median is below its target."
    return f"{table(rounds)}\n\n{table(indexes)}\n\n{verdict}"
