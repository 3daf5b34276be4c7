"""From settings to a backend that can complete: a model folder on disk, or a script in its place.

Heavy: called on the inference thread, or by commands that wait for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lsp_server.cancellation import CancelToken
from lsp_server.completion import Backend
from lsp_server.paths import paths
from lsp_server.settings import Settings

if TYPE_CHECKING:
    from lsp_server.backend import EngineBackend

Progress = Callable[[str, int, int], None]
"""(stage, done, total): for a progress bar."""


def load_backend(settings: Settings, progress: Progress, cancel: CancelToken) -> Backend:
    """Load what `settings.model` names.

    Raises ModelMissingError, ModelFilesError, RuntimeMissingError, SettingsError, Cancelled.
    """
    kind, _, rest = settings.model.partition(":")
    if kind == "scripted" and rest:
        from lsp_server.scripted import ScriptedBackend

        return ScriptedBackend.from_file(rest)
    return load_engine(settings, progress, cancel)


def load_engine(settings: Settings, progress: Progress, cancel: CancelToken) -> EngineBackend:
    """Open the model folder, its tokenizer and its cost curve (measured at the first load)."""
    from models import catalogue, store

    use = catalogue.acquire(settings.model)
    try:
        if settings.model in catalogue.entries():
            store.collect(settings.model)
        return _open(use.folder, use.release, settings, progress, cancel)
    except BaseException:
        use.release()
        raise


def _open(
    folder: Path,
    release: Callable[[], None],
    settings: Settings,
    progress: Progress,
    cancel: CancelToken,
) -> EngineBackend:
    from lsp_server.backend import EngineBackend
    from lsp_server.engine.controller import Controller, cost_curve
    from lsp_server.engine.onnx_model import OnnxModel
    from lsp_server.engine.tokenizer import Tokenizer

    start = time.perf_counter()
    progress("loading the model", 0, 3)
    model = OnnxModel(
        folder,
        threads=settings.engine.threads,
        provider=settings.engine.provider,
        slot_tokens=settings.engine.slot_tokens,
        kv_memory_mb=settings.engine.kv_memory_mb,
    )
    cancel.raise_if_cancelled()
    progress("loading the tokenizer", 1, 3)
    tokenizer = Tokenizer(folder / "tokenizer.json")
    cancel.raise_if_cancelled()
    progress("measuring this machine", 2, 3)
    curve = cost_curve(model.slot(""), paths().costs)
    model.release("")
    progress("ready", 3, 3)
    return EngineBackend(
        model,
        tokenizer,
        Controller(curve),
        prompt_tokens=settings.prompt_tokens,
        load_ms=(time.perf_counter() - start) * 1000,
        release=release,
    )
