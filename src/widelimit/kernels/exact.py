"""The exact reading: the kernels of a network on arrays of inputs.

`kernel` is a pure function of a network (a pytree) and its inputs: jit it, map it, differentiate it. It first runs every
input with itself, which gives the diagonal and the variances that all pairs share (see `state`), then the pairs. Inputs
without pixels are paired all at once, in one matrix; those with pixels in blocks of as many covariances as the policy says,
whose first ones are one product of matrices. Inputs of half precision, bfloat16 or float16, have kernels of float32.
"""

from collections.abc import Callable
from functools import partial
from math import ceil, isqrt, prod, sqrt
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from ..execution import policy
from ..execution.grid import Grid, even
from ..layers import Layer
from ..layers.shapes import Branches
from ..layers.state import Context, State, Tape
from ..numerics import ULPS, product_precision
from . import gpu

Inputs: TypeAlias = Float[Array | np.ndarray, " _ *shape"]  # a batch, pixels, channels
Variances: TypeAlias = list[Float[Array, "_ ..."]]  # of every input and pixel, before each activation
T = TypeVar("T", bound=PyTree)

_TILES = 4  # along a side of a symmetric matrix, of images at least: a quarter of its half is computed twice


class Kernels(NamedTuple):
    """The two kernels of a network; None for one that was not requested."""

    nngp: Any
    ntk: Any


class Want(NamedTuple):
    """Which kernels a call wants: the NTK too or not, and of which pixels, where the outputs have pixels."""

    ntk: bool
    pairs: bool = False


def kernel(
    net: Layer, x1: Inputs, x2: Inputs | None = None, *, ntk: bool = True, diagonal: bool = False, pairs: bool = False
) -> Kernels:
    """NNGP and NTK between the rows of x1 and x2; of x1 with itself, exactly symmetric, where x2 is None.

    Outputs with pixels have the kernels of equal pixels, or with `pairs` of every pixel with every other.
    """
    x1 = jnp.asarray(x1)
    n1, n2 = x1.shape[0], (x1 if x2 is None else x2).shape[0]
    if n1 == 0 or n2 == 0:  # computed for a row of zeros and cut off

        def some(x: Inputs) -> Inputs:
            return x if x.shape[0] else jnp.zeros((1, *x.shape[1:]), x.dtype)

        result = kernel(net, some(x1), None if x2 is None else some(x2), ntk=ntk, diagonal=diagonal, pairs=pairs)
        return jax.tree.map(lambda r: r[:n1] if diagonal else r[:n1, :n2], result)
    net, want = _for_device(net), Want(ntk, pairs)
    own1, kept1 = _own(net, x1, want)
    if diagonal:
        return own1
    if x2 is None:
        return _symmetric(net, x1, own1, kept1, want)
    x2 = jnp.asarray(x2)
    return _rectangular(net, x1, x2, kept1, _own(net, x2, want)[1], want)


def tile(net: Layer, x1: Inputs, x2: Inputs, *, ntk: bool = True) -> tuple[Kernels, Kernels]:
    """The kernels between all rows of x1 and x2, and those of every row of x1 with itself."""
    net, x1, x2 = _for_device(net), jnp.asarray(x1), jnp.asarray(x2)
    (own1, kept1), (_, kept2) = (_own(net, x, Want(ntk)) for x in (x1, x2))
    return _rectangular(net, x1, x2, kept1, kept2, Want(ntk)), own1


def _for_device(net: Layer) -> Layer:
    """The network as this device runs it best."""
    return gpu.rewrite(net) if gpu.runs_on_gpu() else net


def ends_gaussian(net: Layer, x: Inputs) -> bool:
    """Whether the outputs are Gaussian, as those of Dense and Conv are. Nothing is computed."""

    def end(x: Array) -> State:
        return cast(State, net.propagate(_start_alone(net, x, Want(ntk=False))))

    return jax.eval_shape(end, jax.ShapeDtypeStruct((1, *x.shape[1:]), jnp.float32)).gaussian


def _start(net: Layer, nngp: Array, want: Want, x: Array, tape: Tape | None = None) -> State:
    """The state before the first layer, with the covariances of the inputs; without a tape, of each with itself."""
    # A sum of d squares and the same sum in another order differ by some sqrt(d) roundings.
    context = Context(want.ntk, with_itself=tape is None, keep_pairs=want.pairs, ulps=ULPS + sqrt(x.shape[-1]))
    pairs = _pairs_pixels(net, x, want)
    return State(nngp, None, tape or Tape(), context, spatial=x.shape[1:-1], channels=x.shape[-1], pairs=pairs)


