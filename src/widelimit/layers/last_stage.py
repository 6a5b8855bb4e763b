"""A 3 x 3 convolution, an activation and the mean over all pixels, on a GPU in one pass over memory.

Networks for images end so, and where features stand for all stages but the last (`experiments`) this is what every pair of
images costs. The threads of `paired_windows` have what the activation needs: they go on to its dual and add it up over the
pixels, and no array of all pairs of pixels is written. `last_stage_by_layers` is the same by XLA: the definition, what other
devices run, and what derivatives are taken of.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, cast

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..activations import ABRelu, Abs, Activation, ExpNormalized, LeakyRelu, Relu
from ..activations.base import moment_dual
from ..numerics import safe_divide, safe_sqrt, set_at_one
from .base import Layer, Nonlinearity
from .paired_windows import fits, lanes, launch, plain_window_sum, runs_on_gpu, walk_pixels
from .spatial import GlobalAvgPool
from .state import State
from .weights import Conv

_TAKEN = ABRelu, Abs, ExpNormalized, LeakyRelu, Relu  # activations whose dual is a few steps of a thread


def last_stage(layers: Sequence[Layer], state: Any) -> State | None:
    """The state after the first three layers, where they are such a stage and run on a GPU; else None.

    Layers are looked at one by one: a stage that is put together of nested networks goes the usual way.
    """
    if [type(layer) for layer in layers[:3]] != [Conv, Nonlinearity, GlobalAvgPool]:
        return None
    conv, act = cast(Conv, layers[0]), cast(Nonlinearity, layers[1]).activation
    affine = conv.W_std**2 / conv.filter_size(), 0.0 if conv.b_std is None else conv.b_std**2
    if not _runs(conv, act, affine, state):
        return None
    state, var1, var2 = state.variances()
    nngp = fast_last_stage(state.ulps, False, act, jnp.stack(affine), state.nngp, var1, var2)
    weighted = (True,) * len(state.weighted)
    return replace(
        state, nngp=nngp, spatial=(), pairs=False, channels=conv.width, gaussian=False, weighted=weighted,
        after=GlobalAvgPool.__name__,
    )  # fmt: skip


def _runs(conv: Conv, act: Activation, affine: tuple, state: Any) -> bool:
    known = runs_on_gpu() and type(act) in _TAKEN and isinstance(state, State)
    paired = known and state.pairs and not state.tape.recording and not state.wants_ntk
    single = jnp.result_type(jnp.float32, *affine, *jax.tree.leaves(act)) == jnp.float32
    return paired and single and fits(state.nngp, state.spatial, *conv.windows)


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def fast_last_stage(
    ulps: float, interpret: bool, act: Activation, affine: Array, x: Array, var1: Array, var2: Array
) -> Array:
    """The kernels (n1, n2) after the stage, of covariances x, (n1, h, w, n2, h, w), before it.

    The convolution multiplies sums by `affine[0]` and adds `affine[1]`; var1 and var2 are the variances after it, of every
    pixel of either input. `interpret` runs the program of the GPU step by step on a CPU.
    """
    arrays = act, affine, x, var1, var2
    fast, slow = partial(_launched, ulps, interpret), partial(last_stage_by_layers, ulps)
    return fast(*arrays) if interpret else jax.lax.platform_dependent(*arrays, cuda=fast, default=slow)


@fast_last_stage.defjvp
def _jvp(ulps, interpret, primals, tangents):
    return jax.jvp(partial(last_stage_by_layers, ulps), primals, tangents)


def last_stage_by_layers(ulps: float, act: Activation, affine: Array, x: Array, var1: Array, var2: Array) -> Array:
    """The same by XLA."""
    cov = affine[0] * plain_window_sum(x) + affine[1]
    var1, var2 = var1.reshape(*x.shape[:3], 1, 1, 1), var2.reshape(1, 1, 1, *x.shape[3:])
    return moment_dual(ulps, act, cov, var1, var2).mean((1, 2, 4, 5))


def _launched(
    ulps: float, interpret: bool, act: Activation, affine: Array, x: Array, var1: Array, var2: Array
) -> Array:
    numbers, structure = jax.tree.flatten(act)
    stds = [safe_sqrt(var.reshape(-1)) for var in (var1, var2)]
    shape, row_length = x.shape, prod(x.shape[3:])

    def program(x_ref, std1_ref, inverse1_ref, std2_ref, inverse2_ref, affine_ref, act_ref, out_ref):
        from jax.experimental import pallas as pl

        own_act = jax.tree.unflatten(structure, [act_ref[i] for i in range(len(numbers))])
        scale, bias = affine_ref[0], affine_ref[1]

        def add(carried, place, total):
            c = (scale * total + bias) * inverse1_ref[place.first] * inverse2_ref[place.second]
            return carried + own_act.k(std1_ref[place.first], std2_ref[place.second], set_at_one(c, ulps))

        lane = lanes(shape)
        out_ref[pl.program_id(1) * row_length + lane] = walk_pixels(
            x_ref, shape, add, jnp.zeros(lane.shape, jnp.float32)
        )

    given: list[Any] = [x.reshape(-1)]
    for std in stds:
        given += [std, safe_divide(jnp.ones((), std.dtype), std)]
    given += [affine, jnp.stack([*numbers, 0.0])]  # an activation may have no number at all
    sums = launch(program, shape, shape[0] * row_length, interpret)(*given)
    return sums.reshape(shape[0], shape[3], -1).sum(-1) / prod(shape[-2:]) ** 2
