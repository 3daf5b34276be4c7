"""Reading checkpoints: what is refused, by which name, and how rotary rows are laid."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from export.gguf_source import GgufSource, TokenizerData, halves_from_pairs
from export.tokenizer import build_tokenizer, end_ids, fim_ids
from lsp_server.errors import ModelFilesError, UnsupportedModelError
from lsp_server.prompt.fim import FAMILIES
from tests.tiny_model import CONTROL_TOKENS, write_tiny_gguf


def _vocabulary(extra: tuple[str, ...] = (), **changes) -> TokenizerData:
    tokens = [*CONTROL_TOKENS, *extra, "a", "b", "ab"]
    num_control = len(CONTROL_TOKENS) + len(extra)
    types = [gguf.TokenType.CONTROL] * num_control + [gguf.TokenType.NORMAL] * 3
    fields = {
        "pre": "smollm",
        "tokens": tokens,
        "types": types,
        "merges": ["a b"],
        "bos_id": 1,
        "end_ids": (2,),
        "fim_ids": {},
    }
    return TokenizerData(**(fields | changes))


def test_an_unknown_architecture_is_refused_by_name(tmp_path):
    write_tiny_gguf(tmp_path / "m.gguf", architecture="qwen2")
    with pytest.raises(UnsupportedModelError, match=r"'qwen2'.*knows llama"):
        GgufSource(tmp_path / "m.gguf")


def test_an_unknown_quantisation_is_refused_by_name(tmp_path):
    write_tiny_gguf(tmp_path / "m.gguf", down_type=gguf.GGMLQuantizationType.Q8_K)
    source = GgufSource(tmp_path / "m.gguf")
    with pytest.raises(UnsupportedModelError, match=r"blk\.0\.ffn_down.*Q8_K"):
        source.matrix("blk.0.ffn_down.weight")


def test_a_tensor_that_the_graph_would_ignore_is_refused_by_name(tmp_path):
    write_tiny_gguf(tmp_path / "m.gguf", extra_tensor="blk.0.attn_q.bias")
    with pytest.raises(UnsupportedModelError, match=r"blk\.0\.attn_q\.bias"):
        GgufSource(tmp_path / "m.gguf")


def test_a_size_that_differs_by_layer_is_refused_by_name(tmp_path):
    write_tiny_gguf(tmp_path / "m.gguf", num_kv_heads=[2, 1])
    with pytest.raises(UnsupportedModelError, match=r"attention\.head_count_kv = \[2, 1\]"):
        GgufSource(tmp_path / "m.gguf").config(100)


def test_an_unknown_pre_tokenizer_is_refused_by_name():
    with pytest.raises(UnsupportedModelError, match=r"'klingon'.*tokenizer\.ggml\.pre.*smollm"):
        build_tokenizer(_vocabulary(pre="klingon"))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ModelFilesError, match=r"none\.gguf does not exist"):
        GgufSource(tmp_path / "none.gguf")


@pytest.mark.parametrize("keep", [0, 3, 100, 5_000, 20_000])
def test_a_truncated_file_is_refused(tmp_path, keep):
    path = tmp_path / "m.gguf"
    write_tiny_gguf(path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ModelFilesError, match=r"m\.gguf"):
        GgufSource(path)


def test_a_file_of_another_kind_is_refused(tmp_path):
    (tmp_path / "m.gguf").write_bytes(b"PK\x03\x04" * 1000)
    with pytest.raises(ModelFilesError, match="not a readable GGUF"):
        GgufSource(tmp_path / "m.gguf")


def test_undoing_the_permutation_inverts_the_converters(tmp_path):
    """The forward direction as in llama.cpp's `convert_hf_to_gguf.py`, `LlamaModel.permute`."""
    num_heads, head_size, num_columns = 3, 8, 5
    original = np.random.default_rng(0).standard_normal((num_heads * head_size, num_columns))
    original = original.astype(np.float32)
    permuted = (
        original.reshape(num_heads, 2, head_size // 2, num_columns)
        .swapaxes(1, 2)
        .reshape(original.shape)
    )
    assert not np.array_equal(permuted, original)
    np.testing.assert_array_equal(halves_from_pairs(permuted, num_heads), original)


def test_the_context_is_the_checkpoints_or_the_callers_whichever_is_less(tmp_path):
    write_tiny_gguf(tmp_path / "m.gguf")
    source = GgufSource(tmp_path / "m.gguf")
    assert source.config(100).context_length == 100
    assert source.config(10**6).context_length == 512


def test_every_end_marker_that_is_a_control_token_ends_a_completion():
    data = _vocabulary(("<file_sep>", "</s>"))
    assert end_ids(data) == (0, 2, 3, 4)


def test_a_marker_that_is_ordinary_text_ends_nothing():
    data = _vocabulary()
    plain = _vocabulary(types=[gguf.TokenType.NORMAL] * len(data.tokens), end_ids=())
    assert end_ids(plain) == ()


def test_infilling_markers_are_found_in_every_spelling_that_a_template_has():
    for family in FAMILIES:
        markers = (family.prefix, family.suffix, family.middle)
        if family.name in ("CodeLlama", "Codestral"):
            continue  # SentencePiece, which no checkpoint here has
        assert fim_ids(_vocabulary(markers)) == {"prefix": 3, "suffix": 4, "middle": 5}


def test_infilling_needs_all_three_markers():
    markers = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>")
    assert fim_ids(_vocabulary(markers)) == {"prefix": 3, "suffix": 4, "middle": 5}
    assert fim_ids(_vocabulary(markers[:2])) == {}
    assert fim_ids(_vocabulary()) == {}


def test_control_tokens_are_text_when_asked_to_be():
    tokenizer = build_tokenizer(_vocabulary())
    assert tokenizer.encode("ab<|im_end|>").ids == [5, 2]
    tokenizer.encode_special_tokens = True
    assert tokenizer.encode("ab<|im_end|>").ids == [5]


def test_a_vocabulary_that_contradicts_itself_is_refused():
    with pytest.raises(ModelFilesError, match="vocabulary"):
        build_tokenizer(_vocabulary(merges=["a zebra"]))
