"""Strict mode, every real source and every adversary, drafts of 1 to 16 tokens: on a seeded sample
of 20 of 300 prompts the logits behind each token are those of plain decoding, bit for bit."""

from __future__ import annotations

import random

import pytest

from lsp_server.engine import decode as decode_module
from lsp_server.engine.drafters.corpus import CorpusDrafter, SessionCorpus
from lsp_server.engine.drafters.draft_model import DraftModel
from lsp_server.engine.drafters.eagle import Eagle
from lsp_server.engine.drafters.early_exit import EarlyExit
from lsp_server.engine.drafters.growth import Growth
from lsp_server.engine.drafters.medusa import Medusa
from lsp_server.engine.drafters.prompt_lookup import PromptLookup
from lsp_server.engine.drafters.trees import Chain
from lsp_server.engine.drafters.vocabulary import DraftVocabulary, read_draft_ids
from lsp_server.engine.onnx_heads import EagleHead, MedusaHead
from lsp_server.engine.onnx_model import OnnxModel
from lsp_server.engine.types import DecodeParams
from tests.fake_model import FixedLengthController
from tests.real_graph import RecordingSlot, adversary, generate_bits, prompt_of
from tests.tiny_model import build_tiny_drafters, build_tiny_model

PARAMS = DecodeParams(max_new_tokens=24, strict=True)
SAMPLE = random.Random(7).sample(range(300), 20)
LENGTHS = range(1, 17)
ADVERSARIES = ("right", "wrong", "wrong_at")
SOURCES = ("lookup", "corpus", "draft", "early_exit", "medusa", "eagle")


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    root = tmp_path_factory.mktemp("strict")
    build_tiny_model(root / "target")
    folders = build_tiny_drafters(root / "drafters", root / "target")
    target = OnnxModel(root / "target", threads=1, states=("hidden_states",))
    draft = OnnxModel(folders["draft"], threads=1)
    ids = read_draft_ids(folders["draft"], draft.manifest.draft_vocab_size, 320)
    return {
        "target": target,
        "slot": target.slot("strict"),
        "draft": (draft, DraftVocabulary(len(ids), 320, num_tokens=320, ids=ids)),
        "medusa": MedusaHead(folders["medusa"], target),
        "eagle": EagleHead(folders["eagle"], target),
    }


def prompts() -> list[list[int]]:
    """300 prompts: short and long, on chunk boundaries, with much and with little repetition."""
    return [prompt_of(2 + 7 * (i % 41), seed=i, alphabet=8 + 40 * (i % 5)) for i in range(300)]


def drafter(parts, name: str, prompt, plain, length: int):
    if name in ADVERSARIES:
        return adversary(prompt, plain, name, length // 2, parts["target"])
    if name == "lookup":
        return PromptLookup(offset=16)
    if name == "corpus":
        corpus = SessionCorpus()
        corpus.put("other", [*prompt[len(prompt) // 2 :], *plain])
        return CorpusDrafter(corpus, "own")
    if name == "draft":
        model, vocabulary = parts["draft"]
        sure = Growth(min_probability=0.0)
        return DraftModel(model, "strict", vocabulary, growth=sure)
    if name == "early_exit":
        whole = DraftVocabulary(320, 320, num_tokens=320)
        sure = Growth(min_probability=0.0)
        return EarlyExit(parts["slot"], whole, growth=sure)
    shape = Chain(stop_below=0.0)
    kind = Medusa if name == "medusa" else Eagle
    return kind(parts[name], parts["slot"], shape)


@pytest.mark.parametrize("name", [*ADVERSARIES, *SOURCES])
def test_no_draft_of_any_length_changes_a_bit_of_a_strict_text(parts, name, monkeypatch):
    monkeypatch.setattr(decode_module, "MAX_DRAFT", 16)
    slot = RecordingSlot(parts["slot"])
    num_proposed = 0
    for index in SAMPLE:
        prompt = prompts()[index]
        slot.truncate(0)
        plain = generate_bits(slot, prompt, params=PARAMS)
        for length in LENGTHS:
            controller = FixedLengthController(length)
            proposer = drafter(parts, name, prompt, plain[0], length)
            more = {"params": PARAMS, "drafter": proposer, "controller": controller}
            assert generate_bits(slot, prompt, **more) == plain, (index, length)
            num_proposed += sum(len(draft.token_ids) for draft, _ in controller.observed)
    assert num_proposed > 100
