"""`bench matrix`: a row for every method and form, each with all of its figures."""

from __future__ import annotations

import json

import pytest

from lsp_server.__main__ import main
from lsp_server.bench.matrix import Observer, Tally, predicted_of_choices
from lsp_server.bench.methods import Method
from lsp_server.engine.controller import Controller, CostCurve
from lsp_server.engine.drafters.prompt_lookup import PromptLookup
from lsp_server.engine.types import Draft
from tests.tiny_model import build_tiny_drafters, build_tiny_model

FORMS = [
    *(("plain", "chain"), ("lookup", "chain"), ("session corpus", "chain")),
    *(("draft model", "chain"), ("draft model", "tree")),
    *(("early exit", "chain"), ("early exit", "tree")),
    *(("medusa", "chain"), ("medusa", "tree"), ("eagle", "chain"), ("eagle", "tree")),
    ("combined", "chain"),
]


@pytest.fixture(scope="module")
def result(tmp_path_factory) -> dict:
    root = tmp_path_factory.mktemp("matrix")
    build_tiny_model(root / "target")
    build_tiny_drafters(root / "drafters", root / "target")
    model = ["--model", str(root / "target"), "--drafters", str(root / "drafters")]
    printed: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TABAHEAD_HOME", str(root / "home"))
        patch.chdir(root)  # without the public sets: the same places everywhere
        patch.setattr("builtins.print", lambda *words, **_: printed.append(" ".join(words)))
        assert main(["bench", "matrix", "--cases", "3", "--json", *model]) == 0
    (line,) = printed
    return json.loads(line)


def test_every_method_has_a_row_for_each_form_it_has(result):
    assert [(row["method"], row["form"]) for row in result["rows"]] == FORMS


def test_the_rows_figures_are_numbers_and_none_is_left_out(result):
    for row in result["rows"]:
        for key in ("extra_mb", "tokens_per_pass", "predicted_speedup", "speedup"):
            assert isinstance(row[key], float), (row["method"], key)
        assert isinstance(row["extra_parameters"], int)
        assert isinstance(row["trained"], bool)
        assert row["exact"] is True
        assert row["verified_by"]
        assert all(0 <= chance <= 1 for chance in row["acceptance"])
        assert row["predicted_speedup"] > 0
        assert row["speedup"] > 0


def test_what_the_controller_chooses_is_recorded_as_it_was_verified():
    curve = CostCurve((1, 9), (10.0, 11.0))
    controller, tally = Controller(curve), Tally()
    method = Method(
        "combined", "chain", lambda _: PromptLookup(), made_ms=lambda draft: 2.0, controlled=True
    )
    observer = Observer(controller, method, tally)
    draft = Draft((5, 6, 7), "lookup", strength=16)
    for emitted in ((5, 6, 8), (5, 6, 7, 9)):
        assert observer.cut(draft, 1) == controller.cut(draft, 1) == draft
        observer.observe(draft, emitted)
    assert tally.rounds == [(3, 2), (3, 3)]
    assert tally.work == [(3, 2.0), (3, 2.0)]
    assert tally.acceptance == [1.0, 1.0, 0.5, 0.0]
    assert predicted_of_choices(tally, curve) == pytest.approx(3.5 / (1.0375 + 0.2))
    assert predicted_of_choices(Tally(), curve) == 1.0
    learned = controller.acceptance("lookup", 16, 0)
    assert learned != Controller(curve).acceptance("lookup", 16, 0)


def test_untrained_drafters_say_so(result):
    untrained = {row["method"] for row in result["rows"] if not row["trained"]}
    assert untrained >= {"draft model", "medusa", "eagle"}
