"""From settings to a backend that can complete: a model folder on disk, or a script in its place.

Heavy: called on the inference thread, or by commands that wait for it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lsp_server.cancellation import CancelToken
from lsp_server.completion import Backend
from lsp_server.errors import ModelFilesError, ModelMissingError, SettingsError
from lsp_server.paths import expanded, paths
from lsp_server.settings.tree import Settings

if TYPE_CHECKING:
    from lsp_server.backend.engine_backend import EngineBackend
    from lsp_server.engine.onnx_model import OnnxModel

_log = logging.getLogger(__name__)

Progress = Callable[[str, int, int], None]
"""(stage, done, total): for a progress bar."""


def load_backend(settings: Settings, progress: Progress, cancel: CancelToken) -> Backend:
    """Load what `settings.model` names.

    Raises ModelMissingError, ModelFilesError, RuntimeMissingError, SettingsError, Cancelled.
    """
    kind, _, rest = settings.model.partition(":")
    if kind == "scripted" and rest:
        from lsp_server.backend.scripted import ScriptedBackend

        return ScriptedBackend.from_file(rest)
    return load_engine(settings, progress, cancel)


def load_engine(settings: Settings, progress: Progress, cancel: CancelToken) -> EngineBackend:
    """Open the model, what drafts for it, and their costs (measured at the first load)."""
    from lsp_server.backend.drafting import check_named
    from models import catalogue, store

    check_named(settings.sources, settings.draft_model, settings.heads)
    with ExitStack() as uses:
        use = uses.enter_context(catalogue.acquire(settings.model))
        if settings.model in catalogue.entries():
            store.collect(settings.model)
        draft = None
        if "draft" in settings.sources:
            with _named_by("draft_model"):
                draft = uses.enter_context(catalogue.acquire(settings.draft_model)).folder
        return _open(use.folder, draft, uses, settings, progress, cancel)


def _open(
    folder: Path,
    draft: Path | None,
    uses: ExitStack,
    settings: Settings,
    progress: Progress,
    cancel: CancelToken,
) -> EngineBackend:
    """The backend, to which `uses` (of model folders) is handed over once all is well."""
    from lsp_server.backend.drafting import DraftSources, states_for
    from lsp_server.backend.engine_backend import EngineBackend
    from lsp_server.engine.controller import Controller
    from lsp_server.engine.cost_store import CostStore
    from lsp_server.engine.tokenizer import Tokenizer

    start = time.perf_counter()
    heads = expanded(settings.heads) if "heads" in settings.sources else None
    progress("loading the model", 0, 4)
    with _named_by("heads"):
        states = states_for(heads)
    model = _model(folder, settings, states)
    if "chain" in model.manifest.reduced_forms:
        raise ModelFilesError(
            f"{model.manifest.name} in {folder} is a draft model whose head knows"
            f" {model.manifest.draft_vocab_size} of {model.manifest.vocab_size} tokens; name it as"
            " `draft_model`, and another as `model`."
        )
    cancel.raise_if_cancelled()
    progress("loading the tokenizer", 1, 4)
    tokenizer = Tokenizer(folder / "tokenizer.json")
    cancel.raise_if_cancelled()
    progress("measuring this machine", 2, 4)
    costs = CostStore(paths().costs)
    controller = Controller(costs.curve(model.slot("measure")))
    model.release("measure")
    cancel.raise_if_cancelled()
    progress("loading what drafts", 3, 4)
    if settings.trees and settings.strict:
        _log.warning("strict mode uses chains only; `trees` has no effect in it.")
    sources = DraftSources(model, tokenizer, controller, costs, trees=settings.trees)
    if heads is not None:
        sources.open_heads(heads)
    if draft is not None:
        sources.open_draft_model(_model(draft, settings), Tokenizer(draft / "tokenizer.json"))
    if "early_exit" in settings.sources:
        sources.open_early_exit()
    cancel.raise_if_cancelled()  # nobody would close what nobody waits for
    progress("ready", 4, 4)
    return EngineBackend(
        model,
        tokenizer,
        controller,
        sources,
        prompt_tokens=settings.prompt_tokens,
        load_ms=(time.perf_counter() - start) * 1000,
        release=uses.pop_all().close,
    )


@contextmanager
def _named_by(setting: str) -> Iterator[None]:
    """What drafts and is not there is a fault of its setting: the model itself is not missing."""
    try:
        yield
    except ModelMissingError as error:
        raise SettingsError(f"`{setting}` cannot be used: {error}") from error


def _model(folder: Path, settings: Settings, states: Sequence[str] = ()) -> OnnxModel:
    from lsp_server.engine.onnx_model import OnnxModel

    return OnnxModel(
        folder,
        threads=settings.engine.threads,
        provider=settings.engine.provider,
        slot_tokens=settings.engine.slot_tokens,
        kv_memory_mb=settings.engine.kv_memory_mb,
        states=states,
    )
