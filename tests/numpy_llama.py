"""A Llama in numpy, double precision, straight from a GGUF file, and its parts for other tests.

Reads the checkpoint as llama.cpp lays it (neighbouring rotary rows), so it shares neither layout
nor code with the builder.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import gguf
import numpy as np

from tests.tiny_model import HEAD_SIZE, HIDDEN_SIZE, NUM_HEADS, NUM_KV_HEADS

_MATRICES = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")


class NumpyLlama:
    def __init__(self, path: Path) -> None:
        self._tensors = {t.name: t.data.astype(np.float64) for t in gguf.GGUFReader(path).tensors}
        self.embedding = self._tensors["token_embd.weight"]
        self.head = self._tensors.get("output.weight", self.embedding)
        self.num_layers = sum(name.endswith("attn_q.weight") for name in self._tensors)

    def logits(self, ids: list[int]) -> np.ndarray:
        """[len(ids), vocab]"""
        return self.normed(self.streams(ids)[-1], "output_norm") @ self.head.T

    def streams(self, ids: list[int], layers: Sequence[int] | None = None) -> list[np.ndarray]:
        """The residual stream [len(ids), hidden] before the first of `layers` and after each."""
        x = self.embedding[ids]
        found = [x]
        for layer in range(self.num_layers) if layers is None else layers:
            weights = {name: self._tensors[f"blk.{layer}.{name}.weight"] for name in _MATRICES}
            h = self.normed(x, f"blk.{layer}.attn_norm")
            q = rotated_pairs(h @ weights["attn_q"].T, NUM_HEADS)
            k = rotated_pairs(h @ weights["attn_k"].T, NUM_KV_HEADS)
            v = (h @ weights["attn_v"].T).reshape(len(ids), NUM_KV_HEADS, HEAD_SIZE)
            x = x + causal_attention(q, k, v) @ weights["attn_output"].T
            h = self.normed(x, f"blk.{layer}.ffn_norm")
            x = (
                x
                + gated(h @ weights["ffn_gate"].T, h @ weights["ffn_up"].T) @ weights["ffn_down"].T
            )
            found.append(x)
        return found

    def normed(self, x: np.ndarray, name: str) -> np.ndarray:
        return rms_normed(x, self._tensors[f"{name}.weight"])


def rms_normed(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * weight


def silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


def gated(gate: np.ndarray, up: np.ndarray) -> np.ndarray:
    return silu(gate) * up


def rotary_angles(length: int) -> np.ndarray:
    """[length, 1, half a head]"""
    frequencies = 10000.0 ** -(np.arange(0, HEAD_SIZE, 2) / HEAD_SIZE)
    return np.arange(length)[:, None, None] * frequencies


def rotated_pairs(x: np.ndarray, num_heads: int) -> np.ndarray:
    """Rotary embedding of neighbours (2i, 2i + 1), as llama.cpp lays them."""
    angles = rotary_angles(len(x))
    pairs = x.reshape(len(x), num_heads, HEAD_SIZE // 2, 2)
    even, odd = pairs[..., 0], pairs[..., 1]
    turned = [
        even * np.cos(angles) - odd * np.sin(angles),
        even * np.sin(angles) + odd * np.cos(angles),
    ]
    return np.stack(turned, axis=-1).reshape(len(x), num_heads, HEAD_SIZE)


def rotated_halves(x: np.ndarray, num_heads: int) -> np.ndarray:
    """Rotary embedding of (i, i + half), as Hugging Face lays them."""
    angles = rotary_angles(len(x))
    heads = x.reshape(len(x), num_heads, HEAD_SIZE)
    low, high = heads[..., : HEAD_SIZE // 2], heads[..., HEAD_SIZE // 2 :]
    turned = [
        low * np.cos(angles) - high * np.sin(angles),
        high * np.cos(angles) + low * np.sin(angles),
    ]
    return np.concatenate(turned, axis=-1)


def causal_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """[length, hidden] of q [length, heads, head size] over k, v [length, kv heads, head size]."""
    k, v = (np.repeat(each, q.shape[1] // k.shape[1], axis=1) for each in (k, v))
    scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(HEAD_SIZE)
    positions = np.arange(len(q))
    scores[:, positions[:, None] < positions[None, :]] = -np.inf
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    return np.einsum("hqk,khd->qhd", shares, v).reshape(len(q), HIDDEN_SIZE)
