"""Completion cases in one line: `║` the cursor, `⏎` a line end, `→` a tab, `·` a blank.

Applies the answer to the document as an editor would, so that cases speak of results only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lsp_server.backend.scripted import Entry, ScriptedBackend
from lsp_server.cancellation import CancelToken
from lsp_server.completer import complete
from lsp_server.completion import CompletionRequest, CompletionResult, Snapshot
from lsp_server.text.place import Place

CURSOR = "║"


def unmark(text: str, line_end: str = "\n") -> str:
    return text.replace("·", " ").replace("→", "\t").replace("⏎", line_end)


def request_at(
    marked: str, line_end: str = "\n", *, language: str = "unknown", **options: Any
) -> CompletionRequest:
    """A request for a document whose text has one cursor mark."""
    text = unmark(marked, line_end)
    assert text.count(CURSOR) == 1
    offset = text.index(CURSOR)
    snapshot = Snapshot("file:///case", 1, language, text.replace(CURSOR, ""))
    return replace(CompletionRequest(snapshot, offset), **options)


def place_at(marked: str, line_end: str = "\n", language: str = "unknown") -> Place:
    request = request_at(marked, line_end)
    return Place.at(request.snapshot.text, request.offset, language_id=language)


def ask(marked: str, model: str, line_end: str = "\n", **options: Any) -> CompletionResult:
    """What is shown where the model writes `model` (marked too)."""
    request = request_at(marked, line_end, **options)
    backend = ScriptedBackend([Entry("", unmark(model))])
    return complete(request, backend, CancelToken())


def accepted(marked: str, result: CompletionResult, line_end: str = "\n") -> str:
    """The document after the answer's edit."""
    text = request_at(marked, line_end).snapshot.text
    return text[: result.start] + result.text + text[result.end :]
