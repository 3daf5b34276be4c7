"""Text of other files for the prompt: what the code at the cursor uses, or is most like.

The files of the session, open or closed, are kept as chunks. Those that share the rarest names with
the place come first, before all those that define them, and before all those of a file that is
imported. What the prompt has anyway, and what nearly says the same, is left out, since models copy
what they see twice.

The choice rests while the user types, so that the tokens before the near text stay in the KV cache.
It is made from whole lines above the cursor, in steps of four; and what was chosen stays until its
score falls below KEEP of what could be had instead.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass

from lsp_server.completion import Snapshot
from lsp_server.context.chunks import chunks_of
from lsp_server.context.relevance import Index, words_of
from lsp_server.context.selection import (
    MIN_SCORE,
    Candidate,
    Near,
    Pick,
    Snippet,
    assemble,
    heading,
    pick,
    render,
)
from lsp_server.files.uris import path_of
from lsp_server.text.languages import language_of
from lsp_server.text.outline import outline_of
from lsp_server.text.place import normalise_line_ends

__all__ = ["ContextStore", "Snippet", "heading", "render"]

MAX_FILES = 64
MAX_CHARACTERS = 2_000_000
"""Of all files together; the least recently learned ones are forgotten."""
MAX_FILE = 200_000
"""Of one file; of a longer one the beginning is kept."""
STEP = 4
"""Lines that are typed before the choice is looked at again."""
KEEP = 0.5
_QUERY = 1500
"""Characters above the cursor whose words are looked for; the nearer half counts twice."""
_AFTER = 500
_HEAD = 4000
"""Characters of a document in which its imports are looked for."""
_FAR, _IMPORTED_NAME = 0.5, 0.7
"""Weights of words that do not stand right above the cursor."""
_IMPORTED_FILE, _SAME_FOLDER, _EDITED = 1.5, 1.1, 1.2
"""Factors of the score of a file that is imported, of one in the same folder, and of a chunk that
was edited in this session."""
_NAMED_BY_FOLDER = frozenset(("__init__", "index", "mod", "lib", "main"))
"""Files that are imported by the name of their folder, as all are in Go."""
_BY_FOLDER = frozenset(("go", "jvm", "dotnet", "swift"))
"""Families whose files use those of the same folder without an import."""
_MODULE = re.compile(r"[\w-]+")


@dataclass(frozen=True, slots=True)
class _File:
    family: str
    folder: str
    module: str
    """What an import calls it, in lower case."""
    text: str
    first_texts: frozenset[str]
    """Of the chunks that it had when it was learned first."""

    @classmethod
    def of(cls, snapshot: Snapshot, text: str, first_texts: frozenset[str]) -> _File:
        family = language_of(snapshot.language_id, snapshot.uri).family
        folder, _, name = path_of(snapshot.uri).rpartition("/")
        stem = name.partition(".")[0].lower()
        is_folder = family == "go" or stem in _NAMED_BY_FOLDER
        module = folder.rpartition("/")[2].lower() if is_folder else stem
        return cls(family, folder, module, text, first_texts)


@dataclass(frozen=True, slots=True)
class _Choice:
    key: tuple[str, int, int, int]
    """What it was made for: the lines above, the state of the store, the budget, what is held."""
    picks: tuple[Pick, ...]
    snippets: tuple[Snippet, ...]


class ContextStore:
    """The files of a session; used by one thread.

    Whatever is learned may be shown to the model: excluded files and secrets never come here.
    """

    def __init__(self, max_files: int = MAX_FILES, max_characters: int = MAX_CHARACTERS) -> None:
        self._max_files = max_files
        self._max_characters = max_characters
        self._files: OrderedDict[str, _File] = OrderedDict()
        self._indexes: dict[str, Index] = {}
        """Of each family of languages."""
        self._choices: OrderedDict[str, _Choice] = OrderedDict()
        self._state = 0
        """Differs between any two states of the files."""
        self.num_characters = 0

    def learn(self, snapshot: Snapshot) -> None:
        """Take a document as it is now; some 0.4 ms a thousand characters, none if unchanged."""
        uri = snapshot.uri
        text = normalise_line_ends(snapshot.text[:MAX_FILE])
        old = self._files.get(uri)
        if old is not None and old.text == text:
            self._files.move_to_end(uri)
            return
        self._remove(uri)
        chunks = chunks_of(text, snapshot.language_id, uri)
        texts = frozenset(chunk.text for chunk in chunks) if old is None else old.first_texts
        file = self._files[uri] = _File.of(snapshot, text, texts)
        self._indexes.setdefault(file.family, Index()).put(uri, chunks)
        self.num_characters += len(text)
        self._state += 1
        while len(self._files) > self._max_files or self.num_characters > self._max_characters:
            self._remove(next(iter(self._files)))

    def forget(self, uri: str) -> None:
        """Nothing of this file is shown or kept from now on."""
        self._remove(uri)
        self._state += 1
        for document, choice in list(self._choices.items()):
            if document == uri or any(made.uri == uri for made in choice.picks):
                del self._choices[document]

    def snippets(
        self, snapshot: Snapshot, offset: int, budget_characters: int, held: int = 4000
    ) -> tuple[Snippet, ...]:
        """What fits into the budget as `render` writes it, the most relevant file last.

        `held`: characters before the cursor that the prompt has anyway.
        """
        above = _above(snapshot.text, offset)
        key = (above, self._state, budget_characters, held)
        choice = self._choices.pop(snapshot.uri, None)
        if choice is None or choice.key != key:
            choice = self._chosen(snapshot, offset, key, choice)
        self._choices[snapshot.uri] = choice
        if len(self._choices) > self._max_files:
            self._choices.popitem(last=False)
        return choice.snippets

    def _chosen(
        self,
        snapshot: Snapshot,
        offset: int,
        key: tuple[str, int, int, int],
        last: _Choice | None,
    ) -> _Choice:
        """The best there is, or `last` where that is nearly as good."""
        above, _, budget, held = key
        candidates = self._candidates(snapshot, offset, above)
        picks = pick(candidates, Near(snapshot, offset, held), budget)
        if last is not None and last.key[2:] == key[2:] and all(map(self._has, last.picks)):
            now = {(each.uri, each.chunk.text): each.score for each in candidates}
            worth = sum(now.get((each.uri, each.chunk.text), 0.0) for each in last.picks)
            if worth >= KEEP * sum(each.score for each in picks):
                return _Choice(key, last.picks, last.snippets)
        return _Choice(key, picks, assemble(picks))

    def _has(self, made: Pick) -> bool:
        """Whether what was picked is still in its file."""
        file = self._files.get(made.uri)
        return file is not None and made.chunk.text in self._indexes[file.family].texts(made.uri)

    def _candidates(self, snapshot: Snapshot, offset: int, above: str) -> list[Candidate]:
        """The chunks that have much to do with the place, best first."""
        index = self._indexes.get(language_of(snapshot.language_id, snapshot.uri).family)
        if index is None:
            return []
        imports = _imports(snapshot)
        modules = set(_MODULE.findall(imports.lower()))
        folder = path_of(snapshot.uri).rpartition("/")[0]
        imported = {
            uri
            for uri, file in self._files.items()
            if file.module in modules or (file.folder == folder and file.family in _BY_FOLDER)
        }
        query = _query(above, snapshot.text[offset : offset + _AFTER], words_of(imports))
        found: list[Candidate] = []
        for uri, chunk, score in index.scores(query, imported | {snapshot.uri}):
            if score * _IMPORTED_FILE * _SAME_FOLDER * _EDITED < MIN_SCORE:
                continue
            file = self._files[uri]
            score *= _IMPORTED_FILE if uri in imported else 1.0
            score *= _SAME_FOLDER if file.folder == folder else 1.0
            score *= 1.0 if chunk.text in file.first_texts else _EDITED
            found.append(Candidate(uri, chunk, score))
        return sorted(found, key=lambda each: (-each.score, each.uri, each.chunk.first))

    def _remove(self, uri: str) -> None:
        file = self._files.pop(uri, None)
        if file is not None:
            self.num_characters -= len(file.text)
            self._indexes[file.family].remove(uri)


def _above(text: str, offset: int) -> str:
    """Whole lines above the cursor's, up to one whose number is a multiple of STEP."""
    num_lines = text.count("\n", 0, offset)
    end = text.rfind("\n", 0, offset) + 1
    for _ in range(num_lines % STEP):
        end = text.rfind("\n", 0, end - 1) + 1
    return text[max(0, end - _QUERY) : end]


def _query(above: str, after: str, imported: set[str]) -> dict[str, float]:
    """Word -> weight; a word that stands in several places counts as in the best of them."""
    half = len(above) // 2
    query = dict.fromkeys(words_of(above[:half] + after), _FAR)
    query |= dict.fromkeys(imported, _IMPORTED_NAME)
    return query | dict.fromkeys(words_of(above[half:]), 1.0)


def _imports(snapshot: Snapshot) -> str:
    """A document's import statements, as far as they are at its beginning."""
    head = snapshot.text[:_HEAD]
    spans = outline_of(head, snapshot.language_id, snapshot.uri).imports
    return "\n".join(head[span.start : span.end] for span in spans)
