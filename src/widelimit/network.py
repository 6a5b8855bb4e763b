"""A network: layers in a row, read as an exact kernel or as a finite network.

`exact.kernel` is the pure function for JAX users, `Network.kernel` the door for everybody: it checks the input, minds its
precision and gives back what came in, NumPy or JAX.
"""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from .activations import Activation
from .execution.policy import parse_bytes
from .features.feature_map import FeatureMap, feature_map, load_feature_map
from .kernels.empirical import empirical_kernel
from .kernels.exact import Kernels
from .kernels.matrix import at_once, by_tiles, is_large
from .layers import (
    FanInSum,
    FanOut,
    Flatten,
    Identity,
    Nonlinearity,
    as_layer,
    parallel,
)
from .layers.as_json import CONTAINERS, check_sizes, decode_layer, encode_layer
from .layers.base import Parameters
from .layers.serial import Serial
from .layers.shapes import Branches, Shape
from .numerics.checks import check_int
from .numerics.precision import check_inputs, in_input_precision
from .sketches import Sketch, as_sketch
from .storage.format import NETWORK, check_header, decode_header, encode_header, new_header
from .storage.values import add_kind

WIDTH = 512  # of the finite reading, where none is said
_READINGS = ("nngp", "ntk")

_empirical_kernel = jax.jit(empirical_kernel, static_argnames=("ntk",))
# Compiled as a whole: step by step, every layer's random numbers are a program of their own.
_draw = jax.jit(lambda net, key, *, shape, width: net.draw(key, shape, width), static_argnames=("shape", "width"))
_forward = jax.jit(lambda net, params, x, key: net.forward(params, x, key))


