"""Short ways to run the decoding loop on a fake model."""

from __future__ import annotations

from collections.abc import Iterable

from lsp_server.engine.decode import decode
from lsp_server.engine.types import DecodeParams, Step
from tests.fake_model import FakeModel, FakeSlot, FixedLengthController

PROMPT = [3, 1, 4, 1, 5]
SAMPLING = DecodeParams(max_new_tokens=24, temperature=1.0, seed=7)
GREEDY = DecodeParams(max_new_tokens=24)


def run(slot, prompt=PROMPT, params: DecodeParams = GREEDY, **more) -> list[Step]:
    return list(decode(slot, prompt, params, **more))


def tokens(steps: Iterable[Step]) -> list[int]:
    return [token for step in steps for token in step.token_ids]


def collect(steps: Iterable[Step], into: list[int]) -> None:
    """Keep what was emitted also where the generation ends in an error."""
    for step in steps:
        into += step.token_ids


def plain(model: FakeModel, prompt=PROMPT, params: DecodeParams = GREEDY) -> list[int]:
    return tokens(run(FakeSlot(model), prompt, params))


def fixed(length: int) -> FixedLengthController:
    return FixedLengthController(length)
