"""The exact reading: the kernels of a network on arrays of inputs.

`kernel` is a pure function of a network (a pytree) and its inputs: jit it, map it, differentiate it. It first runs every
input with itself, which gives the diagonal and the variances that all pairs share (see `state`), then the pairs. Inputs
without pixels are paired all at once, in one matrix; those with pixels in chunks that stay near the processor.
"""

from collections.abc import Callable
from functools import partial
from math import ceil, prod, sqrt
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .layers import Layer
from .numerics import ULPS
from .state import State, Tape

_CHUNK = 2**18  # covariances in flight at a time
_TILES = 4  # along a side of a symmetric matrix: a quarter of its half is computed twice


class Kernels(NamedTuple):
    """The two kernels of a network; None where one was not asked for."""

    nngp: Any
    ntk: Any


class Want(NamedTuple):
    """What is asked for: the NTK too, and the covariances of all pairs of pixels where the outputs have pixels."""

    ntk: bool
    pairs: bool = False


def kernel(
    net: Layer, x1: Array, x2: Array | None = None, *, ntk: bool = True, diagonal: bool = False, pairs: bool = False
) -> Kernels:
    """NNGP and NTK between the rows of x1 and x2; of x1 with itself, exactly symmetric, where x2 is None.

    Outputs with pixels have the kernels of equal pixels, or with `pairs` of every pixel with every other.
    """
    want = Want(ntk, pairs)
    x1 = jnp.asarray(x1)
    n1, n2 = x1.shape[0], (x1 if x2 is None else x2).shape[0]
    if n1 == 0 or n2 == 0:  # computed for a row of zeros and cut off

        def some(x):
            return x if x.shape[0] else jnp.zeros((1, *x.shape[1:]), x.dtype)

        result = kernel(net, some(x1), None if x2 is None else some(x2), ntk=ntk, diagonal=diagonal, pairs=pairs)
        return jax.tree.map(lambda r: r[:n1] if diagonal else r[:n1, :n2], result)
    own1, kept1 = _own(net, x1, want)
    if diagonal:
        return own1
    if x2 is None:
        return _symmetric(net, x1, own1, kept1, want)
    x2 = jnp.asarray(x2)
    return _rectangular(net, x1, x2, kept1, _own(net, x2, want)[1], want)


def tile(net: Layer, x1: Array, x2: Array, *, ntk: bool = True) -> tuple[Kernels, Kernels]:
    """The kernels between all rows of x1 and x2, and those of every row of x1 with itself."""
    x1, x2 = jnp.asarray(x1), jnp.asarray(x2)
    (own1, kept1), (_, kept2) = (_own(net, x, Want(ntk)) for x in (x1, x2))
    return _rectangular(net, x1, x2, kept1, kept2, Want(ntk)), own1


def ends_gaussian(net: Layer, x: Array) -> bool:
    """Whether the outputs are Gaussian, as those of Dense and Conv are. Nothing is computed."""

    def end(x):
        return net.propagate(_start(net, _covariance(_paired(net, x, want), x, x), want, Tape(), x))

    want = Want(ntk=False)
    return jax.eval_shape(end, jax.ShapeDtypeStruct((1, *x.shape[1:]), jnp.float32)).gaussian


def _start(net: Layer, nngp: Array, want: Want, tape: Tape, x: Array) -> State:
    """The state before the first layer, with the covariances of the inputs."""
    return State(
        nngp=nngp,
        ntk=None,
        tape=tape,
        wants_ntk=want.ntk,
        spatial=x.shape[1:-1],
        channels=x.shape[-1],
        pairs=_paired(net, x, want),
        keep_pairs=want.pairs,
        # A sum of d squares and the same sum in another order differ by some sqrt(d) roundings.
        ulps=ULPS + sqrt(x.shape[-1]),
    )


def _paired(net: Layer, x: Array, want: Want) -> bool:
    return x.ndim > 2 and net.needs_pairs(want.pairs)


def _finish(net: Layer, state: State) -> tuple[Kernels, Tape]:
    end = net.propagate(state)
    if not isinstance(end, State):
        raise ValueError(f"The network ends with {len(end)} branches. Join them with FanInSum or FanInConcat.")
    end = end if end.keep_pairs else end.diagonal()
    ntk = jnp.zeros_like(end.nngp) if end.wants_ntk and end.ntk is None else end.ntk
    return Kernels(end.nngp, ntk), end.tape


@partial(jax.jit, static_argnums=0)
def _covariance(paired: bool, x1: Array, x2: Array) -> Array:
    """The mean over channels of the products of two equally long batches, for equal pixels or all pairs of pixels."""
    if not paired:
        return jnp.sum(x1 * x2, -1) / x1.shape[-1]
    rows = [x.reshape(x.shape[0], -1, x.shape[-1]) for x in (x1, x2)]
    products = jnp.einsum("bpc,bqc->bpq", *rows, precision="highest") / x1.shape[-1]
    return products.reshape(x1.shape[0], *x1.shape[1:-1], *x1.shape[1:-1])


