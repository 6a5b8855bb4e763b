"""The feature reading: a network as a map from inputs to columns whose products approximate its kernel.

`feature_map` plans how many columns each activation makes, so that the last layer has as many as were asked for, and
draws the random numbers once; the map is a pytree.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from .layers import Layer
from .sketch import Columns, Features, Sketch, Widths, kept

_LEAST = 4  # random columns of an activation
_BATCH_BYTES = 2**26  # of the widest array of a batch


def _start(x: Array, wants_ntk: bool, sketch: Sketch, widths: Widths) -> Features:
    """The features of the inputs themselves, exact."""
    phi = kept(x * x.shape[-1] ** -0.5)
    return Features(phi, None, phi.squared(), None, wants_ntk, x.shape[-1], sketch, widths)


def _end(features: Features) -> Columns:
    """The columns asked for after the last layer."""
    if not features.wants_ntk:
        return features.phi
    return features.phi.map(jnp.zeros_like) if features.psi is None else features.psi


def _draw(net: Layer, key: PRNGKeyArray, shape: tuple[int, ...], get: str, sketch: Sketch, widths: Widths) -> Any:
    x = jax.ShapeDtypeStruct((1, *shape), jnp.float32)
    return net.sketch(key, jax.eval_shape(lambda x: _start(x, get == "ntk", sketch, widths), x))


def _apply(net: Layer, drawn: Any, x: Array, get: str, sketch: Sketch, widths: Widths) -> Array:
    return _end(net.features(drawn, _start(x, get == "ntk", sketch, widths))).all()


def _columns(net: Layer, shape: tuple[int, ...], get: str, sketch: Sketch, widths: Widths) -> int:
    """How many columns the last layer has."""

    def run(key, x):
        return _apply(net, _draw(net, key, shape, get, sketch, widths), x, get, sketch, widths)

    key, x = jax.eval_shape(lambda: jax.random.key(0)), jax.ShapeDtypeStruct((1, *shape), jnp.float32)
    return jax.eval_shape(run, key, x).shape[-1]


def planned(net: Layer, shape: tuple[int, ...], features: int, get: str, sketch: Sketch) -> Widths:
    """The widest plan with at most `features` columns at the end.

    Rows may grow: nothing is folded, and exact columns are carried through all layers. Where those would leave little
    room for random ones, and for images, every activation makes equally many instead.
    """
    if len(shape) == 1 and sketch.folds():
        found = _widest(partial(_columns, net, shape, get, sketch), features, grows=True)
        if found is not None and found.random >= features // 32:
            return found
    found = _widest(partial(_columns, net, shape, get, sketch), features, grows=False)
    if found is None:
        least = _columns(net, shape, get, sketch, Widths(_LEAST, False))
        raise ValueError(
            f"features={features} are too few for this network, whose features have {least} columns at least. Give more."
        )
    return found


def _widest(columns: Any, features: int, grows: bool) -> Widths | None:
    """The largest number of random columns with which there are at most `features` in all, by the secant rule."""
    low, high = _LEAST, max(features, _LEAST + 1)
    at_low, at_high = columns(Widths(low, grows)), columns(Widths(high, grows))
    if at_low > features:
        return None
    if at_high <= features:
        return Widths(high, grows)
    while high - low > 1:
        guess = low + (features - at_low) * (high - low) // (at_high - at_low)
        guess = min(max(guess, low + 1), high - 1)
        found = columns(Widths(guess, grows))
        low, at_low, high, at_high = (guess, found, high, at_high) if found <= features else (low, at_low, guess, found)
        if low == guess and columns(Widths(low + 1, grows)) > features:
            break
    return Widths(low, grows)
