"""Sketches of the powers x, x (x) x, ... of a vector: columns whose products are (x . y)^l in the mean."""

from collections import Counter
from functools import cache, lru_cache
from itertools import combinations_with_replacement
from math import comb, factorial, inf, prod, sqrt

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from ..numerics.padding import power_of_two
from .linear_maps import Projection, projection, several


def tensor_columns(inputs: int, order: int) -> int:
    """How many numbers `tensor` gives."""
    return comb(inputs + order - 1, order)


def tensor(x: Array, order: int) -> Array:
    """Columns whose products are (x . y)^order: every monomial of that degree, times the root of how often it comes."""
    places, roots = _monomials(x.shape[-1], order)
    columns = jnp.asarray(roots, x.dtype) * jnp.ones_like(x[..., :1])
    for place in places:
        columns = columns * x[..., place]
    return columns


@lru_cache(maxsize=8)
def _monomials(inputs: int, order: int) -> tuple[np.ndarray, np.ndarray]:
    """The inputs that make each monomial, (order, monomials), and the roots."""
    places = np.array(list(combinations_with_replacement(range(inputs), order)), np.int32).reshape(
        tensor_columns(inputs, order), order
    )
    often = [factorial(order) / prod(factorial(count) for count in Counter(row).values()) for row in places.tolist()]
    return places.T, np.sqrt(often)


Complex = tuple[Array, Array]  # a real and an imaginary part


class ComplexProjection(eqx.Module):
    """A projection with complex signs: half of the inputs are multiplied by i first."""

    projection: Projection
    mask: Array

    def __call__(self, real: Array, imaginary: Array | None = None) -> Complex:
        """The projection of a real or a complex vector."""
        if imaginary is None:
            mask = self.mask.astype(real.dtype)
            parts = real * (1 - mask), real * mask
        else:
            parts = jnp.where(self.mask, -imaginary, real), jnp.where(self.mask, real, imaginary)
        return self.projection(parts[0]), self.projection(parts[1])

    def first(self, outputs: int) -> "ComplexProjection":
        """The first of its outputs alone."""
        return ComplexProjection(self.projection.first(outputs), self.mask)


def complex_projection(key: PRNGKeyArray, inputs: int, outputs: int, rounds: int = 1) -> ComplexProjection:
    """Draw one."""
    key1, key2 = jax.random.split(key)
    return ComplexProjection(projection(key1, inputs, outputs, rounds), jax.random.bernoulli(key2, 0.5, (inputs,)))


def times(a: tuple[Array, ...], b: tuple[Array, ...]) -> Complex:
    """The product of complex numbers."""
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


class Maclaurin(eqx.Module):
    """Products of random projections; degree l has columns of its own, `allotted`, and takes the first l projections.

    The first degrees, `exact` many, are no products but all monomials. With complex signs a product has a real and an
    imaginary part, and its variance grows like 2^l where that of real signs grows like 3^l.
    """

    factors: tuple[Projection | ComplexProjection, ...]
    allotted: tuple[int, ...] = eqx.field(static=True)  # columns of degree 0, 1, ...
    exact: int = eqx.field(static=True)

    @property
    def count(self) -> int:
        """All columns."""
        return sum(self.allotted)

    def __call__(self, x: Array) -> list[Array]:
        """The columns of every degree."""
        by_degree = [tensor(x, degree) for degree in range(self.exact)]
        running: tuple[Array, ...] = ()
        for degree, factor in enumerate(self.factors, 1):
            if isinstance(factor, ComplexProjection):
                running = times(running, factor(x)) if running else factor(x)
            else:
                running = (running[0] * factor(x),) if running else (factor(x),)
            if degree < self.exact:
                continue
            columns = self.allotted[degree] // len(running)
            by_degree.append(jnp.concatenate([part[..., :columns] for part in running], -1) * columns**-0.5)
            running = tuple(part[..., columns:] for part in running)
        return by_degree