class Network(Serial):
    """Layers in a row; made by `serial`."""

    container: ClassVar[str] = "serial"  # its name in JSON

    def kernel(
        self,
        x1: Any,
        x2: Any = None,
        get: str | Sequence[str] = _READINGS,
        diagonal: bool = False,
        *,
        memory: int | str | None = None,
        progress: bool = False,
        out: Any = None,
    ) -> Any:
        """The exact kernels between the rows of x1 and those of x2, or with x2=None of x1 with itself.

        `get` is "nngp", "ntk", or a tuple of both, which gives `Kernels`; only what is in_tiles for is computed.
        `diagonal=True` gives only K(x, x) of every row of x1. NumPy arrays give NumPy arrays, computed in their own
        precision (integers in float32); JAX arrays keep their dtype and may be traced.

        Large matrices of NumPy arrays are computed tile by tile. `memory`, such as "2GiB", bounds what this takes beside
        inputs and results; `progress=True` shows a bar with the time left. `out` is an array or memmap to write into, or
        the path of an .npy file, which appears when it is whole: the same call after a kill goes on where the first was.
        Of two kernels, `out` is a tuple in the order of `get`. With any of these JAX arrays stay on their device, and the
        result is a NumPy array. Kernels of JAX arrays of half precision, bfloat16 or float16, are float32.
        """
        names = _readings(get)
        if diagonal and x2 is not None:
            raise ValueError("diagonal=True gives K(x1, x1) alone, but x2 was given too. Leave x2 out.")
        in_tiles = memory is not None or progress or out is not None
        if in_tiles and diagonal:
            raise ValueError("memory, progress and out are for whole matrices, and diagonal=True was given too.")
        x1, x2 = check_inputs(x1, x2)
        shape = self.shape(x1.shape[1:], None)
        net, x1, x2 = _without_leading_flatten(self, x1, x2)
        if in_tiles:
            if len(shape) != 1:
                raise ValueError(
                    f"memory, progress and out need outputs without pixels, not {shape}. End with Flatten."
                )
            budget = None if memory is None else parse_bytes(memory)
            try:
                net = jax.tree.map(float, net)
                for x in (x1, x2):
                    np.asarray([] if x is None else x[:0])  # an error, where JAX traces it
            except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError):
                raise ValueError(
                    "memory, progress and out are for numbers, and JAX is tracing the inputs or the network. Leave them "
                    "out inside jit and grad."
                ) from None
            return _choose(by_tiles(net, x1, x2, names, budget, progress, out), get)
        if is_large(net, x1, x2) and len(shape) == 1 and not diagonal:
            return _choose(by_tiles(net, x1, x2, names), get)
        return _choose(at_once(net, x1, x2, names, diagonal), get)

    def feature_map(
        self,
        key: PRNGKeyArray,
        input_shape: Sequence[int],
        features: int = 4096,
        get: str | Sequence[str] = "ntk",
        sketch: str | Sketch = "auto",
        degree: int | None = None,
        dtype: Any = None,
    ) -> FeatureMap:
        """Random features whose products approximate the kernel: phi(x1) @ phi(x2).T ~ kernel(x1, x2, get).

        `input_shape` is that of one input, `features` the number of columns. `get` is "ntk", "nngp", or a tuple of both,
        which gives `Kernels` of two such arrays. `sketch` is a name or an object of `widelimit.sketch`; `degree` is that
        of a truncated series, where the kind has one. The error falls with the square root of `features`: `phi.error(x)`
        estimates it. What Dropout adds to a row's product with itself is in no column: masks of different rows are
        independent. (`sketch="exact"`, for tests, has as many columns as points, not `features`.)
        """
        _check_key("feature_map", key)
        names = _readings(get)
        shape = _input_shape(input_shape)
        self.shape(shape, None)
        several = not isinstance(get, str)
        return feature_map(self, key, shape, features, names, several, as_sketch(sketch, degree), dtype)

    def init(self, key: PRNGKeyArray, input_shape: Sequence[int], width: int = WIDTH) -> Parameters:
        """Random parameters of the finite network; `width` is that of every layer without one of its own.

        `input_shape` is that of one input, without the batch.
        """
        _check_key("init", key)
        shape = _input_shape(input_shape)
        width = check_int("width", width, least=1)
        self.shape(shape, width)
        return _draw(self, key, shape=shape, width=width)

    def apply(self, params: Parameters, x: Any, key: PRNGKeyArray | None = None) -> Any:
        """The outputs of the finite network on a batch; `key` is for layers that are random, such as Dropout."""
        if key is not None:
            _check_key("apply", key)
        x, _ = check_inputs(x, None, names=("x", ""))
        self.shape(x.shape[1:], None)
        return _as_lists(in_input_precision(lambda x: _forward(self, params, x, key), x))

    def output_shape(self, input_shape: Sequence[int], width: int = WIDTH) -> tuple[int, ...]:
        """The shape of one output of the finite network."""
        return _as_lists(self.shape(_input_shape(input_shape), check_int("width", width, least=1)))

    def empirical_kernel(
        self,
        params: Parameters,
        x1: Any,
        x2: Any = None,
        get: str | Sequence[str] = _READINGS,
        key: PRNGKeyArray | None = None,
    ) -> Any:
        """The kernels of one finite network, averaged over its output channels.

        A random network has a random kernel, which comes nearer to `kernel`'s as the width grows. The NTK takes a
        backward pass for each output: end the network with Dense(width=1) where one will do.
        """
        names = _readings(get)
        x1, x2 = check_inputs(x1, x2)
        self.shape(x1.shape[1:], None)
        run = partial(_empirical_kernel, self, params, ntk="ntk" in names, key=key)
        return _choose(in_input_precision(run, x1, x2), get)

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, place: int | slice) -> Any:
        """A layer, or of a slice such as net[:7] the network of these layers."""
        try:
            return Network(self.layers[place]) if isinstance(place, slice) else self.layers[place]
        except IndexError:
            last = len(self) - 1
            which = f"{last + 1} layers, net[0] to net[{last}], and no net[{place}]" if self.layers else "no layers"
            raise IndexError(f"The network has {which}.") from None
        except TypeError:
            raise TypeError(f"Layers are counted by whole numbers, as net[3] or net[:7], not by {place!r}.") from None

    def to_json(self) -> str:
        """The network as JSON text; `from_json` reads it back."""
        return encode_header({"network": encode_layer(self)}, indent=1)


