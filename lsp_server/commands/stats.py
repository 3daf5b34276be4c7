"""`stats`: the local counters, for people and as JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

from lsp_server.errors import StorageError

_EXAMPLE = """example:
  tabahead stats
  tabahead stats --json
"""


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "stats",
        help="show the local counters",
        description="What was asked, shown and accepted on this machine. Nothing of it leaves it.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def run(args: argparse.Namespace) -> int:
    from lsp_server.paths import paths
    from lsp_server.statistics import read

    try:
        counts = read(paths().state)
    except OSError as error:
        raise StorageError(
            f"{error.filename} cannot be read ({error.strerror}); make it a readable file or set"
            " TABAHEAD_HOME."
        ) from error
    print(json.dumps(counts) if args.json else _page(counts))
    return 0


def _page(counts: Mapping[str, int]) -> str:
    requests = counts.get("requests", 0)
    if not requests:
        return "Nothing has been asked for yet."
    shown, accepted = counts.get("shown", 0), counts.get("accepted", 0)
    lines = [
        f"{requests} requests, {shown} answered with an item ({shown / requests:.0%})",
        f"{accepted} accepted, {counts.get('characters', 0)} characters not typed",
    ]
    for title, prefix in (
        ("no item because", "empty."),
        ("time to an item, ms", "latency_ms."),
        ("drafts", "sources."),
    ):
        rows = {n.removeprefix(prefix): c for n, c in counts.items() if n.startswith(prefix)}
        if rows:
            lines.append(f"{title}:")
            lines += [f"  {name:24}{count}" for name, count in sorted(rows.items())]
    return "\n".join(lines)
