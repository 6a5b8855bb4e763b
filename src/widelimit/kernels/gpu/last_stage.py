"""A 3 x 3 convolution, an activation and the mean over all pixels, on a GPU in one pass over memory.

Networks for images end so, and where features stand for all stages but the last (`experiments`) this is what every pair of
images costs. The threads of `paired_windows` have what the activation needs: they go on to its dual and add it up over the
pixels, and no array of all pairs of pixels is written. `last_stage_by_layers` is the same by XLA: the definition, what other
devices run, and what derivatives are taken of.

`LastStage` is the layer that computes so, and stands for the three in a rewritten network.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import TypeAlias, cast

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ...activations import ABRelu, Abs, Activation, ExpNormalized, LeakyRelu, Relu
from ...activations.base import moment_dual
from ...layers import Conv, GlobalAvgPool, Layer, Nonlinearity
from ...layers.base import Scalar
from ...layers.serial import Serial
from ...layers.state import State
from ...numerics import safe_divide, safe_sqrt, set_at_one
from .paired_windows import PairedConv, Place, Ref, fits, lanes, launch, plain_window_sum, walk_pixels

_TAKEN = ABRelu, Abs, ExpNormalized, LeakyRelu, Relu  # activations whose dual is a few steps of a thread
Arguments: TypeAlias = tuple[Activation, Array, Array, Array, Array]  # of the program and its definition


class LastStage(Serial):
    """A Conv, an activation and GlobalAvgPool as one program where that fits, else one after the other."""

    @classmethod
    def replace(cls, layers: Sequence[Layer]) -> "LastStage | None":
        """What stands for three layers, where they are such a stage."""
        if [type(layer) for layer in layers] != [Conv, Nonlinearity, GlobalAvgPool]:
            return None
        conv, (act, pool) = PairedConv.replace(layers[:1]), layers[1:]
        known = conv is not None and type(cast(Nonlinearity, act).activation) in _TAKEN
        return cls((cast(PairedConv, conv), act, pool)) if known else None

    def propagate(self, state: State) -> State:
        conv, act = cast(PairedConv, self.layers[0]).conv, cast(Nonlinearity, self.layers[1]).activation
        affine = conv.W_std**2 / conv.filter_size(), 0.0 if conv.b_std is None else conv.b_std**2
        if not _fits(act, affine, state):
            return cast(State, super().propagate(state))
        state, var1, var2 = state.variances()
        nngp = fast_last_stage(state.context.ulps, False, act, jnp.stack(affine), state.nngp, var1, var2)
        weighted = (True,) * len(state.weighted)
        return replace(
            state, nngp=nngp, spatial=(), pairs=False, channels=conv.width, gaussian=False, weighted=weighted,
            after=GlobalAvgPool.__name__,
        )  # fmt: skip


def _fits(act: Activation, affine: tuple[Scalar, Scalar], state: State) -> bool:
    """Whether the program computes what is wanted: the NNGP alone, of all pairs of pixels, in float32 throughout."""
    nngp_of_pairs = state.pairs and not state.context.with_itself and not state.context.wants_ntk
    single = jnp.result_type(jnp.float32, *affine, *jax.tree.leaves(act)) == jnp.float32
    return nngp_of_pairs and single and fits(state.nngp, state.spatial)


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def fast_last_stage(
    ulps: float, interpret: bool, act: Activation, affine: Array, x: Array, var1: Array, var2: Array
) -> Array:
    """The kernels (n1, n2) after the stage, of covariances x, (n1, h, w, n2, h, w), before it.

    The convolution multiplies sums by `affine[0]` and adds `affine[1]`; var1 and var2 are the variances after it, of every
    pixel of either input. `interpret` runs the program of the GPU step by step on a CPU.
    """
    arrays = act, affine, x, var1, var2
    fast, slow = partial(_launch_stage, ulps, interpret), partial(last_stage_by_layers, ulps)
    return fast(*arrays) if interpret else jax.lax.platform_dependent(*arrays, cuda=fast, default=slow)


@fast_last_stage.defjvp
def _jvp(ulps: float, interpret: bool, primals: Arguments, tangents: Arguments) -> tuple[Array, Array]:
    return jax.jvp(partial(last_stage_by_layers, ulps), primals, tangents)


def last_stage_by_layers(ulps: float, act: Activation, affine: Array, x: Array, var1: Array, var2: Array) -> Array:
    """The same by XLA."""
    cov = affine[0] * plain_window_sum(x) + affine[1]
    var1, var2 = var1.reshape(*x.shape[:3], 1, 1, 1), var2.reshape(1, 1, 1, *x.shape[3:])
    return moment_dual(ulps, act, cov, var1, var2).mean((1, 2, 4, 5))


def _launch_stage(
    ulps: float, interpret: bool, act: Activation, affine: Array, x: Array, var1: Array, var2: Array
) -> Array:
    numbers, structure = jax.tree.flatten(act)
    stds = [safe_sqrt(var.reshape(-1)) for var in (var1, var2)]
    shape, row_length = x.shape, prod(x.shape[3:])

    def program(
        x_ref: Ref, std1_ref: Ref, inverse1_ref: Ref, std2_ref: Ref, inverse2_ref: Ref, affine_ref: Ref, act_ref: Ref,
        out_ref: Ref,
    ) -> None:  # fmt: skip
        from jax.experimental import pallas as pl

        own_act = jax.tree.unflatten(structure, [act_ref[i] for i in range(len(numbers))])
        scale, bias = affine_ref[0], affine_ref[1]

        def add(carried: Array, place: Place, total: Array) -> Array:
            c = (scale * total + bias) * inverse1_ref[place.first] * inverse2_ref[place.second]
            return carried + own_act.k(std1_ref[place.first], std2_ref[place.second], set_at_one(c, ulps))

        lane = lanes(shape)
        out_ref[pl.program_id(1) * row_length + lane] = walk_pixels(
            x_ref, shape, add, jnp.zeros(lane.shape, jnp.float32)
        )

    inputs: list[Array] = [x.reshape(-1)]
    for std in stds:
        inputs += [std, safe_divide(jnp.ones((), std.dtype), std)]
    inputs += [affine, jnp.stack([*numbers, 0.0])]  # an activation may have no number at all
    sums = launch(program, shape, shape[0] * row_length, interpret)(*inputs)
    return sums.reshape(shape[0], shape[3], -1).sum(-1) / prod(shape[-2:]) ** 2
