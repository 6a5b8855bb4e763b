"""Branches: FanOut makes several states of one, parallel works on them, a fan-in makes one of them.

A sum or a concatenation of branches has the sum of their kernels if the branches are uncorrelated, and they are if each
has weights of its own. One branch, the short way of a residual block, may do without.
"""

from collections.abc import Callable
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..described import nested, whole
from ..state import State
from .base import Layer, as_layer


class FanOut(Layer):
    """`num` copies of what comes in."""

    num: int = eqx.field(static=True, converter=lambda num: whole("The number of copies", num, least=1))

    def shape(self, shape, width):
        return [shape] * self.num

    def propagate(self, state):
        return [replace(state, weighted=(False, *state.weighted))] * self.num

    def forward(self, params, x, key):
        return [x] * self.num


class Parallel(Layer):
    """One layer for each of several branches; see `parallel`."""

    layers: tuple[Layer, ...]
    takes_branches = True

    def __repr__(self):
        return nested("parallel", self.layers)

    def _matched(self, branches) -> list:
        if not isinstance(branches, list):
            raise ValueError(f"parallel of {len(self.layers)} layers was given a single input. Put FanOut before it.")
        if len(branches) != len(self.layers):
            raise ValueError(
                f"parallel of {len(self.layers)} layers was given {len(branches)} branches. Make them as many."
            )
        return list(zip(self.layers, branches, strict=True))

    def shape(self, shape, width):
        return [layer.shape(branch, width) for layer, branch in self._matched(shape)]

    def needs_pairs(self, after):
        return any(layer.needs_pairs(after) for layer in self.layers)

    def propagate(self, state):
        states, tape = [], _last(state).tape
        for layer, branch in self._matched(state):  # one tape runs through all branches, one after the other
            states.append(layer.propagate(replace(branch, tape=tape)))
            tape = _last(states[-1]).tape
        return states

    def draw(self, key, shape, width):
        keys = jax.random.split(key, len(self.layers))
        return tuple(
            layer.draw(k, branch, width) for k, (layer, branch) in zip(keys, self._matched(shape), strict=True)
        )

    def forward(self, params, x, key):
        keys = [None] * len(self.layers) if key is None else jax.random.split(key, len(self.layers))
        steps = zip(self._matched(x), params, keys, strict=True)
        return [layer.forward(own, branch, k) for (layer, branch), own, k in steps]


def parallel(*layers) -> Parallel:
    """Layers that work side by side on the branches of a FanOut."""
    return Parallel(tuple(as_layer(layer) for layer in layers))


class _FanIn(Layer):
    takes_branches = True

    def _branches(self, given) -> list:
        if not isinstance(given, list):
            raise ValueError(
                f"{type(self).__name__} joins branches and was given a single input. Put FanOut before it."
            )
        return given

    def _uncorrelated(self, states: list[State], gaussian: bool) -> None:
        name = type(self).__name__
        if sum(not state.weighted[0] for state in states) > 1:
            raise ValueError(
                f"{name} joins {len(states)} branches of which more than one has no weights of its own, so that they are "
                "correlated. Put Dense or Conv into all of them but one."
            )
        for state in states:
            if gaussian and not state.gaussian:
                raise ValueError(
                    f"{name} needs Gaussian branches but one ends with {state.after}. End it with Dense or Conv."
                )

    def _joined(self, states: list[State], **changes) -> State:
        # on the levels outside, the joint branch has weights of its own only if no part of it is without
        weighted = tuple(map(all, zip(*(state.weighted[1:] for state in states), strict=True)))
        return replace(states[0], tape=states[-1].tape, weighted=weighted, after=type(self).__name__, **changes)


class FanInSum(_FanIn):
    """The sum of the branches, which must agree in shape."""

    def shape(self, shape, width):
        branches = self._branches(shape)
        sizes = [{branch[i] for branch in branches if i < len(branch)} - {None} for i in range(len(branches[0]))]
        if len({len(branch) for branch in branches}) > 1 or any(len(size) > 1 for size in sizes):
            raise ValueError(
                f"FanInSum of branches of different shapes, {', '.join(map(str, branches))}. Make them equal."
            )
        return tuple(next(iter(size), None) for size in sizes)

    def propagate(self, state):
        states = self._branches(state)
        self._uncorrelated(states, gaussian=True)
        *_, channels = self.shape([(*s.spatial, s.channels) for s in states], None)
        return self._joined(states, nngp=sum(s.nngp for s in states), ntk=_joint_ntk(states, sum), channels=channels)

    def forward(self, params, x, key):
        return sum(self._branches(x))


