"""Ridge regression where the features or the kernel are: on the accelerator, in float64, tile by tile.

The first rows are fitted and the following ones predicted, for many penalties: (A + penalty) c = b, where A is phi^T phi or,
with no fewer features than rows, phi phi^T, or a kernel matrix. A is kept as the tiles on and below its diagonal and
factored by Cholesky tile by tile: half the memory of a matrix, and one program for each kind of step whatever the size. No
float64 copy of all features is made.

Features and kernels are centred by the fitted rows, and so are the targets: the constant part of the kernel of a deep
network is nearly all of it, and the penalty is on the rest. Penalties are shares of the mean diagonal of the centred kernel.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array

from .sums import penalties_of

TILE = 4096  # its products run at full speed, and a slab of 50,000 x 4096 in float64 takes 1.6 GB

Tiles = dict[tuple[int, int], Array]


class HeldOut(NamedTuple):
    """How every penalty does on rows that were not fitted: the mean squared error, and the share of rows put into their class.

    Where a penalty is too small for a factor, the error is inf and the share 0.
    """

    penalties: np.ndarray
    errors: np.ndarray
    accuracies: np.ndarray

    @property
    def chosen(self) -> float:
        """The penalty with the highest accuracy, and of several the one with the least error."""
        return float(self.penalties[np.lexsort((self.errors, -self.accuracies))[0]])


def feature_path(phi: Any, y: Any, penalties: Any, stop: int | None = None, tile: int = TILE) -> np.ndarray:
    """Fit the first len(y) rows of the features phi, (rows, m), and predict the rows from there to `stop`.

    y is (n, outputs). Gives (penalties, rows, outputs), NaN where a penalty is too small for a factor.
    """
    y, shares, stop = _checked(phi, y, penalties, stop, "features")
    n, m = len(y), phi.shape[1]
    with jax.enable_x64(True):
        phi = jnp.asarray(phi)
        mean = sum(_sum(phi[i : min(i + tile, n)]) for i in range(0, n, tile)) / n
        centre, targets = y.mean(0), jnp.asarray(y - y.mean(0))
        side = min(tile, n, m)

        def columns(i: int) -> Array:
            return _filled(_centred(phi[:n, i * side : (i + 1) * side], mean[i * side : (i + 1) * side]).T, side)

        def rows(i: int) -> Array:
            return _filled(_centred(phi[i * side : min((i + 1) * side, n)], mean), side)

        if m < n:
            A = _products(columns, -(-m // side))
            right = [columns(i) @ targets for i in range(-(-m // side))]
            weights = _solutions(A, right, shares * _trace(A) / n)[:, :m]
        else:
            A = _products(rows, -(-n // side))
            found = _solutions(A, _cut(targets, side), shares * _trace(A) / n)
            weights = jnp.zeros((len(shares), m, y.shape[1]))
            for i, part in enumerate(jnp.split(found, found.shape[1] // side, axis=1)):
                weights = weights + jnp.einsum("nm,pno->pmo", rows(i), part)
        del A
        parts = [
            jnp.einsum("nm,pmo->pno", _centred(phi[i : min(i + tile, stop)], mean), weights)
            for i in range(n, stop, tile)
        ]
        return np.concatenate([np.asarray(part) for part in parts], axis=1) + centre


def kernel_path(K: Any, y: Any, penalties: Any, stop: int | None = None, tile: int = TILE) -> np.ndarray:
    """`feature_path` with kernels K, (rows, columns), of all rows with the first ones, of which the first len(y) are fitted."""
    y, shares, stop = _checked(K, y, penalties, stop, "kernels")
    n, side = len(y), min(tile, len(y))
    if K.shape[1] < n:
        raise ValueError(f"{n} rows are fitted, and the kernels are {K.shape}. Give their kernels with all these.")
    with jax.enable_x64(True):
        A: Tiles = {}
        means = []
        for i, start in enumerate(range(0, n, side)):
            block = jnp.asarray(K[start : min(start + side, n), :n])
            means.append(_row_means(block))
            for j in range(i + 1):
                A[i, j] = _filled(_wide(block[:, j * side : (j + 1) * side]), side, side)
        mean = jnp.concatenate(means)
        seen = _cut(jnp.ones(n), side)
        own = _cut(mean - mean.mean() / 2, side)
        for i, j in list(A):
            A[i, j] = _without_means(A[i, j], own[i], own[j], seen[i], seen[j])
        found = _solutions(A, _cut(jnp.asarray(y - y.mean(0)), side), shares * _trace(A) / n)[:, :n]
        del A
        # coefficients add up to 0, so that the means of the columns are all that is left of the centring
        found = found - found.mean(1, keepdims=True)
        offset = y.mean(0) - np.asarray(jnp.einsum("n,pno->po", mean, found))[:, None]
        blocks = (jnp.asarray(K[i : min(i + side, stop), :n]) for i in range(n, stop, side))
        parts = [np.asarray(jnp.einsum("kn,pno->pko", _wide(block), found)) for block in blocks]
        return np.concatenate(parts, axis=1) + offset


def chosen_on_held_out(
    path: Callable[..., np.ndarray], rows: Any, y: Any, held_out: int, penalties: Any, tile: int = TILE
) -> HeldOut:
    """Fit all but the last `held_out` of the first len(y) rows, and score every penalty on these.

    `path` is `feature_path` or `kernel_path`, y (n, outputs) with the largest number where the class is.
    """
    y = np.asarray(y)
    if not 0 < held_out < len(y):
        raise ValueError(f"Of {len(y)} rows, 1 to {len(y) - 1} can be held out, not {held_out}.")
    first = len(y) - held_out
    return scored(path(rows, y[:first], penalties, len(y), tile), y[first:], penalties)


def scored(predictions: np.ndarray, y: np.ndarray, penalties: Any) -> HeldOut:
    """The score of every penalty's predictions of y."""
    failed = ~np.isfinite(predictions).all((1, 2))
    right = np.mean(predictions.argmax(2) == y.argmax(1), axis=1)
    errors = np.mean((predictions - y) ** 2, axis=(1, 2))
    return HeldOut(penalties_of(penalties), np.where(failed, np.inf, errors), np.where(failed, 0.0, right))


