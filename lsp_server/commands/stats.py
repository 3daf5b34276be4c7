"""`stats`: the local counters, for people, as JSON and as a page for the browser."""

from __future__ import annotations

import argparse
import json
from datetime import datetime
from pathlib import Path
from typing import Any

from lsp_server.errors import StorageError

_EXAMPLE = """example:
  tabahead stats
  tabahead stats --html statistics.html
  tabahead stats --json
"""


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "stats",
        help="show the local counters",
        description="What was asked, shown and accepted on this machine. Nothing of it leaves it,"
        " and no text is kept, only numbers.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--json", action="store_true", help="one JSON object on stdout")
    what.add_argument("--html", metavar="FILE", help="write a page with plots to FILE")
    what.add_argument("--reset", action="store_true", help="forget the counters at once")


def run(args: argparse.Namespace) -> int:
    from lsp_server.paths import paths
    from lsp_server.report.figures import Figures
    from lsp_server.statistics.file import read

    folder = paths().state
    if args.reset:
        print(_reset(folder))
        return 0
    now = datetime.now()
    try:
        figures = Figures.of(read(folder), now.date())
    except OSError as error:
        raise StorageError(
            f"{error.filename} cannot be read ({error.strerror}); make it a readable file or set"
            " TABAHEAD_HOME."
        ) from error
    if args.json:
        print(json.dumps(figures.as_json()))
    elif args.html is not None:
        print(_write_page(figures, now, Path(args.html)))
    else:
        from lsp_server.report.text import text_report

        print(text_report(figures))
    return 0


def _write_page(figures: Any, now: datetime, path: Path) -> str:
    from lsp_server.report.page import html_page

    try:
        path.write_text(html_page(figures, now), encoding="utf-8")
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written ({error.strerror}); name a file in a folder that exists and"
            " may be written to."
        ) from error
    return f"Wrote {path}; open it in a browser."


def _reset(folder: Path) -> str:
    from lsp_server.statistics.file import FILE_NAME, reset

    path = folder / FILE_NAME
    try:
        found = reset(folder)
    except OSError as error:
        raise StorageError(
            f"{path} cannot be removed ({error.strerror or error}); remove it by hand."
        ) from error
    if not found:
        return f"There were no counters in {folder}."
    return (
        f"Removed the counters ({path}). A server that runs adds what it has counted since it last"
        " saved, at most a minute of it."
    )
