"""Seeded random heads in the public safetensors layouts, for a target that nobody has trained for.

They run and draft nothing of use; `config.json` says `"trained": false`, which the build keeps.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from export.config import DRAFT_VOCABULARY
from export.draft_vocabulary import draft_ids
from export.folder import new_folder, write_synced
from export.gguf_source import Matrix
from export.heads_layout import READERS
from export.target import TargetFolder
from lsp_server.errors import RuntimeMissingError, SettingsError

NUM_MEDUSA_HEADS = 4


def write_random_heads(
    kind: str,
    target: Path,
    out: Path,
    *,
    seed: int = 0,
    draft_vocabulary: int = DRAFT_VOCABULARY,
    num_medusa_heads: int = NUM_MEDUSA_HEADS,
) -> None:
    """Write `config.json` and `model.safetensors` for the model folder `target` into `out`.

    `draft_vocabulary` is used by `eagle3` alone, whose checkpoints bring their own set of ids.
    Raises SettingsError, ModelFilesError, UnsupportedModelError, StorageError.
    """
    if kind not in READERS:
        raise SettingsError(f"Unknown kind of head {kind!r}; use one of {', '.join(READERS)}.")
    try:
        from safetensors.numpy import save
    except ImportError as error:
        raise RuntimeMissingError(
            "safetensors is not installed; install it with `pip install safetensors`."
        ) from error
    model = TargetFolder(target)
    rng = np.random.default_rng(seed)
    if kind == "medusa":
        config, tensors = _medusa(model, num_medusa_heads, rng)
    else:
        config, tensors = _eagle(kind == "eagle3", model, rng)
    if kind == "eagle3":
        tensors |= _own_vocabulary(model, draft_vocabulary, rng)
        config["draft_vocab_size"] = len(tensors["d2t"])
    config |= {"trained": False, "license": "apache-2.0", "seed": seed}
    with new_folder(out) as folder:
        write_synced(folder / "model.safetensors", save(tensors))
        text = json.dumps(config, indent=2, sort_keys=True) + "\n"
        write_synced(folder / "config.json", text.encode())


def _medusa(
    model: TargetFolder, num_heads: int, rng: np.random.Generator
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    size = model.manifest.hidden_size
    tensors: dict[str, np.ndarray] = {}
    for head in range(num_heads):
        tensors[f"{head}.0.linear.weight"] = _random(rng, size, size)
        tensors[f"{head}.0.linear.bias"] = 0.1 * _random(rng, 1, size)[0]
    return {"medusa_num_heads": num_heads, "medusa_num_layers": 1}, tensors


def _eagle(
    third: bool, model: TargetFolder, rng: np.random.Generator
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    manifest, inner = model.manifest, model.intermediate_size()
    size = manifest.hidden_size
    prefix, input_size = ("midlayer", 2 * size) if third else ("layers.0", size)
    q_size = manifest.num_heads * manifest.head_size
    kv_size = manifest.num_kv_heads * manifest.head_size
    fc_size = len(manifest.feature_layers) if third else 2
    tensors = {
        "fc.weight": _random(rng, size, fc_size * size),
        f"{prefix}.self_attn.q_proj.weight": _random(rng, q_size, input_size),
        f"{prefix}.self_attn.k_proj.weight": _random(rng, kv_size, input_size),
        f"{prefix}.self_attn.v_proj.weight": _random(rng, kv_size, input_size),
        f"{prefix}.self_attn.o_proj.weight": _random(rng, size, q_size),
        f"{prefix}.mlp.gate_proj.weight": _random(rng, inner, size),
        f"{prefix}.mlp.up_proj.weight": _random(rng, inner, size),
        f"{prefix}.mlp.down_proj.weight": _random(rng, size, inner),
        f"{prefix}.post_attention_layernorm.weight": _norm(rng, size),
    }
    if third:
        for name in ("midlayer.input_layernorm", "midlayer.hidden_norm", "norm"):
            tensors[f"{name}.weight"] = _norm(rng, size)
    config = {
        "hidden_size": size,
        "intermediate_size": inner,
        "num_attention_heads": manifest.num_heads,
        "num_key_value_heads": manifest.num_kv_heads,
        "head_dim": manifest.head_size,
        "vocab_size": manifest.vocab_size,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
    }
    return config, tensors


def _own_vocabulary(
    model: TargetFolder, size: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    manifest = model.manifest
    tokenizer = Tokenizer.from_file(str(model.folder / "tokenizer.json"))
    chosen = draft_ids(tokenizer, size, manifest.eos_ids, manifest.vocab_size)
    ids = np.arange(manifest.vocab_size) if chosen is None else chosen
    known = np.zeros(manifest.vocab_size, np.bool_)
    known[ids] = True
    return {
        "lm_head.weight": _random(rng, len(ids), manifest.hidden_size),
        "d2t": ids - np.arange(len(ids)),
        "t2d": known,
    }


def _random(rng: np.random.Generator, num_out: int, num_in: int) -> Matrix:
    return rng.standard_normal((num_out, num_in), dtype=np.float32) / np.float32(num_in**0.5)


def _norm(rng: np.random.Generator, size: int) -> Matrix:
    return 1 + np.float32(0.1) * rng.standard_normal(size, dtype=np.float32)
