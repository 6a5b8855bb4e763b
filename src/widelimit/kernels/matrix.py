"""Kernel matrices of any size in bounded memory: tile by tile, each compiled once, into a NumPy array or a file.

Tiles are squares small enough to stay near the processor and within the budget; the last of a row is filled up with
repeated inputs, so that one program serves all. Of a symmetric matrix only the tiles on and above the diagonal are
computed. Several are in work at a time, one for each core.

JAX arrays stay on their device: the program takes the whole of them and cuts out its rows there, and only tiles come
back. NumPy arrays are put onto an accelerator as a whole where they fit. Its tiles are larger, and a few are in work at
a time, so that one is computed while another is brought back.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from itertools import combinations, islice, product
from math import isqrt, prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..execution import policy
from ..execution.grid import even
from ..execution.progress import bar
from ..execution.resumed import ResumedFiles
from ..layers import Layer
from ..numerics.padding import bucket, padded_rows
from ..storage.files import digest
from .exact import Kernels, covariances, kernel_dtype, tile


def tiled(
    net: Layer,
    x1: Any,
    x2: Any,
    names: tuple[str, ...],
    memory: int | None = None,
    progress: bool = False,
    out: Any = None,
    side: int | None = None,
    symmetric: bool = False,
) -> Kernels:
    """The kernels named, as NumPy arrays; into `out`, an array or path or one for each name, where given.

    Both inputs are NumPy or both JAX arrays, of one dtype. `side` is the most inputs along a side of a tile, where the
    best for speed is not wanted. `symmetric` says that the kernel of two inputs is a symmetric matrix, of which half is
    computed, as it is of one.
    """
    symmetric = symmetric or x2 is None
    other = x1 if x2 is None else x2
    shape, dtype = (len(x1), len(other)), kernel_dtype(x1.dtype)
    paths = _paths(names, out)
    results = {} if paths else _targets(names, out, shape, dtype, (x1, other))
    files = ResumedFiles(paths, digest(names, net, x1, x2)) if paths else None
    if 0 in shape:
        results = results or {name: np.empty(shape, dtype) for name in names}
        for name, path in zip(names, paths, strict=False):
            np.save(path, results[name])
        return Kernels(results.get("nngp"), results.get("ntk"))
    net = jax.tree.map(float, net)
    workers = policy.current().workers
    x1, other = _placed(x1, other)
    if files is not None and files.sides is not None:
        sides = files.sides
        program = _program(*_structure(net), sides, *_seen(x1, other, sides), "ntk" in names)
    else:
        program, sides = _compiled(net, x1, other, "ntk" in names, memory, workers, side)
    rows, columns = sides
    with jax.enable_x64(dtype == np.float64):
        on_device = jax.device_put(net)  # once, and not with every tile
    run = partial(_run, program, on_device, x1, other, sides)
    corners = [(i, j) for i in range(0, len(x1), rows) for j in range(i if symmetric else 0, len(other), columns)]
    if files is not None:
        start, _ = run((0, 0))  # tells functions of one name apart
        probe = [float(v) for name in names for v in np.asarray(getattr(start, name))[:8, :8].reshape(-1)]
        files.open(shape, dtype, sides, probe)
        results = dict(zip(names, files.arrays, strict=True))
    left = [corner for corner in corners if files is None or corner not in files.done]

    def work(corner: tuple[int, int]) -> None:
        i, j = corner
        blocks, own = run(corner)
        height, width = min(rows, len(x1) - i), min(columns, len(other) - j)
        for name, target in results.items():
            block = np.asarray(getattr(blocks, name))[:height, :width]
            if symmetric and i == j:
                block = block.copy()
                lower = np.tril_indices(height, -1)
                block[lower] = block.T[lower]
            if x2 is None and i == j:
                np.fill_diagonal(block, np.asarray(getattr(own, name))[:height])
            target[i : i + height, j : j + width] = block
            if symmetric and i != j:
                target[j : j + width, i : i + height] = block.T
        if files is not None:
            files.record(corner)

    with bar("kernel tiles", progress, len(corners), len(corners) - len(left)) as advance:
        _in_threads(work, left, workers, advance)
    if files is not None:
        results = dict(zip(names, files.finish(), strict=True))
    return Kernels(results.get("nngp"), results.get("ntk"))


def _placed(x1: Any, x2: Any) -> tuple[Any, Any]:
    """Both inputs where tiles are cut out of them: NumPy arrays on an accelerator, if they take up to a quarter of it."""
    if isinstance(x1, jax.Array):
        return x1, x2
    arrays = [x1] if x2 is x1 else [x1, x2]
    if not policy.fits_on_device(sum(x.nbytes for x in arrays)):
        return x1, x2
    with jax.enable_x64(x1.dtype == np.float64):
        placed = [jnp.asarray(x) for x in arrays]
    return placed[0], placed[-1]


def _run(program: Any, net: Layer, x1: Any, x2: Any, sides: tuple[int, int], corner: tuple[int, int]) -> Any:
    """The kernels of the tile at `corner`, and those of its first inputs with themselves."""
    with jax.enable_x64(x1.dtype == np.float64):
        if isinstance(x1, jax.Array):
            return program(net, x1, x2, np.asarray(corner, np.int32))
        return program(net, *(padded_rows(x, *place) for x, *place in zip((x1, x2), corner, sides, strict=True)))


def _compiled(
    net: Layer, x1: Any, x2: Any, ntk: bool, memory: int | None, workers: int, side: int | None = None
) -> tuple[Any, tuple[int, int]]:
    """The program of one tile, and its sides: the best for speed, or smaller ones that fit the budget."""
    limit = largest_side(net, x1) if side is None else side
    while True:
        sides = _even(len(x1), limit, x1.ndim == 2), _even(len(x2), limit, x1.ndim == 2)
        program = _program(*_structure(net), sides, *_seen(x1, x2, sides), ntk)
        need = workers * _bytes_needed(program, sum(sides), x1)
        if memory is None or need <= memory:
            return program, sides
        if max(sides) == 1:
            raise ValueError(
                f"memory={memory} bytes are too few for one tile, which takes {need} on {workers} cores. Give more."
            )
        limit = max(1, min(max(sides) // 2, isqrt(max(sides) ** 2 * memory // need)))


def _structure(net: Layer) -> tuple[Any, int]:
    leaves, structure = jax.tree.flatten(net)
    return structure, len(leaves)


def _even(count: int, limit: int, shared: bool) -> int:
    """The side of the fewest equal tiles of at most `limit`; `shared`, one that other numbers of rows have too."""
    side = even(count, limit)
    return min(bucket(side), limit) if shared else side


def _bytes_needed(program: Any, rows: int, x: Any) -> int:
    """What a tile takes while it is computed: its inputs, its temporary arrays, and its results, once more when copied."""
    analysis = program.memory_analysis()
    inputs = rows * prod(x.shape[1:]) * x.dtype.itemsize
    return inputs + analysis.temp_size_in_bytes + 2 * analysis.output_size_in_bytes


def _seen(x1: Any, x2: Any, sides: tuple[int, int]) -> tuple[tuple[jax.ShapeDtypeStruct, ...], bool]:
    """What the program of a tile is given: its inputs, or the whole of JAX arrays (True) to cut them out of."""
    if isinstance(x1, jax.Array):
        return tuple(jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding) for x in (x1, x2)), True
    return tuple(jax.ShapeDtypeStruct((side, *x1.shape[1:]), x1.dtype) for side in sides), False


@lru_cache(maxsize=64)
def _program(
    structure: Any,
    leaves: int,
    sides: tuple[int, int],
    inputs: tuple[jax.ShapeDtypeStruct, ...],
    whole: bool,
    ntk: bool,
) -> Any:
    """The compiled kernel of two tiles, for all values of a network's parameters."""
    net = jax.tree.unflatten(structure, [1.0] * leaves)

    def cut_out(net, x1, x2, corner):
        parts = (
            x[jnp.minimum(start + jnp.arange(side), len(x) - 1)]
            for x, start, side in zip((x1, x2), corner, sides, strict=True)
        )
        return tile(net, *parts, ntk=ntk)

    with jax.enable_x64(inputs[0].dtype == np.float64):
        if whole:
            return jax.jit(cut_out).lower(net, *inputs, jax.ShapeDtypeStruct((2,), np.int32)).compile()
        return jax.jit(partial(tile, ntk=ntk)).lower(net, *inputs).compile()


