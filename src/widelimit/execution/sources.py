"""Where a job reads its rows: a range at a time, without loading the rest.

A new kind of source (a Zarr array, a Dask collection, chunks of a file) is a class with the three methods of `Source`.
`read` may be called from several threads at once, and gives NumPy or JAX arrays, or a pytree of them.
"""

from typing import Any, Generic, Protocol, TypeVar, overload

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..numerics.padding import pad_rows

Arrays = TypeVar("Arrays")  # an array, or a pytree of arrays with equally many rows
Rows_co = TypeVar("Rows_co", covariant=True)


class Source(Protocol[Rows_co]):
    """Rows that can be read by range."""

    def __len__(self) -> int:
        """How many rows there are."""
        ...

    def read(self, rows: slice) -> Rows_co:
        """The rows of a range: what the program is given."""
        ...

    def abstract(self, size: int) -> Rows_co:
        """What a compiled program is given for `size` rows, with `jax.ShapeDtypeStruct` for every array."""
        ...


class ArraySource(Generic[Arrays]):
    """NumPy arrays, memory maps among them, or JAX arrays; of each, `read` gives the rows alone."""

    def __init__(self, arrays: Arrays):
        self.arrays, self._length = arrays, _length(arrays)

    def __len__(self) -> int:
        return self._length

    def read(self, rows: slice) -> Arrays:
        return jax.tree.map(lambda x: x[rows] if isinstance(x, jax.Array) else np.asarray(x[rows]), self.arrays)

    def abstract(self, size: int) -> Arrays:
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct((size, *x.shape[1:]), x.dtype), self.arrays)


class Slab(eqx.Module, Generic[Arrays]):
    """JAX arrays as a whole, and the first of the rows to cut out of them."""

    arrays: Arrays
    start: np.ndarray


class DeviceSource(Generic[Arrays]):
    """JAX arrays that stay on their device; `read` gives a `Slab`, out of which the program cuts its rows by `cut`."""

    def __init__(self, arrays: Arrays):
        self.arrays, self._length = arrays, _length(arrays)

    def __len__(self) -> int:
        return self._length

    def read(self, rows: slice) -> Slab[Arrays]:
        return Slab(self.arrays, np.asarray(rows.start, np.int32))

    def abstract(self, size: int) -> Slab[Arrays]:
        def like(x: jax.Array | np.ndarray) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=getattr(x, "sharding", None))

        return jax.tree.map(like, self.read(slice(0, size)))


def fill(rows: Arrays, size: int) -> Arrays:
    """Rows that were read, before a compiled program takes them: `size` of them, the last one repeated."""
    return rows if isinstance(rows, Slab) else jax.tree.map(lambda x: pad_rows(x, size), rows)


@overload
def cut(rows: Slab[Arrays], size: int) -> Arrays: ...
@overload
def cut(rows: Arrays, size: int) -> Arrays: ...
def cut(rows: Any, size: int) -> Any:
    """The rows, inside a compiled program: out of a slab `size` rows are cut, the last one repeated beyond the end."""
    if not isinstance(rows, Slab):
        return rows
    return jax.tree.map(lambda x: x[jnp.minimum(rows.start + jnp.arange(size), len(x) - 1)], rows.arrays)


def _length(arrays: Arrays) -> int:
    lengths = {len(leaf) for leaf in jax.tree.leaves(arrays)}
    if len(lengths) != 1:
        raise ValueError(f"The arrays of a source have equally many rows, not {sorted(lengths)}.")
    return lengths.pop()
