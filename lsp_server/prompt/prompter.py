"""The prompt of one model: parts of text to token ids, in the order of its template.

What a key changes comes last, so that all before it is found in the KV cache. The last piece before
the cursor is left out and handed on to be generated again (engine/healing.py).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from lsp_server.completion import Snapshot
from lsp_server.context.selection import Snippet, heading, render, shown_path
from lsp_server.engine.healing import ByteIndex, Healing
from lsp_server.engine.tokenizer import Tokenizer
from lsp_server.prompt.fim import PLAIN, Layout, Part, Template
from lsp_server.prompt.window import (
    CHARACTERS_PER_TOKEN,
    FILES_SHARE,
    SUFFIX_SHARE,
    Around,
    beyond_closers,
    line_start,
    near_prefix,
    near_suffix,
    suffix_window,
)

_KEPT = 8
"""Texts of which the ids are kept: those of one prompt, most of which stay from key to key."""
_MARGIN = 0.8
"""Of the characters that a share of the budget holds: code has fewer a token than prose."""
_BLANKS = (" ", "\t")
_REPOSITORY = "project"
"""The name that every repository has in a prompt: of its path a model is told no more than is
shown of a file's."""


@dataclass(frozen=True, slots=True)
class Seam:
    """What stands between the prompt's tokens and the cursor."""

    text: bytes = b""
    """The generation begins with it."""
    token_ids: tuple[int, ...] = ()
    """What it stood in; none where it was cut off inside of a token."""
    instead: bytes = b""
    """What the generation may begin with instead."""

    def constraint(self, index: ByteIndex, begun_ids: Sequence[int] = ()) -> Healing | None:
        """`begun_ids`: the generation's first tokens, where they are given."""
        return Healing(index, self.text, self.instead, begun_ids) if self.text else None


@dataclass(frozen=True, slots=True)
class Prompt:
    token_ids: list[int]
    """Empty: there is nothing to continue."""
    seam: Seam = Seam()
    draft_suffix: tuple[int, ...] = ()
    """The text after the cursor, for drafts to copy from."""
    num_file_tokens: int = 0
    num_suffix_tokens: int = 0