def _as_lists(result: Any) -> Any:
    """Open branches, which only the readings of layers know, as lists; a shape as a plain tuple."""
    if isinstance(result, Branches):
        return [_as_lists(branch) for branch in result]
    return tuple(result) if isinstance(result, Shape) else result


def _readings(get: str | Sequence[str]) -> tuple[str, ...]:
    names = (get,) if isinstance(get, str) else tuple(get) if isinstance(get, Sequence) else ()
    if not names or any(name not in _READINGS for name in names):
        raise ValueError(f"get is 'nngp', 'ntk' or a tuple of these, not {get!r}.")
    return tuple(dict.fromkeys(names))


def _choose(result: Kernels, get: str | Sequence[str]) -> Any:
    if isinstance(get, str):
        return getattr(result, get)
    return Kernels(*(getattr(result, name) if name in get else None for name in _READINGS))


def _check_key(method: str, key: Any) -> None:
    single = isinstance(key, jax.Array) and (
        key.shape == ()
        if jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
        else key.shape == (2,) and key.dtype == jnp.uint32
    )
    if not single:
        raise TypeError(f"{method} takes one random key, such as jax.random.key(0), not {key!r}.")


def _input_shape(sizes: Sequence[int]) -> tuple[int, ...]:
    """The shape of one input, without the batch."""
    try:
        shape = tuple(check_int("size", size, least=1) for size in sizes)
    except (TypeError, ValueError):
        shape = ()
    if not shape:
        raise ValueError(
            f"input_shape is the shape of one input without the batch, such as (20,) or (32, 32, 3), not {sizes!r}."
        )
    return shape


def _without_leading_flatten(net: Network, x1: Any, x2: Any) -> tuple[Network, Any, Any]:
    """Images that are flattened at once are rows: pair them as rows."""
    if x1.ndim > 2 and net.layers and isinstance(net.layers[0], Flatten):
        net = Network(net.layers[1:])
        x1, x2 = (None if x is None else x.reshape(len(x), -1) for x in (x1, x2))
    return net, x1, x2


def serial(*layers: object) -> Network:
    """Layers in a row. Activations, and their names, count as layers."""
    return Network(tuple(as_layer(layer) for layer in layers))


def repeat(layer: object, n: int) -> Network:
    """n independent copies of a layer in a row."""
    return serial(*[layer] * check_int("The number of copies", n))


def residual(*layers: object) -> Network:
    """The layers in a row plus a short way around them: x + layers(x)."""
    return serial(FanOut(2), parallel(serial(*layers), Identity()), FanInSum())


def load_features(path: str | os.PathLike[str]) -> FeatureMap:
    """The feature map that `FeatureMap.save` wrote: the same columns, whatever the release of JAX."""
    return load_feature_map(path)


def from_json(text: str) -> Network:
    """The network that `Network.to_json` wrote. Nothing is imported or executed."""
    try:
        header = decode_header(text, NETWORK)
    except (ValueError, TypeError) as error:
        raise ValueError(f"This is not the JSON of a network: {error}. Write one with net.to_json().") from None
    return _decode(header)


def _decode(header: Mapping[str, Any]) -> Network:
    try:
        layer = decode_layer(header["network"])
    except RecursionError:
        raise ValueError("The network is nested too deeply.") from None
    return layer if isinstance(layer, Network) else serial(layer)


def _decode_checked(header: Any) -> Network:
    """The network in the file of a feature map or a model. Its sizes are checked, because loading compiles its program."""
    header = check_header(header, NETWORK)
    check_sizes(header["network"])
    return _decode(header)


def _decode_activation(header: Any) -> Activation:
    (layer,) = _decode_checked(header).layers
    if not isinstance(layer, Nonlinearity):
        raise ValueError("an activation of it is none")
    return layer.activation


CONTAINERS["serial"] = serial
add_kind(
    "network",
    Network,
    lambda net, _: {"network": new_header({"network": encode_layer(net)})},
    lambda data, _: _decode_checked(data["network"]),
)
add_kind(
    "activation",
    Activation,
    lambda activation, _: {"activation": new_header({"network": encode_layer(serial(activation))})},
    lambda data, _: _decode_activation(data["activation"]),
)
