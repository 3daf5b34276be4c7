"""`bench lossless`: greedy output with speculation equals greedy output without, token for token.

Strict mode: every case must be equal, with lookup's drafts in full and with those that the
controller picks; `--full` adds every other source, untrained ones too, which are mostly wrong.
`--default-mode` runs plain passes one token wide instead, and excuses a difference only where the
same prefix gives another arg max at another width. Ctrl-C ends it with what was compared so far.

Bits instead of tokens, and drafts of every length, are compared by a test on a tiny model. In a
checkout `--full` without `--cases` runs it on all of its 300 prompts as well.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

from lsp_server.bench.cases import Case, load_cases
from lsp_server.bench.engine import Bench, Prompt, Run
from lsp_server.bench.methods import load_methods
from lsp_server.bench.report import machine, publish, table
from lsp_server.engine.controller import Controller
from lsp_server.engine.prefill import PREFILL_CHUNK
from lsp_server.engine.prefix import common_prefix
from lsp_server.engine.probe import arg_max_depends_on_width
from lsp_server.engine.types import DecodeParams, Drafter
from lsp_server.settings.tree import Settings

_NEW_TOKENS = 32
_MAX_PROMPT = 512
_CASES = 100
_INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""
_CHECKOUT = Path(__file__).parents[2]
_BITS = "tests/lossless/test_sources_strict.py"

Method = tuple[str, Callable[[Prompt], Drafter], Controller | None]
"""Name, the drafter for a prompt, who cuts its drafts (None: nobody)."""


@dataclass(slots=True)
class _Tally:
    """Of one method."""

    num_proposed: int = 0
    num_accepted: int = 0
    num_mismatches: int = 0
    num_excused: int = 0


@dataclass(slots=True)
class _Comparison:
    """What was compared so far."""

    tallies: dict[str, _Tally]
    mismatches: list[tuple[str, str, int]] = field(default_factory=list)
    """Case, method, first token that differs."""
    num_cases: int = 0
    num_tokens: int = 0
    is_whole: bool = False

    def total(self, count: str) -> int:
        return sum(getattr(tally, count) for tally in self.tallies.values())


def run(args: argparse.Namespace, settings: Settings) -> int:
    cases, origin = load_cases(args.cases or _CASES, args.data)
    strict = not args.default_mode
    methods, bench = _load(args, settings, cases)
    found = _Comparison({name: _Tally() for name, _, _ in methods})
    try:
        _compare(bench, methods, DecodeParams(max_new_tokens=_NEW_TOKENS, strict=strict), found)
    except KeyboardInterrupt:
        print("tabahead: interrupted; what was compared so far:", file=sys.stderr)
    bits_equal = _compare_bits() if args.full and not args.cases and found.is_whole else None
    result: dict[str, Any] = {
        "suite": "lossless",
        "machine": machine(bench.backend.model.threads),
        "model": bench.describe()["model"],
        "mode": "strict" if strict else "default",
        "data": origin,
        "cases": found.num_cases,
        "whole": found.is_whole,
        "bits_equal": bits_equal,
        "methods": [name for name, _, _ in methods],
        "mismatches": len(found.mismatches),
        "numeric_divergences": found.total("num_excused"),
        "tokens": found.num_tokens,
        "accepted": found.total("num_accepted"),
        "proposed_by_method": {name: tally.num_proposed for name, tally in found.tallies.items()},
    }
    publish(result, _page(result, found), json_only=args.json)
    if not found.is_whole:
        return _INTERRUPTED
    return 1 if found.mismatches or bits_equal is False else 0


def _compare_bits() -> bool | None:
    """Of a tiny model's logits, in a quarter of an hour; None where there is no checkout."""
    if not (_CHECKOUT / _BITS).is_file():
        print(f"tabahead: no {_BITS} here: only tokens were compared.", file=sys.stderr)
        return None
    command = [sys.executable, "-m", "pytest", "-q", "-s", _BITS]
    environment = {**os.environ, "TABAHEAD_ALL_PROMPTS": "1"}
    stderr = 2  # stdout is for the result
    done = subprocess.run(command, cwd=_CHECKOUT, env=environment, stdout=stderr, check=False)
    return done.returncode == 0


