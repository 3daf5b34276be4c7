"""The tokenizer of the built default model against ids recorded from llama.cpp, on 200 files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import pre_tokenizers

from lsp_server.engine.tokenizer import Tokenizer

GOLDEN = Path(__file__).with_name("tokenizer_golden.json.gz")
BYTES_WITHOUT_TOKEN = "bytes-without-token"

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def records() -> list[dict[str, Any]]:
    return json.loads(gzip.decompress(GOLDEN.read_bytes()))


@pytest.fixture
def library(default_model_folder: Path) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_file(str(default_model_folder / "tokenizer.json"))


def _differing(library: tokenizers.Tokenizer, records: list[dict[str, Any]]) -> list[str]:
    names = []
    for record in records:
        library.encode_special_tokens = not record["parse_special"]
        if library.encode(record["text"]).ids != record["ids"]:
            names.append(record["name"])
    return names


def test_ids_equal_those_of_llama_cpp_on_200_files(library, records):
    assert len(records) == 200
    assert _differing(library, records) == []


def test_the_products_tokenizer_gives_the_same_ids_for_user_text(default_model_folder, records):
    tokenizer = Tokenizer(default_model_folder / "tokenizer.json")
    plain = [record for record in records if not record["parse_special"]]
    differing = [r["name"] for r in plain if tokenizer.encode(r["text"]) != r["ids"]]
    assert differing == []


def test_the_golden_file_sees_a_tokenizer_that_does_not_split_digits(library, records):
    """A common fault of conversions; a golden file that is blind to it would prove little."""
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    assert len(_differing(library, records)) > 20


def test_decoding_gives_every_text_back(library, records):
    for record in records:
        if record["name"] != BYTES_WITHOUT_TOKEN:
            decoded = library.decode(record["ids"], skip_special_tokens=False)
            assert decoded == record["text"], record["name"]


def test_bytes_that_the_vocabulary_lacks_are_dropped_as_in_llama_cpp(library, records):
    """Six control characters and some unassigned planes: the ids cannot carry them."""
    (record,) = [r for r in records if r["name"] == BYTES_WITHOUT_TOKEN]
    assert library.decode(record["ids"]).startswith("abcdef")


def test_a_literal_marker_in_user_text_is_not_the_control_token(library):
    control = library.token_to_id("<|im_end|>")
    text = "print('<|im_end|>')"
    assert control in library.encode(text).ids
    library.encode_special_tokens = True
    ids = library.encode(text).ids
    assert control not in ids
    assert library.decode(ids) == text


def test_nothing_is_added_around_a_text(library):
    assert library.encode("").ids == []
    assert library.encode("x", add_special_tokens=True).ids == library.encode("x").ids
