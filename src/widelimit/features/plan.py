"""How the columns of a network are planned and drawn: how many each activation makes, and the random numbers of all layers.

`plan_widths` finds the number of random columns with which the last layer has as many as were requested; `draw` gives the
random numbers, and `apply` the columns of inputs.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from math import prod

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray, PyTree

from ..activations import Activation
from ..layers import Layer
from ..layers.base import Drawn
from ..layers.shapes import OneOrMore
from ..sketches import Columns, Features, Sketch, Widths, kept
from ..sketches.features import FeatureContext

LEAST = 4  # random columns of an activation
_REFERENCE = 64  # rows
# columns where pixels are many: constants of a patch, which the NTK's columns hold too, must not fill them
_NARROWEST = {"nngp": 256, "ntk": 1024}


def start(x: Array, wants_ntk: bool, sketch: Sketch, widths: Widths) -> Features:
    """The features of the inputs themselves, exact."""
    columns = x * x.shape[-1] ** -0.5
    phi = kept(columns)
    if widths.grows:  # nothing is folded, and what is kept are constants
        phi = Columns(columns[..., :0], columns)
    return Features(phi, None, None, phi.squared(), None, x.shape[-1], FeatureContext(wants_ntk, sketch, widths))


def end(features: OneOrMore[Features]) -> Columns:
    """The columns of the requested kernel after the last layer."""
    assert isinstance(features, Features)  # open branches are refused before anything is drawn
    if not features.wants_ntk:
        return features.phi
    features = features.plain()
    return features.phi.map(jnp.zeros_like) if features.psi is None else features.psi


def draw(net: Layer, key: PRNGKeyArray, shape: tuple[int, ...], get: str, sketch: Sketch, widths: Widths) -> Drawn:
    """The random numbers of all layers; those of a few random inputs go through with them, as a reference."""
    draws, inputs = jax.random.split(key)
    return net.sketch(draws, _reference(inputs, shape, get, sketch, widths))


def _reference(key: PRNGKeyArray, shape: tuple[int, ...], get: str, sketch: Sketch, widths: Widths) -> Features:
    x = jax.random.normal(key, (_REFERENCE if len(shape) == 1 else 2, *shape), jnp.float32)
    return start(x, get == "ntk", sketch, widths)


# A program that runs once is not worth much optimisation. The network is static: how columns are allotted depends on its
# parameters.
draw_at_once = jax.jit(
    draw, static_argnames=("net", "shape", "get", "sketch", "widths"),
    compiler_options={"xla_backend_optimization_level": 0, "xla_gpu_autotune_level": 0},
)  # fmt: skip


def outline(
    net: Layer, shape: tuple[int, ...], get: str, sketch: Sketch, widths: Widths
) -> PyTree[jax.ShapeDtypeStruct]:
    """The shapes of what is drawn."""
    key = jax.eval_shape(lambda: jax.random.key(0))
    return jax.eval_shape(lambda key: draw(net, key, shape, get, sketch, widths), key)


def outline_and_count(
    net: Layer, shape: tuple[int, ...], get: str, sketch: Sketch, widths: Widths
) -> tuple[PyTree, int]:
    """The shapes of what is drawn, and how many columns the last layer has."""

    def run(key: PRNGKeyArray) -> tuple[Drawn, Array]:
        drawn, features = net.sketch_and_end(key, _reference(key, shape, get, sketch, widths))
        return drawn, end(features).all()

    drawn, columns = jax.eval_shape(run, jax.eval_shape(lambda: jax.random.key(0)))
    return drawn, columns.shape[-1]


def apply(net: Layer, drawn: Drawn, x: Array, get: str, sketch: Sketch, widths: Widths) -> Array:
    """The columns of x."""
    return end(net.features(drawn, start(x, get == "ntk", sketch, widths))).all()


def column_count(net: Layer, shape: tuple[int, ...], get: str, sketch: Sketch, widths: Widths) -> int:
    """How many columns the last layer has."""
    return outline_and_count(net, shape, get, sketch, widths)[1]


@lru_cache(maxsize=256)
def plan_widths(net: Layer, shape: tuple[int, ...], features: int, get: str, sketch: Sketch) -> Widths:
    """The widest plan with at most `features` columns at the end, or the narrowest one where all have more.

    Columns of rows may grow: nothing is folded, and exact columns are carried through all layers. Where those would leave
    little room for random ones, every activation makes the same number instead; for images, fewer where pixels are more.
    """
    columns = partial(column_count, net, shape, get, sketch)
    if len(shape) == 1 and sketch.folds():
        random = _widest(lambda random: columns(Widths(random, True)), features)
        if random is not None and random >= features // 32:
            return Widths(random, True)
    pixels = _fewest_pixels(net, shape), _NARROWEST[get]
    random = _widest(lambda random: columns(Widths(random, False, *pixels)), features)
    return Widths(LEAST if random is None else random, False, *pixels)


def _widest(columns: Callable[[int], int], features: int) -> int | None:
    """The largest number of random columns with which there are at most `features` in all, by the secant rule."""
    low, high = LEAST, max(features, LEAST + 1)
    at_low, at_high = columns(low), columns(high)
    if at_low > features:
        return None
    if at_high <= features:
        return high
    while high - low > 1:
        guess = low + (features - at_low) * (high - low) // (at_high - at_low)
        guess = min(max(guess, low + 1), high - 1)
        count = columns(guess)
        if count <= features < count + (at_high - at_low) / (high - low):  # one more would be too many
            return guess
        low, at_low, high, at_high = (guess, count, high, at_high) if count <= features else (low, at_low, guess, count)
    return low


def _fewest_pixels(net: Layer, shape: tuple[int, ...]) -> int | None:
    """How many pixels the activation that sees the fewest sees; None where none sees any."""
    seen: list[int] = []

    class Probe(Sketch):
        def draw(self, key: PRNGKeyArray, act: Activation, features: Features) -> Drawn:
            seen.extend([prod(features.spatial)] if features.spatial else [])

        def step(self, drawn: Drawn, act: Activation, features: Features) -> Features:
            return replace(features, phi=kept(features.phi.all()[..., :1]))

    outline(net, shape, "nngp", Probe(), Widths(1, True))
    return min(seen, default=None)
