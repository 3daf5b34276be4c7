"""The rule by which an edit says that ghost text was typed along or taken."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.completion import CompletionRequest, CompletionStats, Origin, Snapshot, TextEdit
from lsp_server.documents import Change, DocumentStore, Encoding, Range, num_units, position_at
from lsp_server.statistics.acceptance import Acceptance
from lsp_server.statistics.inference import MAX_BURST, Offer
from lsp_server.statistics.shown import Shown

URI = "file:///a.py"
PIECES = ("a", "bc", " ", "    ", "\n", "(", ")", '"', "é", "漢", "👍", "word", "x = 1")
code = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)
items = st.lists(st.sampled_from(PIECES), min_size=1, max_size=8).map("".join)


def offer(text: str, **around: str) -> Offer:
    return Offer(text, **{"head": "", "left": "", "right": "", "tail": "", **around})


@given(items, code, code, code, st.data(), st.sampled_from(("\n", "\r\n", "\r")))
def test_any_beginning_of_an_item_in_its_place_is_seen(text, head, right, tail, data, line_end):
    head, right, tail = (part.replace("\n", line_end) for part in (head, right, tail))
    num = data.draw(st.integers(0, len(text)))
    whole = head + text.replace("\n", line_end) + tail
    document = head + text[:num].replace("\n", line_end) + right + tail
    found = offer(text, head=head, right=right, tail=tail).standing(document)
    assert found == (len(text) if document == whole else num)


@given(items, code, code, code, code)
def test_what_is_seen_does_stand_there_and_all_around_is_as_it_was(text, head, right, tail, now):
    for document in (now, head + now + right + tail, head + now + tail):
        num = offer(text, head=head, right=right, tail=tail).standing(document)
        if num is not None:
            whole = head + text + tail if num == len(text) else None
            assert document in (whole, head + text[:num] + right + tail)


@given(items, st.data())
def test_a_character_and_blanks_are_always_typed(text, data):
    start = data.draw(st.integers(0, len(text) - 1))
    assert offer(text).is_typed(start, start + 1)
    num_blank = len(text[start:]) - len(text[start:].lstrip())
    if num_blank:
        assert offer(text).is_typed(start, start + num_blank)


@pytest.mark.parametrize(
    ("taken", "rest", "is_typed"),
    [
        ("print", "(x)", False),
        ("print(x)", "", False),
        ("prin", "t(x)", False),
        ("if", " x:", False),
        ("if ", "x:", False),
        ("foo", "", False),
        ("pri", "nt(x)", True),
        ("()", "", True),
        ("t(", "x)", True),
        ("x)", "", True),
        ("\n        ", "return", True),
        ("\n    return", " x", False),
        ("    ", "x", True),
        ("é", "", True),
    ],
)
def test_more_than_keys_give_is_taken(taken, rest, is_typed):
    assert offer(taken + rest).is_typed(0, len(taken)) is is_typed


def test_a_short_end_of_a_word_may_be_a_burst_of_keys():
    item = offer("nt or x", head="pri")
    assert item.is_typed(0, 2)
    assert not item.is_typed(3, 5), "a word by itself"


def test_the_entry_chosen_in_the_editors_own_list_is_not_ours():
    item = offer("println(x)", left="pri", chosen="println")
    assert item.standing("pri") == 3
    assert item.is_typed(3, len("println"))
    assert not item.is_typed(3, len("println(x)"))


@dataclass
class Act:
    """One thing that an editor does with ghost text."""

    end: int
    """Where in the item it ends."""
    is_taken: bool
    tells: str = ""
    """`before` or `after` the edit, or `both`; what was taken only."""
    by_first_name: bool = True
    asks: bool = False
    """The rest is sent anew afterwards."""


@st.composite
def plays(draw: st.DrawFn) -> tuple[str, list[Act]]:
    """An item, and a way to get all of it into the document, or not quite."""
    text = draw(items.filter(lambda text: text.strip()))
    acts: list[Act] = []
    at, end = 0, draw(st.integers(1, len(text)))
    while at < end:
        is_taken = draw(st.booleans())
        size = draw(st.integers(1, end - at)) if is_taken else 1
        step = text[at : at + size]
        is_clear = len(step) > MAX_BURST and bool(step.strip())
        tells = ("", "before", "after", "both") if is_clear else ("before", "after", "both")
        at += size
        more = draw(st.sampled_from(tells)), draw(st.booleans()), draw(st.booleans())
        acts.append(Act(at, is_taken, *more))
    return text, acts


class Played:
    """An editor with ghost text at the cursor, and what was heard of it."""

    def __init__(self, before: str, text: str, after: str, encoding: Encoding) -> None:
        self.documents = DocumentStore(encoding)
        self.documents.open(URI, "python", 1, before + after)
        self.before, self.text, self.after = before, text, after
        self.num_taken = 0
        self.num_parts = self.num_accepted = self.num_seen = 0
        self.names: list[tuple[str, int]] = []
        self.acceptance = Acceptance(
            self.documents,
            seen=self._seen,
            accepted=self._accepted,
            partially_accepted=self._part,
            kept=lambda shown, is_kept: None,
        )

    def _seen(self, shown: Shown) -> None:
        self.num_seen += 1

    def _accepted(self, shown: Shown) -> None:
        self.num_accepted += 1
        self.num_taken += len(shown.text) - shown.num_done

    def _part(self, shown: Shown, num_characters: int) -> None:
        self.num_parts += 1
        self.num_taken += num_characters - shown.num_done

    def send(self, at: int) -> None:
        """The item from its `at`th character on, where that much stands already."""
        head = self.before + self.text[:at]
        name = f"item-{len(self.names)}"
        self.names.append((name, at))
        origin = Origin.TYPED_THROUGH if at else Origin.ENGINE
        self.acceptance.sent(
            CompletionRequest(Snapshot(URI, 1, "python", head + self.after), len(head)),
            CompletionStats(origin=origin),
            [(name, TextEdit(self.text[at:], len(head), len(head)))],
        )

    def edit(self, start: int, end: int) -> None:
        """text[start:end] comes into the document."""
        old, encoding = self.before + self.text[:start] + self.after, self.documents.encoding
        where = position_at(old, len(self.before) + start, encoding)
        change = Change(Range(where, where), self.text[start:end])
        self.documents.change(URI, None, [change])
        self.acceptance.changed(URI, 1)

    def tell(self, end: int, by_first_name: bool) -> None:
        name, at = self.names[0 if by_first_name else -1]
        if end == len(self.text):
            self.acceptance.accept(name)
        else:
            length = num_units(self.text[at:end], Encoding.UTF16)
            self.acceptance.accept_part(name, length, Encoding.UTF16)


@given(plays(), code, code, st.sampled_from(Encoding))
def test_what_is_taken_counts_once_and_what_is_typed_never(play, before, after, encoding):
    """However the client tells of it, before the edit or after it, or not at all."""
    text, acts = play
    played = Played(before, text, after, encoding)
    asyncio.run(_play(played, acts))
    is_whole = acts[-1].is_taken and acts[-1].end == len(text)
    assert played.num_accepted == is_whole
    assert played.num_parts == sum(act.is_taken for act in acts) - is_whole
    assert played.num_seen == 1


async def _play(played: Played, acts: list[Act]) -> None:
    played.send(0)
    at = expected = 0
    for act in acts:
        if act.is_taken and act.tells in ("before", "both"):
            played.tell(act.end, act.by_first_name)
        played.edit(at, act.end)
        if act.is_taken and act.tells in ("after", "both"):
            played.tell(act.end, act.by_first_name)
        expected += (act.end - at) * act.is_taken
        at = act.end
        assert played.num_taken == expected
        if act.asks and at < len(played.text):
            played.send(at)


@given(code, items, code, code, st.sampled_from(Encoding))
def test_other_edits_take_nothing(before, text, after, other, encoding):
    """Whatever else the document becomes, unless it is what taking some of the item gives."""
    played = Played(before, text, after, encoding)
    played.send(0)
    beginnings = {before + text[:num] + after for num in range(1, len(text) + 1)}
    for document in (other, before + other, other + after, before + other + after, before):
        if document not in beginnings:
            played.documents.change(URI, None, [Change(None, document)])
            played.acceptance.changed(URI, 1)
    assert (played.num_parts, played.num_accepted) == (0, 0)
