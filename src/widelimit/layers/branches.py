"""Branches: FanOut makes several states of one, parallel works on them, a fan-in makes one of them.

A sum or a concatenation of branches has the sum of their kernels if the branches are uncorrelated, and they are if each
has weights of its own. One branch, the short way of a residual block, may do without.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from ..numerics.checks import check_int
from ..sketches import Columns, Features, draw_signs, fold, join
from ..storage.module import nested
from .base import Layer, as_layer
from .state import State


class FanOut(Layer):
    """`num` copies of what comes in."""

    num: int = eqx.field(static=True, converter=lambda num: check_int("The number of copies", num, least=1))

    def shape(self, shape, width):
        return [shape] * self.num

    def propagate(self, state):
        return [replace(state, weighted=(False, *state.weighted))] * self.num

    def features(self, drawn, features):
        return [features] * self.num

    def forward(self, params, x, key):
        return [x] * self.num


class Parallel(Layer):
    """One layer for each of several branches; see `parallel`."""

    layers: tuple[Layer, ...]
    takes_branches = True
    container: ClassVar[str] = "parallel"  # its name in JSON

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

    def sketch(self, key, features):
        keys = jax.random.split(key, len(self.layers))
        return tuple(
            layer.sketch(own, branch) for own, (layer, branch) in zip(keys, self._matched(features), strict=True)
        )

    def features(self, drawn, features):
        steps = zip(self._matched(features), drawn, strict=True)
        return [layer.features(own, branch) for (layer, branch), own in steps]

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

    def sketch(self, key, features):
        phi_key, psi_key = jax.random.split(key)
        features = [f.plain() for f in features]
        cap = features[0].cap
        psis = [f.psi for f in features if f.psi is not None]
        return _draw_fold(phi_key, [f.phi for f in features], cap), _draw_fold(psi_key, psis, cap)

    def _joined_features(self, drawn, branches: list[Features], put_together: Callable, **changes) -> Features:
        """The branches' columns put together, and folded where they are too many."""
        cap = branches[0].cap
        phi = _folded(drawn[0], put_together([f.phi for f in branches]), cap)
        some = any(f.psi is not None for f in branches)
        psi = _folded(drawn[1], put_together(_all_psi(branches)), cap) if some else None
        return replace(branches[0], phi=phi, psi=psi, **changes)

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

    def features(self, drawn, features):
        features = [f.plain() for f in features]
        *_, channels = self.shape([(*f.spatial, f.channels) for f in features], None)
        return self._joined_features(
            drawn, features, lambda parts: join(*parts), **_joint_variance(features, sum), channels=channels
        )

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

    def features(self, drawn, features):
        features = [f.plain() for f in features]
        rank = len(features[0].spatial)
        axis = self._axis(rank + 2)
        shape = self.shape([(*f.spatial, f.channels) for f in features], None)
        if axis < rank:
            variance = _joint_variance(features, lambda parts: jnp.concatenate(parts, axis + 1))
            return self._joined_features(
                drawn, features, lambda parts: _pixels_apart(parts, axis + 1), **variance, channels=shape[-1]
            )
        shares = self._shares(features)
        scaled = [
            f.map(lambda columns, share=share: columns.scaled(share**0.5))
            for f, share in zip(features, shares, strict=True)
        ]
        variance = _joint_variance(features, self._mix(features))
        return self._joined_features(drawn, scaled, lambda parts: join(*parts), **variance, channels=shape[-1])

    def _shares(self, states: list) -> list[float]:
        """How much of all channels each branch has: by its width, or equally where none was said."""
        given = [s.channels for s in states]
        if None in given and any(given):
            raise ValueError(
                f"FanInConcat of branches of the widths {given}, of which only some are known. Give width= in every branch "
                "that has weights."
            )
        widths = [width or 1 for width in given]
        return [width / sum(widths) for width in widths]

    def _mix(self, states: list) -> Callable:
        """The mean over the channels of all branches."""
        shares = self._shares(states)
        return lambda kernels: sum(share * kernel for share, kernel in zip(shares, kernels, strict=True))

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

    def join(kernels):
        axes = states[0].pixel_axes(kernels[0])[axis]
        if len(axes) == 1:
            return jnp.concatenate(kernels, axes[0])
        first, second = axes
        rows = [
            jnp.concatenate(
                [kernel if i == j else _zeros(kernel, other, second) for j, other in enumerate(kernels)], second
            )
            for i, kernel in enumerate(kernels)
        ]
        return jnp.concatenate(rows, first)

    return join


def _zeros(kernel, other, axis):
    shape = list(kernel.shape)
    shape[axis] = other.shape[axis]
    return jnp.zeros(shape, kernel.dtype)


# The features of branches.


def _all_psi(branches: list[Features]) -> list[Columns]:
    """The columns of the NTK of every branch, none where it has no weights."""
    return [f.phi.map(lambda x: x[..., :0]) if f.psi is None else f.psi for f in branches]


def _joint_variance(branches: list[Features], combine: Callable) -> dict[str, Array | None]:
    """What is known of the variance after branches met, from how variances combine."""
    variances, added = [f.variance for f in branches], [f.added for f in branches]
    if not all(variance is not None for variance in variances):
        variances = []
    if all(part is None for part in added):
        added = []
    filled = [jnp.zeros_like(f.total_variance()) if f.added is None else f.added for f in branches] if added else []
    return {"variance": combine(variances) if variances else None, "added": combine(filled) if filled else None}


def _pixels_apart(parts: list[Columns], axis: int) -> Columns:
    """Pixels side by side along an axis, those of different branches in different columns."""

    def placed(arrays):
        total, before, rows = sum(x.shape[-1] for x in arrays), 0, []
        for x in arrays:
            rows.append(jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(before, total - before - x.shape[-1])]))
            before += x.shape[-1]
        return jnp.concatenate(rows, axis)

    return Columns(placed([part.kept for part in parts]), placed([part.mixed for part in parts]))


def _draw_fold(key: PRNGKeyArray, parts: list[Columns], cap: int | None) -> Array | None:
    """Signs for all mixed columns, where they are to be folded."""
    mixed = sum(part.mixed.shape[-1] for part in parts)
    return None if cap is None or mixed <= cap else draw_signs(key, mixed)


def _folded(signs: Array | None, columns: Columns, cap: int | None) -> Columns:
    if signs is None or cap is None:
        return columns
    return Columns(columns.kept, fold(signs, columns.mixed, max(1, cap - columns.kept.shape[-1])))
