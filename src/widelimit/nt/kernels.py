"""Kernel functions and kernel objects under neural-tangents' names.

A `Kernel` remembers the network and the inputs that made it. The next kernel function joins its own network to that one and
computes from the inputs again, so no covariances are carried from one to the next.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..kernels.exact import ends_gaussian
from ..kernels.matrix import by_tiles, compiled_kernel
from ..layers.state import STATIC
from ..network import Network
from ..numerics.precision import check_inputs, in_input_precision
from .blocks import in_blocks
from .choosing import names_of, select

_ARRAYS = ("nngp", "ntk", "cov1", "cov2")


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True)
class Kernel:
    """The covariances of a network's outputs, under neural-tangents' names.

    A pytree of its four arrays. One that went through a transformation of JAX has lost its `source`.
    """

    nngp: Any
    ntk: Any
    cov1: Any
    cov2: Any
    x1_is_x2: bool = field(metadata=STATIC)
    is_gaussian: bool = field(metadata=STATIC)
    is_input: bool = field(metadata=STATIC)
    diagonal_batch: bool = field(metadata=STATIC)
    diagonal_spatial: bool = field(metadata=STATIC)
    shape1: tuple[int | None, ...] = field(metadata=STATIC)
    shape2: tuple[int | None, ...] = field(metadata=STATIC)
    batch_axis: int = field(metadata=STATIC)
    channel_axis: int = field(metadata=STATIC)
    source: tuple[Network, Any, Any] | None = field(repr=False)  # the network and the inputs that this comes from
    is_reversed: bool = field(default=False, metadata=STATIC)  # spatial axes are always in order here
    mask1: None = None
    mask2: None = None

    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[tuple[str, Any], ...]]:
        """The arrays as leaves, and everything else but the source."""
        rest = {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in (*_ARRAYS, "source")}
        return tuple(getattr(self, name) for name in _ARRAYS), tuple(rest.items())

    @classmethod
    def tree_unflatten(cls, rest: tuple[tuple[str, Any], ...], arrays: tuple[Any, ...]) -> "Kernel":
        """A kernel of these arrays, without a source."""
        return cls(**dict(zip(_ARRAYS, arrays, strict=True)), **dict(rest), source=None)

    def asdict(self) -> dict[str, Any]:
        """All entries by their names."""
        return {name: getattr(self, name) for name in _NAMES}

    def replace(self, **changes: Any) -> "Kernel":
        """A copy with other entries; one whose covariances were changed cannot be propagated further."""
        source = None if any(name in _ARRAYS for name in changes) else self.source
        return replace(self, **({"source": source} | changes))


_NAMES = tuple(name for name in Kernel.__dataclass_fields__ if name != "source")


@dataclass(frozen=True, eq=False)
class KernelFn:
    """kernel_fn(x1, x2=None, get=None): the kernels of a network on arrays, or on the kernel of another network."""

    net: Network
    axes: tuple[int, int] = (0, -1)  # of the batch and the channels
    block: int | None = None  # the most inputs along a side of a tile, set by `batch`

    def __call__(
        self,
        x1_or_kernel: Any,
        x2: Any = None,
        get: Any = None,
        *,
        diagonal_batch: bool | None = None,
        diagonal_spatial: bool | None = None,
        **unknown: Any,
    ) -> Any:
        for name in unknown:
            hint = "It is not known."
            if name.startswith("mask") or name == "pattern":
                hint = "Masks and patterns are not offered: leave rows out instead."
            raise TypeError(f"kernel_fn was given {name}=. {hint} Known are x2, get, diagonal_batch, diagonal_spatial.")
        if isinstance(x1_or_kernel, Kernel):
            if x2 is not None and get is None:  # kernel_fn(kernel, get)
                x2, get = None, x2
            return self._after(x1_or_kernel, get)
        return self._run(x1_or_kernel, x2, get, diagonal_batch is not False, bool(diagonal_spatial))

    def _after(self, before: Kernel, get: Any) -> Any:
        if before.source is None:
            raise ValueError(
                "This Kernel was changed by replace, or came out of jit, and covariances alone cannot be carried on. Use "
                "inputs, or put both kernel functions into one jitted function."
            )
        net, x1, x2 = before.source
        axes = before.batch_axis, before.channel_axis
        joint = KernelFn(Network((*net.layers, *self.net.layers)), axes, self.block)
        return joint._run(x1, x2, get, before.diagonal_batch, before.diagonal_spatial)

    def _run(self, x1: Any, x2: Any, get: Any, diagonal_batch: bool, diagonal_spatial: bool) -> Any:
        names = () if get is None else names_of(get, _NAMES)
        if isinstance(x1, list | tuple):
            raise TypeError(
                "A network takes one array of inputs here, and was given a list. Put FanOut before parallel, a fan-in after."
            )
        x2 = None if x2 is not None and _same(x1, x2) else x2
        source = (self.net, x1, x2)
        x1, x2 = (None if x is None else canonical(x, self.axes) for x in (x1, x2))
        x1, x2 = check_inputs(x1, x2)
        shape = self.net.shape(x1.shape[1:], None)
        pairs = len(shape) > 1 and not diagonal_spatial
        need = {"nngp", "ntk", "cov1", "cov2", "is_gaussian"} if get is None else set(names)
        entries: dict[str, Any] = {"cov1": None, "cov2": None, "nngp": None, "ntk": None}
        if kernels := tuple(name for name in ("nngp", "ntk") if name in need):
            entries |= self._kernels(x1, x2, kernels, pairs, len(shape) - 1)
        for name, x in (("cov1", x1), ("cov2", x2)):
            if name in need and x is not None:
                if diagonal_batch:
                    own = in_input_precision(
                        partial(compiled_kernel, self.net, pairs=pairs, ntk=False, diagonal=True), x, None
                    )
                    entries[name] = _interleave_pixels(own.nngp, len(shape) - 1 if pairs else 0)
                else:
                    entries[name] = self._kernels(x, None, ("nngp",), pairs, len(shape) - 1)["nngp"]
        batch, channel = self.axes
        moved = len(shape) + 1 == x1.ndim
        result = Kernel(
            **entries,
            x1_is_x2=x2 is None,
            is_gaussian="is_gaussian" in need and ends_gaussian(self.net, x1),
            is_input=not self.net.layers,
            diagonal_batch=diagonal_batch,
            diagonal_spatial=diagonal_spatial,
            shape1=self._restore((len(x1), *shape), x1.ndim),
            shape2=self._restore((len(x1 if x2 is None else x2), *shape), x1.ndim),
            batch_axis=batch if moved else 0,
            channel_axis=channel if moved else -1,
            source=source,
        )
        return result if get is None else select(get, names, partial(getattr, result))

    def _restore(self, shape: tuple[int | None, ...], rank: int) -> tuple[int | None, ...]:
        """The shape of outputs with batch and channels where they were in the inputs, if they have as many axes."""
        return restore_shape(shape, self.axes) if len(shape) == rank else shape

    def _kernels(self, x1: Any, x2: Any, names: tuple[str, ...], pairs: bool, rank: int) -> dict[str, Any]:
        """The kernels of these names: in one piece, or in tiles if `batch` set their size or they serve better."""
        if rank > 0:
            run = partial(in_input_precision, partial(compiled_kernel, self.net, pairs=pairs, ntk="ntk" in names))
            result = run(x1, x2) if self.block is None else in_blocks(run, x1, x2, self.block)
        elif self.block is not None and (concrete := _concrete(self.net, x1, x2)) is not None:
            result = by_tiles(*concrete, names, side=self.block)
            result = result if isinstance(x1, np.ndarray) else jax.tree.map(jnp.asarray, result)
        else:
            result = self.net.kernel(x1, x2, get=names)
        return {name: _interleave_pixels(getattr(result, name), rank if pairs else 0) for name in names}


def _same(x1: Any, x2: Any) -> bool:
    """Whether two inputs are the same object, or have the same numbers."""
    if x1 is x2 or np.shape(x1) != np.shape(x2):
        return x1 is x2
    try:
        return bool(np.array_equal(x1, x2))
    except jax.errors.TracerArrayConversionError:
        return False


def _concrete(net: Network, x1: Any, x2: Any) -> tuple[Network, np.ndarray, np.ndarray | None] | None:
    """A network of numbers and both inputs as NumPy arrays, or None while JAX traces any of them."""
    try:
        return jax.tree.map(float, net), np.asarray(x1), None if x2 is None else np.asarray(x2)
    except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError):
        return None


def canonical(x: Any, axes: tuple[int, int]) -> Any:
    """An input with its batch first and its channels last."""
    if axes == (0, -1):
        return x
    if any(not -np.ndim(x) <= axis < np.ndim(x) for axis in axes):
        raise ValueError(f"batch_axis and channel_axis are {axes}, and an input has {np.ndim(x)} axes: {np.shape(x)}.")
    return (jnp if isinstance(x, jax.Array) else np).moveaxis(x, axes, (0, -1))


def restore(y: Any, axes: tuple[int, int], rank: int) -> Any:
    """An output with its batch and channels where they were in an input of `rank` axes, if it still has as many."""
    if axes == (0, -1) or y.ndim != rank:
        return y
    return (jnp if isinstance(y, jax.Array) else np).moveaxis(y, (0, -1), axes)


def restore_shape(shape: tuple[Any, ...], axes: tuple[int, int]) -> tuple[Any, ...]:
    """A shape (batch, ..., channels) with its batch and channels at `axes`."""
    moved = list(shape[1:-1])
    for axis, size in sorted(zip((a % len(shape) for a in axes), (shape[0], shape[-1]), strict=True)):
        moved.insert(axis, size)
    return tuple(moved)


def _interleave_pixels(value: Any, rank: int) -> Any:
    """A kernel of pairs of pixels in neural-tangents' order of axes, (H, H', W, W'), from ours, (H, W, H', W')."""
    first = value.ndim - 2 * rank
    order = [*range(first), *(first + i + rank * side for i in range(rank) for side in (0, 1))]
    return value.transpose(order) if rank else value
