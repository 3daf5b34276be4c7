"""Several sources behind one face: who is asked, who is chosen, who is tried again."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest

from lsp_server.engine.controller import Controller, CostCurve
from lsp_server.engine.drafters.combined import TRIAL_SHARE, Combined
from lsp_server.engine.types import DecodeParams, Draft
from lsp_server.errors import Cancelled
from tests.decoding import GREEDY, PROMPT, SAMPLING, plain, run, tokens
from tests.fake_model import KINDS, AdversarialDrafter, FakeModel, FakeSlot

WIDTHS = (1, 2, 3, 4, 5, 6, 9, 16)
CHEAP = CostCurve(WIDTHS, (10.0, 10.2, 10.4, 10.6, 10.8, 11.0, 11.6, 13.0))


@dataclass
class Source:
    name: str
    token_ids: tuple[int, ...] = (1, 2, 3)
    strength: int = 0
    step_cost_ms: float = 0.0
    reading_ms: float = 0.0
    drafts_trees: bool = False
    error: Exception | None = None
    limits: list[int] = field(default_factory=list)
    histories: list[tuple[int, ...]] = field(default_factory=list)

    def draft_cost_ms(self, depth: int) -> float:
        return depth * self.step_cost_ms

    def reading_cost_ms(self, token_ids) -> float:
        return self.reading_ms

    def propose(self, token_ids, limit, cancel=None) -> Draft:
        self.limits.append(limit)
        self.histories.append(tuple(token_ids))
        if self.error is not None:
            raise self.error
        return Draft(self.token_ids[:limit], self.name, strength=self.strength)


def slot() -> FakeSlot:
    opened = FakeSlot(FakeModel())
    opened.rows = [(token, False) for token in PROMPT[:-1]]
    return opened


def combined(free=(), priced=(), controller=None) -> Combined:
    return Combined(free, priced, controller or Controller(CHEAP), slot())


def rounds_until_trial(source: Source) -> int:
    """Of `CHEAP` rounds, by what is put aside in each."""
    price = source.step_cost_ms + source.reading_ms + CHEAP.cost(2) - CHEAP.cost(1)
    return math.ceil(price / (TRIAL_SHARE * CHEAP.cost(1)))


def learn(controller: Controller, name: str, *, right: bool, rounds: int = 60) -> None:
    for _ in range(rounds):
        controller.observe(Draft((1, 2, 3, 4), name), (1, 2, 3, 4, 5) if right else (9,))


def test_the_copy_with_the_better_record_is_taken():
    controller = Controller(CHEAP)
    learn(controller, "corpus", right=True)
    learn(controller, "lookup", right=False)
    both = combined([Source("lookup"), Source("corpus")], controller=controller)
    assert both.propose(PROMPT, 3).source == "corpus"


def test_a_priced_source_is_not_asked_while_a_copy_promises_more():
    controller = Controller(CHEAP)
    learn(controller, "lookup", right=True)
    model = Source("draft", step_cost_ms=3.0)
    assert combined([Source("lookup")], [model], controller).propose(PROMPT, 3).source == "lookup"
    assert model.limits == []


def test_a_priced_source_drafts_where_the_file_has_nothing_and_its_record_pays():
    controller = Controller(CHEAP)
    learn(controller, "draft", right=True)
    model = Source("draft", (1, 2, 3, 4), step_cost_ms=0.5)
    drafted = combined([Source("lookup", ())], [model], controller).propose(PROMPT, 4)
    assert (drafted.source, model.limits) == ("draft", [4])


def test_a_source_that_drafts_trees_is_planned_by_the_record_of_its_trees():
    controller = Controller(CHEAP)
    tree = Draft((1, 2), "eagle", parents=(-1, -1))

    class Trees(Source):
        def propose(self, token_ids, limit, cancel=None) -> Draft:
            self.limits.append(limit)
            return tree

    source = Trees("eagle", step_cost_ms=0.1, drafts_trees=True)
    both = combined([], [source], controller)
    for _ in range(200):
        if both.propose(PROMPT, 4).token_ids:
            controller.observe(tree, (9,))
    assert source.limits[-4:] == [1, 1, 1, 1]


def test_a_source_of_trees_that_has_nothing_once_is_still_planned_by_its_trees():
    controller = Controller(CHEAP)
    tree = Draft((1, 2), "eagle", parents=(-1, -1))
    answers = [tree, Draft((), "eagle"), *[tree] * 9]

    class Trees(Source):
        def propose(self, token_ids, limit, cancel=None) -> Draft:
            self.limits.append(limit)
            return answers[len(self.limits) - 1]

    source = Trees("eagle", step_cost_ms=0.1, drafts_trees=True)
    both = combined([], [source], controller)
    both.propose(PROMPT, 1)
    learn(controller, "eagle", right=False)
    for _ in range(60):
        controller.observe(tree, (1, 9))
    for _ in range(10):
        both.propose(PROMPT, 1)
    assert len(source.limits) == 11


def test_no_tree_is_asked_for_whose_width_costs_more_than_it_brings():
    """Of its depths each is right, but a pass of seven costs four plain ones."""
    controller = Controller(CostCurve(WIDTHS, (10.0, 11.0, 20.0, 26.0, 32.0, 37.0, 50.0, 80.0)))
    tree = Draft((1, 2, 3, 4, 5, 6), "eagle", parents=(-1, -1, -1, -1, -1, -1))

    class Trees(Source):
        def propose(self, token_ids, limit, cancel=None) -> Draft:
            self.limits.append(limit)
            return tree

    source = Trees("eagle", step_cost_ms=0.1, drafts_trees=True)
    both = combined([], [source], controller)
    for _ in range(320):
        if both.propose(PROMPT, 4).token_ids:
            controller.observe(tree, (1, 9))
    assert len(source.limits) <= 11


def test_a_source_comes_to_be_tried_however_often_the_document_changes():
    controller, records = Controller(CHEAP), {}
    learn(controller, "draft", right=False)
    model = Source("draft", step_cost_ms=9.0)
    for _ in range(rounds_until_trial(model) + 2):
        Combined([], [model], controller, slot(), records).propose(PROMPT, 4)
    assert model.limits == [1]


def test_a_source_is_not_tried_again_on_a_first_pass():
    controller = Controller(CHEAP)
    learn(controller, "draft", right=False)
    model = Source("draft", step_cost_ms=9.0)
    both = combined([], [model], controller)
    for _ in range(rounds_until_trial(model) + 2):
        both.propose([*PROMPT, 1, 2], 4)
    assert model.limits == []
    both.propose(PROMPT, 4)
    assert model.limits == [1]


def test_a_priced_source_that_costs_more_than_it_brings_is_left_alone_but_tried_again():
    controller = Controller(CHEAP)
    learn(controller, "draft", right=False)
    model = Source("draft", step_cost_ms=9.0)
    both = combined([], [model], controller)
    for _ in range(2 * rounds_until_trial(model) + 2):
        both.propose(PROMPT, 4)
    assert model.limits == [1, 1]


def test_a_source_that_must_read_the_text_first_is_tried_the_more_seldom():
    controller = Controller(CHEAP)
    learn(controller, "draft", right=False)
    model = Source("draft", step_cost_ms=9.0, reading_ms=90.0)
    both = combined([], [model], controller)
    for _ in range(rounds_until_trial(model) - 2):
        both.propose(PROMPT, 4)
    assert model.limits == []
    for _ in range(4):
        both.propose(PROMPT, 4)
    assert model.limits == [1]


def test_all_trials_together_take_the_share_of_the_time_that_is_theirs():
    controller = Controller(CHEAP)
    models = [Source(name, step_cost_ms=cost) for name, cost in (("a", 1.0), ("b", 3.0))]
    for model in models:
        learn(controller, model.name, right=False)
    both = combined([], models, controller)
    num_rounds = 4000
    for _ in range(num_rounds):
        both.propose(PROMPT, 4)
    spent = sum(len(m.limits) * (m.step_cost_ms + CHEAP.cost(2) - CHEAP.cost(1)) for m in models)
    share = spent / (num_rounds * CHEAP.cost(1))
    assert 0.9 * TRIAL_SHARE < share <= TRIAL_SHARE
    assert all(model.limits for model in models)


def test_a_trial_never_takes_the_place_of_a_copy_that_pays():
    controller = Controller(CHEAP)
    learn(controller, "lookup", right=True)
    learn(controller, "draft", right=False)
    model = Source("draft", step_cost_ms=1.0)
    both = combined([Source("lookup")], [model], controller)
    for _ in range(4 * rounds_until_trial(model)):
        assert both.propose(PROMPT, 3).source == "lookup"
    assert model.limits == []


def test_a_source_that_was_trained_drafts_at_once_and_is_left_alone_when_it_fails():
    controller = Controller(CHEAP)
    controller.expect_much("eagle")
    trained, other = Source("eagle", step_cost_ms=0.5), Source("draft", step_cost_ms=0.5)
    both = combined([], [trained, other], controller)
    for _ in range(40):
        draft = both.propose(PROMPT, 4)
        controller.observe(draft, (9,))
    assert 0 < len(trained.limits) < 20
    assert trained.limits[0] > 1


def test_a_copy_that_does_not_pay_is_still_shown_to_the_controller():
    controller = Controller(CostCurve(WIDTHS, tuple(10.0 * width for width in WIDTHS)))
    lookup = combined([Source("lookup")], controller=controller)
    draft = lookup.propose(PROMPT, 3)
    assert draft.token_ids == (1, 2, 3)
    assert controller.cut(draft, 1).token_ids == ()


def test_another_source_goes_on_where_a_copy_ends():
    controller = Controller(CHEAP)
    learn(controller, "lookup", right=True)
    learn(controller, "corpus", right=False)
    corpus = Source("corpus", (7, 8))
    draft = combined([Source("lookup", (1, 2)), corpus], controller=controller).propose(PROMPT, 4)
    assert draft.token_ids == (1, 2, 7, 8)
    assert corpus.histories[-1] == (*PROMPT, 1, 2)


def test_a_source_that_fails_is_counted_and_the_others_go_on():
    broken = Source("lookup", error=RuntimeError("a defect"))
    both = combined([broken, Source("corpus")])
    assert both.propose(PROMPT, 3).source == "corpus"
    assert both.num_failures == 1


def test_a_cancelled_source_ends_the_round():
    with pytest.raises(Cancelled):
        combined([Source("lookup", error=Cancelled("superseded"))]).propose(PROMPT, 3)


@pytest.mark.parametrize("params", [GREEDY, SAMPLING], ids=["greedy", "sampling"])
@pytest.mark.parametrize("other", KINDS)
@pytest.mark.parametrize("kind", ["right", "wrong", "alternating", "raising"])
def test_the_output_is_that_of_plain_decoding_whatever_the_sources_do(kind, other, params):
    model = FakeModel()
    expected = plain(model, params=params)
    right = [*PROMPT, *expected]
    target = FakeSlot(model)
    controller = Controller(CHEAP)
    priced = AdversarialDrafter(right, other, 1, name="draft")
    priced.drafts_trees = False
    priced.draft_cost_ms = lambda depth: 0.1 * depth
    priced.reading_cost_ms = lambda token_ids: 0.0
    free = [AdversarialDrafter(right, kind, name="lookup")]
    drafter = Combined(free, [priced], controller, target)
    steps = run(target, params=params, drafter=drafter, controller=controller)
    assert tokens(steps) == expected


def test_the_sources_named_in_the_steps_are_those_that_drafted():
    model = FakeModel()
    right = [*PROMPT, *plain(model, params=DecodeParams(max_new_tokens=40))]
    target, controller = FakeSlot(model), Controller(CHEAP)
    drafter = Combined([AdversarialDrafter(right, name="lookup")], [], controller, target)
    steps = run(target, drafter=drafter, controller=controller)
    assert {step.source for step in steps if step.num_proposed} == {"lookup"}


def test_a_source_that_fails_rests_and_is_tried_again():
    broken = Source("lookup", error=RuntimeError("a defect"))
    both = combined([broken, Source("corpus")])
    while both.num_failures < 2:
        both.propose(PROMPT, 3)
    assert len(broken.limits) == 2


def test_copies_that_do_not_pay_take_turns_in_being_judged():
    controller = Controller(CostCurve(WIDTHS, tuple(10.0 * width for width in WIDTHS)))
    both = combined([Source("lookup"), Source("corpus")], controller=controller)
    judged = {both.propose(PROMPT, 3).source for _ in range(2)}
    assert judged == {"lookup", "corpus"}


def test_a_strict_request_is_planned_with_the_strict_cost_of_a_plain_pass():
    """A plain pass of two rows costs what a pass with one drafted token does."""
    controller = Controller(CostCurve(WIDTHS, (10.0, 14.0, 40.0, 60.0, 80.0, 100.0, 160.0, 300.0)))
    learn(controller, "draft", right=True)
    model = Source("draft", step_cost_ms=8.0)
    both = combined([], [model], controller)
    assert both.propose(PROMPT, 1).token_ids == ()
    both.strict = True
    assert both.propose(PROMPT, 1).token_ids == (1,)


class Offers(Source):
    """The right token second among two siblings, at one depth."""

    def propose(self, token_ids, limit, cancel=None) -> Draft:
        self.limits.append(limit)
        return Draft((9, 1), self.name, parents=(-1, -1))


@pytest.mark.parametrize(
    ("curve", "trees_pay"),
    [
        (CHEAP, True),
        (CostCurve(WIDTHS, (10.0, 11.0, 30.0, 40.0, 50.0, 60.0, 90.0, 160.0)), False),
    ],
    ids=["flat", "steep"],
)
def test_of_a_sources_two_forms_the_one_that_pays_is_asked(curve, trees_pay):
    """A chain that is never right, a tree that is always right at its first depth."""
    controller = Controller(curve)
    controller.expect_much("eagle")
    chain = Source("eagle", (9, 9, 9), step_cost_ms=0.1)
    tree = Offers("eagle", step_cost_ms=0.1, drafts_trees=True)
    both = combined([], [chain, tree], controller)
    for _ in range(600):
        controller.observe(both.propose(PROMPT, 3), (1, 5))
    chain.limits.clear()
    tree.limits.clear()
    for _ in range(200):
        controller.observe(both.propose(PROMPT, 3), (1, 5))
    assert len(chain.limits) < 40
    assert (len(tree.limits) > 150) is trees_pay
