"""The steps of one completion, in order: from a request to the text shown, or why there is none.

Runs on the inference thread. What stands behind `Backend` (a model, a script) makes no difference.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from lsp_server.cancellation import CancelToken
from lsp_server.completion import (
    Backend,
    CompletionRequest,
    CompletionResult,
    CompletionStats,
    Reason,
    Watch,
    unwatched,
)
from lsp_server.errors import InferenceError
from lsp_server.generation import Collected, Finish, collect, stop_rule
from lsp_server.place import Place
from lsp_server.postprocess import Dropped, Edit, postprocess

Clock = Callable[[], float]


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
        language_id=target.snapshot.language_id,
        tab_size=target.tab_size,
        insert_spaces=target.insert_spaces,
    )
    rule = stop_rule(target.mode, place)
    generation = backend.generate(target, cancel)
    message = None
    try:
        collected = collect(
            generation,
            rule,
            cancel,
            max_tokens=target.max_tokens,
            time_budget=None if request.deadline_ms is None else request.deadline_ms / 1000,
            clock=clock,
            watch=watch,
        )
        outcome = _outcome(collected, place, cancel)
    except InferenceError as error:
        collected, outcome, message = _NO_TEXT, Dropped(Reason.ENGINE_ERROR), str(error)
    stats = generation.stats
    stats.ms["total"] = (clock() - started) * 1000
    if isinstance(outcome, Dropped):
        result = nothing(request, outcome.reason, stats, message)
        return replace(result, token_ids=collected.token_ids)
    return _shown(request, target, outcome, stats, collected.token_ids)


_NO_TEXT = Collected("", None, Finish.ENDED)


def refuse_place(request: CompletionRequest) -> Reason | None:
    """Reasons that need no model: the cursor is inside a word, or the chosen entry is elsewhere."""
    text, selected = request.snapshot.text, request.selected
    end = request.offset
    if selected is not None:
        if not selected.start <= request.offset <= selected.end:
            return Reason.SELECTED_MISMATCH
        end = selected.end
    if not request.invoked and end < len(text) and _continues_word(text[end]):
        return Reason.MID_WORD
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
    )


def _outcome(collected: Collected, place: Place, cancel: CancelToken) -> Edit | Dropped:
    if collected.finish is Finish.CANCELLED:
        codes = {reason.value: reason for reason in Reason}
        return Dropped(codes.get(cancel.reason or "", Reason.CANCELLED))
    if collected.finish is Finish.DEADLINE and not collected.text.strip():
        return Dropped(Reason.DEADLINE)
    return postprocess(collected.text, place)


def _shown(
    request: CompletionRequest,
    target: CompletionRequest,
    edit: Edit,
    stats: CompletionStats,
    token_ids: tuple[int, ...] | None,
) -> CompletionResult:
    """The edit in offsets of the document as the editor has it."""
    start, end = request.offset - edit.num_left, request.offset + edit.num_right
    text = edit.text
    selected = request.selected
    if selected is not None:
        start, end = selected.start, selected.end + edit.num_right
        whole = target.snapshot.text[selected.start : target.offset]
        text = whole[: len(whole) - edit.num_left] + text
        if not text.startswith(selected.text):
            return nothing(request, Reason.SELECTED_MISMATCH, stats)
    return CompletionResult(text, start, end, None, stats, token_ids)


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
