"""The text that a model sees: a window before the cursor, and what follows for drafts to copy from.

Pure text; whoever has a tokenizer passes its count. Line ends are `\\n` whatever the file has, so
that a file saved on Windows gives the same prompt.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from lsp_server.completion import Snapshot
from lsp_server.place import normalise_line_ends

ANCHOR_STEP = 512
"""The window's start moves in steps of this many characters and stays between them, so that the
next keystroke finds its prompt in the KV cache."""

CHARACTERS_PER_TOKEN = 6
"""No code has more; bounds the text that is counted at all."""

SUFFIX_CHARACTERS = 2000


@dataclass(frozen=True, slots=True)
class Prompt:
    prefix: str
    """What the model continues. Empty where nothing but blanks precedes the cursor."""
    suffix: str
    """The text after the cursor, cut at a line end."""


def estimate_tokens(text: str) -> int:
    """A count that no byte-level tokenizer much exceeds, for callers without one."""
    num_ascii = sum(character.isascii() for character in text)
    return num_ascii // 3 + 2 * (len(text) - num_ascii) + 1


def build_prompt(
    snapshot: Snapshot,
    offset: int,
    budget: int,
    count: Callable[[str], int] = estimate_tokens,
) -> Prompt:
    """The prompt at `offset` (code points), with a prefix of at most `budget` tokens.

    `count` gives the number of tokens of a text. Over budget only if one anchor step of text is.
    """
    before, after = snapshot.split(offset)
    if before.endswith("\r") and after.startswith("\n"):
        before, after = before[:-1], "\r" + after
    prefix = leave_out_blanks(normalise_line_ends(before))
    start = window_start(prefix, budget, count)
    return Prompt(prefix[start:], suffix_window(after))


def leave_out_blanks(prefix: str) -> str:
    """Cut the blanks and tabs before the cursor.

    In most vocabularies a blank belongs to the word after it (` return`), and indentation to the
    line break before it. A prompt that ends in half of such a token is one that the model has never
    seen, and the next token suffers. The model writes the blanks itself; post-processing removes
    those that are there already.
    """
    return prefix.rstrip(" \t")


def window_start(prefix: str, budget: int, count: Callable[[str], int]) -> int:
    """Where the window begins: the first anchor from which the rest fits into `budget` tokens.

    Depends on the text alone, not on earlier requests. Anchors are bisected, since counting is the
    costly part.
    """
    last = max(0, len(prefix) - 1) // ANCHOR_STEP
    low = max(0, -(-(len(prefix) - budget * CHARACTERS_PER_TOKEN) // ANCHOR_STEP))
    high = last
    while low < high:
        middle = (low + high) // 2
        if count(prefix[_anchor(prefix, middle) :]) <= budget:
            high = middle
        else:
            low = middle + 1
    return _anchor(prefix, low)


def _anchor(prefix: str, index: int) -> int:
    """The first line start at or after `index` steps, within one step.

    A line longer than that (minified code, prose) is cut inside, between two characters.
    """
    target = index * ANCHOR_STEP
    if target == 0:
        return 0
    line_break = prefix.find("\n", target - 1, min(target + ANCHOR_STEP, len(prefix)) - 1)
    if line_break >= 0:
        return line_break + 1
    while target < len(prefix) and unicodedata.combining(prefix[target]):
        target += 1
    return target


def suffix_window(after: str) -> str:
    """At most `SUFFIX_CHARACTERS` after the cursor, whole lines where there is a line end."""
    text = normalise_line_ends(after[: 2 * SUFFIX_CHARACTERS])
    if len(text) <= SUFFIX_CHARACTERS:
        return text
    end = text.rfind("\n", 0, SUFFIX_CHARACTERS)
    return text[: end + 1] if end >= 0 else text[:SUFFIX_CHARACTERS]