def single_axis(axis):
    """One axis."""
    if isinstance(axis, bool) or not isinstance(axis, int):
        raise TypeError(f"FanInConcat joins along one axis, a whole number such as -1, not {axis!r}.")
    return axis


class FanInConcat(_FanIn):
    """The branches joined along `axis`: the channels (-1), or a spatial axis."""

    axis: int = eqx.field(default=-1, static=True, converter=single_axis)

    def _axis(self, rank: int) -> int:
        """The axis among the spatial ones and the channels, counting from 0; `rank` counts the batch too."""
        axis = self.axis % rank if -rank <= self.axis < rank else 0
        if axis == 0:
            raise ValueError(
                f"FanInConcat(axis={self.axis}) on inputs of {rank} axes. Name the channels, -1, or a spatial axis."
            )
        return axis - 1

    def shape(self, shape, width):
        branches = self._branches(shape)
        axis = self._axis(len(branches[0]) + 1)
        sizes = [{b[i] for b in branches if i < len(b)} - {None} for i in range(len(branches[0])) if i != axis]
        if len({len(branch) for branch in branches}) > 1 or any(len(size) > 1 for size in sizes):
            raise ValueError(
                f"FanInConcat of branches of different shapes, {', '.join(map(str, branches))}. Make them equal."
            )
        joined = [branch[axis] for branch in branches]
        total = None if None in joined else sum(joined)
        return tuple(total if i == axis else size for i, size in enumerate(branches[0]))

    def propagate(self, state):
        states = self._branches(state)
        rank = len(states[0].spatial)
        axis = self._axis(rank + 2)
        shape = self.shape([(*s.spatial, s.channels) for s in states], None)
        along_channels = axis == rank
        self._uncorrelated(states, gaussian=not along_channels)
        changes = {"spatial": tuple(shape[:-1]), "channels": shape[-1]}
        join = self._mix(states) if along_channels else _join_pixels(states, axis)
        changes |= {"nngp": join([s.nngp for s in states]), "ntk": _joint_ntk(states, join)}
        return self._joined(states, gaussian=not along_channels, **changes)

    def _mix(self, states: list[State]) -> Callable:
        """The mean over the channels of all branches, each weighted by its width; equal where none was said."""
        given = [s.channels for s in states]
        if None in given and any(given):
            raise ValueError(
                f"FanInConcat of branches of the widths {given}, of which only some are known. Give width= in every branch "
                "that has weights."
            )
        widths = [width or 1 for width in given]
        return lambda kernels: sum(w / sum(widths) * kernel for w, kernel in zip(widths, kernels, strict=True))

    def forward(self, params, x, key):
        return jnp.concatenate(self._branches(x), axis=self._axis(x[0].ndim) + 1)


def _last(state: State | list) -> State:
    return _last(state[-1]) if isinstance(state, list) else state


def _joint_ntk(states: list[State], join: Callable) -> Array | None:
    """The joint NTK, that of a branch without weights being 0."""
    if all(state.ntk is None for state in states):
        return None
    return join([jnp.zeros_like(state.nngp) if state.ntk is None else state.ntk for state in states])


def _join_pixels(states: list[State], axis: int) -> Callable:
    """Kernels side by side along a spatial axis; between pixels of different branches the covariance is 0."""
    rank = len(states[0].spatial)

    def join(kernels):
        first = kernels[0].ndim - rank * (2 if states[0].pairs else 1) + axis
        if not states[0].pairs:
            return jnp.concatenate(kernels, first)
        rows = [
            jnp.concatenate(
                [kernel if i == j else _zeros(kernel, other, first + rank) for j, other in enumerate(kernels)],
                first + rank,
            )
            for i, kernel in enumerate(kernels)
        ]
        return jnp.concatenate(rows, first)

    return join


def _zeros(kernel, other, axis):
    shape = list(kernel.shape)
    shape[axis] = other.shape[axis]
    return jnp.zeros(shape, kernel.dtype)
