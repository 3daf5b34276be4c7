"""`manifest.json` of a model folder: the one definition that builder, fetcher and server share.

Reading is strict: a folder that is not exactly what its manifest says is refused with the remedy.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lsp_server.errors import ModelFilesError, ModelMissingError, TokenizerMismatchError

MANIFEST_NAME = "manifest.json"
SCHEMA_VERSION = 1
DRAFT_IDS_NAME = "draft_ids.npy"
"""Reduced vocabulary of drafting heads: int64 [draft_vocab_size], ascending target ids."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Manifest:
    schema_version: int
    builder_version: int
    name: str
    family: str
    """Architecture, such as `llama`."""
    forms: dict[str, str]
    """Graph form -> file, such as {"chain": "chain.onnx", "tree": "tree.onnx"}."""
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_size: int
    hidden_size: int
    vocab_size: int
    context_length: int
    weight_format: str
    """`int8`, `int4` or `fp32`."""
    tokenizer_sha256: str
    bos_id: int | None
    eos_ids: tuple[int, ...]
    fim_ids: dict[str, int]
    """Fill-in-the-middle markers by role (prefix, suffix, middle, ...); empty: prefix only."""
    files: dict[str, FileEntry]
    source: dict[str, str]
    """What it was built from: kind, file name, sha256."""
    licence: str
    made_by: str
    """The command and library versions that made it."""
    # What builder 2 added; a folder of builder 1 reads as one that has none of it.
    hidden_outputs: bool = False
    """`chain` and `tree` give `hidden_states` and `features` too."""
    feature_layers: tuple[int, ...] = ()
    """`features` is the residual stream after that many layers each, side by side."""
    exit_layers: int = 0
    """Layers of the form `exit`; 0: the folder has no such form."""
    reduced_forms: tuple[str, ...] = ()
    """Forms whose logits have one column for each id of `draft_ids.npy`, not for each token."""
    draft_vocab_size: int = 0
    """Ids in `draft_ids.npy`; 0: there is none."""
    tree_rows_exact: bool = False
    """A row of `tree` has the bits that the same path has in `chain`, whatever its siblings."""
    trained: bool = True
    """False for weights that no training has fitted: random, or a pruned copy."""

    def num_columns(self, form: str) -> int:
        """Columns of the logits of one graph form."""
        return self.draft_vocab_size if form in self.reduced_forms else self.vocab_size

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=2, sort_keys=True) + "\n"

    @classmethod
    def load(cls, folder: Path) -> Manifest:
        """Parse `folder/manifest.json`.

        Raises ModelMissingError when there is none, ModelFilesError when it cannot be used.
        """
        path = folder / MANIFEST_NAME
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ModelMissingError(
                f"No model in {folder}: {MANIFEST_NAME} is absent; build one with"
                " `tabahead models fetch smollm2-135m`."
            ) from None
        except (OSError, ValueError) as error:
            raise ModelFilesError(
                f"{path} cannot be read ({error}); fetch or build the model again."
            ) from error
        return cls._from_raw(raw, path)

    @classmethod
    def _from_raw(cls, raw: object, path: Path) -> Manifest:
        if not isinstance(raw, dict):
            raise ModelFilesError(f"{path} is not a JSON object; fetch or build the model again.")
        version = raw.get("schema_version")
        if version != SCHEMA_VERSION:
            raise ModelFilesError(
                f"{path} has schema version {version!r}, this tabahead reads {SCHEMA_VERSION};"
                " fetch or build the model again."
            )
        try:
            values = read_fields(cls, raw)
            values["eos_ids"] = tuple(values["eos_ids"])
            opened = [values["forms"]["chain"], *values["forms"].values(), "tokenizer.json"]
            if values["reduced_forms"]:
                opened.append(DRAFT_IDS_NAME)
            for name in opened:
                values["files"][name]  # all that is opened is listed, with its size
            manifest = cls(**values)
            check_types(manifest)
            for name in ("num_layers", "num_kv_heads", "head_size", "vocab_size", "context_length"):
                if values[name] < 1:
                    raise ValueError(f"{name} is {values[name]}")
            return manifest
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ModelFilesError(
                f"{path} is incomplete or wrong ({error}); fetch or build the model again."
            ) from error

    def check_sizes(self, folder: Path) -> None:
        """The quick check at every load: each file is there and has its full size."""
        check_file_sizes(folder, self.files, remedy_of(folder, self.name))

    def check_tokenizer(self, folder: Path) -> None:
        """The tokenizer beside the weights is the one they were built with."""
        try:
            found = sha256_of(folder / "tokenizer.json")
        except OSError as error:
            raise ModelFilesError(
                f"{folder / 'tokenizer.json'} cannot be read ({error});"
                f" {remedy_of(folder, self.name)}."
            ) from error
        if found != self.tokenizer_sha256:
            raise TokenizerMismatchError(
                f"{folder / 'tokenizer.json'} is not the tokenizer of this model (SHA-256"
                f" {found[:12]}..., expected {self.tokenizer_sha256[:12]}...);"
                f" {remedy_of(folder, self.name)}."
            )

    def check_hashes(self, folder: Path) -> None:
        """The thorough check of `models verify` and `doctor`: every byte."""
        check_file_hashes(folder, self.files, remedy_of(folder, self.name))


