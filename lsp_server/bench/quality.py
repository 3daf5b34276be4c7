"""`bench quality`: how often a line is the author's, and how well the product knows when it is not.

Parts of lines are taken out of files and written again by all steps of a completion, a line each.

- `exact_line`: share of the places at which the line is the author's once the item is accepted.
- `edit_similarity`: mean of 1 - Levenshtein distance / length of the longer, of what was missing
  and what was written.
- `first_token`: share of the places at which the first word or sign is right.
- `humaneval`: the same figures of HumanEval's single-line infilling alone.
- Rows: what the product does by default, and without healing, other files' text, and both. Where
  the model can infill it does so by default (row `infilling`), and a further row has it without
  the text after the cursor; where not, the row says so. Figures are for comparing, no more.
- `confidence`: of the lines at places of the checking half, which shares the three settings of
  `eagerness` show while typing. Halves are of problems, so that none has lines in both.
  `--calibrate FILE` writes the features of all lines there, fits the weights to the other half,
  judges by these, and prints them; it leaves out the variants.

Exits 1 where `balanced` shows less than 60 % of the right lines or over half of the wrong ones.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any

from tqdm import tqdm

from lsp_server.backend.engine_backend import EngineBackend
from lsp_server.backend.loader import load_engine
from lsp_server.bench.blanks import Blank, load_blanks
from lsp_server.bench.calibration import Judged, Shown, curve, fit, keep, recall, shown_at
from lsp_server.bench.quality_page import page
from lsp_server.bench.report import machine, publish
from lsp_server.cancellation import CancelToken
from lsp_server.completion import CompletionRequest, Eagerness, Mode, Snapshot
from lsp_server.generation.amount import stop_rule
from lsp_server.generation.confidence import THRESHOLDS, WEIGHTS, Features, features_of
from lsp_server.generation.items import Writer
from lsp_server.postprocess import Edit
from lsp_server.settings.tree import Settings
from lsp_server.text.place import Place

MIN_RIGHT_SHOWN, MAX_WRONG_SHOWN = 0.6, 0.5
"""The bars, at `balanced`."""

_LINES, _FULL = 80, 500
_MAX_TOKENS = 48
_FIRST = re.compile(r"\s*(\w+|[^\w\s])")


@dataclass(frozen=True, slots=True)
class Variant:
    name: str
    healing: bool = True
    context: bool = True
    infilling: bool = True


DEFAULT = Variant("default")
VARIANTS = (
    DEFAULT,
    Variant("without healing", healing=False),
    Variant("without context", context=False),
    Variant("without healing and context", healing=False, context=False),
)
"""With the same text of other files they stand together: they share most of the prompt."""
WITHOUT_INFILLING = Variant("without infilling", infilling=False)
NO_INFILLING = {
    "variant": "infilling",
    "exact_line": None,
    "edit_similarity": None,
    "first_token": None,
    "cases": 0,
    "humaneval": None,
    "status": "not supported",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one variant made of one blank."""

    blank: Blank
    line: str
    """As it is once the item is accepted, blanks at its end aside."""
    written: str
    """The item."""
    features: Features | None

    @property
    def is_exact(self) -> bool:
        return self.line == self.blank.line

    @property
    def is_first_right(self) -> bool:
        wanted, found = _FIRST.match(self.blank.missing), _FIRST.match(self.written)
        return wanted is not None and found is not None and wanted[1] == found[1]


def run(args: argparse.Namespace, settings: Settings) -> int:
    if args.plot is not None:
        from lsp_server.bench.plot import need_matplotlib

        need_matplotlib()
    blanks, origin = load_blanks(args.cases or (_FULL if args.full else _LINES), args.data)
    backend = load_engine(settings, lambda *_: None, CancelToken())
    infills = backend.prompter.template.infills
    variants = (*VARIANTS, WITHOUT_INFILLING) if infills else VARIANTS
    found = write_all(backend, blanks, (DEFAULT,) if args.calibrate else variants)
    default = found[DEFAULT.name]
    infilling = row_of("infilling", default) if infills else NO_INFILLING
    result: dict[str, Any] = {
        "suite": "quality",
        "machine": machine(backend.model.threads),
        "model": backend.model.manifest.name,
        "data": origin,
        "lines": len(blanks) // 2,
        "rows": [*(row_of(name, outcomes) for name, outcomes in found.items()), infilling],
        **_confidence(default, args.calibrate),
    }
    if args.plot is not None:
        from lsp_server.bench.plot import plot_quality

        plot_quality(result, args.plot)
    publish(result, page(result), json_only=args.json)
    return 1 if result["missed"] else 0


