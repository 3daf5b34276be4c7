"""What the session makes of settings, deadlines and the engine's results, without a protocol."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from lsp_server.answers import Answer
from lsp_server.asking import RequestOptions
from lsp_server.cancellation import CancelToken
from lsp_server.completion import (
    CompletionRequest,
    CompletionResult,
    CompletionStats,
    Engine,
    Mode,
    Reason,
    Refusal,
    Snapshot,
    Watch,
)
from lsp_server.documents import DocumentStore, Position, Range
from lsp_server.params import InlineCompletionParams, SelectedItem
from lsp_server.scheduler import Scheduler
from lsp_server.session import Listener, Session
from lsp_server.statistics.acceptance import MAX_SHOWN
from lsp_server.statistics.shown import Shown

URI = "file:///a.py"
PATIENCE = 20.0


def params(line: int = 0, character: int = 4, **more: Any) -> InlineCompletionParams:
    defaults: dict[str, Any] = {
        "uri": URI,
        "version": None,
        "invoked": False,
        "selected": None,
        "tab_size": None,
        "insert_spaces": None,
    }
    return InlineCompletionParams(position=Position(line, character), **{**defaults, **more})


class Asked:
    """Keeps the requests it gets and answers each with the next of `results`."""

    def __init__(self, *results: CompletionResult | str) -> None:
        self.requests: list[CompletionRequest] = []
        self._results = list(results)

    def __call__(
        self, request: CompletionRequest, cancel: CancelToken, watch: Watch
    ) -> CompletionResult:
        self.requests.append(request)
        result = self._results.pop(0) if self._results else "text"
        if isinstance(result, str):
            at = request.offset
            return CompletionResult(result, at, at, None, CompletionStats())
        return result


def session_with(complete: Asked, text: str = "x = ") -> tuple[Session, list[Shown]]:
    accepted: list[Shown] = []
    session = Session(Scheduler(), DocumentStore(), Listener(accepted=accepted.append))
    session.documents.open(URI, "python", 1, text)
    session.use(Engine(complete))
    return session, accepted


def ask(session: Session, *asked: InlineCompletionParams) -> list[Answer]:
    async def main() -> list[Answer]:
        return [await asyncio.wait_for(session.complete(one), PATIENCE) for one in asked]

    return asyncio.run(main())


def test_a_cell_that_is_refused_is_not_told_of_below_it() -> None:
    engine, cell = Asked(), "vscode-notebook-cell:/a.ipynb#W{}"
    session, _ = session_with(engine)
    session.options = RequestOptions(
        refuse=lambda s: Refusal(Reason.SECRET) if "secret" in s.text else None
    )
    for number, text in enumerate(("a = 1", "secret", "x = ")):
        session.documents.open(cell.format(number), "python", 1, text)
    ask(session, params(uri=cell.format(2)))
    assert engine.requests[0].snapshot.above == ("a = 1",)


def test_settings_and_parameters_reach_the_request() -> None:
    engine = Asked()
    session, _ = session_with(engine, "é😋 x.he")
    session.options = RequestOptions(
        Mode.LINE, 7, (), True, 0.5, 3, automatic_deadline_ms=None, invoked_deadline_ms=60_000
    )
    selected = SelectedItem(Range(Position(0, 6), Position(0, 8)), "head")
    more = {"selected": selected, "tab_size": 2, "insert_spaces": False}
    ask(session, params(0, 8, **more), params(0, 8, invoked=True))
    first, second = engine.requests
    assert (first.mode, first.max_tokens, first.sources) == (Mode.LINE, 7, ())
    assert (first.strict, first.temperature, first.seed) == (True, 0.5, 3)
    assert (first.offset, first.tab_size, first.insert_spaces) == (7, 2, False)
    assert first.selected is not None
    assert (first.selected.start, first.selected.end) == (5, 7)
    assert first.deadline_ms is None
    assert second.invoked
    assert second.deadline_ms is not None
    assert 0 < second.deadline_ms <= 60_000


def test_what_the_engine_does_not_begin_in_time_is_answered_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lsp_server.answering.answering.OVERTIME", 0.01)
    engine, release = Asked(), threading.Event()
    session, _ = session_with(engine)
    session.options = RequestOptions(automatic_deadline_ms=20)

    async def main() -> Answer:
        blocked = session.scheduler.submit("other", lambda cancel: release.wait(PATIENCE))
        answer = await session.complete(params())
        release.set()
        await blocked
        await session.scheduler.submit("other", lambda cancel: None)
        return answer

    assert asyncio.run(main()).reason is Reason.DEADLINE
    assert engine.requests == [], "what is too late is not begun"


def test_a_refused_document_never_reaches_the_engine() -> None:
    engine = Asked()
    session, _ = session_with(engine)
    session.options = RequestOptions(refuse=lambda snapshot: Refusal(Reason.EXCLUDED, "why"))
    (answer,) = ask(session, params())
    assert (answer.reason, answer.message) == (Reason.EXCLUDED, "why")
    assert engine.requests == []


def test_a_result_without_text_has_a_reason_and_no_item() -> None:
    nothing = CompletionResult("", 4, 4, Reason.REPETITION, CompletionStats(), message="why")
    blank = CompletionResult("", 4, 4, None, CompletionStats())
    session, _ = session_with(Asked(nothing))
    (answer,) = ask(session, params())
    assert (answer.reason, answer.item, answer.message) == (Reason.REPETITION, None, "why")
    session, _ = session_with(Asked(blank))
    (answer,) = ask(session, params())
    assert (answer.reason, answer.item) == (Reason.EMPTY, None)


def test_a_wider_range_is_worded_in_the_clients_units() -> None:
    result = CompletionResult("b)", 3, 5, None, CompletionStats())
    session, _ = session_with(Asked(result), "😋f()")
    (answer,) = ask(session, params(0, 4))
    assert answer.item is not None
    assert (answer.item.start, answer.item.end) == (Position(0, 4), Position(0, 5))


def test_closing_a_document_forgets_its_answer() -> None:
    session, _ = session_with(Asked())
    ask(session, params())
    assert session.explain(URI) is not None
    session.close(URI)
    session.documents.open(URI, "python", 1, "x")
    assert session.explain(URI) is None


def test_items_are_remembered_for_acceptance_but_not_for_ever() -> None:
    session, accepted = session_with(Asked())
    answers = ask(session, *[params()] * (MAX_SHOWN + 5))
    names = [answer.item.item_id for answer in answers if answer.item]
    assert len(set(names)) == MAX_SHOWN + 5

    async def take() -> None:
        session.accept(names[0])
        assert accepted == []
        session.accept(names[-1])

    asyncio.run(take())
    assert [shown.item_id for shown in accepted] == names[:1], "the same text, by its first name"


def test_open_documents_are_learned_once_there_is_a_model_but_for_refused_ones() -> None:
    learned: list[str] = []
    done = threading.Event()

    def learn(snapshot: Snapshot) -> None:
        learned.append(snapshot.uri)
        if len(learned) == 2:
            done.set()

    async def main() -> None:
        session = Session(Scheduler(), DocumentStore(), Listener(learn=learn))
        session.options = RequestOptions(
            sources=("corpus",),
            refuse=lambda s: Refusal(Reason.SECRET) if "env" in s.uri else None,
        )
        session.documents.open("file:///before.py", "python", 1, "a")
        session.opened("file:///before.py")
        session.use(Engine(Asked()))
        for uri in ("file:///.env", "file:///after.py"):
            session.documents.open(uri, "python", 1, "b")
            session.opened(uri)
        assert await asyncio.to_thread(done.wait, PATIENCE)

    asyncio.run(main())
    assert learned == ["file:///before.py", "file:///after.py"]


def test_what_is_refused_from_now_on_is_forgotten_once_closed_or_not() -> None:
    heard: list[str] = []

    async def main() -> None:
        listener = Listener(
            learn=lambda snapshot: heard.append(f"learn {snapshot.uri}"),
            forget=lambda uri: heard.append(f"forget {uri}"),
        )
        session = Session(Scheduler(), DocumentStore(), listener)
        session.options = RequestOptions(sources=("corpus",))
        session.use(Engine(Asked()))
        for uri in ("file:///a", "file:///b", "file:///c"):
            session.documents.open(uri, "python", 1, "x = ")
            session.opened(uri)
        await session.complete(params(uri="file:///a"))
        await session.scheduler.submit("other", lambda cancel: None)  # behind what is queued
        session.close("file:///b")
        session.options = RequestOptions(
            sources=("corpus",),
            refuse=lambda s: Refusal(Reason.EXCLUDED) if s.uri[-1] in "ab" else None,
        )
        for _ in range(2):
            session.reconsider()
            assert (await session.complete(params(uri="file:///a"))).reason is Reason.EXCLUDED
        assert (await session.complete(params(uri="file:///c"))).item is not None
        await session.scheduler.submit("other", lambda cancel: None)

    asyncio.run(main())
    assert [what for what in heard if what.startswith("learn")] == [
        f"learn file:///{name}" for name in "abc"
    ]
    assert sorted(heard[3:]) == ["forget file:///a", "forget file:///b"]


def test_settings_that_are_taken_back_before_the_disk_answers_forget_nothing() -> None:
    forgotten: list[str] = []

    async def main() -> None:
        session = Session(Scheduler(), DocumentStore(), Listener(forget=forgotten.append))
        session.documents.open(URI, "python", 1, "x = ")
        session.use(Engine(Asked()))
        await session.complete(params())
        disk, asked = asyncio.Event(), asyncio.Event()

        async def look(uri: str) -> None:
            asked.set()
            await disk.wait()

        allowed = session.options
        session.options = RequestOptions(refuse=lambda s: Refusal(Reason.EXCLUDED), look=look)
        session.reconsider()
        await asyncio.wait_for(asked.wait(), PATIENCE)
        session.options = allowed
        session.reconsider()
        disk.set()
        for _ in range(5):
            await asyncio.sleep(0)  # what has waited for the disk goes on
        await session.scheduler.submit("other", lambda cancel: None)  # behind what is queued

    asyncio.run(main())
    assert forgotten == []


def test_what_is_refused_while_the_disk_is_asked_never_reaches_the_engine() -> None:
    engine = Asked()
    session, _ = session_with(engine)

    async def main() -> Answer:
        disk = asyncio.Event()

        async def look(uri: str) -> None:
            await disk.wait()

        session.options = RequestOptions(look=look)
        waiting = asyncio.create_task(session.complete(params()))
        await asyncio.sleep(0)  # it comes as far as the disk
        session.options = RequestOptions(refuse=lambda s: Refusal(Reason.EXCLUDED))
        session.reconsider()
        disk.set()
        return await asyncio.wait_for(waiting, PATIENCE)

    assert asyncio.run(main()).reason is Reason.EXCLUDED
    assert engine.requests == []


def test_an_earlier_request_that_the_disk_holds_up_does_not_overtake_the_later() -> None:
    engine = Asked("text")
    session, _ = session_with(engine)

    async def main() -> list[Answer]:
        disk, looks = asyncio.Event(), iter([True, False])

        async def look(uri: str) -> None:
            if next(looks):
                await disk.wait()

        session.options = RequestOptions(look=look)
        earlier = asyncio.create_task(session.complete(params(0, 2)))
        await asyncio.sleep(0)  # it comes as far as the disk
        later = await asyncio.wait_for(session.complete(params()), PATIENCE)
        disk.set()
        return [await asyncio.wait_for(earlier, PATIENCE), later]

    earlier, later = asyncio.run(main())
    assert (earlier.reason, later.reason) == (Reason.SUPERSEDED, None)
    assert len(engine.requests) == 1
    explained = session.explain(URI)
    assert explained is not None
    assert (explained["reason"], explained["text"]) == (None, "text")


def test_an_earlier_request_that_the_engine_holds_up_is_not_answered_after_the_later() -> None:
    begun, release = threading.Event(), threading.Event()

    class Held(Asked):
        def __call__(self, *asked: Any) -> CompletionResult:
            begun.set()
            assert release.wait(PATIENCE)
            return super().__call__(*asked)

    session, _ = session_with(Held("text"))

    async def main() -> list[Answer]:
        earlier = asyncio.create_task(session.complete(params()))
        assert await asyncio.to_thread(begun.wait, PATIENCE)
        later = await session.complete(params(7, 0))
        release.set()
        return [await asyncio.wait_for(earlier, PATIENCE), later]

    earlier, later = asyncio.run(main())
    assert (earlier.reason, later.reason) == (Reason.SUPERSEDED, Reason.EMPTY)
    explained = session.explain(URI)
    assert explained is not None
    assert explained["reason"] == Reason.EMPTY


def test_what_the_disk_says_is_heard_before_a_document_is_judged() -> None:
    engine, refused = Asked(), set[str]()

    async def look(uri: str) -> None:
        await asyncio.sleep(0)  # others have their turn before the disk answers
        refused.add(uri)

    session, _ = session_with(engine)
    session.options = RequestOptions(
        refuse=lambda s: Refusal(Reason.EXCLUDED) if s.uri in refused else None, look=look
    )
    (answer,) = ask(session, params())
    assert answer.reason is Reason.EXCLUDED
    assert engine.requests == []


def test_a_document_that_cannot_be_learned_costs_no_completion(caplog) -> None:
    def learn(snapshot: Snapshot) -> None:
        raise RuntimeError("a defect")

    async def main() -> Answer:
        session = Session(Scheduler(), DocumentStore(), Listener(learn=learn))
        session.options = RequestOptions(sources=("lookup", "corpus"))
        session.documents.open(URI, "python", 1, "x = ")
        session.use(Engine(Asked()))
        return await asyncio.wait_for(session.complete(params()), PATIENCE)

    assert asyncio.run(main()).item is not None
    assert "RuntimeError" in caplog.text


@pytest.mark.parametrize("reason", Reason)
def test_every_answer_without_items_is_explained_in_a_sentence(reason: Reason) -> None:
    sentence = Answer(reason).as_json()["message"]
    assert sentence[0].isupper()
    assert sentence.endswith(".")
    assert Answer(reason, message="More.").as_json()["message"] == "More."


@pytest.mark.parametrize(
    ("sources", "use_context", "is_learned"),
    [(("corpus",), False, True), (("lookup",), True, True), (("lookup",), False, False)],
)
def test_documents_are_learned_where_drafts_or_prompts_read_them(
    sources, use_context, is_learned
) -> None:
    learned: list[str] = []

    async def main() -> Answer:
        listener = Listener(learn=lambda snapshot: learned.append(snapshot.uri))
        session = Session(Scheduler(), DocumentStore(), listener)
        session.options = RequestOptions(sources=sources, use_context=use_context)
        session.documents.open(URI, "python", 1, "x = ")
        session.use(Engine(Asked()))
        session.opened(URI)
        await session.scheduler.submit("other", lambda cancel: None)  # behind what is queued
        return await asyncio.wait_for(session.complete(params()), PATIENCE)

    assert asyncio.run(main()).item is not None
    assert set(learned) == ({URI} if is_learned else set())
