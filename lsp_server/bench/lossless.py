"""`bench lossless`: greedy output with speculation equals greedy output without, token for token.

Strict mode: every case must be equal, with lookup's drafts in full and with those that the
controller picks; `--full` adds every other source, untrained ones too, which are mostly wrong.
`--default-mode` runs plain passes one token wide instead, and excuses a difference only where the
same prefix gives another arg max at another width.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from tqdm import tqdm

from lsp_server.bench.cases import Case, load_cases
from lsp_server.bench.engine import Bench, Prompt
from lsp_server.bench.methods import load_methods
from lsp_server.bench.report import machine, publish, table
from lsp_server.engine.controller import Controller
from lsp_server.engine.decode import PREFILL_CHUNK
from lsp_server.engine.prefix import common_prefix
from lsp_server.engine.probe import arg_max_depends_on_width
from lsp_server.engine.types import DecodeParams, Drafter
from lsp_server.settings import Settings

_NEW_TOKENS = 32
_MAX_PROMPT = 512
_CASES = 100

Method = tuple[str, Callable[[Prompt], Drafter], Controller | None]
"""Name, the drafter for a prompt, who cuts its drafts (None: nobody)."""


def run(args: argparse.Namespace, settings: Settings) -> int:
    cases, origin = load_cases(args.cases or _CASES, args.data)
    strict = not args.default_mode
    methods, bench = _load(args, settings, cases)
    params = DecodeParams(max_new_tokens=_NEW_TOKENS, strict=strict)
    mismatches: list[tuple[str, str, int]] = []
    excused = num_tokens = num_accepted = 0
    for prompt in tqdm(bench.prompts, unit="case"):
        prompt = _on_a_boundary(prompt)
        plain = bench.run(prompt.token_ids, params)
        num_tokens += len(plain.token_ids)
        for name, make, controller in methods:
            drafted = bench.run(
                prompt.token_ids, params, drafter=make(prompt), controller=controller
            )
            num_accepted += sum(counts["accepted"] for counts in drafted.stats.sources.values())
            if drafted.token_ids == plain.token_ids:
                continue
            at = common_prefix(plain.token_ids, drafted.token_ids)
            history = [*prompt.token_ids, *plain.token_ids[:at]]
            if not strict and arg_max_depends_on_width(bench.slot, history, PREFILL_CHUNK):
                excused += 1
            else:
                mismatches.append((prompt.name, name, at))
    result: dict[str, Any] = {
        "suite": "lossless",
        "machine": machine(bench.backend.model.threads),
        "model": bench.describe()["model"],
        "mode": "strict" if strict else "default",
        "data": origin,
        "cases": len(bench.prompts),
        "methods": [name for name, _, _ in methods],
        "mismatches": len(mismatches),
        "numeric_divergences": excused,
        "tokens": num_tokens,
        "accepted": num_accepted,
    }
    publish(result, _page(result, mismatches), json_only=args.json)
    return 1 if mismatches else 0


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


def _page(result: dict[str, Any], mismatches: list[tuple[str, str, int]]) -> str:
    head = (
        f"{result['cases']} cases, {result['mode']} mode: {result['mismatches']} mismatches,"
        f" {result['numeric_divergences']} excused by the width probe;"
        f" {result['tokens']} tokens, {result['accepted']} accepted drafts"
    )
    if not mismatches:
        return head
    rows = [("case", "method", "first difference at token")]
    rows += [(name, method, str(at)) for name, method, at in mismatches]
    return f"{head}\n\n{table(rows)}"
