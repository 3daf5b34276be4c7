"""The portable graph form: GroupQueryAttention over KV buffers that past and present share.

A model is a folder, one session for each of its graphs (opened when it is first needed: a session
costs its weights again) and the KV slots of the documents that it completes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

from lsp_server.engine import providers
from lsp_server.engine.manifest import Manifest
from lsp_server.engine.onnx_graph import check_widths
from lsp_server.engine.onnx_slot import OnnxSlot
from lsp_server.engine.prefix import common_prefix
from lsp_server.engine.types import ModelSpec
from lsp_server.errors import ModelFilesError, SettingsError


class Sessions:
    """One for each graph form of a folder, opened at its first use."""

    def __init__(
        self, ort: ModuleType, folder: Path, manifest: Manifest, *, threads: int, provider: str
    ) -> None:
        """`provider` by its name in onnxruntime."""
        self.opened: dict[str, Any] = {}
        self._ort = ort
        self._folder = folder
        self._manifest = manifest
        self._threads = threads
        self._provider = provider

    def of(self, form: str) -> Any:
        """Raises ModelFilesError for a form that the folder lacks, or that cannot verify drafts."""
        if form not in self.opened:
            if form not in self._manifest.forms:
                raise ModelFilesError(
                    f"{self._manifest.name} has no {form!r} graph; build it again with"
                    " `tabahead models fetch` or `tabahead export build`."
                )
            path = self._folder / self._manifest.forms[form]
            session = providers.create_session(
                self._ort, path, threads=self._threads, provider=self._provider
            )
            if not any(item.name == "logit_rows" for item in session.get_inputs()):
                raise ModelFilesError(
                    f"{path} gives logits of its last row only, and a draft of n tokens is verified"
                    " by n + 1 rows; build the model with `tabahead export build`."
                )
            check_widths(session, path)
            self.opened[form] = session
        return self.opened[form]


class OnnxModel:
    """One loaded model."""

    def __init__(
        self,
        folder: Path,
        *,
        threads: int = 0,
        provider: str = "auto",
        slot_tokens: int = 2048,
        kv_memory_mb: int = 192,
        states: Sequence[str] = (),
    ) -> None:
        """Load `folder`.

        Args:
            threads: 0 means `providers.default_threads()`.
            slot_tokens: rows of one KV slot.
            kv_memory_mb: for all slots, kept states included; at least one is made whatever it
                says.
            states: which of `hidden_states` and `features` the slots keep, for trained heads.

        Raises:
            ModelMissingError, ModelFilesError, RuntimeMissingError, SettingsError.
        """
        self.manifest = Manifest.load(folder)
        self.manifest.check_sizes(folder)
        self.manifest.check_tokenizer(folder)
        self.folder = folder
        self.ort: ModuleType = providers.import_runtime()
        self.threads = threads or providers.default_threads()
        wanted = providers.choose_provider(self.ort, provider)
        self.sessions = Sessions(
            self.ort, folder, self.manifest, threads=self.threads, provider=wanted
        )
        self.provider: str = self.sessions.of("chain").get_providers()[0]
        if provider != "auto" and self.provider != wanted:
            raise SettingsError(
                f"{wanted} was asked for but onnxruntime fell back to {self.provider}; run"
                " `tabahead doctor`, or set engine.provider to auto."
            )
        self.state_sizes = self._state_sizes(states)
        capacity = min(slot_tokens, self.manifest.context_length)
        self._max_slots = max(1, kv_memory_mb * 2**20 // self._slot_bytes(capacity))
        self._slots: OrderedDict[tuple[str, int], OnnxSlot] = OrderedDict()
        """(document, number of a place in it) -> its slot, the least recently used first."""
        self._released: set[tuple[str, int]] = set()
        """Places whose slots any document may take; they come first."""
        self.spec = ModelSpec(
            name=self.manifest.name,
            vocab_size=self.manifest.vocab_size,
            context_length=capacity - 1,  # a strict pass may write one padding row
            eos_ids=frozenset(self.manifest.eos_ids),
            tree_rows_exact=self.manifest.tree_rows_exact,
            identity=self._identity(),
        )

    def slot(self, key: str, token_ids: Sequence[int] = ()) -> OnnxSlot:
        """The slot kept for `key`; when all are taken, the least recently used one is emptied.

        Who edits a document in several places goes to and fro between prompts that have little in
        common. So a slot more than half of which is of no use for the prompt `token_ids` is left as
        it is, and the document gets another one.
        """
        place = self._place(key, token_ids)
        slot = self._slots.pop(place, None)
        self._released.discard(place)
        if slot is None:
            if len(self._slots) >= self._max_slots:
                oldest, slot = self._slots.popitem(last=False)
                self._released.discard(oldest)
                slot.truncate(0)
            else:
                slot = OnnxSlot(self)
        self._slots[place] = slot
        return slot

    def num_held(self, key: str, token_ids: Sequence[int]) -> int:
        """How many leading tokens of a prompt stand in a slot of `key`."""
        slots = (self._slots[place] for place in self._places(key))
        return max((common_prefix(slot.token_ids, token_ids) for slot in slots), default=0)

    def holds(self, key: str) -> bool:
        """Whether `key` has a slot."""
        return bool(self._places(key))

    def has_room(self) -> bool:
        """Whether a slot can be had that no document is to keep."""
        return len(self._slots) < self._max_slots or bool(self._released)

    def _place(self, key: str, token_ids: Sequence[int]) -> tuple[str, int]:
        for place in self._places(key):
            held = self._slots[place].token_ids
            if 2 * common_prefix(held, token_ids) >= min(len(held), len(token_ids)):
                return place
        return next((key, n) for n in count() if (key, n) not in self._slots)

    def _places(self, key: str) -> list[tuple[str, int]]:
        """Of one document, the most recently used first."""
        return [place for place in reversed(self._slots) if place[0] == key]

    def release(self, key: str) -> None:
        """Let the next document have the slots of `key` first."""
        for place in self._places(key):
            self._slots.move_to_end(place, last=False)
            self._released.add(place)

    def _state_sizes(self, states: Sequence[str]) -> dict[str, int]:
        if states and not self.manifest.hidden_outputs:
            raise ModelFilesError(
                f"{self.manifest.name} gives no hidden states (builder"
                f" {self.manifest.builder_version}), which trained heads read; build it again."
            )
        layers = {"hidden_states": 1, "features": len(self.manifest.feature_layers)}
        return {name: layers[name] * self.manifest.hidden_size for name in states}

    def _identity(self) -> str:
        chain = self.manifest.files[self.manifest.forms["chain"]]
        parts = (
            self.manifest.name,
            self.manifest.weight_format,
            chain.sha256,
            self.provider,
            providers.processor_name(),
            f"threads={self.threads}",
            f"onnxruntime={self.ort.__version__}",
        )
        return "|".join(parts)

    def _slot_bytes(self, capacity: int) -> int:
        m = self.manifest
        kv_row = 2 * m.num_layers * m.num_kv_heads * m.head_size
        return 4 * capacity * (kv_row + sum(self.state_sizes.values()))
