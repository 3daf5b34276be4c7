"""`bench matrix`: every draft source on the same prompts of one model, in one run.

Measured per method: acceptance by position with drafts of four (of all sources together, with those
that the controller chooses); then, at the length for which what was drafted and accepted there and
the cost curve promise most (one at least), tokens a pass and the speed-up over plain decoding of
width 1, default mode, medians of interleaved runs. Exactness: chains give the tokens of plain
decoding in strict mode on the same prompts; of trees, whose law is enumerated by tests/lossless,
prompts that differ in default mode are counted, and are to differ at near ties: tokens no further
apart than the width of a pass moves logits here. Exits 1 where a row is not exact. Not measured:
prefill, the protocol.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tqdm import tqdm

from lsp_server.bench.cases import load_held_cases
from lsp_server.bench.engine import Bench, Prompt, Run
from lsp_server.bench.methods import Method, load_methods
from lsp_server.bench.report import (
    bootstrap_interval,
    geometric_mean,
    machine,
    publish,
    table,
)
from lsp_server.cancellation import CancelToken
from lsp_server.engine.controller import Controller, CostCurve
from lsp_server.engine.prefill import PREFILL_CHUNK
from lsp_server.engine.prefix import common_prefix
from lsp_server.engine.probe import margin, probe_widths
from lsp_server.engine.speedup import speedup
from lsp_server.engine.types import DecodeParams, Draft, Drafter
from lsp_server.settings.tree import Settings

_CASES, _FULL = 12, 60
_MAX_PROMPT = 512
_NEW_TOKENS = 24
_DRAFT_LENGTH = 4
_ROUNDS = 3
_LEAST_RATIO = 0.95
"""Of the speed of all sources together to that of the best one alone."""


@dataclass(slots=True)
class Tally:
    """What was seen of one method over all prompts."""

    rounds: list[tuple[int, int]] = field(default_factory=list)
    """(depth of the draft that was verified, 0 where there was none; accepted tokens)."""
    work: list[tuple[int, float]] = field(default_factory=list)
    """Of the same rounds, where the controller chooses: (tokens verified, milliseconds that the
    draft took)."""
    speedups: list[float] = field(default_factory=list)
    tokens_per_pass: list[float] = field(default_factory=list)
    num_different: int = 0
    num_unexplained: int = 0
    """Of those, prompts where the two tokens are no near tie."""

    @property
    def acceptance(self) -> list[float]:
        """P(accepted at this position | reached), by position."""
        chances = []
        for position in range(_DRAFT_LENGTH):
            reached = [n for depth, n in self.rounds if depth > position and n >= position]
            accepted = sum(num_accepted > position for num_accepted in reached)
            chances.append(accepted / len(reached) if reached else 0.0)
        return chances


class FixedLength:
    """Drafter protocol around another: it is asked for drafts of one length, and no more is drafted
    than is verified."""

    def __init__(self, drafter: Drafter, length: int) -> None:
        self.name = drafter.name
        self._drafter = drafter
        self._length = length

    def propose(
        self, token_ids: Sequence[int], limit: int, cancel: CancelToken | None = None
    ) -> Draft:
        return self._drafter.propose(token_ids, min(limit, self._length), cancel)


class Recorder(Controller):
    """Has every draft verified whole, and keeps a record."""

    def __init__(self, curve: CostCurve, tally: Tally) -> None:
        super().__init__(curve)
        self._tally = tally

    def cut(self, draft: Draft, num_fresh: int, *, strict: bool = False) -> Draft:
        return draft

    def observe(self, draft: Draft, emitted: Sequence[int]) -> None:
        self._tally.rounds.append((draft.depth, sum(draft.hits(emitted))))


class Observer(Controller):
    """Leaves the choice to the product's controller, and keeps a record of it."""

    def __init__(self, controller: Controller, method: Method, tally: Tally) -> None:
        super().__init__(controller.curve)
        self._controller = controller
        self._method = method
        self._tally = tally
        self._verified = Draft((), method.name)

    def cut(self, draft: Draft, num_fresh: int, *, strict: bool = False) -> Draft:
        self._verified = self._controller.cut(draft, num_fresh, strict=strict)
        return self._verified

    def observe(self, draft: Draft, emitted: Sequence[int]) -> None:
        self._controller.observe(draft, emitted)
        verified = self._verified
        self._tally.rounds.append((verified.depth, sum(verified.hits(emitted))))
        self._tally.work.append((len(verified.token_ids), self._method.made_ms(draft)))


