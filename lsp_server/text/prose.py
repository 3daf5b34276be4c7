"""Where text is written for people: documents of prose, comments, documentation in strings.

There nothing is completed while typing, unless the setting `prose` asks for it.
"""

from __future__ import annotations

import re

from lsp_server.completion import Snapshot
from lsp_server.syntax import Syntax
from lsp_server.text.languages import Zone, is_known, language_of
from lsp_server.text.place import Place, is_comment_line

_FENCED = frozenset(("markdown", "mdx", "rmarkdown", "rmd", "quarto"))
"""Names of languages, as `languages` gives them, whose code stands in fences."""
_PROSE = _FENCED | frozenset(
    (
        *("plaintext", "text", "txt", "latex", "restructuredtext", "rst", "asciidoc", "adoc"),
        *("org", "typst", "textile", "mail", "git-commit", "gitcommit", "git-rebase", "help"),
    )
)

_MAX_READ = 50_000
"""Characters before the cursor that are read for what they leave open, where no grammar is."""

_EMBED = frozenset(("html", "vue", "svelte", "astro", "php"))
"""Languages with scripts in them, whose comments are others."""
_SCRIPT_COMMENT = re.compile(r"\s*(?://|/\*|\*\s)")

_FENCES = ("```", "~~~")
_MAX_FENCE_INDENT = 3
_DOCUMENTS_BY_STRINGS = frozenset(("python", "elixir"))
_STRING_PREFIX = re.compile(r"[rRuUbBfF]{0,2}|@\w+(?:[ \t]+~[sS])?")
_GOES_ON = tuple("([{,=+-*/%|&\\")
"""What a line ends with whose expression goes on below."""


def is_prose_document(snapshot: Snapshot, offset: int) -> bool:
    """Whether a place is in a document of prose, but not in code that stands there in fences."""
    name = language_of(snapshot.language_id, snapshot.uri).name
    if name not in _FENCED:
        return name in _PROSE
    return sum(_num_fences(snapshot.text, offset, fence) for fence in _FENCES) % 2 == 0


def _num_fences(text: str, end: int, fence: str) -> int:
    """Lines before `end` that begin with `fence`; 1 ms a megabyte, since the event loop waits."""
    num, at = 0, text.find(fence, 0, end)
    while at >= 0:
        indent = text[max(0, at - _MAX_FENCE_INDENT - 1) : at].rpartition("\n")[2]
        num += len(indent) <= _MAX_FENCE_INDENT and not indent.strip(" \t")
        at = text.find(fence, at + len(fence), end)
    return num


def is_comment(snapshot: Snapshot, offset: int, place: Place) -> bool:
    """Whether a place is in a comment or in documentation, by the grammar where there is one."""
    language = language_of(snapshot.language_id, snapshot.uri)
    syntax = Syntax.of(snapshot.language_id, snapshot.uri)
    parsed = None if syntax is None else syntax.around(snapshot.text, offset)
    if parsed is not None:
        zone = parsed.zone(offset)
        if zone is not Zone.STRING or language.name not in _DOCUMENTS_BY_STRINGS:
            return zone is Zone.COMMENT
        start = parsed.start
    else:
        if not is_known(snapshot.language_id, snapshot.uri) and is_comment_line(place.line_before):
            return True
        if language.name in _EMBED and _SCRIPT_COMMENT.match(place.line_before):
            return True
        start = 0 if offset <= _MAX_READ else offset - len(place.line_before)
    before = snapshot.text[start:offset]
    zone, opened = language.left_open(before)
    if zone is Zone.STRING and language.name in _DOCUMENTS_BY_STRINGS:
        return _is_documentation(before, opened)
    return zone is Zone.COMMENT


def _is_documentation(before: str, opened: int) -> bool:
    """Whether the string that begins at `opened` is a statement of its own, of several lines."""
    if before[opened : opened + 3] not in ('"""', "'''"):
        return False
    above, _, own = before[:opened].rpartition("\n")
    return _STRING_PREFIX.fullmatch(own.strip()) is not None and not above.rstrip().endswith(
        _GOES_ON
    )
