"""Random weights: f(W x) and f'(W x), with what is known of their products taken out and computed exactly."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from math import sqrt
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from ..activations import Activation
from ..activations.hermite import derivative_coefficients, hermite
from ..numerics import safe_divide, safe_sqrt
from ..numerics.checks import check_int
from .columns import Columns
from .features import Features, Sketch
from .linear_maps import Projection, projection
from .step import Slope, slope_step
from .tensors import tensor, tensor_columns

_POWERS = 6  # of the mean direction that are taken out


class _Mean(NamedTuple):
    """A unit vector near which directions lie, its products with random weights, and a profile of slopes there."""

    vector: Array
    weights: Array
    profile: Array


class _Weights(eqx.Module):
    """The random numbers of `RandomWeights`."""

    projection: Projection  # where it is padded, its last output is the product with the mean direction
    mean: _Mean
    slope: Slope | None
    orders: int = eqx.field(static=True)
    counts: tuple[int, ...] = eqx.field(static=True)  # columns of each part of the activation


class _Point(NamedTuple):
    """A point seen from the mean direction u: x = e u + y."""

    std: Array
    share: Array | None
    t: Array  # W x
    tau: Array  # W y
    y: Array
    powers: Array  # of e, in a last axis
    spread: Array  # |y|^2


class RandomWeights(Sketch):
    """f(W x) and f'(W x) with random W, whose rows are orthogonal in blocks, without truncation at any radius.

    What can be known exactly is taken out of f, so that only a small rest is random. Constants, biases and means make
    directions lie around a mean vector u; with e = x . u, x = e u + y, and the Hermite coefficients r_l of f(a t),

        c = e e' + y . y',    k = sum of r_l r'_l (e e')^l + eta eta' a a' y . y' + ...

    The powers of e are a few columns, and the linear part, y itself, are those that are there. It has the factor eta =
    E[f'(a W x) p(W u)], with p a function near the mean of f' given W u: so little of it is left over, and it is also
    the constant of f', by which the NTK's columns go on. With u = 0, eta is r_1(a) / a. `orders` = 1 leaves out the linear
    part, 0 everything; 3 takes out the quadratic part of y too where it has room, and None what seems best.

    The normalised Gaussian has two functions, a cosine and a sine: with it these are random Fourier features. Columns are
    allotted to functions by what is left of each.
    """

    orders: int | None = eqx.field(default=None, static=True)

    def __check_init__(self) -> None:
        if self.orders is not None:
            check_int("orders", self.orders, most=3)

    def takes_whole_patches(self) -> bool:
        return True

    def _orders(self, inputs: int, room: int, grows: bool) -> int:
        orders = 3 if self.orders is None else self.orders
        if self.orders is None and not grows and inputs > room // 8:
            return 1
        return orders if orders < 3 or tensor_columns(inputs, 2) <= room // 4 else 2

    def draw(self, key: PRNGKeyArray, act: Activation, features: Features) -> _Weights:
        weight_key, slope_key = jax.random.split(key)
        inputs, room, grows = features.phi.count, features.room, features.widths.grows
        orders = self._orders(inputs, room, grows)
        exact = (_POWERS + 1 if orders else 0) + sum(tensor_columns(inputs, order) for order in range(1, orders))
        counts = _allot(act, orders, room if grows else room - exact)
        dense = features.affords(inputs)
        weights = projection(weight_key, inputs, max(counts), 2, gaussian=grows or inputs < 64, dense=dense)
        mean = self._mean(weights, act, features)
        weights = weights.with_output(mean.vector) if weights.padded else weights
        slope = None
        psi = features.plain().psi
        if features.wants_ntk and psi is not None:
            rest = (inputs if orders > 1 else 0) + sum(counts)
            slope = slope_step(slope_key, psi, rest, room, grows, rounds=2 if orders > 1 else 1)
        return _Weights(weights, mean, slope, orders, counts)

    def _mean(self, weights: Projection, act: Activation, features: Features) -> _Mean:
        """From the reference: the mean direction, of constants alone where columns go on, and of slopes there."""
        point = features.point()
        x = point.direction.reshape(-1, point.direction.shape[-1])
        vector = x.mean(0)
        if features.widths.grows:
            vector = jnp.where(jnp.arange(len(vector)) < features.phi.kept.shape[-1], vector, 0)
        vector = safe_divide(vector, safe_sqrt(jnp.sum(vector**2)))
        vector = vector.astype(jnp.bfloat16).astype(vector.dtype) if weights.padded else vector  # as the matrix has it
        e = (x @ vector)[:, None] ** jnp.arange(_POWERS + 1)
        profile = (act.r_slope(point.std.reshape(-1), _POWERS) * e).mean(0)
        size = safe_sqrt(jnp.sum(profile**2))
        first = jnp.zeros_like(profile).at[0].set(1)
        profile = jnp.where(size > 0, safe_divide(profile, size), first)
        return _Mean(vector, weights(vector), profile)

    def step(self, drawn: _Weights, act: Activation, features: Features) -> Features:
        point = _split_along_mean(drawn, features)
        phi, linear = _activate(drawn, act, features, point)
        psi, all_psi = features.psi, features.plain().psi
        if drawn.slope is None or psi is None or all_psi is None:
            return replace(features, phi=phi)
        constant, rest = _slopes(drawn, act, features, point)
        merged = features.widths.grows and act.continuous and drawn.orders > 1
        if not merged or features.shared is None:
            return replace(features, phi=phi, psi=drawn.slope.step(all_psi, constant, rest), shared=None)
        # linear columns of phi go by the same factor as the NTK's: what they share, they go on sharing
        psi = Columns(psi.scaled(constant).all(), drawn.slope.product(all_psi.all(), rest))
        new = jnp.zeros(phi.mixed.shape[-1] - linear, features.shared.dtype)
        return replace(features, phi=phi, psi=psi, shared=jnp.concatenate([features.shared, new]))


def _split_along_mean(drawn: _Weights, features: Features) -> _Point:
    """In float32 at least, as differences are taken of what follows."""
    x, scale, std, share = features.point()
    wide = std.dtype
    mean = drawn.mean.vector.astype(wide)
    t = drawn.projection(x, wide) * scale[..., None]
    known = jnp.ones_like(std) if share is None else share
    if drawn.projection.padded:
        t, e = t[..., :-1], known * t[..., -1]
    else:
        e = known * scale * jnp.sum(x.astype(wide) * mean, -1)
    tau = known[..., None] * t - e[..., None] * drawn.mean.weights.astype(wide)
    y = (known * scale)[..., None] * x.astype(wide) - e[..., None] * mean
    return _Point(std, share, t, tau, y, e[..., None] ** jnp.arange(_POWERS + 1), known**2 - e**2)


def _activate(drawn: _Weights, act: Activation, features: Features, point: _Point) -> tuple[Columns, int]:
    """The columns of k, and how many of the mixed ones are the linear part."""
    std, orders, narrow = point.std, drawn.orders, features.phi.kept.dtype
    profile = drawn.mean.profile.astype(std.dtype)
    r = act.r(std, _POWERS + 1)
    eta = jnp.sum(profile * derivative_coefficients(r, std) * point.powers, -1)
    values = _smooth(lambda t: act.parts(std[..., None], t), point)
    parts = act.part_r(std, _POWERS + 1)
    terms = [_Terms(own[..., : _POWERS + 1] * point.powers if orders else None) for own in parts]
    if orders > 1:
        terms = [
            t._replace(linear=(std * eta), shape=profile * sign)
            for t, sign in zip(terms, _part_signs(act, std.dtype), strict=True)
        ]
    if orders > 2:
        terms = [t._replace(quadratic=own[..., 2]) for t, own in zip(terms, parts, strict=True)]
    rest = _rest(drawn, point, values, terms).astype(narrow)
    constants = (r[..., : _POWERS + 1] * point.powers if orders else r[..., :0]).astype(narrow)
    linear = features.phi.map(lambda x: x[..., :0])
    if orders > 1:
        linear = _without_mean(features.phi, drawn.mean.vector).scaled(eta)
    quadratic = (r[..., 2:3] * tensor(point.y, 2) if orders > 2 else r[..., :0]).astype(narrow)
    if features.widths.grows:
        mixed = jnp.concatenate([linear.mixed, quadratic, rest], -1)
        return Columns(jnp.concatenate([constants, linear.kept], -1), mixed), linear.mixed.shape[-1]
    return Columns(jnp.concatenate([constants, linear.all(), quadratic], -1), rest), 0


def _slopes(drawn: _Weights, act: Activation, features: Features, point: _Point) -> tuple[Array, Array]:
    """The constant of k_slope, and its other columns."""
    std, orders, narrow = point.std, drawn.orders, features.phi.kept.dtype
    profile = drawn.mean.profile.astype(std.dtype)
    r = act.r_slope(std, _POWERS)
    constant = jnp.sum(profile * r * point.powers, -1) if orders else jnp.zeros_like(std)
    values = _smooth(lambda t: act.slope_parts(std[..., None], t), point)
    polynomials = _polynomials(drawn, std.dtype)
    values = [
        value - constant[..., None] * ((profile * sign) @ polynomials)
        for value, sign in zip(values, _part_signs(act, std.dtype, slope=True), strict=True)
    ]
    terms = [_Terms()] * len(values)
    if orders < 2:
        return constant, _rest(drawn, point, values, terms).astype(narrow)
    ones = jnp.zeros(_POWERS + 1, std.dtype).at[0].set(1)
    terms = [t._replace(linear=own[..., 1], shape=ones) for t, own in zip(terms, act.slope_part_r(std, 1), strict=True)]
    rest = jnp.concatenate([r[..., 1:2] * point.y, _rest(drawn, point, values, terms)], -1)
    return constant, rest.astype(narrow)


class _Terms(NamedTuple):
    """What is taken out of a function of W x: polynomials of W u, W y times such a polynomial, and (W y)^2."""

    constant: Array | None = None  # Hermite coefficients of the function of W u, for every point
    linear: Array | None = None
    shape: Array | None = None  # Hermite coefficients of what multiplies W y
    quadratic: Array | None = None


def _rest(drawn: _Weights, point: _Point, values: list[Array], terms: list[_Terms]) -> Array:
    """What is left of the functions, as columns."""
    polynomials, left = _polynomials(drawn, point.t.dtype), []
    for count, value, term in zip(drawn.counts, values, terms, strict=True):
        value, tau = value[..., :count], point.tau[..., :count]
        if term.constant is not None:
            value = value - _combine(term.constant, polynomials[:, :count])
        if term.linear is not None and term.shape is not None:
            value = value - term.linear[..., None] * tau * (term.shape @ polynomials[:, :count])
        if term.quadratic is not None:
            value = value - term.quadratic[..., None] * (tau**2 - point.spread[..., None]) / sqrt(2)
        left.append(value * count**-0.5)
    return jnp.concatenate(left, -1)


def _combine(coefficients: Array, columns: Array) -> Array:
    """coefficients @ columns, for few rows of columns: as sums, which merge with what is done to the result."""
    terms = [coefficients[..., l : l + 1] * columns[l] for l in range(len(columns))]
    return sum(terms[1:], terms[0])


def _polynomials(drawn: _Weights, dtype: np.dtype) -> Array:
    """h_0 .. of W u, (degrees, weights)."""
    return jnp.stack(hermite(_POWERS, drawn.mean.weights.astype(dtype)))


def _allot(act: Activation, orders: int, columns: int) -> tuple[int, ...]:
    """The columns of each part of an activation, by its share of what is not computed exactly."""
    if act.part_count == 1:
        return (max(1, columns),)
    first = [max(1, int(columns * share)) for share in _shares_left(act, orders)[:-1]]
    return (*first, max(1, columns - sum(first)))


@lru_cache
def _shares_left(act: Activation, orders: int) -> tuple[float, ...]:
    with jax.ensure_compile_time_eval():
        left = [float(jnp.sum(r[orders:] ** 2)) for r in act.part_r(jnp.ones(()), 24)]
    return tuple(part / (sum(left) or 1.0) for part in left)


def _without_mean(columns: Columns, vector: Array) -> Columns:
    """Columns less their part along a unit vector."""
    x = columns.all()
    along = jnp.sum(x.astype(vector.dtype) * vector, -1, keepdims=True)
    left = (x.astype(vector.dtype) - along * vector).astype(x.dtype)
    few = columns.kept.shape[-1]
    return Columns(left[..., :few], left[..., few:])


def _part_signs(act: Activation, dtype: np.dtype, slope: bool = False) -> list[Array]:
    """Which Hermite coefficients of the derivative each part has, with which sign; all, for one function.

    With `slope`, of the parts of the slope kernel.
    """
    if act.part_count == 1:
        return [jnp.ones(_POWERS + 1, dtype)]
    one = jnp.ones((), dtype)
    whole_slope = act.r_slope(one, _POWERS)
    if slope:
        return [safe_divide(r, whole_slope) for r in act.slope_part_r(one, _POWERS)]
    return [safe_divide(derivative_coefficients(r, one), whole_slope) for r in act.part_r(one, _POWERS + 1)]


def _smooth(fn: Callable[[Array], tuple[Array, ...]], point: _Point) -> list[Array]:
    """E[fn(share t + sqrt(1 - share^2) n)] over normal n: what a mask of its own makes of an activation."""
    t, share = point.t, point.share
    if share is None:
        return list(fn(t))
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    share = share[..., None]
    other = safe_sqrt(1 - share**2)

    def add(total: list[Array], rule: tuple[Array, Array]) -> tuple[list[Array], None]:
        node, weight = rule
        return [part + weight * value for part, value in zip(total, fn(share * t + node * other), strict=True)], None

    rule = jnp.asarray(nodes, t.dtype), jnp.asarray(weights / weights.sum(), t.dtype)
    start = [jnp.zeros(part.shape, part.dtype) for part in jax.eval_shape(fn, t)]
    return jax.lax.scan(add, start, rule)[0]
