"""Whether a server answers as a fresh one would, whatever it has in its caches.

At places of the traces one server is asked what an author might make it answer from its caches: at
the place itself, after accepting the item (which it has looked ahead to), back at the place, and
with some of the item typed. Another server, which knows no document but the one it is asked about,
and that from its start, says what is right. Greedy and strict, without deadlines and without text
of other files.

- `engine`, `look_ahead`: text, range and reason are those of the fresh server.
- `cache`: they are those of the earlier answer at the same place.
- `typed_through`: the document, once it is accepted, is what an earlier answer would have made it.
  How often the fresh server says the same is told (`agreement`) and is no fault: less text is
  missing there, and a model may go on otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from lsp_server.bench.client import StdioClient
from lsp_server.bench.editor import Editor, Told
from lsp_server.bench.judgement import first_line
from lsp_server.bench.traces import Trace
from lsp_server.completion import Origin
from lsp_server.errors import InferenceError

KINDS = ("engine", "look_ahead", "cache", "typed_through")
STRIDE = 4
"""Edits from one place to the next."""
_AGREEMENT_EVERY, _HURRIED_EVERY = 4, 3


@dataclass(frozen=True, slots=True)
class Mismatch:
    kind: str
    place: str
    wanted: object
    told: object


@dataclass(slots=True)
class Comparison:
    num_points: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    mismatches: list[Mismatch] = field(default_factory=list)
    num_compared: int = 0
    """Typed-through answers for which the fresh server was asked."""
    num_agreed: int = 0

    def note(self, kind: str, place: str, wanted: object, told: object) -> None:
        self.counts[kind] += 1
        if wanted != told:
            self.mismatches.append(Mismatch(kind, place, wanted, told))

    @property
    def agreement(self) -> float | None:
        """Share of the compared typed-through answers that the fresh server gives too."""
        return round(self.num_agreed / self.num_compared, 4) if self.num_compared else None

    @property
    def missing(self) -> list[str]:
        """Kinds of which there was no sample."""
        return [kind for kind in KINDS if not self.counts[kind]]


class Fresh:
    """Asks a server about documents that it has never seen: each is in a folder of its own."""

    def __init__(self, client: StdioClient) -> None:
        self._client = client
        self._num_documents = 0

    def ask(self, trace: Trace, text: str, cursor: int) -> Told:
        self._num_documents += 1
        uri = f"file:///{self._num_documents}/replay/{trace.file_name}"
        editor = Editor(self._client, uri, trace.language_id, text)
        told = editor.ask(cursor)
        editor.close()
        if told.origin != Origin.ENGINE.value or told.num_reused:
            raise InferenceError(
                f"The server to compare with was not fresh: the answer came from {told.origin},"
                f" {told.num_reused} tokens were in its cache."
            )
        return told


class Checker:
    """Goes through traces with a server that has caches and one that is fresh."""

    def __init__(self, cached: StdioClient, fresh: StdioClient) -> None:
        self.found = Comparison()
        self._client = cached
        self._fresh = Fresh(fresh)
        self._told: dict[tuple[str, int], Told] = {}
        self._promised: set[str] = set()
        """Documents that accepting an earlier answer would have made."""

    def check(self, trace: Trace, num_points: int) -> Iterator[None]:
        """Yields at each place."""
        self._told.clear()
        self._promised.clear()
        editor = Editor(
            self._client, f"file:///0/replay/{trace.file_name}", trace.language_id, trace.text
        )
        for key, edit in enumerate(trace.edits[: num_points * STRIDE]):
            before = editor.text
            is_point = key % STRIDE == STRIDE - 1
            cursor_before = trace.edits[key - 1].cursor if key else None
            if is_point and self.found.num_points % _HURRIED_EVERY == 0:
                assert cursor_before is not None  # a point is never the first edit
                editor.ask_and_leave(cursor_before)
            editor.apply(edit)
            if is_point:
                self.found.num_points += 1
                self._visit(editor, trace, edit.cursor, (before, cursor_before or 0))
                yield
        editor.close()

    def _visit(self, editor: Editor, trace: Trace, cursor: int, before: tuple[str, int]) -> None:
        told = editor.ask(cursor)
        self._judge(trace, told, before)
        if not told.text:
            return
        editor.wait_for_look_ahead()
        item = told.text[cursor - told.start :]
        self._accept(editor, told)
        self._judge(trace, editor.ask(told.start + len(told.text)))
        self._undo(editor, told)
        self._judge(trace, editor.ask(cursor))
        typed = list(_beginnings(item))
        part = typed[self.found.num_points % len(typed)]
        if told.end == cursor and part != item:
            editor.edit(cursor, 0, part)
            self._judge(trace, editor.ask(cursor + len(part)))
            editor.edit(cursor, len(part), "")

    def _accept(self, editor: Editor, told: Told) -> None:
        editor.edit(told.start, told.end - told.start, told.text)

    def _undo(self, editor: Editor, told: Told) -> None:
        editor.edit(told.start, len(told.text), told.document[told.start : told.end])

    def _judge(self, trace: Trace, told: Told, before: tuple[str, int] | None = None) -> None:
        """`before` is where the request was that nobody waited for."""
        place = f"{trace.file_name}:{told.document.count(chr(10), 0, told.cursor) + 1}"
        earlier = self._told.get((told.document, told.cursor))
        if told.origin == Origin.TYPED_THROUGH.value or told.num_typed:
            self._judge_rest(trace, told, place, before)
        elif told.origin == Origin.CACHE.value and earlier is not None:
            self.found.note("cache", place, earlier.content, told.content)
        else:
            fresh = self._fresh.ask(trace, told.document, told.cursor)
            # Only looking ahead can have put into the cache what was never given.
            kind = "engine" if told.origin == Origin.ENGINE.value else "look_ahead"
            self.found.note(kind, place, fresh.content, told.content)
        self._told[told.document, told.cursor] = told
        if told.text:
            self._promised.add(told.accepted)

    def _judge_rest(
        self, trace: Trace, told: Told, place: str, before: tuple[str, int] | None
    ) -> None:
        if told.accepted not in self._promised and before is not None:
            # What was asked without waiting may have been generated all the same.
            self._promised.add(self._fresh.ask(trace, *before).accepted)
        wanted = told.accepted in self._promised
        kind = "engine" if told.origin == Origin.ENGINE.value else "typed_through"
        self.found.note(kind, place, True, wanted)
        if kind == "typed_through" and self.found.counts[kind] % _AGREEMENT_EVERY == 0:
            fresh = self._fresh.ask(trace, told.document, told.cursor)
            self.found.num_compared += 1
            self.found.num_agreed += fresh.content == told.content


def _beginnings(item: str) -> Iterable[str]:
    """A character, a word, a line of an item."""
    stripped = item.lstrip()
    blanks = len(item) - len(stripped)
    word = stripped.split(maxsplit=1)[0] if stripped else ""
    return (item[:1], item[: blanks + len(word)], first_line(item))
