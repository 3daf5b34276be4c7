"""`bench replay --check`: a server with caches beside a fresh one, at 200 places of the traces."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from tqdm import tqdm

from lsp_server.bench.client import private_server
from lsp_server.bench.equality import KINDS, STRIDE, Checker, Comparison
from lsp_server.bench.report import machine, publish, table
from lsp_server.bench.traces import Trace, load_traces
from lsp_server.settings.tree import Settings

OPTIONS: dict[str, Any] = {
    "strict": True,
    "context": False,
    "prose": True,
    "eagerness": "eager",
    "prompt_tokens": 256,
    "max_tokens": 24,
    "deadline_ms": {"automatic": 60_000, "invoked": 60_000},
}
"""Of both servers; the shorter prompt makes the window move more often, and takes less time."""

_POINTS = 200


def run(args: argparse.Namespace, settings: Settings) -> int:
    from lsp_server.engine.providers import default_threads

    num_points = args.cases or _POINTS
    shares = (num_points - num_points // 2, num_points // 2)
    traces, origin = load_traces(STRIDE * shares[0], args.data)
    found = compare(settings.model, list(zip(traces, shares, strict=True)))
    result: dict[str, Any] = {
        "suite": "replay",
        "check": True,
        "machine": machine(settings.engine.threads or default_threads()),
        "model": settings.model,
        "data": origin,
        "points": found.num_points,
        "answers": found.counts,
        "mismatches": len(found.mismatches),
        "missing": found.missing,
        "typed_through_agreement": found.agreement,
    }
    publish(result, _page(found), json_only=args.json)
    return 1 if found.mismatches or found.missing else 0


def compare(model: str, shares: Sequence[tuple[Trace, int]]) -> Comparison:
    """Two servers with `model`, so many places of each trace."""
    num_points = sum(share for _, share in shares)
    with private_server(model) as cached, private_server(model) as fresh:
        cached.start_session(OPTIONS)
        fresh.start_session({**OPTIONS, "look_ahead": False})
        checker = Checker(cached, fresh)
        with tqdm(total=num_points, unit="place", mininterval=1.0) as bar:
            for trace, share in shares:
                for _ in checker.check(trace, share):
                    bar.update()
        cached.close()
        fresh.close()
    return checker.found


def _page(found: Comparison) -> str:
    rows = [("answers", "compared", "unlike")]
    for kind in KINDS:
        unlike = sum(mismatch.kind == kind for mismatch in found.mismatches)
        rows.append((kind, str(found.counts[kind]), str(unlike)))
    lines = [table(rows), "", f"{found.num_points} places"]
    if found.agreement is not None:
        lines.append(
            f"of {found.num_compared} typed-through answers a fresh server says the same in"
            f" {found.agreement:.0%}"
        )
    lines += [
        f"UNLIKE {mismatch.kind} at {mismatch.place}: {mismatch.told!r}, not {mismatch.wanted!r}"
        for mismatch in found.mismatches
    ]
    lines += [f"MISSED no sample of {kind}" for kind in found.missing]
    return "\n".join(lines)
