"""The product's own path over every draft source: strict tokens are those of plain decoding."""

from __future__ import annotations

import gc
import weakref

import pytest

from lsp_server.backend.loader import load_engine
from lsp_server.cancellation import CancelToken
from lsp_server.completion import CompletionRequest, Snapshot
from lsp_server.errors import (
    Cancelled,
    InferenceError,
    ModelFilesError,
    SettingsError,
    TokenizerMismatchError,
)
from lsp_server.settings.tree import EngineSettings, Settings
from tests.tiny_model import build_tiny_drafters, build_tiny_model

TEXT = (
    "def add(a, b):\n    return a + b\n\n\ndef mul(a, b):\n    return a * b\n\n\ndef sub(a, b):\n"
)
ALL = ("lookup", "corpus", "draft", "heads", "early_exit")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("sources")
    build_tiny_model(root / "target")
    return {"target": root / "target", **build_tiny_drafters(root / "drafters", root / "target")}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TABAHEAD_HOME", str(tmp_path / "home"))


def backend(folders, *sources: str, heads: str = "eagle", **more):
    settings = Settings(
        model=str(folders["target"]),
        sources=sources,
        draft_model=str(folders["draft"]) if "draft" in sources else "",
        heads=str(folders[heads]) if "heads" in sources else "",
        prompt_tokens=200,
        **more,
    )
    return load_engine(settings, lambda *_: None, CancelToken())


def request(text: str, uri: str = "file:///a.py", **options) -> CompletionRequest:
    return CompletionRequest(Snapshot(uri, 1, "python", text), len(text), max_tokens=24, **options)


def tokens(engine, asked: CompletionRequest) -> list[int | None]:
    return [piece.token_id for piece in engine.generate(asked, CancelToken())]


@pytest.mark.parametrize("heads", ["medusa", "eagle", "eagle3"])
@pytest.mark.parametrize("trees", [False, True], ids=["chains", "trees"])
def test_strict_tokens_are_the_same_with_all_sources_and_with_none(folders, heads, trees):
    engine = backend(folders, *ALL, heads=heads, trees=trees)
    for cut in (len(TEXT), 60, 33):
        plain = tokens(engine, request(TEXT[:cut], sources=(), strict=True))
        for _ in range(3):
            assert tokens(engine, request(TEXT[:cut], sources=ALL, strict=True)) == plain


@pytest.mark.parametrize("source", ALL)
def test_each_source_alone_drafts_without_changing_a_seeded_text(folders, source):
    engine = backend(folders, source)
    plain = tokens(engine, request(TEXT, sources=(), strict=True, temperature=1.0, seed=3))
    drafted = request(TEXT, sources=(source,), strict=True, temperature=1.0, seed=3)
    found = tokens(engine, drafted)
    drawn = source in ("draft", "early_exit")  # another text of the same law
    assert drawn or found == plain


def test_what_other_documents_say_reaches_the_corpus_and_the_own_one_does_not(folders):
    engine = backend(folders, "corpus")
    corpus = engine.sources.corpus
    tokens(engine, request(TEXT, uri="file:///a.py", sources=("corpus",)))
    assert corpus.num_tokens == 0
    tokens(engine, request(TEXT[:20], uri="file:///b.py", sources=("corpus",)))
    assert corpus.num_tokens == len(engine.tokenizer.encode(TEXT))
    engine.accepted("return a - b")
    tokens(engine, request(TEXT[:20], uri="file:///b.py", sources=("corpus",)))
    assert corpus.num_tokens > len(engine.tokenizer.encode(TEXT))
    engine.learn(Snapshot("file:///a.py", 2, "python", "a = 1\r\n"))
    known = len(engine.tokenizer.encode("a = 1\n")) + len(engine.tokenizer.encode("return a - b"))
    assert known <= corpus.num_tokens <= known + 2


@pytest.mark.parametrize(
    ("sources", "setting"), [(("draft",), "draft_model"), (("lookup", "heads"), "heads")]
)
def test_a_source_that_is_named_but_not_given_is_told(folders, sources, setting):
    settings = Settings(model=str(folders["target"]), sources=sources)
    with pytest.raises(SettingsError, match=f"`{setting}` is not set"):
        load_engine(settings, lambda *_: None, CancelToken())


@pytest.mark.parametrize(("source", "setting"), [("draft", "draft_model"), ("heads", "heads")])
def test_a_source_that_is_not_there_is_no_missing_model(folders, source, setting, tmp_path):
    """For that the user would be asked whether to fetch the model, which is there."""
    absent = {**folders, "draft": tmp_path, "eagle": tmp_path}
    with pytest.raises(SettingsError, match=f"^`{setting}` cannot be used: .*{tmp_path}"):
        backend(absent, source)


def test_a_load_that_is_cancelled_late_leaves_nothing_behind(folders):
    cancel = CancelToken()

    def progress(stage: str, done: int, total: int) -> None:
        if stage == "loading what drafts":
            cancel.cancel()

    with pytest.raises(Cancelled):
        load_engine(Settings(model=str(folders["target"])), progress, cancel)


@pytest.fixture
def no_collection():
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collection")
def test_a_model_that_is_replaced_leaves_the_memory_at_once(folders):
    """A server makes so few objects that a full collection may not come for long."""
    engine = backend(folders, *ALL, trees=True)
    tokens(engine, request(TEXT, sources=ALL))
    engine.learn(request(TEXT).snapshot)
    engine.prepare(request(TEXT, uri="file:///b.py"), CancelToken())
    model = weakref.ref(engine.model)
    slot = weakref.ref(engine.model.slot("file:///a.py"))
    engine.close()
    del engine
    assert model() is None
    assert slot() is None


def test_heads_of_another_model_are_refused_with_both_names(folders, tmp_path):
    build_tiny_model(tmp_path / "other", vocab=300)
    strangers = {**folders, "target": tmp_path / "other"}
    with pytest.raises(TokenizerMismatchError, match=r"eagle.*tiny-0"):
        backend(strangers, "heads")


def test_trees_in_strict_mode_are_said_to_have_no_effect(folders, caplog):
    backend(folders, "early_exit", trees=True, strict=True)
    assert "chains only" in caplog.text


def test_a_draft_model_with_a_reduced_head_is_no_target(folders):
    settings = Settings(model=str(folders["draft"]), sources=())
    with pytest.raises(ModelFilesError, match="is a draft model"):
        load_engine(settings, lambda *_: None, CancelToken())


def test_no_room_for_a_prompt_is_told_with_the_settings_to_change(folders):
    engine = backend(folders, "lookup", engine=EngineSettings(slot_tokens=256))
    asked = CompletionRequest(Snapshot("file:///a.py", 1, "python", TEXT), 30, max_tokens=256)
    with pytest.raises(InferenceError, match=r"max_tokens.*slot_tokens"):
        tokens(engine, asked)


def test_lines_of_blanks_are_nothing_to_continue(folders):
    assert tokens(backend(folders, "lookup"), request("\n   \n\t\n  ")) == []
