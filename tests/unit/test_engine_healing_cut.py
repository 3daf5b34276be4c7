"""Where a text is cut to be healed, what may come instead, and what becomes of drafts there."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.engine.drafters.healed import Healed
from lsp_server.engine.healing import ByteIndex, Healing
from lsp_server.engine.tokenizer import TextStream, Tokenizer
from lsp_server.engine.types import DecodeParams, Draft
from tests.decoding import PROMPT, fixed, run, tokens
from tests.fake_model import VOCAB, FakeModel, FakeSlot
from tests.fim_models import VOCABULARIES, write_tokenizer

SINGLE = [bytes([byte]) for byte in b"abcd"]


def naive_cut(vocabulary: list[bytes], ids: list[int]) -> int:
    """The most tokens, up to three of 16 bytes, that one token begins with and is longer than."""
    found = 0
    for count in range(1, min(3, len(ids)) + 1):
        text = b"".join(vocabulary[token_id] for token_id in ids[-count:])
        if len(text) <= 16 and any(own.startswith(text) and own != text for own in vocabulary):
            found = count
    return found


@given(st.lists(st.text("abcd", min_size=1, max_size=5).map(str.encode), max_size=30), st.data())
def test_a_text_is_cut_where_one_token_might_go_on(vocabulary, data):
    vocabulary = [*SINGLE, *vocabulary]
    ids = data.draw(st.lists(st.integers(0, len(vocabulary) - 1), max_size=6))
    assert ByteIndex(vocabulary).num_to_cut(ids) == naive_cut(vocabulary, ids)


def test_bytes_that_no_token_stands_for_alone_are_not_cut():
    """There may be no other way to write them, and healing would find none."""
    vocabulary = [b"\xc3\xa9", b"\xc3\xa9a", b"a", b"ab", b"\xc3"]
    index = ByteIndex(vocabulary)
    assert index.num_to_cut([2, 0]) == 0
    assert index.num_to_cut([0, 2]) == 1
    assert ByteIndex([*vocabulary, b"\xa9"]).num_to_cut([2, 0]) == 1


def test_control_tokens_are_never_cut():
    index = ByteIndex([b"", b"a", b"ab", b"b"])
    assert index.num_to_cut([1, 0]) == 0
    assert index.num_to_cut([0, 1]) == 1


@given(st.text("ab ", min_size=1, max_size=6), st.data())
def test_a_text_begins_with_what_is_healed_or_with_what_may_come_instead(text, data):
    vocabulary = [b"", b"a", b"b", b" ", b"\n", b"ab", b"  ", b"\n\n", b" a", b"ba", b"\na"]
    healing = Healing(ByteIndex(vocabulary), text.encode(), b"\n")
    ids: list[int] = []
    while (allowed := healing.allowed(ids)) is not None:
        assert allowed.tolist() == sorted(set(allowed.tolist()))
        ids.append(data.draw(st.sampled_from(allowed.tolist())))
    written = b"".join(vocabulary[token_id] for token_id in ids)
    assert written.startswith((text.encode(), b"\n"))


@given(st.text("abcd", min_size=1, max_size=4), st.lists(st.integers(0, 3), max_size=5))
def test_tokens_that_are_given_count_as_written(text, ids):
    index = ByteIndex([*SINGLE, b"ab", b"cd"])
    whole = Healing(index, text.encode())
    for cut in range(len(ids) + 1):
        found = Healing(index, text.encode(), begun_ids=ids[:cut]).allowed(ids[cut:])
        expected = whole.allowed(ids)
        assert (found is None) == (expected is None)
        assert found is None or found.tolist() == expected.tolist()


# The text of the stream


@given(st.text("ab é漢😀", max_size=12), st.text("ab é漢😀", max_size=12), st.data())
def test_what_stands_there_already_is_no_text_of_the_stream(before, after, data):
    """Wherever the bytes are cut into tokens, within characters too."""
    everything = (before + after).encode()
    stream = TextStream(Bytes(), before.encode())
    assert "".join(pieces(stream, everything, data)) == after


@given(st.text("ab é", max_size=12), st.data())
def test_what_comes_instead_is_text(text, data):
    stream = TextStream(Bytes(), b" ")
    assert "".join(pieces(stream, ("\n" + text).encode(), data)) == "\n" + text


class Bytes:
    """A tokenizer whose tokens are given by their bytes."""

    def token_bytes(self, token_id):
        return token_id


def pieces(stream, everything, data):
    while everything:
        length = data.draw(st.integers(1, len(everything)))
        yield stream.push(everything[:length])
        everything = everything[length:]


@pytest.mark.parametrize("name", VOCABULARIES)
@given(text=st.text("abdefr ()\n漢é😀", max_size=60))
def test_healed_text_is_the_text(tmp_path_factory, name, text):
    """On every kind of vocabulary: prompt, cut and stream put together are what was there."""
    tokenizer, index = built(tmp_path_factory, name)
    ids = tokenizer.encode(text)
    num_kept = len(ids) - index.num_to_cut(ids)
    healed = b"".join(map(tokenizer.token_bytes, ids[num_kept:]))
    assert b"".join(map(tokenizer.token_bytes, ids[:num_kept])) + healed == text.encode()
    stream = TextStream(tokenizer, healed)
    rest = tokenizer.encode("end")
    assert "".join(map(stream.push, [*ids[num_kept:], *rest])) == "end"


_BUILT: dict[str, tuple[Tokenizer, ByteIndex]] = {}


def built(tmp_path_factory, name):
    if name not in _BUILT:
        path = tmp_path_factory.mktemp("vocabulary") / "tokenizer.json"
        write_tokenizer(path, VOCABULARIES[name])
        tokenizer = Tokenizer(path)
        table = [tokenizer.token_bytes(token_id) for token_id in range(tokenizer.vocab_size)]
        _BUILT[name] = tokenizer, ByteIndex(table)
    return _BUILT[name]


# Drafts


class Odd:
    """Constraint protocol: the first `count` new tokens have odd ids."""

    def __init__(self, count: int) -> None:
        self._count = count

    def allowed(self, new_ids):
        return None if len(new_ids) >= self._count else np.arange(1, VOCAB, 2, dtype=np.intp)


class Fixed:
    """Drafter protocol: always the same draft."""

    name = "fixed"

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def propose(self, token_ids, limit, cancel=None):
        return self._draft


@pytest.mark.parametrize(
    ("draft", "num_left"),
    [
        (Draft((1, 3, 4, 5), "a"), 2),
        (Draft((2, 3), "a"), 0),
        (Draft((1, 3, 5, 4, 6), "a"), 5),
        (Draft((1, 2, 3, 5), "a", parents=(-1, -1, 0, 1)), 2),
    ],
    ids=["cut", "first", "free", "tree"],
)
def test_what_the_constraint_bars_is_not_verified(draft, num_left):
    params = DecodeParams(8, constraint=Odd(3))
    step = run(FakeSlot(FakeModel()), params=params, drafter=Fixed(draft))[0]
    assert step.num_proposed == num_left


def test_a_drawn_draft_stays_whole_whatever_is_barred():
    probs = np.full((2, VOCAB), 1 / VOCAB)
    params = DecodeParams(8, temperature=1.0, constraint=Odd(3))
    step = run(FakeSlot(FakeModel()), params=params, drafter=Fixed(Draft((2, 2), "a", probs)))[0]
    assert step.num_proposed == 2


def test_where_the_model_writes_what_was_cut_healing_costs_no_pass():
    model = FakeModel()
    text = tokens(run(FakeSlot(model), params=DecodeParams(8)))
    nothing = Fixed(Draft((), "none"))
    drafter = Healed(nothing, len(PROMPT), text[:2])
    steps = run(FakeSlot(model), params=DecodeParams(8), drafter=drafter, controller=fixed(8))
    assert tokens(steps) == text
    assert steps[0].source == "healing"
    assert steps[0].num_accepted == 2
    assert [step.source for step in steps[1:]] == [None] * (len(steps) - 1)


def test_the_tokens_that_were_cut_are_drafted_once_and_where_there_is_no_other_draft():
    other = Draft((5,), "other")
    assert Healed(Fixed(other), 3, (1, 2)).propose([1, 2, 3], 8) == other
    healed = Healed(Fixed(Draft((), "none")), 3, (1, 2))
    assert healed.propose([1, 2, 3], 8) == Draft((1, 2), "healing")
    assert healed.propose([1, 2, 3], 1) == Draft((1,), "healing")
    assert not healed.propose([1, 2, 3, 1], 8).token_ids
    assert healed.name == "fixed"


# What is told


def test_how_probable_all_allowed_tokens_were_is_told():
    model = FakeModel(sharpness=1.0)
    params = DecodeParams(3, constraint=Odd(2), with_choices=True)
    steps = run(FakeSlot(model), params=params)
    choices = [choice for step in steps for choice in step.choices]
    history = list(PROMPT)
    for choice, token in zip(choices, tokens(steps), strict=True):
        row = model.logits([(before, False) for before in history]).astype(np.float64)
        probs = np.exp(row - row.max()) / np.exp(row - row.max()).sum()
        free = len(history) - len(PROMPT) >= 2
        expected = 0.0 if free else math.log(probs[1::2].sum())
        assert choice.log_allowed == pytest.approx(expected, abs=1e-5)
        assert choice.log_prob <= choice.log_allowed + 1e-6
        history.append(token)
