"""Control markers of models and what is no text: cut before anything else looks at it."""

from __future__ import annotations

import re
from dataclasses import replace

from lsp_server.postprocess.types import Edit
from lsp_server.text.languages import language_of
from lsp_server.text.place import Place

_MARKER = re.compile(
    r"<\|[\w/.:-]+\|>"  # <|endoftext|>, <|fim_middle|>, <|im_end|>, <|user_cursor_is_here|>
    r"|<\uff5c[^<>\uff5c\n]{1,40}\uff5c>"  # DeepSeek's, with full-width bars
    r"|<(?:fim_prefix|fim_middle|fim_suffix|fim_pad|file_sep|endoftext|eos|end_of_turn"
    r"|start_of_turn)>"
    r"|^<(?:repo_name|reponame|filename|gh_stars)>"  # elsewhere a placeholder of a help text
    r"|<(?:SUF|MID|EOT|EOS)>"
    r"|\[(?:PREFIX|SUFFIX|MIDDLE|/?INST)\]"
    r"|[\x00\ufffd]",  # NUL, which no text file has, and what bytes become that are no character
    re.MULTILINE,
)
_CODELLAMA_START = re.compile("<PRE>")
_TAGGED = frozenset({"html", "markdown"})
"""Where that is a tag."""

_WHOLE = (
    *(f"<|{name}|>" for name in ("endoftext", "end_of_text", "eot_id", "im_start", "im_end")),
    *(f"<|fim_{role}|>" for role in ("prefix", "middle", "suffix")),
    *(f"<fim_{role}>" for role in ("prefix", "middle", "suffix")),
    *("<file_sep>", "<repo_name>"),
)
_STRIKE_END = "</s>"
_MIN_PARTIAL = 4


def marker_start(text: str, place: Place) -> int | None:
    """Where the first control marker begins; None where there is none."""
    has_tags = language_of(place.language_id).family in _TAGGED
    patterns = [_MARKER] if has_tags else [_MARKER, _CODELLAMA_START]
    starts = [found.start() for pattern in patterns if (found := pattern.search(text))]
    if not place.has_strike_tag and _STRIKE_END in text:
        starts.append(text.index(_STRIKE_END))
    return min(starts, default=None)


def _partial_marker_start(text: str) -> int | None:
    """Where a known marker begins that the end of the text has cut off."""
    start = text.rfind("<")
    tail = text[start:] if start >= 0 else ""
    if len(tail) >= _MIN_PARTIAL and any(marker.startswith(tail) for marker in _WHOLE):
        return start
    return None


def cut_markers(edit: Edit, place: Place) -> Edit:
    """Cut at the first special token that leaked as text, whole or cut off by the end."""
    text = edit.text
    start = marker_start(text, place)
    text = text if start is None else text[:start]
    start = _partial_marker_start(text)
    return replace(edit, text=text if start is None else text[:start])