def maclaurin(
    key: PRNGKeyArray, inputs: int, weights: np.ndarray, columns: int, complex_signs: bool, exact: int, rounds: int = 1
) -> Maclaurin:
    """Draw one with `columns` random columns, allotted to the degrees from the `weights` r_l^2 of the kernel.

    Inputs with their weight in a few leading places need two `rounds`, as in `product`.
    """
    degree = len(weights) - 1
    exact = min(exact, degree + 1)
    pull = np.array([weights[l] * sqrt(_variance(l, complex_signs)) for l in range(exact, degree + 1)])
    step = 2 if complex_signs else 1
    allotted = [tensor_columns(inputs, l) for l in range(exact)]
    if len(pull):
        share = pull / pull.sum() if pull.sum() > 0 else np.full(len(pull), 1 / len(pull))
        allotted += [max(step, step * int(columns * s / step)) for s in share]
    # what each factor is needed for: its own degree and those above it
    needed = [sum(allotted[l] for l in range(max(i, exact), degree + 1)) // step for i in range(1, degree + 1)]
    needed = [columns for columns in needed if columns]
    if not needed:
        return Maclaurin((), tuple(allotted), exact)
    draw = complex_projection if complex_signs else projection
    factors = several(lambda key: draw(key, inputs, needed[0], rounds), key, len(needed))
    cut = tuple(factor.first(columns) for factor, columns in zip(factors, needed, strict=True))
    return Maclaurin(cut, tuple(allotted), exact)


def _variance(degree: int, complex_signs: bool) -> float:
    """That of a column, over r_l^4, for a pair of cosine c: (1 + c^2)^l with complex signs, (1 + 2 c^2)^l with real ones.

    Columns are allotted for pairs with c^2 = 1/2; where they go with the root of it, the variance is least.
    """
    return (1.5 if complex_signs else 2.0) ** degree


def exact_degrees(inputs: int, weights: np.ndarray, columns: int, complex_signs: bool, least: int, most: int) -> int:
    """How many degrees are best taken exactly, with `columns` in all and at most half of them for exact ones."""

    def deviation(exact: int) -> float:
        used = sum(tensor_columns(inputs, l) for l in range(least, exact))
        if 2 * used > columns:
            return inf
        left = sum(weights[l] * sqrt(_variance(l, complex_signs)) for l in range(exact, len(weights)))
        return left / sqrt(columns - used)

    return min(range(min(least, len(weights)), min(most, len(weights)) + 1), key=deviation)


class Tree(eqx.Module):
    """All powers up to `degree` from one binary tree of TensorSRHTs (Ahle et al., 2020).

    A leaf is a projection; a node sketches the tensor product of the two below it. The power l has x in the first l leaves
    and, where there are none, a fixed unit vector, with which a product is a rotation and costs nothing. Inside, numbers
    are complex, as in the authors' code; their real and imaginary parts are the columns.
    """

    leaves: tuple[ComplexProjection, ...]
    nodes: tuple[tuple[tuple[ComplexProjection, ComplexProjection], ...], ...]  # by levels, from the leaves up
    degree: int = eqx.field(static=True)

    def __call__(self, x: Array) -> list[Array]:
        """The columns of the degrees 0 .. degree, as many of each as were drawn."""
        size = self.leaves[0].projection.outputs
        unit = jnp.zeros((*x.shape[:-1], size), x.dtype).at[..., 0].set(1)

        @cache
        def node(level: int, place: int, powers: int) -> Complex:
            """The sketch of a subtree of which the first `powers` leaves hold x."""
            if powers == 0:
                return unit, jnp.zeros_like(unit)
            if level == 0:
                real, imaginary = self.leaves[place](x)
            else:
                half = 2 ** (level - 1)
                first, second = self.nodes[level - 1][place]
                left = first(*node(level - 1, 2 * place, min(powers, half)))
                right = second(*node(level - 1, 2 * place + 1, max(powers - half, 0)))
                real, imaginary = times(left, right)
            return size**-0.5 * real, size**-0.5 * imaginary

        return [jnp.concatenate(node(len(self.nodes), 0, powers), -1) for powers in range(self.degree + 1)]


def tree(key: PRNGKeyArray, inputs: int, columns: int, degree: int) -> Tree:
    """Draw one of `columns`, rounded up to an even number, for each degree."""
    size, half = power_of_two(max(degree, 1)), -(-columns // 2)
    key1, key2 = jax.random.split(key)
    leaves = several(lambda key: complex_projection(key, inputs, half), key1, size)
    # two more than there are nodes to fill
    pairs = several(lambda key: complex_projection(key, half, half), key2, 2 * size)
    nodes, used = [], 0
    for level in range(1, size.bit_length()):
        count = size >> level
        nodes.append(tuple((pairs[used + 2 * i], pairs[used + 2 * i + 1]) for i in range(count)))
        used += 2 * count
    return Tree(tuple(leaves), tuple(nodes), degree)
