"""Loading, progress and settings, with the server in this process and stand-ins for the rest."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from lsp_server.errors import ModelMissingError
from tests.lsp_client import TIMEOUT
from tests.lsp_product import URI, Product, ready, served, text_of


def test_requests_before_the_model_is_there_are_answered_model_loading() -> None:
    product = Product()
    with served(product) as client:
        client.initialize()
        client.open(URI, "x = ")
        assert client.complete(URI, 0, 4) == {"items": []}
        assert client.explain(URI)["reason"] == "model-loading"
        product.gate.set()
        ready(client)
        assert text_of(client.complete(URI, 0, 4)) == "from default"
        assert product.thread == "tabahead-loading"


def test_loading_starts_after_initialized_and_not_before() -> None:
    product = Product()
    with served(product) as client:
        client.request("initialize", {"capabilities": {}})
        client.open(URI, "x = ")
        assert client.complete(URI, 0, 4) == {"items": []}
        assert product.loads == []
        product.gate.set()
        client.notify("initialized")
        ready(client)


def test_clients_without_progress_are_sent_none() -> None:
    product = Product()
    product.gate.set()
    with served(product) as client:
        client.initialize()
        ready(client)
        methods = {message.get("method") for message in client.messages}
        assert methods <= {"window/logMessage"}


def test_progress_is_shown_from_begin_to_end() -> None:
    product = Product()
    with served(product) as client:
        client.initialize(capabilities={"window": {"workDoneProgress": True}})
        created = client.notification("window/workDoneProgress/create")
        begin = client.notification("$/progress")
        assert begin["token"] == created["token"]
        assert begin["value"]["kind"] == "begin"
        values = [begin["value"]]
        while "building" not in values[-1].get("message", ""):
            values.append(client.notification("$/progress")["value"])
        assert values[-1]["percentage"] == 25
        product.gate.set()
        while values[-1]["kind"] != "end":
            values.append(client.notification("$/progress")["value"])
        ready(client)


def test_cancelled_progress_stops_loading_and_says_so() -> None:
    product = Product()
    with served(product) as client:
        client.initialize(capabilities={"window": {"workDoneProgress": True}})
        begin = client.notification("$/progress")
        while not product.loads:
            time.sleep(0.01)  # until its thread is there: what has not begun is just dropped
        client.notify("window/workDoneProgress/cancel", {"token": begin["token"]})
        client.wait_for(lambda m: (m.get("params") or {}).get("value", {}).get("kind") == "end")
        assert product.cancelled.get(timeout=TIMEOUT) == "cancelled"
        client.open(URI, "x = ")
        assert client.complete(URI, 0, 4) == {"items": []}
        explained = client.explain(URI)
        assert explained["reason"] == "model-missing"
        assert "cancelled" in explained["message"]


def test_a_model_that_cannot_load_is_told_once_and_another_may_be_chosen() -> None:
    product = Product(fail=ModelMissingError("There is no model x; run `tabahead models fetch x`."))
    product.gate.set()
    with served(product) as client:
        client.initialize()
        told = client.notification("window/showMessage")
        assert told == {"type": 1, "message": f"tabahead: {product.fail}"}
        client.open(URI, "x = ")
        assert client.complete(URI, 0, 4) == {"items": []}
        assert client.explain(URI)["message"] == str(product.fail)
        product.fail = None
        settings = {"settings": {"tabahead": {"model": "other"}}}
        client.notify("workspace/didChangeConfiguration", settings)
        ready(client)
        assert text_of(client.complete(URI, 0, 4)) == "from other"
        assert product.loads == ["default", "other"]


def test_a_model_in_use_answers_until_the_next_one_is_there() -> None:
    product = Product()
    product.gate.set()
    with served(product) as client:
        client.initialize()
        ready(client)
        client.open(URI, "x = ")
        product.gate.clear()
        settings = {"settings": {"tabahead": {"model": "other"}}}
        client.notify("workspace/didChangeConfiguration", settings)
        for _ in range(3):
            assert text_of(client.complete(URI, 0, 4)) == "from default"
        while product.loads != ["default", "other"]:
            assert text_of(client.complete(URI, 0, 4)) == "from default"
        product.gate.set()
        ready(client)
        assert text_of(client.complete(URI, 0, 4)) == "from other"


def test_a_model_that_cannot_take_the_place_of_another_leaves_it_there() -> None:
    product = Product()
    product.gate.set()
    with served(product) as client:
        client.initialize()
        ready(client)
        client.open(URI, "x = ")
        for fail in (ModelMissingError("There is no model other; fetch it."), ZeroDivisionError()):
            product.fail = fail
            model = type(fail).__name__
            settings = {"settings": {"tabahead": {"model": model}}}
            client.notify("workspace/didChangeConfiguration", settings)
            told = client.notification("window/showMessage")["message"]
            assert told.endswith("Until then the model in use stays.")
            assert text_of(client.complete(URI, 0, 4)) == "from default"
        assert client.explain(URI)["reason"] is None
        product.fail = None
        settings = {"settings": {"tabahead": {"model": "third"}}}
        client.notify("workspace/didChangeConfiguration", settings)
        ready(client)
        assert text_of(client.complete(URI, 0, 4)) == "from third"


def test_a_defect_while_loading_is_a_missing_model_and_no_end() -> None:
    product = Product(fail=ZeroDivisionError())
    product.gate.set()
    with served(product) as client:
        client.initialize()
        assert "ZeroDivisionError" in client.notification("window/showMessage")["message"]
        client.open(URI, "x = ")
        assert client.complete(URI, 0, 4) == {"items": []}
        assert client.explain(URI)["reason"] == "model-missing"


def test_settings_that_do_not_touch_the_model_do_not_load_it_again() -> None:
    product = Product()
    product.gate.set()
    with served(product) as client:
        client.initialize()
        ready(client)
        for params in ({"settings": {"tabahead": {"max_tokens": 3}}}, {"settings": None}, None):
            client.notify("workspace/didChangeConfiguration", params)
        client.open(URI, "x = ")
        assert text_of(client.complete(URI, 0, 4)) == "from default"
        assert product.loads == ["default"]
        assert product.configured[-1][1] == {"max_tokens": 3}


def test_a_client_that_offers_configuration_is_asked_for_our_section() -> None:
    product = Product()
    product.gate.set()
    with served(product) as client:
        client.replies["workspace/configuration"] = lambda params: [{"model": "chosen"}]
        client.initialize(
            capabilities={
                "workspace": {
                    "configuration": True,
                    "didChangeConfiguration": {"dynamicRegistration": True},
                }
            },
            initializationOptions={"model": "initial"},
            rootUri="file:///tmp/some%20where",
        )
        ready(client)
        asked = client.notification("workspace/configuration")
        assert asked == {"items": [{"section": "tabahead"}]}
        registered = client.notification("client/registerCapability")["registrations"]
        assert [entry["method"] for entry in registered] == ["workspace/didChangeConfiguration"]
        assert product.loads == ["chosen"], "the model is loaded once, with all settings known"
        root = Path("/tmp/some where")
        assert product.configured[-1] == ({"model": "initial"}, {"model": "chosen"}, [root])
        client.replies["workspace/configuration"] = lambda params: [{"model": "again"}]
        client.notify("workspace/didChangeConfiguration", {"settings": None})
        ready(client)
        assert product.loads == ["chosen", "again"]


def test_a_client_that_refuses_or_forgets_its_settings_gets_the_defaults() -> None:
    for answer in ([], None, [None], ["text"], {"a": 1}):
        product = Product()
        product.gate.set()
        with served(product) as client:
            client.replies["workspace/configuration"] = lambda params, answer=answer: answer
            client.initialize(capabilities={"workspace": {"configuration": True}})
            ready(client)
            assert product.loads == ["default"]


ASK = "workspace/configuration"
CONFIGURATION = {"workspace": {"configuration": True}}


def test_settings_that_the_client_sends_late_are_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lsp_server.server.CONFIGURATION_TIMEOUT", 0.05)
    product = Product()
    product.gate.set()
    with served(product) as client:
        client.replies[ASK] = None
        client.initialize(capabilities=CONFIGURATION)
        ready(client)
        question = client.wait_for(lambda m: m.get("method") == ASK)
        answer = {"jsonrpc": "2.0", "id": question["id"], "result": [{"model": "late"}]}
        client.send(answer)
        ready(client)
        assert product.loads == ["default", "late"]
        assert product.server is not None
        assert question["id"] not in product.server._protocol._request_futures


def test_an_answer_to_an_earlier_question_does_not_replace_later_settings() -> None:
    product = Product()
    product.gate.set()
    with served(product) as client:
        client.replies[ASK] = None
        client.initialize(capabilities=CONFIGURATION)
        client.notify("workspace/didChangeConfiguration", {"settings": None})
        earlier, later = [client.wait_for(lambda m: m.get("method") == ASK) for _ in range(2)]
        for question, model in ((later, "new"), (earlier, "old")):
            answer = {"jsonrpc": "2.0", "id": question["id"], "result": [{"model": model}]}
            client.send(answer)
        ready(client)
        client.explain(URI)  # answered behind the settings
        assert product.configured[-1][1] == {"model": "new"}
        assert product.loads == ["new"]


def test_a_warning_about_settings_is_shown_once() -> None:
    product = Product()
    product.gate.set()
    with served(product) as client:
        client.initialize(initializationOptions={"odd": True})
        ready(client)
        shown = client.notification("window/showMessage")
        assert shown == {"type": 2, "message": "tabahead: warning 0"}
        client.notify("workspace/didChangeConfiguration", {"settings": {"tabahead": {"odd": True}}})
        client.request("tabahead/explain", {"textDocument": {"uri": URI}})
        assert not any(m.get("method") == "window/showMessage" for m in client.messages)


def test_of_many_faults_in_the_settings_a_few_are_shown() -> None:
    product = Product()
    product.gate.set()
    with served(product) as client:
        client.initialize(initializationOptions={"odd": 5000})
        message = client.notification("window/showMessage")["message"]
        assert message.count("\n") == 5
        assert "4995 more" in message


def test_static_registration_only() -> None:
    product = Product()
    product.gate.set()
    with served(product) as client:
        support = {"inlineCompletion": {"dynamicRegistration": True}}
        result = client.initialize(capabilities={"textDocument": support})["result"]
        assert result["capabilities"]["inlineCompletionProvider"] == {}
        ready(client)
        methods = [message.get("method") for message in client.messages]
        assert "client/registerCapability" not in methods


def test_an_accepted_item_is_reported_exactly_once() -> None:
    product = Product()
    product.gate.set()
    with served(product) as client:
        client.initialize()
        ready(client)
        client.open(URI, "x = ")
        (item,) = client.complete(URI, 0, 4)["items"]
        assert product.accepted == []
        for _ in range(2):
            client.request("workspace/executeCommand", item["command"])
        (shown,) = product.accepted
        assert (shown.uri, shown.text) == (URI, "from default")
