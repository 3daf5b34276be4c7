"""The graphs of trained heads (contract in `export/README.md`): opened against their target, run.

One head is shared by all documents; what an EAGLE head remembers of a document is an `EagleCache`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lsp_server.cancellation import CancelToken
from lsp_server.engine import providers
from lsp_server.engine.drafter_manifest import DrafterManifest
from lsp_server.engine.drafters.cost import MEASURED_ROWS, DraftCost, measure_draft
from lsp_server.engine.drafters.vocabulary import read_draft_ids
from lsp_server.engine.onnx_graph import (
    BoundGraph,
    KVBuffers,
    chain_inputs,
    check_widths,
    tree_inputs,
)
from lsp_server.engine.types import ROOT
from lsp_server.errors import InferenceError, ModelFilesError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lsp_server.engine.onnx_model import OnnxModel

    States = NDArray[np.float32]
    Logits = NDArray[np.float32]

STATE_OF_KIND = {"medusa": "hidden_states", "eagle": "hidden_states", "eagle3": "features"}
"""Kind of head -> what the slots of its target must keep for it."""
MAX_PIECE = 256
"""Rows of a pass over the text: the bias has a column for every row so far."""


class MedusaHead:
    """Several heads on one hidden state: one guess each for the tokens after the next."""

    def __init__(self, folder: Path, target: OnnxModel) -> None:
        """Open the drafter in `folder` for `target`.

        Raises ModelMissingError, ModelFilesError, TokenizerMismatchError: not a head for this
        target.
        """
        self.manifest = open_manifest(folder, target, ("medusa",))
        self.column_ids = _column_ids(folder, self.manifest)
        self._graph = BoundGraph(target.ort, _session(folder, self.manifest, "medusa", target))

    def measure(self) -> DraftCost:
        """Time a draft. Raises InferenceError for a graph that does not run."""
        state = np.zeros(self.manifest.hidden_size, np.float32)
        return measure_draft(lambda: self.logits(state))

    def logits(self, state: States, cancel: CancelToken | None = None) -> Logits:
        """The heads' logits float32 [num_heads, columns] on one state [hidden] of the target.

        A view that the next call overwrites.
        """
        shape = (1, self.manifest.num_medusa_heads, len(self.column_ids))
        inputs = {"hidden": np.ascontiguousarray(state, np.float32)[None, None]}
        logits: Logits = self._graph.run(inputs, {"logits": shape}, cancel)["logits"][0]
        return logits


class EagleHead:
    """One layer over the target's states and the tokens that follow them."""

    def __init__(self, folder: Path, target: OnnxModel) -> None:
        """As `MedusaHead`."""
        self.manifest = open_manifest(folder, target, ("eagle", "eagle3"))
        self.state_name = STATE_OF_KIND[self.manifest.kind]
        self.column_ids = _column_ids(folder, self.manifest)
        self.ort = target.ort
        self.session = _session(folder, self.manifest, "eagle", target)
        self._fuse = None
        if self.manifest.kind == "eagle3":
            self._fuse = BoundGraph(target.ort, _session(folder, self.manifest, "fuse", target))
        self._state_size = target.state_sizes[self.state_name]

    def cache(self, num_tokens: int, num_drafted: int) -> EagleCache:
        """A fresh cache for a text of `num_tokens` and at most `num_drafted` rows behind it."""
        return EagleCache(self, num_tokens, num_drafted)

    def fuse(self, states: States, cancel: CancelToken | None = None) -> States:
        """States of the target [T, size] -> what the layer reads, [T, hidden]."""
        if self._fuse is None:
            return states
        shape = (1, len(states), self.manifest.hidden_size)
        inputs = {"features": np.ascontiguousarray(states)[None]}
        fused: States = self._fuse.run(inputs, {"fused": shape}, cancel)["fused"][0]
        return fused

    def measure(self) -> DraftCost:
        """Time a drafted row behind a text, and rows of the text. Raises InferenceError for a graph
        that does not run."""
        num_rows = min(MEASURED_ROWS, self.manifest.context_length // 2)
        cache = self.cache(2 * num_rows, 1)
        states = np.zeros((num_rows, self._state_size), np.float32)
        _, hidden = cache.feed(states, [0] * num_rows)

        def step() -> None:
            cache.rollback(num_rows)
            cache.draft(hidden[None], [0], [ROOT])

        def read() -> None:
            cache.rollback(num_rows)
            cache.feed(states, [0] * num_rows)

        return measure_draft(step, read, num_rows)


class EagleCache:
    """Rows of one document: those of the text, fed from the target's states, and behind them
    drafted ones, fed from the head's own. Row j reads the state of token j and token j + 1, and
    guesses token j + 2. Not thread-safe."""

    def __init__(self, head: EagleHead, num_tokens: int, num_drafted: int) -> None:
        manifest = head.manifest
        # Siblings share a position but not a row, and the head knows no more rows than positions.
        self.num_tokens = max(0, min(num_tokens, manifest.context_length - num_drafted))
        """Rows and positions that the text and the drafts on it may reach."""
        self.num_rows = 0
        """Rows of the text; drafted ones are not counted."""
        self._parents: list[int] = []
        self._max_drafted = num_drafted
        self._head = head
        self._kv = KVBuffers(
            head.ort,
            num_layers=1,
            num_kv_heads=manifest.num_kv_heads,
            capacity=self.num_tokens + num_drafted,
            head_size=manifest.head_size,
        )
        self._graph = BoundGraph(head.ort, head.session, self._kv)

    def rollback(self, num_rows: int) -> None:
        """Forget the drafted rows, and those of the text but the first `num_rows`."""
        self._parents = []
        self.num_rows = min(self.num_rows, num_rows)

    def feed(
        self, states: States, token_ids: Sequence[int], cancel: CancelToken | None = None
    ) -> tuple[Logits, States]:
        """Append rows of the text, in pieces; drafted rows are forgotten.

        Args:
            states: of the target, float32 [T, size]; row j belongs to the token before
                `token_ids[j]`.

        Returns:
            Of the last row: logits float32 [columns], a view, and hidden state [hidden], a copy.

        Raises:
            Cancelled between two pieces or within one: those before it stay.
        """
        self.rollback(self.num_rows)
        for begin in range(0, len(token_ids), MAX_PIECE):
            piece = list(token_ids[begin : begin + MAX_PIECE])
            inputs = chain_inputs(piece, self.num_rows, [len(piece) - 1])
            total = self.num_rows + len(piece)
            inputs["position_ids"] = np.arange(self.num_rows, total, dtype=np.int64)[None]
            inputs["attention_bias"] = np.zeros((1, 1, len(piece), total), np.float32)
            fused = self._head.fuse(states[begin : begin + MAX_PIECE], cancel)
            logits, hidden = self._run(inputs, fused, cancel)
            self.num_rows = total
        return logits[0], hidden[-1].copy()

    def draft(
        self,
        states: States,
        token_ids: Sequence[int],
        parents: Sequence[int],
        cancel: CancelToken | None = None,
    ) -> tuple[Logits, States]:
        """Append drafted rows that see the text, their ancestors and themselves.

        Args:
            states: the head's own hidden state of each row's parent, float32 [T, hidden].
            parents: numbers of the rows drafted since the text was fed, in order, or ROOT.

        Returns:
            logits float32 [T, columns] and hidden states [T, hidden]; views.
        """
        first = len(self._parents)
        tree = [*self._parents, *parents]
        num_rows = self.num_rows + first
        inputs = chain_inputs(token_ids, num_rows, range(len(token_ids)))
        whole = tree_inputs(tree, self.num_rows)  # of all drafted rows; the last ones are new
        inputs["position_ids"] = np.ascontiguousarray(whole["position_ids"][:, first:])
        inputs["attention_bias"] = np.ascontiguousarray(whole["attention_bias"][:, :, first:])
        if len(tree) > self._max_drafted or inputs["position_ids"].max() >= self.num_tokens:
            raise InferenceError("The drafted rows do not fit the head's cache.")
        results = self._run(inputs, states, cancel)
        self._parents = tree
        return results

    def _run(
        self, inputs: dict[str, Any], states: States, cancel: CancelToken | None
    ) -> tuple[Logits, States]:
        total = int(inputs["total_sequence_length"])
        if total > self.num_tokens + self._max_drafted:
            raise InferenceError("The text does not fit the head's cache.")
        inputs["features"] = np.ascontiguousarray(states, np.float32)[None]
        num_logits, columns = len(inputs["logit_rows"]), len(self._head.column_ids)
        outputs = {
            "logits": (1, num_logits, columns),
            "hidden": (1, len(states), self._head.manifest.hidden_size),
        }
        results = self._graph.run(inputs, outputs, cancel)
        return results["logits"][0], results["hidden"][0]


def open_manifest(folder: Path, target: OnnxModel, kinds: Sequence[str]) -> DrafterManifest:
    """The checked manifest of a drafter that belongs to `target`, whose slots keep its states."""
    manifest = DrafterManifest.load(folder)
    if manifest.kind not in kinds:
        raise ModelFilesError(
            f"{folder} holds a head of kind {manifest.kind}, where one of kind"
            f" {' or '.join(kinds)} is wanted; name another folder."
        )
    manifest.check_sizes(folder)
    manifest.check_target(target.manifest)
    state = STATE_OF_KIND[manifest.kind]
    if state not in target.state_sizes:
        raise ValueError(f"open the target with states=[{state!r}] for {manifest.name}")
    return manifest


def _session(folder: Path, manifest: DrafterManifest, form: str, target: OnnxModel) -> Any:
    path = folder / manifest.forms[form]
    session = providers.create_session(
        target.ort, path, threads=target.threads, provider=target.provider
    )
    check_widths(session, path)
    return session


def _column_ids(folder: Path, manifest: DrafterManifest) -> NDArray[np.int64]:
    """Which token each column of the logits stands for, int64 [columns]."""
    if manifest.reduced:
        return read_draft_ids(folder, manifest.draft_vocab_size, manifest.vocab_size)
    return np.arange(manifest.vocab_size, dtype=np.int64)