def _start_alone(net: Layer, x: Array, want: Want) -> State:
    """The state before the first layer of every input with itself."""
    return _start(net, _own_covariance(_pairs_pixels(net, x, want), x), want, x)


def _pairs_pixels(net: Layer, x: Inputs, want: Want) -> bool:
    return x.ndim > 2 and net.needs_pairs(want.pairs)


def _finish(net: Layer, state: State) -> tuple[Kernels, Tape]:
    end = net.propagate(state)
    if isinstance(end, Branches):
        raise ValueError(f"The network ends with {len(end)} branches. Join them with FanInSum or FanInConcat.")
    end = end if end.context.keep_pairs else end.diagonal()
    ntk = jnp.zeros_like(end.nngp) if end.context.wants_ntk and end.ntk is None else end.ntk
    return Kernels(end.nngp, ntk), end.tape


def kernel_dtype(dtype: np.dtype) -> np.dtype:
    """The precision of kernels of inputs of `dtype`: their own, and float32 of inputs of half precision."""
    return np.dtype(np.float32) if dtype.itemsize < 4 else np.dtype(dtype)


def _mean_product(fn: Callable[..., Array], x1: Array, x2: Array) -> Array:
    """fn(x1, x2), a sum of products over the channels like `tensordot`, as a mean; nothing is rounded to less than float32."""
    dtype = kernel_dtype(x1.dtype)
    return fn(x1, x2, precision=product_precision(x1.dtype), preferred_element_type=dtype) / x1.shape[-1]


@partial(jax.jit, static_argnums=0)
def _own_covariance(paired: bool, x: Float[Array, " n *shape"]) -> Float[Array, " n *pixels"]:
    """The mean over channels of the products of each input with itself, for equal pixels or all pairs of pixels."""
    if not paired:
        return jnp.mean(jnp.square(x.astype(kernel_dtype(x.dtype))), -1)
    rows = x.reshape(x.shape[0], -1, x.shape[-1])
    products = _mean_product(partial(jnp.einsum, "bpc,bqc->bpq"), rows, rows)
    return products.reshape(x.shape[:-1] + x.shape[1:-1])


@partial(jax.jit, static_argnums=0)
def _covariance(paired: bool, x1: Float[Array, "n1 ..."], x2: Float[Array, "n2 ..."]) -> Float[Array, "n1 ..."]:
    """The mean over channels of the products of all inputs of x1 with all of x2, in the axes of a `State`."""
    if paired or x1.ndim == 2:
        return _mean_product(partial(jnp.tensordot, axes=(-1, -1)), x1, x2)
    return _mean_product(partial(jnp.einsum, "i...c,j...c->ij..."), x1, x2)


def _own(net: Layer, x: Array, want: Want) -> tuple[Kernels, Variances]:
    """K(x, x) of every input, and the variances met on the way."""

    def run(x: Array) -> tuple[Kernels, Variances]:
        result, tape = _finish(net, _start_alone(net, x, want))
        return result, [own for own, _ in tape.entries]

    if x.ndim == 2:
        return run(x)
    count, size = x.shape[0], min(x.shape[0], _pairs_in_flight(net, x, want))
    chunks = ceil(count / size)
    indices = jnp.minimum(jnp.arange(chunks * size), count - 1).reshape(chunks, size)
    results = _one_by_one(lambda i: run(x[i]), indices)
    return jax.tree.map(lambda r: r.reshape(chunks * size, *r.shape[2:])[:count], results)


def _one_by_one(fn: Callable[[Array], T], items: Int[Array, "items ..."]) -> T:
    """fn of every item. The backward pass computes an item again instead of keeping all of its layers."""
    return jax.lax.map(jax.checkpoint(fn), items)


def covariances(net: Layer, x: Inputs, pairs: bool = False) -> int:
    """How many covariances a pair of inputs takes at first: of equal pixels, or of all pairs of pixels."""
    pixels = prod(x.shape[1:-1])
    return pixels**2 if _pairs_pixels(net, x, Want(False, pairs)) else pixels


