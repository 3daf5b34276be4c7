"""The product's own path from a request to the model: every family's prompt on a tiny real graph,
text of other files, reading ahead, healing, tokens that are given."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lsp_server.answering.lookahead import after_acceptance
from lsp_server.backend.engine_backend import EngineBackend
from lsp_server.backend.loader import load_engine
from lsp_server.cancellation import CancelToken
from lsp_server.completer import with_selected
from lsp_server.completion import (
    CompletionRequest,
    CompletionResult,
    CompletionStats,
    Selected,
    Snapshot,
)
from lsp_server.settings.tree import EngineSettings, Settings
from tests.fim_models import VOCAB, VOCABULARIES, build_family_model
from tests.tiny_model import build_tiny_model

BEFORE = "from b import tally_up\n\ndef total(values):\n    result = tally_up(values)\n    res"
AFTER = "\n    return result\n"
OTHER = "def tally_up(values):\n    return 0\n"
A, B = "file:///w/a.py", "file:///w/b.py"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny") / "model"
    build_tiny_model(folder, vocab=VOCAB)
    return folder


@pytest.fixture(autouse=True, scope="module")
def home(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TABAHEAD_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="module", params=VOCABULARIES)
def family(request, tiny, tmp_path_factory) -> tuple[str, EngineBackend]:
    folder = tmp_path_factory.mktemp("family") / "model"
    build_family_model(tiny, folder, VOCABULARIES[request.param])
    return request.param, load(folder)


@pytest.fixture
def engine(tiny) -> EngineBackend:
    return load(tiny)


def load(folder) -> EngineBackend:
    settings = Settings(model=str(folder), sources=("lookup",), prompt_tokens=450)
    return load_engine(settings, lambda *_: None, CancelToken())


def request(before=BEFORE, after=AFTER, uri=A, **options) -> CompletionRequest:
    snapshot = Snapshot(uri, 1, "python", before + after)
    options.setdefault("max_tokens", 24)
    return CompletionRequest(snapshot, len(before), **options)


def pieces(engine, asked):
    return list(engine.generate(asked, CancelToken()))


def tokens(engine, asked):
    return [piece.token_id for piece in pieces(engine, asked)]


# Each family


def test_strict_text_is_the_same_with_drafts_as_without_and_has_no_marker(family):
    name, engine = family
    control = VOCABULARIES[name].control
    for cut in (len(BEFORE), 40, 25):
        plain = pieces(engine, request(BEFORE[:cut], sources=(), strict=True))
        assert plain
        assert not any(spelling in "".join(p.text for p in plain) for spelling in control)
        for _ in range(2):
            drafted = pieces(engine, request(BEFORE[:cut], sources=("lookup",), strict=True))
            assert [p.token_id for p in drafted] == [p.token_id for p in plain]


def test_the_engine_says_how_it_fills_in(family):
    name, engine = family
    said = engine.describe()["infilling"]
    assert said.startswith("not supported" if name == "none" else f"{name}, ")


def test_the_text_after_the_cursor_is_told_only_to_models_that_know_how(family):
    name, engine = family
    generation = engine.generate(request(), CancelToken())
    assert list(generation)
    assert (generation.stats.prompt_parts["suffix"] > 0) == (name != "none")
    assert generation.stats.as_json()["prompt_parts"]["healed_bytes"] > 0


def test_a_marker_ends_the_generation_before_it(engine):
    written = tokens(engine, request())
    at = next(i for i, token in enumerate(written) if token not in written[:i] and i > 2)
    template = replace(engine.prompter.template, end_ids=frozenset({written[at]}))
    engine.prompter.template = template
    assert tokens(engine, request()) == written[:at]
    assert tokens(engine, request(sources=("lookup",))) == written[:at]


# What is generated again


def test_the_text_begins_behind_the_cursor(engine):
    """Whatever is healed: what is generated is that, and then the text."""
    for end in range(20, len(BEFORE)):
        found = pieces(engine, request(BEFORE[:end]))
        seam = engine.prompt(request(BEFORE[:end])).seam
        raw = engine.tokenizer.decode([piece.token_id for piece in found])
        if not seam.instead or not raw.startswith("\n"):
            assert raw.startswith(seam.text.decode())
            raw = raw[len(seam.text) :]
        assert raw.startswith("".join(piece.text for piece in found))


def test_without_healing_the_prompt_is_all_that_stands_before_the_cursor(engine):
    asked = request(BEFORE, healing=False, use_context=False)
    assert engine.tokenizer.decode(engine.prompt(asked).token_ids) == BEFORE
    assert not engine.prompt(asked).seam.text
    assert engine.prompt(replace(asked, healing=True)).seam.text


def test_given_tokens_are_where_the_generation_begins(engine):
    """So another text can part from the first one at any of its tokens, healed ones included."""
    whole = pieces(engine, request(strict=True))
    ids = tuple(piece.token_id for piece in whole)
    for cut in (1, 2, 5, len(ids) - 1):
        found = pieces(engine, request(strict=True, forced_ids=ids[:cut]))
        assert tuple(piece.token_id for piece in found) == ids
        assert [piece.text for piece in found] == [piece.text for piece in whole]
        assert [piece.log_prob is None for piece in found[:cut]] == [True] * cut
    other = whole[1].runner_up
    found = tokens(engine, request(strict=True, forced_ids=(ids[0], other)))
    assert tuple(found[:2]) == (ids[0], other)


def test_given_tokens_share_the_cache(engine):
    ids = tuple(tokens(engine, request()))
    generation = engine.generate(request(forced_ids=ids[:5]), CancelToken())
    list(generation)
    assert generation.stats.reused_tokens >= generation.stats.prompt_tokens - 2


def test_pieces_say_how_sure_the_model_was(engine):
    for piece in pieces(engine, request()):
        assert piece.log_prob is not None
        assert piece.log_prob <= 1e-6
        assert piece.margin is not None
        assert piece.margin >= 0  # greedy
        assert piece.runner_up != piece.token_id


# Text of other files


def shows_other(prompt) -> bool:
    return prompt.num_file_tokens > 0


def test_text_of_other_files_is_shown_where_the_prompt_is_read_anyway(engine):
    engine.learn(Snapshot(B, 1, "python", OTHER))
    assert shows_other(engine.prompt(request()))
    assert not shows_other(engine.prompt(request(use_context=False)))


def test_a_prompt_that_is_read_keeps_its_head_until_there_is_time(engine):
    """Typing never waits for other files' text; idle time brings it."""
    list(engine.generate(request(), CancelToken()))
    engine.learn(Snapshot(B, 1, "python", OTHER))
    assert not shows_other(engine.prompt(request(BEFORE + "u")))
    engine.prepare(request(BEFORE + "u"), CancelToken())
    assert shows_other(engine.prompt(request(BEFORE + "ul")))
    generation = engine.generate(request(BEFORE + "ul"), CancelToken())
    list(generation)
    assert generation.stats.prompt_parts["files"] > 0
    assert generation.stats.prompt_tokens - generation.stats.reused_tokens <= 8


