"""The engine behind the completer: prompt text to tokens, decoding, tokens back to text.

Everything here runs on the inference thread; nothing here knows the protocol.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lsp_server.cancellation import CancelToken
from lsp_server.completion import CompletionRequest, CompletionStats, Piece, Snapshot
from lsp_server.drafting import DraftSources
from lsp_server.engine.controller import Controller
from lsp_server.engine.decode import decode, read
from lsp_server.engine.drafters.combined import Combined
from lsp_server.engine.onnx_model import OnnxModel
from lsp_server.engine.tokenizer import TextStream, Tokenizer
from lsp_server.engine.types import DecodeParams, DecodeStats
from lsp_server.errors import InferenceError
from lsp_server.place import normalise_line_ends
from lsp_server.prompt import build_prompt
from lsp_server.secret_text import Redactor, redact

_MAX_LEARNED = 200_000
"""Characters of a document that the corpus takes: a tenth of a second of tokenizing."""
_MAX_WAITING = 64
"""Accepted completions that wait for the corpus to be asked, which may be never."""


class EngineBackend:
    """One model, its tokenizer, its controller and what drafts for it."""

    def __init__(
        self,
        model: OnnxModel,
        tokenizer: Tokenizer,
        controller: Controller,
        sources: DraftSources,
        *,
        prompt_tokens: int,
        load_ms: float,
        release: Callable[[], None],
    ) -> None:
        """`release` ends this process's use of the model's folder; called by `close`."""
        self.model = model
        self.tokenizer = tokenizer
        self.controller = controller
        self.sources = sources
        self._prompt_tokens = prompt_tokens
        self._load_ms = load_ms
        self._release = release
        self._accepted: deque[str] = deque(maxlen=_MAX_WAITING)
        self._current: Snapshot | None = None
        self._redactor = Redactor()

    def generate(self, request: CompletionRequest, cancel: CancelToken) -> EngineGeneration:
        return EngineGeneration(self, request, cancel)

    def prepare(self, request: CompletionRequest, cancel: CancelToken) -> None:
        prompt_ids, _ = self.prompt_ids(request)
        if prompt_ids:
            read(self.model.slot(request.snapshot.uri), prompt_ids, request.strict, cancel)

    def prompt_ids(self, request: CompletionRequest) -> tuple[list[int], list[int]]:
        """Token ids of the prompt and of the text after the cursor."""
        room = self.model.spec.context_length - request.max_tokens - 1
        budget = min(self._prompt_tokens, room)
        if budget < 1:
            raise InferenceError(
                f"{request.max_tokens} new tokens leave no room for a prompt in a slot of"
                f" {self.model.spec.context_length}; lower max_tokens or raise engine.slot_tokens."
            )
        prompt = build_prompt(
            request.snapshot, request.offset, budget, lambda text: len(self.tokenizer.encode(text))
        )
        # Nothing but blanks is no text to continue.
        ids = self.tokenizer.encode(prompt.prefix)[-budget:] if prompt.prefix.strip() else []
        return ids, self.tokenizer.encode(prompt.suffix)

    def learn(self, snapshot: Snapshot) -> None:
        """Put a document's text, without secrets, into the session corpus, for the other documents
        to copy from."""
        text = self._redactor.redact(snapshot.uri, snapshot.text[:_MAX_LEARNED])
        text = normalise_line_ends(text)
        self.sources.corpus.put(snapshot.uri, self.tokenizer.encode(text))

    def forget(self, uri: str) -> None:
        self._redactor.forget(uri)
        self.sources.corpus.remove(uri)
        self.model.release(uri)
        if self._current is not None and self._current.uri == uri:
            self._current = None

    def accepted(self, text: str) -> None:
        self._accepted.append(text)

    def catch_up(self, snapshot: Snapshot) -> None:
        """Before a request for `snapshot`: what was accepted, and the document that was left for it
        with all that has been typed there."""
        while self._accepted:
            text = redact(self._accepted.popleft())
            self.sources.corpus.accept(self.tokenizer.encode(text))
        if self._current is not None and self._current.uri != snapshot.uri:
            self.learn(self._current)
        self._current = snapshot

    def describe(self) -> Mapping[str, Any]:
        manifest = self.model.manifest
        return {
            "model": manifest.name,
            "folder": str(self.model.folder),
            "weights": manifest.weight_format,
            "provider": self.model.provider,
            "threads": self.model.threads,
            "load_ms": round(self._load_ms, 1),
            "draft_ms": self.sources.describe(),
        }

    def close(self) -> None:
        self._release()


class EngineGeneration:
    """One run of the decoding loop, told token by token."""

    def __init__(
        self, backend: EngineBackend, request: CompletionRequest, cancel: CancelToken
    ) -> None:
        self._backend = backend
        self._request = request
        self._cancel = cancel
        self._decoding = DecodeStats()
        self._drafter: Combined | None = None
        self._start = time.perf_counter()

    @property
    def stats(self) -> CompletionStats:
        done = self._decoding
        return CompletionStats(
            tokens=done.num_tokens,
            passes=done.num_passes,
            sources={name: dict(counts) for name, counts in done.sources.items()},
            drafted_at={name: list(counts) for name, counts in done.drafted_at.items()},
            accepted_at={name: list(counts) for name, counts in done.accepted_at.items()},
            drafter_failures=done.num_drafter_failures
            + (self._drafter.num_failures if self._drafter else 0),
            prompt_tokens=done.prompt_tokens,
            reused_tokens=done.reused_tokens,
            ms={
                "load": self._backend._load_ms,
                "prefill": done.prefill_ms,
                "decode": done.decode_ms,
                "total": (time.perf_counter() - self._start) * 1000,
            },
        )

    def __iter__(self) -> Iterator[Piece]:
        backend, request = self._backend, self._request
        if "corpus" in request.sources:
            backend.catch_up(request.snapshot)
        prompt_ids, suffix_ids = backend.prompt_ids(request)
        if not prompt_ids:
            return  # nothing before the cursor: there is no text to continue
        uri = request.snapshot.uri
        slot = backend.model.slot(uri)
        params = DecodeParams(
            max_new_tokens=request.max_tokens,
            temperature=request.temperature,
            seed=request.seed,
            strict=request.strict,
        )
        self._drafter = backend.sources.drafter(uri, slot, request.sources, suffix_ids, params)
        steps = decode(
            slot,
            prompt_ids,
            params,
            drafter=self._drafter,
            controller=backend.controller,
            stats=self._decoding,
            cancel=self._cancel,
        )
        text = TextStream(backend.tokenizer)
        for step in steps:
            for token_id in step.token_ids:
                yield Piece(text.push(token_id), token_id)