def at_edge(penalty: float, penalties: Sequence[float]) -> bool:
    """Whether the least or the largest was chosen, so that others might do better."""
    return penalty in (min(penalties), max(penalties))


def _checked(rows: Any, y: Any, penalties: Any, stop: int | None, what: str) -> tuple[np.ndarray, np.ndarray, int]:
    y, shares = np.asarray(y, np.float64), penalties_of(penalties)
    stop = len(rows) if stop is None else stop
    if rows.ndim != 2 or y.ndim != 2 or not 1 < len(y) < stop <= len(rows):
        raise ValueError(
            f"Targets are (n, outputs) with n >= 2, and {what} of more rows than n, up to stop, are needed, not "
            f"{y.shape}, {rows.shape} and stop={stop}."
        )
    return y, shares, stop


# Tiles. The last ones are filled up with zeros, which the penalty alone keeps apart from the rest.

_sum = jax.jit(lambda part: part.astype(jnp.float64).sum(0))
_centred = jax.jit(lambda part, mean: part.astype(jnp.float64) - mean)
_wide = jax.jit(lambda part: part.astype(jnp.float64))
_row_means = jax.jit(lambda block: block.astype(jnp.float64).mean(1))
_product = jax.jit(lambda left, right: left @ right.T)
_less_product = jax.jit(lambda A, left, right: A - left @ right.T, donate_argnums=0)
_shifted = jax.jit(lambda A, penalty: A + penalty * jnp.eye(len(A)))
_factor = jax.jit(jnp.linalg.cholesky)
_below = jax.jit(lambda L, A: solve_triangular(L, A.T, lower=True).T)  # X with X L^T = A
_forward = jax.jit(lambda L, b: solve_triangular(L, b, lower=True))
_backward = jax.jit(lambda L, b: solve_triangular(L, b, lower=True, trans="T"))
_without_means = jax.jit(
    lambda A, own, other, seen, also: (A - own[:, None] - other) * seen[:, None] * also, donate_argnums=0
)


def _filled(part: Array, *shape: int) -> Array:
    """With as many rows, or rows and columns, as a tile has."""
    missing = [wanted - size for wanted, size in zip(shape, part.shape, strict=False)]
    return jnp.pad(part, [(0, m) for m in missing] + [(0, 0)] * (part.ndim - len(missing))) if any(missing) else part


def _cut(x: Array, side: int) -> list[Array]:
    return [_filled(x[i : i + side], side) for i in range(0, len(x), side)]


def _products(slab: Callable[[int], Array], count: int) -> Tiles:
    """The products of slabs of rows with each other."""
    found: Tiles = {}
    for j in range(count):
        right = slab(j)
        found |= {(i, j): _product(right if i == j else slab(i), right) for i in range(j, count)}
    return found


def _trace(A: Tiles) -> float:
    return sum(float(jnp.trace(A[i, j])) for i, j in A if i == j)


def _solutions(A: Tiles, b: list[Array], penalties: np.ndarray) -> Array:
    """(A + penalty)^-1 b for every penalty, (penalties, n, outputs); NaN where there is no factor."""
    found = jnp.stack([jnp.concatenate(x) for x in _each_solution(A, b, penalties)])
    if not jnp.isfinite(found).all((1, 2)).any():
        raise ValueError(
            "Every penalty is too small for a Cholesky factor in float64, or there is NaN in what is fitted. The largest, "
            f"times the mean diagonal of the centred kernel, is {penalties.max():.3g}. Give larger ones."
        )
    return found


def _each_solution(A: Tiles, b: list[Array], penalties: np.ndarray) -> Iterator[list[Array]]:
    for penalty in penalties:
        L = _factored(A, len(b), penalty)
        if L is None:
            yield [jnp.full_like(part, jnp.nan) for part in b]
            continue
        x: list[Array] = []
        for i, part in enumerate(b):
            x.append(_forward(L[i, i], part - sum(L[i, j] @ x[j] for j in range(i))))
        for i in reversed(range(len(b))):
            x[i] = _backward(L[i, i], x[i] - sum(L[j, i].T @ x[j] for j in range(i + 1, len(b))))
        yield x


def _factored(A: Tiles, count: int, penalty: float) -> Tiles | None:
    """L with L L^T = A + penalty, column by column, or None where there is none."""
    L: Tiles = {}
    for j in range(count):
        for i in range(j, count):
            part = _shifted(A[i, i], penalty) if i == j else jnp.copy(A[i, j])
            for k in range(j):
                part = _less_product(part, L[i, k], L[j, k])
            L[i, j] = _factor(part) if i == j else _below(L[j, j], part)
            if i == j and not jnp.isfinite(L[j, j]).all():
                return None
    return L
