"""Answers at the right time through the real server: what is known, what is ahead, and bursts."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsp_server.backend.scripted import Entry, ScriptedBackend
from lsp_server.cancellation import CancelToken
from lsp_server.completer import complete
from lsp_server.completion import CompletionRequest, Origin, TextEdit
from lsp_server.server import Hooks
from tests.editor import Editor
from tests.lsp_client import RawClient, at
from tests.lsp_product import Product, served
from tests.slow_model import SlowModel

COMPLETE = "textDocument/inlineCompletion"
WORDS = ("ab", "b(a)", "a b", "(b", "\n    ab\n    b", "\nb", ")", "")


def writes(request: CompletionRequest) -> str:
    """Some text or other that belongs to a place."""
    before, after = request.snapshot.split(request.offset)
    digest = zlib.crc32(before.encode()) ^ zlib.crc32(after.encode(), 7)
    return "".join(WORDS[digest >> shift & 7] for shift in (0, 3, 6))


@dataclass
class Slow(Product):
    model: SlowModel = field(default_factory=lambda: SlowModel(writes))
    is_idle_useful: bool = False

    def hooks(self) -> Hooks:
        engine = self.model.engine(is_idle_useful=self.is_idle_useful)
        return Hooks(self.configure, self.load, self.fetch, ready=engine)


@contextmanager
def serving(product: Slow) -> Iterator[tuple[RawClient, SlowModel]]:
    with served(product) as client:
        client.initialize()
        yield client, product.model
        product.model.is_held = False
        product.model.write(1000)


@pytest.fixture
def server() -> Iterator[tuple[RawClient, SlowModel]]:
    with serving(Slow()) as found:
        yield found


class Watched:
    """An editor that knows what a fresh server would answer."""

    def __init__(self, client: RawClient, uri: str, text: str, cursor: int) -> None:
        self.editor = Editor(client, uri, text, cursor)
        self.promised: set[str] = set()
        """Documents that accepting an earlier answer would have made."""
        self.origins: set[str] = set()

    def fresh(self) -> TextEdit | None:
        """By the completer itself, at the same place."""
        editor = self.editor
        request = CompletionRequest(snapshot_of(editor), editor.cursor)
        backend = ScriptedBackend([Entry("", writes(request))])
        result = complete(request, backend, CancelToken())
        if result.reason is not None:
            return None
        return TextEdit(result.text, result.start, result.end)

    def ask(self) -> None:
        editor = self.editor
        found = edit_of(editor, editor.ask())
        stats = editor.client.explain(editor.uri)["stats"]
        self.origins.add(stats["origin"])
        if stats["origin"] == Origin.TYPED_THROUGH or stats["num_typed"]:
            assert found is not None
            assert with_edit(editor.text, found) in self.promised
        else:
            assert found == self.fresh()
        if found is not None:
            self.promised.add(with_edit(editor.text, found))


def snapshot_of(editor: Editor) -> Any:
    from lsp_server.completion import Snapshot

    return Snapshot(editor.uri, editor.version, "unknown", editor.text)


def edit_of(editor: Editor, item: dict[str, Any] | None) -> TextEdit | None:
    if item is None:
        return None
    start, end = (editor.offset(item["range"][side]) for side in ("start", "end"))
    return TextEdit(item["insertText"], start, end)


def with_edit(text: str, edit: TextEdit) -> str:
    return text[: edit.start] + edit.text + text[edit.end :]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("accept part"), st.integers(0, 9)),
        st.tuples(st.just("type"), st.sampled_from(["a", "b", "(", " ", "\n    "])),
        st.tuples(st.just("delete"), st.integers(1, 3)),
        st.tuples(st.just("move"), st.integers(-2, 2)),
        st.tuples(st.just("edit elsewhere"), st.sampled_from([0, -1])),
    ),
    max_size=12,
)


@pytest.mark.parametrize("is_idle_useful", [False, True], ids=["plain", "looking ahead"])
def test_whatever_is_typed_each_answer_is_a_fresh_servers_or_the_rest_of_an_earlier_one(
    is_idle_useful: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lsp_server.answering.lookahead.AFTER_ANSWER", (0.0, 0.05))
    origins: set[str] = set()

    with serving(Slow(is_idle_useful=is_idle_useful)) as (client, _):

        @settings(max_examples=20)
        @given(steps=STEPS)
        def type_on(steps: list[tuple[str, Any]]) -> None:
            watched = Watched(client, "file:///typed", "a = \nb", 4)
            editor = watched.editor
            watched.ask()
            for kind, what in steps:
                if kind == "accept part" and (item := edit_of(editor, editor.ask())) is not None:
                    editor.replace(item.start, editor.cursor, item.text[:what])
                elif kind == "type":
                    editor.replace(editor.cursor, editor.cursor, what)
                elif kind == "delete":
                    editor.backspace(min(what, editor.cursor))
                elif kind == "move":
                    editor.cursor = min(max(0, editor.cursor + what), len(editor.text))
                elif kind == "edit elsewhere":
                    cursor, place = editor.cursor, 0 if what == 0 else len(editor.text)
                    editor.replace(place, place, "b")
                    editor.cursor = cursor + (1 if what == 0 else 0)
                watched.ask()
            origins.update(watched.origins)
            editor.close()

        type_on()
    assert origins == set(Origin), "every kind of answer was compared"


def test_the_text_after_accepting_is_there_before_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lsp_server.answering.lookahead.AFTER_ANSWER", (0.0, 0.05))
    with serving(Slow(is_idle_useful=True)) as (client, model):
        model.text = lambda request: f"call_{request.offset}()"
        editor = Editor(client, "file:///a", "a = ", 4)
        item = editor.ask()
        for _ in range(3):
            assert item is not None
            wait_until_idle(model)
            editor.accept(item)
            item = editor.ask()
            assert client.explain(editor.uri)["stats"]["origin"] == Origin.CACHE


def wait_until_idle(model: SlowModel) -> None:
    """Until nothing has been asked of the model for a while."""
    num_requests = -1
    while num_requests != len(model.requests):
        num_requests = len(model.requests)
        time.sleep(0.3)  # that nothing comes can only be waited for


def test_a_prompt_is_read_where_a_document_was_opened_or_edited_without_a_request() -> None:
    with serving(Slow(is_idle_useful=True)) as (client, model):
        editor = Editor(client, "file:///a", "x = 1\n" * 1000, 0)
        assert model.prepared.get(timeout=20).offset == 3000
        editor.replace(60, 66, "pasted = 2\n")
        assert model.prepared.get(timeout=20).offset == 71
        editor.replace(71, 71, "y = ")
        editor.ask()  # a request reads its prompt itself
        editor.replace(0, 0, "z")
        assert model.prepared.get(timeout=20).offset == 1


def test_to_close_the_document_before_takes_nothing_from_the_one_opened() -> None:
    """As editors do that show the next file in the same tab."""
    with serving(Slow(is_idle_useful=True)) as (client, model):
        before = Editor(client, "file:///a", "x = 1\n", 0)
        Editor(client, "file:///b", "x = 1\n", 0)
        before.close()
        assert model.prepared.get(timeout=20).snapshot.uri == "file:///b"


def test_a_burst_of_thirty_keys_starts_four_generations_at_most(server) -> None:
    client, model = server
    model.text = lambda request: "total"
    editor = Editor(client, "file:///a", "a = ", 4)
    requests, times = [], []
    for _ in range(30):
        editor.type("x")
        requests.append(client.start(COMPLETE, at(editor.uri, 0, editor.cursor)))
        times.append(time.monotonic())
        time.sleep(0.05)  # 20 keys a second
    num_pauses = sum(after - before > 0.1 for before, after in pairwise(times))
    results = [client.response(request)["result"] for request in requests]
    assert results[-1]["items"][0]["insertText"] == "total"
    assert len(model.requests) <= 4 + num_pauses, "pauses that a busy machine made"


@pytest.mark.parametrize("cancel_first", [True, False])
def test_an_editor_that_cancels_at_the_key_still_gets_what_is_under_way(
    server, cancel_first
) -> None:
    client, model = server
    model.text, model.is_held = lambda request: "total(x)", True
    editor = Editor(client, "file:///a", "a = ", 4)
    first = client.start(COMPLETE, at(editor.uri, 0, 4))
    model.reached.get(timeout=20)
    editor.type("to")
    if cancel_first:
        client.notify("$/cancelRequest", {"id": first})
    second = client.start(COMPLETE, at(editor.uri, 0, 6))
    if not cancel_first:
        client.notify("$/cancelRequest", {"id": first})
    client.explain(editor.uri)  # by then the server has read it all
    model.write(99)
    (item,) = client.response(second)["result"]["items"]
    assert item["insertText"] == "tal(x)"
    response = client.response(first)
    assert response.get("result") is None
    assert len(model.requests) == 1
    assert client.explain(editor.uri)["stats"]["num_typed"] == 2


def test_a_pause_ends_what_is_under_way(server) -> None:
    client, model = server
    model.is_held = True
    editor = Editor(client, "file:///a", "a = ", 4)
    request = client.start(COMPLETE, at(editor.uri, 0, 4))
    model.reached.get(timeout=20)
    client.request("workspace/executeCommand", {"command": "tabahead.pause"})
    assert client.response(request)["result"] == {"items": []}
    assert editor.reason() == "paused"
    assert model.ended.get(timeout=20) == "paused"


def test_a_document_that_is_opened_again_ends_what_is_under_way_for_its_older_text(server) -> None:
    client, model = server
    model.is_held = True
    editor = Editor(client, "file:///a", "a = ", 4)
    request = client.start(COMPLETE, at(editor.uri, 0, 4))
    model.reached.get(timeout=20)
    client.open(editor.uri, "b = ", version=7)
    assert client.response(request)["result"] is None
    assert editor.reason() == "stale"
    assert model.ended.get(timeout=20) == "stale"


def test_asked_by_key_there_are_several_items_each_with_its_own_range_and_command() -> None:
    with serving(Slow()) as (client, model):
        model.alternatives = (TextEdit("two", 4, 4), TextEdit("three)", 4, 5))
        model.text = lambda request: "one"
        editor = Editor(client, "file:///a", "f = )\n", 4)
        items = editor.items(kind=1)
        assert [item["insertText"] for item in items] == ["one", "two", "three)"]
        assert [item["range"]["end"]["character"] for item in items] == [4, 4, 5]
        assert len({item["command"]["arguments"][0] for item in items}) == 3
        assert model.requests[-1].num_items == 3
        editor.type("t")
        assert [item["insertText"] for item in editor.items()] == ["wo", "hree)"]
        assert len(model.requests) == 1
        editor.backspace(2)
        editor.ask()
        assert model.requests[-1].num_items == 1, "while typing there is one"
