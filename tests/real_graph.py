"""A slot of the real graph that remembers the logits behind each committed position."""

from __future__ import annotations

from collections.abc import Sequence

from lsp_server.engine.onnx_model import OnnxSlot


class RecordingSlot:
    """Slot protocol around an `OnnxSlot`. `bits[n]` are the logits behind the first n tokens.

    The last pass that wrote a position before it was committed is the one that counts.
    """

    def __init__(self, inner: OnnxSlot) -> None:
        self.inner = inner
        self.spec = inner.spec
        self.bits: dict[int, bytes] = {}
        self.widths: list[int] = []

    @property
    def token_ids(self) -> Sequence[int]:
        return self.inner.token_ids

    def forward(self, token_ids, logit_rows, *, strict=False, cancel=None):
        committed = len(self.inner.token_ids)
        logits = self.inner.forward(token_ids, logit_rows, strict=strict, cancel=cancel)
        self.widths.append(len(token_ids))
        for row, values in zip(logit_rows, logits, strict=True):
            self.bits[committed + row + 1] = values.tobytes()
        return logits

    def commit(self, num_tokens: int) -> None:
        self.inner.commit(num_tokens)

    def truncate(self, num_tokens: int, *, strict: bool = False) -> None:
        self.inner.truncate(num_tokens, strict=strict)
