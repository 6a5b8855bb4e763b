"""Kernel matrices of any size in bounded memory: tile by tile, each compiled once, into a NumPy array or a file.

Tiles are squares small enough to stay near the processor and within the budget; the last of a row is filled up with
repeated inputs, so that one program serves all. Of a symmetric matrix only the tiles on and above the diagonal are
computed. `execution` runs them, several at a time.

JAX arrays stay on their device: the program takes the whole of them and cuts out its rows there, and only tiles come
back. NumPy arrays are put onto an accelerator as a whole where they fit.
"""

import os
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import combinations, product
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..execution import policy
from ..execution.executors import Threads, execute, stream
from ..execution.files import MatrixFiles
from ..execution.grid import Grid, even
from ..execution.sinks import Matrices, Tile
from ..execution.sources import ArraySource, DeviceSource, Slab, cut, fill
from ..layers import Layer
from ..numerics.device import backend
from ..numerics.padding import bucket, pad_rows
from ..numerics.precision import in_input_precision
from ..storage.files import digest
from .exact import Kernels, covariances, kernel, kernel_dtype, tile

compiled_kernel = jax.jit(kernel, static_argnames=("ntk", "diagonal", "pairs"))  # the pure function, for few rows

Array = np.ndarray | jax.Array
Path = str | os.PathLike[str]
InputSource = ArraySource[Array] | DeviceSource[jax.Array]
Traced = jax.Array | Slab[jax.Array]
Rows = np.ndarray | Traced
Compiled = Callable[[Layer, Rows, Rows], tuple[Kernels, Kernels]]
Sides = tuple[int, int]


def is_large(net: Layer, x1: Array, x2: Array | None) -> bool:
    """Whether tiles are worth their while: NumPy arrays of many rows, and no parameter that JAX traces."""
    most = max(len(x1), 0 if x2 is None else len(x2)) if isinstance(x1, np.ndarray) else 0
    return most > largest_side(net, x1) and all(isinstance(leaf, float) for leaf in jax.tree.leaves(net))


def at_once(net: Layer, x1: Array, x2: Array | None, names: tuple[str, ...], diagonal: bool) -> Kernels:
    """The kernels of few rows, or of what JAX traces, by one program; NumPy or JAX arrays as x1 is.

    Rows in NumPy arrays are filled up to one of few numbers, whose programs are shared.
    """
    run = partial(compiled_kernel, net, ntk="ntk" in names, diagonal=diagonal)
    if not isinstance(x1, np.ndarray):
        return run(x1, x2)
    if x1.ndim > 2 or not len(x1) or (x2 is not None and not len(x2)):
        return jax.tree.map(_writeable, in_input_precision(run, x1, x2))
    full = [None if x is None else pad_rows(x, bucket(len(x))) for x in (x1, x2)]
    sides = slice(len(x1)), slice(len(x1) if x2 is None else len(x2))
    return jax.tree.map(lambda k: _writeable(k[sides[: k.ndim]]), in_input_precision(run, *full))


def _writeable(k: Array) -> Array:
    """NumPy's view of a result of JAX is read-only, and scikit-learn's KernelRidge, say, adds to the diagonal in place."""
    return k.copy() if isinstance(k, np.ndarray) else k