def row_of(name: str, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Of all places, and of those in HumanEval's single lines where there are any."""
    single = [outcome for outcome in outcomes if outcome.blank.is_of_humaneval]
    return {
        "variant": name,
        **_shares(outcomes),
        "humaneval": _shares(single) if single else None,
    }


def _shares(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    pairs = [(outcome.blank.missing, outcome.written) for outcome in outcomes]
    return {
        "exact_line": round(fmean(outcome.is_exact for outcome in outcomes), 4),
        "edit_similarity": round(fmean(edit_similarity(*pair) for pair in pairs), 4),
        "first_token": round(fmean(outcome.is_first_right for outcome in outcomes), 4),
        "cases": len(outcomes),
    }


def _confidence(outcomes: Sequence[Outcome], calibrate: Path | None) -> dict[str, Any]:
    """What the rule makes of the checking half, and which bars it misses."""
    lines, weights = judged(outcomes), WEIGHTS
    if calibrate is not None:
        keep(lines, calibrate)
        lines = recall(calibrate)  # rounded, so that the file gives the same weights
        weights = fit([line for line in lines if not line.for_checking])
    checked = [line for line in lines if line.for_checking]
    settings = {
        eagerness.value: shown_at(checked, threshold, weights)
        for eagerness, threshold in THRESHOLDS.items()
    }
    found: dict[str, Any] = {
        "confidence": {
            "checked": len(checked),
            "right": sum(line.is_right for line in checked),
            "settings": {name: _rounded(shown) for name, shown in settings.items()},
            "curve": [_rounded(shown) for shown in curve(checked, weights)],
        },
        "missed": missed(checked, settings[Eagerness.BALANCED.value]),
    }
    if calibrate is not None:
        found["weights"] = {"bias": weights.bias, **asdict(weights.weights)}
    return found


def _rounded(shown: Shown) -> dict[str, float]:
    return {name: round(value, 4) for name, value in asdict(shown).items()}


def missed(checked: Sequence[Judged], shown: Shown) -> list[str]:
    """The bars that what is shown at `balanced` misses."""
    if len({line.is_right for line in checked}) < 2:
        return ["right lines and wrong ones to check the rule with; ask for more --cases"]
    found = []
    if shown.right < MIN_RIGHT_SHOWN:
        found.append(f"{shown.right:.0%} of the right lines are shown, not {MIN_RIGHT_SHOWN:.0%}")
    if shown.wrong > MAX_WRONG_SHOWN:
        found.append(f"{shown.wrong:.0%} of the wrong lines are shown, over {MAX_WRONG_SHOWN:.0%}")
    return found


def judged(outcomes: Sequence[Outcome]) -> list[Judged]:
    """Where nothing was written there is nothing to judge."""
    return [
        Judged(outcome.features, outcome.is_exact, outcome.blank.for_checking)
        for outcome in outcomes
        if outcome.features is not None
    ]


def write_all(
    backend: EngineBackend, blanks: Sequence[Blank], variants: Sequence[Variant]
) -> dict[str, list[Outcome]]:
    """Outcomes by the variants' names, each in the order of the blanks."""
    found: dict[str, list[Outcome]] = {variant.name: [] for variant in variants}
    with tqdm(total=len(blanks) * len(variants), unit="line", mininterval=1.0) as bar:
        for problem, group in groupby(blanks, key=lambda blank: blank.problem):
            of_problem = list(group)
            uris = _open(backend, of_problem[0])
            # Variants that share other files' text share most of the prompt.
            for variant in variants:
                for blank in of_problem:
                    found[variant.name].append(write(backend, blank, variant))
                    bar.update()
            for uri in (*uris, _uri(problem)):
                backend.forget(uri)
    return found


def _open(backend: EngineBackend, blank: Blank) -> list[str]:
    """The other files, as if the user had them open; their URIs."""
    for name, text in blank.others:
        backend.learn(Snapshot(_uri(name), 1, "python", text))
    return [_uri(name) for name, _ in blank.others]


def _uri(name: str) -> str:
    return f"file:///project/{name.replace('/', '_').lower()}.py"


def write(backend: EngineBackend, blank: Blank, variant: Variant) -> Outcome:
    text = blank.text if variant.infilling else blank.text[: blank.offset]
    request = CompletionRequest(
        Snapshot(_uri(blank.problem), 1, "python", text),
        blank.offset,
        invoked=True,
        use_context=variant.context,
        healing=variant.healing,
        mode=Mode.LINE,
        max_tokens=_MAX_TOKENS,
    )
    place = Place.at(text, blank.offset, language_id="python")
    rule = stop_rule(request, place)
    written = Writer(request, rule, backend, CancelToken(), time.perf_counter).write()
    edit = written.outcome if isinstance(written.outcome, Edit) else Edit("")
    kept = place.line_before[: len(place.line_before) - edit.num_left]
    features = features_of(written.collected.pieces, place)
    return Outcome(blank, (kept + edit.text).rstrip(), edit.text, features)


def edit_similarity(wanted: str, found: str) -> float:
    """1 - Levenshtein distance / length of the longer text; 1 where both are empty."""
    if not wanted and not found:
        return 1.0
    row = list(range(len(found) + 1))
    for i, left in enumerate(wanted, start=1):
        diagonal, row[0] = row[0], i
        for j, right in enumerate(found, start=1):
            cost = min(row[j] + 1, row[j - 1] + 1, diagonal + (left != right))
            diagonal, row[j] = row[j], cost
    return 1 - row[-1] / max(len(wanted), len(found))
