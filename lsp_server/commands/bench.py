"""`bench SUITE`: measurements that print a table and, as the last line, one JSON object."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

from lsp_server.errors import SettingsError

SUITES = {
    "decode": "speed of speculation by lookup against plain decoding, pair by pair",
    "lossless": "greedy output with speculation equals greedy output without",
    "matrix": "every draft source on the same prompts: acceptance, speed-up, exactness",
    "quality": "how often a line is the author's, and how well the product knows when it is not",
    "replay": "recorded typing in real time: latency, what was right, CPU, stalls",
    "round": "what one decoding round costs outside the model's pass",
    "startup": "time to the answer of initialize and to the first item, memory",
}
_ONLY_FOR = {
    "rounds": ("startup",),
    "keys": ("replay",),
    "check": ("replay",),
    "default_mode": ("lossless",),
    "drafters": ("lossless", "matrix"),
    "calibrate": ("quality",),
    "plot": ("matrix", "quality", "replay"),
}
"""Options that other suites have no use for."""
_ROUNDS = 7
_EXAMPLE = """example:
  tabahead bench decode
  tabahead bench lossless --cases 20 --json

lossless --full compares every source on the model; in a checkout and without --cases also the
logits of a tiny model bit by bit, each source on each of 300 prompts with drafts of each length.
"""


def add_parser(subparsers: Any) -> None:
    listed = "\n".join(f"  {name:10}{text}" for name, text in SUITES.items())
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "bench",
        help="measure speed and exactness",
        description=f"Measure on this machine. Suites:\n{listed}",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("suite", choices=SUITES, metavar="SUITE", help=", ".join(SUITES))
    parser.add_argument("--model", help="name in the catalogue or a model folder")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder of the evaluation sets")
    parser.add_argument("--cases", type=_positive, metavar="N", help="how many prompts or places")
    parser.add_argument(
        "--rounds", type=_positive, metavar="N", help=f"startup: how many starts ({_ROUNDS})"
    )
    parser.add_argument("--keys", type=_positive, metavar="N", help="replay: keys of each trace")
    parser.add_argument(
        "--check", action="store_true", help="replay: compare answers with a fresh server's"
    )
    parser.add_argument("--full", action="store_true", help="more of it, for a quiet hour")
    parser.add_argument(
        "--default-mode", action="store_true", help="lossless: without strict passes"
    )
    parser.add_argument(
        "--drafters",
        type=Path,
        metavar="DIR",
        help="matrix, lossless --full: folders draft, medusa and eagle",
    )
    parser.add_argument(
        "--calibrate",
        type=Path,
        metavar="FILE",
        help="quality: fit the weights of the confidence anew, and keep what they come from",
    )
    parser.add_argument(
        "--plot", type=Path, metavar="FILE.png", help="matrix, quality, replay: a picture, too"
    )
    parser.add_argument("--json", action="store_true", help="only the JSON object on stdout")


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")
    return int(text)


def run(args: argparse.Namespace) -> int:
    from lsp_server.paths import paths
    from lsp_server.settings.layers import load

    for name, suites in _ONLY_FOR.items():
        if getattr(args, name) and args.suite not in suites:
            option = name.replace("_", "-")
            raise SettingsError(f"--{option} is for {', '.join(suites)}, not for {args.suite}.")
    args.rounds = args.rounds or _ROUNDS
    given = {"model": args.model} if args.model else {}
    loaded = load(command_line=given, user_file=paths().config / "settings.toml")
    for warning in loaded.warnings:
        print(f"tabahead: {warning}", file=sys.stderr)
    suite = importlib.import_module(f"lsp_server.bench.{args.suite}")
    status: int = suite.run(args, loaded.settings)
    return status
