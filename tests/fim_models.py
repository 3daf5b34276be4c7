"""Small vocabularies with the markers of each family that fills in the middle, and a tiny random
model for each, so that their prompts can be seen and run without the models themselves."""

from __future__ import annotations

import dataclasses
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

from lsp_server.engine.manifest import FileEntry, Manifest, sha256_of

VOCAB = 320
"""Of the tiny model, and of every vocabulary here."""

SAMPLE = (
    "def total(values):\n    result = 0\n    for value in values:\n        result += value\n"
    "    return result\n\n\nclass Point:\n    def __init__(self, x, y):\n        self.x = x\n"
)
_QWEN_ENDS = ("<|endoftext|>", "<|im_end|>")


@dataclass(frozen=True)
class Vocabulary:
    """The control tokens of a family, in the order of their ids from 0 on."""

    control: tuple[str, ...]
    is_sentencepiece: bool = False
    plain_markers: bool = False
    """`tokenizer.json` says that the markers are text, as Qwen's does."""


VOCABULARIES = {
    "Qwen2.5-Coder": Vocabulary(
        (
            *_QWEN_ENDS,
            *("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>"),
            *("<|repo_name|>", "<|file_sep|>"),
        ),
        plain_markers=True,
    ),
    "CodeGemma": Vocabulary(
        (
            *("<pad>", "<eos>", "<bos>", "<unk>"),
            *("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_separator|>"),
        ),
        is_sentencepiece=True,
    ),
    "Granite": Vocabulary(
        (
            "<|end_of_text|>",
            *("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>"),
            *("<|filename|>", "<|reponame|>"),
        ),
    ),
    "StarCoder2": Vocabulary(
        (
            "<|endoftext|>",
            *("<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<fim_pad>"),
            *("<repo_name>", "<file_sep>"),
        ),
    ),
    "StarCoder, Granite Code": Vocabulary(
        (
            "<|endoftext|>",
            *("<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<fim_pad>"),
            *("<filename>", "<gh_stars>", "<reponame>"),
        ),
    ),
    "SantaCoder": Vocabulary(
        ("<|endoftext|>", "<fim-prefix>", "<fim-middle>", "<fim-suffix>", "<fim-pad>")
    ),
    "DeepSeek-Coder": Vocabulary(
        (
            *("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"),  # noqa: RUF001 - its own spelling
            *("<｜fim▁hole｜>", "<｜fim▁begin｜>", "<｜fim▁end｜>", "<|EOT|>"),  # noqa: RUF001 - DeepSeek spells so
        ),
        plain_markers=True,
    ),
    "CodeLlama": Vocabulary(
        ("<unk>", "<s>", "</s>", "▁<PRE>", "▁<MID>", "▁<SUF>", "▁<EOT>"), is_sentencepiece=True
    ),
    "Codestral": Vocabulary(
        ("<unk>", "<s>", "</s>", "[PREFIX]", "[MIDDLE]", "[SUFFIX]"), is_sentencepiece=True
    ),
    "none": Vocabulary(("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<file_sep>")),
}
"""By the name of the family."""


def write_tokenizer(path: Path, vocabulary: Vocabulary) -> None:
    """`tokenizer.json` of VOCAB tokens: control tokens, all bytes, what was learned from SAMPLE."""
    tokenizer = (_sentencepiece if vocabulary.is_sentencepiece else _byte_level)(vocabulary.control)
    special = [AddedToken(name, special=True, normalized=False) for name in vocabulary.control]
    tokenizer.add_special_tokens(special)
    raw = json.loads(tokenizer.to_str())
    for token in raw["added_tokens"]:
        token["special"] = not (vocabulary.plain_markers and "fim" in token["content"])
    path.write_text(json.dumps(raw), encoding="utf-8")


def build_family_model(tiny: Path, folder: Path, vocabulary: Vocabulary) -> Manifest:
    """The tiny model of the folder `tiny` (of VOCAB tokens) with another vocabulary."""
    shutil.copytree(tiny, folder)
    write_tokenizer(folder / "tokenizer.json", vocabulary)
    sha256 = sha256_of(folder / "tokenizer.json")
    old = Manifest.load(folder)
    size = (folder / "tokenizer.json").stat().st_size
    manifest = dataclasses.replace(
        old,
        tokenizer_sha256=sha256,
        files={**old.files, "tokenizer.json": FileEntry(sha256, size)},
        eos_ids=(),
        bos_id=None,
        fim_ids={},
    )
    (folder / "manifest.json").write_text(manifest.to_json(), encoding="utf-8")
    return manifest


def _byte_level(control: tuple[str, ...]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=list(control),
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator([SAMPLE], trainer)
    vocab, merges = _learned(tokenizer)
    made = Tokenizer(models.BPE(vocab=_filled(vocab), merges=merges))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return made


def _sentencepiece(control: tuple[str, ...]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(vocab_size=60, special_tokens=[], show_progress=False)
    tokenizer.train_from_iterator(SAMPLE.replace(" ", "▁").split("\n"), trainer)
    learned, merges = _learned(tokenizer)
    names = [*control, *(f"<0x{byte:02X}>" for byte in range(256)), *learned]
    names = names[:VOCAB]
    merges = [(left, right) for left, right in merges if left + right in names]
    made = Tokenizer(
        models.BPE(
            vocab=_filled({name: token_id for token_id, name in enumerate(names)}),
            merges=merges,
            unk_token="<unk>",
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    made.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    made.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return made


def _learned(tokenizer: Tokenizer) -> tuple[dict[str, int], list[tuple[str, str]]]:
    raw = json.loads(tokenizer.to_str())["model"]
    return raw["vocab"], [tuple(merge) for merge in raw["merges"]]


def _filled(vocab: dict[str, int]) -> dict[str, int]:
    """With a name for each id of the model."""
    return vocab | {f"unused{token_id}": token_id for token_id in range(len(vocab), VOCAB)}
