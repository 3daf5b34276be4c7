"""The command line of the builder: `python -m export build | check`, also `tabahead export ...`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from export.config import MAX_CONTEXT, WEIGHT_FORMATS
from lsp_server.errors import TabaheadError

EPILOG = """\
example:
  tabahead export build SmolLM2-135M-Instruct.Q4_1.gguf --out ./smollm2
  tabahead export check ./smollm2
  tabahead complete main.py:12:5 --model ./smollm2
"""


def add_subcommands(parser: argparse.ArgumentParser) -> None:
    """Put `build` and `check` below `parser`; each sets `run`, from arguments to exit status."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    build = commands.add_parser("build", help="build a model folder from a GGUF checkpoint")
    build.add_argument("source", type=Path, metavar="SOURCE", help="a .gguf file")
    build.add_argument("--out", type=Path, required=True, metavar="DIR", help="the new folder")
    build.add_argument(
        "--weights",
        choices=WEIGHT_FORMATS,
        default="int8",
        help="int8 (default) stays close to the checkpoint; int4 is half the size and changes what"
        " small models say; fp32 is for comparison",
    )
    build.add_argument("--name", help="name in the manifest (default: the name of DIR)")
    build.add_argument(
        "--context", type=int, default=MAX_CONTEXT, metavar="N", help="longest text, tokens"
    )
    build.add_argument("--licence", help="licence in the manifest (default: the checkpoint's)")
    build.set_defaults(run=_build)
    check = commands.add_parser("check", help="verify every file and run both graphs once")
    check.add_argument("folder", type=Path, metavar="DIR")
    check.set_defaults(run=_check)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m export", description="Build and check tabahead's model folders."
    )
    add_subcommands(parser)
    arguments = parser.parse_args(argv)
    try:
        status: int = arguments.run(arguments)
        return status
    except TabaheadError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped; a folder that was being built is not kept.", file=sys.stderr)
        return 130


def _build(arguments: argparse.Namespace) -> int:
    from tqdm import tqdm

    from export.build import build

    out = arguments.out.expanduser().absolute()
    with tqdm(file=sys.stderr, unit="step", leave=False) as bar:

        def progress(stage: str, done: int, total: int) -> None:
            bar.set_description(stage, refresh=False)
            bar.total = total
            bar.update(done - bar.n)

        manifest = build(
            arguments.source.expanduser(),
            out,
            name=arguments.name or out.name,
            weights=arguments.weights,
            context_length=arguments.context,
            licence=arguments.licence,
            progress=progress,
        )
    size = sum(entry.size for entry in manifest.files.values())
    print(f"{out}: {manifest.name}, {manifest.weight_format}, {size / 1e6:.0f} MB")
    return 0


def _check(arguments: argparse.Namespace) -> int:
    from export.check import check

    manifest = check(arguments.folder.expanduser())
    print(f"{arguments.folder}: {manifest.name} is complete and runs ({', '.join(manifest.forms)})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
