"""What is left of an insertion once some of it has been typed: what typing through means.

Pure text: the document that the whole gives, accepted when it was made, is the document that what
is left gives, accepted now. Knows what editors do by themselves: they close brackets and indent new
lines.
"""

from __future__ import annotations

from dataclasses import dataclass

CLOSERS = frozenset(")]}>\"'`")
"""What editors set behind the cursor when its opener is typed."""

_INDENT = " \t"


@dataclass(frozen=True, slots=True)
class Insertion:
    """Text in place of so many characters on each side of a cursor."""

    text: str
    num_left: int = 0
    num_right: int = 0


def remainder(
    insertion: Insertion, then: tuple[str, str], now: tuple[str, str]
) -> Insertion | None:
    """What is left of an insertion once some of it has been typed.

    `then` and `now` are the text right before and after the cursor, when the insertion was made and
    now, between the same surroundings. What is left gives, accepted now, the document that the
    whole gives, accepted then. None: what was typed is something else, or nothing is missing.
    """
    (left, right), (before, after) = then, now
    kept = left[: len(left) - insertion.num_left]
    whole = kept + insertion.text
    if not before.startswith(kept):
        return None
    text, num_left = whole[len(before) :], 0
    if not whole.startswith(before):
        if then == now:
            return insertion  # it asks for less indentation than the line has
        indented = _less_indentation(whole, before)
        if indented is None:
            return None
        text, num_left = indented
    typed = before[len(kept) :]
    num_right = _num_covered(right, insertion.num_right, after, typed, text)
    if num_right is None or not text.strip() or (text == after[:num_right] and num_left == 0):
        return None
    return Insertion(text, num_left, num_right)


def _less_indentation(whole: str, before: str) -> tuple[str, int] | None:
    """(text, characters to take back) where an editor has indented a new line more than the text
    does; None where that is not the difference."""
    head = before.rstrip(_INDENT)
    if not head.endswith("\n") or not whole.startswith(head):
        return None
    rest = whole[len(head) :]
    indent = rest[: len(rest) - len(rest.lstrip(_INDENT))]
    present = before[len(head) :]
    if not present.startswith(indent):
        return None
    return rest[len(indent) :], len(present) - len(indent)


def _num_covered(right: str, num_right: int, after: str, typed: str, text: str) -> int | None:
    """How much of what stands after the cursor the missing `text` replaces.

    As much as before, less what was typed over, and more where the editor has closed a bracket by
    itself that the text closes too. None: something else has changed there.
    """
    covered, tail = right[:num_right], right[num_right:]
    if not after.endswith(tail):
        return None
    head = after[: len(after) - len(tail)]
    if head == covered:
        return len(head)
    if covered.endswith(head):
        is_right = _has_in_order(typed, covered[: len(covered) - len(head)])
    else:
        is_closed = head.endswith(covered) and CLOSERS.issuperset(head[: len(head) - len(covered)])
        is_right = is_closed and _has_in_order(text, head)
    return len(head) if is_right else None


def _has_in_order(text: str, characters: str) -> bool:
    remaining = iter(text)
    return all(character in remaining for character in characters)
