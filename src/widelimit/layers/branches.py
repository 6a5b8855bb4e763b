"""Branches: FanOut makes several states of one, parallel works on them, a fan-in makes one of them.

A sum or a concatenation of branches has the sum of their kernels if the branches are uncorrelated, and they are if each
has weights of its own. One branch, the short way of a residual block, may do without.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, TypeAlias, cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from ..numerics.checks import check_int
from ..sketches import Columns, Features, draw_signs, fold, join
from ..storage.module import nested
from .base import Batch, Drawn, Layer, Parameters, Values, as_layer
from .shapes import Branches, OneOrMore, Shape, T
from .state import State, Tape

Sum: TypeAlias = Callable[[Iterable[Array]], Array]  # how kernels, or variances, of branches become one


class FanOut(Layer):
    """`num` copies of what comes in."""

    num: int = eqx.field(static=True, converter=lambda num: check_int("The number of copies", num, least=1))

    def shape(self, shape: OneOrMore[Shape], width: int | None) -> Branches[Shape]:
        return Branches((shape,) * self.num)

    def propagate(self, state: OneOrMore[State]) -> Branches[State]:
        return Branches((_fan_out(state),) * self.num)

    def features(self, drawn: Drawn, features: OneOrMore[Features]) -> Branches[Features]:
        return Branches((features,) * self.num)

    def forward(self, params: Parameters, x: Batch, key: PRNGKeyArray | None) -> Branches[Array]:
        return Branches((x,) * self.num)


class Parallel(Layer):
    """One layer for each of several branches; see `parallel`."""

    layers: tuple[Layer, ...]
    takes_branches = True
    container: ClassVar[str] = "parallel"  # its name in JSON

    def __repr__(self) -> str:
        return nested("parallel", self.layers)

    def _match(self, branches: OneOrMore[T]) -> list[tuple[Layer, OneOrMore[T]]]:
        if not isinstance(branches, Branches):
            raise ValueError(f"parallel of {len(self.layers)} layers was given a single input. Put FanOut before it.")
        if len(branches) != len(self.layers):
            raise ValueError(
                f"parallel of {len(self.layers)} layers was given {len(branches)} branches. Make them as many."
            )
        return list(zip(self.layers, branches, strict=True))

    def shape(self, shape: OneOrMore[Shape], width: int | None) -> Branches[Shape]:
        return Branches(tuple(layer.shape(branch, width) for layer, branch in self._match(shape)))

    def needs_pairs(self, after: bool) -> bool:
        return any(layer.needs_pairs(after) for layer in self.layers)

    def propagate(self, state: OneOrMore[State]) -> Branches[State]:
        states: list[OneOrMore[State]] = []
        tape = _last(state).tape
        for layer, branch in self._match(state):  # one tape runs through all branches, one after the other
            states.append(layer.propagate(_with_tape(branch, tape)))
            tape = _last(states[-1]).tape
        return Branches(tuple(states))

    def sketch(self, key: PRNGKeyArray, features: OneOrMore[Features]) -> Drawn:
        steps = zip(self._keys(key), self._match(features), strict=True)
        return tuple(layer.sketch(own, branch) for own, (layer, branch) in steps)

    def features(self, drawn: Drawn, features: OneOrMore[Features]) -> Branches[Features]:
        steps = zip(self._match(features), drawn, strict=True)
        return Branches(tuple(layer.features(own, branch) for (layer, branch), own in steps))

    def draw(self, key: PRNGKeyArray, shape: OneOrMore[Shape], width: int) -> Parameters:
        steps = zip(self._keys(key), self._match(shape), strict=True)
        return tuple(layer.draw(own, branch, width) for own, (layer, branch) in steps)

    def forward(self, params: Parameters, x: Batch, key: PRNGKeyArray | None) -> Branches[Array]:
        keys = [None] * len(self.layers) if key is None else self._keys(key)
        steps = zip(self._match(x), params, keys, strict=True)
        return Branches(tuple(layer.forward(own, branch, k) for (layer, branch), own, k in steps))

    def _keys(self, key: PRNGKeyArray) -> list[PRNGKeyArray]:
        """A key for each layer."""
        return list(jax.random.split(key, len(self.layers)))


def parallel(*layers: object) -> Parallel:
    """Layers that work side by side on the branches of a FanOut."""
    return Parallel(tuple(as_layer(layer) for layer in layers))


class _FanIn(Layer):
    takes_branches = True

    def _branches(self, inputs: OneOrMore[T]) -> list[T]:
        if not isinstance(inputs, Branches):
            raise ValueError(
                f"{type(self).__name__} joins branches and was given a single input. Put FanOut before it."
            )
        return cast(list[T], list(inputs))

    def _check_equal(self, shapes: Sequence[Shape], free: int | None = None) -> None:
        """Refuse branches that differ in an axis other than `free`; a size that is not known fits any."""
        rank = len(shapes[0])
        sizes = [{shape[i] for shape in shapes if i < len(shape)} - {None} for i in range(rank) if i != free]
        if any(len(shape) != rank for shape in shapes) or any(len(known) > 1 for known in sizes):
            raise ValueError(
                f"{type(self).__name__} of branches of different shapes, {', '.join(map(str, shapes))}. Make them equal."
            )

    def _check_uncorrelated(self, states: list[State], gaussian: bool) -> None:
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

    def sketch(self, key: PRNGKeyArray, features: OneOrMore[Features]) -> Drawn:
        phi_key, psi_key = jax.random.split(key)
        branches = [f.plain() for f in self._branches(features)]
        cap = branches[0].cap
        psis = [f.psi for f in branches if f.psi is not None]
        return _draw_fold(phi_key, [f.phi for f in branches], cap), _draw_fold(psi_key, psis, cap)

    def _join_features(
        self, drawn: Drawn, branches: list[Features], join_columns: Callable[[list[Columns]], Columns], **changes: Any
    ) -> Features:
        """The branches' columns put together, and folded where they are too many."""
        cap = branches[0].cap
        phi = _fold_mixed(drawn[0], join_columns([f.phi for f in branches]), cap)
        some = any(f.psi is not None for f in branches)
        psi = _fold_mixed(drawn[1], join_columns(_psi_of_all(branches)), cap) if some else None
        return replace(branches[0], phi=phi, psi=psi, **changes)

    def _join_states(self, states: list[State], **changes: Any) -> State:
        # on the levels outside, the joint branch has weights of its own only if no part of it is without
        weighted = tuple(map(all, zip(*(state.weighted[1:] for state in states), strict=True)))
        return replace(states[0], tape=states[-1].tape, weighted=weighted, after=type(self).__name__, **changes)


