"""Exact kernels on a CPU: Myrtle-5 per pair of images, and tanh against two-dimensional Gauss-Hermite quadrature.

    python benchmarks/exact_cpu.py

Each line is checked for correctness before it is timed; compilation is left out, times are medians.
"""

import platform
import statistics
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import widelimit as wl

PAIRS_LIMIT_MS, TANH_LIMIT_S = 15.0, 0.1


def median_seconds(run: Callable[[], object], repeats: int = 7) -> float:
    """The median time of a run, after a first that compiles."""
    run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def myrtle(activation: str) -> tuple[float, float]:
    """Milliseconds a pair of 32x32x3 images, both kernels in float32; and the largest relative error on a few pairs."""
    net = wl.nets.myrtle(5, activation)
    images = np.random.default_rng(0).normal(size=(8, 32, 32, 3)).astype(np.float32)
    single, double = (
        net.kernel(images[:2], images[2:4]),
        net.kernel(images[:2].astype(float), images[2:4].astype(float)),
    )
    error = max(float(np.max(np.abs(s / d - 1))) for s, d in zip(single, double, strict=True))
    assert error < 1e-4, f"{activation} is off by {error}"
    # 28 pairs, and the 8 images each with itself, which take as long as a pair
    return 1e3 * median_seconds(lambda: net.kernel(images), repeats=5) / (28 + 8), error


def gauss_hermite(degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for a standard normal variable."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(degree)
    return nodes, weights / np.sqrt(2 * np.pi)


def trapezoidal(step: float) -> tuple[np.ndarray, np.ndarray]:
    """The same by equal steps, which for a function without poles within d of the axis are off by exp(-2 pi d / step)."""
    nodes = np.arange(-9, 9 + step / 2, step)
    return nodes, step * np.exp(-(nodes**2) / 2) / np.sqrt(2 * np.pi)


def by_grid(x: jax.Array, nodes: np.ndarray, weights: np.ndarray) -> tuple[jax.Array, jax.Array]:
    """NNGP and NTK of a tanh network of depth 2, its duals by a square grid of nodes."""
    nodes, weights = jnp.asarray(nodes, x.dtype), jnp.asarray(weights, x.dtype)

    def layer(nngp, ntk):
        var = jnp.diag(nngp)
        a, b = jnp.sqrt(var)[:, None], jnp.sqrt(var)[None, :]
        c = jnp.clip(nngp / (a * b), -1, 1)
        s = jnp.sqrt(1 - c**2)

        def row(i):
            u = a * nodes[i]
            v = b[..., None] * (c[..., None] * nodes[i] + s[..., None] * nodes)
            inner = jnp.tanh(v) @ weights, (1 - jnp.tanh(v) ** 2) @ weights
            return weights[i] * jnp.tanh(u) * inner[0], weights[i] * (1 - jnp.tanh(u) ** 2) * inner[1]

        dual, slope = jax.lax.fori_loop(
            0, len(nodes), lambda i, t: jax.tree.map(jnp.add, t, row(i)), (jnp.zeros_like(nngp), jnp.zeros_like(nngp))
        )
        return dual, dual + ntk * slope

    nngp = x @ x.T / x.shape[1]
    ntk = nngp
    for _ in range(2):
        nngp, ntk = layer(nngp, ntk)
    return nngp, ntk


def tanh(dtype: type) -> list[tuple[str, float, float]]:
    """Seconds and error of both kernels of a tanh network of depth 2 on 300 rows, ours and by Gauss-Hermite."""
    x = np.random.default_rng(0).normal(size=(300, 50)).astype(dtype)
    net = wl.nets.fully_connected(2, "tanh")
    with jax.enable_x64(True):
        truth = [np.asarray(k) for k in by_grid(jnp.asarray(x[:20], float), *trapezoidal(0.15))]

    def error(kernels):
        return max(float(np.max(np.abs(np.asarray(k)[:20, :20] - t))) for k, t in zip(kernels, truth, strict=True))

    own_error = error(net.kernel(x))
    assert own_error < (1e-5 if dtype == np.float32 else 1e-11), f"tanh is off by {own_error}"
    rows = [("widelimit", median_seconds(lambda: net.kernel(x)), own_error)]
    with jax.enable_x64(dtype == np.float64):
        run = jax.jit(lambda x: by_grid(x, *gauss_hermite(25)))
        rows.append(("Gauss-Hermite, degree 25", median_seconds(lambda: jax.block_until_ready(run(x))), error(run(x))))
    return rows


def main() -> None:
    console, slow = Console(), []
    console.print(
        f"jax {jax.__version__}, {jax.devices()[0].platform}, {platform.machine()}, {len(jax.devices())} device(s)"
    )
    table = Table("Myrtle-5, 32x32x3, NNGP and NTK, float32", "ms a pair", "largest relative error")
    for activation in ("relu", "exp_normalized", "gelu"):
        milliseconds, error = myrtle(activation)
        table.add_row(activation, f"{milliseconds:.1f}", f"{error:.0e}")
        if milliseconds > PAIRS_LIMIT_MS:
            slow.append(f"{activation}: over {PAIRS_LIMIT_MS} ms a pair")
    console.print(table)
    table = Table("tanh, depth 2, 300 rows, NNGP and NTK", "precision", "seconds", "largest error", "ratio")
    for dtype in (np.float32, np.float64):
        rows = tanh(dtype)
        for name, seconds, error in rows:
            table.add_row(name, dtype.__name__, f"{seconds:.3f}", f"{error:.0e}", f"{seconds / rows[0][1]:.1f}")
        if rows[0][1] > TANH_LIMIT_S:
            slow.append(f"tanh in {dtype.__name__}: over {TANH_LIMIT_S} s")
    console.print(table)
    if slow:
        raise SystemExit("; ".join(slow))


if __name__ == "__main__":
    main()
