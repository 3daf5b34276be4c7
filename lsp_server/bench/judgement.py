"""Whether what was shown is what the author then wrote.

A suggestion is right when its first line comes to stand at the place where it was shown, within a
number of edits that leaves room for mistyping, and its last word is not written on. Whether the
author types it or pastes it makes no difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lsp_server.bench.traces import Patch, Trace

EDITS_FOR_A_CHARACTER, EDITS_MORE = 2, 20
"""How many edits the author may take for a line."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Shown after the edit `key`: `text` in place of what stands from offset `start` to `end`."""

    key: int
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Right:
    """A suggestion that came true with the edit `true_at`."""

    key: int
    true_at: int
    characters: int
    """Of the first line, without those that stood there already."""


@dataclass(slots=True)
class _Waiting:
    suggestion: Suggestion
    place: int
    """Where the cursor was, in the text of now."""
    line: str
    characters: int
    last: int
    """The edit by which the line must stand there."""
    true_at: int | None = None


def first_line(text: str) -> str:
    """Up to the end of the first line that has more than blanks."""
    start = len(text) - len(text.lstrip())
    end = text.find("\n", start)
    return text if end < 0 else text[:end]


def judge(trace: Trace, suggestions: Sequence[Suggestion]) -> list[Right]:
    """Those that were right, in the order of their keys."""
    shown = {suggestion.key: suggestion for suggestion in suggestions}
    waiting: list[_Waiting] = []
    right: list[Right] = []
    text = trace.text
    for now, edit in enumerate((*trace.edits, *trace.beyond)):
        for guess in waiting:
            if guess.true_at is not None and not any(_writes_on(guess, p) for p in edit.patches):
                right.append(Right(guess.suggestion.key, guess.true_at, guess.characters))
        waiting = [guess for guess in waiting if guess.true_at is None]
        for patch in edit.patches:
            waiting = [guess for guess in waiting if _follow(guess, patch)]
        text = edit.apply(text)
        for guess in waiting:
            if text.startswith(guess.line, guess.place):
                guess.true_at = now
        waiting = [guess for guess in waiting if guess.last > now or guess.true_at is not None]
        if now in shown and (wait := _wait_for(shown[now], text, edit.cursor)) is not None:
            waiting.append(wait)
    right += [Right(g.suggestion.key, g.true_at, g.characters) for g in waiting if g.true_at]
    return sorted(right, key=lambda found: found.key)


def characters_saved(right: Sequence[Right]) -> int:
    """What a user takes who accepts the first line of each right suggestion. Until the author has
    written it, what is shown further on is not counted: that user has it already."""
    saved, free_from = 0, 0
    for found in right:
        if found.key >= free_from:
            saved, free_from = saved + found.characters, found.true_at
    return saved


def _wait_for(suggestion: Suggestion, text: str, cursor: int) -> _Waiting | None:
    """None for a suggestion that is not one: text other than what it replaces before the cursor,
    or nothing new."""
    num_left = cursor - suggestion.start
    if num_left < 0 or suggestion.text[:num_left] != text[suggestion.start : cursor]:
        return None
    line = first_line(suggestion.text[num_left:])
    line_end = text.find("\n", cursor)
    covered = text[cursor : min(suggestion.end, len(text) if line_end < 0 else line_end)]
    if not line.strip() or text.startswith(line, cursor):
        return None
    last = suggestion.key + EDITS_FOR_A_CHARACTER * len(line) + EDITS_MORE
    return _Waiting(suggestion, cursor, line, max(0, len(line) - len(covered)), last)


def _writes_on(guess: _Waiting, patch: Patch) -> bool:
    """The edit goes on with the suggestion's last word, which so was only the beginning of one."""
    at_end = patch.start == guess.place + len(guess.line)
    return at_end and _is_word(guess.line[-1]) and _is_word(patch.text[:1])


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _follow(guess: _Waiting, patch: Patch) -> bool:
    """Move the place with an edit before it; False where the edit takes the place away."""
    if patch.start >= guess.place:
        return True
    if patch.start + patch.deleted > guess.place:
        return False
    guess.place += len(patch.text) - patch.deleted
    return True
