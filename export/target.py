"""A built model folder as the source of what heads share with it: head rows and embedding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from export.gguf_source import Matrix
from export.quantize import BITS, dequantize_blocks
from lsp_server.engine.manifest import Manifest
from lsp_server.errors import ModelFilesError, UnsupportedModelError


class TargetFolder:
    """Raises ModelMissingError, ModelFilesError, UnsupportedModelError for an older builder's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = Manifest.load(folder)
        self.manifest.check_sizes(folder)
        self.manifest.check_tokenizer(folder)
        if not self.manifest.hidden_outputs:
            raise UnsupportedModelError(
                f"{folder} was made by builder {self.manifest.builder_version} and gives no hidden"
                " states, which heads read; build it again."
            )
        path = folder / self.manifest.forms["chain"]
        try:
            self._tensors = ir.load(path).graph.initializers
        except Exception as error:  # protobuf's and the library's errors have no common base
            raise ModelFilesError(f"{path} cannot be read ({error}); build it again.") from error

    def embedding(self) -> Matrix:
        """float32 [vocab, hidden]"""
        return self._table("token_embd")

    def head_rows(self, ids: NDArray[np.int64] | None) -> Matrix:
        """float32 [len(ids), hidden], the output matrix's rows; None: all of them."""
        untied = "output" in self._tensors or "output.codes" in self._tensors
        return self._table("output" if untied else "token_embd", ids)

    def intermediate_size(self) -> int:
        """Width of the gated MLP."""
        name = "blk.0.ffn_up"
        if self.manifest.weight_format == "fp32":
            return int(self._array(name).shape[1])
        return int(self._array(f"{name}.scales").shape[0])

    def _table(self, name: str, ids: NDArray[np.int64] | None = None) -> Matrix:
        rows = slice(None) if ids is None else ids
        if self.manifest.weight_format == "fp32":
            table: Matrix = self._array(name)[rows]
            return table
        scales = self._array(f"{name}.scales")[rows]
        # The embedding reads the codes as whole rows, the head as blocks.
        shape = "rows" if f"{name}.rows" in self._tensors else "codes"
        codes = self._array(f"{name}.{shape}")[rows].reshape(*scales.shape, -1)
        return dequantize_blocks(codes, scales, BITS[self.manifest.weight_format])

    def _array(self, name: str) -> NDArray[Any]:
        array: NDArray[Any] = self._tensors[name].const_value.numpy()
        return array
