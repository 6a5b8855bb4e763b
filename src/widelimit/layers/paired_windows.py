"""The kernel of a 3 x 3 convolution on a GPU: sums over the displacements common to two pixels, in one pass over memory.

XLA takes two passes, one for each spatial axis, and each reads what lies a pixel further in both inputs, at addresses that
suit no GPU. Seen from a displacement d = q - p of the two pixels, a sum over common displacements stays within d. So here a
thread has a pair of inputs and one displacement, walks over all pixels p, and keeps the three rows of sums that it needs in
registers: every covariance is read once and every sum written once. Displacements go round at the borders of the second
input, so that there are as many as pixels, and what lies beyond a border is left out of the sum.

`common_window_sum` is the same by XLA: the definition, what other devices run, and what derivatives are taken of.
"""

from collections.abc import Sequence
from functools import partial
from math import prod

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..numerics import stored
from .windows import window_sum

_SIDE = 3
_LANES = 256  # displacements of pairs of inputs in work together, one for each thread
_WIDEST = 32  # pixels of a row, three rows of which are kept in registers


def common_window_sum(x: Array, axes: Sequence[tuple[int, ...]], sizes, strides, padding: str) -> Array:
    """The sum over the windows of all spatial axes; `axes` has for each where it is in either input."""
    for i, (both, size, stride) in enumerate(zip(axes, sizes, strides, strict=True)):
        x = window_sum(x if i == 0 else stored(x), both, size, stride, padding)
    return x


def runs_on_gpu() -> bool:
    """Whether programs go to a GPU as a rule; `fast_window_sum` of an array elsewhere is `common_window_sum` all the same."""
    return jax.default_backend() == "gpu"


def fits(x: Array, spatial: tuple[int, ...], sizes, strides, padding: str) -> bool:
    """Whether `fast_window_sum` can take covariances of pixels of two inputs, (n, h, w, ..., h, w)."""
    plain = padding == "SAME" and tuple(sizes) == (_SIDE, _SIDE) and set(strides) == {1}
    return plain and x.dtype == jnp.float32 and max(spatial) <= _WIDEST and 0 < x.size < 2**31


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def fast_window_sum(x: Array, interpret: bool = False) -> Array:
    """The sums of (n, h, w, ..., h, w) over windows of 3 x 3 pixels, zeros around them.

    `interpret` runs the program of the GPU step by step on a CPU.
    """
    fast = partial(_launched, interpret=interpret)
    return fast(x) if interpret else jax.lax.platform_dependent(x, cuda=fast, default=_reference)


@fast_window_sum.defjvp
def _jvp(interpret, primals, tangents):
    return fast_window_sum(*primals, interpret), _reference(*tangents)


def _reference(x: Array) -> Array:
    return common_window_sum(x, [(1, x.ndim - 2), (2, x.ndim - 1)], (_SIDE, _SIDE), (1, 1), "SAME")


def _launched(x: Array, interpret: bool) -> Array:
    # slow to import, and of use on a GPU alone
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    height, width = x.shape[-2:]
    inputs, seconds = x.shape[0], prod(x.shape[3:-2])
    found = pl.pallas_call(
        partial(_sums, seconds=seconds, height=height, width=width),
        grid=(pl.cdiv(seconds * height * width, _LANES), inputs),
        out_shape=jax.ShapeDtypeStruct((x.size,), x.dtype),
        compiler_params=triton.CompilerParams(num_warps=_LANES // 32, num_stages=1),
        interpret=interpret,
        name="common_window_sum",
    )(x.reshape(-1))
    return found.reshape(x.shape)


def _sums(x_ref, out_ref, *, seconds: int, height: int, width: int) -> None:
    """The program of a block of threads: one first input, and for each thread a second one and a displacement."""
    from jax.experimental import pallas as pl

    pixels = height * width
    lane = pl.program_id(0) * _LANES + jnp.arange(_LANES, dtype=jnp.int32)
    lane = jnp.minimum(lane, seconds * pixels - 1)  # threads too many do the last one's work again
    second, displacement = lane // pixels, lane % pixels
    down, right = displacement // width, displacement % width
    start = pl.program_id(1) * (pixels * seconds * pixels) + second * pixels
    columns = [_around(x + right, width) for x in range(width)]  # of the second input's pixels

    def place(y, x):
        return start + (y * width + x) * (seconds * pixels) + _around(y + down, height) * width + columns[x]

    def row_sums(y):
        row = [x_ref[place(y, x)] for x in range(width)]
        found = []
        for x, column in enumerate(columns):
            total = row[x]
            if x > 0:
                total += jnp.where(column > 0, row[x - 1], 0)
            if x < width - 1:
                total += jnp.where(column < width - 1, row[x + 1], 0)
            found.append(total)
        return found

    def step(y, rows):
        above, here = rows
        below = row_sums(jnp.minimum(y + 1, height - 1))
        line = _around(y + down, height)
        has_above, has_below = (y > 0) & (line > 0), (y < height - 1) & (line < height - 1)
        for x in range(width):
            total = here[x] + jnp.where(has_above, above[x], 0) + jnp.where(has_below, below[x], 0)
            out_ref[place(y, x)] = total
        return here, below

    first = row_sums(0)
    jax.lax.fori_loop(0, height, step, (first, first))


def _around(index: Array, length: int) -> Array:
    """An index below twice the length, from the start again at the end."""
    return jnp.where(index >= length, index - length, index)