def _pairs_in_flight(net: Layer, x: Array, want: Want) -> int:
    return max(1, policy.current().covariances // covariances(net, x, want.pairs))


def _block(net: Layer, x1: Array, x2: Array, kept1: Variances, kept2: Variances, want: Want) -> Kernels:
    """The kernels between all of x1 and all of x2, at once."""
    entries = tuple((v1[:, None], v2[None, :]) for v1, v2 in zip(kept1, kept2, strict=True))
    nngp = _covariance(_pairs_pixels(net, x1, want), x1, x2)
    result, _ = _finish(net, _start(net, nngp, want, x1, Tape(entries)))
    return jax.tree.map(lambda k: jnp.moveaxis(k, k.ndim // 2, 1), result) if want.pairs else result


def _blocks(net: Layer, x1: Array, x2: Array, kept1: Variances, kept2: Variances, want: Want, grid: Grid) -> Kernels:
    """The kernels of the tiles of a grid, one after the other; beyond the end the last input repeats."""

    def run(corner: Int[Array, "2"]) -> Kernels:
        i, j = (
            jnp.minimum(start + jnp.arange(side), x.shape[0] - 1)
            for start, side, x in zip(corner, grid.sides, (x1, x2), strict=True)
        )
        return _block(net, x1[i], x2[j], [v[i] for v in kept1], [v[j] for v in kept2], want)

    return _one_by_one(run, jnp.asarray([block.corner for block in grid.blocks], jnp.int32))


def _rectangular(net: Layer, x1: Array, x2: Array, kept1: Variances, kept2: Variances, want: Want) -> Kernels:
    if x1.ndim == 2:
        return _block(net, x1, x2, kept1, kept2, want)
    n1, n2 = x1.shape[0], x2.shape[0]
    most = _pairs_in_flight(net, x1, want)
    size1 = even(n1, max(isqrt(most), most // n2))
    size2 = even(n2, most // size1)
    tiles1, tiles2 = ceil(n1 / size1), ceil(n2 / size2)
    grid = Grid.of_tiles((n1, n2), (size1, size2))
    result = _blocks(net, x1, x2, kept1, kept2, want, grid)
    return jax.tree.map(lambda r: _assemble(r.reshape(tiles1, tiles2, *r.shape[1:]))[:n1, :n2], result)


def _assemble(grid: Float[Array, "tiles1 tiles2 size1 size2 *pixels"]) -> Float[Array, "n1 n2 *pixels"]:
    """A grid of blocks as one array."""
    tiles1, tiles2, size1, size2, *rest = grid.shape
    return grid.swapaxes(1, 2).reshape(tiles1 * size1, tiles2 * size2, *rest)


def _symmetric(net: Layer, x: Array, own: Kernels, kept: Variances, want: Want) -> Kernels:
    """The kernels of x with itself: the tiles on and above the diagonal, mirrored."""
    n = x.shape[0]
    if n < 2:
        return jax.tree.map(lambda d: d[:, None], own)
    size = ceil(n / min(n, _TILES))
    if x.ndim > 2:
        size = even(n, min(size, isqrt(_pairs_in_flight(net, x, want))))
    side, grid = ceil(n / size), Grid.of_tiles((n, n), (size, size), symmetric=True)
    if size == 1:  # `own` has the diagonal
        grid = grid.without({block.index for block in grid.blocks if block.on_diagonal})
    upper = tuple(np.asarray([block.corner for block in grid.blocks]).T // size)
    rows = x.ndim == 2
    result = _row_tiles(net, x, kept, want, side, size, upper) if rows else _blocks(net, x, x, kept, kept, want, grid)
    i, j = jnp.arange(n)[:, None], jnp.arange(n)[None, :]

    def matrix(values: Array, diagonal: Array) -> Array:
        grid = jnp.zeros((side, side, *values.shape[1:]), values.dtype).at[upper].set(values)
        full = _assemble(grid)[:n, :n]
        mirrored = full.swapaxes(0, 1)
        # seen from the other input, the pixels of a pair change places
        rank = (full.ndim - 2) // 2 if want.pairs else 0
        mirrored = jnp.moveaxis(mirrored, range(2, 2 + rank), range(2 + rank, 2 + 2 * rank))
        ones = [1] * (full.ndim - 2)
        above, below = ((i < j).reshape(n, n, *ones), (i > j).reshape(n, n, *ones))
        return jnp.where(above, full, jnp.where(below, mirrored, diagonal[:, None]))

    return jax.tree.map(matrix, result, own)


def _row_tiles(
    net: Layer, x: Array, kept: Variances, want: Want, side: int, size: int, upper: tuple[np.ndarray, np.ndarray]
) -> Kernels:
    """The tiles of inputs without pixels, all at once."""

    def tiles(v: Array) -> Array:
        """The rows of v, repeated at the end to fill the last tile."""
        return v[jnp.minimum(jnp.arange(side * size), x.shape[0] - 1)].reshape(side, size, *v.shape[1:])

    rows = tiles(x)
    nngp = _mean_product(partial(jnp.einsum, "kic,kjc->kij"), rows[upper[0]], rows[upper[1]])
    entries = tuple((tiles(v)[upper[0], :, None], tiles(v)[upper[1], None, :]) for v in kept)
    return _finish(net, _start(net, nngp, want, x, Tape(entries)))[0]
