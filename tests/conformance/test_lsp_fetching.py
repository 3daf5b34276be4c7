"""A model that is not on this machine: the question, the fetch, its progress, and what follows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lsp_server import loading
from lsp_server.errors import FetchError, ModelMissingError
from tests.lsp_client import TIMEOUT, RawClient
from tests.lsp_product import URI, Product, ready, served, text_of

ASK = "window/showMessageRequest"
PROGRESS = {"window": {"workDoneProgress": True}}
YES = {"title": "Fetch it (93 MB)"}
MISSING = ModelMissingError("The model default is not on this machine yet.")


def without_model() -> Product:
    """Loading fails until it has been fetched."""
    product = Product(fail=MISSING, fetchable=("default",))
    product.gate.set()
    return product


@contextmanager
def asked(product: Product) -> Iterator[tuple[RawClient, dict]]:
    """A client whose user has not answered yet, and the question."""
    with served(product) as client:
        client.replies[ASK] = None
        client.initialize()
        yield client, client.wait_for(lambda m: m.get("method") == ASK)


def reason(client: RawClient) -> str:
    assert client.complete(URI, 0, 4) == {"items": []}
    return str(client.explain(URI)["reason"])


def run_command(client: RawClient) -> None:
    response = client.request("workspace/executeCommand", {"command": "tabahead.fetchModel"})
    assert response["result"] is None


def wait_for_fetch(client: RawClient) -> None:
    """The log line that says that it begins."""
    client.wait_for(lambda m: "fetching" in str((m.get("params") or {}).get("message")))


def value_of(client: RawClient, kind: str) -> dict:
    def fits(message: dict) -> bool:
        value = (message.get("params") or {}).get("value")
        return isinstance(value, dict) and value.get("kind") == kind

    return dict(client.wait_for(fits)["params"]["value"])


def test_the_user_is_asked_and_after_yes_it_is_fetched_and_served() -> None:
    product = without_model()
    with served(product) as client:
        client.replies[ASK] = lambda params: YES
        client.initialize()
        asked = client.notification(ASK)
        assert asked["message"] == "tabahead: The model default is not on this machine."
        assert asked["actions"] == [YES, {"title": "Not now"}]
        wait_for_fetch(client)
        client.open(URI, "x = ")
        assert reason(client) == "model-loading"
        assert "being fetched" in client.explain(URI)["message"]
        product.fetched.set()
        ready(client)
        assert text_of(client.complete(URI, 0, 4)) == "from default"
        assert (product.fetches, product.loads) == (["default"], ["default", "default"])
        assert not any(m.get("method") == "window/showMessage" for m in client.messages)


@pytest.mark.parametrize(
    "answer", [None, {"title": "Not now"}, {}, [], "Fetch it (93 MB)", {"title": 1}], ids=str
)
def test_without_a_yes_nothing_is_fetched(answer: object) -> None:
    product = without_model()
    with served(product) as client:
        client.replies[ASK] = lambda params: answer
        client.initialize()
        client.notification(ASK)
        client.open(URI, "x = ")
        assert reason(client) == "model-missing"
        assert client.explain(URI)["message"] == str(MISSING)
        assert product.fetches == []


def test_a_model_that_was_fetched_in_a_terminal_is_found_by_the_next_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loading, "LOOK_AGAIN", 0.0)
    product = without_model()
    with asked(product) as (client, question):
        client.open(URI, "x = ")
        assert reason(client) == "model-missing"
        assert reason(client) == "model-missing", "another look, another time nothing is said"
        product.fail = None
        client.complete(URI, 0, 4)
        ready(client)
        assert text_of(client.complete(URI, 0, 4)) == "from default"
        client.send({"jsonrpc": "2.0", "id": question["id"], "result": YES})
        assert text_of(client.complete(URI, 0, 4)) == "from default"
        assert product.fetches == [], "the question has no object any more"
        assert not any(m.get("method") == "window/showMessage" for m in client.messages)


def test_an_absent_model_is_not_looked_for_at_every_key() -> None:
    product = without_model()
    with served(product) as client:
        client.initialize()
        client.notification(ASK)
        client.open(URI, "x = ")
        for _ in range(20):
            assert reason(client) == "model-missing"
        assert len(product.loads) <= 2


def test_a_client_that_cannot_ask_tells_instead() -> None:
    product = without_model()
    with served(product) as client:
        client.replies[ASK] = lambda params: ValueError("unknown method")
        client.initialize()
        told = client.notification("window/showMessage")
        assert told == {"type": 1, "message": f"tabahead: {MISSING}"}
        assert product.fetches == []


def test_a_question_that_is_never_answered_holds_up_nothing_and_is_forgotten() -> None:
    product = without_model()
    with asked(product) as (client, question):
        client.open(URI, "x = ")
        assert reason(client) == "model-missing"
        product.fail = None
        client.notify(
            "workspace/didChangeConfiguration", {"settings": {"tabahead": {"model": "b"}}}
        )
        ready(client)
        assert product.server is not None
        assert question["id"] not in product.server._protocol._request_futures
        client.send({"jsonrpc": "2.0", "id": question["id"], "result": YES})
        assert text_of(client.complete(URI, 0, 4)) == "from b"
        assert product.fetches == []


def test_a_question_stays_open_when_the_same_model_is_loaded_otherwise() -> None:
    product = without_model()
    with asked(product) as (client, question):
        settings = {"settings": {"tabahead": {"prompt_tokens": 512}}}
        client.notify("workspace/didChangeConfiguration", settings)
        client.open(URI, "x = ")
        while len(product.loads) < 2 or reason(client) != "model-missing":
            pass
        client.send({"jsonrpc": "2.0", "id": question["id"], "result": YES})
        product.fetched.set()
        ready(client)
        assert text_of(client.complete(URI, 0, 4)) == "from default"
        assert product.fetches == ["default"]
        assert not any(m.get("method") == "window/showMessage" for m in client.messages)


def test_a_question_is_taken_back_once_the_model_is_there() -> None:
    product = without_model()
    with asked(product) as (client, question):
        product.fail = None
        settings = {"settings": {"tabahead": {"prompt_tokens": 512}}}
        client.notify("workspace/didChangeConfiguration", settings)
        ready(client)
        client.send({"jsonrpc": "2.0", "id": question["id"], "result": YES})
        client.open(URI, "x = ")
        assert text_of(client.complete(URI, 0, 4)) == "from default"
        assert product.fetches == []


def test_an_open_question_does_not_hold_up_the_end() -> None:
    product = without_model()
    with served(product) as client:
        client.replies[ASK] = None
        client.initialize()
        client.notification(ASK)
    assert (product.exit_code, product.fetches) == (0, [])


def test_the_user_is_asked_once_only() -> None:
    product = without_model()
    with served(product) as client:
        client.initialize()
        client.notification(ASK)
        for model in ("other", "default"):
            client.notify(
                "workspace/didChangeConfiguration", {"settings": {"tabahead": {"model": model}}}
            )
            assert str(MISSING) in client.notification("window/showMessage")["message"]
        assert not any(m.get("method") == ASK for m in client.messages)


def test_other_failures_and_other_models_are_not_offered() -> None:
    for product in (
        Product(fail=MISSING),
        Product(fail=FetchError("A disk is full."), fetchable=("default",)),
    ):
        product.gate.set()
        with served(product) as client:
            client.initialize()
            assert str(product.fail) in client.notification("window/showMessage")["message"]
            assert not any(m.get("method") == ASK for m in client.messages)


def test_the_command_fetches_without_asking_and_a_second_one_joins() -> None:
    product = without_model()
    with served(product) as client:
        client.initialize()
        client.notification(ASK)
        for _ in range(2):
            run_command(client)
        product.fetched.set()
        ready(client)
        client.open(URI, "x = ")
        assert text_of(client.complete(URI, 0, 4)) == "from default"
        assert product.fetches == ["default"]


def test_the_command_says_so_where_there_is_nothing_to_fetch() -> None:
    product = Product()
    product.gate.set()
    with served(product) as client:
        client.initialize()
        ready(client)
        run_command(client)
        assert "nothing to fetch" in client.notification("window/showMessage")["message"]


def test_a_model_that_is_there_serves_while_it_is_fetched_anew() -> None:
    product = Product(fetchable=("default",))
    product.gate.set()
    with served(product) as client:
        client.initialize()
        ready(client)
        client.open(URI, "x = ")
        run_command(client)
        wait_for_fetch(client)
        assert text_of(client.complete(URI, 0, 4)) == "from default"
        product.fetched.set()
        ready(client)
        assert product.loads == ["default", "default"]


def test_the_progress_of_a_fetch_is_shown_from_begin_to_end() -> None:
    product = without_model()
    with served(product) as client:
        client.replies[ASK] = lambda params: YES
        client.initialize(capabilities=PROGRESS)
        while (begin := value_of(client, "begin"))["title"] == "tabahead":
            pass  # that of loading
        assert begin["title"] == "tabahead: fetching default"
        assert begin["cancellable"] is True
        value = begin
        while value["message"] != "download":
            value = value_of(client, "report")
        assert value["percentage"] == 30
        product.fetched.set()
        value_of(client, "end")
        ready(client)


def test_a_cancelled_fetch_ends_and_says_how_to_go_on() -> None:
    product = without_model()
    with served(product) as client:
        client.replies[ASK] = lambda params: YES
        client.initialize(capabilities=PROGRESS)
        begun = client.wait_for(
            lambda m: "fetching" in str((m.get("params") or {}).get("value", {}).get("title"))
        )
        token = begun["params"]["token"]
        for unknown in ("unknown", 3, None):
            client.notify("window/workDoneProgress/cancel", {"token": unknown})
        client.notify("window/workDoneProgress/cancel", {"token": token})
        assert product.fetch_ended.get(timeout=TIMEOUT) == "cancelled"
        client.wait_for(
            lambda m: (
                m.get("method") == "$/progress"
                and (m["params"]["token"], m["params"]["value"]["kind"]) == (token, "end")
            )
        )
        client.open(URI, "x = ")
        assert reason(client) == "model-missing"
        assert "tabahead.fetchModel" in client.explain(URI)["message"]
        product.fetched.set()
        run_command(client)
        ready(client)
        assert text_of(client.complete(URI, 0, 4)) == "from default"


@pytest.mark.parametrize(
    ("error", "sentence"),
    [(FetchError("The disk is full; free some."),) * 2, (ZeroDivisionError(), "ZeroDivisionError")],
    ids=["expected", "defect"],
)
def test_a_failed_fetch_is_told_and_may_be_tried_again(error, sentence) -> None:
    product = without_model()
    product.fetch_fails = error
    product.fetched.set()
    with served(product) as client:
        client.replies[ASK] = lambda params: YES
        client.initialize()
        assert str(sentence) in client.notification("window/showMessage")["message"]
        client.open(URI, "x = ")
        assert reason(client) == "model-missing"
        assert str(sentence) in client.explain(URI)["message"]
        product.fetch_fails = None
        run_command(client)
        ready(client)
        assert product.fetches == ["default", "default"]


def test_settings_that_change_during_a_fetch_leave_it_alone() -> None:
    """The same model is still waited for; another one takes its place for good."""
    product = without_model()
    with served(product) as client:
        client.replies[ASK] = lambda params: YES
        client.initialize()
        wait_for_fetch(client)
        client.open(URI, "x = ")
        for model, expected in (("other", "model-missing"), ("default", "model-loading")):
            client.notify(
                "workspace/didChangeConfiguration", {"settings": {"tabahead": {"model": model}}}
            )
            client.wait_for(
                lambda m: (m.get("params") or {}).get("message") == "tabahead: loading the model"
            )
            product.cancelled.get(timeout=TIMEOUT)
            while (told := client.explain(URI)) is None or told["reason"] != expected:
                client.complete(URI, 0, 4)
        product.fail = None
        client.notify(
            "workspace/didChangeConfiguration", {"settings": {"tabahead": {"model": "other"}}}
        )
        ready(client)
        product.fetched.set()
        assert product.fetch_ended.get(timeout=TIMEOUT) == "done"
        assert text_of(client.complete(URI, 0, 4)) == "from other"
        assert product.loads == ["default", "other", "default", "other"]


def test_shutdown_ends_a_fetch() -> None:
    product = without_model()
    with served(product) as client:
        client.replies[ASK] = lambda params: YES
        client.initialize()
        wait_for_fetch(client)
        while not product.fetches:
            client.request("tabahead/explain", {"textDocument": {"uri": URI}})
        client.request("shutdown")
        assert product.fetch_ended.get(timeout=TIMEOUT) == "cancelled"
