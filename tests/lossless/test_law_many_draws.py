"""The law of the real loop with its real random numbers: 200,000 tokens on a table of exact
probabilities, 5,000 on a real graph, by chi-square. All seeds are fixed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction as F
from itertools import accumulate

import numpy as np
import pytest

from lsp_server.engine.decode import decode
from lsp_server.engine.onnx_model import OnnxModel
from lsp_server.engine.sampling import process
from lsp_server.engine.types import ROOT, DecodeParams, Draft, ModelSpec
from tests.chi_square import p_value
from tests.exact_law import Law
from tests.real_graph import prompt_of

PROMPT = [0, 1]
LENGTH = 3
NUM_TOKENS = 200_000
NUM_MODEL_TOKENS = 5_000

# Behind each last token; the two tables have no row in common.
TARGET = [("0.5", "0.3", "0.2", "0"), ("0.1", "0.2", "0.3", "0.4"), ("0.25",) * 4]
TARGET.append(("0.7", "0.1", "0.1", "0.1"))
SOURCE = [("0.2", "0.5", "0.3", "0"), ("0.4", "0.4", "0.1", "0.1"), ("0.1", "0.2", "0.3", "0.4")]
SOURCE.append(("0.25", "0", "0.5", "0.25"))


def law_of_texts(table: Sequence[Sequence[str]], length: int) -> Law:
    law = Law({(): F(1)})
    for _ in range(length):
        law = Law(
            {
                (*text, token): weight * F(p)
                for text, weight in law.items()
                for token, p in enumerate(table[text[-1] if text else PROMPT[-1]])
                if F(p)
            }
        )
    return law


class TableSlot:
    """Slot protocol; logits depend on the last token only, so that a pass costs next to nothing."""

    spec = ModelSpec("table", 4, 64, frozenset(), "table")
    chunk = 64

    def __init__(self, table: Sequence[Sequence[str]]) -> None:
        with np.errstate(divide="ignore"):
            self.logits = np.log(np.array(table, np.float64)).astype(np.float32)
        self.token_ids: list[int] = []
        self.pending: list[int] = []

    def forward(self, token_ids, logit_rows, *, parents=None, strict=False, cancel=None):
        self.pending = list(token_ids)
        return self.logits[[self.pending[row] for row in logit_rows]]

    def commit(self, num_tokens, path=()):
        self.token_ids += [self.pending[row] for row in (*range(num_tokens), *path)]

    def truncate(self, num_tokens, *, strict=False):
        del self.token_ids[num_tokens:]


class Drawing:
    """Draws each token of a chain from a table row, with a generator of its own."""

    name = "drawing"

    def __init__(self, rows: np.ndarray, seed: int = 5) -> None:
        self.rows = rows
        self.cumulative = [list(accumulate(row)) for row in rows]
        self.random = np.random.default_rng(seed).random

    def propose(self, token_ids, limit, cancel=None):
        drawn = [token_ids[-1]]
        for _ in range(limit):
            bounds = self.cumulative[drawn[-1]]
            drawn.append(bisect_right(bounds, self.random() * bounds[-1]))
        return Draft(tuple(drawn[1:]), self.name, self.rows[drawn[:-1]])


class OneHot(Drawing):
    """The same chains as if they were certain: exact too, with less acceptance."""

    def propose(self, token_ids, limit, cancel=None):
        return Draft(super().propose(token_ids, limit).token_ids, self.name)


class Bushy:
    """A tree: two tokens, each with two behind it."""

    name = "bushy"

    def propose(self, token_ids, limit, cancel=None):
        return Draft((1, 0, 2, 3, 0, 1), self.name, parents=(ROOT, ROOT, 0, 0, 1, 1))


SOURCE_ROWS = np.array(SOURCE, np.float64)
DRAFTERS = {
    "none": lambda: None,
    "one-hot chain": lambda: OneHot(SOURCE_ROWS),
    "drawn chain": lambda: Drawing(SOURCE_ROWS),
    "tree": Bushy,
}


def sample(slot, prompt, drafter, num_texts: int, params: DecodeParams) -> tuple[Counter, int]:
    """How often each text came, and how many drafted tokens were accepted in all."""
    counts: Counter[tuple[int, ...]] = Counter()
    num_accepted = 0
    for seed in range(num_texts):
        text: list[int] = []
        seeded = DecodeParams(
            max_new_tokens=params.max_new_tokens,
            temperature=params.temperature,
            top_k=params.top_k,
            strict=params.strict,
            seed=seed,
        )
        for step in decode(slot, prompt, seeded, drafter=drafter):
            text += step.token_ids
            num_accepted += step.num_accepted
        counts[tuple(text)] += 1
    return counts, num_accepted


SAMPLED = DecodeParams(max_new_tokens=LENGTH, temperature=1.0)


@pytest.mark.parametrize("name", DRAFTERS)
def test_two_hundred_thousand_tokens_follow_the_law(name):
    """A quarter of them for each kind of draft."""
    num_texts = -(-NUM_TOKENS // (len(DRAFTERS) * LENGTH))
    law = law_of_texts(TARGET, LENGTH)
    assert min(law.values()) * num_texts >= 5
    counts, num_accepted = sample(TableSlot(TARGET), PROMPT, DRAFTERS[name](), num_texts, SAMPLED)
    assert p_value(counts, law) > 1e-6
    assert (num_accepted > num_texts / 4) == (name != "none")


def test_the_same_check_rejects_a_wrong_correction(monkeypatch):
    monkeypatch.setattr("lsp_server.engine.verify.residual", lambda target, draft: target)
    counts, _ = sample(TableSlot(TARGET), PROMPT, Drawing(SOURCE_ROWS), 3_000, SAMPLED)
    assert p_value(counts, law_of_texts(TARGET, LENGTH)) < 1e-6


def test_the_same_check_rejects_draws_passed_off_as_the_likeliest(monkeypatch):
    """One-hot drafts are exact only where the token emitted is the target's own choice."""

    def accepting(draft, target_token):
        def rule(row, depth, children):
            if children and depth == 0:
                return children[0], draft.token_ids[children[0]]
            return None, target_token(row, depth)

        return rule

    monkeypatch.setattr("lsp_server.engine.decode.matching", accepting)
    counts, _ = sample(TableSlot(TARGET), PROMPT, OneHot(SOURCE_ROWS), 3_000, SAMPLED)
    assert p_value(counts, law_of_texts(TARGET, LENGTH)) < 1e-6


