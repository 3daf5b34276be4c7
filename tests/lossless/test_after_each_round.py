"""After each round, whatever has drafted: the target's cache is that of a fresh prefill, bit for
bit, and a source with a cache of its own drafts what a fresh one drafts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from lsp_server.backend.drafting import Make
from lsp_server.engine.decode import decode
from lsp_server.engine.drafters.draft_model import DraftModel
from lsp_server.engine.drafters.eagle import Eagle
from lsp_server.engine.onnx_slot import OnnxSlot
from lsp_server.engine.prefix import common_prefix
from lsp_server.engine.types import Draft, Drafter, Step
from tests.fake_model import FixedLengthController
from tests.lossless.sources import NAMED, PRICED, SOURCES, TakingTurns, Tiny, open_tiny
from tests.real_graph import STRICT, adversary, generate, kv_rows, prompt_of

PROMPTS = [prompt_of(length, 4, alphabet=8) for length in (2, 33, 140)]
TOLERANCE = {"atol": 1e-4, "rtol": 1e-4}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Tiny:
    return open_tiny(tmp_path_factory.mktemp("int8"), layers=4)


@pytest.fixture(scope="module")
def exact(tmp_path_factory) -> Tiny:
    return open_tiny(tmp_path_factory.mktemp("fp32"), weights="fp32", layers=4)


def emptied(tiny: Tiny) -> OnnxSlot:
    """The slot that is drafted for, and what the draft model has read of it."""
    tiny.draft.slot("drafted").truncate(0)
    slot = tiny.target.slot("drafted")
    slot.truncate(0)
    return slot


# The target's cache


def assert_is_a_fresh_prefill(tiny: Tiny, slot: OnnxSlot) -> None:
    """Rows, hidden states, and the logits of what comes next."""
    committed, fresh = list(slot.token_ids), tiny.target.slot("fresh")
    fresh.truncate(0)
    fresh.forward(committed, [0], strict=True)
    fresh.commit(len(committed))
    for name, rows in kv_rows(slot, len(committed)).items():
        np.testing.assert_array_equal(rows, kv_rows(fresh, len(committed))[name])
    np.testing.assert_array_equal(slot.states("hidden_states"), fresh.states("hidden_states"))
    expected = fresh.forward([7, 8], [0, 1], strict=True)
    np.testing.assert_array_equal(slot.forward([7, 8], [0, 1], strict=True), expected)


@pytest.mark.parametrize("kind", ["right", "wrong", "wrong_at", "alternating"])
def test_after_each_round_of_an_adversary_the_rows_are_those_of_a_fresh_prefill(tiny, kind):
    prompt = PROMPTS[1]
    tokens = generate(tiny.target.slot("plain"), prompt)
    for wrong_at in range(5):
        slot, controller = emptied(tiny), FixedLengthController(5)
        drafter = adversary(prompt, tokens, kind, wrong_at, tiny.target)
        for _ in decode(slot, prompt, STRICT, drafter=drafter, controller=controller):
            assert_is_a_fresh_prefill(tiny, slot)


@pytest.mark.parametrize("length", [1, 2, 5, 8])
@pytest.mark.parametrize("name", SOURCES)
def test_after_each_round_the_rows_are_those_of_a_fresh_prefill(tiny, name, length):
    num_proposed = 0
    for prompt in PROMPTS:
        tokens = generate(tiny.target.slot("plain"), prompt)
        slot, controller = emptied(tiny), FixedLengthController(length)
        drafter = tiny.alone(name, slot, [*prompt, *tokens])
        for step in decode(slot, prompt, STRICT, drafter=drafter, controller=controller):
            assert_is_a_fresh_prefill(tiny, slot)
            num_proposed += step.num_proposed
    assert num_proposed > 0


def test_after_each_round_of_the_products_drafter_the_rows_are_those_of_a_fresh_prefill(tiny):
    drafted: set[str | None] = set()
    for prompt in PROMPTS:
        tokens = generate(tiny.target.slot("plain"), prompt)
        slot, controller = emptied(tiny), TakingTurns()
        sources = tiny.product(controller)
        sources.corpus.put("other", [*prompt, *tokens])
        drafter = sources.drafter("drafted", slot, NAMED, (), STRICT)
        steps = decode(slot, prompt, STRICT, drafter=drafter, controller=controller)
        for step in steps:
            assert_is_a_fresh_prefill(tiny, slot)
            drafted.add(step.source)
        assert drafter.num_failures == 0
    assert drafted >= {*SOURCES}


# Caches of the sources' own


@dataclass
class Watched:
    """A source that keeps, beside each of its drafts, that of a fresh one."""

    inner: Drafter
    fresh: Callable[[], Drafter]
    """A source that has never drafted, over another slot with the same text."""
    drafts: list[tuple[Draft, Draft]] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def drafts_trees(self) -> bool:
        return self.inner.drafts_trees

    def draft_cost_ms(self, depth):
        return self.inner.draft_cost_ms(depth)

    def reading_cost_ms(self, token_ids):
        return self.inner.reading_cost_ms(token_ids)

    def propose(self, token_ids, limit, cancel=None):
        found = self.inner.propose(token_ids, limit, cancel)
        self.drafts.append((found, self.fresh().propose(token_ids, limit)))
        return found


def refilled(exact: Tiny, slot: OnnxSlot) -> OnnxSlot:
    """The slot `fresh` with the text of this one, and the draft model's of that name empty."""
    exact.draft.slot("fresh").truncate(0)
    fresh = exact.target.slot("fresh")
    fresh.truncate(0)
    if slot.token_ids:
        fresh.forward(slot.token_ids, [0], strict=True)
        fresh.commit(len(slot.token_ids))
    return fresh


