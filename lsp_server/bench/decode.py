"""`bench decode`: what speculation by lookup brings on real code, pair by interleaved pair.

Measured: decoding after a prompt that is in the cache already, plain against lookup under the
controller, default mode. Not measured: prefill, the protocol, post-processing.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import dataclass
from typing import Any

from tqdm import tqdm

from lsp_server.bench.cases import load_cases
from lsp_server.bench.engine import Bench, Prompt, Run
from lsp_server.bench.report import (
    bootstrap_interval,
    geometric_mean,
    machine,
    percentile,
    publish,
    table,
)
from lsp_server.engine.types import DecodeParams
from lsp_server.settings.tree import Settings

_PAIRS = 7
_NEW_TOKENS = 24
_MAX_PROMPT = 768
_PROMPTS, _FULL = 40, 100


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    plain_ms: float
    lookup_ms: float
    tokens_per_pass: float
    proposed: int
    accepted: int

    @property
    def speedup(self) -> float:
        return self.plain_ms / self.lookup_ms


def run(args: argparse.Namespace, settings: Settings) -> int:
    num_prompts = args.cases or (_FULL if args.full else _PROMPTS)
    cases, origin = load_cases(num_prompts, args.data)
    bench = Bench(settings, cases, _MAX_PROMPT)
    rows = [_measure(bench, prompt) for prompt in tqdm(bench.prompts, unit="prompt")]
    speedups = [row.speedup for row in rows]
    low, high = bootstrap_interval(speedups)
    result: dict[str, Any] = {
        "suite": "decode",
        "machine": machine(bench.backend.model.threads),
        "model": bench.describe()["model"],
        "cases": len(rows),
        "data": origin,
        "plain_ms_per_token": round(statistics.median(row.plain_ms for row in rows), 3),
        "ms_per_token": round(statistics.median(row.lookup_ms for row in rows), 3),
        "speedup": round(geometric_mean(speedups), 4),
        "speedup_interval_95": [round(low, 4), round(high, 4)],
        "p5_prompt_speedup": round(percentile(speedups, 5), 4),
        "tokens_per_pass": round(statistics.fmean(row.tokens_per_pass for row in rows), 4),
        "proposed": sum(row.proposed for row in rows),
        "accepted": sum(row.accepted for row in rows),
        "cost_ms": dict(zip(bench.controller.curve.widths, bench.controller.curve.ms, strict=True)),
    }
    publish(result, _page(rows, result), json_only=args.json)
    return 0


def _measure(bench: Bench, prompt: Prompt) -> Row:
    """Medians of pairs whose order alternates, after one run of each that is not counted."""
    params = DecodeParams(max_new_tokens=_NEW_TOKENS)
    lookup = bench.lookup(prompt)

    def plain() -> Run:
        return bench.run(prompt.token_ids, params)

    def speculative() -> Run:
        return bench.run(prompt.token_ids, params, drafter=lookup, controller=bench.controller)

    plain(), speculative()
    runs: dict[str, list[Run]] = {"plain": [], "lookup": []}
    for pair in range(_PAIRS):
        order = [("plain", plain), ("lookup", speculative)]
        for name, method in order if pair % 2 == 0 else reversed(order):
            runs[name].append(method())
    counts = [r.stats.sources.get("lookup", {"proposed": 0, "accepted": 0}) for r in runs["lookup"]]
    return Row(
        prompt.name,
        statistics.median(run.ms_per_token for run in runs["plain"]),
        statistics.median(run.ms_per_token for run in runs["lookup"]),
        statistics.fmean(r.stats.num_tokens / r.stats.num_passes for r in runs["lookup"]),
        sum(count["proposed"] for count in counts),
        sum(count["accepted"] for count in counts),
    )


def _page(rows: list[Row], result: dict[str, Any]) -> str:
    body = [("prompt", "plain ms", "lookup ms", "speed-up", "tokens a pass", "accepted")]
    for row in sorted(rows, key=lambda row: row.speedup):
        body.append(
            (
                row.name,
                f"{row.plain_ms:.2f}",
                f"{row.lookup_ms:.2f}",
                f"{row.speedup:.3f}",
                f"{row.tokens_per_pass:.2f}",
                f"{row.accepted} of {row.proposed}",
            )
        )
    low, high = result["speedup_interval_95"]
    return (
        f"{table(body)}\n\nms a token: {result['plain_ms_per_token']} plain,"
        f" {result['ms_per_token']} with lookup; geometric mean of the speed-up"
        f" {result['speedup']} (95 % interval {low} to {high}),"
        f" 5th percentile {result['p5_prompt_speedup']}"
    )
