"""Record `transformers`' logits for real code: the oracle of `test_build_parity.py`.

    pip install '.[reference]'
    python tests/conformance/make_logits_golden.py CHECKPOINT.gguf

Reads the ids of two files of `tokenizer_golden.json.gz` (so no tokenizer is involved), runs them in
float32 and writes `logits_golden.npz`: `ids` [256], the 64 largest logits of each position
(`top_ids`, `top_logits` [256, 64], descending), and `logsumexp` [256] over the whole vocabulary.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FILES = ("humaneval-x/python/0", "humaneval-x/rust/3", "humaneval-x/go/5")
NUM_POSITIONS = 256
NUM_TOP = 64
HERE = Path(__file__).parent
OUT = HERE / "logits_golden.npz"


def sample_ids() -> list[int]:
    """Ids of real code, recorded from llama.cpp."""
    records = json.loads(gzip.decompress((HERE / "tokenizer_golden.json.gz").read_bytes()))
    by_name = {record["name"]: record["ids"] for record in records}
    return [token_id for name in FILES for token_id in by_name[name]][:NUM_POSITIONS]


def reference_logits(checkpoint: Path, token_ids: list[int]) -> NDArray[np.float32]:
    """Float32 [len(token_ids), vocab], computed by `transformers` from the same GGUF file."""
    import torch
    from transformers import AutoModelForCausalLM

    # `transformers` is untyped from here on.
    load: Any = AutoModelForCausalLM.from_pretrained
    model = load(str(checkpoint.parent), gguf_file=checkpoint.name, dtype=torch.float32)
    with torch.no_grad():
        logits: NDArray[np.float32] = model(torch.tensor([token_ids])).logits[0].numpy()
    return logits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path)
    token_ids = sample_ids()
    logits = reference_logits(parser.parse_args().checkpoint, token_ids)
    top_ids = np.argsort(-logits, axis=1, kind="stable")[:, :NUM_TOP]
    np.savez_compressed(
        OUT,
        ids=np.array(token_ids, np.int32),
        top_ids=top_ids.astype(np.int32),
        top_logits=np.take_along_axis(logits, top_ids, axis=1),
        logsumexp=np.logaddexp.reduce(logits.astype(np.float64), axis=1),
    )
    print(f"{OUT}: {len(token_ids)} positions, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