def test_a_file_that_is_to_be_forgotten_is_shown_no_longer(engine):
    engine.learn(Snapshot(B, 1, "python", OTHER))
    list(engine.generate(request(), CancelToken()))
    engine.forget(B)
    assert not shows_other(engine.prompt(request()))


def test_without_context_the_prompt_is_that_of_an_engine_that_knows_nothing(engine):
    asked = request(use_context=False)
    fresh = engine.prompt(asked)
    engine.learn(Snapshot(B, 1, "python", OTHER))
    list(engine.generate(request(), CancelToken()))
    assert engine.prompt(asked) == fresh


def test_a_document_that_was_left_is_shown_to_the_next(engine):
    list(engine.generate(request(OTHER, "", uri=B, sources=()), CancelToken()))
    list(engine.generate(request(sources=()), CancelToken()))
    assert shows_other(engine.prompt(request()))


def test_text_that_nobody_has_accepted_is_not_learned(engine):
    """Neither what was looked for beyond an item, nor an entry that is only chosen."""
    asked = request("def tally_up(values):\n    val", "\n", uri=B)
    end = asked.offset
    pieces(engine, asked)
    entry = replace(asked, selected=Selected(end - 3, end, "values_of_an_entry"))
    pieces(engine, with_selected(entry))
    item = CompletionResult("ues_of_an_item", end, end, None, CompletionStats())
    pieces(engine, after_acceptance(asked, item))
    pieces(engine, request())
    assert shows_other(engine.prompt(request()))
    shown = engine.tokenizer.decode(engine.prompt(request()).token_ids)
    assert "tally_up(values):\n    val\n" in shown
    assert "values_of" not in shown


def test_a_secret_of_another_file_is_not_shown(engine):
    secret = "ghp_" + "a1B2c3D4e5" * 4
    engine.learn(Snapshot(B, 1, "python", f"def tally_up(values):\n    token = '{secret}'\n"))
    prompt = engine.prompt(request())
    assert shows_other(prompt)
    assert secret not in engine.tokenizer.decode(prompt.token_ids)


def test_logits_that_stand_for_no_token_are_no_failure(tmp_path):
    """Some models pad their logits to a round number."""
    build_tiny_model(tmp_path / "padded", vocab=VOCAB + 8)
    build_family_model(tmp_path / "padded", tmp_path / "model", VOCABULARIES["none"])
    engine = load(tmp_path / "model")
    padding = range(engine.tokenizer.vocab_size, engine.model.spec.vocab_size)
    found = [
        piece
        for seed in range(20)
        for piece in pieces(engine, request(temperature=1.5, seed=seed))
        if piece.token_id in padding
    ]
    assert found
    assert {piece.text for piece in found} == {""}


