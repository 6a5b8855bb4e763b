"""The feature reading: a network as a map from inputs to columns whose products approximate its kernel.

`feature_map` draws the random numbers once (`drawing`); the map is a pytree, and goes into a file with what was drawn.
"""

import json
import os
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
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
from ..layers import Layer, Nonlinearity
from ..numerics.checks import check_int
from ..numerics.precision import check_inputs, in_input_precision, precision_scope
from ..sketches import Auto, Cosine, Exact, PolySketch, Powers, RandomWeights, Sketch, Widths
from ..storage.files import atomic_file, described_file
from ..storage.module import plain
from .cosine import OfCosine, of_cosine
from .plan import LEAST, applied, column_count, draw, drawn_at_once, outline, planned

Columns = np.ndarray | Array
_PATCH = 9  # pixels that a convolution sees, as a rule
_KINDS: dict[str, type[Sketch]] = {
    "auto": Auto, "random_weights": RandomWeights, "powers": Powers, "cosine": Cosine, "polysketch": PolySketch,
    "exact": Exact,
}  # fmt: skip
_POLYNOMIAL_ERROR = 0.1  # at most, times the root of the columns
_FORMAT = 1
MOST = 2**24  # columns of a map in a file


def chosen(sketch: str | Sketch, degree: int | None) -> Sketch:
    """The kind of a name, or one that is given; with its degree where it has one."""
    if isinstance(sketch, Sketch):
        if degree is not None:
            raise ValueError(f"degree={degree} beside the object {sketch!r}, which says its own if any. Leave it out.")
        return sketch
    if sketch not in _KINDS:
        raise ValueError(
            f"sketch is one of {', '.join(_KINDS)}, or an object such as widelimit.sketch.Powers(), not {sketch!r}."
        )
    kind = _KINDS[sketch]
    if degree is None:
        return kind()
    if sketch in ("random_weights", "exact"):
        raise ValueError(f"sketch={sketch!r} has no degree: nothing is truncated. Leave degree out.")
    return kind(degree=degree)


@partial(jax.jit, static_argnames=("get", "sketch", "widths"))
def _run(net: Layer, drawn: Any, x: Array, get: str, sketch: Sketch, widths: Widths) -> Array:
    return applied(net, drawn, x, get, sketch, widths)


