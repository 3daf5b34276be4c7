"""What models tuned for talk put around code: fences, and sentences about it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from lsp_server.completion import Reason
from lsp_server.postprocess.types import Dropped, Edit
from lsp_server.text.indentation import indent_width
from lsp_server.text.languages import Zone, language_of
from lsp_server.text.place import Place

_FENCE = re.compile(r"[ \t]*(?:```+|~~~+)[ \t]*[\w+#.-]*[ \t]*")
_SENTENCE = re.compile(
    r"(?:Sure|Certainly|Absolutely|Of course|Okay|Ok|Great|Understood)[!,.:](?: .*)?"
    r"|Here(?:'s|\u2019s| is| are| it is| you)\b.*"
    r"|(?:The|This|Your|My) (?:(?:complete|correct|updat|modifi|provid|giv)\w*|missing|final|full"
    r"|following|above|next|code|function|method|class|program|script|implementation|solution"
    r"|answer|line|snippet|statement)\b.*[.:!]"
    r"|(?:To|In order to) (?:complete|finish|fix|implement|fill|solve|make|achieve)\b.*[.:,]"
    r"|I(?:'ll|'ve|'m|'d|\u2019ll|\u2019ve|\u2019m| have| will| can| would| am| think| hope"
    r"| apologi[sz]e)\b.*"
    r"|(?:Explanation|Answer|Assistant|Completion|Example usage|(?:Completed|Output|Final) code):"
    r"|(?:Note that|Please note|Let me know|Feel free|You can|We can|Let's|Hope this|As an AI)\b.*"
    r"|\*\*[A-Z][\w ]*:?\*\*:?",
)
_OF_SENTENCES = frozenset(
    {"plaintext", "latex", "tex", "restructuredtext", "html", "xml", "yaml", "yml", "feature"}
)
"""Languages in which a line may be a sentence."""
_THOUGHT, _THOUGHT_END = "<think>", "</think>"


def unwrap_code(edit: Edit, place: Place) -> Edit | Dropped:
    """Keep the code of an answer and drop the talk around it."""
    start, end = code_span(edit.text, place)
    text = edit.text[start:end]
    if start == 0 and end == len(edit.text):
        return edit
    return replace(edit, text=text) if text.strip() else Dropped(Reason.PROSE)


def code_span(text: str, place: Place) -> tuple[int, int]:
    """Where the code of a text that may still grow begins and ends.

    All of it in Markdown, in comments and strings, and where fences stand nearby: there they are
    what the user writes.
    """
    whole = (0, len(text))
    if place.is_markdown or not _has_talk(text):
        return whole
    if any(_FENCE.fullmatch(line) and line.strip() for line in place.lines_before):
        return whole
    start = _code_start(text, place)
    # Sentences inside the comments and strings of the code are its own.
    for line_start, line in _lines(text, start):
        if _is_fence(line) and line_start >= max(1, start):
            return start, line_start
        if line_start > start and _is_talk(line, text[:line_start], place):
            return start, line_start
    return start, len(text)


def _code_start(text: str, place: Place) -> int:
    """Behind the sentences, and the fence, that the text begins with."""
    if text.lstrip().startswith(_THOUGHT):
        _, _, answer = text.partition(_THOUGHT_END)
        return len(text) - len(answer.lstrip("\n"))
    start = 0
    is_talk = True
    for line_start, line in _lines(text, 0):
        line_end = min(len(text), line_start + len(line) + 1)
        # Behind code, a fence that names no language is the closing one.
        if _is_fence(line) and (is_talk or (start > 0 and line.strip(" \t`~"))):
            start = line_end
            break
        if line.strip() and is_talk:
            is_talk = _is_talk(line, text[:line_start], place)
            start = line_end if is_talk else start
    # A line that belongs below the cursor's keeps the line end before it.
    is_below = indent_width(text[start:]) > indent_width(place.line_before)
    is_below = is_below and bool(place.line_before.strip()) and text[:start].endswith("\n")
    return start - is_below


def _lines(text: str, start: int) -> Iterator[tuple[int, str]]:
    for line in text[start:].split("\n"):
        yield start, line
        start += len(line) + 1


def _has_talk(text: str) -> bool:
    lines = text.split("\n")
    return _THOUGHT in lines[0] or any(
        _is_fence(line) or _SENTENCE.fullmatch(line.strip()) for line in lines
    )


def _is_fence(line: str) -> bool:
    return bool(line.strip()) and _FENCE.fullmatch(line) is not None


def _is_talk(line: str, text_before: str, place: Place) -> bool:
    if _SENTENCE.fullmatch(line.strip()) is None or place.language_id in _OF_SENTENCES:
        return False
    language = language_of(place.language_id)
    return language.open_at_end(place.before + text_before) is Zone.CODE
