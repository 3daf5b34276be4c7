"""What the engine suites share: a loaded model, prompts as token ids, one decoding run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lsp_server.backend.loader import load_engine
from lsp_server.bench.cases import Case
from lsp_server.cancellation import CancelToken
from lsp_server.completion import CompletionRequest, Snapshot
from lsp_server.engine.controller import Controller
from lsp_server.engine.decode import decode
from lsp_server.engine.drafters.prompt_lookup import PromptLookup
from lsp_server.engine.types import DecodeParams, DecodeStats, Drafter, Slot
from lsp_server.settings.tree import Settings


@dataclass(frozen=True, slots=True)
class Prompt:
    name: str
    token_ids: list[int]
    suffix_ids: list[int]


@dataclass(frozen=True, slots=True)
class Run:
    token_ids: list[int]
    stats: DecodeStats
    seconds: float

    @property
    def ms_per_token(self) -> float:
        return 1000 * self.seconds / max(1, len(self.token_ids))


class Bench:
    """A model, one slot of it, and the prompts of one suite."""

    def __init__(self, settings: Settings, cases: Sequence[Case] = (), max_prompt: int = 0) -> None:
        self.backend = load_engine(settings, lambda *_: None, CancelToken())
        self.prompts = [self._prompt(case, max_prompt) for case in cases]
        self.slot: Slot = self.backend.model.slot("bench")

    @property
    def controller(self) -> Controller:
        return self.backend.controller

    def _prompt(self, case: Case, max_prompt: int) -> Prompt:
        """As the product makes it without healing, cut to the suite's length."""
        snapshot = Snapshot(case.name, 0, "", case.prefix + case.suffix)
        request = CompletionRequest(
            snapshot, len(case.prefix), max_tokens=1, healing=False, use_context=False
        )
        prompt = self.backend.prompt(request)
        return Prompt(case.name, prompt.token_ids[-max_prompt:], list(prompt.draft_suffix))

    def lookup(self, prompt: Prompt) -> PromptLookup:
        drafter = PromptLookup()
        drafter.set_suffix(prompt.suffix_ids)
        return drafter

    def run(
        self,
        token_ids: Sequence[int],
        params: DecodeParams,
        *,
        drafter: Drafter | None = None,
        controller: Controller | None = None,
    ) -> Run:
        """Decode on the suite's slot, which keeps what it has in common with `token_ids`."""
        stats = DecodeStats()
        start = time.perf_counter()
        steps = decode(
            self.slot, token_ids, params, drafter=drafter, controller=controller, stats=stats
        )
        tokens = [token for step in steps for token in step.token_ids]
        return Run(tokens, stats, time.perf_counter() - start)

    def describe(self) -> dict[str, Any]:
        return dict(self.backend.describe())
