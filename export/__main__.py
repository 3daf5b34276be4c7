"""The command line of the builder: `python -m export build | check | ...`, or `tabahead export`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from export.config import DRAFT_VOCABULARY, MAX_CONTEXT, WEIGHT_FORMATS
from lsp_server.engine.manifest import FileEntry
from lsp_server.errors import TabaheadError

Commands = Any
"""The library names the class of its list of subcommands with an underscore."""

EPILOG = """\
example:
  tabahead export build SmolLM2-135M-Instruct.Q4_1.gguf --out ./smollm2
  tabahead export check ./smollm2
  tabahead complete main.py:12:5 --model ./smollm2
"""
DRAFT_EPILOG = """\
example:
  tabahead export draft SmolLM2-135M-Instruct.Q4_1.gguf --out ./draft --layers 0,1,2,3,28,29
"""
HEADS_EPILOG = """\
example:
  tabahead export heads medusa ./medusa-checkpoint --target ./smollm2 --out ./medusa
  tabahead export heads eagle3 ./eagle3-checkpoint --target ./smollm2 --out ./eagle3

SOURCE is a folder with config.json and .safetensors files in the layout of the public repositories.
"""
RANDOM_EPILOG = """\
example:
  tabahead export random-heads eagle --target ./smollm2 --out ./random-eagle --seed 1
  tabahead export heads eagle ./random-eagle --target ./smollm2 --out ./eagle
"""
KINDS = ("medusa", "eagle", "eagle3")


def add_subcommands(parser: argparse.ArgumentParser) -> None:
    """Put the commands below `parser`; each sets `run`, from arguments to exit status."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_model_commands(commands)
    _add_head_commands(commands)
    about = "verify every file and run every graph once"
    check = _command(commands, "check", about, EPILOG)
    check.add_argument("folder", type=Path, metavar="DIR")
    check.set_defaults(run=_check)


def _add_model_commands(commands: Commands) -> None:
    about = "build a model folder from a GGUF checkpoint"
    build = _command(commands, "build", about, EPILOG)
    _add_checkpoint_options(build)
    build.add_argument(
        "--exit-layers",
        type=int,
        metavar="N",
        help="layers of the early exit that drafts (default: a fifth of them; 0: none)",
    )
    _add_draft_vocabulary(build, "the early exit's head")
    build.set_defaults(run=_build)
    about = "build a draft model from some layers of a GGUF checkpoint"
    draft = _command(commands, "draft", about, DRAFT_EPILOG)
    _add_checkpoint_options(draft)
    draft.add_argument(
        "--layers",
        type=_layers,
        metavar="I,J,...",
        help="layers to keep (default: the first four and the last two)",
    )
    _add_draft_vocabulary(draft, "its head")
    draft.set_defaults(run=_draft)


def _add_head_commands(commands: Commands) -> None:
    about = "build trained heads from safetensors for a model folder"
    heads = _command(commands, "heads", about, HEADS_EPILOG)
    heads.add_argument("kind", choices=KINDS, metavar="KIND", help=", ".join(KINDS))
    heads.add_argument("source", type=Path, metavar="SOURCE", help="folder of the checkpoint")
    _add_target(heads)
    _add_folder_options(heads)
    _add_draft_vocabulary(heads, "the head (unless the checkpoint brings its own)")
    heads.set_defaults(run=_heads)
    about = "write random heads in the public layout, to try what nobody has trained"
    random = _command(commands, "random-heads", about, RANDOM_EPILOG)
    random.add_argument("kind", choices=KINDS, metavar="KIND", help=", ".join(KINDS))
    _add_target(random)
    random.add_argument("--out", type=Path, required=True, metavar="DIR", help="the new folder")
    random.add_argument("--seed", type=int, default=0, metavar="N", help="default: 0")
    _add_draft_vocabulary(random, "an eagle3 head")
    random.set_defaults(run=_random_heads)


def _command(commands: Commands, name: str, about: str, epilog: str) -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=about, epilog=epilog, formatter_class=raw
    )
    return parser


def _add_target(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--target", type=Path, required=True, metavar="DIR", help="the model that it drafts for"
    )