# A real graph


def law_of_model(slot, prompt: list[int], params: DecodeParams) -> Law:
    """Of texts of two tokens, from the rows that plain passes give."""

    def behind(history: list[int]) -> np.ndarray:
        slot.truncate(0)
        logits = slot.forward(history, [len(history) - 1], strict=True)[0].copy()
        return process(logits, params, history)

    law = Law()
    for first, p in enumerate(behind(prompt)):
        for second, q in enumerate(behind([*prompt, first]) if p else []):
            if q:
                law[first, second] = F(float(p)) * F(float(q))
    return law


@pytest.mark.parametrize("form", ["one-hot chain", "drawn chain"])
def test_five_thousand_tokens_of_a_real_graph_follow_its_law(tiny_folder, form):
    """Half of them for each form."""
    params = DecodeParams(max_new_tokens=2, temperature=6.0, top_k=4, strict=True)
    slot = OnnxModel(tiny_folder, threads=1, slot_tokens=512).slot("law")
    prompt = prompt_of(12, 3)
    law = law_of_model(slot, prompt, params)
    num_texts = NUM_MODEL_TOKENS // 4
    assert len(law) > 8
    assert min(law.values()) * num_texts >= 5
    rows = np.zeros((slot.spec.vocab_size,) * 2)
    likely = sorted({text[0] for text in law})
    rows[:, likely] = [0.4, 0.3, 0.2, 0.1]  # another law than the target's
    drafter = (Drawing if form == "drawn chain" else OneHot)(rows)
    counts, num_accepted = sample(slot, prompt, drafter, num_texts, params)
    assert p_value(counts, law) > 1e-6
    assert num_accepted > num_texts / 20
