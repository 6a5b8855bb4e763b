"""Seconds of kernels and features, compilation apart."""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import nets
from ..network import Network


def seconds(run: Callable[[], jax.Array], times: int = 3) -> tuple[float, float]:
    """The first call's seconds, which compiles, and the least of some others."""
    found = []
    for _ in range(times + 1):
        start = time.perf_counter()
        jax.block_until_ready(run())
        found.append(time.perf_counter() - start)
    return found[0], min(found[1:])


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """What the second call gives and its seconds; the first one compiles."""
    jax.block_until_ready(run())
    start = time.perf_counter()
    found = jax.block_until_ready(run())
    return found, time.perf_counter() - start


def of_pairs(net: Network, x: jax.Array, get: str, times: int = 1) -> tuple[float, float]:
    """The first call's seconds and the seconds a pair of a kernel of x with itself, every pair once."""
    matrix = np.empty((len(x), len(x)), np.float32)
    first, least = seconds(lambda: net.kernel(x, get=get, progress=False, out=matrix), times)
    return first, least / pair_count(len(x))


def pair_count(n: int) -> int:
    """How many numbers a symmetric matrix of n rows has."""
    return n * (n + 1) // 2


def exact_and_sketched(config: dict[str, Any], shape: tuple[int, ...]) -> dict[str, Any]:
    """Seconds of a pair of images, exactly, and of an image's features by Myrtle-5, and those of the calls that compile.

    The images are normal numbers, each with the mean 0 and the variance 1: times do not depend on what is on them.
    """
    net, get = nets.myrtle(5, config["activation"]), config["kernel"]
    most = max(config["exact images"], config["images"])
    noise, axes = np.random.default_rng(config["seed"]).normal(size=(most, *shape)), (1, 2, 3)
    x = jnp.asarray((noise - noise.mean(axes, keepdims=True)) / noise.std(axes, keepdims=True), jnp.float32)
    first_exact, pair = of_pairs(net, x[: config["exact images"]], get, 5)
    phi = net.feature_map(jax.random.key(config["seed"]), shape, config["columns"], get, dtype=config["dtype"])
    first, features = seconds(lambda: phi(x[: config["images"]]), 5)
    return {
        "seconds a pair": pair, "seconds an image": features / config["images"],
        "first calls": {"exact": first_exact, "features": first},
    }  # fmt: skip