class Part(eqx.Module):
    """The drawn features of one kernel."""

    drawn: Any
    mixed: Array | None  # random signs that make few columns of more, where fewer were asked for than the network has
    whole: OfCosine | None  # what the network is as one polynomial, where it is drawn as such
    get: str = eqx.field(static=True)
    sketch: Sketch = eqx.field(static=True)
    widths: Widths = eqx.field(static=True)

    def features(self, net: Any, x: Columns) -> Array:
        """The columns of x."""
        if self.whole is None:
            found = _run(net, self.drawn, x, self.get, self.sketch, self.widths)
        else:
            found = _run(Nonlinearity(self.whole), self.drawn, x, "nngp", self.sketch, self.widths)
        return found if self.mixed is None else found @ self.mixed.astype(found.dtype)

    def header(self) -> dict[str, Any]:
        """All but the arrays, as JSON."""
        whole = None
        if self.whole is not None:
            whole = [float(v) for v in (self.whole.power, self.whole.error, *self.whole.coefficients)]
        mixed = None if self.mixed is None else list(self.mixed.shape)
        return {
            "get": self.get, "widths": list(self.widths), "sketch": _said(self.sketch), "whole": whole, "mixed": mixed
        }  # fmt: skip


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
    several: bool = eqx.field(static=True)  # whether a tuple of kernels was asked for
    dtype: str | None = eqx.field(static=True)

    def __call__(self, x, batch: int | None = None, progress: bool = False) -> Any:
        """The features of every row of x, (n, features); NumPy or JAX as x is, in its precision or the map's `dtype`.

        Arrays go through in batches of `batch` rows, as many as fit a small part of memory where it is not said; those of
        JAX stay on their device. Where the network ends with pixels, every pixel has features. To compile it into a
        program, `jax.jit(lambda x: phi(x))`.
        """
        x = self._checked(x)
        size = self._size(x, batch)
        if isinstance(self.sketch, Exact) or _is_traced(x) or (isinstance(x, jax.Array) and len(x) <= size):
            some = x if len(x) else jnp.zeros((1, *x.shape[1:]), x.dtype)
            return self._choose([in_input_precision(partial(self._one, part), some)[: len(x)] for part in self.parts])
        sink: HostRows[list[Array]] | DeviceRows[list[Array]]
        sink = DeviceRows(len(x)) if isinstance(x, jax.Array) else HostRows(len(x))
        label = "features" if progress else None
        program, grid = self._program(size), Grid.of_rows(len(x), size)
        return self._choose(execute(program, grid, [ArraySource(x)], sink, Pipeline(), label))

    def blocks(self, x, batch: int | None = None, progress: bool = False) -> Iterator[Any]:
        """The features of `batch` rows after the other, for those who do not keep them."""
        x = self._checked(x)
        size = self._size(x, batch)
        grid = Grid.of_rows(len(x), size)
        with bar("features", progress, len(x)) as advance:
            for block, parts in stream(self._program(size), grid, [ArraySource(x)]):
                yield self._choose([np.asarray(part) for part in parts] if isinstance(x, np.ndarray) else parts)
                advance(block.units)

    def error(self, x, sample: int = 256, seed: int = 0) -> Any:
        """How far the features' products are from the kernel on a random sample of the rows of x: a `KernelError`.

        An estimate for the data at hand and this draw of the map; the exact kernel of the sample is computed. It falls
        with the square root of the number of features.
        """
        if isinstance(self.sketch, Exact):
            raise ValueError("The features of Exact hold within one call, and have no error to estimate.")
        x = np.asarray(self._checked(x))
        if len(x) < 2:
            raise ValueError(f"An error needs two rows at least, and x has {len(x)}.")
        rows = np.random.default_rng(seed).permutation(len(x))[: check_int("sample", sample, least=2)]
        x = np.asarray(x[np.sort(rows)], np.float64)
        features = self(x)
        features = features if self.several else (features,)
        exact = self.net.kernel(x, get=tuple(part.get for part in self.parts))
        found = [_kernel_error(f, getattr(exact, part.get)) for f, part in zip(features, self.parts, strict=True)]
        return self._choose(found)

    def save(self, path: str | os.PathLike) -> None:
        """Write the map, with what was drawn, as arrays and JSON into one .npz file; whole or not at all."""
        header, arrays = self.described()
        named: dict[str, Any] = {f"array_{i}": array for i, array in enumerate(arrays)}
        with atomic_file(path) as file:
            np.savez(file, header=np.array(json.dumps({"widelimit": _FORMAT, **header})), **named)

    def described(self) -> tuple[dict[str, Any], list[np.ndarray]]:
        """The map as JSON and arrays, of which `rebuilt_map` makes it again."""
        header = {
            "network": json.loads(self.net.to_json()),
            "sketch": _said(self.sketch),
            "parts": [part.header() for part in self.parts],
            "input_shape": list(self.input_shape),
            "columns": self.columns,
            "several": self.several,
            "dtype": self.dtype,
        }
        drawn = jax.tree.leaves([(part.drawn, part.mixed) for part in self.parts])
        return header, [_stored(np.asarray(leaf)) for leaf in drawn]

    def _checked(self, x: Any) -> Any:
        x, _ = check_inputs(x, None, names=("x", ""))
        if x.shape[1:] != self.input_shape:
            raise ValueError(
                f"The map takes inputs of the shape (n, {', '.join(map(str, self.input_shape))}), and x has {x.shape}."
            )
        return x if self.dtype is None else x.astype(self.dtype)

    def _one(self, part: Part, x: Columns) -> Array:
        found = part.features(self.net, x)
        if isinstance(self.sketch, Exact):
            return found
        missing = self.columns - found.shape[-1]
        return jnp.pad(found, [(0, 0)] * (found.ndim - 1) + [(0, missing)]) if missing else found

    def batch_size(self, dtype: Any = "float32") -> int:
        """How many rows of `dtype`, or the map's own, are best computed at a time."""
        itemsize = jnp.dtype(self.dtype or dtype).itemsize
        spatial = self.input_shape[:-1]
        wide = max(self.columns, *(_PATCH * part.widths.at(spatial) for part in self.parts))
        row = prod(spatial) * wide * itemsize if spatial else self.columns * itemsize
        return policy.batch_rows(row)

    def _size(self, x: Columns, batch: int | None) -> int:
        """How many rows go through at a time: of few, one of few numbers, which share programs."""
        size = self.batch_size(x.dtype) if batch is None else check_int("batch", batch, least=1)
        return min(size, 1 << max(len(x) - 1, 0).bit_length())

    def _program(self, size: int) -> Callable[[Columns], list[Array]]:
        """The features of up to `size` rows, filled up so that one program serves all."""

        def run(rows: Columns) -> list[Array]:
            with precision_scope(rows):
                return [self._one(part, fill(rows, size))[: len(rows)] for part in self.parts]

        return run

    def _choose(self, found: list[Any]) -> Any:
        if not self.several:
            return found[0]
        named = {part.get: value for part, value in zip(self.parts, found, strict=True)}
        return Kernels(named.get("nngp"), named.get("ntk"))


