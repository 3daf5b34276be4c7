"""The methods that `bench matrix` compares, each over the same loaded model and slot.

Drafters that nobody has trained are made where they are missing: a pruned copy of the model, and
heads of seeded random weights. They run as trained ones do, and draft little of use.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from lsp_server.backend.drafting import DraftSources
from lsp_server.bench.cases import Case
from lsp_server.bench.engine import Bench, Prompt
from lsp_server.engine.drafter_manifest import DrafterManifest
from lsp_server.engine.drafters.combined import Combined, Records
from lsp_server.engine.drafters.corpus import CorpusDrafter, SessionCorpus
from lsp_server.engine.manifest import Manifest
from lsp_server.engine.onnx_slot import OnnxSlot
from lsp_server.engine.types import Draft, Drafter
from lsp_server.errors import ModelFilesError, ModelMissingError
from lsp_server.paths import paths
from lsp_server.settings.tree import Settings
from models import catalogue


@dataclass(frozen=True, slots=True)
class Method:
    name: str
    form: str
    drafter: Callable[[Prompt], Drafter]
    trained: bool = True
    extra_parameters: int = 0
    extra_mb: float = 0.0
    step_ms: float = 0.0
    """One step of the drafter."""
    draft_ms: Callable[[int], float] = lambda depth: 0.0
    """Depth of a draft -> what it costs to make."""
    made_ms: Callable[[Draft], float] = lambda draft: 0.0
    """What making this draft cost, where each comes from a source of its own."""
    num_tokens: Callable[[int], int] = lambda depth: depth
    """Depth of a draft -> tokens of it to verify."""
    controlled: bool = False
    """Runs under the controller, not with drafts of one length."""

    @property
    def label(self) -> str:
        return f"{self.name} {self.form}"


def load_methods(
    settings: Settings, drafters: Path | None, cases: Sequence[Case], max_prompt: int
) -> tuple[list[Method], Bench]:
    """All methods, and the model that they draft for.

    `drafters` holds the folders `draft`, `medusa` and `eagle`; None: below the cache, made there if
    they are missing. Raises ModelMissingError, ModelFilesError.
    """
    folder = drafters or make_drafters(settings)
    _check_kinds(folder)
    named = replace(
        settings,
        sources=("lookup", "corpus", "draft", "heads", "early_exit"),
        draft_model=str(folder / "draft"),
        heads=str(folder / "eagle"),
    )
    bench = Bench(named, cases, max_prompt)
    sources = bench.backend.sources
    sources.open_heads(folder / "medusa")
    slot = bench.backend.model.slot("bench")
    corpus = _corpus(bench)
    methods = [
        Method("lookup", "chain", bench.lookup),
        Method("session corpus", "chain", lambda prompt: CorpusDrafter(corpus, prompt.name)),
    ]
    for name, title in (
        ("draft", "draft model"),
        ("early_exit", "early exit"),
        ("medusa", "medusa"),
        ("eagle", "eagle"),
    ):
        methods += [_priced(sources, slot, folder, name, title, trees) for trees in (False, True)]
    methods.append(_combined(bench, sources, slot, corpus))
    return methods, bench


def _check_kinds(folder: Path) -> None:
    for kind in ("medusa", "eagle"):
        found = DrafterManifest.load(folder / kind).kind
        if found != kind:
            raise ModelFilesError(
                f"{folder / kind} holds a head of kind {found}, where `bench matrix` runs one of"
                f" kind {kind} (EAGLE-3 reads other states of the model than the heads beside it);"
                f" put one there with `tabahead export heads {kind}`."
            )


def _corpus(bench: Bench) -> SessionCorpus:
    """Every prompt of the suite, as the open files of one session."""
    corpus = SessionCorpus()
    for prompt in bench.prompts:
        corpus.put(prompt.name, [*prompt.token_ids, *prompt.suffix_ids])
    return corpus


def _priced(
    sources: DraftSources, slot: OnnxSlot, folder: Path, name: str, title: str, trees: bool
) -> Method:
    opened = sources.opened[name]
    drafter = opened.make("bench", slot, trees)
    own = None if name == "early_exit" else folder / name
    return Method(
        name=title,
        form="tree" if trees else "chain",
        drafter=lambda prompt: drafter,
        trained=opened.trained,
        extra_parameters=0 if own is None else _num_parameters(opened.manifest, own),
        extra_mb=0.0 if own is None else _megabytes(own),
        step_ms=opened.cost.step_ms,
        draft_ms=drafter.draft_cost_ms,
        num_tokens=opened.tree.num_tokens if trees else lambda depth: depth,
    )


def _combined(bench: Bench, sources: DraftSources, slot: OnnxSlot, corpus: SessionCorpus) -> Method:
    priced = [opened.make("bench", slot, False) for opened in sources.opened.values()]
    by_name = {source.name: source for source in priced}
    records: Records = {}

    def made_ms(draft: Draft) -> float:
        source = by_name.get(draft.source) if draft.token_ids else None
        return 0.0 if source is None else source.draft_cost_ms(draft.depth)

    def drafter(prompt: Prompt) -> Combined:
        free: list[Drafter] = [bench.lookup(prompt), CorpusDrafter(corpus, prompt.name)]
        return Combined(free, priced, bench.controller, slot, records)

    return Method("combined", "chain", drafter, made_ms=made_ms, controlled=True)


def _num_parameters(manifest: Manifest | DrafterManifest, folder: Path) -> int:
    if isinstance(manifest, DrafterManifest):
        return manifest.num_parameters
    from export.parameters import num_parameters

    return num_parameters(folder / manifest.forms["chain"])


def _megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.glob("*.data")) / 2**20


def make_drafters(settings: Settings) -> Path:
    """The folder of this model's untrained drafters, each made by `tabahead export` if missing."""
    target = catalogue.resolve(settings.model)
    if settings.model not in catalogue.entries():
        raise ModelMissingError(
            f"No drafters are known for {target}; make them with `tabahead export` and name their"
            " folder with --drafters."
        )
    checkpoint = next(iter(sorted((paths().downloads / settings.model).glob("*.gguf"))), None)
    if checkpoint is None:
        raise ModelMissingError(
            f"The checkpoint of {settings.model} is not kept; run `tabahead models remove"
            f" {settings.model}` and fetch it again."
        )
    folder = paths().cache / "drafters" / settings.model / target.name
    is_complete = all((folder / kind).is_dir() for kind in ("draft", "medusa", "eagle"))
    if not is_complete and find_spec("safetensors") is None:
        raise ModelMissingError(
            "What the matrix compares is made with safetensors, which is not here; run `pip install"
            " safetensors`."
        )
    if not (folder / "draft").is_dir():
        _export("draft", str(checkpoint), "--out", str(folder / "draft"))
    for kind in ("medusa", "eagle"):
        random = folder / f"random-{kind}"
        if not (folder / kind).is_dir():
            if not random.is_dir():
                _export("random-heads", kind, "--target", str(target), "--out", str(random))
            heads = (str(random), "--target", str(target), "--out", str(folder / kind))
            _export("heads", kind, *heads)
    return folder


def _export(*arguments: str) -> None:
    """In a process of its own, as a user would: the builder's libraries stay out of this one."""
    command = [sys.executable, "-P", "-m", "export", *arguments]
    try:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ModelFilesError(
            f"`tabahead export {' '.join(arguments)}` failed; see its message above."
        ) from error