class Prompter:
    """Makes the prompts of one model. Its state is no more than the ids of the last texts."""

    def __init__(self, tokenizer: Tokenizer, template: Template) -> None:
        self.template = template
        self._tokenizer = tokenizer
        self._encoded: OrderedDict[str, list[int]] = OrderedDict()

    @cached_property
    def index(self) -> ByteIndex:
        """Made at the first prompt that is healed."""
        num_tokens = self._tokenizer.vocab_size
        return ByteIndex([self._tokenizer.token_bytes(token) for token in range(num_tokens)])

    @cached_property
    def _blank_leads(self) -> bool:
        """The vocabulary gives the last blank of an indentation to the word after it."""
        tokens = map(self._tokenizer.token_bytes, self._tokenizer.encode("\n    return"))
        return next(token for token in tokens if token.strip()).startswith(b" ")

    def prompt(
        self,
        snapshot: Snapshot,
        offset: int,
        budget: int,
        *,
        healing: bool = True,
        files: Sequence[Snippet] = (),
    ) -> Prompt:
        """The prompt of at most `budget` tokens at `offset` (code points).

        `files`: text of others, the most telling last. But for it the prompt depends on nothing but
        the document and the place.
        """
        around = Around.of(snapshot, offset)
        infills = self.template.infills and bool(beyond_closers(around.after).strip())
        if not infills and not around.before.strip():
            return Prompt([])  # nothing but blanks is no text to continue
        before, blank = self._without_blank(around.before)
        layout = self.template.layout if infills else PLAIN
        parts = {part: [token_id] for part, token_id in self.template.markers.items()}
        comments, parts[Part.FILES] = self._files(snapshot, files, budget // FILES_SHARE)
        taken = len(comments) + sum(len(parts.get(part, ())) for part in layout)
        if infills:
            # Its whole share counts, lest the window before the cursor move with it.
            share = budget // SUFFIX_SHARE
            parts[Part.SUFFIX] = self._encode(near_suffix(around.after, share, self._count))
            taken += share
        lead = "" if comments else self.template.lead
        split = _Split(lead, len(before) - line_start(before), layout)
        near = near_prefix(
            before, max(1, budget - taken), lambda text: sum(map(self._count, split(text)))
        )
        above, line = map(self._encode, split(near))
        parts[Part.ABOVE] = comments + above
        fixed = [token_id for part in layout[:-1] for token_id in parts.get(part, ())]
        seam = Seam()
        if healing:
            seam = self._seam(line, 0 if fixed else 1) if not blank else _blank_seam(before, blank)
        return Prompt(
            fixed + line[: len(line) - len(seam.token_ids)],
            seam,
            tuple(self._encode(suffix_window(around.after))),
            num_file_tokens=len(comments) + len(parts[Part.FILES]),
            num_suffix_tokens=len(parts.get(Part.SUFFIX, ())),
        )

    def _without_blank(self, before: str) -> tuple[str, str]:
        """The text without the blank or tab that it ends with, and that.

        Most vocabularies give it to the word after it: indentation of four and `return` are three
        blanks and ` return`. A prompt with all four ends in a token that the model has hardly seen
        at this place; one with the three keeps to the indentation. Of 100 indented lines of the
        HumanEval infilling set the default model completes 24 exactly so, 22 where all four are to
        be generated again, and 11 behind the whole text.
        """
        if before.endswith(_BLANKS) and self._blank_leads:
            return before[:-1], before[-1]
        return before, ""

    def _seam(self, line_ids: Sequence[int], num_left: int) -> Seam:
        """What to generate again of the text that the generation continues, of which `num_left`
        tokens are to stay."""
        num_cut = max(0, min(self.index.num_to_cut(line_ids), len(line_ids) - num_left))
        cut = tuple(line_ids[len(line_ids) - num_cut :])
        return Seam(b"".join(map(self._tokenizer.token_bytes, cut)), cut)

    def files_characters(self, budget: int) -> int:
        """What other files may take of a prompt of `budget` tokens."""
        return int(budget // FILES_SHARE * CHARACTERS_PER_TOKEN * _MARGIN)

    def near_characters(self, budget: int) -> int:
        """What a prompt with other files in it surely holds of the text before the cursor."""
        return budget * (FILES_SHARE - 1) // FILES_SHARE * CHARACTERS_PER_TOKEN // 2

    def _files(
        self, snapshot: Snapshot, files: Sequence[Snippet], limit: int
    ) -> tuple[list[int], list[int]]:
        """Other files and this one's path: as comments, or behind the family's markers.

        What goes beyond `limit` tokens is left out, the least telling first.
        """
        template, uri, language_id = self.template, snapshot.uri, snapshot.language_id
        for first in range(len(files) + 1):
            shown = files[first:]
            if template.file_id is None:
                text = "".join(render(file, language_id) for file in shown)
                head = f"{template.lead}{text}{heading(uri, language_id)}" if text else ""
                comments, marked = self._encode(head), []
            else:
                comments, marked = [], self._behind_markers(uri, shown, template.file_id)
            if len(comments) + len(marked) <= limit:
                return comments, marked
        return [], []

    def _behind_markers(self, uri: str, files: Sequence[Snippet], file_id: int) -> list[int]:
        ids: list[int] = []
        if self.template.repository_id is not None:
            ids = [self.template.repository_id, *self._encode(f"{_REPOSITORY}\n")]
        for path, text in [*((file.uri, file.text) for file in files), (uri, "")]:
            ids += [file_id, *self._encode(f"{shown_path(path)}\n{text}")]
        return ids

    def _count(self, text: str) -> int:
        return len(self._encode(text))

    def _encode(self, text: str) -> list[int]:
        """The ids of `text`; not to be changed."""
        ids = self._encoded.pop(text, None)
        if ids is None:
            ids = self._tokenizer.encode(text)
        self._encoded[text] = ids
        if len(self._encoded) > _KEPT:
            self._encoded.popitem(last=False)
        return ids


@dataclass(frozen=True, slots=True)
class _Split:
    """How a layout has the text before the cursor: in one piece, or the cursor's line apart."""

    lead: str
    num_in_line: int
    """Characters of the cursor's line."""
    layout: Layout

    def __call__(self, text: str) -> tuple[str, str]:
        """What goes to ABOVE and to LINE, of the end of the text before the cursor."""
        if self.layout.index(Part.LINE) == self.layout.index(Part.ABOVE) + 1:
            return "", self.lead + text
        cut = max(0, len(text) - self.num_in_line)
        return self.lead + text[:cut], text[cut:]


def _blank_seam(before: str, blank: str) -> Seam:
    """On a line that has no text yet, a line break may come instead: the block is left then."""
    is_blank_line = not before[before.rfind("\n") + 1 :].strip()
    return Seam(blank.encode(), instead=b"\n" if is_blank_line else b"")