def _kernel_error(features: np.ndarray, exact: np.ndarray) -> KernelError:
    wide = features.astype(np.float64)
    # outputs may have pixels, each by itself
    found = wide @ wide.T if wide.ndim == 2 else np.einsum("i...m,j...m->ij...", wide, wide)
    i, j = np.triu_indices(len(exact), 1)
    size = np.sqrt(np.abs(np.einsum("ii...->i...", exact)))
    scale = size[i] * size[j]
    difference = found[i, j] - exact[i, j]
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
    dtype = None if dtype is None else _floating(dtype)
    # the exact reading refuses what makes no sense: an activation on raw inputs, open branches
    jax.eval_shape(partial(kernel, net), jax.ShapeDtypeStruct((2, *shape), jnp.float32))
    numbers, keys = jax.tree.map(float, net), jax.random.split(key, len(names))
    parts = tuple(_part(numbers, own, shape, features, get, sketch) for get, own in zip(names, keys, strict=True))
    return FeatureMap(net, parts, sketch, shape, features, several, dtype)


def _floating(dtype: Any) -> str:
    try:
        found = jnp.dtype(dtype)
    except TypeError:
        found = None
    if found is None or not jnp.issubdtype(found, jnp.floating):
        raise TypeError(f"dtype is a floating one, such as 'float32', not {dtype!r}.")
    return str(found)


def _part(net: Layer, key: PRNGKeyArray, shape: tuple[int, ...], features: int, get: str, sketch: Sketch) -> Part:
    """Draw the features of one kernel."""
    if isinstance(sketch, Exact):  # nothing is random
        widths = Widths(1, True)
        return Part(outline(net, shape, get, sketch, widths), None, None, get, sketch, widths)
    draw_now = draw if _is_traced(key) else drawn_at_once
    key, for_signs = jax.random.split(key)
    polynomial = _polynomial(net, shape, features, get, sketch)
    if polynomial is not None:
        kind = sketch if isinstance(sketch, Cosine) else Cosine()
        layer = Nonlinearity(polynomial)
        widths = planned(layer, shape, features, "nngp", kind)
        columns = column_count(layer, shape, "nngp", kind, widths)
        if columns <= features or isinstance(sketch, Cosine):
            drawn = draw_now(layer, key, shape, "nngp", kind, widths)
            return Part(drawn, _mixed(for_signs, columns, features), polynomial, get, kind, widths)
    widths = planned(net, shape, features, get, sketch)
    mixed = _mixed(for_signs, column_count(net, shape, get, sketch, widths), features)
    return Part(draw_now(net, key, shape, get, sketch, widths), mixed, None, get, sketch, widths)


def _mixed(key: PRNGKeyArray, columns: int, features: int) -> Array | None:
    """Signs S with the mean of S S^T the identity: (phi S) . (phi' S) is phi . phi' on average."""
    if columns <= features:
        return None
    signs = jax.random.rademacher(key, (columns, features), jnp.float32)
    return signs * features**-0.5


