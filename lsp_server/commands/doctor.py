"""`doctor`: what works on this machine, and for everything that does not, how to mend it."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsp_server.errors import TabaheadError

if TYPE_CHECKING:
    from lsp_server.settings import Settings

_PACKAGES = ("tabahead", "pygls", "lsprotocol", "numpy", "tokenizers", "onnx", "onnx-ir", "gguf")
_EXAMPLE = """example:
  tabahead doctor
  tabahead doctor --model ./my-model --json
"""


@dataclass(slots=True)
class Report:
    facts: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    """One sentence each, with the remedy; any of these means that nothing can be completed."""
    warnings: list[str] = field(default_factory=list)


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "doctor",
        help="say what works, and how to mend what does not",
        description="Check packages, the runtime, the model's files and how this machine runs it."
        " Exit code 1 if completions cannot be served.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--model", help="name in the catalogue, a model folder, or scripted:FILE")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def run(args: argparse.Namespace) -> int:
    from lsp_server.paths import paths
    from lsp_server.settings import load

    given = {"model": args.model} if args.model else {}
    loaded = load(command_line=given, user_file=paths().config / "settings.toml")
    report = examine(loaded.settings)
    report.warnings[:0] = loaded.warnings
    if args.json:
        print(
            json.dumps({**report.facts, "problems": report.problems, "warnings": report.warnings})
        )
    else:
        print(_page(report))
    return 1 if report.problems else 0


def examine(settings: Settings) -> Report:
    """Every check, the later ones as far as the earlier ones allow."""
    report = Report()
    report.facts["python"] = f"{platform.python_version()} ({sys.executable})"
    report.facts["packages"] = _versions()
    _examine_runtime(report)
    _examine_model(settings, report)
    report.facts["cache"] = _cache_sizes()
    return report


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def _examine_runtime(report: Report) -> None:
    from lsp_server.engine.providers import import_runtime, installed_runtimes, physical_cores

    report.facts["runtimes"] = installed_runtimes()
    report.facts["cores"] = physical_cores()
    try:
        report.facts["providers"] = import_runtime().get_available_providers()
    except TabaheadError as error:
        report.problems.append(str(error))


def _examine_model(settings: Settings, report: Report) -> None:
    """Verify every byte, load the model as the server does, and probe how it runs."""
    from lsp_server.cancellation import CancelToken
    from lsp_server.engine.manifest import Manifest
    from lsp_server.loader import load_backend
    from models.catalogue import resolve

    report.facts["model"] = settings.model
    try:
        if not settings.model.startswith("scripted:"):
            folder = resolve(settings.model)
            manifest = Manifest.load(folder)
            manifest.check_hashes(folder)
            manifest.check_tokenizer(folder)
            report.facts["files"] = f"{len(manifest.files)} files verified in {folder}"
        if report.problems:
            return
        backend = load_backend(settings, lambda *_: None, CancelToken())
        report.facts["runs"] = dict(backend.describe())
        _probe(backend, report)
        backend.close()
    except TabaheadError as error:
        report.problems.append(str(error))


def _probe(backend: Any, report: Report) -> None:
    from lsp_server.backend import EngineBackend
    from lsp_server.engine.probe import probe_widths

    if not isinstance(backend, EngineBackend):
        return
    curve = backend.controller.curve
    report.facts["cost_ms"] = dict(zip(curve.widths, curve.ms, strict=True))
    probe = probe_widths(backend.model.slot("doctor"))
    report.facts["width_probe"] = {
        "exact_from_two": probe.exact_from_two,
        "max_difference": dict(zip(probe.widths, probe.max_difference, strict=True)),
        "flips": dict(zip(probe.widths, probe.num_flips, strict=True)),
    }
    if not probe.exact_from_two:
        report.warnings.append(
            "Rows of this model depend on the width of a pass even from two rows on, so strict mode"
            " is not bit-exact on this provider; set engine.provider to cpu where that matters."
        )


def _cache_sizes() -> dict[str, str]:
    from lsp_server.paths import paths

    place = paths()
    return {
        str(folder): f"{_size(folder) / 2**20:.0f} MB"
        for folder in (place.models, place.downloads, place.costs)
    }


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _page(report: Report) -> str:
    lines: list[str] = []
    for name, fact in report.facts.items():
        title = name.replace("_", " ")
        if isinstance(fact, dict):
            lines.append(f"{title}:")
            lines += [f"  {key}: {value}" for key, value in fact.items()]
        else:
            text = ", ".join(fact) if isinstance(fact, list) else fact
            lines.append(f"{title}: {text}")
    lines += [f"warning: {text}" for text in report.warnings]
    lines += [f"PROBLEM: {text}" for text in report.problems]
    lines.append("" if report.problems else "Completions can be served.")
    return "\n".join(lines).rstrip()