def _own(net: Layer, x: Array, want: Want) -> tuple[Kernels, list[Array]]:
    """K(x, x) of every input, and the variances met on the way."""

    def run(x):
        result, tape = _finish(net, _start(net, _covariance(_paired(net, x, want), x, x), want, Tape(), x))
        return result, [own for own, _ in tape.entries]

    return run(x) if x.ndim == 2 else _in_chunks(lambda i: run(x[i]), x.shape[0], _chunk(net, x, want))


def _chunk(net: Layer, x: Array, want: Want) -> int:
    pixels = prod(x.shape[1:-1])
    return max(1, _CHUNK // (pixels**2 if _paired(net, x, want) else pixels))


def _in_chunks(fn: Callable, count: int, size: int) -> Any:
    """fn on the indices 0 .. count - 1, `size` at a time."""
    size = max(1, min(size, count))
    chunks = ceil(count / size)
    indices = jnp.minimum(jnp.arange(chunks * size), count - 1).reshape(chunks, size)
    # The backward pass computes a chunk again instead of keeping all of its layers.
    results = jax.lax.map(jax.checkpoint(fn), indices)
    return jax.tree.map(lambda r: r.reshape(chunks * size, *r.shape[2:])[:count], results)


def _pairs(net, x1, x2, kept1, kept2, want, count: int, indices: Callable) -> Kernels:
    """The kernels of a list of pairs, whose places in x1 and x2 are indices(0 .. count - 1)."""

    def run(p):
        i, j = indices(p)
        tape = Tape(tuple((v1[i], v2[j]) for v1, v2 in zip(kept1, kept2, strict=True)), recording=False)
        return _finish(net, _start(net, _covariance(_paired(net, x1, want), x1[i], x2[j]), want, tape, x1))[0]

    return _in_chunks(run, count, _chunk(net, x1, want))


def _rectangular(net, x1, x2, kept1, kept2, want) -> Kernels:
    n1, n2 = x1.shape[0], x2.shape[0]
    if x1.ndim == 2:
        nngp = jnp.matmul(x1, x2.T, precision="highest") / x1.shape[-1]
        tape = Tape(tuple((v1[:, None], v2[None, :]) for v1, v2 in zip(kept1, kept2, strict=True)), recording=False)
        return _finish(net, _start(net, nngp, want, tape, x1))[0]
    result = _pairs(net, x1, x2, kept1, kept2, want, n1 * n2, lambda p: (p // n2, p % n2))
    return jax.tree.map(lambda r: r.reshape(n1, n2, *r.shape[1:]), result)


def _symmetric(net, x, own, kept, want) -> Kernels:
    n = x.shape[0]
    if n < 2:
        return jax.tree.map(lambda d: d[:, None], own)
    if x.ndim == 2:
        return _symmetric_rows(net, x, own, kept, want)
    # Every unordered pair once: row i with the rows that follow it at a distance of up to n/2, counting round.
    result = _pairs(net, x, x, kept, kept, want, n * (n - 1) // 2, lambda p: (p % n, (p % n + p // n + 1) % n))
    i, j = jnp.arange(n)[:, None], jnp.arange(n)[None, :]
    ahead, behind = (j - i) % n, (i - j) % n
    forward = (ahead < behind) | ((ahead == behind) & (i < j))
    place = jnp.where(forward, (ahead - 1) * n + i, (behind - 1) * n + j)
    place = jnp.where(i == j, 0, place)

    def matrix(values, diagonal):
        ones = [1] * (values.ndim - 1)
        found = values[place]
        if want.pairs and values.ndim > 1:  # seen from the other input, the pixels of a pair change places
            rank = (values.ndim - 1) // 2
            turned = jnp.moveaxis(values, range(1, 1 + rank), range(1 + rank, 1 + 2 * rank))
            found = jnp.where(forward.reshape(n, n, *ones), found, turned[place])
        return jnp.where((i == j).reshape(n, n, *ones), diagonal[:, None], found)

    return jax.tree.map(matrix, result, own)


def _symmetric_rows(net: Layer, x: Array, own: Kernels, kept: list[Array], want: Want) -> Kernels:
    """The same for inputs without pixels: the tiles on and above the diagonal, all at once."""
    n = x.shape[0]
    side = min(n, _TILES)
    size = ceil(n / side)
    upper = np.triu_indices(side)

    def tiles(v):
        """The rows of v, repeated at the end to fill the last tile."""
        return v[jnp.minimum(jnp.arange(side * size), n - 1)].reshape(side, size, *v.shape[1:])

    rows = tiles(x)
    nngp = jnp.einsum("kic,kjc->kij", rows[upper[0]], rows[upper[1]], precision="highest") / x.shape[-1]
    entries = tuple((tiles(v)[upper[0], :, None], tiles(v)[upper[1], None, :]) for v in kept)
    result, _ = _finish(net, _start(net, nngp, want, Tape(entries, recording=False), x))
    i, j = jnp.arange(n)[:, None], jnp.arange(n)[None, :]

    def matrix(values, diagonal):
        grid = jnp.zeros((side, side, size, size), values.dtype).at[upper].set(values)
        full = grid.transpose(0, 2, 1, 3).reshape(side * size, side * size)[:n, :n]
        return jnp.where(i < j, full, jnp.where(i > j, full.T, diagonal[:, None]))

    return jax.tree.map(matrix, result, own)
