"""Any interleaving of requests, typing, edits, cancellations and abandoned generations leaves the
engine such that the next answer is that of a fresh one."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lsp_server.cancellation import CancelToken
from lsp_server.engine.controller import Controller, CostCurve
from lsp_server.engine.decode import decode
from lsp_server.engine.drafters.prompt_lookup import PromptLookup
from lsp_server.engine.types import DecodeParams
from lsp_server.errors import Cancelled
from tests.decoding import plain, run, tokens
from tests.fake_model import KINDS, VOCAB, AdversarialDrafter, FakeModel, FakeSlot

KEYS = ("a", "b")
CURVE = CostCurve((1, 2, 3, 4, 5), (10.0, 12.0, 14.0, 16.0, 18.0))
TOKEN = st.integers(1, VOCAB - 1)


class Session(RuleBasedStateMachine):
    """Two documents in one editor. The fake is sensitive to width, so strict mode is loud too."""

    @initialize(order=st.sampled_from([2, None]))
    def start(self, order) -> None:
        self.model = FakeModel(order=order, width_sensitive=True, max_slots=2, capacity=400)
        self.texts = {key: [1, 2, 3] for key in KEYS}
        self.lookup = PromptLookup()
        self.controller = Controller(CURVE)
        self.open: dict[str, object] = {}

    def slot(self, key: str) -> FakeSlot:
        return self.model.slot(key)

    @rule(key=st.sampled_from(KEYS), typed=st.lists(TOKEN, min_size=1, max_size=4))
    def type(self, key, typed) -> None:
        self.texts[key] = [*self.texts[key], *typed][-250:]

    @rule(key=st.sampled_from(KEYS), part=st.floats(0, 1))
    def delete(self, key, part) -> None:
        text = self.texts[key]
        self.texts[key] = text[: max(1, int(part * len(text)))]

    @rule(key=st.sampled_from(KEYS), part=st.floats(0, 0.999), token=TOKEN)
    def edit(self, key, part, token) -> None:
        text = self.texts[key]
        text[int(part * len(text))] = token

    @rule(key=st.sampled_from(KEYS), text=st.lists(TOKEN, max_size=9))
    def paste_much(self, key, text) -> None:
        self.texts[key] = [*self.texts[key], *([*text, 5] * 18)][-250:]

    @rule(
        key=st.sampled_from(KEYS),
        kind=st.sampled_from([*KINDS, "lookup", "none"]),
        strict=st.booleans(),
        temperature=st.sampled_from([0.0, 0.9]),
        count=st.integers(1, 12),
        wrong_at=st.integers(0, 3),
        controlled=st.booleans(),
    )
    def complete(self, key, kind, strict, temperature, count, wrong_at, controlled) -> None:
        """Strict answers equal a fresh engine's; default ones may differ by their row widths."""
        params = DecodeParams(
            max_new_tokens=count, temperature=temperature, seed=count, strict=strict
        )
        text = self.texts[key]
        expected = plain(self.model, text, params)
        drafter = {
            "lookup": self.lookup,
            "none": None,
        }.get(kind, AdversarialDrafter([*text, *expected], kind, wrong_at))
        controller = self.controller if controlled else None
        found = tokens(run(self.slot(key), text, params, drafter=drafter, controller=controller))
        if strict:
            assert found == expected
        self.texts[key] = [*text, *found[: wrong_at + 1]][-250:]

    @rule(key=st.sampled_from(KEYS), when=st.integers(1, 4), strict=st.booleans())
    def cancel_within_a_pass(self, key, when, strict) -> None:
        slot, token = self.slot(key), CancelToken()
        begun = len(slot.passes)
        slot.during_pass = lambda count: token.cancel() if count == begun + when else None
        params = DecodeParams(max_new_tokens=20, strict=strict)
        try:
            run(slot, self.texts[key], params, drafter=self.lookup, cancel=token)
        except Cancelled:
            assert len(slot.passes) == begun + when
        slot.during_pass = lambda count: None

    @rule(key=st.sampled_from(KEYS), count=st.integers(0, 3), strict=st.booleans())
    def abandon(self, key, count, strict) -> None:
        params = DecodeParams(max_new_tokens=20, strict=strict)
        steps = decode(self.slot(key), self.texts[key], params, drafter=self.lookup)
        for _ in range(count):
            next(steps)
        steps.close()

    @rule(key=st.sampled_from(KEYS), part=st.floats(0, 1))
    def truncate(self, key, part) -> None:
        slot = self.slot(key)
        slot.truncate(int(part * len(slot.token_ids)))

    @invariant()
    def both_documents_answer_as_in_a_fresh_engine(self) -> None:
        params = DecodeParams(max_new_tokens=3, strict=True)
        for key in KEYS:
            expected = plain(self.model, self.texts[key], params)
            copy = FakeSlot(self.model)
            copy.rows = list(self.slot(key).rows)
            assert tokens(run(copy, self.texts[key], params)) == expected


Session.TestCase.settings = settings(max_examples=25, stateful_step_count=20, derandomize=True)
TestAnyInterleaving = Session.TestCase
