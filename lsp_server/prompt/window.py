"""The text that a model sees: a window before the cursor and one after it, and how far each goes.

Pure text; whoever has a tokenizer passes its count. Line ends are `\n` whatever the file has, so
that a file saved on Windows gives the same prompt.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from lsp_server.completion import Snapshot
from lsp_server.text.place import normalise_line_ends

FILES_SHARE = 4
"""Other files and the path get a quarter of the budget at most: what is near tells more, and each
of these tokens is one that the window moves on earlier."""

SUFFIX_SHARE = 8
"""The text after the cursor gets an eighth, where the model can be told of it: the next lines say
what to lead to, those behind them little, and they are read anew whenever the cursor moves on."""

WORD_SHARE = 64
"""The word that is being typed is taken to need this share of the budget, until it needs more."""

ANCHOR_STEPS = (1536, 512, 128, 32, 8, 1)
"""The window's start moves in steps of so many characters and stays between them, so that the next
keystroke finds its prompt in the KV cache. The smaller steps are for text with many tokens a
character and for small budgets, where the first would leave too little."""

CHARACTERS_PER_TOKEN = 4
"""About the most that code has; bounds the text that is counted at all."""

DRAFT_CHARACTERS = 2000
"""Of the text after the cursor, for drafts to copy from."""

_CLOSERS = ")]}>\"'`;:, \t"
_LAST_WORD = re.compile(r"\s*\S*\Z")
"""What stands behind the last word that is whole: blanks, and a word that may go on."""
_LONGEST_WORD = 200
_AFTER = 2 * DRAFT_CHARACTERS


@dataclass(frozen=True, slots=True)
class Around:
    """A document around the cursor."""

    before: str
    after: str
    """Of a long text its beginning."""

    @classmethod
    def of(cls, snapshot: Snapshot, offset: int) -> Around:
        """`offset` in code points; a cursor inside a line end stands before it."""
        text = snapshot.text
        if text[offset - 1 : offset + 1] == "\r\n":
            offset -= 1
        before = normalise_line_ends(text[:offset])
        return cls(before, normalise_line_ends(text[offset : offset + _AFTER]))


def estimate_tokens(text: str) -> int:
    """A count that no byte-level tokenizer much exceeds, for callers without one."""
    num_ascii = sum(character.isascii() for character in text)
    return num_ascii // 3 + 2 * (len(text) - num_ascii) + 1


def near_prefix(before: str, budget: int, count: Callable[[str], int] = estimate_tokens) -> str:
    """The end of the text before the cursor, of at most `budget` tokens as `count` counts them."""
    return before[window_start(before, budget, count) :]


def window_start(prefix: str, budget: int, count: Callable[[str], int]) -> int:
    """Where the window begins: an anchor from which the rest fits into `budget` tokens.

    Depends on the text alone, not on earlier requests. Few counts, since they are the costly part:
    what is over the budget is skipped in proportion.
    """
    longest = max(0, len(prefix) - budget * CHARACTERS_PER_TOKEN)
    # A word has more tokens while it is typed than when it is whole: room for any is kept, lest
    # the window move on in the midst of one and back at its end.
    room = max(0, budget // WORD_SHARE - count(_LAST_WORD.findall(prefix[-_LONGEST_WORD:])[0]))
    start = 0
    for step in ANCHOR_STEPS:
        start = _anchor(prefix, -(-longest // step), step)
        num_tokens = room + count(prefix[start:])
        while num_tokens > budget and start < len(prefix):
            excess = (len(prefix) - start) * (num_tokens - budget) // num_tokens
            start = _anchor(prefix, start // step + max(1, -(-excess // step)), step)
            num_tokens = room + count(prefix[start:])
        if start == 0 or 2 * num_tokens >= budget:
            break
    return start


def _anchor(prefix: str, index: int, step: int) -> int:
    """The first line start at or after `index` steps, within one step.

    A line longer than that (minified code, prose) is cut inside, between two characters.
    """
    target = min(index * step, len(prefix))
    if target == 0:
        return 0
    line_break = prefix.find("\n", target - 1, target + step - 1)
    if 0 <= line_break < len(prefix) - 1:
        return line_break + 1
    while target < len(prefix) and unicodedata.combining(prefix[target]):
        target += 1
    return target


def line_start(before: str) -> int:
    """Where the cursor's line begins; of a longer one than a window's step its last steps only."""
    start = before.rfind("\n") + 1
    start += (len(before) - start) // ANCHOR_STEPS[0] * ANCHOR_STEPS[0]
    while start < len(before) and unicodedata.combining(before[start]):
        start += 1
    return start


def near_suffix(after: str, budget: int, count: Callable[[str], int] = estimate_tokens) -> str:
    """The beginning of the text after the cursor, whole lines of at most `budget` tokens; what
    closes the cursor's line is not told."""
    text = _whole_lines(beyond_closers(after), budget * CHARACTERS_PER_TOKEN)
    while text and (num_tokens := count(text)) > budget:
        text = _whole_lines(text, len(text) * budget // num_tokens)
    return text


def beyond_closers(after: str) -> str:
    """The text after the cursor without what only closes the cursor's line.

    That comes and goes while brackets are typed, and each time all that stands behind it in the
    prompt would be read anew. A model that writes it too does no harm: post-processing takes what
    is there already.
    """
    rest = after.partition("\n")[0]
    return after if rest.strip(_CLOSERS) else after[len(rest) :]


def suffix_window(after: str) -> str:
    """At most `DRAFT_CHARACTERS` after the cursor, whole lines where there is a line end."""
    return _whole_lines(after, DRAFT_CHARACTERS)


def _whole_lines(text: str, num_characters: int) -> str:
    """A beginning of at most so many characters; where that is no line's end, it ends between two
    characters."""
    if len(text) <= num_characters:
        return text
    end = text.rfind("\n", 0, num_characters) + 1
    if end == 0:
        end = num_characters
        while end > 0 and unicodedata.combining(text[end]):
            end -= 1
    return text[:end]
