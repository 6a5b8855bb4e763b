"""The kinds of sketches: how the features of an activation come from those before it.

An activation with standard deviations a, b and cosine c has the kernels

    k = sum of r_l(a) r_l(b) c^l    and    k' = sum of r'_l(a) r'_l(b) c^l,    l = 0, 1, ...,

and with x a unit vector, c = x . y. So its features are r_l(a) times those of the l-fold tensor product of x, and those of
the NTK, whose step is Theta k', are those of the tensor product of what comes in with the features of k'. The degrees 0
and 1 are a number and x itself: they cost nothing and carry most of the weight, so every kind but `PolySketch`, which
is the paper's, keeps them exact. What is left is where kinds differ.

A kind is a description; `draw` gives its random numbers, a pytree, and `step` applies them.
"""

from abc import abstractmethod
from math import sqrt
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from ..activations import Activation
from ..described import Described, whole
from ..hermite import hermite
from ..numerics import cosine, safe_sqrt
from .columns import Columns, Point, Widths, kept
from .linear_maps import Product, Projection, draw_signs, fold, product, projection
from .series import coefficients, shares, slope_coefficients, tabulated
from .tensors import Maclaurin, Tree, maclaurin, tree

_PRODUCT = 1.0


class Sketch(Described):
    """How features go through an activation."""

    def folds(self) -> bool:
        """Whether direct sums, as over the patch of a convolution, are folded where they grow too wide."""
        return True

    @abstractmethod
    def draw(self, key: PRNGKeyArray, act: Activation, phi: Columns, psi: Columns | None, widths: Widths) -> Any:
        """The random numbers for columns of these shapes."""

    @abstractmethod
    def step(
        self, drawn: Any, act: Activation, point: Point, psi: Columns | None, widths: Widths
    ) -> tuple[Columns, Columns | None]:
        """The features of k(x, y), and of Theta(x, y) k'(x, y) where those of Theta are given."""


class _Slope(eqx.Module):
    """Draws for the product of the NTK's features with those of k', of which the constant is exact."""

    product: Product
    signs: Array | None

    def step(self, psi: Columns, constant: Array, rest: Array) -> Columns:
        """Features of Theta k' from those of Theta, the constant of k' and its other columns."""
        if self.signs is None:
            return Columns(psi.scaled(constant).all(), self.product(psi.all(), rest))
        psi = Columns(psi.kept, fold(self.signs, psi.mixed, self.product.first.outputs))
        exact = psi.scaled(constant)
        return Columns(exact.kept, exact.mixed + self.product(psi.all(), rest))


def _slope(key: PRNGKeyArray, psi: Columns, rest: int, widths: Widths) -> _Slope:
    key1, key2 = jax.random.split(key)
    if widths.grows:
        return _Slope(product(key1, psi.count, rest, max(1, int(_PRODUCT * widths.random))), None)
    keep = psi.kept.shape[-1]
    room = max(1, widths.random - keep)
    return _Slope(product(key1, keep + room, rest, room), draw_signs(key2, psi.mixed.shape[-1]))


class _Weights(eqx.Module):
    projection: Projection
    slope: _Slope | None
    orders: int = eqx.field(static=True)