def largest_side(net: Layer, x: Any) -> int:
    """How many inputs along a side of a tile are best for speed."""
    return policy.tile_side(x.ndim > 2, covariances(net, x))


def _paths(names: tuple[str, ...], out: Any) -> list[Any]:
    """The paths of files to write, one for each name; none where `out` is something else."""
    given = list(out) if isinstance(out, tuple | list) else [out]
    if not all(isinstance(path, str | os.PathLike) for path in given):
        return []
    if len({os.path.realpath(path) for path in given}) != len(names):
        raise ValueError(f"out takes a path for each of {', '.join(names)}, and was given {out!r}.")
    return given


def _targets(
    names: tuple[str, ...], out: Any, shape: tuple[int, int], dtype: np.dtype, inputs: tuple[Any, ...]
) -> dict[str, np.ndarray]:
    if out is None:
        return {name: np.empty(shape, dtype) for name in names}
    arrays = tuple(out) if isinstance(out, tuple | list) else (out,)
    if len(arrays) != len(names):
        raise ValueError(f"out takes an array for each of {', '.join(names)}, and was given {len(arrays)}.")
    for array in arrays:
        if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != dtype:
            seen = f"{array.dtype} of the shape {array.shape}" if isinstance(array, np.ndarray) else repr(array)
            raise ValueError(
                f"out must be a path, or a NumPy array or memmap of {dtype} and of the shape {shape}, not {seen}."
            )
        if not array.flags.writeable:
            raise ValueError("out is read-only. Open the memmap with mode='r+' or 'w+'.")
    own = [x for x in inputs if isinstance(x, np.ndarray)]
    if any(np.may_share_memory(a, b) for a, b in [*combinations(arrays, 2), *product(arrays, own)]):
        raise ValueError(
            "An array of out shares memory with another, or with the inputs, and would overwrite it. Give separate ones."
        )
    return dict(zip(names, arrays, strict=True))


def _in_threads(work: Callable, items: list, workers: int, advance: Callable[[], None]) -> None:
    """work(item) for every item, `workers` at a time; the first error ends it."""
    if workers == 1 or len(items) == 1:
        for item in items:
            work(item)
            advance()
        return
    rest = iter(items)
    with ThreadPoolExecutor(workers) as pool:
        running = [pool.submit(work, item) for item in islice(rest, 2 * workers)]
        try:
            while running:
                running.pop(0).result()
                advance()
                running += [pool.submit(work, item) for item in islice(rest, 1)]
        finally:
            for future in running:
                future.cancel()
