"""`export`: the parser and the commands of `python -m export`."""

from __future__ import annotations

import argparse
from typing import Any


def add_parser(subparsers: Any) -> None:
    from export.__main__ import add_subcommands

    add_subcommands(subparsers.add_parser("export", help="build and check model folders"))


def run(args: argparse.Namespace) -> int:
    status: int = args.run(args)
    return status
