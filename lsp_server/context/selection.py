"""Which of the relevant chunks go into a prompt, in which form and order, within a budget."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from lsp_server.completion import Snapshot
from lsp_server.context.chunks import Chunk
from lsp_server.files.uris import path_of
from lsp_server.text.languages import language_of
from lsp_server.text.place import normalise_line_ends

MIN_SCORE = 5.0
"""A telling name that is defined there is enough, or a handful of rare words."""
_MIN_SHARE = 0.3
"""Of the best chunk's score."""
_FULL_LINES = 12
"""A function of more lines is shown by its signature."""
_MAX_TRIED = 30
_HELD_AFTER = 2000
_COPY, _ALIKE = 0.5, 0.8
"""Of a chunk's lines, how many may also be near the cursor, or in another chunk."""
_LINE_TAIL = " .;:{"
_LEAST_LINE = 4
"""Characters of a line that say something."""


@dataclass(frozen=True, slots=True)
class Snippet:
    """Some of a file's text: whole lines with LF."""

    uri: str
    text: str


def shown_path(uri: str) -> str:
    """A file's folder and name, which is all that a model is told of where it is."""
    return "/".join(path_of(uri).split("/")[-2:]).strip("/")


def heading(uri: str, language_id: str) -> str:
    """A comment line with what is shown of the path."""
    return language_of(language_id, uri).comment(shown_path(uri)) + "\n"


def render(snippet: Snippet, language_id: str) -> str:
    """A snippet as it stands in a prompt, a blank line behind it; the comment is of the language of
    the document that is completed."""
    return f"{heading(snippet.uri, language_id)}{snippet.text}\n"


@dataclass(frozen=True, slots=True)
class Candidate:
    uri: str
    chunk: Chunk
    score: float


@dataclass(frozen=True, slots=True)
class Pick:
    uri: str
    chunk: Chunk
    text: str
    """The chunk's, or its outline's."""
    score: float


class Near:
    """What the prompt has anyway: the text around the cursor."""

    def __init__(self, snapshot: Snapshot, offset: int, held: int) -> None:
        """`held`: characters before the cursor."""
        self.uri = snapshot.uri
        self.language_id = snapshot.language_id
        text, start = snapshot.text, max(0, offset - held)
        self._before = normalise_line_ends(text[:start])
        self._after = normalise_line_ends(text[offset:])
        around = normalise_line_ends(text[start : offset + _HELD_AFTER])
        self._lines = _telling_lines(around)

    def has(self, candidate: Candidate, lines: set[str]) -> bool:
        """Whether a chunk, which has these telling lines, says little that is not near the cursor
        already; one of the document itself, whether it is not out of the prompt or not there now.
        """
        if candidate.uri != self.uri:
            return len(lines & self._lines) >= _COPY * len(lines)
        first = candidate.chunk.text.partition("\n")[0] + "\n"
        return first not in self._before and first not in self._after


def pick(candidates: Iterable[Candidate], near: Near, budget: int) -> tuple[Pick, ...]:
    """The best of the candidates, which come best first, that fit into `budget` characters as
    `assemble` and `render` write them; of near-identical ones the first."""
    picks: tuple[Pick, ...] = ()
    said: list[tuple[Candidate, set[str]]] = []
    least = MIN_SCORE
    for candidate in islice(candidates, _MAX_TRIED):
        least = max(least, _MIN_SHARE * candidate.score)
        if candidate.score < least:
            break
        lines = _telling_lines(candidate.chunk.text)
        if near.has(candidate, lines) or _is_said(candidate, lines, said):
            continue
        for text in _forms(candidate.chunk, is_own=candidate.uri == near.uri):
            more = (*picks, Pick(candidate.uri, candidate.chunk, text, candidate.score))
            if sum(len(render(one, near.language_id)) for one in assemble(more)) <= budget:
                picks = more
                said.append((candidate, lines))
                break
    return picks


def assemble(picks: Sequence[Pick]) -> tuple[Snippet, ...]:
    """One snippet a file, its chunks in their order; the file with the best chunk last, nearest to
    what is completed."""
    best = {one.uri: max(p.score for p in picks if p.uri == one.uri) for one in picks}
    return tuple(
        Snippet(uri, _joined([one for one in picks if one.uri == uri]))
        for uri in sorted(best, key=lambda uri: (best[uri], uri))
    )


def _joined(picks: list[Pick]) -> str:
    """The text of one file's chunks; a member takes its place in the outline of its type."""
    text = header = ""
    outer: Pick | None = None
    start = 0
    for one in sorted(picks, key=lambda one: (one.chunk.first, -one.chunk.last)):
        declaration = one.chunk.outline
        if outer is not None and outer.chunk.overlaps(one.chunk) and declaration in text[start:]:
            text = text[:start] + text[start:].replace(declaration, one.text, 1)
            continue
        text += "\n" if text and one.text != declaration else ""
        if one.chunk.header != header:
            header = one.chunk.header
            text += header
        if not declaration:
            outer, start = one, len(text)
        text += one.text
    return text


def _forms(chunk: Chunk, *, is_own: bool) -> list[str]:
    """What a chunk may be shown as, the preferred form first; of the document itself no bodies,
    which may have changed since."""
    if not chunk.outline:
        return [chunk.text]
    if is_own or chunk.text.count("\n") > _FULL_LINES:
        return [chunk.outline]
    return [chunk.text, chunk.outline]


def _is_said(
    candidate: Candidate, lines: set[str], said: Iterable[tuple[Candidate, set[str]]]
) -> bool:
    """Whether another chunk says nearly the same; a type and its member do not."""
    return any(
        len(lines & others) >= _ALIKE * min(len(lines), len(others))
        for other, others in said
        if other.uri != candidate.uri or not other.chunk.overlaps(candidate.chunk)
    )


def _telling_lines(text: str) -> set[str]:
    """Lines without what a declaration and a definition end in differently."""
    lines = (line.strip().rstrip(_LINE_TAIL) for line in text.split("\n"))
    return {line for line in lines if len(line) >= _LEAST_LINE}