def assert_own_cache_is_fresh(exact: Tiny, source: Drafter, history: list[int]) -> None:
    """But for the last bits: the passes of a source are not strict."""
    if isinstance(source, DraftModel):
        used, fresh = exact.draft.slot("drafted"), exact.draft.slot("fresh")
        num_rows = common_prefix(used.token_ids, history)
        fresh.truncate(0)
        fresh.forward(history[: max(num_rows, 1)], [0])
    elif isinstance(source, Eagle):
        used, fresh = source._rows, exact.eagle.cache(512, 0)
        num_rows = used.num_rows
        states = exact.target.slot("drafted").states("hidden_states")
        if num_rows:
            fresh.feed(states[:num_rows], history[1 : num_rows + 1])
    else:
        return
    for name, rows in kv_rows(used, num_rows).items():
        np.testing.assert_allclose(rows, kv_rows(fresh, num_rows)[name], **TOLERANCE)


def assert_sources_stay_fresh(
    exact: Tiny, watched: Sequence[Watched], steps: Iterator[Step], prompt: list[int]
) -> None:
    history = list(prompt)
    for step in steps:
        history += step.token_ids
        for source in watched:
            assert_own_cache_is_fresh(exact, source.inner, history)
    for source in watched:
        assert any(found.token_ids for found, _ in source.drafts)
        for found, fresh in source.drafts:
            assert found == fresh


def watched_alone(exact: Tiny, name: str, slot: OnnxSlot, known: list[int]) -> Watched:
    return Watched(
        exact.alone(name, slot, known, key="drafted"),
        lambda: exact.alone(name, refilled(exact, slot), known, key="fresh"),
    )


def watched_as_made(make: Make, exact: Tiny, into: list[Watched]) -> Make:
    def make_watched(uri: str, slot: OnnxSlot, trees: bool) -> Watched:
        into.append(
            Watched(make(uri, slot, trees), lambda: make("fresh", refilled(exact, slot), trees))
        )
        return into[-1]

    return make_watched


@pytest.mark.parametrize("length", [1, 3, 8])
@pytest.mark.parametrize("name", SOURCES)
def test_after_each_round_a_source_drafts_what_a_fresh_one_drafts(exact, name, length):
    for prompt in PROMPTS[1:]:
        slot, controller = emptied(exact), FixedLengthController(length)
        source = watched_alone(exact, name, slot, [*prompt, *prompt])
        steps = decode(slot, prompt, STRICT, drafter=source, controller=controller)
        assert_sources_stay_fresh(exact, [source], steps, prompt)


def test_after_each_round_of_the_products_drafter_its_sources_draft_what_fresh_ones_draft(exact):
    for prompt in PROMPTS[1:]:
        slot, controller = emptied(exact), TakingTurns()
        sources, watched = exact.product(controller), []
        for source in sources.opened.values():
            source.make = watched_as_made(source.make, exact, watched)
        drafter = sources.drafter("drafted", slot, NAMED, (), STRICT)
        steps = decode(slot, prompt, STRICT, drafter=drafter, controller=controller)
        assert_sources_stay_fresh(exact, watched, steps, prompt)
        assert drafter.num_failures == 0
        assert {source.name for source in watched} == {*PRICED}