class FanInSum(_FanIn):
    """The sum of the branches, which must agree in shape."""

    def shape(self, shape: OneOrMore[Shape], width: int | None) -> Shape:
        branches = self._branches(shape)
        self._check_equal(branches)
        return Shape(next((size for size in sizes if size is not None), None) for sizes in zip(*branches, strict=True))

    def propagate(self, state: OneOrMore[State]) -> State:
        states = self._branches(state)
        self._check_uncorrelated(states, gaussian=True)
        channels = self.shape(Branches(tuple(s.shape for s in states)), None).channels
        return self._join_states(
            states, nngp=_sum(s.nngp for s in states), ntk=_joint_ntk(states, _sum), channels=channels
        )

    def features(self, drawn: Drawn, features: OneOrMore[Features]) -> Features:
        branches = [f.plain() for f in self._branches(features)]
        channels = self.shape(Branches(tuple(map(_shape, branches))), None).channels
        variance = _joint_variance(branches, _sum)
        return self._join_features(drawn, branches, lambda parts: join(*parts), **variance, channels=channels)

    def forward(self, params: Parameters, x: Batch, key: PRNGKeyArray | None) -> Values:
        return _sum(self._branches(x))


def single_axis(axis: object) -> int:
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

    def shape(self, shape: OneOrMore[Shape], width: int | None) -> Shape:
        branches = self._branches(shape)
        axis = self._axis(len(branches[0]) + 1)
        self._check_equal(branches, free=axis)
        joined = [branch[axis] for branch in branches]
        known = [size for size in joined if size is not None]
        total = sum(known) if len(known) == len(joined) else None
        return Shape(total if i == axis else size for i, size in enumerate(branches[0]))

    def propagate(self, state: OneOrMore[State]) -> State:
        states = self._branches(state)
        rank = len(states[0].spatial)
        axis = self._axis(rank + 2)
        shape = self.shape(Branches(tuple(s.shape for s in states)), None)
        along_channels = axis == rank
        self._check_uncorrelated(states, gaussian=not along_channels)
        join = self._mix(states) if along_channels else _join_pixels(states, axis)
        return self._join_states(
            states, nngp=join([s.nngp for s in states]), ntk=_joint_ntk(states, join), spatial=shape.spatial,
            channels=shape.channels, gaussian=not along_channels,
        )  # fmt: skip

    def features(self, drawn: Drawn, features: OneOrMore[Features]) -> Features:
        branches = [f.plain() for f in self._branches(features)]
        rank = len(branches[0].spatial)
        axis = self._axis(rank + 2)
        channels = self.shape(Branches(tuple(map(_shape, branches))), None).channels
        if axis < rank:
            variance = _joint_variance(branches, lambda parts: jnp.concatenate(list(parts), axis + 1))
            return self._join_features(
                drawn, branches, lambda parts: _pixels_apart(parts, axis + 1), **variance, channels=channels
            )
        shares = self._shares(branches)
        scaled = [f.map(partial(Columns.scaled, factor=share**0.5)) for f, share in zip(branches, shares, strict=True)]
        variance = _joint_variance(branches, self._mix(branches))
        return self._join_features(drawn, scaled, lambda parts: join(*parts), **variance, channels=channels)

    def _shares(self, states: Sequence[State | Features]) -> list[float]:
        """How much of all channels each branch has: by its width, or equally where none was said."""
        widths = [s.channels for s in states]
        if None in widths and any(widths):
            raise ValueError(
                f"FanInConcat of branches of the widths {widths}, of which only some are known. Give width= in every branch "
                "that has weights."
            )
        shares = [width or 1 for width in widths]
        return [share / sum(shares) for share in shares]

    def _mix(self, states: Sequence[State | Features]) -> Sum:
        """The mean over the channels of all branches."""
        shares = self._shares(states)
        return lambda kernels: _sum(share * kernel for share, kernel in zip(shares, kernels, strict=True))

    def forward(self, params: Parameters, x: Batch, key: PRNGKeyArray | None) -> Values:
        branches = self._branches(x)
        return jnp.concatenate(branches, axis=self._axis(branches[0].ndim) + 1)