def _is_traced(x: Any) -> bool:
    """Whether JAX traces an array or a key."""
    if isinstance(x, np.ndarray):
        return False
    try:
        bool(jnp.any(jax.random.key_data(x) == 0 if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x[:1] == 0))
    except jax.errors.TracerBoolConversionError:
        return True
    return False


@lru_cache(maxsize=64)
def _polynomial(net: Layer, shape: tuple[int, ...], features: int, get: str, sketch: Sketch) -> OfCosine | None:
    """The network's kernel as one polynomial of the cosine, where that is asked for, or best.

    The polynomial's own error does not fall with the number of columns: it must be well below theirs.
    """
    if not isinstance(sketch, Cosine | Auto) or len(shape) != 1:
        found = None
    else:
        with jax.ensure_compile_time_eval():  # keys may be traced, the network is not
            found = of_cosine(net, shape[0], get, sketch.degree if isinstance(sketch, Cosine) else Cosine().degree)
    if isinstance(sketch, Cosine):
        if found is None:
            raise ValueError(
                "Cosine takes rows, and networks whose kernel is a power of their lengths times a function of their "
                "cosine: without biases, and with activations such as ReLU. This one is none. Use sketch='auto'."
            )
        return found
    return found if found is not None and found.error < _POLYNOMIAL_ERROR * features**-0.5 else None


def _said(sketch: Sketch) -> dict[str, Any]:
    """A kind as JSON."""
    return {type(sketch).__name__: {k: plain(v) for k, v in sketch.arguments().items()}}


def _heard(said: dict[str, Any]) -> Sketch:
    ((name, arguments),) = said.items()
    return {kind.__name__: kind for kind in _KINDS.values()}[name](**arguments)


def _stored(array: np.ndarray) -> np.ndarray:
    """As NumPy's files hold it: bfloat16, which they do not know, as the bits of it."""
    return array.view(np.uint16) if array.dtype == jnp.bfloat16 else array


def _read(array: np.ndarray, wanted: Any) -> np.ndarray:
    return array.view(jnp.bfloat16) if wanted.dtype == jnp.bfloat16 and array.dtype == np.uint16 else array


def rebuilt_map(header: dict[str, Any], arrays: list[np.ndarray], network: Any) -> FeatureMap:
    """The map of `FeatureMap.described`; `network` makes a network of its JSON. Nothing of it is executed."""
    net = network(json.dumps(header["network"]))
    sketch, shape, parts = _heard(header["sketch"]), tuple(header["input_shape"]), []
    for part in header["parts"]:
        widths, own_sketch, whole = Widths(*part["widths"]), _heard(part["sketch"]), None
        if not widths.random <= max(header["columns"], LEAST + 1) <= MOST:
            raise ValueError("its features are more than they can be")
        read = net, shape, part["get"]
        if part["whole"] is not None:
            power, polynomial_error, *coefficients = part["whole"]
            whole = OfCosine(power, tuple(coefficients), polynomial_error)
            read = Nonlinearity(whole), shape, "nngp"
        mixed = None if part["mixed"] is None else jax.ShapeDtypeStruct(tuple(part["mixed"]), jnp.float32)
        leaves, structure = jax.tree.flatten((outline(*read, own_sketch, widths), mixed))
        own, arrays = [_read(*pair) for pair in zip(arrays, leaves, strict=False)], arrays[len(leaves) :]
        if [(a.shape, a.dtype) for a in own] != [(leaf.shape, leaf.dtype) for leaf in leaves]:
            raise ValueError("its arrays do not fit its network")
        if not all(np.all(np.isfinite(a)) for a in own):
            raise ValueError("its arrays hold NaN or infinity")
        drawn, mixed = jax.tree.unflatten(structure, [jnp.asarray(a) for a in own])
        parts.append(Part(drawn, mixed, whole, part["get"], own_sketch, widths))
    return FeatureMap(net, tuple(parts), sketch, shape, header["columns"], header["several"], header["dtype"])


def load_feature_map(path: str | os.PathLike, network: Any) -> FeatureMap:
    """The map that `FeatureMap.save` wrote."""
    with described_file(path, _FORMAT, "feature map", "phi.save") as (header, arrays):
        return rebuilt_map(header, arrays, network)
