"""Which ids a reduced head knows: those that text in code is most often made of (FR-Spec).

`code_pieces.txt` holds the 6,000 commonest pieces of Python, C and JavaScript sources in order, one
JSON string a line; being text and no ids, it serves every tokenizer.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from lsp_server.errors import SettingsError

_PIECES = Path(__file__).with_name("code_pieces.txt")


def draft_ids(
    tokenizer: Tokenizer, size: int, always: Iterable[int], vocab_size: int
) -> NDArray[np.int64] | None:
    """The `size` ids of most use, ascending; None for the whole vocabulary (`size` 0 or too large).

    `always` (the ends of text) are among them. Pieces count by rank (Zipf); where they do not fill
    the set, the lowest ids do, which byte-level BPE learned first.
    """
    wanted = sorted(set(always))
    if size < 0 or 0 < size <= len(wanted):
        raise SettingsError(
            f"A draft vocabulary of {size} ids is too small; name at least {len(wanted) + 1}, or 0"
            " for the whole vocabulary."
        )
    if size == 0 or size >= vocab_size:
        return None
    pieces = [json.loads(line) for line in _PIECES.read_text(encoding="utf-8").splitlines()]
    weights: defaultdict[int, float] = defaultdict(float)
    for rank, encoding in enumerate(tokenizer.encode_batch(pieces)):
        for token_id in encoding.ids:
            weights[token_id] += 1 / (rank + 3)
    by_use = sorted(weights, key=lambda token_id: (-weights[token_id], token_id))
    chosen = list(dict.fromkeys((*wanted, *by_use, *range(vocab_size))))[:size]
    return np.array(sorted(chosen), np.int64)
