"""What may draft for the loaded model: opened once, and made into one drafter for each document.

Runs on the inference thread.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from lsp_server.engine.controller import Controller
from lsp_server.engine.cost_store import CostStore
from lsp_server.engine.drafter_manifest import DRAFTER_MANIFEST_NAME, DrafterManifest
from lsp_server.engine.drafters.combined import Combined, PricedDrafter, Records
from lsp_server.engine.drafters.corpus import CorpusDrafter, SessionCorpus
from lsp_server.engine.drafters.cost import DraftCost
from lsp_server.engine.drafters.draft_model import DraftModel, measure_draft_model
from lsp_server.engine.drafters.eagle import Eagle
from lsp_server.engine.drafters.early_exit import EarlyExit, measure_exit
from lsp_server.engine.drafters.growth import Growing, Growth
from lsp_server.engine.drafters.medusa import Medusa
from lsp_server.engine.drafters.prompt_lookup import PromptLookup
from lsp_server.engine.drafters.trees import DynamicTree, StaticTree, static_paths
from lsp_server.engine.drafters.vocabulary import DraftVocabulary, check_draft_model, read_draft_ids
from lsp_server.engine.manifest import MANIFEST_NAME, Manifest, sha256_of
from lsp_server.engine.onnx_heads import STATE_OF_KIND, EagleHead, MedusaHead
from lsp_server.engine.onnx_model import OnnxModel
from lsp_server.engine.onnx_slot import OnnxSlot
from lsp_server.engine.tokenizer import Tokenizer
from lsp_server.engine.types import DecodeParams, Drafter
from lsp_server.errors import SettingsError

_MAX_DOCUMENTS = 8
"""Documents whose drafters are kept; a lookup index is rebuilt in milliseconds."""
_CHAIN = Growth()
_Tree = TypeVar("_Tree", StaticTree, DynamicTree)

_TREE = Growth(width=3)
"""Of a draft model and of early exit."""
_MEDUSA_TREE = StaticTree(static_paths(3))
"""Seven nodes."""
_EAGLE_TREE = DynamicTree()


def states_for(heads: Path | None) -> tuple[str, ...]:
    """What the target's slots must keep for the heads in this folder."""
    return () if heads is None else (STATE_OF_KIND[DrafterManifest.load(heads).kind],)


Make = Callable[[str, OnnxSlot, bool], PricedDrafter]
"""(document, its slot, trees or chains) -> the drafter of that document."""

HEADS = ("medusa", "eagle")
"""The sources that the setting calls `heads`."""


@dataclass(slots=True)
class Opened:
    """A source that takes time, as it was opened for the model."""

    make: Make
    cost: DraftCost
    manifest: Manifest | DrafterManifest
    tree: Growth | StaticTree | DynamicTree
    """What it drafts where it drafts trees."""
    trained: bool
    """To draft for this model."""


@dataclass(slots=True)
class _Document:
    """What is kept of one document between requests."""

    slot: OnnxSlot
    lookup: PromptLookup
    drafter: Combined
    priced: Sequence[PricedDrafter]
    sources: tuple[str, ...]
    trees: bool


