"""`doctor`: what works on this machine, and for everything that does not, how to mend it."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lsp_server.errors import TabaheadError

if TYPE_CHECKING:
    from lsp_server.engine.drafter_manifest import DrafterManifest
    from lsp_server.engine.manifest import Manifest
    from lsp_server.settings.tree import Settings

_PACKAGES = ("tabahead", "pygls", "lsprotocol", "numpy", "tokenizers", "onnx", "onnx-ir", "gguf")
_EXAMPLE = """example:
  tabahead doctor
  tabahead doctor --model ./my-model --json
"""


_TITLES = {
    "cost_ms": "milliseconds of a pass, by its tokens",
    "draft_ms": "milliseconds of a draft (copies cost none)",
}


@dataclass(slots=True)
class Report:
    facts: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    """One sentence each, with the remedy; any of these means that nothing can be completed."""
    warnings: list[str] = field(default_factory=list)


@contextmanager
def _faults_in(report: Report) -> Iterator[None]:
    """What ends the block early becomes a problem."""
    try:
        yield
    except TabaheadError as error:
        report.problems.append(str(error))


def add_parser(subparsers: Any) -> None:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "doctor",
        help="say what works, and how to mend what does not",
        description="Check packages, the runtime, settings, the model's files and how this machine"
        " runs it. The workspace is the current directory. Exit code 1 if completions cannot be"
        " served.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--model", help="name in the catalogue, a model folder, or scripted:FILE")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def run(args: argparse.Namespace) -> int:
    from lsp_server.paths import paths
    from lsp_server.settings.layers import load

    given = {"model": args.model} if args.model else {}
    loaded = load(
        command_line=given, workspaces=[Path.cwd()], user_file=paths().config / "settings.toml"
    )
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
    _examine_grammars(report)
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


def _examine_grammars(report: Report) -> None:
    from lsp_server.syntax.grammars import PACKAGES, load

    absent = [name for name in PACKAGES if load(name) is None]
    report.facts["grammars"] = [name for name in PACKAGES if name not in absent]
    if absent:
        report.warnings.append(
            f"There is no grammar of {', '.join(absent)}: where blocks end and what is imported is"
            " told by indentation there; install the extra `syntax`."
        )


def _examine_runtime(report: Report) -> None:
    from lsp_server.engine.providers import import_runtime, installed_runtimes, physical_cores

    report.facts["runtimes"] = installed_runtimes()
    report.facts["cores"] = physical_cores()
    with _faults_in(report):
        report.facts["providers"] = import_runtime().get_available_providers()


def _examine_model(settings: Settings, report: Report) -> None:
    """Verify every byte, load the model as the server does, and probe how it runs."""
    from lsp_server.backend.loader import load_backend
    from lsp_server.cancellation import CancelToken

    report.facts["model"] = settings.model
    if not settings.model.startswith("scripted:"):
        _examine_files(settings, report)
    if report.problems:
        return
    with (
        _faults_in(report),
        closing(load_backend(settings, lambda *_: None, CancelToken())) as backend,
    ):
        report.facts["runs"] = dict(backend.describe())
        _probe(backend, settings, report)


def _examine_files(settings: Settings, report: Report) -> None:
    """Of the model, and of what the settings name to draft for it."""
    from lsp_server.paths import expanded
    from models.catalogue import resolve

    with _faults_in(report):
        target = _verified(resolve(settings.model), "files", report)
        if "draft" in settings.sources and settings.draft_model:
            with _faults_in(report):
                draft = _verified(resolve(settings.draft_model), "draft_model", report)
                _warn_of_untrained(draft, report)
        if "heads" in settings.sources and settings.heads:
            with _faults_in(report):
                _examine_heads(expanded(settings.heads), target, report)


def _verified(folder: Path, fact: str, report: Report) -> Manifest:
    from lsp_server.engine.manifest import Manifest

    manifest = Manifest.load(folder)
    manifest.check_hashes(folder)
    manifest.check_tokenizer(folder)
    report.facts[fact] = f"{len(manifest.files)} files verified in {folder}"
    return manifest


def _examine_heads(folder: Path, target: Manifest, report: Report) -> None:
    from lsp_server.engine.drafter_manifest import DrafterManifest

    heads = DrafterManifest.load(folder)
    heads.check_hashes(folder)
    heads.check_target(target)
    report.facts["heads"] = f"{heads.kind}, {len(heads.files)} files verified in {folder}"
    _warn_of_untrained(heads, report)
    if not heads.same_weights(target):
        report.warnings.append(
            f"The heads {heads.name} were made for other weights than those of {target.name}: their"
            " drafts cost time and seldom come true; make them for this model with `tabahead"
            " export heads`."
        )


def _warn_of_untrained(drafter: Manifest | DrafterManifest, report: Report) -> None:
    if not drafter.trained:
        report.warnings.append(
            f"{drafter.name} has not been trained to draft: it runs, and seldom comes true; take"
            " it out of `sources`, or name a trained one."
        )


def _probe(backend: Any, settings: Settings, report: Report) -> None:
    from lsp_server.backend.engine_backend import EngineBackend
    from lsp_server.engine.probe import probe_widths

    if not isinstance(backend, EngineBackend):
        return
    report.facts["healing"] = "on" if settings.healing else "off (setting `healing`)"
    curve = backend.controller.curve
    report.facts["cost_ms"] = dict(zip(curve.widths, curve.ms, strict=True))
    report.facts["draft_ms"] = report.facts["runs"].pop("draft_ms")
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
        title = _TITLES.get(name, name.replace("_", " "))
        if name == "width_probe":
            lines += _probed(fact)
        elif isinstance(fact, dict) and fact:
            lines.append(f"{title}:")
            lines += [f"  {key}: {_text(value)}" for key, value in fact.items()]
        else:
            lines.append(f"{title}: {_text(fact)}")
    lines += [f"warning: {text}" for text in report.warnings]
    lines += [f"PROBLEM: {text}" for text in report.problems]
    lines.append(f"Completions {'cannot' if report.problems else 'can'} be served.")
    return "\n".join(lines)


def _probed(fact: dict[str, Any]) -> list[str]:
    """What the width probe means for the text."""
    from lsp_server.engine.probe import NUM_PREFIXES

    difference, flips = fact["max_difference"][1], fact["flips"][1]
    strict = "bit-exact here" if fact["exact_from_two"] else "not bit-exact here"
    default = "the same text as strict mode, as far as tried"
    if difference:
        default = f"a pass of one token differs from wider ones by up to {difference:.2g} in logits"
        default += f", which changed {flips} of {NUM_PREFIXES} choices tried" if flips else ""
    return [f"strict mode: {strict}", f"default mode: {default}"]


def _text(fact: Any) -> str:
    if isinstance(fact, dict):
        return "; ".join(f"{key}: {_text(value)}" for key, value in fact.items()) or "none"
    return ", ".join(fact) if isinstance(fact, list) else str(fact)
