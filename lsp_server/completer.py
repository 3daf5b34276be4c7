"""The steps of one completion, in order: from a request to the text shown, or why there is none.

Runs on the inference thread. What stands behind `Backend` (a model, a script) makes no difference.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from lsp_server.cancellation import CancelToken
from lsp_server.completion import (
    IN_THE_TEXT,
    Backend,
    CompletionRequest,
    CompletionResult,
    CompletionStats,
    Piece,
    Reason,
    TextEdit,
    Watch,
    unwatched,
)
from lsp_server.generation.amount import stop_rule
from lsp_server.generation.confidence import confidence_of, is_sure, most_confident
from lsp_server.generation.items import Clock, Writer, Written
from lsp_server.postprocess import Dropped, Edit
from lsp_server.text.languages import language_of
from lsp_server.text.place import Place
from lsp_server.text.prose import is_comment, is_prose_document


def complete(
    request: CompletionRequest,
    backend: Backend,
    cancel: CancelToken,
    clock: Clock = time.perf_counter,
    watch: Watch = unwatched,
) -> CompletionResult:
    """Complete at the cursor. `clock` gives seconds; `watch` hears of the text while it arrives.

    Every outcome is a result; only defects and the errors of loading a model raise.
    """
    started = clock()
    if (refusal := refuse_place(request)) is not None:
        return nothing(request, refusal)
    target = with_selected(request)
    place = Place.at(
        target.snapshot.text,
        target.offset,
        language_id=language_of(target.snapshot.language_id, target.snapshot.uri).name,
        tab_size=target.tab_size,
        insert_spaces=target.insert_spaces,
    )
    in_comment = is_comment(target.snapshot, target.offset, place)
    if in_comment and not (request.invoked or request.prose):
        return nothing(request, Reason.PROSE)
    rule = stop_rule(target, place, in_comment=in_comment)
    writer = Writer(target, rule, backend, cancel, clock, partial(_is_hopeless, request, place))
    first = writer.write(watch=watch)
    first.stats.confidence = confidence_of(first.collected.pieces, place)
    outcome, shown = _judge(request, place, first), first
    others = _others(request, target, writer, first)
    if isinstance(outcome, Dropped) and (second := next(others, None)) is not None:
        outcome, shown = second.outcome, second
        first.stats.confidence = confidence_of(shown.collected.pieces, place)
    if isinstance(outcome, Edit):
        result = _show(request, target, outcome, first.stats, others)
    else:
        result = nothing(request, outcome.reason, first.stats, first.message)
    first.stats.ms["total"] = (clock() - started) * 1000
    return replace(result, token_ids=shown.collected.token_ids)


def refuse_place(request: CompletionRequest) -> Reason | None:
    """Reasons that need no model and next to no time: the cursor is inside a word or in a document
    of prose, or the chosen entry is elsewhere."""
    text, selected = request.snapshot.text, request.selected
    end = request.offset
    if selected is not None:
        if not selected.start <= request.offset <= selected.end:
            return Reason.SELECTED_MISMATCH
        end = selected.end
    if request.invoked:
        return None
    if end < len(text) and _continues_word(text[end]):
        return Reason.MID_WORD
    if not request.prose and is_prose_document(request.snapshot, request.offset):
        return Reason.PROSE
    return None


def _continues_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def with_selected(request: CompletionRequest) -> CompletionRequest:
    """The request as if the entry chosen in the suggest widget had been accepted already."""
    selected = request.selected
    if selected is None:
        return request
    text = request.snapshot.text
    return replace(
        request,
        snapshot=replace(
            request.snapshot, text=text[: selected.start] + selected.text + text[selected.end :]
        ),
        offset=selected.start + len(selected.text),
        selected=None,
        is_foreseen=True,
    )


def _is_hopeless(request: CompletionRequest, place: Place, pieces: Sequence[Piece]) -> bool:
    """To write on what cannot become sure enough to be shown only takes time from the next key."""
    if request.invoked:
        return False
    return not is_sure(most_confident(pieces, place, request.max_tokens), request.eagerness)


def _judge(request: CompletionRequest, place: Place, first: Written) -> Edit | Dropped:
    """Whether what was written is shown. What the user asked for by key is."""
    outcome = first.outcome
    if request.invoked or isinstance(outcome, Dropped):
        return outcome
    is_in_word = _continues_word(place.line_before[-1:]) and _continues_word(outcome.text[0])
    if is_in_word and not request.healing:
        return Dropped(Reason.MID_WORD)
    if not is_sure(first.stats.confidence, request.eagerness):
        return Dropped(Reason.LOW_CONFIDENCE)
    return outcome


def _show(
    request: CompletionRequest,
    target: CompletionRequest,
    edit: Edit,
    stats: CompletionStats,
    others: Iterable[Written],
) -> CompletionResult:
    shown = _located(request, target, edit)
    if shown is None:
        return nothing(request, Reason.SELECTED_MISMATCH, stats)
    edits = [other.outcome for other in others if isinstance(other.outcome, Edit)]
    located = (_located(request, target, other) for other in edits)
    alternatives = tuple(other for other in located if other is not None)
    return CompletionResult(
        shown.text, shown.start, shown.end, None, stats, alternatives=alternatives
    )


def _others(
    request: CompletionRequest, target: CompletionRequest, writer: Writer, first: Written
) -> Iterator[Written]:
    """Texts of further items, no two of which leave the document in the same state. Where the
    first came to nothing the user, who has asked by key, still has these."""
    if not request.invoked or (
        isinstance(first.outcome, Dropped) and first.outcome.reason not in IN_THE_TEXT
    ):
        return iter(())

    def accepted(edit: Edit) -> str | None:
        shown, text = _located(request, target, edit), request.snapshot.text
        return None if shown is None else text[: shown.start] + shown.text + text[shown.end :]

    return writer.others(first, accepted)


def _located(request: CompletionRequest, target: CompletionRequest, edit: Edit) -> TextEdit | None:
    """The edit in offsets of the document as the editor has it; None where it does not begin with
    the chosen entry."""
    start, end = request.offset - edit.num_left, request.offset + edit.num_right
    selected = request.selected
    if selected is None:
        return TextEdit(edit.text, start, end)
    whole = target.snapshot.text[selected.start : target.offset]
    text = whole[: len(whole) - edit.num_left] + edit.text
    if not text.startswith(selected.text):
        return None
    return TextEdit(text, selected.start, selected.end + edit.num_right)


def nothing(
    request: CompletionRequest,
    reason: Reason,
    stats: CompletionStats | None = None,
    message: str | None = None,
) -> CompletionResult:
    """The answer without an item; never without its reason."""
    return CompletionResult(
        "", request.offset, request.offset, reason, stats or CompletionStats(), message=message
    )
