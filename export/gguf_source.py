"""A GGUF checkpoint as a configuration, float32 matrices and tokenizer data.

Knows llama.cpp's conventions (metadata keys, tensor names, the permuted Q and K rows) and nothing
of ONNX. A file that holds anything this module does not know is refused by name, never guessed at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

from export.config import AttentionShape, ModelConfig
from lsp_server.errors import ModelFilesError, UnsupportedModelError

Matrix = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Architecture:
    """How llama.cpp stores one family: another family of the same graph is one more entry."""

    permuted_rope: bool
    """Q and K rows were interleaved at conversion (llama.cpp's `LlamaModel.permute`)."""


ARCHITECTURES = {"llama": Architecture(permuted_rope=True)}

LAYER_TENSORS = (
    "attn_norm",
    "attn_q",
    "attn_k",
    "attn_v",
    "attn_output",
    "ffn_norm",
    "ffn_gate",
    "ffn_up",
    "ffn_down",
)


@dataclass(frozen=True, slots=True)
class TokenizerData:
    """The vocabulary as GGUF keeps it; `types` holds `gguf.TokenType` values."""

    pre: str
    tokens: list[str]
    types: list[int]
    merges: list[str]
    bos_id: int | None
    end_ids: tuple[int, ...]
    """Ids that the metadata names as end of text, turn or message."""
    fim_ids: dict[str, int]
    """Fill-in-the-middle ids that the metadata names, by role."""


class GgufSource:
    """Raises ModelFilesError for an unreadable file, UnsupportedModelError for an unknown kind."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._reader = gguf.GGUFReader(path)
        except FileNotFoundError:
            raise ModelFilesError(f"{path} does not exist; name a .gguf file.") from None
        except (OSError, ValueError, IndexError, KeyError) as error:
            raise ModelFilesError(
                f"{path} is not a readable GGUF file ({error}); it may be truncated or of a newer"
                " kind: download it again."
            ) from error
        self._tensors = {tensor.name: tensor for tensor in self._reader.tensors}
        self.family = str(self._require("general.architecture"))
        if self.family not in ARCHITECTURES:
            known = ", ".join(sorted(ARCHITECTURES))
            raise UnsupportedModelError(
                f"{path.name} has the architecture {self.family!r}; this builder knows {known}."
            )
        self._refuse_unknown()

    @property
    def licence(self) -> str | None:
        value = self._metadata("general.license")
        return None if value is None else str(value)

    def config(self, max_context: int) -> ModelConfig:
        """The shape of the model; its context length is cut to `max_context`."""
        num_heads = self._size("attention.head_count")
        hidden_size = self._size("embedding_length")
        head_size = self._size("attention.key_length", hidden_size // num_heads)
        for key, value in (
            ("rope.dimension_count", self._own("rope.dimension_count")),
            ("attention.value_length", self._own("attention.value_length")),
        ):
            if value is not None and int(value) != head_size:
                raise UnsupportedModelError(
                    f"{self.path.name} has {self.family}.{key} = {value} with heads of"
                    f" {head_size}; only equal sizes are supported."
                )
        return ModelConfig(
            family=self.family,
            num_layers=self._size("block_count"),
            attention=AttentionShape(
                num_heads=num_heads,
                num_kv_heads=self._size("attention.head_count_kv", num_heads),
                head_size=head_size,
            ),
            hidden_size=hidden_size,
            vocab_size=int(self._tensor("token_embd.weight").shape[1]),
            context_length=min(self._size("context_length"), max_context),
            rope_base=float(self._own("rope.freq_base") or 10000.0),
            norm_epsilon=float(self._require_own("attention.layer_norm_rms_epsilon")),
            tied_head="output.weight" not in self._tensors,
        )

    def matrix(self, name: str) -> Matrix:
        """Tensor `name` dequantised to float32, [out, in] (or [size]), rotary rows in halves."""
        tensor = self._tensor(name)
        try:
            values = gguf.dequantize(tensor.data, tensor.tensor_type)
        except NotImplementedError as error:
            raise UnsupportedModelError(
                f"{self.path.name} stores {name} as {tensor.tensor_type.name}, a quantisation that"
                " this builder cannot read; use a Q8_0, F16 or Q4_1 file."
            ) from error
        matrix = np.asarray(values, dtype=np.float32)
        if ARCHITECTURES[self.family].permuted_rope:
            num_heads = self._size("attention.head_count")
            if name.endswith("attn_q.weight"):
                return halves_from_pairs(matrix, num_heads)
            if name.endswith("attn_k.weight"):
                return halves_from_pairs(matrix, self._size("attention.head_count_kv", num_heads))
        return matrix

    def tokenizer_data(self) -> TokenizerData:
        kind = self._require("tokenizer.ggml.model")
        if kind != "gpt2":
            raise UnsupportedModelError(
                f"{self.path.name} has the tokenizer model {kind!r}; only byte-level BPE ('gpt2')"
                " is supported."
            )
        end_keys = ("eos_token_id", "eot_token_id", "eom_token_id")
        fim_keys = {"prefix": "fim_pre", "suffix": "fim_suf", "middle": "fim_mid"}
        bos_id = self._metadata("tokenizer.ggml.bos_token_id")
        return TokenizerData(
            pre=str(self._metadata("tokenizer.ggml.pre") or "default"),
            tokens=list(self._require("tokenizer.ggml.tokens")),
            types=[int(value) for value in self._require("tokenizer.ggml.token_type")],
            merges=list(self._require("tokenizer.ggml.merges")),
            bos_id=None if bos_id is None else int(bos_id),
            end_ids=tuple(
                int(value)
                for key in end_keys
                if (value := self._metadata(f"tokenizer.ggml.{key}")) is not None
            ),
            fim_ids={
                role: int(value)
                for role, key in fim_keys.items()
                if (value := self._metadata(f"tokenizer.ggml.{key}_token_id")) is not None
            },
        )

    def _refuse_unknown(self) -> None:
        """A tensor or a setting that the graph would silently ignore changes what it computes."""
        known = set(self._known_tensors())
        unknown = sorted(set(self._tensors) - known)
        missing = sorted(known - set(self._tensors) - {"output.weight"})
        if unknown:
            raise UnsupportedModelError(
                f"{self.path.name} has the tensor {unknown[0]}, which this builder does not know;"
                " the model is a variant of its family that is not supported."
            )
        if missing:
            raise ModelFilesError(
                f"{self.path.name} lacks the tensor {missing[0]}; download it again."
            )
        scaling = self._own("rope.scaling.type")
        if scaling not in (None, "none"):
            raise UnsupportedModelError(
                f"{self.path.name} uses the rope scaling {scaling!r}, which is not supported."
            )
        if self._own("attention.sliding_window"):
            raise UnsupportedModelError(
                f"{self.path.name} uses a sliding attention window, which is not supported."
            )

    def _known_tensors(self) -> Iterator[str]:
        yield from ("token_embd.weight", "output_norm.weight", "output.weight")
        for layer in range(self._size("block_count")):
            for name in LAYER_TENSORS:
                yield f"blk.{layer}.{name}.weight"

    def _tensor(self, name: str) -> Any:
        return self._tensors[name]

    def _metadata(self, key: str) -> Any:
        field = self._reader.get_field(key)
        return None if field is None else field.contents()

    def _own(self, key: str) -> Any:
        return self._metadata(f"{self.family}.{key}")

    def _size(self, key: str, default: int | None = None) -> int:
        """A count of the architecture; some families keep one value per layer, which is refused."""
        value = self._own(key)
        if value is None and default is not None:
            return default
        value = self._require_own(key)
        if not isinstance(value, int) or value < 1:
            raise UnsupportedModelError(
                f"{self.path.name} has {self.family}.{key} = {value!r}; only one positive number"
                " for all layers is supported."
            )
        return value

    def _require(self, key: str) -> Any:
        value = self._metadata(key)
        if value is None:
            raise ModelFilesError(
                f"{self.path.name} lacks the metadata {key}; use another conversion of the model."
            )
        return value

    def _require_own(self, key: str) -> Any:
        return self._require(f"{self.family}.{key}")


def halves_from_pairs(matrix: Matrix, num_heads: int) -> Matrix:
    """Undo llama.cpp's interleaving of the rotary rows of Q or K, [heads * head_size, in].

    llama.cpp rotates neighbouring rows (2i, 2i+1); the checkpoint's own layout, and the default of
    GroupQueryAttention, rotate row i with row i + head_size / 2.
    """
    num_rows, num_columns = matrix.shape
    pairs = matrix.reshape(num_heads, num_rows // num_heads // 2, 2, num_columns)
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(num_rows, num_columns)
