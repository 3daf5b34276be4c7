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

ANCHOR_STEPS = (512, 128, 32)
"""The window's start moves in steps of so many characters and stays between them, so that the next
keystroke finds its prompt in the KV cache. The smaller steps are for text with many tokens a
character, where the first would leave too little."""

CHARACTERS_PER_TOKEN = 4
"""About the most that code has; bounds the text that is counted at all."""

SUFFIX_CHARACTERS = 2000


@dataclass(frozen=True, slots=True)
class Prompt:
    prefix: str
    """What the model continues."""
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

    `count` gives the number of tokens of a text.
    """
    before, after = snapshot.split(offset)
    if before.endswith("\r") and after.startswith("\n"):
        before, after = before[:-1], "\r" + after
    prefix = leave_out_blank(normalise_line_ends(before))
    start = window_start(prefix, budget, count)
    return Prompt(prefix[start:], suffix_window(after))


def leave_out_blank(prefix: str) -> str:
    """Cut the last blank or tab before the cursor.

    Byte-level vocabularies give it to the word after it: indentation of four and `return` are three
    blanks and ` return`. A prompt with all four ends in a token that the model has never seen at
    this place, and one with none asks for a line at the margin. Of 100 indented lines from the
    HumanEval infilling set the default model wrote 21 exactly after this cut, 2 without any of the
    indentation and 1 with all of it. The model writes the blank itself; post-processing removes it.
    """
    return prefix[:-1] if prefix.endswith((" ", "\t")) else prefix


def window_start(prefix: str, budget: int, count: Callable[[str], int]) -> int:
    """Where the window begins: an anchor from which the rest fits into `budget` tokens.

    Depends on the text alone, not on earlier requests. Few counts, since they are the costly part:
    what is over the budget is skipped in proportion.
    """
    longest = max(0, len(prefix) - budget * CHARACTERS_PER_TOKEN)
    start = 0
    for step in ANCHOR_STEPS:
        start = _anchor(prefix, -(-longest // step), step)
        num_tokens = count(prefix[start:])
        while num_tokens > budget and start < len(prefix):
            excess = (len(prefix) - start) * (num_tokens - budget) // num_tokens
            start = _anchor(prefix, start // step + max(1, -(-excess // step)), step)
            num_tokens = count(prefix[start:])
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


def suffix_window(after: str) -> str:
    """At most `SUFFIX_CHARACTERS` after the cursor, whole lines where there is a line end."""
    text = normalise_line_ends(after[: 2 * SUFFIX_CHARACTERS])
    if len(text) <= SUFFIX_CHARACTERS:
        return text
    end = text.rfind("\n", 0, SUFFIX_CHARACTERS)
    return text[: end + 1] if end >= 0 else text[:SUFFIX_CHARACTERS]
