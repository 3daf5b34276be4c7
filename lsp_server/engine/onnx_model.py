"""The portable graph form: GroupQueryAttention over KV buffers that past and present share.

A slot's KV buffers are written in place; its committed length is the only truth, so rolling back is
not committing. Each slot keeps one IOBinding: binding anew costs more than the host's other work.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from lsp_server.cancellation import CancelToken
from lsp_server.engine import providers
from lsp_server.engine.manifest import Manifest
from lsp_server.engine.types import ModelSpec
from lsp_server.errors import Cancelled, InferenceError, SettingsError

if TYPE_CHECKING:
    from lsp_server.engine.types import Logits

_SMALLEST_BLOCK = 16
"""GroupQueryAttention takes rows in blocks, and a block of one row has a kernel of its own whose
last bits differ. Measured (onnxruntime 1.32, CPU): blocks are of twice the head size (128 for heads
of 64, 32 for heads of 16; less where the processor's cache is small), and rows are bit-identical at
every width but those that leave one row over. Blocks being even, a strict pass is never of an odd
width above what any block holds, nor of width 1."""


class OnnxModel:
    """One loaded target model and the KV slots of the documents it completes."""

    def __init__(
        self,
        folder: Path,
        *,
        threads: int = 0,
        provider: str = "auto",
        slot_tokens: int = 2048,
        kv_memory_mb: int = 192,
    ) -> None:
        """Load `folder`. `threads` 0 means `providers.default_threads()`.

        Raises ModelMissingError, ModelFilesError, RuntimeMissingError, SettingsError.
        """
        self.manifest = Manifest.load(folder)
        self.manifest.check_sizes(folder)
        self.manifest.check_tokenizer(folder)
        self.folder = folder
        self._ort = providers.import_runtime()
        self.threads = threads or providers.default_threads()
        wanted = providers.choose_provider(self._ort, provider)
        path = folder / self.manifest.forms["chain"]
        self._session = providers.create_session(
            self._ort, path, threads=self.threads, provider=wanted
        )
        self.provider: str = self._session.get_providers()[0]
        if provider != "auto" and self.provider != wanted:
            raise SettingsError(
                f"{wanted} was asked for but onnxruntime fell back to {self.provider}; run"
                " `tabahead doctor`, or set engine.provider to auto."
            )
        capacity = min(slot_tokens, self.manifest.context_length)
        self._max_slots = max(1, kv_memory_mb * 2**20 // self._slot_bytes(capacity))
        self._slots: OrderedDict[str, OnnxSlot] = OrderedDict()
        self.spec = ModelSpec(
            name=self.manifest.name,
            vocab_size=self.manifest.vocab_size,
            context_length=capacity - 1,  # a strict pass may write one padding row
            eos_ids=frozenset(self.manifest.eos_ids),
            identity="|".join(
                (
                    self.manifest.name,
                    self.manifest.weight_format,
                    self.manifest.files[self.manifest.forms["chain"]].sha256,
                    self.provider,
                    f"threads={self.threads}",
                    f"onnxruntime={self._ort.__version__}",
                )
            ),
        )

    def slot(self, key: str) -> OnnxSlot:
        """The slot kept for `key`; when all are taken, the least recently used one is emptied."""
        slot = self._slots.pop(key, None)
        if slot is None:
            if len(self._slots) >= self._max_slots:
                _, slot = self._slots.popitem(last=False)
                slot.truncate(0)
            else:
                slot = OnnxSlot(self._ort, self._session, self.spec, self.manifest)
        self._slots[key] = slot
        return slot

    def release(self, key: str) -> None:
        """Let the next document have the slot of `key` first."""
        if key in self._slots:
            self._slots.move_to_end(key, last=False)

    def _slot_bytes(self, capacity: int) -> int:
        m = self.manifest
        return 2 * m.num_layers * m.num_kv_heads * capacity * m.head_size * 4


class OnnxSlot:
    """The KV cache of one document. Not thread-safe: one inference thread owns it."""

    def __init__(self, ort: ModuleType, session: Any, spec: ModelSpec, manifest: Manifest) -> None:
        self._ort = ort
        self._session = session
        self.spec = spec
        self._token_ids: list[int] = []
        self._pending: list[int] = []
        self._pending_strict = True
        self._num_strict = 0
        """Leading committed tokens whose rows have the bits that every strict pass gives."""
        self._logits: dict[int, tuple[Logits, Any]] = {}
        self._binding = session.io_binding()
        # Fresh zero pages cost no memory until a row is written.
        shape = (1, manifest.num_kv_heads, spec.context_length + 1, manifest.head_size)
        for layer in range(manifest.num_layers):
            for part in ("key", "value"):
                rows = np.zeros(shape, np.float32)
                value = ort.OrtValue.ortvalue_from_numpy(rows)
                self._binding.bind_ortvalue_input(f"past_key_values.{layer}.{part}", value)
                self._binding.bind_ortvalue_output(f"present.{layer}.{part}", value)

    @property
    def token_ids(self) -> Sequence[int]:
        return self._token_ids

    def forward(
        self,
        token_ids: Sequence[int],
        logit_rows: Sequence[int],
        *,
        strict: bool = False,
        cancel: CancelToken | None = None,
    ) -> Logits:
        """Run the graph over rows n..n+T-1 without committing them.

        Args:
            token_ids: T >= 1 tokens that follow the committed ones.
            logit_rows: which of them need logits, as indices into `token_ids`, at least one.
            strict: never leave a row alone in its block (a padding row is added and forgotten).
            cancel: stops the pass between two nodes.

        Returns:
            float32 [len(logit_rows), vocab]; a view that the next call overwrites.
        """
        ids = list(token_ids)
        committed = len(self._token_ids)
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
        self._pending = ids
        lone_row = len(ids) % 2 == 1 and (len(ids) == 1 or len(ids) > _SMALLEST_BLOCK)
        self._pending_strict = strict or not lone_row
        logits = self._bind(ids + ids[-1:] if strict and lone_row else ids, committed, logit_rows)
        self._run(cancel)
        return logits

    def commit(self, num_tokens: int) -> None:
        if self._pending_strict and self._num_strict == len(self._token_ids):
            self._num_strict += num_tokens
        self._token_ids.extend(self._pending[:num_tokens])
        self._pending = []

    def truncate(self, num_tokens: int, *, strict: bool = False) -> None:
        del self._token_ids[min(num_tokens, self._num_strict) if strict else num_tokens :]
        self._num_strict = min(self._num_strict, len(self._token_ids))
        self._pending = []

    def _bind(self, ids: list[int], committed: int, logit_rows: Sequence[int]) -> Logits:
        total = committed + len(ids)
        small = {
            "input_ids": np.array([ids], np.int64),
            "seqlens_k": np.array([total - 1], np.int32),
            "total_sequence_length": np.array(total, np.int32),
            "logit_rows": np.array(logit_rows, np.int64),
        }
        for name, array in small.items():
            self._binding.bind_ortvalue_input(name, self._ort.OrtValue.ortvalue_from_numpy(array))
        logits, value = self._logits_buffer(len(logit_rows))
        self._binding.bind_ortvalue_output("logits", value)
        return logits

    def _logits_buffer(self, num_rows: int) -> tuple[Logits, Any]:
        """One output buffer per row count: onnxruntime refuses a bound output of another shape."""
        if num_rows not in self._logits:
            array = np.empty((1, num_rows, self.spec.vocab_size), np.float32)
            value = self._ort.OrtValue.ortvalue_from_numpy(array)
            self._logits[num_rows] = (array[0], value)
        return self._logits[num_rows]

    def _run(self, cancel: CancelToken | None) -> None:
        options = self._ort.RunOptions()
        cancel = cancel or CancelToken()
        cancel.raise_if_cancelled()
        with cancel.on_cancel(lambda: setattr(options, "terminate", True)):
            try:
                self._session.run_with_iobinding(self._binding, options)
            except Exception as error:
                if cancel.cancelled:
                    raise Cancelled(cancel.reason) from error
                raise InferenceError(f"The model failed while running ({error}).") from error