def by_tiles(
    net: Layer,
    x1: Array,
    x2: Array | None,
    names: tuple[str, ...],
    memory: int | None = None,
    progress: bool = False,
    out: object = None,
    side: int | None = None,
    symmetric: bool = False,
) -> Kernels:
    """The kernels named, as NumPy arrays; into `out`, an array or path or one for each name, where given.

    Both inputs are NumPy or both JAX arrays, of one dtype. `side` is the most inputs along a side of a tile, where the
    best for speed is not wanted. `symmetric` says that the kernel of two inputs is a symmetric matrix, of which half is
    computed, as it is of one.
    """
    alone, symmetric = x2 is None, symmetric or x2 is None
    other = x1 if x2 is None else x2
    shape, dtype = (len(x1), len(other)), kernel_dtype(x1.dtype)
    paths = _output_paths(names, out)
    arrays = [] if paths else _output_arrays(names, out, shape, dtype, (x1, other))
    files = MatrixFiles(paths, digest(names, net, x1, x2)) if paths else None
    if 0 in shape:
        arrays = arrays or [np.empty(shape, dtype) for _ in names]
        for array, path in zip(arrays, paths, strict=False):
            np.save(path, array)
        return _kernels(names, arrays)
    numbers: Layer = jax.tree.map(float, net)
    sources = _sources(x1, other)
    if files is not None and files.sides is not None:
        sides = files.sides
    else:
        sides = _sides(sources, _limit(numbers, sources, "ntk" in names, memory, side))
    program = partial(
        _run, _compile_tile(numbers, sources, sides, "ntk" in names), _on_device(numbers, dtype), sides, names
    )
    grid = Grid.of_tiles(shape, sides, symmetric)
    sink: Matrices | MatrixFiles = Matrices(arrays, symmetric, own_diagonal=alone)
    if files is not None:
        files.open(grid, dtype, _probe(program, grid, sources), symmetric, own_diagonal=alone)
        sink = files
    executor = Threads(policy.current().workers)
    return _kernels(names, execute(program, grid, sources, sink, executor, "kernel tiles" if progress else None))


def _run(compiled: Compiled, net: Layer, sides: Sides, names: tuple[str, ...], rows: Rows, columns: Rows) -> Tile:
    """The kernels of a tile, and those of its rows with themselves."""
    with jax.enable_x64(_dtype(rows) == np.float64):
        entries, own = compiled(net, fill(rows, sides[0]), fill(columns, sides[1]))
    return Tile(*([getattr(kernels, name) for name in names] for kernels in (entries, own)))


def _on_device(net: Layer, dtype: np.dtype) -> Layer:
    """The network's numbers as arrays: brought there once, and not with every tile."""
    with jax.enable_x64(dtype == np.float64):
        return jax.device_put(net)


def _sources(x1: Array, x2: Array) -> tuple[InputSource, InputSource]:
    """Both inputs where tiles are cut out of them: NumPy arrays on an accelerator, where they fit."""
    arrays = [x1] if x2 is x1 else [x1, x2]
    sources: list[InputSource]
    if not isinstance(x1, jax.Array) and not policy.fits_on_device(sum(x.nbytes for x in arrays)):
        sources = [ArraySource(x) for x in arrays]
    else:
        with jax.enable_x64(x1.dtype == np.float64):
            sources = [DeviceSource(jnp.asarray(x)) for x in arrays]
    return sources[0], sources[-1]


def _limit(net: Layer, sources: Sequence[InputSource], ntk: bool, memory: int | None, side: int | None) -> int:
    """The most inputs along a side of a tile: the best for speed, or fewer that fit the budget."""
    first = sources[0].arrays
    limit = largest_side(net, first) if side is None else side

    def bytes_for(limit: int) -> tuple[int, int]:
        """The longer side of the tiles, and what all in work take."""
        sides = _sides(sources, limit)
        need = _bytes_needed(_compile_tile(net, sources, sides, ntk), sum(sides), first)
        return max(sides), policy.current().workers * need

    return limit if memory is None else policy.side_within(memory, limit, bytes_for)


def _bytes_needed(compiled: jax.stages.Compiled, rows: int, x: Array) -> int:
    """What a tile takes while it is computed: its inputs, its temporary arrays, and its results, once more when copied."""
    analysis: Any = compiled.memory_analysis()  # of XLA, without types
    inputs = rows * prod(x.shape[1:]) * x.dtype.itemsize
    return inputs + analysis.temp_size_in_bytes + 2 * analysis.output_size_in_bytes


def _sides(sources: Sequence[InputSource], limit: int) -> Sides:
    """The sides of the fewest equal tiles of at most `limit`; without pixels, sides that other numbers of rows have too."""
    rows, columns = (even(len(source), limit) for source in sources)
    if sources[0].arrays.ndim > 2:
        return rows, columns
    return min(bucket(rows), limit), min(bucket(columns), limit)


