"""Reading a prompt into a slot: in wide passes, and in narrow ones where wide ones are cut short.

A pass that is cancelled commits nothing. Were the next one as wide, keys that come faster than it
takes would keep a busy or slow machine from ever having read a prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lsp_server.engine.prefix import common_prefix
from lsp_server.errors import Cancelled, InferenceError

if TYPE_CHECKING:
    from lsp_server.cancellation import CancelToken
    from lsp_server.engine.types import DecodeStats, Slot

PREFILL_CHUNK = 64
"""Tokens a pass at most: wide enough to read fast, and of a pass that a key cuts short, which has
been for nothing, not too much is lost."""
LEAST_CHUNK = 16
"""Tokens a pass after cancellations: fewer would cost nearly as much time."""


def read(
    slot: Slot, prompt_ids: Sequence[int], strict: bool, cancel: CancelToken | None = None
) -> None:
    """Prefill, so that a `decode` of a prompt that begins so starts at once: all but the last
    token, which leads its first pass. Where it is read already nothing changes, also not what the
    slot has behind it. Raises what `decode` raises."""
    if common_prefix(slot.token_ids, prompt_ids) >= len(prompt_ids) - 1:
        return
    prefill(slot, prompt_ids, strict, cancel=cancel)
    _feed(slot, prompt_ids[len(slot.token_ids) : -1], strict, cancel)


def prefill(
    slot: Slot,
    history: Sequence[int],
    strict: bool,
    stats: DecodeStats | None = None,
    cancel: CancelToken | None = None,
) -> None:
    """Cut the slot to the common prefix and feed it until one pass can take what is fresh, which is
    at least one token."""
    if not history:
        raise InferenceError("The prompt is empty; there is nothing to continue.")
    if len(history) >= slot.spec.context_length:
        raise InferenceError(
            f"The prompt has {len(history)} tokens, the slot holds {slot.spec.context_length};"
            " lower prompt_tokens or raise engine.slot_tokens."
        )
    slot.truncate(min(common_prefix(slot.token_ids, history), len(history) - 1), strict=strict)
    if stats is not None:
        stats.prompt_tokens = len(history)
        stats.reused_tokens = len(slot.token_ids)
    while len(history) - len(slot.token_ids) > slot.chunk:
        begin = len(slot.token_ids)
        _feed(slot, history[begin : begin + slot.chunk], strict, cancel)


@contextmanager
def reading(slot: Slot, num_fresh: int) -> Iterator[None]:
    """Around a pass that reads so many tokens of a prompt: halves the next one if it is cancelled,
    and lets it grow again if it is not."""
    try:
        yield
    except Cancelled:
        if num_fresh > LEAST_CHUNK:
            slot.chunk = max(LEAST_CHUNK, num_fresh // 2)
        raise
    if num_fresh >= slot.chunk:
        slot.chunk = min(PREFILL_CHUNK, 2 * slot.chunk)


def _feed(slot: Slot, tokens: Sequence[int], strict: bool, cancel: CancelToken | None) -> None:
    if tokens:
        with reading(slot, len(tokens)):
            slot.forward(tokens, [len(tokens) - 1], strict=strict, cancel=cancel)
        slot.commit(len(tokens))
