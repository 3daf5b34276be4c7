"""`tokenizer.json` from GGUF vocabulary data: byte-level BPE, control tokens kept apart."""

from __future__ import annotations

from collections.abc import Callable

import gguf
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from export.gguf_source import TokenizerData
from lsp_server.errors import ModelFilesError, UnsupportedModelError


def _smollm() -> pre_tokenizers.PreTokenizer:
    """Each digit alone, then GPT-2's split."""
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )


PRE_TOKENIZERS: dict[str, Callable[[], pre_tokenizers.PreTokenizer]] = {"smollm": _smollm}
"""By the value of `tokenizer.ggml.pre`."""

END_TOKENS = (
    "<|endoftext|>",
    "<|im_end|>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "</s>",
    "<|file_sep|>",
    "<file_sep>",
    "<|repo_name|>",
    "<repo_name>",
    "<reponame>",
    "<filename>",
)
"""Control tokens after which a completion is over: end of text or turn, start of another file."""

FIM_TOKENS = {
    "prefix": ("<fim_prefix>", "<fim-prefix>", "<|fim_prefix|>", "<｜fim▁begin｜>"),  # noqa: RUF001 - DeepSeek spells so
    "suffix": ("<fim_suffix>", "<fim-suffix>", "<|fim_suffix|>", "<｜fim▁hole｜>"),  # noqa: RUF001 - DeepSeek spells so
    "middle": ("<fim_middle>", "<fim-middle>", "<|fim_middle|>", "<｜fim▁end｜>"),  # noqa: RUF001 - DeepSeek spells so
}
"""Fill-in-the-middle markers by role, in the spellings of code models; in which order they stand,
the server knows (`fim.py`)."""


def build_tokenizer(data: TokenizerData) -> Tokenizer:
    """Raises UnsupportedModelError (pre-tokenizer unknown) or ModelFilesError (bad vocabulary).

    Nothing is added around the text (no BOS). The control tokens are "special added tokens", which
    the library finds in plain text too: set `encode_special_tokens = True` on the loaded tokenizer
    to encode a user's text, where `<|im_end|>` is ten ordinary characters.
    """
    if data.pre not in PRE_TOKENIZERS:
        known = ", ".join(sorted(PRE_TOKENIZERS))
        raise UnsupportedModelError(
            f"The checkpoint has the pre-tokenizer {data.pre!r} (tokenizer.ggml.pre); this builder"
            f" knows {known}."
        )
    vocabulary = {token: token_id for token_id, token in enumerate(data.tokens)}
    merges = [_split_merge(merge) for merge in data.merges]
    try:
        tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    except Exception as error:  # the library raises no narrower class
        raise ModelFilesError(
            f"The checkpoint's vocabulary is inconsistent ({error}); download it again."
        ) from error
    tokenizer.pre_tokenizer = PRE_TOKENIZERS[data.pre]()
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(_added(data, gguf.TokenType.CONTROL, special=True))
    tokenizer.add_tokens(_added(data, gguf.TokenType.USER_DEFINED, special=False))
    return tokenizer


def end_ids(data: TokenizerData) -> tuple[int, ...]:
    """Every id that ends a completion, ascending."""
    control = _control_ids(data)
    named = (control[token] for token in END_TOKENS if token in control)
    return tuple(sorted({*data.end_ids, *named}))


def fim_ids(data: TokenizerData) -> dict[str, int]:
    """The fill-in-the-middle markers by role; empty unless all three exist as control tokens."""
    control = _control_ids(data)
    found = {
        role: control[spelling]
        for role, spellings in FIM_TOKENS.items()
        for spelling in spellings
        if spelling in control
    }
    found |= data.fim_ids
    return found if found.keys() == FIM_TOKENS.keys() else {}


def _control_ids(data: TokenizerData) -> dict[str, int]:
    return {
        token: token_id
        for token_id, (token, kind) in enumerate(zip(data.tokens, data.types, strict=True))
        if kind == gguf.TokenType.CONTROL
    }


def _added(data: TokenizerData, kind: int, *, special: bool) -> list[AddedToken]:
    return [
        AddedToken(token, special=special, normalized=False)
        for token, token_kind in zip(data.tokens, data.types, strict=True)
        if token_kind == kind
    ]


def _split_merge(merge: str) -> tuple[str, str]:
    left, _, right = merge.partition(" ")
    return left, right