def read_fields(cls: Any, raw: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a manifest class from JSON: lists as tuples, `files` as entries.

    A field without a default must be there (KeyError). Raises TypeError or AttributeError for
    values of the wrong shape.
    """
    values: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        required = field.default is dataclasses.MISSING
        value = raw[field.name] if required else raw.get(field.name, field.default)
        values[field.name] = tuple(value) if isinstance(value, list) else value
    values["files"] = {name: FileEntry(**entry) for name, entry in values["files"].items()}
    return values


def check_types(manifest: Any) -> None:
    """Raises TypeError for a field whose value is not of the type that its class names."""
    for name, kind in typing.get_type_hints(type(manifest)).items():
        value = getattr(manifest, name)
        if not _is_of(value, kind):
            raise TypeError(f"{name} is {value!r}")


def _is_of(value: Any, kind: Any) -> bool:
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return isinstance(value, tuple) and all(_is_of(item, parts[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(_is_of(item, parts[1]) for item in value.values())
    if parts:
        return any(_is_of(value, part) for part in parts)
    if dataclasses.is_dataclass(value):
        check_types(value)
    return type(value) is kind  # True is no number here


def remedy_of(folder: Path, name: str) -> str:
    """What mends a model's folder: those of the catalogue are kept as NAME/DIGEST."""
    if folder.parent.name == name:
        return f"run `tabahead models fetch {name}`"
    return "build it again with `tabahead export build`, or copy it again"


def check_file_sizes(folder: Path, files: Mapping[str, FileEntry], remedy: str) -> None:
    """Raises ModelFilesError for a file that is absent or not of its full size."""
    for name, entry in files.items():
        path = folder / name
        try:
            size = path.stat().st_size
        except OSError as error:
            raise ModelFilesError(f"{path} is missing; {remedy}.") from error
        if size != entry.size:
            raise ModelFilesError(
                f"{path} has {size} bytes instead of {entry.size} (truncated download or build?);"
                f" {remedy}."
            )


def check_file_hashes(folder: Path, files: Mapping[str, FileEntry], remedy: str) -> None:
    """Raises ModelFilesError for a file that is absent or has other bytes."""
    check_file_sizes(folder, files, remedy)
    for name, entry in files.items():
        found = sha256_of(folder / name)
        if found != entry.sha256:
            raise ModelFilesError(
                f"{folder / name} is corrupt (SHA-256 {found[:12]}..., expected"
                f" {entry.sha256[:12]}...); {remedy}."
            )


def sha256_of(path: Path) -> str:
    """Hex digest of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
