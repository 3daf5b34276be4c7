"""`drafter.json` of a drafter folder: trained (or random) heads that draft for one target model.

Reading is strict, and a head that cannot belong to the target is refused with both sides named.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from lsp_server.engine.manifest import (
    DRAFT_IDS_NAME,
    FileEntry,
    Manifest,
    check_file_hashes,
    check_file_sizes,
    check_types,
    read_fields,
)
from lsp_server.errors import ModelFilesError, ModelMissingError, TokenizerMismatchError

DRAFTER_MANIFEST_NAME = "drafter.json"
DRAFTER_SCHEMA_VERSION = 1

FORMS_OF_KIND = {
    "medusa": ("medusa",),
    "eagle": ("eagle",),
    "eagle3": ("eagle", "fuse"),
}
"""Kind of head -> the graphs that its folder must have."""

_REMEDY = "make the folder again with `tabahead export heads`"


@dataclass(frozen=True, slots=True)
class TargetIdentity:
    """The model that a drafter was built for."""

    name: str
    tokenizer_sha256: str
    source_sha256: str
    """Of the checkpoint that the target's weights came from, whatever their format."""


@dataclass(frozen=True, slots=True)
class DrafterManifest:
    schema_version: int
    builder_version: int
    name: str
    kind: str
    """`medusa`, `eagle` (EAGLE-1 and 2) or `eagle3`."""
    trained: bool
    """False for random weights: they run, and draft nothing of use."""
    forms: dict[str, str]
    """Graph -> file: {"medusa": "medusa.onnx"}, {"eagle": "eagle.onnx"}; eagle3 also `fuse`."""
    hidden_size: int
    """Of the target, and of the head's own state."""
    vocab_size: int
    """Of the target: logits columns of the target, ids of the embedding."""
    draft_vocab_size: int
    """Columns of the head's logits; the ids they stand for are in `draft_ids.npy` if fewer."""
    num_medusa_heads: int
    """Medusa: head h guesses the token h + 2 places after the hidden state's; else 0."""
    num_kv_heads: int
    head_size: int
    """Shape of the EAGLE layer's KV cache; both 0 for Medusa."""
    context_length: int
    """Rows of the rotary tables; 0 for Medusa, which knows no positions."""
    feature_layers: tuple[int, ...]
    """eagle3: what the target's `features` must be made of; else empty."""
    num_parameters: int
    """What the folder adds to the target: head rows and embedding copied from it not counted."""
    weight_format: str
    target: TargetIdentity
    files: dict[str, FileEntry]
    source: dict[str, str]
    """What it was built from: kind, file name, sha256."""
    licence: str
    made_by: str

    @property
    def reduced(self) -> bool:
        """Columns of the logits are those of `draft_ids.npy`."""
        return self.draft_vocab_size < self.vocab_size

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=2, sort_keys=True) + "\n"

    @classmethod
    def load(cls, folder: Path) -> DrafterManifest:
        """Parse `folder/drafter.json`.

        Raises ModelMissingError when there is none, ModelFilesError when it cannot be used.
        """
        path = folder / DRAFTER_MANIFEST_NAME
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ModelMissingError(
                f"No drafter in {folder}: {DRAFTER_MANIFEST_NAME} is absent; make one with"
                " `tabahead export heads`."
            ) from None
        except (OSError, ValueError) as error:
            raise ModelFilesError(f"{path} cannot be read ({error}); {_REMEDY}.") from error
        return cls._from_raw(raw, path)

    @classmethod
    def _from_raw(cls, raw: object, path: Path) -> DrafterManifest:
        if not isinstance(raw, dict):
            raise ModelFilesError(f"{path} is not a JSON object; {_REMEDY}.")
        version = raw.get("schema_version")
        if version != DRAFTER_SCHEMA_VERSION:
            raise ModelFilesError(
                f"{path} has schema version {version!r}, this tabahead reads"
                f" {DRAFTER_SCHEMA_VERSION}; {_REMEDY}."
            )
        if raw.get("kind") not in list(FORMS_OF_KIND):
            raise ModelFilesError(
                f"{path} describes a head of kind {raw.get('kind')!r}; this tabahead knows"
                f" {', '.join(FORMS_OF_KIND)}: update it, or {_REMEDY}."
            )
        try:
            values = read_fields(cls, raw)
            values["target"] = TargetIdentity(**values["target"])
            opened = [values["forms"][form] for form in FORMS_OF_KIND[values["kind"]]]
            manifest = cls(**values)
            for name in (*opened, *([DRAFT_IDS_NAME] if manifest.reduced else [])):
                manifest.files[name]  # all that is opened is listed, with its size
            check_types(manifest)
            return manifest
        except (KeyError, TypeError, AttributeError) as error:
            raise ModelFilesError(f"{path} is incomplete or wrong ({error}); {_REMEDY}.") from error

    def check_sizes(self, folder: Path) -> None:
        """The quick check at every load: each file is there and has its full size."""
        check_file_sizes(folder, self.files, _REMEDY)

    def check_hashes(self, folder: Path) -> None:
        """The thorough check: every byte."""
        check_file_hashes(folder, self.files, _REMEDY)

    def check_target(self, target: Manifest) -> None:
        """Refuse a target that the head cannot draft for.

        Raises TokenizerMismatchError for another tokenizer, ModelFilesError for another vocabulary
        or hidden size, or for a target without the outputs that the head reads.
        """
        pair = f"The drafter {self.name} and the model {target.name}"
        if self.target.tokenizer_sha256 != target.tokenizer_sha256:
            raise TokenizerMismatchError(
                f"{pair} have different tokenizers (SHA-256 {self.target.tokenizer_sha256[:12]}..."
                f" and {target.tokenizer_sha256[:12]}...): their ids do not mean the same text; use"
                f" a drafter made for {target.name}."
            )
        for what, own, other in (
            ("vocabulary", self.vocab_size, target.vocab_size),
            ("hidden size", self.hidden_size, target.hidden_size),
        ):
            if own != other:
                raise ModelFilesError(
                    f"{pair} do not fit: {what} {own} and {other}; use a drafter made for"
                    f" {target.name}."
                )
        if not target.hidden_outputs:
            raise ModelFilesError(
                f"{target.name} gives no hidden states (builder {target.builder_version}), which"
                f" the drafter {self.name} reads; build the model again."
            )
        if self.feature_layers and self.feature_layers != target.feature_layers:
            raise ModelFilesError(
                f"{pair} do not fit: features of the layers {list(self.feature_layers)} and"
                f" {list(target.feature_layers)}; use a drafter made for {target.name}."
            )

    def same_weights(self, target: Manifest) -> bool:
        """Built from the very checkpoint of `target`; if not, drafts are exact but rarely right."""
        return self.target.source_sha256 == target.source.get("sha256")
