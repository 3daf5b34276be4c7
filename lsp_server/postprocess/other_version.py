"""Text that is another version of the rest of the cursor's line, so that the two run together."""

from __future__ import annotations

import re

from lsp_server.postprocess.types import Edit
from lsp_server.text.brackets import OPENERS, QUOTES, bracket_pairs, code_only, imbalance
from lsp_server.text.languages import Zone, language_of
from lsp_server.text.place import Place

_MAX_DOCUMENT = 200_000
"""Characters in front of the cursor's line that are read for what they leave open."""
_WORD = re.compile(r"\w+")
_TOKEN = re.compile(r"\w+|[^\w\s]")
_LEAST_COMMON = 3
"""Characters with which two words begin alike, or words with which two texts do, to be versions of
one."""
_STATEMENT_ENDS = frozenset(";{:")
_STATEMENT_SEAMS = frozenset(("", ";", "{", "}"))
"""Behind these a further statement of the line may stand."""
_CAST = re.compile(r"(?:.*\W)?\([\w .:*&<>,]+\)")
"""Its closer may well stand in front of a word."""


def is_other_version(edit: Edit, rest: str, place: Place, kept: str) -> bool:
    """True where the text, of which nothing is in `rest`, says in its own way what `rest` says.

    `kept` is the cursor's line up to the text.
    """
    text = edit.text
    if not edit.is_ended and (
        _runs_into_word(text, rest, kept)
        or _begins_alike(text, rest, kept)
        or _ends_alike(text, rest, kept)
    ):
        return True
    return (
        _writes_word_again(text, rest, kept)
        or _closes_in_front(text, rest, place, kept)
        or _overruns(text, rest, place, kept)
        or closes_same(text, rest, place, kept)
    )


def _writes_word_again(text: str, rest: str, kept: str) -> bool:
    """True where both continue the word that the cursor is inside: `turns` before `turn`."""
    own, other = _first_word(text), _first_word(rest)
    num_common = min(_LEAST_COMMON, max(2, min(len(own), len(other))))
    is_same = len(own) >= num_common and own[:num_common] == other[:num_common]
    return is_same and _is_word(kept[-1:])


def _first_word(text: str) -> str:
    found = _WORD.match(text)
    return found[0] if found else ""


def _is_word(text: str) -> bool:
    return _WORD.fullmatch(text) is not None


def _runs_into_word(text: str, rest: str, kept: str) -> bool:
    """True where the last word of the text and the first of the rest would become one.

    `10` may stand before `px`, `get` before `Name`, and what is only a part of a word in a word.
    """
    last, first = text[-1:], rest[:1]
    if not (last.isascii() and last.isalpha() and first.isascii() and first.isalpha()):
        return False
    is_part = _is_word(kept[-1:] + text) and _is_word(kept[-1:])
    return not is_part and not (last.islower() and first.isupper())


def _begins_alike(text: str, rest: str, kept: str) -> bool:
    """True where both go on with the same piece of a word, or the same three words and signs."""
    own, other = _TOKEN.findall(text), _TOKEN.findall(rest)
    if own[:_LEAST_COMMON] == other[:_LEAST_COMMON] and len(own) >= _LEAST_COMMON:
        return any(map(_is_word, own[:_LEAST_COMMON]))
    word = _first_word(rest)
    return bool(word) and _is_word(kept[-1:]) and text.startswith(word)


def _ends_alike(text: str, rest: str, kept: str) -> bool:
    """True where both end the statement or its header, and the rest has not begun another."""
    last, before, behind = text.rstrip()[-1:], kept.rstrip()[-1:], rest.lstrip()[:1]
    is_same = last in _STATEMENT_ENDS and last == rest.rstrip()[-1:]
    return is_same and before not in _STATEMENT_SEAMS and (_is_word(behind) or behind in QUOTES)


def _closes_in_front(text: str, rest: str, place: Place, kept: str) -> bool:
    """True where code that is closed stands right before a word or a further string."""
    last, first = text[-1:], rest[:1]
    if last == ")":
        is_seam = _is_word(first) and not _CAST.fullmatch(text)
    else:
        is_seam = last in QUOTES and (_is_word(first) or first == last)
    return is_seam and _left_open(kept + text, place)[0] is Zone.CODE


def _overruns(text: str, rest: str, place: Place, kept: str) -> bool:
    """True where the text closes what the rest closes, and up to there runs into its first word."""
    code = code_only(text)
    pairs = bracket_pairs(code)
    unpaired = [index for index, c in enumerate(code) if c in "()[]{}" and index not in pairs]
    if not unpaired or any(code[index] in OPENERS for index in unpaired):
        return False
    is_seam = _is_word(text[: unpaired[0]].rstrip()[-1:]) and (
        _is_word(rest[:1]) or rest[:1] in QUOTES
    )
    is_worse = imbalance(kept + text + rest) > imbalance(kept + rest)
    return is_seam and is_worse and _left_open(kept, place)[0] is Zone.CODE


def closes_same(text: str, rest: str, place: Place, kept: str, replaced: str = "") -> bool:
    """True where the text ends the string or comment at the cursor that the rest ends too, and
    begins no other such. `replaced` stands between cursor and rest, and is what the text replaces.
    """
    language = language_of(place.language_id)
    if not language.quotes:  # those of attributes
        return all(part.count('"') % 2 for part in (kept, text, rest))
    pairs = {quote: quote for quote in language.quotes} | dict([language.block_comment or ("", "")])
    if not any(end in text and end in rest for end in filter(None, pairs.values())):
        return False
    opened, opened_behind = (_left_open(kept + part, place)[1] for part in (replaced, text))
    mark = next((mark for mark in pairs if mark and opened.startswith(mark)), None)
    if (
        mark is None
        or pairs[mark] not in rest
        or len(opened_behind) + len(replaced) >= len(opened) + len(text)
    ):
        return False
    is_mended = imbalance(kept + text + rest) < imbalance(kept + rest)
    return not opened_behind.startswith(mark) and not (mark in "\"'" and is_mended)


def _left_open(line: str, place: Place) -> tuple[Zone, str]:
    """What is open at the end of `line`, which stands in place of the cursor's, and all of it."""
    start = len(place.before) - len(place.line_before)
    text = place.before[max(0, start - _MAX_DOCUMENT) : start] + line
    zone, opened = language_of(place.language_id).left_open(text)
    return zone, text[opened:]
