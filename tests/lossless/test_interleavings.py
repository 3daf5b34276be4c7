"""Any interleaving of requests, typing, edits, cancellations and abandoned generations over two
documents, with every source drafting: each answer is that of a fresh engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from lsp_server.cancellation import CancelToken
from lsp_server.engine.controller import Controller, CostCurve
from lsp_server.engine.decode import decode
from lsp_server.engine.onnx_model import OnnxModel
from lsp_server.engine.prefill import read
from lsp_server.engine.types import DecodeParams, DecodeStats
from lsp_server.errors import Cancelled
from tests.fake_model import KINDS
from tests.lossless.sources import NAMED, SOURCES, TakingTurns, Tiny, open_tiny
from tests.real_graph import RecordingSlot, adversary, generate, generate_bits

KEYS = ("a", "b", "c")
"""The third document takes the slot of one of the first two."""
MOST_TOKENS = 160
FLAT = CostCurve((1, 2), (10.0, 10.5))


@dataclass(frozen=True)
class Request:
    """Asked for once for each of `modes`, each time behind what was taken of the answer before."""

    sources: tuple[str, ...]
    modes: tuple[bool, ...]
    """Strict or not."""
    temperature: float
    count: int
    taken: int
    """Tokens of each answer that the author accepts."""


KEY = st.sampled_from("aaabbc")
TOKEN = st.integers(3, 6)
"""Few different ones, so that what was typed has been typed before."""
SOURCES_NAMED = st.sampled_from(
    [NAMED, NAMED, NAMED, (), ("lookup", "corpus"), ("draft",), ("heads",), ("early_exit",)]
)
PASS = st.sampled_from([1, 1, 2, 2, 3, 4, 6, 9])
"""That is cancelled. Sampled, as most numbers here are: what Hypothesis draws from a range depends
on the constants of all modules that a run has imported, and with it how many passes are hit."""
MODES = [(True,), (False,), (False, True), (True, False, True), (False, False, True)]
REQUEST = st.builds(
    Request,
    SOURCES_NAMED,
    st.sampled_from(MODES),
    st.sampled_from([0.0, 0.0, 0.0, 0.9]),
    count=st.sampled_from([1, 4, 8, 12]),
    taken=st.sampled_from([0, 2, 8, 12]),
)


class CancelledInPass(CancelToken):
    """Set during the pass number `when` of whatever graph: before its first node, or behind its
    last, when its rows are written and not yet committed."""

    def __init__(self, when: int, behind: bool) -> None:
        super().__init__()
        self._num_left, self._behind = when, behind

    @contextmanager
    def on_cancel(self, callback) -> Iterator[None]:
        self._num_left -= 1
        with super().on_cancel(callback):
            if self._num_left == 0 and not self._behind:
                self.cancel("superseded")
            yield
        if self._num_left == 0 and self._behind:
            self.cancel("superseded")
            self.raise_if_cancelled()


@dataclass
class Seen:
    """What happened over all sessions of a run."""

    sources: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)


class Session(RuleBasedStateMachine):
    def __init__(self, tiny: Tiny, plain: OnnxModel, seen: Seen, default_exact: bool) -> None:
        """`plain`: the same model without drafts; `default_exact`: it rounds so little that
        default mode gives the tokens of plain decoding, too."""
        super().__init__()
        self.tiny, self.plain, self.seen = tiny, plain.slot("plain"), seen
        self.default_exact = default_exact
        self.texts = {key: [5, 6, 7, 8] for key in KEYS}
        self.below: dict[str, list[int]] = {key: [] for key in KEYS}
        """The text after the cursor."""
        self.current = KEYS[0]

    @initialize(
        trees=st.sampled_from([True, True, False]), learning=st.booleans(), first=st.integers(0, 5)
    )
    def start(self, trees, learning, first) -> None:
        for key in KEYS:
            self.tiny.target.slot(key).truncate(0)
            self.tiny.draft.slot(key).truncate(0)
        self.controller = Controller(FLAT) if learning else TakingTurns(first)
        self.sources = self.tiny.product(self.controller, trees=trees)

    @rule(
        key=KEY,
        typed=st.lists(TOKEN, min_size=1, max_size=4),
        times=st.sampled_from([1, 1, 1, 40]),
        request=REQUEST,
    )
    def type(self, key, typed, times, request) -> None:
        self._write(key, [*self.texts[key], *typed * times])
        self._ask(key, request)

    @rule(key=KEY, part=st.floats(0, 1), request=REQUEST)
    def go_back(self, key, part, request) -> None:
        """What is left below tells lookup how the text went on."""
        text = self.texts[key]
        self.below[key] = [3, *text]
        self._write(key, text[: max(1, int(part * len(text)))])
        self._ask(key, request)

    @rule(key=KEY, part=st.floats(0, 0.999), token=TOKEN, request=REQUEST)
    def edit(self, key, part, token, request) -> None:
        text = list(self.texts[key])
        text[int(part * len(text))] = token
        self._write(key, text)
        self._ask(key, request)

    @rule(key=KEY, other=KEY, part=st.floats(0, 1), request=REQUEST)
    def copy(self, key, other, part, request) -> None:
        """As far as the cursor: the corpus knows how the text went on."""
        text = self.texts[other]
        self.below[key] = []
        self._write(key, text[: max(2, int(part * len(text)))])
        self._ask(key, request)

    @rule(key=KEY, part=st.floats(0, 1), request=REQUEST)
    def truncate(self, key, part, request) -> None:
        slot = self.tiny.target.slot(key)
        slot.truncate(int(part * len(slot.token_ids)))
        self._ask(key, request)

    @rule(key=KEY, strict=st.booleans(), request=REQUEST)
    def read_ahead(self, key, strict, request) -> None:
        read(self.tiny.target.slot(key), self.texts[key], strict)
        self._ask(key, request)

    @rule(key=KEY, kind=st.sampled_from(KINDS), strict=st.booleans(), wrong_at=st.integers(0, 3))
    def complete_with_an_adversary(self, key, kind, strict, wrong_at) -> None:
        params, text = DecodeParams(8, strict=strict), self.texts[key]
        self.plain.truncate(0)
        tokens = generate(self.plain, text, params)
        drafter = adversary(text, tokens, kind, wrong_at, self.tiny.target)
        found = generate(self.tiny.target.slot(key), text, params, drafter=drafter)
        assert found == tokens or not (strict or self.default_exact)

    @rule(key=KEY, cut=REQUEST, when=PASS, behind=st.booleans(), request=REQUEST)
    def cancel_within_a_pass(self, key, cut, when, behind, request) -> None:
        params = DecodeParams(12, cut.temperature, strict=cut.modes[0])
        try:
            self._generate(key, cut.sources, params, cancel=CancelledInPass(when, behind))
        except Cancelled:
            self.seen.events["cancelled"] += 1
        self._ask(key, request)

    @rule(key=KEY, left=REQUEST, count=st.integers(0, 3), request=REQUEST)
    def abandon(self, key, left, count, request) -> None:
        params = DecodeParams(12, left.temperature, strict=left.modes[0])
        slot, drafter = self._enter(key, left.sources, params)
        more = {"drafter": drafter, "controller": self.controller}
        steps = decode(slot, self.texts[key], params, **more)
        for _ in range(count):
            next(steps, None)
        steps.close()
        self._ask(key, request)

    def _write(self, key, text) -> None:
        self.texts[key] = text[-MOST_TOKENS:]

    def _ask(self, key, request) -> None:
        for strict in request.modes:
            params = DecodeParams(request.count, request.temperature, strict=strict)
            found = self._answer(key, request.sources, params)
            self.sources.corpus.accept(found[: request.taken])
            self._write(key, [*self.texts[key], *found[: request.taken]])

    def _answer(self, key, sources, params) -> list[int]:
        """What is drawn with a drafter's own distribution is another text of the same law: it is
        not compared, but leaves its traces."""
        found, bits = self._generate(key, sources, params)
        self.plain.truncate(0)
        if params.greedy and params.strict:
            expected = generate_bits(RecordingSlot(self.plain), self.texts[key], params=params)
            assert (found, bits) == expected
        elif params.greedy and self.default_exact:
            assert found == generate(self.plain, self.texts[key], params)
        return found

    def _enter(self, key, sources, params):
        """The slot and the drafter of a document, and the one that was left in the corpus."""
        if key != self.current:
            self.sources.corpus.put(self.current, self.texts[self.current])
            self.current = key
        slot = self.tiny.target.slot(key)
        return slot, self.sources.drafter(key, slot, sources, self.below[key], params)

    def _generate(self, key, sources, params, cancel=None):
        """Tokens, and in strict mode the logits behind each."""
        slot, drafter = self._enter(key, sources, params)
        stats = DecodeStats()
        more = {"params": params, "controller": self.controller, "stats": stats, "cancel": cancel}
        more["drafter"] = drafter
        try:
            if params.strict:
                return generate_bits(RecordingSlot(slot), self.texts[key], **more)
            return generate(slot, self.texts[key], **more), []
        finally:
            assert stats.num_drafter_failures == 0
            assert drafter is None or drafter.num_failures == 0
            for name, counts in stats.sources.items():
                self.seen.sources.update({name: counts["proposed"]})
                self.seen.events["accepted"] += counts["accepted"]


@pytest.mark.parametrize(("weights", "default_exact"), [("fp32", True), ("int8", False)])
def test_any_sequence_of_requests_edits_and_cancellations_equals_a_fresh_engine(
    tmp_path_factory, weights, default_exact
):
    root = tmp_path_factory.mktemp(weights)
    tiny = open_tiny(root, weights=weights, layers=4, kv_memory_mb=1)
    plain = OnnxModel(root / "target", threads=1, slot_tokens=512)
    seen = Seen()
    run_state_machine_as_test(
        lambda: Session(tiny, plain, seen, default_exact),
        settings=settings(max_examples=25, stateful_step_count=25, derandomize=True),
    )
    assert {*SOURCES} <= {*seen.sources}
    assert seen.events["cancelled"] > 10
    assert seen.events["accepted"] > 100