def _sum(arrays: Iterable[Array]) -> Array:
    """The sum of one array or more."""
    first, *others = arrays
    return sum(others, first)


def _shape(features: Features) -> Shape:
    return Shape((*features.spatial, features.channels))


def _fan_out(state: OneOrMore[State]) -> OneOrMore[State]:
    """The state, noting that no weights came since."""
    if isinstance(state, Branches):
        return Branches(tuple(_fan_out(branch) for branch in state))
    return replace(state, weighted=(False, *state.weighted))


def _last(state: OneOrMore[State]) -> State:
    return _last(state[-1]) if isinstance(state, Branches) else state


def _with_tape(state: OneOrMore[State], tape: Tape) -> OneOrMore[State]:
    """The state with another tape; of several branches, the last has it."""
    if isinstance(state, Branches):
        return Branches((*state.items[:-1], _with_tape(state[-1], tape)))
    return replace(state, tape=tape)


def _joint_ntk(states: list[State], join: Sum) -> Array | None:
    """The joint NTK, that of a branch without weights being 0."""
    if all(state.ntk is None for state in states):
        return None
    return join([jnp.zeros_like(state.nngp) if state.ntk is None else state.ntk for state in states])


def _join_pixels(states: list[State], axis: int) -> Sum:
    """Kernels side by side along a spatial axis; between pixels of different branches the covariance is 0."""

    def join(kernels: Iterable[Array]) -> Array:
        kernels = list(kernels)
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


def _zeros(kernel: Array, other: Array, axis: int) -> Array:
    shape = list(kernel.shape)
    shape[axis] = other.shape[axis]
    return jnp.zeros(shape, kernel.dtype)


# The features of branches.


def _psi_of_all(branches: list[Features]) -> list[Columns]:
    """The columns of the NTK of every branch, none where it has no weights."""
    return [f.phi.map(lambda x: x[..., :0]) if f.psi is None else f.psi for f in branches]


def _joint_variance(branches: list[Features], combine: Sum) -> dict[str, Array | None]:
    """What is known of the variance after branches met, from how variances combine."""
    variances = [f.variance for f in branches if f.variance is not None]
    added = None
    if any(f.added is not None for f in branches):
        added = combine([jnp.zeros_like(f.total_variance()) if f.added is None else f.added for f in branches])
    return {"variance": combine(variances) if len(variances) == len(branches) else None, "added": added}


def _pixels_apart(parts: list[Columns], axis: int) -> Columns:
    """Pixels side by side along an axis, those of different branches in different columns."""

    def place(arrays: list[Array]) -> Array:
        total, before, rows = sum(x.shape[-1] for x in arrays), 0, []
        for x in arrays:
            rows.append(jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(before, total - before - x.shape[-1])]))
            before += x.shape[-1]
        return jnp.concatenate(rows, axis)

    return Columns(place([part.kept for part in parts]), place([part.mixed for part in parts]))


def _draw_fold(key: PRNGKeyArray, parts: list[Columns], cap: int | None) -> Array | None:
    """Signs for all mixed columns, where they are to be folded."""
    mixed = sum(part.mixed.shape[-1] for part in parts)
    return None if cap is None or mixed <= cap else draw_signs(key, mixed)


def _fold_mixed(signs: Array | None, columns: Columns, cap: int | None) -> Columns:
    if signs is None or cap is None:
        return columns
    return Columns(columns.kept, fold(signs, columns.mixed, max(1, cap - columns.kept.shape[-1])))