class RandomWeights(Sketch):
    """f(W x) and f'(W x) with random W, whose rows are orthogonal in blocks, without truncation at any radius.

    The lowest `orders` of the Hermite expansion are taken out of f and carried exactly, so that only a small rest is
    random; 0 takes none out. None takes out the constant, the linear part where x is short enough, and the quadratic
    part where its columns are a small share. The normalised Gaussian has two functions, a cosine and a sine: with it
    these are random Fourier features.
    """

    orders: int | None = eqx.field(default=None, static=True)

    def __check_init__(self):
        if self.orders is not None:
            whole("orders", self.orders, most=3)

    def _orders(self, inputs: int, widths: Widths) -> int:
        if self.orders is not None:
            return self.orders
        if not widths.grows and inputs > widths.random // 8:
            return 1
        return 3 if inputs * (inputs + 1) // 2 <= widths.random // 4 else 2

    def draw(self, key, act, phi, psi, widths):
        key1, key2 = jax.random.split(key)
        inputs = phi.count
        orders = self._orders(inputs, widths)
        exact = sum(_tensor_columns(inputs, order) for order in range(orders))
        room = widths.random if widths.grows else widths.random - exact
        count = max(1, room // act.part_count)
        weights = projection(key1, inputs, count, rounds=2, gaussian=widths.grows or inputs < 64)
        rest = sum(_tensor_columns(inputs, order) for order in range(1, orders)) + count * act.part_count
        return _Weights(weights, None if psi is None else _slope(key2, psi, rest, widths), orders)

    def step(self, drawn, act, point, psi, widths):
        x, std, share = point
        t, orders = drawn.projection(x), drawn.orders
        tensors = [_tensor(x, order) for order in range(orders)]
        polynomials = hermite(orders - 1, t) if orders else []
        scale = drawn.projection.outputs**-0.5

        def columns(parts, r, part_r):
            """The exact columns of every order, and the random rest."""
            values = _smoothed(lambda t: parts(std[..., None], t), t, share)
            exact = []
            for order in range(orders):
                power = 1 if share is None else share**order
                exact.append((power * r[..., order])[..., None] * tensors[order])
                values = [
                    value - (power * own[..., order])[..., None] * polynomials[order]
                    for value, own in zip(values, part_r, strict=True)
                ]
            return exact, scale * jnp.concatenate(values, -1)

        most = max(orders - 1, 0)
        exact, rest = columns(act.parts, act.r(std, most), act.part_r(std, most))
        phi = Columns(_stacked(exact, x), rest)
        if psi is None:
            return phi, None
        exact, rest = columns(act.slope_parts, act.r_slope(std, most), act.slope_part_r(std, most))
        constant = exact[0][..., 0] if exact else jnp.zeros_like(std)
        return phi, drawn.slope.step(psi, constant, jnp.concatenate([*exact[1:], rest], -1))


def _tensor_columns(inputs: int, order: int) -> int:
    return (1, inputs, inputs * (inputs + 1) // 2)[order]


def _tensor(x: Array, order: int) -> Array:
    """Columns whose products are (x . y)^order."""
    if order < 2:
        return x if order else jnp.ones_like(x[..., :1])
    i, j = np.triu_indices(x.shape[-1])
    return x[..., i] * x[..., j] * jnp.asarray(np.where(i == j, 1, sqrt(2)), x.dtype)


def _stacked(parts: list[Array], x: Array) -> Array:
    return jnp.concatenate(parts, -1) if parts else jnp.zeros((*x.shape[:-1], 0), x.dtype)


def _smoothed(fn, t: Array, share: Array | None) -> list[Array]:
    """E[fn(share t + sqrt(1 - share^2) n)] over normal n: what a mask of its own makes of an activation."""
    if share is None:
        return list(fn(t))
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    share = share[..., None]
    other = safe_sqrt(1 - share**2)
    rows = [
        [float(weight) * value for value in fn(share * t + float(node) * other)]
        for node, weight in zip(nodes, weights / weights.sum(), strict=True)
    ]
    return [sum(values[1:], values[0]) for values in zip(*rows, strict=True)]


class _Series(eqx.Module):
    """The draws of a kind that goes by powers: their sketches, the last compression, the slope, a table of r_l."""

    powers: Maclaurin | Tree
    last: tuple[Projection, Projection | None] | None
    slope: _Slope | None
    table: Any


class Powers(Sketch):
    """Sketched powers of x, degree by degree, up to `degree`: for every activation, known by its kernel alone or not.

    A power is a product of random projections (Kar and Karnick, 2012), with complex signs whose real and imaginary parts
    are columns (Wacker et al., 2022); columns are allotted to degrees by their variance. What is missing beyond `degree`
    is added to the last even and the last odd degree.
    """

    degree: int = eqx.field(default=8, static=True)
    complex_signs: bool = eqx.field(default=True, static=True)

    def __check_init__(self):
        whole("degree", self.degree, most=64)

    def draw(self, key, act, phi, psi, widths):
        key1, key2 = jax.random.split(key)
        inputs, table = phi.count, tabulated(act, self.degree)
        linear = widths.grows or inputs <= widths.random // 8
        exact = 1 + (inputs if linear and self.degree else 0)
        room = widths.random if widths.grows else widths.random - exact
        weights = shares(act, table, self.degree, slope=psi is not None)
        powers = maclaurin(key1, inputs, weights, max(room, 1), self.complex_signs, linear)
        rest = powers.count - 1
        return _Series(powers, None, None if psi is None else _slope(key2, psi, max(rest, 1), widths), table)

    def step(self, drawn, act, point, psi, widths):
        tensors = drawn.powers(point.direction)

        def weighted(r):
            return [(r[..., l] * _power(point.share, l))[..., None] * tensor for l, tensor in enumerate(tensors)]

        few = 2 if drawn.powers.linear else 1
        exact = weighted(coefficients(act, drawn.table, point.std, self.degree))
        phi = Columns(jnp.concatenate(exact[:few], -1), _stacked(exact[few:], point.direction))
        if psi is None:
            return phi, None
        constant, *rest = weighted(slope_coefficients(act, drawn.table, point.std, self.degree))
        rest = _stacked(rest, point.direction) if rest else jnp.zeros_like(point.direction[..., :1])
        return phi, drawn.slope.step(psi, constant[..., 0], rest)


def _power(share: Array | None, order: int) -> Array | float:
    return 1.0 if share is None else share**order


class PolySketch(Sketch):
    """The paper's sketch: a tree of TensorSRHTs gives every degree, and an SRHT of all degrees the features.

    `degree` need not be a power of two, and nothing is complex. It is here for its guarantees and to compare with.
    """

    degree: int = eqx.field(default=8, static=True)

    def __check_init__(self):
        whole("degree", self.degree, most=64)

    def folds(self) -> bool:
        return False

    def draw(self, key, act, phi, psi, widths):
        key1, key2, key3, key4 = jax.random.split(key, 4)
        powers = tree(key1, phi.count, widths.random, self.degree)
        total = widths.random * (self.degree + 1)
        last = projection(key2, total, widths.random), None if psi is None else projection(key3, total, widths.random)
        slope = None
        if psi is not None:
            slope = _Slope(product(key4, psi.count, widths.random, widths.random), None)
        return _Series(powers, last, slope, tabulated(act, self.degree))

    def step(self, drawn, act, point, psi, widths):
        tensors = drawn.powers(point.direction)

        def compressed(last, r):
            parts = [(r[..., l] * _power(point.share, l))[..., None] * tensor for l, tensor in enumerate(tensors)]
            return last(jnp.concatenate(parts, -1)) * last.outputs**-0.5

        phi = compressed(drawn.last[0], coefficients(act, drawn.table, point.std, self.degree))
        nothing = jnp.zeros((*phi.shape[:-1], 0), phi.dtype)
        if psi is None:
            return Columns(nothing, phi), None
        dot = compressed(drawn.last[1], slope_coefficients(act, drawn.table, point.std, self.degree))
        return Columns(nothing, phi), Columns(nothing, drawn.slope.product(psi.all(), dot))


class Auto(Sketch):
    """The kind that the benchmarks found best: random weights where the activation is known, else its powers."""

    degree: int = eqx.field(default=8, static=True)

    def _kind(self, act: Activation) -> Sketch:
        return RandomWeights() if act.has_function else Powers(self.degree)

    def draw(self, key, act, phi, psi, widths):
        return self._kind(act).draw(key, act, phi, psi, widths)

    def step(self, drawn, act, point, psi, widths):
        return self._kind(act).step(drawn, act, point, psi, widths)


class Exact(Sketch):
    """Factors of the batch's own kernel matrix: no randomness, no series, as many columns as points.

    For tests: the features of two batches have the right products only if they are made in one call.
    """

    def folds(self) -> bool:
        return False

    def draw(self, key, act, phi, psi, widths):
        return ()

    def step(self, drawn, act, point, psi, widths):
        shape = point.std.shape
        x, std = point.direction.reshape(-1, point.direction.shape[-1]), point.std.reshape(-1)
        cov, unit = jnp.matmul(x, x.T, precision="highest"), jnp.sign(std)
        c = cosine(cov, unit[:, None], unit[None, :], ulps=8 + sqrt(x.shape[-1]))
        c = jnp.where(jnp.eye(len(std), dtype=bool), unit**2, c)
        if point.share is not None:
            share = point.share.reshape(-1)
            c = c * share[:, None] * share[None, :]
        pair = std[:, None], std[None, :], c

        def factored(matrix):
            values, vectors = jnp.linalg.eigh((matrix + matrix.T) / 2)
            return kept((vectors * safe_sqrt(values)).reshape(*shape, -1))

        phi = factored(act.k(*pair))
        if psi is None:
            return phi, None
        rows = psi.all().reshape(len(std), -1)
        return phi, factored(jnp.matmul(rows, rows.T, precision="highest") * act.k_slope(*pair))
