"""`models`: the parser and the commands of `python -m models`."""

from __future__ import annotations

import argparse
from typing import Any


def add_parser(subparsers: Any) -> None:
    from models.__main__ import configure

    configure(subparsers.add_parser("models", help="list, fetch, verify and remove models"))


def run(args: argparse.Namespace) -> int:
    from models.__main__ import run as run_command

    return run_command(args)
