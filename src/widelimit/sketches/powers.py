"""Kinds that go by powers of x: the series of a kernel, cut off."""

from dataclasses import replace
from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from ..activations import Activation
from ..numerics.checks import check_int
from .columns import Columns
from .features import Features, Sketch
from .linear_maps import Projection, product, projection
from .series import coefficients, shares, slope_coefficients, tabulate
from .step import Slope, slope_step
from .tensors import Maclaurin, Tree, exact_degrees, maclaurin, tensor_columns, tree

_EXACT = 4  # degrees, at most, of which every monomial is a column


class Series(eqx.Module):
    """The random numbers of a kind that goes by powers: sketches, last compression, slope, and a table of r_l."""

    powers: Maclaurin | Tree
    last: tuple[Projection, Projection | None] | None
    slope: Slope | None
    table: Float[Array, "radii degrees"] | None


class Powers(Sketch):
    """Sketched powers of x, degree by degree, up to `degree`: for every activation, known by its kernel alone or not.

    A power is a product of random projections (Kar and Karnick, 2012), with complex signs whose real and imaginary parts
    are columns (Wacker et al., 2022); columns are allotted to degrees by their variance. What is missing beyond `degree`
    is added to the last even and the last odd degree.
    """

    degree: int = eqx.field(default=8, static=True)
    complex_signs: bool = eqx.field(default=True, static=True)

    def __check_init__(self) -> None:
        check_int("degree", self.degree, most=64)
        if not isinstance(self.complex_signs, bool):
            raise TypeError(f"complex_signs is True or False, not {self.complex_signs!r}.")

    def draw(self, key: PRNGKeyArray, act: Activation, features: Features) -> Series:
        key1, key2 = jax.random.split(key)
        features = features.plain()
        psi, room, grows = features.psi, features.room, features.widths.grows
        inputs, table = features.phi.count, tabulate(act, self.degree)
        weights = shares(act, table, self.degree, slope=psi is not None)
        least = 2 if grows else 1  # where columns go on, the linear ones cost nothing
        exact = exact_degrees(inputs, weights, room, self.complex_signs, least, _EXACT)
        left = room - sum(tensor_columns(inputs, order) for order in range(least, exact))
        powers = maclaurin(key1, inputs, weights, max(left, 1), self.complex_signs, exact, rounds=2 if grows else 1)
        rest = powers.count - 1
        return Series(powers, None, None if psi is None else slope_step(key2, psi, max(rest, 1), room, grows), table)

    def step(self, drawn: Series, act: Activation, features: Features) -> Features:
        features = features.plain()
        point, psi = features.point(), features.psi
        tensors = drawn.powers(point.direction)

        def weigh(r: Array) -> list[Array]:
            return [(r[..., l] * _power(point.share, l))[..., None] * tensor for l, tensor in enumerate(tensors)]

        few = cast(Maclaurin, drawn.powers).exact
        exact = weigh(coefficients(act, drawn.table, point.std, self.degree))
        phi = Columns(jnp.concatenate(exact[:few], -1), _stack(exact[few:], point.direction))
        if psi is None or drawn.slope is None:
            return replace(features, phi=phi)
        constant, *others = weigh(slope_coefficients(act, drawn.table, point.std, self.degree))
        rest = _stack(others, point.direction) if others else jnp.zeros_like(point.direction[..., :1])
        return replace(features, phi=phi, psi=drawn.slope.step(psi, constant[..., 0], rest))


class Cosine(Powers):
    """Powers of the input's own direction, for the whole network at once: the paper's Algorithm 1.

    For rows, and networks without biases whose activations are homogeneous, such as ReLU. No error is added up over
    layers. That of the polynomial, of degree `degree`, is largest for near-duplicates, and does not fall with the number
    of columns: `sketch="auto"` takes this kind where it is small beside theirs.
    """

    degree: int = eqx.field(default=12, static=True)


def _power(share: Array | None, order: int) -> Array | float:
    return 1.0 if share is None else share**order


class PolySketch(Sketch):
    """The paper's sketch: a tree of TensorSRHTs gives every degree, and an SRHT of all degrees the features.

    `degree` need not be a power of two, and nothing is complex. It is here for its guarantees and to compare with.
    """

    degree: int = eqx.field(default=8, static=True)

    def __check_init__(self) -> None:
        check_int("degree", self.degree, most=64)

    def folds(self) -> bool:
        return False

    def draw(self, key: PRNGKeyArray, act: Activation, features: Features) -> Series:
        key1, key2, key3, key4 = jax.random.split(key, 4)
        features = features.plain()
        psi, room = features.psi, features.room
        powers = tree(key1, features.phi.count, room, self.degree)
        total = 2 * -(-room // 2) * (self.degree + 1)
        last = projection(key2, total, room), None if psi is None else projection(key3, total, room)
        slope = None
        if psi is not None:
            slope = Slope(product(key4, psi.count, room, room), None)
        return Series(powers, last, slope, tabulate(act, self.degree))

    def step(self, drawn: Series, act: Activation, features: Features) -> Features:
        features = features.plain()
        point, psi = features.point(), features.psi
        tensors = drawn.powers(point.direction)

        def compress(last: Projection, r: Array) -> Array:
            parts = [(r[..., l] * _power(point.share, l))[..., None] * tensor for l, tensor in enumerate(tensors)]
            return last(jnp.concatenate(parts, -1)) * last.outputs**-0.5

        for_phi, for_psi = cast(tuple[Projection, Projection | None], drawn.last)
        phi = compress(for_phi, coefficients(act, drawn.table, point.std, self.degree))
        nothing = jnp.zeros((*phi.shape[:-1], 0), phi.dtype)
        if psi is None or for_psi is None or drawn.slope is None:
            return replace(features, phi=Columns(nothing, phi))
        dot = compress(for_psi, slope_coefficients(act, drawn.table, point.std, self.degree))
        psi = Columns(nothing, drawn.slope.product(psi.all(), dot))
        return replace(features, phi=Columns(nothing, phi), psi=psi)


def _stack(parts: list[Array], x: Array) -> Array:
    return jnp.concatenate(parts, -1) if parts else jnp.zeros((*x.shape[:-1], 0), x.dtype)
