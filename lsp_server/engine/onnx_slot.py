"""The KV cache of one document, and the passes over it: chain, tree, early exit.

The buffers are written in place; the committed length is the only truth, so rolling back is not
committing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lsp_server.cancellation import CancelToken
from lsp_server.engine.onnx_graph import BoundGraph, KVBuffers, chain_inputs, tree_inputs
from lsp_server.engine.prefill import PREFILL_CHUNK
from lsp_server.errors import InferenceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lsp_server.engine.onnx_model import OnnxModel
    from lsp_server.engine.types import Logits

_SMALLEST_BLOCK = 16
"""GroupQueryAttention takes rows in blocks, and a block of one row has a kernel of its own whose
last bits differ. Measured (onnxruntime 1.32, CPU): blocks are of twice the head size (128 for heads
of 64, 32 for heads of 16; less where the processor's cache is small), and rows are bit-identical at
every width but those that leave one row over. Blocks being even, a strict pass is never of an odd
width above what any block holds, nor of width 1."""

_FEWEST_STRICT_ROWS = 2
"""With 4-bit weights the head's kernel for one row of logits rounds otherwise, too."""


class OnnxSlot:
    """Slot protocol. Not thread-safe: one inference thread owns it."""

    def __init__(self, model: OnnxModel) -> None:
        # Not the model itself: it holds its slots, and a circle of hundreds of megabytes would stay
        # after the model has been replaced, until a full garbage collection that may never come.
        self._ort = model.ort
        self._manifest = manifest = model.manifest
        self._sessions = model.sessions
        self.spec = model.spec
        self.chunk = PREFILL_CHUNK
        self._kv = KVBuffers(
            model.ort,
            num_layers=manifest.num_layers,
            num_kv_heads=manifest.num_kv_heads,
            capacity=model.spec.context_length + 1,
            head_size=manifest.head_size,
        )
        self._graphs: dict[str, BoundGraph] = {}
        self._token_ids: list[int] = []
        self._pending: list[int] = []
        self._pending_strict = True
        self._num_strict = 0
        """Leading committed tokens whose rows have the bits that every strict pass gives."""
        self._states = {
            name: np.zeros((model.spec.context_length + 1, size), np.float32)
            for name, size in model.state_sizes.items()
        }

    @property
    def token_ids(self) -> Sequence[int]:
        return self._token_ids

    def states(self, name: str) -> NDArray[np.float32]:
        """The model's `hidden_states` or `features` of the committed tokens, [n, size].

        A view; only what the model was opened with is kept.
        """
        return self._states[name][: len(self._token_ids)]

    def forward(
        self,
        token_ids: Sequence[int],
        logit_rows: Sequence[int],
        *,
        parents: Sequence[int] | None = None,
        strict: bool = False,
        cancel: CancelToken | None = None,
    ) -> Logits:
        """Run the graph over rows n..n+T-1 without committing them.

        Args:
            token_ids: T >= 1 tokens that follow the committed ones.
            logit_rows: which of them need logits, as indices into `token_ids`, at least one.
            parents: of a tree; only where something is committed.
            strict: never leave a row alone in its block (a padding row is added and forgotten).
            cancel: stops the pass between two nodes.

        Returns:
            float32 [len(logit_rows), vocab]; a view that the next call overwrites. A draft model
            with a reduced head has the columns of its `draft_ids.npy` instead.
        """
        ids = list(token_ids)
        committed = len(self._token_ids)
        self._check(ids, committed)
        self._pending = ids
        lone_row = len(ids) % 2 == 1 and (len(ids) == 1 or len(ids) > _SMALLEST_BLOCK)
        self._pending_strict = parents is None and (strict or not lone_row)
        rows = list(logit_rows)
        if strict:
            rows += rows[-1:] * (_FEWEST_STRICT_ROWS - len(rows))
            ids = ids + ids[-1:] if lone_row else ids
        inputs = chain_inputs(ids, committed, rows)
        if parents is not None:
            inputs |= tree_inputs(parents, committed)
        form = "chain" if parents is None else "tree"
        outputs = {"logits": (1, len(rows), self._manifest.num_columns(form))}
        for name, kept in self._states.items():
            outputs[name] = (1, len(ids), kept.shape[1])
        results = self._graph(form).run(inputs, outputs, cancel)
        for name, kept in self._states.items():
            kept[committed : committed + len(ids)] = results[name][0]
        logits: Logits = results["logits"][0, : len(logit_rows)]
        return logits

    def exit_forward(
        self, token_ids: Sequence[int], num_before: int, cancel: CancelToken | None = None
    ) -> Logits:
        """Draft with the first layers only: logits float32 [columns of the form `exit`] after the
        last token.

        Writes scratch rows behind the committed ones and `num_before` drafted ones; the next
        verification overwrites them. Any pass in between would read a mixture, so none may be.
        """
        committed = len(self._token_ids) + num_before
        self._check(token_ids, committed)
        inputs = chain_inputs(token_ids, committed, [len(token_ids) - 1])
        outputs = {"logits": (1, 1, self._manifest.num_columns("exit"))}
        logits: Logits = self._graph("exit").run(inputs, outputs, cancel)["logits"][0, 0]
        return logits

    def commit(self, num_tokens: int, path: Sequence[int] = ()) -> None:
        committed = len(self._token_ids)
        rows = [*range(num_tokens), *path]
        self._kv.gather(committed, [committed + row for row in rows])
        for kept in self._states.values():
            kept[committed : committed + len(rows)] = kept[[committed + row for row in rows]]
        if self._pending_strict and self._num_strict == committed:
            self._num_strict += len(rows)
        self._token_ids.extend(self._pending[row] for row in rows)
        self._pending = []

    def truncate(self, num_tokens: int, *, strict: bool = False) -> None:
        del self._token_ids[min(num_tokens, self._num_strict) if strict else num_tokens :]
        self._num_strict = min(self._num_strict, len(self._token_ids))
        self._pending = []

    def _graph(self, form: str) -> BoundGraph:
        if form not in self._graphs:
            self._graphs[form] = BoundGraph(self._ort, self._sessions.of(form), self._kv)
        return self._graphs[form]

    def _check(self, ids: Sequence[int], committed: int) -> None:
        if committed + len(ids) > self.spec.context_length:
            raise InferenceError(
                f"{committed + len(ids)} tokens do not fit the slot of"
                f" {self.spec.context_length}; raise engine.slot_tokens or ask for fewer."
            )
        if not 0 <= min(ids) <= max(ids) < self.spec.vocab_size:
            # The quantised embedding would read past its table without a word.
            raise InferenceError(
                f"A token id is outside the vocabulary of {self.spec.vocab_size}; the tokenizer"
                f" does not belong to the model: run `tabahead models verify {self.spec.name}`."
            )
