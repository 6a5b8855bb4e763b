"""The feature reading: a network as a map from inputs to columns whose products approximate its kernel.

`feature_map` draws the random numbers once (`part`, `plan`); the map is a pytree, and goes into a file with what was drawn.
"""

import os
from collections.abc import Callable, Iterator
from functools import partial
from math import prod
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from ..execution import policy
from ..execution.executors import Pipeline, execute, stream
from ..execution.grid import Grid
from ..execution.progress import bar
from ..execution.sinks import DeviceRows, HostRows
from ..execution.sources import ArraySource, fill
from ..kernels.exact import Kernels, kernel
from ..numerics.checks import check_int
from ..numerics.padding import power_of_two
from ..numerics.precision import check_inputs, in_input_precision, precision_scope
from ..sketches import Exact, Sketch
from ..storage.format import FEATURE_MAP, reading_arrays, write_arrays
from ..storage.module import encode_module
from ..storage.values import Decoder, Encoder, add_kind
from .part import Part, decode_part, decode_sketch, draw_part, is_traced

Columns = np.ndarray | Array
_PATCH = 9  # pixels that a convolution sees, as a rule
MOST = 2**24  # columns, and sides of inputs, of a map in a file,
_LARGEST = 2**28  # and numbers of one input


class KernelError(NamedTuple):
    """How far products of features are from the kernel, on pairs of different rows of a sample.

    `rms` is the root of the mean square of |error| / sqrt(K_ii K_jj), `largest` the largest such number, and `relative` the
    norm of the error over that of the kernel.
    """

    rms: float
    largest: float
    relative: float
    rows: int


class FeatureMap(eqx.Module):
    """phi(x): columns whose products approximate a kernel, phi(x) . phi(y) ~ K(x, y). Made by `Network.feature_map`."""

    net: Any  # a Network, which comes later in the order of modules
    parts: tuple[Part, ...]
    sketch: Sketch = eqx.field(static=True)
    input_shape: tuple[int, ...] = eqx.field(static=True)
    columns: int = eqx.field(static=True)
    several: bool = eqx.field(static=True)  # whether `get` was a tuple of kernels
    dtype: str | None = eqx.field(static=True)

    def __call__(self, x: Any, batch: int | None = None, progress: bool = False) -> Any:
        """The features of every row of x, (n, features); NumPy or JAX as x is, in its precision or the map's `dtype`.

        Arrays go through in batches of `batch` rows, as many as fit a small part of memory where it is not said; those of
        JAX stay on their device. Where the network ends with pixels, every pixel has features. To compile it into a
        program, `jax.jit(lambda x: phi(x))`.
        """
        x = self._check_rows(x)
        size = self._size(x, batch)
        if isinstance(self.sketch, Exact) or is_traced(x) or (isinstance(x, jax.Array) and len(x) <= size):
            some = x if len(x) else jnp.zeros((1, *x.shape[1:]), x.dtype)
            return self._choose(
                [in_input_precision(partial(self._columns_of, part), some)[: len(x)] for part in self.parts]
            )
        sink: HostRows[list[Array]] | DeviceRows[list[Array]]
        sink = DeviceRows(len(x)) if isinstance(x, jax.Array) else HostRows(len(x))
        label = "features" if progress else None
        program, grid = self._program(size), Grid.of_rows(len(x), size)
        return self._choose(execute(program, grid, [ArraySource(x)], sink, Pipeline(), label))

    def blocks(self, x: Any, batch: int | None = None, progress: bool = False) -> Iterator[Any]:
        """The features block by block, `batch` rows each, for callers who do not keep them all."""
        x = self._check_rows(x)
        size = self._size(x, batch)
        grid = Grid.of_rows(len(x), size)
        with bar("features", progress, len(x)) as advance:
            for block, parts in stream(self._program(size), grid, [ArraySource(x)]):
                yield self._choose([np.asarray(part) for part in parts] if isinstance(x, np.ndarray) else parts)
                advance(block.units)

    def error(self, x: Any, sample: int = 256, seed: int = 0) -> Any:
        """How far the features' products are from the kernel on a random sample of the rows of x: a `KernelError`.

        An estimate for the data at hand and this draw of the map; the exact kernel of the sample is computed. It falls
        with the square root of the number of features.
        """
        if isinstance(self.sketch, Exact):
            raise ValueError("The features of Exact hold within one call, and have no error to estimate.")
        x = np.asarray(self._check_rows(x))
        if len(x) < 2:
            raise ValueError(f"An error needs two rows at least, and x has {len(x)}.")
        rows = np.random.default_rng(seed).permutation(len(x))[: check_int("sample", sample, least=2)]
        x = np.asarray(x[np.sort(rows)], np.float64)
        features = self(x)
        features = features if self.several else (features,)
        exact = self.net.kernel(x, get=tuple(part.get for part in self.parts))
        errors = [_kernel_error(f, getattr(exact, part.get)) for f, part in zip(features, self.parts, strict=True)]
        return self._choose(errors)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the map, with what was drawn, as arrays and JSON into one .npz file; whole or not at all."""
        write_arrays(path, self.encode(Encoder()), self.arrays())

    def encode(self, encoder: Encoder) -> dict[str, Any]:
        """All but the arrays, as JSON."""
        return {
            **encoder.encode(self.net),
            "sketch": encode_module(self.sketch),
            "parts": [part.encode() for part in self.parts],
            "input_shape": list(self.input_shape),
            "columns": self.columns,
            "several": self.several,
            "dtype": self.dtype,
        }

    def arrays(self) -> list[np.ndarray]:
        """What was drawn, in the order of a file."""
        return [array for part in self.parts for array in part.arrays()]

    def _check_rows(self, x: Any) -> Any:
        x, _ = check_inputs(x, None, names=("x", ""))
        if x.shape[1:] != self.input_shape:
            raise ValueError(
                f"The map takes inputs of the shape (n, {', '.join(map(str, self.input_shape))}), and x has {x.shape}."
            )
        return x if self.dtype is None else x.astype(self.dtype)

    def _columns_of(self, part: Part, x: Columns) -> Array:
        columns = part.features(self.net, x)
        if isinstance(self.sketch, Exact):
            return columns
        missing = self.columns - columns.shape[-1]
        return jnp.pad(columns, [(0, 0)] * (columns.ndim - 1) + [(0, missing)]) if missing else columns

    def batch_size(self, dtype: Any = "float32") -> int:
        """How many rows of `dtype`, or the map's own, are best computed at a time."""
        itemsize = jnp.dtype(self.dtype or dtype).itemsize
        spatial = self.input_shape[:-1]
        wide = max(self.columns, *(_PATCH * part.widths.at(spatial) for part in self.parts))
        row = prod(spatial) * wide * itemsize if spatial else self.columns * itemsize
        return policy.batch_rows(row)

    def _size(self, x: Columns, batch: int | None) -> int:
        """The rows of a batch. Few rows are filled up to a power of two, so that inputs of similar sizes share programs."""
        size = self.batch_size(x.dtype) if batch is None else check_int("batch", batch, least=1)
        return min(size, power_of_two(len(x)))

    def _program(self, size: int) -> Callable[[Columns], list[Array]]:
        """The features of up to `size` rows, filled up so that one program serves all."""

        def run(rows: Columns) -> list[Array]:
            with precision_scope(rows):
                return [self._columns_of(part, fill(rows, size))[: len(rows)] for part in self.parts]

        return run

    def _choose(self, values: list[Any]) -> Any:
        """The value of the only part, or those of several by the names of their kernels."""
        if not self.several:
            return values[0]
        named = {part.get: value for part, value in zip(self.parts, values, strict=True)}
        return Kernels(named.get("nngp"), named.get("ntk"))


