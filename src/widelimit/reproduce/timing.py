"""Seconds of kernels and features, compilation apart."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from .. import nets
from ..network import Network

T = TypeVar("T")


def seconds(run: Callable[[], jax.Array], times: int = 3) -> tuple[float, float]:
    """Seconds of the first call, which compiles, and the least of some others."""
    calls = []
    for _ in range(times + 1):
        start = time.perf_counter()
        jax.block_until_ready(run())
        calls.append(time.perf_counter() - start)
    return calls[0], min(calls[1:])


def time_second_call(run: Callable[[], T]) -> tuple[T, float]:
    """The result of a second call and its seconds; the first one compiles."""
    jax.block_until_ready(run())
    start = time.perf_counter()
    result = jax.block_until_ready(run())
    return result, time.perf_counter() - start


def seconds_a_pair(net: Network, x: jax.Array, get: str, times: int = 1) -> tuple[float, float]:
    """Seconds of the first call, and seconds a pair of the kernel of x with itself, every pair once."""
    matrix = np.empty((len(x), len(x)), np.float32)
    first, least = seconds(lambda: net.kernel(x, get=get, progress=False, out=matrix), times)
    return first, least / pair_count(len(x))


def pair_count(n: int) -> int:
    """The number of pairs of n rows, each with itself too: of different entries of a symmetric matrix."""
    return n * (n + 1) // 2


def exact_and_sketch_seconds(config: dict[str, Any], shape: tuple[int, ...]) -> dict[str, Any]:
    """Seconds of a pair of images by the exact kernel and of an image by features, of Myrtle-5, and of the calls that compile.

    The images are normal numbers, each with the mean 0 and the variance 1: times do not depend on what is on them.
    """
    net, get = nets.myrtle(5, config["activation"]), config["kernel"]
    most = max(config["exact images"], config["images"])
    noise, axes = np.random.default_rng(config["seed"]).normal(size=(most, *shape)), (1, 2, 3)
    x = jnp.asarray((noise - noise.mean(axes, keepdims=True)) / noise.std(axes, keepdims=True), jnp.float32)
    first_exact, pair = seconds_a_pair(net, x[: config["exact images"]], get, 5)
    phi = net.feature_map(jax.random.key(config["seed"]), shape, config["columns"], get, dtype=config["dtype"])
    first, features = seconds(lambda: phi(x[: config["images"]]), 5)
    return {
        "seconds a pair": pair, "seconds an image": features / config["images"],
        "first calls": {"exact": first_exact, "features": first},
    }  # fmt: skip