def run(args: argparse.Namespace, settings: Settings) -> int:
    from lsp_server.bench.plot import need_matplotlib, plot_matrix

    if args.plot is not None:
        need_matplotlib()
    cases, origin = load_held_cases(args.cases or (_FULL if args.full else _CASES), args.data)
    methods, bench = load_methods(settings, args.drafters, cases, _MAX_PROMPT)
    tallies = {method.label: Tally() for method in methods}
    progress = tqdm(total=3 * len(bench.prompts), unit="prompt")
    for prompt in bench.prompts:
        for method in methods:
            _accept(bench, method, prompt, tallies[method.label])
        progress.update()
    curve = bench.controller.curve
    lengths = {m.label: _best_length(m, tallies[m.label], curve) for m in methods}
    for prompt in bench.prompts:
        _time(bench, methods, prompt, lengths, tallies)
        progress.update()
    near_tie = probe_widths(bench.slot).near_tie
    for prompt in bench.prompts:
        _compare(bench, methods, prompt, tallies, near_tie)
        progress.update()
    progress.close()
    rows = [_row(m, tallies[m.label], lengths[m.label], curve) for m in methods]
    result: dict[str, Any] = {
        "suite": "matrix",
        "machine": machine(bench.backend.model.threads),
        "model": bench.describe()["model"],
        "data": origin,
        "cases": len(bench.prompts),
        "cost_ms": dict(zip(curve.widths, curve.ms, strict=True)),
        "rows": [_plain_row(), *rows],
        "combined_against_best": _combined_against_best(methods, tallies),
    }
    publish(result, _page(result), json_only=args.json)
    if args.plot is not None:
        plot_matrix(result, args.plot)
    return 0 if all(row["exact"] for row in rows) else 1


def _run(
    bench: Bench, method: Method, prompt: Prompt, params: DecodeParams, length: int | None
) -> Run:
    """With drafts of `length`; None: as the product runs it, under the controller."""
    drafter = method.drafter(prompt)
    if length is None:
        return bench.run(prompt.token_ids, params, drafter=drafter, controller=bench.controller)
    return bench.run(prompt.token_ids, params, drafter=FixedLength(drafter, length))


def _accept(bench: Bench, method: Method, prompt: Prompt, tally: Tally) -> None:
    drafter = method.drafter(prompt)
    controller: Controller
    if method.controlled:
        controller = Observer(bench.controller, method, tally)
    else:
        drafter = FixedLength(drafter, _DRAFT_LENGTH)
        controller = Recorder(bench.controller.curve, tally)
    params = DecodeParams(max_new_tokens=_NEW_TOKENS)
    bench.run(prompt.token_ids, params, drafter=drafter, controller=controller)


def _best_length(method: Method, tally: Tally, curve: CostCurve) -> int | None:
    """The draft length with the best predicted speed-up; one at least, so that there is a row.
    None where the controller chooses."""
    if method.controlled:
        return None
    lengths = range(1, _DRAFT_LENGTH + 1)
    return max(lengths, key=lambda length: _predicted(method, tally, length, curve))


def _predicted(method: Method, tally: Tally, length: int, curve: CostCurve) -> float:
    """By the cost curve, had the rounds been of drafts so long; rounds without a draft count too:
    their passes are plain."""
    plain = curve.cost(1)
    depths = [min(depth, length) for depth, _ in tally.rounds]
    tokens = statistics.fmean(1 + min(accepted, length) for _, accepted in tally.rounds)
    passes = statistics.fmean(curve.cost(1 + method.num_tokens(depth)) for depth in depths)
    drafts = statistics.fmean(method.draft_ms(max(1, depth)) for depth in depths)
    return speedup(tokens, passes / plain, drafts / plain)


def predicted_of_choices(tally: Tally, curve: CostCurve) -> float:
    """By the cost curve, of the rounds as the controller chose them; 1 where there were none."""
    if not tally.rounds:
        return 1.0
    plain = curve.cost(1)
    tokens = statistics.fmean(1 + accepted for _, accepted in tally.rounds)
    passes = statistics.fmean(curve.cost(1 + num_tokens) for num_tokens, _ in tally.work)
    drafts = statistics.fmean(ms for _, ms in tally.work)
    return speedup(tokens, passes / plain, drafts / plain)


def _time(
    bench: Bench,
    methods: list[Method],
    prompt: Prompt,
    lengths: dict[str, int | None],
    tallies: dict[str, Tally],
) -> None:
    """Medians over rounds in which plain decoding and every method take turns."""
    params = DecodeParams(max_new_tokens=_NEW_TOKENS)
    plain: list[float] = []
    runs: dict[str, list[Run]] = {method.label: [] for method in methods}
    for method in methods:  # not counted: it reads the prompt, into every cache there is
        _run(bench, method, prompt, params, lengths[method.label])
    for _ in range(_ROUNDS):
        plain.append(bench.run(prompt.token_ids, params).ms_per_token)
        for method in methods:
            runs[method.label].append(_run(bench, method, prompt, params, lengths[method.label]))
    for label, done in runs.items():
        ms = statistics.median(run.ms_per_token for run in done)
        tallies[label].speedups.append(statistics.median(plain) / ms)
        tallies[label].tokens_per_pass.append(
            statistics.fmean(run.stats.num_tokens / run.stats.num_passes for run in done)
        )


