"""The command line: finds the command that is asked for and imports nothing else."""

import os
import sys


def _leave_workspace() -> None:
    """Take the current directory off the import path: a workspace's own `json.py` is never run.

    `python -m` puts it there. Our own packages stay importable, from a checkout as well, and behind
    the standard library. A workspace with an `lsp_server/` of its own is kept out by `-P` or the
    console script only, and an empty entry in PYTHONPATH undoes both: it lets that folder in before
    this line is reached.
    """
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:
        here = ""  # the directory has been deleted
    sys.path[:] = [entry for entry in sys.path if entry and os.path.realpath(entry) != here]
    ours = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    for needed in (os.path.dirname(os.path.realpath(os.__file__)), ours):
        if needed not in map(os.path.realpath, sys.path):
            sys.path.append(needed)


_leave_workspace()

COMMANDS = (
    ("serve", "lsp_server.commands.serve", "serve an editor (the default)"),
    ("complete", "lsp_server.commands.complete", "complete at FILE:LINE:COLUMN"),
    ("doctor", "lsp_server.commands.doctor", "say what works, and how to mend what does not"),
    ("bench", "lsp_server.commands.bench", "measure speed and exactness"),
    ("stats", "lsp_server.commands.stats", "show the local counters"),
    ("models", "lsp_server.commands.models", "list, fetch, verify and remove models"),
    ("export", "lsp_server.commands.export", "build and check model folders"),
)
"""Name, module, help. A module offers `add_parser(subparsers)` and `run(args) -> exit code`."""


_OWN_OPTIONS = ("-h", "--help", "--version")
_EXAMPLE = """example:
  tabahead models fetch smollm2-135m
  tabahead complete src/app.py:12:9
  tabahead --stdio
"""


def main(arguments: list[str] | None = None) -> int:
    """Run a command; expected failures become one sentence on stderr and exit code 1."""
    import argparse
    import importlib

    from lsp_server import __version__
    from lsp_server.errors import TabaheadError

    if arguments is None:
        arguments = sys.argv[1:]
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in _OWN_OPTIONS):
        arguments = ["serve", *arguments]
    parser = argparse.ArgumentParser(
        prog="tabahead",
        description="Local code completion for any editor, made fast by speculation.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tabahead {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    command = None
    for name, module, text in COMMANDS:
        if name == arguments[0]:
            command = importlib.import_module(module)
            command.add_parser(subparsers)
        else:
            subparsers.add_parser(name, help=text)
    parsed, unknown = parser.parse_known_args(arguments)
    assert command is not None  # argparse has refused every other name
    if unknown:
        subparsers.choices[parsed.command].error(f"unknown: {' '.join(unknown)}")
    try:
        code = int(command.run(parsed))
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Whoever read this has seen enough, as `head` has. At the end Python writes out what is
        # left, and must not fail at it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except TabaheadError as error:
        print(f"tabahead: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