def _compare(bench: Bench, methods: list[Method], params: DecodeParams, found: _Comparison) -> None:
    """Fill `found`, case by case."""
    with tqdm(bench.prompts, unit="case") as bar:
        for prompt in map(_on_a_boundary, bar):
            plain = bench.run(prompt.token_ids, params)
            found.num_tokens += len(plain.token_ids)
            for name, make, controller in methods:
                bar.set_postfix_str(f"{name}, {len(found.mismatches)} mismatches")
                drafted = bench.run(
                    prompt.token_ids, params, drafter=make(prompt), controller=controller
                )
                _judge(bench, prompt, params.strict, name, plain, drafted, found)
            found.num_cases += 1
    found.is_whole = True


def _judge(
    bench: Bench,
    prompt: Prompt,
    strict: bool,
    name: str,
    plain: Run,
    drafted: Run,
    found: _Comparison,
) -> None:
    tally = found.tallies[name]
    for counts in drafted.stats.sources.values():
        tally.num_proposed += counts["proposed"]
        tally.num_accepted += counts["accepted"]
    if drafted.token_ids == plain.token_ids:
        return
    at = common_prefix(plain.token_ids, drafted.token_ids)
    history = [*prompt.token_ids, *plain.token_ids[:at]]
    if not strict and arg_max_depends_on_width(bench.slot, history, PREFILL_CHUNK):
        tally.num_excused += 1
        return
    tally.num_mismatches += 1
    found.mismatches.append((prompt.name, name, at))
    tqdm.write(f"MISMATCH {prompt.name}, {name}: from token {at}", file=sys.stderr)


def _load(
    args: argparse.Namespace, settings: Settings, cases: list[Case]
) -> tuple[list[Method], Bench]:
    if args.full:
        every, bench = load_methods(settings, args.drafters, cases, _MAX_PROMPT)
        chains = [method for method in every if method.form == "chain"]
        methods: list[Method] = [
            (method.label, method.drafter, bench.controller if method.controlled else None)
            for method in chains
        ]
    else:
        bench = Bench(settings, cases, _MAX_PROMPT)
        methods = [("lookup, full drafts", bench.lookup, None)]
    return [*methods, ("lookup, controlled", bench.lookup, bench.controller)], bench


def _on_a_boundary(prompt: Prompt) -> Prompt:
    """Every prompt longer than a chunk is cut to k chunks and one token: its last prefill pass has
    a single row, where a graph's other kernel would show."""
    length = len(prompt.token_ids)
    if length <= PREFILL_CHUNK or length % 2:
        return prompt
    keep = (length - 1) // PREFILL_CHUNK * PREFILL_CHUNK + 1
    return Prompt(prompt.name, prompt.token_ids[-keep:], prompt.suffix_ids)


def _page(result: dict[str, Any], found: _Comparison) -> str:
    head = (
        f"{result['cases']} cases, {result['mode']} mode: {result['mismatches']} mismatches,"
        f" {result['numeric_divergences']} excused by the width probe;"
        f" {result['tokens']} tokens, {result['accepted']} accepted drafts"
    )
    rows: list[list[str]] = [["method", "proposed", "accepted", "mismatches", "excused"]]
    for name, tally in found.tallies.items():
        counts = (tally.num_proposed, tally.num_accepted, tally.num_mismatches, tally.num_excused)
        rows.append([name, *map(str, counts)])
    lines = [head, "", table(rows)]
    if result["bits_equal"] is not None:
        verdict = "equal" if result["bits_equal"] else "DIFFERENT, see above"
        lines += ["", f"logits of a tiny model, bit for bit, on all its prompts: {verdict}"]
    if found.mismatches:
        rows = [["case", "method", "first difference at token"]]
        rows += [[name, method, str(at)] for name, method, at in found.mismatches]
        lines += ["", table(rows)]
    return "\n".join(lines)
