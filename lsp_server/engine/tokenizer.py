"""The one place that turns text into token ids and back.

Text from a document is data: a literal `<|im_end|>` in it is encoded as characters, never as the
control token. In the other direction control tokens have no text.
"""

from __future__ import annotations

import codecs
import json
from pathlib import Path
from typing import Any

import tokenizers

from lsp_server.errors import ModelFilesError, UnsupportedModelError


class Tokenizer:
    """A byte-level BPE tokenizer loaded from a model folder's `tokenizer.json`."""

    def __init__(self, path: Path) -> None:
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            self._inner = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:
            raise ModelFilesError(
                f"{path} is not a usable tokenizer ({error}); fetch the model again."
            ) from error
        decoder = (raw.get("decoder") or {}).get("type")
        if decoder != "ByteLevel":
            raise UnsupportedModelError(
                f"{path} has a {decoder!r} decoder; only byte-level tokenizers are supported."
            )
        self._inner.encode_special_tokens = True
        self._bytes: list[bytes] = self._byte_table(raw)

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
        """The UTF-8 bytes a token stands for, possibly part of a character; b"" for control."""
        return self._bytes[token_id]

    def spelling(self, token_id: int) -> str | None:
        """The vocabulary's own name of a token, control tokens included; None: no such token."""
        name: str | None = self._inner.id_to_token(token_id)
        return name

    def decode(self, token_ids: list[int]) -> str:
        """Text of complete `token_ids`; broken UTF-8 becomes U+FFFD."""
        return b"".join(self._bytes[i] for i in token_ids).decode("utf-8", "replace")

    def _byte_table(self, raw: dict[str, Any]) -> list[bytes]:
        added = {t["id"]: t["special"] for t in raw.get("added_tokens", [])}
        byte_of = {char: byte for byte, char in _byte_level_alphabet().items()}
        table = []
        for token_id in range(self._inner.get_vocab_size()):
            token = self._inner.id_to_token(token_id)
            if token is None or added.get(token_id):
                table.append(b"")
            elif token_id in added:  # its text is plain, not in the byte alphabet
                table.append(token.encode())
            else:
                table.append(
                    b"".join(bytes([byte_of[c]]) if c in byte_of else c.encode() for c in token)
                )
        return table


class TextStream:
    """Bytes of successive tokens -> text, holding back a character until it is complete."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> str:
        return self._decoder.decode(self._tokenizer.token_bytes(token_id))


def _byte_level_alphabet() -> dict[int, str]:
    """Byte -> printable stand-in of GPT-2's byte-level BPE (Radford et al. 2019, encoder.py)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    alphabet = {byte: chr(byte) for byte in printable}
    others = [byte for byte in range(256) if byte not in alphabet]
    return alphabet | {byte: chr(256 + index) for index, byte in enumerate(others)}