def _compile_tile(net: Layer, sources: Sequence[InputSource], sides: Sides, ntk: bool) -> jax.stages.Compiled:
    """The program of a tile, compiled once for all values of a network's parameters."""
    leaves, structure = jax.tree.flatten(net)
    inputs = tuple(source.abstract(side) for source, side in zip(sources, sides, strict=True))
    return _compile(structure, len(leaves), sides, inputs, ntk, (policy.current().covariances, backend()))


@lru_cache(maxsize=64)
def _compile(
    structure: jax.tree_util.PyTreeDef,
    leaves: int,
    sides: Sides,
    inputs: tuple[object, object],
    ntk: bool,
    traced_under: tuple[int, str],
) -> jax.stages.Compiled:
    """Compile the kernels of two inputs of these shapes; `traced_under` is what they look up of the policy meanwhile."""
    net = jax.tree.unflatten(structure, [1.0] * leaves)

    def program(net: Layer, rows: Traced, columns: Traced) -> tuple[Kernels, Kernels]:
        return tile(net, cut(rows, sides[0]), cut(columns, sides[1]), ntk=ntk)

    with jax.enable_x64(jax.tree.leaves(inputs)[0].dtype == np.float64):
        return jax.jit(program).lower(net, *inputs).compile()


def _dtype(rows: Rows) -> np.dtype:
    return rows.arrays.dtype if isinstance(rows, Slab) else rows.dtype


def largest_side(net: Layer, x: Array) -> int:
    """How many inputs along a side of a tile are best for speed."""
    return policy.tile_side(x.ndim > 2, covariances(net, x))


def _probe(program: Callable[[Rows, Rows], Tile], grid: Grid, sources: Sequence[InputSource]) -> list[float]:
    """Some values of the first tile, which tell functions of one name apart."""
    _, first = next(stream(program, grid.part(0, len(grid)), sources, ahead=0))
    return [float(v) for entries in first.entries for v in np.asarray(entries)[:8, :8].reshape(-1)]


def _kernels(names: tuple[str, ...], arrays: Sequence[np.ndarray]) -> Kernels:
    named = dict(zip(names, arrays, strict=True))
    return Kernels(named.get("nngp"), named.get("ntk"))


def _output_paths(names: tuple[str, ...], out: object) -> list[Path]:
    """The paths of files to write, one for each name; none where `out` is something else."""
    outs = list(out) if isinstance(out, tuple | list) else [out]
    paths = [path for path in outs if isinstance(path, str | os.PathLike)]
    if len(paths) < len(outs):
        return []
    if len({os.path.realpath(path) for path in paths}) != len(names):
        raise ValueError(f"out takes a path for each of {', '.join(names)}, and was given {out!r}.")
    return paths


def _output_arrays(
    names: tuple[str, ...], out: object, shape: tuple[int, int], dtype: np.dtype, inputs: tuple[Array, ...]
) -> list[np.ndarray]:
    """The arrays to write into, one for each name."""
    if out is None:
        return [np.empty(shape, dtype) for _ in names]
    outs = list(out) if isinstance(out, tuple | list) else [out]
    if len(outs) != len(names):
        raise ValueError(f"out takes an array for each of {', '.join(names)}, and was given {len(outs)}.")
    arrays: list[np.ndarray] = []
    for array in outs:
        if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != dtype:
            seen = f"{array.dtype} of the shape {array.shape}" if isinstance(array, np.ndarray) else repr(array)
            raise ValueError(
                f"out must be a path, or a NumPy array or memmap of {dtype} and of the shape {shape}, not {seen}."
            )
        if not array.flags.writeable:
            raise ValueError("out is read-only. Open the memmap with mode='r+' or 'w+'.")
        arrays.append(array)
    own = [x for x in inputs if isinstance(x, np.ndarray)]
    if any(np.may_share_memory(a, b) for a, b in [*combinations(arrays, 2), *product(arrays, own)]):
        raise ValueError(
            "An array of out shares memory with another, or with the inputs, and would overwrite it. Give separate ones."
        )
    return arrays
