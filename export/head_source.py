"""A head's checkpoint in a public safetensors layout: configuration and float32 tensors by name.

Knows files, not kinds of heads. Pickled files are refused: reading one runs the code inside it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from export.gguf_source import Matrix
from lsp_server.errors import ModelFilesError, RuntimeMissingError, UnsupportedModelError

_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")

_CONVERT = (
    'python -c "import sys, torch; from safetensors.torch import save_file;'
    " save_file(torch.load(sys.argv[1], map_location='cpu', weights_only=True), sys.argv[2])\""
    " {name} model.safetensors"
)


class HeadSource:
    """`folder` holds `config.json` and one or more `.safetensors` files.

    Raises ModelFilesError for what is absent or cannot be read, UnsupportedModelError for a pickled
    checkpoint, RuntimeMissingError without the library.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = _safetensors(folder)
        self.config = _config(folder / "config.json")
        self._places: dict[str, Path] = {}
        for path in self.files:
            with _opened(path) as file:
                self._places |= dict.fromkeys(file.keys(), path)
        self._taken: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._places

    @property
    def names(self) -> set[str]:
        return set(self._places)

    def size(self, key: str, default: int | None = None) -> int:
        """A positive count of the configuration."""
        value = self.config.get(key, default)
        if value is None:
            raise ModelFilesError(f"{self.folder / 'config.json'} lacks {key}; add it.")
        if not isinstance(value, int) or value < 1:
            raise UnsupportedModelError(
                f"{self.folder / 'config.json'} has {key} = {value!r}; a positive number is needed."
            )
        return value

    def matrix(self, name: str, shape: tuple[int, ...]) -> Matrix:
        """Tensor `name` as float32 of exactly `shape`."""
        values = np.asarray(self.array(name), dtype=np.float32)
        if values.shape != shape:
            raise ModelFilesError(
                f"{self._places[name]} has {name} of shape {list(values.shape)}; {list(shape)} is"
                " what the configuration and the target ask for."
            )
        return values

    def array(self, name: str) -> NDArray[Any]:
        """Tensor `name` as it is stored."""
        if name not in self._places:
            raise ModelFilesError(
                f"{self.folder} lacks the tensor {name}; it is not a head of this kind, or not all"
                " of it."
            )
        self._taken.add(name)
        with _opened(self._places[name]) as file:
            values: NDArray[Any] = file.get_tensor(name)
        return values

    def refuse_unread(self) -> None:
        """A tensor that the graph would silently ignore changes what it computes."""
        unread = sorted(self.names - self._taken)
        if unread:
            raise UnsupportedModelError(
                f"{self.folder} has the tensor {unread[0]}, which this builder does not know; the"
                " head is a variant of its kind that is not supported."
            )


def _safetensors(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise ModelFilesError(
            f"{folder} is not a folder; name one with config.json and a .safetensors file."
        )
    found = sorted(folder.glob("*.safetensors"))
    if found:
        return found
    pickled = sorted(path for path in folder.iterdir() if path.suffix in _PICKLED)
    if pickled:
        raise UnsupportedModelError(
            f"{pickled[0]} is a pickled checkpoint, and reading one can run any code; convert it"
            f" where you trust it: {_CONVERT.format(name=pickled[0].name)}"
        )
    raise ModelFilesError(f"{folder} has no .safetensors file; name the folder of a head.")


def _config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelFilesError(
            f"{path} cannot be read ({error}); it belongs beside the tensors."
        ) from error
    if not isinstance(config, dict):
        raise ModelFilesError(f"{path} is not a JSON object; it belongs beside the tensors.")
    return config


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        import ml_dtypes  # noqa: F401  (teaches numpy bfloat16)
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise RuntimeMissingError(
            "safetensors is not installed; install it with `pip install safetensors`."
        ) from error
    try:
        with safe_open(path, framework="numpy") as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise ModelFilesError(
            f"{path} is not a readable safetensors file ({error}); fetch it again."
        ) from error