# Cells of a notebook

CELL = "vscode-notebook-cell:/w/a.ipynb#W{}"
CELLS = (
    "from b import tally_up\n",
    "",
    "def total(values):\r\n    return tally_up(values)\r\n\r\n",
)


def in_cell(text, *above, number=3) -> CompletionRequest:
    asked = request(text, "", uri=CELL.format(number), sources=())
    return replace(asked, snapshot=replace(asked.snapshot, above=above))


def test_a_cell_is_completed_as_if_the_cells_above_stood_in_its_file(engine):
    file = f"{CELLS[0]}\n{CELLS[2].strip()}\n\nres".replace("\r\n", "\n")
    engine.learn(Snapshot(CELL.format(1), 1, "python", CELLS[2]))
    assert engine.prompt(in_cell("res", *CELLS)) == engine.prompt(request(file, ""))
    assert engine.prompt(in_cell("", *CELLS)).token_ids, "an empty cell has something to continue"
    assert not engine.prompt(in_cell("", "", "\n")).token_ids


def test_a_key_in_a_cell_or_the_next_one_reads_nothing_above_it_again(engine):
    above = tuple(f"value_{n} = total([{n}, {n + 1}])\n" for n in range(20))
    line = "result = value_1 + value_2\n"
    requests = [in_cell(line[:end], *above) for end in range(1, len(line))]
    for number, asked in enumerate([*requests, in_cell("re", *above, line, number=4)]):
        generation = engine.generate(replace(asked, max_tokens=1), CancelToken())
        list(generation)
        assert not number or generation.stats.prompt_tokens - generation.stats.reused_tokens <= 24
    assert generation.stats.prompt_tokens > 200


def test_a_secret_of_a_cell_above_is_not_shown(engine):
    secret = "ghp_" + "a1B2c3D4e5" * 4
    shown = engine.tokenizer.decode(engine.prompt(in_cell("res", f"k = '{secret}'")).token_ids)
    assert "k = '***'\n\n" in shown


# Reading ahead


@pytest.mark.parametrize("strict", [False, True])
def test_a_prompt_that_was_read_ahead_is_not_read_again(engine, strict):
    asked = request(strict=strict)
    engine.prepare(asked, CancelToken())
    generation = engine.generate(asked, CancelToken())
    found = [piece.token_id for piece in generation]
    assert generation.stats.reused_tokens == generation.stats.prompt_tokens - 1
    engine.model.slot(A).truncate(0)
    assert tokens(engine, asked) == found


def test_documents_that_are_only_looked_at_take_no_cache_from_the_one_worked_on(tiny):
    settings = Settings(
        model=str(tiny), sources=(), prompt_tokens=200, engine=EngineSettings(kv_memory_mb=16)
    )
    engine = load_engine(settings, lambda *_: None, CancelToken())
    list(engine.generate(request(), CancelToken()))
    num_read = engine.model.num_held(A, engine.prompt(request()).token_ids)
    for n in range(2 * engine.model._max_slots):
        engine.prepare(request(uri=f"file:///w/{n}.py"), CancelToken())
    assert engine.model.num_held(A, engine.prompt(request()).token_ids) == num_read > 0
    engine.prepare(request("# first\n" + BEFORE), CancelToken())
    assert engine.model.num_held(A, engine.prompt(request("# first\n" + BEFORE)).token_ids) > 0


def test_documents_that_are_only_looked_at_have_the_caches_that_nobody_works_with(tiny):
    settings = Settings(model=str(tiny), prompt_tokens=200, engine=EngineSettings(kv_memory_mb=1))
    engine = load_engine(settings, lambda *_: None, CancelToken())

    def is_read(uri):
        return engine.model.num_held(uri, engine.prompt(request(uri=uri)).token_ids) > 0

    list(engine.generate(request(), CancelToken()))
    *others, late = [f"file:///w/{n}.py" for n in range(engine.model._max_slots)]
    for uri in [*others, late]:
        engine.prepare(request(uri=uri), CancelToken())
    assert all(map(is_read, (A, *others)))
    assert not is_read(late)
    engine.forget(others[0])
    engine.prepare(request(uri=late), CancelToken())
    assert is_read(late)
    elsewhere = request("import os\n", "", uri=late)
    engine.prepare(elsewhere, CancelToken())
    assert engine.model.num_held(late, engine.prompt(elsewhere).token_ids) > 0
    assert all(map(is_read, (A, *others[1:])))


def test_nothing_is_read_ahead_of_an_empty_document(engine):
    engine.prepare(request("", ""), CancelToken())
    assert not engine.model.slot(A).token_ids
