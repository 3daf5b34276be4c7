"""One client's documents, model and answers: what a request gets, whatever the state of things.

Runs on the event loop and hands the work to the scheduler. Free of protocol libraries.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
import traceback
import uuid
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from lsp_server.answering.answering import Answering
from lsp_server.answers import Answer, Item
from lsp_server.asking import RequestOptions, asked
from lsp_server.completion import (
    CompletionRequest,
    CompletionResult,
    Engine,
    Reason,
    Snapshot,
    TextEdit,
)
from lsp_server.documents import Change, Document, DocumentStore, Encoding, position_at
from lsp_server.errors import Cancelled
from lsp_server.learning import Learning
from lsp_server.params import InlineCompletionParams
from lsp_server.scheduler import Scheduler
from lsp_server.statistics.acceptance import Acceptance
from lsp_server.statistics.shown import Shown

logger = logging.getLogger(__name__)

_LINE_END = re.compile(r"[\r\n]")

FIRST_PAGES = 3000
"""Characters of a document just opened whose prompt is read ahead: the cursor may be anywhere in
them, and what is read before it is of use."""

KEEPS_SCREEN = frozenset({Reason.SUPERSEDED, Reason.STALE, Reason.CANCELLED, Reason.NOT_OPEN})
"""Answers without items that take nothing from the screen."""


@dataclass(frozen=True, slots=True)
class Listener:
    """Who hears of answers and of what became of them: statistics, status, and what drafts are
    made of."""

    answered: Callable[[Answer, float], None] = lambda answer, ms: None
    seen: Callable[[Shown], None] = lambda shown: None
    """An item came up."""
    accepted: Callable[[Shown], None] = lambda shown: None
    learn: Callable[[Snapshot], None] | None = None
    """Takes note of an open document; runs on the inference thread, in between requests."""
    forget: Callable[[str], None] = lambda uri: None
    """Drops what was kept of a document that is refused from now on; on the inference thread."""
    partially_accepted: Callable[[Shown, int], None] = lambda shown, num_characters: None
    """So many characters of the item are taken by now."""
    kept: Callable[[Shown, bool], None] = lambda shown, is_kept: None
    """Whether accepted text still stood in the document a while later."""
    model: Callable[[Reason | None, str | None], None] = lambda reason, message: None
    """Why there is no model now, with a message; no reason: there is one."""
    paused: Callable[[bool], None] = lambda is_paused: None


class Session:
    def __init__(
        self,
        scheduler: Scheduler,
        documents: DocumentStore,
        listener: Listener,
        is_spare: Callable[[], bool] = lambda: True,
    ) -> None:
        """`is_spare` tells, on the inference thread, whether the machine has power for what nobody
        has asked for."""
        self.scheduler = scheduler
        self.documents = documents
        self.options = RequestOptions()
        self._listener = listener
        self._answering = Answering(scheduler, documents.snapshot, is_spare)
        self._engine: Engine | None = None
        self._without_model = Answer(Reason.MODEL_LOADING)
        self._when_asked: Callable[[], None] = lambda: None
        self._answers: dict[str, tuple[int, Answer]] = {}
        """Document -> its latest request that has been answered, by number, and the answer."""
        self._request_numbers = count(1)
        self._newest: dict[str, int] = {}
        """Document -> the number of the latest request that was begun for it."""
        self._is_paused = False
        self._acceptance = Acceptance(
            documents,
            seen=listener.seen,
            accepted=listener.accepted,
            partially_accepted=listener.partially_accepted,
            kept=listener.kept,
        )
        self._learning = Learning(scheduler, documents, listener.learn, listener.forget)
        self._edited: set[str] = set()
        """Documents that have been edited since they were learned."""
        self._tasks: set[asyncio.Task[None]] = set()

    def use(self, engine: Engine) -> None:
        """From now on there is a model."""
        self._engine = engine
        self._answering.use(engine)
        self._listener.model(None, None)
        for uri in self.documents.uris():
            self._learn(uri)

    def opened(self, uri: str) -> None:
        """A document is open now."""
        self._answering.changed(uri)  # it may have been open with another text
        self._acceptance.cleared(uri)
        self._learning.opened(uri)
        if self.has_model:
            self._learn(uri)
        self._come_to(uri, lambda document: FIRST_PAGES)

    def change(self, uri: str, version: int | None, changes: Sequence[Change]) -> bool:
        """A document has been edited; False: it is not open."""
        if not self.documents.change(uri, version, changes):
            return False
        self._edited.add(uri)
        self._answering.changed(uri)
        self._acceptance.changed(uri, len(changes))
        if changes and changes[-1].range is not None:
            start, text = changes[-1].range.start, changes[-1].text
            self._come_to(uri, lambda document: document.offset_at(start) + len(text))
        return True

    def lose(self, uri: str) -> None:
        """An edit of a document could not be read."""
        self.documents.lose(uri)
        self._answering.changed(uri)

    @property
    def has_model(self) -> bool:
        return self._engine is not None

    def loading(self, message: str | None = None) -> None:
        """A model is on its way; `message` says so where it takes more than seconds."""
        self._be_without(Answer(Reason.MODEL_LOADING, message=message))

    def missing(self, message: str, when_asked: Callable[[], None] = lambda: None) -> None:
        """There is no model; `when_asked` is called at every request that would have needed it."""
        self._be_without(Answer(Reason.MODEL_MISSING, message=message), when_asked)

    def _be_without(self, answer: Answer, when_asked: Callable[[], None] = lambda: None) -> None:
        self._engine, self._without_model = None, answer
        self._when_asked = when_asked
        self._answering.use(None)
        self._listener.model(answer.reason, answer.message)

    def pause(self, is_paused: bool) -> None:
        """While paused nothing is completed; documents are followed all the same."""
        self._is_paused = is_paused
        if is_paused:
            self._answering.pause()
        self._listener.paused(is_paused)

    def close(self, uri: str) -> None:
        """Forget a document, and stop what is being done for it."""
        self._learning.closing(uri)
        self.documents.close(uri)
        self._edited.discard(uri)
        self._acceptance.cleared(uri)
        self._answers.pop(uri, None)
        self._newest.pop(uri, None)
        self._answering.stop(uri, Reason.STALE)

    def explain(self, uri: str) -> dict[str, Any] | None:
        """The answer to the last request for a document; None before the first."""
        if uri not in self.documents:
            return Answer(Reason.NOT_OPEN).as_json()
        number_and_answer = self._answers.get(uri)
        return number_and_answer[1].as_json() if number_and_answer else None

    def seen(self, item_id: str) -> None:
        """The client says that the item is on the screen."""
        self._acceptance.seen(item_id)

    def accept(self, item_id: str) -> None:
        """The client says that the item was inserted; twice or for an old one is no error."""
        self._acceptance.accept(item_id)

    def partially_accepted(
        self, item_id: str, length: int, encoding: Encoding | None = None
    ) -> None:
        """The client says that so much of the item is inserted by now, from its start and in units
        of `encoding`, else of positions."""
        self._acceptance.accept_part(item_id, length, encoding or self.documents.encoding)

    async def complete(self, params: InlineCompletionParams) -> Answer:
        """Takes its snapshot before it first waits; raises asyncio.CancelledError only."""
        started, number = time.perf_counter(), next(self._request_numbers)
        answer = Answer(Reason.CANCELLED)
        try:
            answer = await self._answer(params, number)
        finally:
            self._record(params.uri, number, answer)
            if not answer.items and answer.reason not in KEEPS_SCREEN:
                self._acceptance.cleared(params.uri)
            self._listener.answered(answer, (time.perf_counter() - started) * 1000)
        return answer

    async def _answer(self, params: InlineCompletionParams, number: int) -> Answer:
        snapshot = self.documents.snapshot(params.uri)
        if isinstance(snapshot, Reason):
            return Answer(snapshot)
        if params.version is not None and params.version != snapshot.version:
            return Answer(Reason.STALE)
        revision = self.documents.revision(params.uri)
        self._newest[params.uri] = number
        options = await self._options_for(params.uri)
        if self.documents.revision(params.uri) != revision:
            return Answer(Reason.STALE)
        if self._newest[params.uri] != number:
            # The disk may answer in between, so that the newer one had nothing to wait for.
            return Answer(Reason.SUPERSEDED)
        if (refusal := options.refuse(snapshot)) is not None:
            self._forget(params.uri)
            return Answer(refusal.reason, message=refusal.message)
        if self._is_paused:
            return Answer(Reason.PAUSED)
        document = self.documents.get(params.uri)
        if document is None or params.position.line >= document.num_lines:
            message = "The cursor lies beyond the end of the document; ask again after the edit."
            return Answer(Reason.EMPTY, message=message)
        if self._engine is None:
            self._when_asked()
            return self._without_model
        request = asked(params, snapshot, document, options)
        self._learning.give(params.uri)
        self._learn_edited(params.uri)
        self._answering.looks_ahead = options.look_ahead
        try:
            result = await self._answering.answer(request)
        except Cancelled as cancelled:
            return Answer(_reason_of(cancelled))
        except Exception as error:  # noqa: BLE001 - whatever the engine does, the server lives on
            # The log gets no message: it could hold user code.
            frames = "".join(traceback.format_tb(error.__traceback__))
            logger.error("completion failed: %s\n%s", type(error).__name__, frames)
            return Answer(Reason.ENGINE_ERROR, message=f"The engine failed: {error}")
        if self.documents.revision(params.uri) != revision:
            return Answer(Reason.STALE, stats=result.stats)
        if self._newest[params.uri] != number:  # what the newer one was told stands
            return Answer(Reason.SUPERSEDED, stats=result.stats)
        return self._answer_of(request, params.position.line, result)

    async def _options_for(self, uri: str) -> RequestOptions:
        """The settings as they are once the disk has been asked by them: what was admitted by
        others might be kept although it is refused now."""
        while True:
            options = self.options
            await options.look(uri)
            if options is self.options:
                return options

    def _come_to(self, uri: str, offset_in: Callable[[Document], int]) -> None:
        """The cursor has come to an offset of a document, as far as an edit can tell."""
        if self._engine is not None and self._engine.prepare is not None:
            prepare = self._prepare
            self._answering.ahead.came_to(uri, lambda: self._start(prepare(uri, offset_in)))

    async def _prepare(self, uri: str, offset_in: Callable[[Document], int]) -> None:
        options = await self._options_for(uri)
        snapshot, document = self.documents.snapshot(uri), self.documents.get(uri)
        if isinstance(snapshot, Reason) or document is None or self._engine is None:
            return
        if options.refuse(snapshot) is None and not self._is_paused:
            offset = min(offset_in(document), len(snapshot.text))
            self._learning.give(uri)
            request = options.request(snapshot, offset)
            self._answering.ahead.prepare(self._engine, request)

    def _answer_of(self, request: CompletionRequest, line: int, result: CompletionResult) -> Answer:
        """`line` is the cursor's."""
        if result.reason is not None or not result.text:
            reason = result.reason or Reason.EMPTY
            return Answer(reason, stats=result.stats, message=result.message)
        edits = (TextEdit(result.text, result.start, result.end), *result.alternatives)
        items = tuple(self._item(request, line, edit) for edit in edits)
        names = [item.item_id for item in items]
        self._acceptance.sent(request, result.stats, list(zip(names, edits, strict=True)))
        return Answer(None, items, result.stats)

    def _item(self, request: CompletionRequest, line: int, edit: TextEdit) -> Item:
        encoding, text = self.documents.encoding, request.snapshot.text
        cursor = (request.offset, line)
        line_start = max(text.rfind("\n", 0, edit.start), text.rfind("\r", 0, edit.start)) + 1
        line_end = _LINE_END.search(text, edit.end)
        return Item(
            item_id=str(uuid.uuid4()),  # a client may still have one of a server before this
            text=edit.text,
            start=position_at(text, edit.start, encoding, cursor),
            end=position_at(text, edit.end, encoding, cursor),
            head=text[line_start : edit.start],
            tail=text[edit.end : line_end.start() if line_end else len(text)],
        )

    def _learn(self, uri: str) -> None:
        options = self.options
        if options.use_context or "corpus" in options.sources:
            self._learning.learn(uri, self._options_for, self._forget)
        # Else nothing would read it, and to tokenize a file holds up the next request.

    def _learn_edited(self, here: str) -> None:
        """What was edited elsewhere, for the prompts of a document; behind its request."""
        others = self._edited - {here}
        self._edited -= others
        for uri in sorted(others):
            self._learn(uri)

    def reconsider(self) -> None:
        """The settings have changed: what they refuse now is not kept, and what they no longer
        refuse is learned."""
        self._learning.reconsider(self._options_for, self._forget)
        if self.has_model:
            for uri in self.documents.uris():
                if not self._learning.has(uri):
                    self._learn(uri)

    def _forget(self, uri: str) -> None:
        if self._learning.forget(uri):
            self._answering.stop(uri, Reason.EXCLUDED)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _record(self, uri: str, number: int, answer: Answer) -> None:
        """A request that was overtaken may end behind the one that has overtaken it."""
        latest, _ = self._answers.get(uri, (0, None))
        if uri in self.documents and number > latest:
            self._answers[uri] = (number, answer)


def _reason_of(cancelled: Cancelled) -> Reason:
    """Scheduler and token carry the reason code as the message."""
    try:
        return Reason(str(cancelled))
    except ValueError:
        return Reason.CANCELLED
