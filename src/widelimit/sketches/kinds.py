"""The kinds of sketches: how the features of an activation come from those before it.

An activation with standard deviations a, b and cosine c has the kernels

    k = sum of r_l(a) r_l(b) c^l    and    k' = sum of r'_l(a) r'_l(b) c^l,    l = 0, 1, ...,

and with x a unit vector, c = x . y. So its features are r_l(a) times those of the l-fold tensor product of x, and those of
the NTK, whose step is Theta k', are those of the tensor product of what comes in with the features of k'. The degrees 0
and 1 are a number and x itself, and carry most of the weight: every kind but `PolySketch`, which is the paper's, keeps
the first exact, and the second where x is short beside the number of columns. Kinds differ in what they do with the rest.

A kind is a description; `draw` gives its random numbers, a pytree, and `step` applies them.
"""

from dataclasses import replace
from functools import lru_cache
from math import sqrt
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from ..activations import Activation
from ..numerics import cosine, safe_sqrt
from ..numerics.checks import check_int
from .columns import Columns, kept
from .features import Drawn, Features, Sketch
from .powers import Cosine, PolySketch, Powers, Series
from .random_weights import RandomWeights
from .tensors import tensor_columns


@lru_cache
def _ends_by(act: Activation, degree: int) -> bool:
    """Whether next to nothing of the series of k is beyond a degree."""
    with jax.ensure_compile_time_eval():
        squares = act.r(jnp.ones(()), 64) ** 2
        return bool(jnp.sum(squares[degree + 1 :]) < 1e-4 * jnp.sum(squares))


class Auto(Sketch):
    """The kind that the benchmarks found best, activation by activation.

    Random weights where the activation is known, else its powers, up to `degree`; powers also for the normalised Gaussian
    on short inputs. A feature map takes `Cosine` in its place where that is better for the whole network.
    """

    degree: int = eqx.field(default=8, static=True)

    def __check_init__(self) -> None:
        check_int("degree", self.degree, most=64)

    def takes_whole_patches(self) -> bool:
        return True

    def draw(self, key: PRNGKeyArray, act: Activation, features: Features) -> Drawn:
        kind = RandomWeights() if act.has_function else Powers(self.degree)
        few = tensor_columns(features.phi.count, 2) <= features.room // 2
        if act.part_count > 1 and few and _ends_by(act, self.degree):  # short inputs, of which most is exact
            kind = Powers(self.degree)
        return kind.draw(key, act, features)

    def step(self, drawn: Drawn, act: Activation, features: Features) -> Features:
        kind = Powers(self.degree) if isinstance(drawn, Series) else RandomWeights()
        return kind.step(drawn, act, features)


class Exact(Sketch):
    """Factors of the batch's own kernel matrix: no randomness, no series, as many columns as points.

    For tests: the features of two batches have the right products only if they are made in one call.
    """

    def folds(self) -> bool:
        return False

    def draw(self, key: PRNGKeyArray, act: Activation, features: Features) -> Drawn:
        return ()

    def step(self, drawn: Drawn, act: Activation, features: Features) -> Features:
        features = features.plain()
        point, psi = features.point(), features.psi
        shape = point.std.shape
        x, std = point.direction.reshape(-1, point.direction.shape[-1]), point.std.reshape(-1)
        cov, unit = jnp.matmul(x, x.T, precision="highest"), jnp.sign(std)
        c = cosine(cov, unit[:, None], unit[None, :], ulps=8 + sqrt(x.shape[-1]))
        c = jnp.where(jnp.eye(len(std), dtype=bool), unit**2, c)
        if point.share is not None:
            share = point.share.reshape(-1)
            c = c * share[:, None] * share[None, :]
        pair = std[:, None], std[None, :], c

        def factor(matrix: Array) -> Columns:
            values, vectors = jnp.linalg.eigh((matrix + matrix.T) / 2)
            return kept((vectors * safe_sqrt(values)).reshape(*shape, -1))

        phi = factor(act.k(*pair))
        if psi is None:
            return replace(features, phi=phi)
        rows = psi.all().reshape(len(std), -1)
        psi = factor(jnp.matmul(rows, rows.T, precision="highest") * act.k_slope(*pair))
        return replace(features, phi=phi, psi=psi)


# Every kind by the name that users say. Files say the name of the class.
SKETCHES: dict[str, type[Sketch]] = {
    "auto": Auto, "random_weights": RandomWeights, "powers": Powers, "cosine": Cosine, "polysketch": PolySketch,
    "exact": Exact,
}  # fmt: skip


def as_sketch(sketch: str | Sketch, degree: int | None = None) -> Sketch:
    """The sketch of a name and a degree, or the object that is given."""
    if isinstance(sketch, Sketch):
        if degree is not None:
            raise ValueError(f"degree={degree} beside the object {sketch!r}, which says its own if any. Leave it out.")
        return sketch
    if sketch not in SKETCHES:
        raise ValueError(
            f"sketch is one of {', '.join(SKETCHES)}, or an object such as widelimit.sketch.Powers(), not {sketch!r}."
        )
    kind: Any = SKETCHES[sketch]
    if degree is None:
        return kind()
    if sketch in ("random_weights", "exact"):
        raise ValueError(f"sketch={sketch!r} has no degree: nothing is truncated. Leave degree out.")
    return kind(degree=degree)
