"""Float32 matrices to the block format of MatMulNBits and GatherBlockQuantized. Numpy only."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

BLOCK_SIZE = 32
BITS: Mapping[str, int] = {"int8": 8, "int4": 4}
"""By weight format; fp32 is not quantised."""


def quantize_blocks(
    matrix: NDArray[np.float32], bits: int
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Round to nearest, symmetric, in blocks of 32 along the input axis.

    `matrix` is [out, in] with `in` a multiple of 32. Returns codes uint8 [out, in / 32,
    32 * bits / 8] and scales float32 [out, in / 32], so that
    weight = (code - 2 ** (bits - 1)) * scale. 4-bit codes are packed low half first.

    With 8 bits the scale is max|w| / 127, which gives a Q8_0 tensor back without loss. With 4 bits
    the extreme weight of each block becomes code 0 exactly, as in GGML's Q4_0.
    """
    num_rows, num_columns = matrix.shape
    blocks = matrix.reshape(num_rows, num_columns // BLOCK_SIZE, BLOCK_SIZE)
    if bits == 8:
        scales = np.abs(blocks).max(axis=2) / np.float32(127)
    elif bits == 4:
        extreme = np.abs(blocks).argmax(axis=2, keepdims=True)
        scales = np.take_along_axis(blocks, extreme, axis=2)[:, :, 0] / np.float32(-8)
    else:
        raise ValueError(f"bits must be 4 or 8, not {bits}")
    inverse = np.divide(1, scales, out=np.zeros_like(scales), where=scales != 0)
    zero = 2 ** (bits - 1)
    codes = np.rint(blocks * inverse[:, :, None])
    codes = np.clip(codes + zero, 0, 2**bits - 1).astype(np.uint8)
    if bits == 4:
        codes = codes[:, :, 0::2] | (codes[:, :, 1::2] << 4)
    return codes, scales


def dequantize_blocks(
    codes: NDArray[np.uint8], scales: NDArray[np.float32], bits: int
) -> NDArray[np.float32]:
    """The inverse of `quantize_blocks`: float32 [out, in]."""
    if bits == 4:
        halves = np.stack([codes & 15, codes >> 4], axis=3)
        codes = halves.reshape(*codes.shape[:2], BLOCK_SIZE)
    values = (codes.astype(np.float32) - 2 ** (bits - 1)) * scales[:, :, None]
    matrix: NDArray[np.float32] = values.reshape(len(codes), -1)
    return matrix
