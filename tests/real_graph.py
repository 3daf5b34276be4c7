"""Short ways to decode on the real graph of the tiny model, keeping the logits' bits."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from lsp_server.engine.decode import decode
from lsp_server.engine.onnx_slot import OnnxSlot
from lsp_server.engine.types import DecodeParams
from tests.fake_model import AdversarialDrafter

EOS = 2
STRICT = DecodeParams(max_new_tokens=16, strict=True)


class RecordingSlot:
    """Slot protocol around an `OnnxSlot`. `bits[n]` are the logits behind the first n tokens.

    The last pass that wrote a position before it was committed is the one that counts.
    """

    def __init__(self, inner: OnnxSlot) -> None:
        self.inner = inner
        self.spec = inner.spec
        self.chunk = inner.chunk
        self.bits: dict[int, bytes] = {}
        self.widths: list[int] = []

    @property
    def token_ids(self) -> Sequence[int]:
        return self.inner.token_ids

    def forward(self, token_ids, logit_rows, *, parents=None, strict=False, cancel=None):
        assert parents is None, "bits are kept of chains only"
        committed = len(self.inner.token_ids)
        logits = self.inner.forward(token_ids, logit_rows, strict=strict, cancel=cancel)
        self.widths.append(len(token_ids))
        for row, values in zip(logit_rows, logits, strict=True):
            self.bits[committed + row + 1] = values.tobytes()
        return logits

    def commit(self, num_tokens: int, path: Sequence[int] = ()) -> None:
        self.inner.commit(num_tokens, path)

    def truncate(self, num_tokens: int, *, strict: bool = False) -> None:
        self.inner.truncate(num_tokens, strict=strict)


def prompt_of(length: int, seed: int, alphabet: int = 300) -> list[int]:
    rng = random.Random(f"{length} {seed}")
    return [rng.randrange(3, 3 + alphabet) for _ in range(length)]


def generate(slot, prompt, params=STRICT, **more) -> list[int]:
    return [t for step in decode(slot, prompt, params, **more) for t in step.token_ids]


def generate_bits(slot: RecordingSlot, prompt, **more) -> tuple[list[int], list[bytes]]:
    slot.bits.clear()
    tokens = generate(slot, prompt, **more)
    return tokens, [slot.bits[len(prompt) + i] for i in range(len(tokens))]


def adversary(prompt, tokens, kind, wrong_at, model) -> AdversarialDrafter:
    right = [*prompt, *tokens]
    return AdversarialDrafter(right, kind, wrong_at, vocab=model.spec.vocab_size, eos=EOS)


def rows_of(slot, prefix: list[int], chunks: list[int], *, strict: bool) -> np.ndarray:
    """Logits behind `prefix`, fed in passes of these widths."""
    slot.truncate(0)
    for width in chunks:
        begin = len(slot.token_ids)
        logits = slot.forward(prefix[begin : begin + width], [width - 1], strict=strict)
        slot.commit(width)
    assert len(slot.token_ids) == len(prefix)
    return logits[0].copy()


def kv_rows(cache, num_rows: int) -> dict[str, np.ndarray]:
    """Layer and part -> the first rows of a slot or of a head's cache, [1, heads, rows, size]."""
    return {name: array[:, :, :num_rows] for name, array in cache._kv.arrays.items()}
