"""The seam with the text after the cursor: nothing twice, nothing lost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from lsp_server.completion import Reason
from lsp_server.postprocess.other_version import closes_same, is_other_version
from lsp_server.postprocess.types import Dropped, Edit
from lsp_server.text.brackets import CLOSERS, bracket_pairs, imbalance, unclosed
from lsp_server.text.place import Place

_MAX_REST = 400
"""Longer rests (minified files) are compared by their beginning only."""
_FIRST_WORD = re.compile(r"\s*(\W*\w{2,})")
_BEGINNING = re.compile(r"\W*\w+(?:\(|\W+\w+\b)")
_HAS_WORD = re.compile(r"\w")
_LOOSE = frozenset("()[]{}\"'`;,: \t")
"""What the text may re-emit with other text between."""
_PARTNERED = frozenset("()[]{}\"'`")
_CLOSED_AND_ON = re.compile(r"\s*([)\]}\"'`]\W*\w+)")
"""A closer, and the beginning of what follows it."""
_CLOSING_TAGS = re.compile(r"(\W*>)((?:</[\w.:-]+>)+)")
"""The end of an opening tag, and the tags that an editor has set behind it."""


def cover_rest(edit: Edit, place: Place) -> Edit | Dropped:
    """Align the text with the rest of the cursor's line.

    What the text repeats at its end is cut from it, so that the range stays empty (`a, b)` before
    `)` inserts `a, b`). What it repeats with new text between, as `n=%d", n);` does with `");`, is
    covered by the range. Of all such readings the one wins that leaves the line's brackets and
    quotes best paired, and of these the one that repeats most; what is not repeated always stays.
    """
    rest = place.rest.rstrip()
    if not rest:
        return edit
    first, line_break, others = edit.text.partition("\n")
    if not first.rstrip().endswith(rest) and _rewrites(first, rest):
        return Dropped(Reason.DUPLICATE_SUFFIX)
    kept = place.line_before[: len(place.line_before) - edit.num_left]
    is_paired = imbalance(kept + rest) == 0
    is_alone = not is_paired and _is_alone(rest, place.before or kept)
    overlaps = _overlaps(first, rest[:_MAX_REST], is_paired=is_paired, is_alone=is_alone)
    best = min(overlaps, key=lambda overlap: overlap.cost(kept, rest))
    if line_break and best.num_repeated == len(rest):
        return replace(edit, num_right=len(rest))
    for closers in (rest, rest.rstrip(";, ")):
        if line_break and _closes_below(kept + first, others, closers):
            return replace(edit, num_right=len(closers))
    if _is_broken(best, edit, kept, place):
        best = _up_to_same(edit, first, kept, place)
    if not best.text.strip():
        return Dropped(Reason.DUPLICATE_SUFFIX)
    is_joined = best.num_repeated > 0
    return replace(edit, text=best.text, num_right=best.num_covered, is_joined=is_joined)


def _is_alone(rest: str, before: str) -> bool:
    """True where the rest is more than closers of what is open in front of the cursor."""
    return _HAS_WORD.search(rest) is not None or not any(
        unclosed(before, character) for character in rest if character in CLOSERS
    )


def _is_broken(overlap: _Overlap, edit: Edit, kept: str, place: Place) -> bool:
    """True where nobody could read the line that an overlap leads to, since text and rest are two
    versions of the same."""
    rest = place.rest.rstrip()
    covered, left = rest[: overlap.num_covered], rest[overlap.num_covered :]
    if not left.strip() or not overlap.text.strip() or overlap.num_repeated == len(rest):
        return False
    if overlap.num_repeated:
        return closes_same(overlap.text, left, place, kept, covered)
    return is_other_version(replace(edit, text=overlap.text), left, place, kept)


def _up_to_same(edit: Edit, text: str, kept: str, place: Place) -> _Overlap:
    """The text up to where it goes on with the first two words of the rest, or its first call."""
    found = _BEGINNING.match(place.rest)
    start = text.find(found[0]) if found else -1
    overlap = _Overlap(text[: max(0, start)], 0, len(found[0]) if found else 0)
    return _NOTHING if _is_broken(overlap, edit, kept, place) else overlap


def _closes_below(line: str, others: str, rest: str) -> bool:
    """True where lines below re-emit all of a rest of closers, as a block does that was opened in
    front of `})`."""
    text = f"{line}\n{others}"
    pairs = bracket_pairs(others)
    unpaired = "".join(c for index, c in enumerate(others) if index not in pairs)
    return _re_emitted(rest, unpaired) and imbalance(text) <= imbalance(line + rest)


@dataclass(frozen=True, slots=True)
class _Overlap:
    text: str
    num_covered: int
    """Characters of the rest that the range covers."""
    num_repeated: int
    """Characters of the rest that the text was found to repeat."""

    def cost(self, kept: str, rest: str) -> tuple[int, int]:
        line = kept + self.text + rest[self.num_covered :]
        return imbalance(line), -self.num_repeated


_NOTHING = _Overlap("", 0, 0)


def _overlaps(text: str, rest: str, *, is_paired: bool, is_alone: bool) -> Iterator[_Overlap]:
    """Every way in which `text` can be seen to repeat a beginning of `rest`.

    A closer whose opener is in `text` too is the text's own and repeats nothing, unless all closers
    of the line have their openers there (`is_paired`), or all of a rest is repeated that has more
    than closers of lines above (`is_alone`).
    """
    yield _Overlap(text, 0, 0)
    if (own_version := _own_version(text, rest)) is not None:
        yield own_version
    pairs = bracket_pairs(text)
    unpaired = "".join(c for index, c in enumerate(text) if index not in pairs)
    for length in range(1, len(rest) + 1):
        head = rest[:length]
        end = len(text) if head[-1].isspace() else len(text.rstrip())
        start = end - length
        is_end = text.endswith(head, 0, end) and not _splits_word(rest, length)
        has_own = any(pairs.get(index, start) < start for index in range(start, end))
        is_all = is_alone and length == len(rest)
        if is_end and (is_paired or is_all or not has_own):
            yield _Overlap(text[:start], 0, length)
        elif _re_emitted(head, unpaired) and not _splits_word(text[-1:] + rest[length:], 1):
            yield _Overlap(text, length, length)
    tags = _CLOSING_TAGS.fullmatch(rest)
    if tags is not None and tags[1] in text and text.rstrip().endswith(tags[2]):
        yield _Overlap(text, len(rest), len(rest))


def _own_version(text: str, rest: str) -> _Overlap | None:
    """The text up to where it closes what the rest closes and goes on as the rest does, for a time.

    `a } from 'x';` before ` } from 'y';` is `a`.
    """
    found = _CLOSED_AND_ON.match(rest)
    again = found and re.search(re.escape(found[1]) + r"\b", text)
    if not found or not again:
        return None
    head = text[: again.start()]
    return _Overlap(head.rstrip() if rest[:1].isspace() else head, 0, len(found[0]))


def _rewrites(text: str, rest: str) -> bool:
    """True where the text begins with the rest's first word, and so is another version of the rest.

    `.argv) == 2:` before `.argv) != 2:` is nothing to insert.
    """
    found = _FIRST_WORD.match(rest)
    return found is not None and re.match(re.escape(found[1]) + r"\b", text.lstrip()) is not None


def _splits_word(rest: str, length: int) -> bool:
    return length < len(rest) and _is_word(rest[length - 1]) and _is_word(rest[length])


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _re_emitted(head: str, text: str) -> bool:
    """True where all closers and separators of `head` occur in `text` in their order.

    Its last one must end the text or be a bracket or quote, whose balance then decides.
    """
    needed = [character for character in head if not character.isspace()]
    if not needed or not _LOOSE.issuperset(head) or head[-1].isspace():
        return False
    remaining = iter(text)
    if not all(character in remaining for character in needed):
        return False
    return head[-1] in _PARTNERED or text.rstrip().endswith(head[-1])