def _compare(
    bench: Bench,
    methods: list[Method],
    prompt: Prompt,
    tallies: dict[str, Tally],
    near_tie: float,
) -> None:
    """Chains in strict mode, trees in default mode, against plain decoding of the same mode."""
    for strict in (True, False):
        params = DecodeParams(max_new_tokens=_NEW_TOKENS, strict=strict)
        plain = bench.run(prompt.token_ids, params).token_ids
        for method in methods:
            if (method.form == "chain") is strict:
                length = None if method.controlled else _DRAFT_LENGTH
                found = _run(bench, method, prompt, params, length).token_ids
                if found != plain:
                    tallies[method.label].num_different += 1
                    history = [*prompt.token_ids, *plain[: common_prefix(plain, found)]]
                    is_tie = margin(bench.slot, history, PREFILL_CHUNK) <= near_tie
                    tallies[method.label].num_unexplained += strict or not is_tie


def _combined_against_best(methods: list[Method], tallies: dict[str, Tally]) -> dict[str, Any]:
    """The single source that is best on the odd prompts against all of them, on the even ones."""
    singles = [method for method in methods if not method.controlled]
    best = max(singles, key=lambda m: geometric_mean(tallies[m.label].speedups[1::2] or [1.0]))
    combined = next(method for method in methods if method.controlled)
    pairs = zip(tallies[combined.label].speedups, tallies[best.label].speedups, strict=True)
    ratios = [together / alone for together, alone in pairs][::2]
    low, high = bootstrap_interval(ratios)
    return {
        "best": best.label,
        "ratio": round(geometric_mean(ratios), 3),
        "interval_95": [round(low, 3), round(high, 3)],
    }


def _plain_row() -> dict[str, Any]:
    return {
        "method": "plain",
        "form": "chain",
        "trained": True,
        "extra_parameters": 0,
        "extra_mb": 0.0,
        "acceptance": [],
        "tokens_per_pass": 1.0,
        "predicted_speedup": 1.0,
        "speedup": 1.0,
        "exact": True,
        "verified_by": "the definition",
    }


def _row(method: Method, tally: Tally, length: int | None, curve: CostCurve) -> dict[str, Any]:
    chain = method.form == "chain"
    verified = (
        f"strict tokens equal on {len(tally.speedups)} prompts"
        if chain
        else f"law enumerated in tests/lossless; {tally.num_different} of {len(tally.speedups)}"
        f" prompts differ in default mode, all but {tally.num_unexplained} at near ties"
    )
    predicted = (
        predicted_of_choices(tally, curve)
        if length is None
        else _predicted(method, tally, length, curve)
    )
    return {
        "method": method.name,
        "form": method.form,
        "trained": method.trained,
        "extra_parameters": method.extra_parameters,
        "extra_mb": round(method.extra_mb, 1),
        "draft_length": length,
        "step_ms": round(method.step_ms, 3),
        "acceptance": [round(chance, 3) for chance in tally.acceptance],
        "tokens_per_pass": round(statistics.fmean(tally.tokens_per_pass), 3),
        "predicted_speedup": round(predicted, 3),
        "speedup": round(geometric_mean(tally.speedups), 3),
        "exact": tally.num_unexplained == 0,
        "verified_by": verified,
    }


def _page(result: dict[str, Any]) -> str:
    head = ("method", "form", "trained", "MB", "ms a step", "acceptance by position")
    rows = [(*head, "tokens a pass", "predicted", "speed-up", "exact")]
    for row in result["rows"]:
        rows.append(
            (
                row["method"],
                row["form"],
                "yes" if row["trained"] else "no",
                f"{row['extra_mb']:.1f}",
                f"{row.get('step_ms', 0.0):.2f}",
                " ".join(f"{chance:.2f}" for chance in row["acceptance"]),
                f"{row['tokens_per_pass']:.2f}",
                f"{row['predicted_speedup']:.2f}",
                f"{row['speedup']:.2f}",
                f"{'yes' if row['exact'] else 'NO'}: {row['verified_by']}",
            )
        )
    against = result["combined_against_best"]
    low, high = against["interval_95"]
    return (
        f"{table(rows)}\n\ncombined against {against['best']} (chosen on the odd prompts, compared"
        f" on the even ones): {against['ratio']} (95 % interval {low} to {high}),"
        f" {'' if against['ratio'] >= _LEAST_RATIO else 'NOT '}at least {_LEAST_RATIO}"
    )
