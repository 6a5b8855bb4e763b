"""Layers in a row: every reading goes through one after the other."""

from dataclasses import replace

import jax
from jaxtyping import PRNGKeyArray

from ..sketches import Features
from ..storage.module import nested
from .base import WRONG_PARAMETERS, Batch, Drawn, Layer, Parameters
from .shapes import Branches, OneOrMore, Shape, Sizes, as_shape
from .state import State


class Serial(Layer):
    """Layers in a row; `widelimit.serial` makes a `Network` of them, which is one that users call."""

    layers: tuple[Layer, ...]
    takes_branches = True

    def shape(self, shape: Sizes | Branches[Shape], width: int | None) -> OneOrMore[Shape]:
        after = as_shape(shape)
        for layer in self.layers:
            if isinstance(after, Branches) and not layer.takes_branches:
                raise ValueError(
                    f"{layer!r} was given {len(after)} branches. Put parallel(...) or a fan-in after FanOut."
                )
            after = as_shape(layer.shape(after, width))
        return after

    def needs_pairs(self, after: bool) -> bool:
        return self._pairs_by_layer(after)[0]

    def _pairs_by_layer(self, after: bool) -> list[bool]:
        """Whether pairs of different pixels are needed before each layer, and after the last."""
        needed = [after]
        for layer in reversed(self.layers):
            needed.append(layer.needs_pairs(needed[-1]))
        return needed[::-1]

    def propagate(self, state: OneOrMore[State]) -> OneOrMore[State]:
        needed = self._pairs_by_layer(first_state(state).context.keep_pairs)
        for layer, before, after in zip(self.layers, needed[:-1], needed[1:], strict=True):
            state = layer.propagate(_with_pairs(state, before, after))
        return state

    def draw(self, key: PRNGKeyArray, shape: Sizes | Branches[Shape], width: int) -> Parameters:
        params, after = [], as_shape(shape)
        for layer, own in zip(self.layers, self._keys(key), strict=True):
            params.append(layer.draw(own, after, width))
            after = as_shape(layer.shape(after, width))
        return tuple(params)

    def forward(self, params: Parameters, x: Batch, key: PRNGKeyArray | None) -> Batch:
        if not isinstance(params, tuple | list) or len(params) != len(self.layers):
            raise ValueError(WRONG_PARAMETERS)
        keys = [None] * len(self.layers) if key is None else self._keys(key)
        for layer, own, k in zip(self.layers, params, keys, strict=True):
            x = layer.forward(own, x, k)
        return x

    def sketch(self, key: PRNGKeyArray, features: OneOrMore[Features]) -> Drawn:
        return self.sketch_and_end(key, features)[0]

    def sketch_and_end(self, key: PRNGKeyArray, features: OneOrMore[Features]) -> tuple[Drawn, OneOrMore[Features]]:
        drawn = []
        for layer, own in zip(self.layers, self._keys(key), strict=True):
            drawn.append(layer.sketch(own, features))
            features = layer.features(drawn[-1], features)
        return tuple(drawn), features

    def features(self, drawn: Drawn, features: OneOrMore[Features]) -> OneOrMore[Features]:
        for layer, own in zip(self.layers, drawn, strict=True):
            features = layer.features(own, features)
        return features

    def _keys(self, key: PRNGKeyArray) -> list[PRNGKeyArray]:
        """A key for each layer."""
        return list(jax.random.split(key, len(self.layers))) if self.layers else []

    def __repr__(self) -> str:
        return nested("serial", self.layers)


def first_state(state: OneOrMore[State]) -> State:
    """The state, or that of the first branch: all branches have one context."""
    return first_state(state[0]) if isinstance(state, Branches) else state


def _with_pairs(state: OneOrMore[State], pairs: bool, keep: bool) -> OneOrMore[State]:
    """The state of one or all branches, with no more pairs of pixels than the next layer needs, and those after it."""
    if isinstance(state, Branches):
        return Branches(tuple(_with_pairs(branch, pairs, keep) for branch in state))
    context = state.context._replace(keep_pairs=keep)
    return replace(state if pairs else state.diagonal(), context=context)