class DraftSources:
    """The sources that the settings name, over one target."""

    def __init__(
        self,
        target: OnnxModel,
        tokenizer: Tokenizer,
        controller: Controller,
        costs: CostStore,
        *,
        trees: bool,
    ) -> None:
        """`trees`: priced sources draft trees too, whichever pays more."""
        self.corpus = SessionCorpus()
        self._target = target
        self._tokenizer = tokenizer
        self._controller = controller
        self._costs = costs
        self._trees = trees
        self.opened: dict[str, Opened] = {}
        self._documents: OrderedDict[str, _Document] = OrderedDict()
        self._records: Records = {}

    def open_draft_model(self, model: OnnxModel, tokenizer: Tokenizer) -> None:
        """Draft with another model. Raises TokenizerMismatchError, ModelFilesError."""
        own, target = model.manifest, self._target.manifest
        num_tokens = check_draft_model(own, tokenizer, target, self._tokenizer)
        vocabulary = self._vocabulary(model, "chain", num_tokens)
        cost = self._measured(
            "draft",
            model.folder / MANIFEST_NAME,
            lambda: measure_draft_model(model.slot("measure"), vocabulary),
        )
        model.release("measure")

        def make(uri: str, slot: OnnxSlot, trees: bool) -> DraftModel:
            growth = _TREE if trees else _CHAIN
            return DraftModel(model, uri, vocabulary, growth=growth, cost=cost)

        self._add("draft", Opened(make, cost, own, _TREE, own.trained))

    def open_heads(self, folder: Path) -> None:
        """Draft with trained heads. Raises ModelFilesError, TokenizerMismatchError."""
        if DrafterManifest.load(folder).kind == "medusa":
            medusa = MedusaHead(folder, self._target)
            self._add_heads("medusa", folder, medusa, _MEDUSA_TREE, partial(Medusa, medusa))
        else:
            eagle = EagleHead(folder, self._target)
            self._add_heads("eagle", folder, eagle, _EAGLE_TREE, partial(Eagle, eagle))

    def _add_heads(
        self,
        name: str,
        folder: Path,
        head: MedusaHead | EagleHead,
        tree: _Tree,
        drafter: Callable[[OnnxSlot, _Tree | None, DraftCost], Medusa | Eagle],
    ) -> None:
        cost = self._measured(name, folder / DRAFTER_MANIFEST_NAME, head.measure)

        def make(uri: str, slot: OnnxSlot, trees: bool) -> Medusa | Eagle:
            return drafter(slot, tree if trees else None, cost)

        self._add(name, Opened(make, cost, head.manifest, tree, head.manifest.trained))

    def open_early_exit(self) -> None:
        """Draft with the target's own first layers. Raises ModelFilesError if it has no exit."""
        target = self._target
        vocabulary = self._vocabulary(target, "exit", self._tokenizer.vocab_size)
        cost = self._measured(
            "early_exit",
            target.folder / MANIFEST_NAME,
            lambda: measure_exit(target.slot("measure"), vocabulary),
        )
        target.release("measure")

        def make(uri: str, slot: OnnxSlot, trees: bool) -> EarlyExit:
            return EarlyExit(slot, vocabulary, growth=_TREE if trees else _CHAIN, cost=cost)

        # The manifest tells of the model: nobody trained it to exit early.
        self._add("early_exit", Opened(make, cost, target.manifest, _TREE, trained=False))

    def _add(self, name: str, opened: Opened) -> None:
        self.opened[name] = opened
        if opened.trained:
            self._controller.expect_much(name)

    def drafter(
        self,
        uri: str,
        slot: OnnxSlot,
        sources: tuple[str, ...],
        suffix_ids: Sequence[int],
        params: DecodeParams,
    ) -> Combined | None:
        """The drafter of one document for the request that comes; None where nothing may draft."""
        if not sources:
            return None
        # Where only chains are exact, a tree is verified as one: it is not drafted then.
        trees = self._trees and (not params.strict or self._target.spec.tree_rows_exact)
        found = self._documents.pop(uri, None)
        wanted = (slot, sources, trees)
        if found is None or (found.slot, found.sources, found.trees) != wanted:
            found = self._document(uri, *wanted)
        self._documents[uri] = found
        if len(self._documents) > _MAX_DOCUMENTS:
            self._documents.popitem(last=False)
        found.lookup.set_suffix(suffix_ids)
        found.drafter.strict, found.drafter.num_failures = params.strict, 0
        for source in found.priced:
            if isinstance(source, Growing):
                source.set_params(params)
        return found.drafter

    def describe(self) -> dict[str, dict[str, float]]:
        """Source -> milliseconds of a step and of a row it reads, of those that take time."""
        return {
            name: {"step": round(opened.cost.step_ms, 3), "row": round(opened.cost.row_ms, 3)}
            for name, opened in self.opened.items()
        }

    def _measured(self, source: str, manifest: Path, measure: Callable[[], DraftCost]) -> DraftCost:
        """Kept by the drafter's files, the target's, and all that both run on."""
        identity = f"{source}|{sha256_of(manifest)}|{self._target.spec.identity}"
        return self._costs.draft(identity, measure)

    def _document(
        self, uri: str, slot: OnnxSlot, sources: tuple[str, ...], trees: bool
    ) -> _Document:
        lookup = PromptLookup()
        free: list[Drafter] = [lookup] if "lookup" in sources else []
        if "corpus" in sources:
            free.append(CorpusDrafter(self.corpus, uri))
        names = [name for name in self.opened if _is_named(name, sources)]
        forms = (False, True) if trees else (False,)
        priced = [self.opened[name].make(uri, slot, form) for name in names for form in forms]
        drafter = Combined(free, priced, self._controller, slot, self._records)
        return _Document(slot, lookup, drafter, priced, sources, trees)

    def _vocabulary(self, model: OnnxModel, form: str, num_tokens: int) -> DraftVocabulary:
        manifest, target_size = model.manifest, self._target.spec.vocab_size
        if form not in manifest.reduced_forms:
            return DraftVocabulary(manifest.vocab_size, target_size, num_tokens=num_tokens)
        num_ids = manifest.draft_vocab_size
        ids = read_draft_ids(model.folder, num_ids, manifest.vocab_size)
        return DraftVocabulary(num_ids, target_size, num_tokens=num_tokens, ids=ids)


def _is_named(name: str, sources: Sequence[str]) -> bool:
    return ("heads" if name in HEADS else name) in sources


def check_named(sources: Sequence[str], draft_model: str, heads: str) -> None:
    """A source that is named must be there to be opened. Raises SettingsError."""
    for source, setting, value in (
        ("draft", "draft_model", draft_model),
        ("heads", "heads", heads),
    ):
        if source in sources and not value:
            raise SettingsError(
                f"`sources` names `{source}`, but `{setting}` is not set; set it to a folder made"
                f" with `tabahead export`, or take `{source}` out of `sources`."
            )
