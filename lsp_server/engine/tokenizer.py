"""The one place that turns text into token ids and back.

Text from a document is data: a literal `<|im_end|>` in it is encoded as characters, never as the
control token. In the other direction control tokens have no text.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tokenizers

from lsp_server.errors import ModelFilesError, UnsupportedModelError

_MARKER = re.compile(r"<[|｜].+[|｜]>")  # noqa: RUF001 - DeepSeek's are full-width bars
"""Added tokens that are control tokens whatever `tokenizer.json` says of them: Qwen's says that its
`<|fim_prefix|>` is text."""

_BLANK = "▁"
"""SentencePiece's stand-in for a blank; in a document it cannot be told from one."""
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


class Tokenizer:
    """A BPE tokenizer loaded from a model folder's `tokenizer.json`: over bytes, or SentencePiece's
    with a token for each byte."""

    def __init__(self, path: Path) -> None:
        try:
            text = path.read_text(encoding="utf-8")
            raw = json.loads(text)
            self._inner = tokenizers.Tokenizer.from_str(json.dumps(raw) if _as_data(raw) else text)
        except Exception as error:
            raise ModelFilesError(
                f"{path} is not a usable tokenizer ({error}); fetch or build the model again."
            ) from error
        self._inner.encode_special_tokens = True
        self._bytes = self._byte_table(raw, _spelt(raw, path))

    @property
    def vocab_size(self) -> int:
        return len(self._bytes)

    def encode(self, text: str) -> list[int]:
        """Token ids of `text`; no BOS, control tokens never produced."""
        # A lone surrogate, as a client may send half an emoji, has no UTF-8 form.
        clean = text.encode("utf-8", "replace").decode("utf-8")
        # A batch of one: `encode` would hold the interpreter's lock, and with it the event loop,
        # for a tenth of a second where the text is a long document.
        return list(self._inner.encode_batch_fast([clean], add_special_tokens=False)[0].ids)

    def token_bytes(self, token_id: int) -> bytes:
        """The UTF-8 bytes a token stands for, possibly part of a character; b"" for control, and
        for the padding behind the vocabulary that some models have in their logits."""
        return self._bytes[token_id] if token_id < len(self._bytes) else b""

    def spelling(self, token_id: int) -> str | None:
        """The vocabulary's own name of a token, control tokens included; None: no such token."""
        name: str | None = self._inner.id_to_token(token_id)
        return name

    def control_id(self, spelling: str) -> int | None:
        """The control token of that name; None where there is none, or where it is text."""
        token_id: int | None = self._inner.token_to_id(spelling)
        return None if token_id is None or self._bytes[token_id] else token_id

    def decode(self, token_ids: list[int]) -> str:
        """Text of complete `token_ids`; broken UTF-8 becomes U+FFFD."""
        return b"".join(self._bytes[i] for i in token_ids).decode("utf-8", "replace")

    def _byte_table(self, raw: Mapping[str, Any], spelt: Callable[[str], bytes]) -> list[bytes]:
        added = {t["id"]: t["special"] for t in raw.get("added_tokens", [])}
        table = []
        for token_id in range(self._inner.get_vocab_size()):
            token = self._inner.id_to_token(token_id)
            if token is None or added.get(token_id):
                table.append(b"")
            elif token_id in added:  # its text is plain, without stand-ins
                table.append(token.encode())
            else:
                table.append(spelt(token))
        return table


class TextStream:
    """Bytes of successive tokens -> text, holding back a character until it is complete."""

    def __init__(self, tokenizer: Tokenizer, healed: bytes = b"") -> None:
        """`healed`: left out where the bytes begin with it, since it stands there already."""
        self._tokenizer = tokenizer
        self._healed = healed
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> str:
        new = self._tokenizer.token_bytes(token_id)
        if self._healed:
            length = min(len(new), len(self._healed))
            agrees = new[:length] == self._healed[:length]
            new = new[length:] if agrees else new
            self._healed = self._healed[length:] if agrees else b""
        return self._decoder.decode(new)


def _as_data(raw: dict[str, Any]) -> bool:
    """Make text data: markers are control tokens, and nothing is put before it. Whether something
    had to be changed."""
    changed = False
    for token in raw.get("added_tokens", []):
        if not token["special"] and _MARKER.fullmatch(token["content"]):
            token["special"] = changed = True
    normalizer = raw.get("normalizer") or {}
    for step in (normalizer, *normalizer.get("normalizers", ())):
        if step.get("type") == "Prepend":
            step["prepend"], changed = "", True
    pre_tokenizer = raw.get("pre_tokenizer") or {}
    for step in (pre_tokenizer, *pre_tokenizer.get("pretokenizers", ())):
        if step.get("type") == "Metaspace" and step.get("prepend_scheme") != "never":
            step["prepend_scheme"], changed = "never", True
            step.pop("add_prefix_space", None)
    return changed


def _spelt(raw: Mapping[str, Any], path: Path) -> Callable[[str], bytes]:
    """From a token as the vocabulary spells it to its bytes. Raises UnsupportedModelError."""
    decoder = raw.get("decoder") or {}
    if decoder.get("type") == "ByteLevel":
        byte_of = {char: bytes([byte]) for byte, char in _byte_level_alphabet().items()}
        return lambda token: b"".join(byte_of.get(char) or char.encode() for char in token)
    steps = [step.get("type") for step in decoder.get("decoders", ())]
    if "ByteFallback" in steps:
        return _sentencepiece_bytes
    raise UnsupportedModelError(
        f"{path} has a {decoder.get('type')!r} decoder; only byte-level tokenizers, and those of"
        " SentencePiece with a token for each byte, are supported."
    )


def _sentencepiece_bytes(token: str) -> bytes:
    byte = _BYTE.fullmatch(token)
    return bytes.fromhex(byte[1]) if byte else token.replace(_BLANK, " ").encode()


def _byte_level_alphabet() -> dict[int, str]:
    """Byte -> printable stand-in of GPT-2's byte-level BPE (Radford et al. 2019, encoder.py)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    alphabet = {byte: chr(byte) for byte in printable}
    others = [byte for byte in range(256) if byte not in alphabet]
    return alphabet | {byte: chr(256 + index) for index, byte in enumerate(others)}
