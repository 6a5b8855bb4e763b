"""The kernel of a 3 x 3 convolution on a GPU: sums over the displacements common to two pixels, in one pass over memory.

XLA takes two passes, one for each spatial axis, and each reads what lies a pixel further in both inputs, at addresses that
suit no GPU. Seen from a displacement d = q - p of the two pixels, a sum over common displacements stays within d. So here a
thread has a pair of inputs and one displacement, walks over all pixels p, and keeps the three rows of sums that it needs in
registers: every covariance is read once, those of the last row of pixels twice, and every sum written once. Displacements go
round at the borders of the second input, so that there are as many as pixels, and what lies beyond a border is left out.

`plain_window_sum` is the same by XLA: the definition, what other devices run, and what derivatives are taken of. The
language is Pallas with its backend Triton, which JAX means to replace; where it is gone, XLA takes over.

`PairedConv` is the layer that sums so, and stands for a `Conv` in a rewritten network.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from ...layers import Conv, Layer
from ...layers.base import Parameters, Values
from ...layers.shapes import Shape
from ...layers.state import State
from ...layers.windows import common_window_sum

_SIDE = 3
_LANES = 256  # displacements of pairs of inputs in work together, one for each thread
_WIDEST = 32  # pixels of a row, three rows of which are kept in registers

C = TypeVar("C")


@runtime_checkable
class Ref(Protocol):
    """An array that a program reads or writes number by number."""

    def __getitem__(self, index: Array | int) -> Array: ...

    def __setitem__(self, index: Array, value: Array) -> None: ...


class PairedConv(Layer):
    """A Conv that sums over pairs of pixels by `fast_window_sum`, and whatever does not fit that by itself."""

    conv: Conv

    @classmethod
    def replace(cls, layers: Sequence[Layer]) -> "PairedConv | None":
        """What stands for one layer, where it is a Conv whose windows are those of the program."""
        (conv,) = layers
        return cls(conv) if type(conv) is Conv and _windows_fit(*conv.windows) else None

    def shape(self, shape: Shape, width: int | None) -> Shape:
        return self.conv.shape(shape, width)

    def propagate(self, state: State) -> State:
        return self.conv.scale(state.map(lambda x: self._combine(x, state)))

    def _combine(self, x: Array, state: State) -> Array:
        if state.pairs and fits(x, state.spatial):
            return fast_window_sum(x)
        return self.conv.combine(x, state)

    def forward(self, params: Parameters, x: Values, key: PRNGKeyArray | None) -> Values:
        return self.conv.forward(params, x, key)


def _windows_fit(sizes: tuple[int, ...], strides: tuple[int, ...], padding: str) -> bool:
    return padding == "SAME" and sizes == (_SIDE, _SIDE) and set(strides) == {1}


def fits(x: Array, spatial: tuple[int, ...]) -> bool:
    """Whether `fast_window_sum` can take covariances of pixels of two inputs, (n, h, w, ..., h, w)."""
    return x.dtype == jnp.float32 and spatial[-1] <= _WIDEST and 0 < x.size < 2**31


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def fast_window_sum(x: Array, interpret: bool = False) -> Array:
    """The sums of (n, h, w, ..., h, w) over windows of 3 x 3 pixels, zeros around them.

    `interpret` runs the program of the GPU step by step on a CPU.
    """
    fast = partial(_launch_sum, interpret=interpret)
    return fast(x) if interpret else jax.lax.platform_dependent(x, cuda=fast, default=plain_window_sum)


@fast_window_sum.defjvp
def _jvp(interpret: bool, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    return jax.jvp(plain_window_sum, primals, tangents)  # by XLA: JAX may differentiate what is here once more


def plain_window_sum(x: Array) -> Array:
    """The sums of `fast_window_sum`, computed by XLA."""
    return common_window_sum(x, [(1, x.ndim - 2), (2, x.ndim - 1)], (_SIDE, _SIDE), (1, 1), "SAME")


def _launch_sum(x: Array, interpret: bool) -> Array:
    def program(x_ref: Ref, out_ref: Ref) -> None:
        def store(carried: None, place: Place, total: Array) -> None:
            out_ref[place.entry] = total

        walk_pixels(x_ref, x.shape, store, None)

    return launch(program, x.shape, x.size, interpret)(x.reshape(-1)).reshape(x.shape)


def launch(program: Callable[..., None], shape: tuple[int, ...], size: int, interpret: bool) -> Callable[..., Array]:
    """The program, run by blocks of threads for covariances of `shape`; it gives `size` numbers of float32."""
    # slow to import, and of use on a GPU alone
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    return pl.pallas_call(
        program,
        grid=(pl.cdiv(prod(shape[3:]), _LANES), shape[0]),
        out_shape=jax.ShapeDtypeStruct((size,), jnp.float32),
        compiler_params=triton.CompilerParams(num_warps=_LANES // 32, num_stages=1),
        interpret=interpret,
    )


class Place(NamedTuple):
    """Where a thread is: an entry of the covariances, a pixel of the first inputs, pixels of the second ones."""

    entry: Array
    first: Array
    second: Array


def lanes(shape: tuple[int, ...]) -> Array:
    """The second inputs and displacements, counted together, of the threads of a block."""
    from jax.experimental import pallas as pl

    index = pl.program_id(0) * _LANES + jnp.arange(_LANES, dtype=jnp.int32)
    return jnp.minimum(index, prod(shape[3:]) - 1)  # threads too many do the last one's work again


def walk_pixels(x_ref: Ref, shape: tuple[int, ...], each: Callable[[C, Place, Array], C], start: C) -> C:
    """What a block of threads does: `carried = each(carried, place, sum)` for all pixels of one first input."""
    from jax.experimental import pallas as pl

    height, width = shape[-2:]
    pixels, row_length = height * width, prod(shape[3:])
    own = pl.program_id(1) * pixels
    second, displacement = lanes(shape) // pixels, lanes(shape) % pixels
    down, right = displacement // width, displacement % width
    columns = [_around(x + right, width) for x in range(width)]  # of the second input's pixels

    def place(y: Array | int, x: int) -> Place:
        first = own + y * width + x
        other = second * pixels + _around(y + down, height) * width + columns[x]
        return Place(first * row_length + other, first, other)

    def row_sums(y: Array | int) -> list[Array]:
        row = [x_ref[place(y, x).entry] for x in range(width)]
        sums = []
        for x, column in enumerate(columns):
            total = row[x]
            if x > 0:
                total += jnp.where(column > 0, row[x - 1], 0)
            if x < width - 1:
                total += jnp.where(column < width - 1, row[x + 1], 0)
            sums.append(total)
        return sums

    def step(y: Array, rows: tuple[list[Array], list[Array], C]) -> tuple[list[Array], list[Array], C]:
        above, here, carried = rows
        below = row_sums(jnp.minimum(y + 1, height - 1))
        line = _around(y + down, height)
        has_above, has_below = (y > 0) & (line > 0), (y < height - 1) & (line < height - 1)
        for x in range(width):
            total = here[x] + jnp.where(has_above, above[x], 0) + jnp.where(has_below, below[x], 0)
            carried = each(carried, place(y, x), total)
        return here, below, carried

    first = row_sums(0)
    return jax.lax.fori_loop(0, height, step, (first, first, start))[-1]


def _around(index: Array, length: int) -> Array:
    """An index below twice the length, from the start again at the end."""
    return jnp.where(index >= length, index - length, index)
