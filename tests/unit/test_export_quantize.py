"""Block quantisation: what the codes mean, what is lost and what is not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from export.quantize import BLOCK_SIZE, quantize_blocks


def dequantised(codes: np.ndarray, scales: np.ndarray, bits: int) -> np.ndarray:
    """The formula of MatMulNBits, written independently."""
    if bits == 4:
        codes = np.stack([codes & 15, codes >> 4], axis=-1).reshape(*codes.shape[:2], -1)
    values = (codes.astype(np.float32) - 2 ** (bits - 1)) * scales[:, :, None]
    return values.reshape(len(values), -1)


@given(st.integers(0, 2**32 - 1), st.sampled_from([4, 8]), st.floats(1e-6, 1e6))
@settings(max_examples=60, deadline=None)
def test_no_weight_moves_by_more_than_a_step(seed, bits, size):
    rng = np.random.default_rng(seed)
    matrix = (rng.standard_normal((5, 3 * BLOCK_SIZE)) * size).astype(np.float32)
    codes, scales = quantize_blocks(matrix, bits)
    error = np.abs(dequantised(codes, scales, bits) - matrix)
    # Half a step; with 4 bits the far end of the range is clipped by up to a whole one.
    bound = np.repeat(np.abs(scales), BLOCK_SIZE, axis=1) * (0.5 if bits == 8 else 1.0)
    assert (error <= bound * 1.0001).all()


def test_a_q8_0_tensor_comes_back_without_loss():
    """The embedding table of the default checkpoint is Q8_0: one rounding, not two."""
    rng = np.random.default_rng(1)
    integers = rng.integers(-126, 127, (64, 4, BLOCK_SIZE))
    integers[:, :, 7] = 127
    scales = rng.uniform(1e-4, 1, (64, 4)).astype(np.float16).astype(np.float32)
    matrix = (integers.astype(np.float32) * scales[:, :, None]).reshape(64, -1)
    codes, found = quantize_blocks(matrix, 8)
    np.testing.assert_array_equal(dequantised(codes, found, 8), matrix)


def test_with_4_bits_the_extreme_weight_of_a_block_is_exact():
    matrix = np.linspace(-1, 0.9, BLOCK_SIZE, dtype=np.float32)[None]
    codes, scales = quantize_blocks(matrix, 4)
    assert dequantised(codes, scales, 4)[0, 0] == -1


@pytest.mark.parametrize("bits", [4, 8])
def test_a_block_of_zeros_stays_zero(bits):
    codes, scales = quantize_blocks(np.zeros((2, BLOCK_SIZE), np.float32), bits)
    assert (dequantised(codes, scales, bits) == 0).all()


@pytest.mark.parametrize("bits", [4, 8])
def test_shapes_are_those_of_matmulnbits(bits):
    codes, scales = quantize_blocks(np.ones((6, 96), np.float32), bits)
    assert codes.shape == (6, 3, BLOCK_SIZE * bits // 8)
    assert codes.dtype == np.uint8
    assert scales.shape == (6, 3)
    assert scales.dtype == np.float32
