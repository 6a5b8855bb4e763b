"""A symmetric matrix on a device as the tiles on and below its diagonal, and its Cholesky factor.

That is half the memory of a matrix, and one program for each kind of step whatever the size. The last tiles are filled up with
zeros, which the penalty alone keeps apart from the rest.
"""

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from ..execution.grid import ranges
from .arrays import Penalties

Tiles = dict[tuple[int, int], Float[Array, "side side"]]
Slab = Float[Array, "side columns"]

_product = jax.jit(lambda left, right: left @ right.T)
_subtract_product = jax.jit(lambda A, left, right: A - left @ right.T, donate_argnums=0)
_add_penalty = jax.jit(lambda A, penalty: A + penalty * jnp.eye(len(A)))
_cholesky = jax.jit(jnp.linalg.cholesky)
_solve_transposed = jax.jit(lambda L, A: solve_triangular(L, A.T, lower=True).T)  # X with X L^T = A
_solve_forward = jax.jit(lambda L, b: solve_triangular(L, b, lower=True))
_solve_backward = jax.jit(lambda L, b: solve_triangular(L, b, lower=True, trans="T"))


def fill_up(part: Float[Array, "..."], *shape: int) -> Float[Array, "..."]:
    """Pad an array with zeros to the size of a tile: to its rows, or its rows and columns."""
    missing = [target - size for target, size in zip(shape, part.shape, strict=False)]
    return jnp.pad(part, [(0, m) for m in missing] + [(0, 0)] * (part.ndim - len(missing))) if any(missing) else part


def split_rows(x: Float[Array, "n ..."], side: int) -> list[Float[Array, "side ..."]]:
    """Cut rows into parts of `side` rows; the last one is padded."""
    return [fill_up(x[rows], side) for rows in ranges(len(x), side)]


def multiply_slabs(slab: Callable[[int], Slab], count: int) -> Tiles:
    """The products of slabs of rows with each other."""
    tiles: Tiles = {}
    for j in range(count):
        right = slab(j)
        tiles |= {(i, j): _product(right if i == j else slab(i), right) for i in range(j, count)}
    return tiles


def trace(A: Tiles) -> float:
    """The sum of the diagonal."""
    return sum(float(jnp.trace(A[i, j])) for i, j in A if i == j)


def solve_tiles(
    A: Tiles, b: list[Float[Array, "side outputs"]], penalties: Penalties
) -> Float[Array, "penalties rows outputs"]:
    """(A + penalty)^-1 b for every penalty; NaN where there is no factor, and an error where there is none for any."""
    solutions = jnp.stack([jnp.concatenate(x) for x in _solve_each(A, b, penalties)])
    if not jnp.isfinite(solutions).all((1, 2)).any():
        raise ValueError(
            "Every penalty is too small for a Cholesky factor in float64, or there is NaN in what is fitted. The largest, "
            f"times the mean diagonal of the centred kernel, is {penalties.max():.3g}. Give larger ones."
        )
    return solutions


def _solve_each(A: Tiles, b: list[Array], penalties: Penalties) -> Iterator[list[Array]]:
    for penalty in penalties:
        L = _factor(A, len(b), penalty)
        if L is None:
            yield [jnp.full_like(part, jnp.nan) for part in b]
            continue
        x: list[Array] = []
        for i, part in enumerate(b):
            x.append(_solve_forward(L[i, i], part - sum(L[i, j] @ x[j] for j in range(i))))
        for i in reversed(range(len(b))):
            x[i] = _solve_backward(L[i, i], x[i] - sum(L[j, i].T @ x[j] for j in range(i + 1, len(b))))
        yield x


def _factor(A: Tiles, count: int, penalty: float) -> Tiles | None:
    """L with L L^T = A + penalty, column by column, or None where there is none."""
    L: Tiles = {}
    for j in range(count):
        for i in range(j, count):
            part = _add_penalty(A[i, i], penalty) if i == j else jnp.copy(A[i, j])
            for k in range(j):
                part = _subtract_product(part, L[i, k], L[j, k])
            L[i, j] = _cholesky(part) if i == j else _solve_transposed(L[j, j], part)
            if i == j and not jnp.isfinite(L[j, j]).all():
                return None
    return L
