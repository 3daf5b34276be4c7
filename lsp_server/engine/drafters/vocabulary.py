"""Which target token each column of a drafter's logits stands for, and whether two models mean the
same text by the same ids.

Reduced heads: FR-Spec (Zhao et al. 2025, arXiv 2502.14856). Their softmax is the distribution on
the subset; every other id has probability zero.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lsp_server.engine.manifest import DRAFT_IDS_NAME, Manifest
from lsp_server.errors import ModelFilesError, TokenizerMismatchError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lsp_server.engine.tokenizer import Tokenizer
    from lsp_server.engine.types import Logits

    Ids = NDArray[np.int64]


class DraftVocabulary:
    """The columns of one drafter's logits, as ids of its target."""

    def __init__(
        self, num_columns: int, target_size: int, *, num_tokens: int, ids: Ids | None = None
    ) -> None:
        """
        Args:
            num_columns: of the drafter's logits.
            target_size: columns of the target's logits.
            num_tokens: ids from here on are padding, on which no model was trained: never proposed.
            ids: int64 [num_columns], ascending: what the columns stand for; None: column c is id c.

        Raises:
            ModelFilesError: no column stands for a token.
        """
        known = min(num_columns, target_size, num_tokens)
        if ids is not None:
            known = int(np.searchsorted(ids, min(target_size, num_tokens)))
        if known < 1:
            raise ModelFilesError(
                f"The {num_columns} columns of the draft stand for none of the {target_size} ids"
                " of the model; make the draft again."
            )
        self.target_size = target_size
        self._known = known
        self._ids = None if ids is None else ids[:known]

    def expand(self, logits: Logits) -> Logits:
        """float32 [num_columns] -> a new float32 [target_size], -inf for what is not proposed."""
        row = np.full(self.target_size, -np.inf, np.float32)
        row[slice(self._known) if self._ids is None else self._ids] = logits[: self._known]
        return row


def read_draft_ids(folder: Path, num_ids: int, vocab_size: int) -> Ids:
    """The ids of a reduced head, int64 [num_ids], ascending.

    Raises ModelFilesError for a file that is absent, unreadable, or not what was promised.
    """
    path = folder / DRAFT_IDS_NAME
    try:
        ids: Ids = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ModelFilesError(f"{path} cannot be read ({error}); make the draft again.") from error
    if ids.dtype != np.int64 or ids.shape != (num_ids,):
        raise ModelFilesError(
            f"{path} holds {ids.dtype} {list(ids.shape)} instead of int64 [{num_ids}]; make the"
            " draft again."
        )
    if num_ids < 1 or ids[0] < 0 or ids[-1] >= vocab_size or (np.diff(ids) < 1).any():
        raise ModelFilesError(
            f"{path} is not an ascending list of ids below {vocab_size}; make the draft again."
        )
    return ids


def check_draft_model(
    draft: Manifest, draft_tokenizer: Tokenizer, target: Manifest, target_tokenizer: Tokenizer
) -> int:
    """Refuse a draft model whose ids mean other text than the target's.

    Returns:
        How many ids have a token in both; rows beyond, on either side, are padding.

    Raises:
        TokenizerMismatchError: another token, control id or too few rows; names both sides.
    """
    num_tokens = check_same_vocabulary(draft_tokenizer, target_tokenizer, draft.name, target.name)
    pair = _pair(draft.name, target.name)
    if draft.vocab_size < target_tokenizer.vocab_size:
        raise TokenizerMismatchError(
            f"{pair}: {draft.name} knows {draft.vocab_size} ids, the text may hold"
            f" {target_tokenizer.vocab_size}; {_remedy(target.name)}"
        )
    own_roles, roles = _roles(draft), _roles(target)
    for role in own_roles.keys() & roles.keys():
        if own_roles[role].isdisjoint(roles[role]):
            raise TokenizerMismatchError(
                f"{pair}: {role} is {sorted(own_roles[role])} in {draft.name} and"
                f" {sorted(roles[role])} in {target.name}; {_remedy(target.name)}"
            )
    return num_tokens


def _roles(manifest: Manifest) -> dict[str, set[int]]:
    """The control ids that a manifest names, by what they are for."""
    roles = {f"the {role} marker": {token_id} for role, token_id in manifest.fim_ids.items()}
    if manifest.bos_id is not None:
        roles["begin of text"] = {manifest.bos_id}
    if manifest.eos_ids:
        roles["end of text"] = set(manifest.eos_ids)
    return roles


def check_same_vocabulary(
    draft: Tokenizer, target: Tokenizer, draft_name: str, target_name: str
) -> int:
    """Compare two vocabularies token by token, by spelling and bytes; equal sizes prove nothing.

    Returns:
        How many ids were compared: those that both tokenizers have.

    Raises:
        TokenizerMismatchError: at the first id that differs.
    """
    num_tokens = min(draft.vocab_size, target.vocab_size)
    for token_id in range(num_tokens):
        own, theirs = draft.spelling(token_id), target.spelling(token_id)
        if own != theirs:
            what = f"{own!r} in {draft_name} and {theirs!r} in {target_name}"
        elif draft.token_bytes(token_id) != target.token_bytes(token_id):
            what = f"{own!r} in both, but a control token in one of them only"
        else:
            continue
        raise TokenizerMismatchError(
            f"{_pair(draft_name, target_name)}: id {token_id} is {what}; {_remedy(target_name)}"
        )
    return num_tokens


def _pair(draft_name: str, target_name: str) -> str:
    return f"The draft model {draft_name} and the model {target_name} have different vocabularies"


def _remedy(target_name: str) -> str:
    return f"use a draft model with the tokenizer of {target_name}."
