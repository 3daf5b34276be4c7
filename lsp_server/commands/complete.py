"""`complete FILE:LINE:COLUMN`: one completion from the shell, by the same steps as the server's."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsp_server.errors import SettingsError

if TYPE_CHECKING:
    from lsp_server.completion import CompletionResult, TextEdit

_EXAMPLE = """example:
  tabahead complete src/app.py:12:9
  tabahead complete src/app.py:12:9 --sources none --strict --json
"""
_GREY, _PLAIN = "\033[90m", "\033[0m"
_LINES_ABOVE = 4


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "complete",
        help="complete at FILE:LINE:COLUMN",
        description="Complete at a place in a file, as if asked by key there, and print the ghost"
        " text with its figures. The workspace is the current directory.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "place", metavar="FILE:LINE:COLUMN", help="line and column from 1, columns in characters"
    )
    parser.add_argument("--model", help="name in the catalogue, a model folder, or scripted:FILE")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="most tokens to generate")
    parser.add_argument("--mode", help="line, block or auto")
    parser.add_argument(
        "--items", type=int, metavar="N", help="most different texts; one by default"
    )
    parser.add_argument("--sources", help="draft sources with commas, such as lookup; or none")
    parser.add_argument("--strict", action="store_true", default=None, help="bit-exact passes")
    parser.add_argument("--temperature", type=float, metavar="T", help="above 0: sample")
    parser.add_argument("--seed", type=int, metavar="S", help="random numbers of the sampling")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def run(args: argparse.Namespace) -> int:
    from lsp_server.asking import RequestOptions
    from lsp_server.backend.loader import load_backend
    from lsp_server.cancellation import CancelToken
    from lsp_server.completer import complete, nothing
    from lsp_server.completion import Reason, Snapshot
    from lsp_server.files.exclusion import refuse_document
    from lsp_server.files.ignore_files import IgnoreFiles
    from lsp_server.files.rules import FileRules
    from lsp_server.text.languages import language_of

    settings = _settings(args)
    path, text, offset = _read(args.place)
    uri = path.resolve().as_uri()
    snapshot = Snapshot(uri, version=0, language_id=language_of("", uri).name, text=text)
    options = RequestOptions.of(settings)
    if args.items is None:
        options = replace(options, num_items=1)
    request = replace(options.request(snapshot, offset, invoked=True), deadline_ms=None)
    rules = FileRules(settings, [Path.cwd()], IgnoreFiles())
    refusal = refuse_document(snapshot, settings) or rules.refuse(snapshot.uri)
    if refusal is not None:
        result = nothing(request, refusal.reason, message=refusal.message)
    else:
        backend = load_backend(settings, lambda *_: None, CancelToken())
        backend.learn(snapshot)
        result = complete(request, backend, CancelToken())
    answer = as_json(result, text)
    print(json.dumps(answer) if args.json else printable(page(result, text)))
    return 1 if result.reason is Reason.ENGINE_ERROR else 0


def as_json(result: CompletionResult, text: str) -> dict[str, Any]:
    """A CompletionResult as the object that `--json` prints; positions in UTF-16 units."""
    from lsp_server.answers import SENTENCES
    from lsp_server.documents import Encoding, position_at

    def position(offset: int) -> dict[str, int]:
        found = position_at(text, offset, Encoding.UTF16)
        return {"line": found.line, "character": found.character}

    def edit(new: str, start: int, end: int) -> dict[str, Any]:
        return {"text": new, "range": {"start": position(start), "end": position(end)}}

    answer: dict[str, Any] = {
        **edit(result.text, result.start, result.end),
        "reason": result.reason,
        "stats": result.stats.as_json(),
    }
    if result.alternatives:
        others = result.alternatives
        answer["alternatives"] = [edit(other.text, other.start, other.end) for other in others]
    if result.reason is not None:
        answer["message"] = result.message or SENTENCES[result.reason]
    if result.token_ids is not None:
        answer["token_ids"] = list(result.token_ids)
    return answer


def _settings(args: argparse.Namespace) -> Any:
    from lsp_server.paths import paths
    from lsp_server.settings.layers import load

    names = ("model", "max_tokens", "mode", "sources", "strict", "temperature", "seed")
    given = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    if args.items is not None:
        given["num_items"] = args.items
    loaded = load(
        command_line=given, workspaces=[Path.cwd()], user_file=paths().config / "settings.toml"
    )
    for warning in loaded.warnings:
        print(f"tabahead: {warning}", file=sys.stderr)
    return loaded.settings


def _read(place: str) -> tuple[Path, str, int]:
    """The file, its text and the offset of the cursor in code points."""
    try:
        name, line, column = place.rsplit(":", 2)
        row, col = int(line), int(column)
    except ValueError:
        raise SettingsError(
            f"{place!r} is not FILE:LINE:COLUMN; line and column are numbers from 1."
        ) from None
    path = Path(name)
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise SettingsError(f"{path} cannot be read ({error.strerror}); check the name.") from error
    return path, text, _offset(path, text, row, col)


def _offset(path: Path, text: str, row: int, col: int) -> int:
    lines = text.replace("\r\n", "\n\0").replace("\r", "\n").split("\n")
    if not 1 <= row <= len(lines):
        raise SettingsError(f"{path} has {len(lines)} lines; give one from 1 to {len(lines)}.")
    line = lines[row - 1].removeprefix("\0")
    if not 1 <= col <= len(line) + 1:
        raise SettingsError(
            f"Line {row} of {path} has {len(line)} characters; give a column from 1 to"
            f" {len(line) + 1}."
        )
    before = sum(len(above) + 1 for above in lines[: row - 1])
    return before + len(lines[row - 1]) - len(line) + col - 1


def page(result: CompletionResult, text: str) -> str:
    """The place as it would be, with the ghost text in grey, and the line of figures."""
    from lsp_server.answers import SENTENCES
    from lsp_server.completion import TextEdit

    if result.reason is not None:
        return f"nothing shown: {result.message or SENTENCES[result.reason]}"
    edits = (TextEdit(result.text, result.start, result.end), *result.alternatives)
    shown = "\n\nor\n\n".join(_in_place(edit, text) for edit in edits)
    return f"{shown}\n\n{figures(result.stats.as_json())}"


def _in_place(edit: TextEdit, text: str) -> str:
    above = text[: edit.start].splitlines(keepends=True)[-_LINES_ABOVE - 1 :]
    rest = text[edit.end :].split("\n", 1)[0].rstrip("\r")
    grey, plain = (_GREY, _PLAIN) if sys.stdout.isatty() else ("", "")
    ghost = "\n".join(grey + line + plain for line in edit.text.split("\n"))
    return f"{''.join(above)}{ghost}{rest}"


def printable(text: str) -> str:
    """What the terminal has no character for is shown as `?`, and is no reason to fail."""
    encoding = sys.stdout.encoding
    return text.encode(encoding, "replace").decode(encoding)


def figures(stats: dict[str, Any]) -> str:
    """One line: what was generated, from what, in which time."""
    drafts = ", ".join(
        f"{name} {counts['accepted']} of {counts['proposed']} accepted"
        for name, counts in stats["sources"].items()
    )
    ms, sure = stats["ms"], stats.get("confidence")
    confidence = "" if sure is None else f" confidence {sure:.2f};"
    return (
        f"{stats['tokens']} tokens in {stats['passes']} passes"
        f" ({drafts or 'nothing drafted'});"
        f" prompt {stats['prompt_tokens']} tokens, {stats['reused_tokens']} reused;{confidence}"
        f" load {ms['load']:.0f} ms, prefill {ms['prefill']:.0f} ms,"
        f" decode {ms['decode']:.0f} ms, total {ms['total']:.0f} ms"
    )
