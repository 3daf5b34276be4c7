"""The engine behind the completer: prompt text to tokens, decoding, tokens back to text.

Everything here runs on the inference thread; nothing here knows the protocol.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from lsp_server.backend.drafting import DraftSources
from lsp_server.cancellation import CancelToken
from lsp_server.completion import CompletionRequest, CompletionStats, Piece, Snapshot
from lsp_server.context.selection import Snippet
from lsp_server.context.store import ContextStore
from lsp_server.engine.controller import Controller
from lsp_server.engine.decode import decode
from lsp_server.engine.drafters.combined import Combined
from lsp_server.engine.drafters.healed import Healed
from lsp_server.engine.onnx_model import OnnxModel
from lsp_server.engine.prefill import read
from lsp_server.engine.tokenizer import TextStream, Tokenizer
from lsp_server.engine.types import Choice, DecodeParams, DecodeStats, Drafter, Step
from lsp_server.errors import InferenceError
from lsp_server.files.secret_text import Redactor, redact
from lsp_server.files.uris import file_of
from lsp_server.prompt.fim import template_for
from lsp_server.prompt.prompter import Prompt, Prompter
from lsp_server.text.place import normalise_line_ends

_MAX_LEARNED = 200_000
"""Characters of a document that the corpus takes: a tenth of a second of tokenizing."""
_MAX_WAITING = 64
"""Accepted completions that wait for the corpus to be asked, which may be never."""
_MAX_ABOVE = 50_000
"""Characters of the cells above one, after which no further cell is taken: they are looked through
for secrets at each request, and no prompt has room for more."""
_MAX_SHOWN = 16
"""Documents of which it is remembered what text of other files their prompts hold."""


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
        self._worked_on: str | None = None
        """The file of the last request."""
        self._redactor = Redactor()
        self.prompter = Prompter(
            tokenizer, template_for(tokenizer.control_id, model.manifest.fim_ids)
        )
        self._context = ContextStore()
        self._shown: OrderedDict[str, tuple[Snippet, ...]] = OrderedDict()
        """Document -> what its last prompt held of other files."""

    def generate(self, request: CompletionRequest, cancel: CancelToken) -> EngineGeneration:
        self._worked_on = file_of(request.snapshot.uri)
        return EngineGeneration(self, request, cancel)

    def prepare(self, request: CompletionRequest, cancel: CancelToken) -> None:
        """A document that is only looked at takes no KV cache from those that are worked on."""
        place = file_of(request.snapshot.uri)
        may_take = place == self._worked_on or self.model.has_room()
        if not may_take and not self.model.holds(place):
            return
        self.catch_up(request)
        prompt = self.prompt(request, is_idle=True)
        if prompt.token_ids:
            slot = self.model.slot(place, prompt.token_ids if may_take else ())
            read(slot, prompt.token_ids, request.strict, cancel)

    def prompt(self, request: CompletionRequest, *, is_idle: bool = False) -> Prompt:
        """What the model is to be given. Raises InferenceError where there is no room for it.

        Other text of other files than before is shown in idle time only (`is_idle`), or where the
        prompt has to be read anyway: since it stands first, all behind it is read anew.
        """
        room = self.model.spec.context_length - request.max_tokens - 1
        budget = min(self._prompt_tokens, room)
        if budget < 1:
            raise InferenceError(
                f"{request.max_tokens} new tokens leave no room for a prompt in a slot of"
                f" {self.model.spec.context_length}; lower max_tokens or raise engine.slot_tokens."
            )
        prompter = self.prompter
        snapshot, offset = _below_cells(request.snapshot, request.offset)
        made = partial(prompter.prompt, snapshot, offset, budget, healing=request.healing)
        if not request.use_context:
            return made()
        best = self._context.snippets(
            snapshot, offset, prompter.files_characters(budget), prompter.near_characters(budget)
        )
        shown = self._shown.pop(snapshot.uri, best)
        prompt = made(files=shown)
        if shown != best and (is_idle or not self._is_read(snapshot.uri, prompt)):
            shown = best
            prompt = made(files=best)
        self._shown[snapshot.uri] = shown
        if len(self._shown) > _MAX_SHOWN:
            self._shown.popitem(last=False)
        return prompt

    def _is_read(self, uri: str, prompt: Prompt) -> bool:
        """Most of it is in a KV cache of the document."""
        return 2 * self.model.num_held(file_of(uri), prompt.token_ids) >= len(prompt.token_ids)

    def learn(self, snapshot: Snapshot) -> None:
        """Take note of a document's text, without secrets, for the other documents: to copy from,
        and to show to the model."""
        text = self._redactor.redact(snapshot.uri, snapshot.text[:_MAX_LEARNED])
        text = normalise_line_ends(text)
        self.sources.corpus.put(snapshot.uri, self.tokenizer.encode(text))
        self._context.learn(replace(snapshot, text=text))

    def forget(self, uri: str) -> None:
        self._redactor.forget(uri)
        self.sources.corpus.remove(uri)
        self._context.forget(uri)
        self._shown = OrderedDict(
            (document, files)
            for document, files in self._shown.items()
            if document != uri and all(file.uri != uri for file in files)
        )
        self.model.release(file_of(uri))
        if self._current is not None and self._current.uri == uri:
            self._current = None

    def accepted(self, text: str) -> None:
        self._accepted.append(text)

    def catch_up(self, request: CompletionRequest) -> None:
        """Before a request: what was accepted, and the document that was left for it with all that
        has been typed there."""
        if not request.use_context and "corpus" not in request.sources:
            return
        snapshot = request.snapshot
        while self._accepted:
            text = redact(self._accepted.popleft())
            self.sources.corpus.accept(self.tokenizer.encode(text))
        if self._current is not None and self._current.uri != snapshot.uri:
            self.learn(self._current)
            self._current = None
        if not request.is_foreseen:
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
            "infilling": self.prompter.template.describe(),
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
        self._prompt = Prompt([])
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
            infilling=self._backend.prompter.template.describe(),
            prompt_parts={
                "files": self._prompt.num_file_tokens,
                "suffix": self._prompt.num_suffix_tokens,
                "healed_bytes": len(self._prompt.seam.text),
            },
            ms={
                "load": self._backend._load_ms,
                "prefill": done.prefill_ms,
                "decode": done.decode_ms,
                "total": (time.perf_counter() - self._start) * 1000,
            },
        )

    def __iter__(self) -> Iterator[Piece]:
        backend, request = self._backend, self._request
        backend.catch_up(request)
        self._prompt = prompt = backend.prompt(request)
        if not prompt.token_ids:
            return  # nothing around the cursor: there is no text to continue
        text = TextStream(backend.tokenizer, prompt.seam.text)
        ends = backend.prompter.template.end_ids | backend.model.spec.eos_ids
        for token_id in request.forced_ids:
            if token_id in ends:
                return
            yield Piece(text.push(token_id), token_id)
        for step in self._steps(prompt):
            for token_id, choice in zip(step.token_ids, step.choices, strict=True):
                if token_id in ends:
                    return
                yield _piece(text.push(token_id), token_id, choice)

    def _steps(self, prompt: Prompt) -> Iterator[Step]:
        backend, request = self._backend, self._request
        uri = request.snapshot.uri
        slot = backend.model.slot(file_of(uri), prompt.token_ids)
        params = DecodeParams(
            max_new_tokens=request.max_tokens - len(request.forced_ids),
            temperature=request.temperature,
            seed=request.seed,
            strict=request.strict,
            constraint=prompt.seam.constraint(backend.prompter.index, request.forced_ids),
            with_choices=True,
        )
        self._drafter = backend.sources.drafter(
            uri, slot, request.sources, prompt.draft_suffix, params
        )
        drafter: Drafter | None = self._drafter
        if drafter is not None and prompt.seam.token_ids and not request.forced_ids:
            drafter = Healed(drafter, len(prompt.token_ids), prompt.seam.token_ids)
        return decode(
            slot,
            [*prompt.token_ids, *request.forced_ids],
            params,
            drafter=drafter,
            controller=backend.controller,
            stats=self._decoding,
            cancel=self._cancel,
        )


def _below_cells(snapshot: Snapshot, offset: int) -> tuple[Snapshot, int]:
    """A cell and a place in it as if its notebook were one file: below the cells above, without
    their secrets."""
    above = ""
    for cell in reversed(snapshot.above):
        if len(above) >= _MAX_ABOVE:
            break
        if cell.strip():
            above = f"{redact(cell).rstrip()}\n\n{above}"
    return replace(snapshot, text=above + snapshot.text, above=()), len(above) + offset


def _piece(text: str, token_id: int, choice: Choice) -> Piece:
    return Piece(
        text,
        token_id,
        log_prob=choice.log_prob - choice.log_allowed,
        margin=choice.log_prob - choice.runner_up_log_prob,
        runner_up=choice.runner_up,
    )
