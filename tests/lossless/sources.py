"""Every source of drafts over one tiny seeded target: each alone, and as the product has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from export.build import build, build_draft
from lsp_server.backend.drafting import DraftSources
from lsp_server.engine.controller import Controller, CostCurve, tree_name
from lsp_server.engine.cost_store import CostStore
from lsp_server.engine.drafters.corpus import CorpusDrafter, SessionCorpus
from lsp_server.engine.drafters.cost import DraftCost
from lsp_server.engine.drafters.draft_model import DraftModel
from lsp_server.engine.drafters.eagle import Eagle
from lsp_server.engine.drafters.early_exit import EarlyExit
from lsp_server.engine.drafters.growth import Growth
from lsp_server.engine.drafters.medusa import Medusa
from lsp_server.engine.drafters.prompt_lookup import PromptLookup
from lsp_server.engine.drafters.trees import Chain
from lsp_server.engine.drafters.vocabulary import DraftVocabulary, read_draft_ids
from lsp_server.engine.onnx_heads import EagleHead, MedusaHead
from lsp_server.engine.onnx_model import OnnxModel
from lsp_server.engine.onnx_slot import OnnxSlot
from lsp_server.engine.tokenizer import Tokenizer
from lsp_server.engine.types import Drafter
from tests.tiny_model import build_tiny_drafters, write_tiny_gguf

FREE = ("lookup", "corpus")
PRICED = ("draft", "early_exit", "medusa", "eagle")
SOURCES = (*FREE, *PRICED)
NAMED = ("lookup", "corpus", "draft", "heads", "early_exit")
"""All of them, as the setting `sources` calls them."""
_VOCAB = 320
_SURE, _WHOLE = Growth(min_probability=0.0), Chain(stop_below=0.0)


@dataclass(frozen=True, slots=True)
class Tiny:
    """A target with what drafts for it, each opened once."""

    target: OnnxModel
    draft: OnnxModel
    medusa: MedusaHead
    eagle: EagleHead
    folders: dict[str, Path]

    def alone(self, name: str, slot: OnnxSlot, text: list[int], key: str = "alone") -> Drafter:
        """One source for the document in `slot`, which offers tokens however unsure it is.

        The corpus knows `text` as that of another document; `key` is the slot of the draft model.
        """
        match name:
            case "lookup":
                return PromptLookup(offset=16)
            case "corpus":
                corpus = SessionCorpus()
                corpus.put("other", text)
                return CorpusDrafter(corpus, "own")
            case "draft":
                num_ids = self.draft.manifest.draft_vocab_size
                ids = read_draft_ids(self.folders["draft"], num_ids, _VOCAB)
                reduced = DraftVocabulary(len(ids), _VOCAB, num_tokens=_VOCAB, ids=ids)
                return DraftModel(self.draft, key, reduced, growth=_SURE)
            case "early_exit":
                whole = DraftVocabulary(_VOCAB, _VOCAB, num_tokens=_VOCAB)
                return EarlyExit(slot, whole, growth=_SURE)
            case "medusa":
                return Medusa(self.medusa, slot, _WHOLE)
            case _:
                return Eagle(self.eagle, slot, _WHOLE)

    def product(self, controller: Controller, *, trees: bool = False) -> DraftSources:
        """All of them behind one face, opened as the loader does."""
        tokenizer = Tokenizer(self.folders["target"] / "tokenizer.json")
        costs = DeclaredCosts(self.folders["target"])
        sources = DraftSources(self.target, tokenizer, controller, costs, trees=trees)
        sources.open_heads(self.folders["medusa"])
        sources.open_heads(self.folders["eagle"])
        sources.open_draft_model(self.draft, tokenizer)
        sources.open_early_exit()
        return sources


def open_tiny(
    root: Path, *, weights: str = "int8", layers: int = 2, kv_memory_mb: int = 192
) -> Tiny:
    """Build below `root` and open. The draft model lacks one of the target's layers, and the early
    exit comes before the last: of four layers, they are right about every third time."""
    source, folder = root / "target.gguf", root / "target"
    write_tiny_gguf(source, layers=layers)
    build(source, folder, name="tiny", weights=weights, exit_layers=layers - 1, draft_vocabulary=0)
    folders = build_tiny_drafters(root / "drafters", folder, weights=weights)
    folders |= {"target": folder, "draft": root / "draft"}
    kept = [*range(layers - 2), layers - 1]
    build_draft(
        source,
        root / "draft",
        name="tiny-draft",
        layers=kept,
        weights=weights,
        draft_vocabulary=200,
    )
    options = {"threads": 1, "slot_tokens": 512}
    states = ("hidden_states",)
    target = OnnxModel(folder, kv_memory_mb=kv_memory_mb, states=states, **options)
    return Tiny(
        target,
        OnnxModel(folders["draft"], **options),
        MedusaHead(folders["medusa"], target),
        EagleHead(folders["eagle"], target),
        folders,
    )


class DeclaredCosts(CostStore):
    """What is chosen depends on this machine's load no more."""

    def draft(self, identity: str, measure_it: Callable[[], DraftCost]) -> DraftCost:
        return DraftCost(1.0, 0.05)


class TakingTurns(Controller):
    """Each round another source is taken at its word: it drafts all that it can, and alone."""

    def __init__(self, first: int = 0) -> None:
        super().__init__(CostCurve((1, 2), (10.0, 11.0)))
        self._turn = first

    def choose(self, draft, num_fresh, *, strict=False):
        length = len(draft.token_ids) if draft.source == self._favourite else 0
        return length, self._rate(length)

    def plan(self, source, widths, draft_ms, num_fresh, *, strict=False):
        is_chosen = source in (self._favourite, tree_name(self._favourite))
        length = len(widths) if is_chosen else 0
        return length, self._rate(length)

    def cut(self, draft, num_fresh, *, strict=False):
        return draft if draft.source == self._favourite else draft.select([])

    def observe(self, draft, emitted):
        self._turn += 1

    @property
    def _favourite(self) -> str:
        return SOURCES[self._turn % len(SOURCES)]

    def _rate(self, length: int) -> float:
        return (2.0 if length else 1.0) / self.curve.cost(1)