def _kernel_error(features: np.ndarray, exact: np.ndarray) -> KernelError:
    wide = features.astype(np.float64)
    # outputs may have pixels, each by itself
    products = wide @ wide.T if wide.ndim == 2 else np.einsum("i...m,j...m->ij...", wide, wide)
    i, j = np.triu_indices(len(exact), 1)
    size = np.sqrt(np.abs(np.einsum("ii...->i...", exact)))
    scale = size[i] * size[j]
    difference = products[i, j] - exact[i, j]
    scaled = np.abs(difference) / np.where(scale > 0, scale, 1)
    norm = np.linalg.norm(exact[i, j])
    relative = float(np.linalg.norm(difference) / norm) if norm > 0 else float(np.linalg.norm(difference))
    return KernelError(float(np.sqrt(np.mean(scaled**2))), float(scaled.max()), relative, len(exact))


def feature_map(
    net: Any, key: PRNGKeyArray, shape: tuple[int, ...], features: int, names: tuple[str, ...], several: bool,
    sketch: Sketch, dtype: Any,
) -> FeatureMap:  # fmt: skip
    """Draw a map; see `Network.feature_map`."""
    features = check_int("features", features, least=1)
    dtype = None if dtype is None else _floating_name(dtype)
    # the exact reading refuses what makes no sense: an activation on raw inputs, open branches
    jax.eval_shape(partial(kernel, net), jax.ShapeDtypeStruct((2, *shape), jnp.float32))
    numbers, keys = jax.tree.map(float, net), jax.random.split(key, len(names))
    parts = tuple(draw_part(numbers, own, shape, features, get, sketch) for get, own in zip(names, keys, strict=True))
    return FeatureMap(net, parts, sketch, shape, features, several, dtype)


def _floating_name(dtype: Any) -> str:
    try:
        parsed = jnp.dtype(dtype)
    except TypeError:
        parsed = None
    if parsed is None or not jnp.issubdtype(parsed, jnp.floating):
        raise TypeError(f"dtype is a floating one, such as 'float32', not {dtype!r}.")
    return str(parsed)


def decode_map(header: dict[str, Any], arrays: list[np.ndarray], decoder: Decoder) -> FeatureMap:
    """The map of `FeatureMap.encode` and its arrays."""
    net = decoder.decode({"network": header["network"]})
    shape = tuple(check_int("A side of its inputs", side, least=1, most=MOST) for side in header["input_shape"])
    columns, several = check_int("The number of its columns", header["columns"], least=1, most=MOST), header["several"]
    if not shape or prod(shape) > _LARGEST:
        raise ValueError(f"its inputs have the shape {shape}")
    net.shape(shape, None)
    parts = []
    for data in header["parts"]:
        part, arrays = decode_part(data, arrays, net, shape, columns)
        parts.append(part)
    names = [part.get for part in parts]
    if arrays or not isinstance(several, bool) or len(set(names)) != len(names) or not (several or len(names) == 1):
        raise ValueError("it has more arrays or kernels than its network")
    dtype = None if header["dtype"] is None else _floating_name(header["dtype"])
    return FeatureMap(net, tuple(parts), decode_sketch(header["sketch"]), shape, columns, several, dtype)


def load_feature_map(path: str | os.PathLike[str]) -> FeatureMap:
    """The map that `FeatureMap.save` wrote."""
    with reading_arrays(path, FEATURE_MAP) as (header, arrays):
        return decode_map(header, arrays, Decoder(arrays))


add_kind(
    "map",
    FeatureMap,
    lambda phi, encoder: {"map": phi.encode(encoder), "arrays": [encoder.keep(array) for array in phi.arrays()]},
    lambda data, decoder: decode_map(data["map"], [decoder.array(i) for i in data["arrays"]], decoder),
)