def _add_checkpoint_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("source", type=Path, metavar="SOURCE", help="a .gguf file")
    _add_folder_options(command)
    command.add_argument(
        "--context", type=int, default=MAX_CONTEXT, metavar="N", help="longest text, tokens"
    )


def _add_folder_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--out", type=Path, required=True, metavar="DIR", help="the new folder")
    command.add_argument(
        "--weights",
        choices=WEIGHT_FORMATS,
        default="int8",
        help="int8 (default) stays close to the checkpoint; int4 is half the size and changes what"
        " small models say; fp32 is for comparison",
    )
    command.add_argument("--name", help="name in the manifest (default: the name of DIR)")
    command.add_argument("--licence", help="licence in the manifest (default: the checkpoint's)")


def _add_draft_vocabulary(command: argparse.ArgumentParser, what: str) -> None:
    command.add_argument(
        "--draft-vocab",
        type=int,
        default=DRAFT_VOCABULARY,
        metavar="N",
        help=f"ids that {what} knows (default: {DRAFT_VOCABULARY}; 0: all)",
    )


def _layers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list like 0,1,2,3,28,29") from error


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


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    from tqdm import tqdm

    with tqdm(file=sys.stderr, unit="step", leave=False) as bar:

        def show(stage: str, done: int, total: int) -> None:
            bar.set_description(stage, refresh=False)
            bar.total = total
            bar.update(done - bar.n)

        yield show


def _build(arguments: argparse.Namespace) -> int:
    from export.build import build

    out = _out(arguments)
    with _progress() as progress:
        manifest = build(
            arguments.source.expanduser(),
            out,
            name=arguments.name or out.name,
            weights=arguments.weights,
            context_length=arguments.context,
            exit_layers=arguments.exit_layers,
            draft_vocabulary=arguments.draft_vocab,
            licence=arguments.licence,
            progress=progress,
        )
    _say(out, f"{manifest.name}, {manifest.weight_format}", manifest.files)
    return 0


def _draft(arguments: argparse.Namespace) -> int:
    from export.build import build_draft

    out = _out(arguments)
    with _progress() as progress:
        manifest = build_draft(
            arguments.source.expanduser(),
            out,
            name=arguments.name or out.name,
            layers=arguments.layers,
            weights=arguments.weights,
            context_length=arguments.context,
            draft_vocabulary=arguments.draft_vocab,
            licence=arguments.licence,
            progress=progress,
        )
    what = f"{manifest.name}, {manifest.num_layers} layers, {manifest.weight_format}, not trained"
    _say(out, what, manifest.files)
    return 0


def _heads(arguments: argparse.Namespace) -> int:
    from export.heads import build_heads

    out = _out(arguments)
    with _progress() as progress:
        manifest = build_heads(
            arguments.kind,
            arguments.source.expanduser(),
            arguments.target.expanduser(),
            out,
            name=arguments.name or out.name,
            weights=arguments.weights,
            draft_vocabulary=arguments.draft_vocab,
            licence=arguments.licence,
            progress=progress,
        )
    state = "" if manifest.trained else ", not trained"
    _say(out, f"{manifest.name}, {manifest.kind}, {manifest.weight_format}{state}", manifest.files)
    return 0


def _random_heads(arguments: argparse.Namespace) -> int:
    from export.random_heads import write_random_heads

    out = _out(arguments)
    write_random_heads(
        arguments.kind,
        arguments.target.expanduser(),
        out,
        seed=arguments.seed,
        draft_vocabulary=arguments.draft_vocab,
    )
    print(f"{out}: random {arguments.kind} heads, not trained")
    return 0


def _check(arguments: argparse.Namespace) -> int:
    from export.check import check

    manifest = check(arguments.folder.expanduser())
    print(f"{arguments.folder}: {manifest.name} is complete and runs ({', '.join(manifest.forms)})")
    return 0


def _out(arguments: argparse.Namespace) -> Path:
    out: Path = arguments.out.expanduser().absolute()
    return out


def _say(out: Path, what: str, files: dict[str, FileEntry]) -> None:
    size = sum(entry.size for entry in files.values())
    print(f"{out}: {what}, {size / 1e6:.0f} MB")


if __name__ == "__main__":
    sys.exit(main())
