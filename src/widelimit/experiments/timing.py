"""Seconds of kernels and features, compilation apart."""

import time
from collections.abc import Callable

import jax
import numpy as np

from ..network import Network


def seconds(run: Callable[[], jax.Array], times: int = 3) -> tuple[float, float]:
    """The first call's seconds, which compiles, and the least of some others."""
    found = []
    for _ in range(times + 1):
        start = time.perf_counter()
        jax.block_until_ready(run())
        found.append(time.perf_counter() - start)
    return found[0], min(found[1:])


def of_pairs(net: Network, x: jax.Array, get: str, times: int = 1) -> tuple[float, float]:
    """The first call's seconds and the seconds a pair of a kernel of x with itself, every pair once."""
    matrix = np.empty((len(x), len(x)), np.float32)
    first, least = seconds(lambda: net.kernel(x, get=get, progress=False, out=matrix), times)
    return first, least / pair_count(len(x))


def pair_count(n: int) -> int:
    """How many numbers a symmetric matrix of n rows has."""
    return n * (n + 1) // 2
