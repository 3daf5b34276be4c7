"""What two token sequences have in common."""

from __future__ import annotations

from collections.abc import Sequence

_STRIDE = 256


def common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """How many leading tokens two sequences share.

    By slices first: one comparison of hundreds of tokens costs as much as a few of single ones.
    """
    a = left if isinstance(left, list) else list(left)
    b = right if isinstance(right, list) else list(right)
    length = min(len(a), len(b))
    start = 0
    while start + _STRIDE <= length and a[start : start + _STRIDE] == b[start : start + _STRIDE]:
        start += _STRIDE
    return next((i for i in range(start, length) if a[i] != b[i]), length)
