"""Sketches of the powers x, x (x) x, ... of a vector: columns whose products are (x . y)^l in the mean."""

from functools import cache
from math import sqrt

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from .hadamard import padded
from .linear_maps import Product, Projection, product, projection


class Maclaurin(eqx.Module):
    """Products of random projections; degree l has columns of its own, `allotted`, and takes the first l projections.

    The number 1 and, where `linear`, x itself are exact. With complex signs a product has a real and an imaginary part,
    and its variance grows like 2^l where that of real signs grows like 3^l.
    """

    factors: tuple[Projection, ...]
    masks: tuple[Array, ...]  # which inputs have imaginary signs, for each factor; empty: none
    allotted: tuple[int, ...] = eqx.field(static=True)  # columns of degree 0, 1, ...; halves of them where complex
    linear: bool = eqx.field(static=True)

    @property
    def count(self) -> int:
        """All columns."""
        return sum(self.allotted)

    def __call__(self, x: Array) -> list[Array]:
        """The columns of every degree."""
        found = [jnp.ones_like(x[..., :1])]
        first = 1
        if self.linear and len(self.allotted) > 1:
            found.append(x)
            first = 2
        parts: tuple[Array, ...] | None = None
        for i in range(len(self.factors)):
            parts = self._times(parts, x, i)
            degree = i + 1
            if degree < first:
                continue
            columns = self.allotted[degree] // (2 if self.masks else 1)
            found.append(jnp.concatenate([part[..., :columns] for part in parts], -1) * columns**-0.5)
            parts = tuple(part[..., columns:] for part in parts)
        return found

    def _times(self, parts: tuple[Array, ...] | None, x: Array, i: int) -> tuple[Array, ...]:
        """The running products with the next projection."""
        factor = self.factors[i]
        if not self.masks:
            y = factor(x)
            return (y,) if parts is None else (parts[0] * y,)
        mask = self.masks[i].astype(x.dtype)
        real, imaginary = factor(x * (1 - mask)), factor(x * mask)
        if parts is None:
            return real, imaginary
        return parts[0] * real - parts[1] * imaginary, parts[0] * imaginary + parts[1] * real


def maclaurin(
    key: PRNGKeyArray, inputs: int, weights: np.ndarray, columns: int, complex_signs: bool, linear: bool
) -> Maclaurin:
    """Draw one with `columns` random columns, allotted to the degrees from the `weights` r_l^2 of the kernel."""
    degree = len(weights) - 1
    first = 2 if linear else 1
    # the variance of a column of degree l is about r_l^4 (B^l - 1); the sum over degrees of variance / columns is least
    # where columns go with its root
    growth = 2 if complex_signs else 3
    pull = np.array([weights[l] * sqrt(growth**l - 1) for l in range(first, degree + 1)])
    step = 2 if complex_signs else 1
    allotted = [1, *([inputs] if linear and degree else [])]
    if len(pull):
        share = pull / pull.sum() if pull.sum() > 0 else np.full(len(pull), 1 / len(pull))
        allotted += [max(step, step * int(columns * s / step)) for s in share]
    keys = jax.random.split(key, 2 * max(degree, 1))
    factors, masks = [], []
    for i in range(degree):
        left = sum(allotted[l] for l in range(max(i + 1, first), degree + 1)) // step
        if left == 0:
            break
        factors.append(projection(keys[2 * i], inputs, left))
        masks.append(jax.random.bernoulli(keys[2 * i + 1], 0.5, (inputs,)))
    return Maclaurin(tuple(factors), tuple(masks) if complex_signs else (), tuple(allotted), linear and degree > 0)


class Tree(eqx.Module):
    """All powers up to `degree` from one binary tree of TensorSRHTs (Ahle et al., 2020).

    A leaf is a projection; a node sketches the tensor product of the two below it. The power l has x in the first l leaves
    and a fixed unit vector in the others.
    """

    leaves: tuple[Projection, ...]
    nodes: tuple[tuple[Product, ...], ...]  # by levels, from the leaves up
    degree: int = eqx.field(static=True)

    def __call__(self, x: Array) -> list[Array]:
        """The columns of the degrees 0 .. degree, as many of each as were drawn."""
        unit = jnp.zeros(x.shape[-1], x.dtype).at[0].set(1)
        scale = self.leaves[0].outputs ** -0.5

        @cache
        def node(level: int, place: int, powers: int) -> Array:
            """The sketch of a subtree of which the first `powers` leaves hold x."""
            if level == 0:
                return scale * self.leaves[place](x if powers else unit)
            half = 2 ** (level - 1)
            left, right = (
                node(level - 1, 2 * place, min(powers, half)),
                node(level - 1, 2 * place + 1, max(powers - half, 0)),
            )
            return self.nodes[level - 1][place](left, right)

        top = len(self.nodes)
        columns = [node(top, 0, powers) for powers in range(self.degree + 1)]
        return [jnp.broadcast_to(c, (*x.shape[:-1], c.shape[-1])) for c in columns]


def tree(key: PRNGKeyArray, inputs: int, columns: int, degree: int) -> Tree:
    """Draw one of `columns` for each degree."""
    size = padded(max(degree, 1))
    levels = size.bit_length() - 1
    keys = iter(jax.random.split(key, 2 * size))
    leaves = tuple(projection(next(keys), inputs, columns) for _ in range(size))
    nodes = tuple(
        tuple(product(next(keys), columns, columns, columns) for _ in range(size >> level))
        for level in range(1, levels + 1)
    )
    return Tree(leaves, nodes, degree)
