"""A network: layers in a row, read as an exact kernel or as a finite network.

`exact.kernel` is the pure function for JAX users, `Network.kernel` the door for everybody: it checks the input, minds its
precision and gives back what came in, NumPy or JAX.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from . import activations, layers
from .activations import Activation, named, registered_name
from .execution.policy import parse_bytes
from .features.feature_map import FeatureMap, chosen, feature_map, load_feature_map
from .kernels.empirical import empirical_kernel
from .kernels.exact import Kernels
from .kernels.matrix import at_once, is_large, tiled
from .layers import (
    WRONG_PARAMETERS,
    FanInSum,
    FanOut,
    Flatten,
    Identity,
    Layer,
    Nonlinearity,
    Parallel,
    as_layer,
    parallel,
)
from .layers.last_stage import last_stage
from .layers.state import State
from .numerics.checks import check_int
from .numerics.precision import check_inputs, in_input_precision
from .sketches import Sketch
from .storage.module import nested, plain

WIDTH = 512  # of the finite reading, where none is said
_READINGS = ("nngp", "ntk")

_empirical_kernel = jax.jit(empirical_kernel, static_argnames=("ntk",))
# Compiled as a whole: step by step, every layer's random numbers are a program of their own.
_draw = jax.jit(lambda net, key, *, shape, width: net.draw(key, shape, width), static_argnames=("shape", "width"))
_forward = jax.jit(lambda net, params, x, key: net.forward(params, x, key))


class Network(Layer):
    """Layers in a row; made by `serial`."""

    layers: tuple[Layer, ...]
    takes_branches = True

    # The readings of a layer, so that networks nest.

    def shape(self, shape, width):
        for layer in self.layers:
            if isinstance(shape, list) and not layer.takes_branches:
                raise ValueError(
                    f"{layer!r} was given {len(shape)} branches. Put parallel(...) or a fan-in after FanOut."
                )
            shape = layer.shape(shape, width)
        return shape

    def needs_pairs(self, after):
        return self._needs(after)[0]

    def _needs(self, after: bool) -> list[bool]:
        """Whether pairs of different pixels are needed before each layer, and after the last."""
        needs = [after]
        for layer in reversed(self.layers):
            needs.append(layer.needs_pairs(needs[-1]))
        return needs[::-1]

    def propagate(self, state):
        needs = self._needs(_first(state).keep_pairs)
        for i, (layer, before, after) in enumerate(zip(self.layers, needs[:-1], needs[1:], strict=True)):
            state = _prepared(state, before, after)
            ended = last_stage(self.layers[i : i + 3], state)
            if ended is not None:  # three layers were taken at once; the others follow
                return Network(self.layers[i + 3 :]).propagate(replace(ended, keep_pairs=needs[-1]))
            state = layer.propagate(state)
        return state

    def draw(self, key, shape, width):
        params = []
        for layer, own in zip(self.layers, jax.random.split(key, len(self.layers) or 1), strict=False):
            params.append(layer.draw(own, shape, width))
            shape = layer.shape(shape, width)
        return tuple(params)

    def forward(self, params, x, key):
        keys = [None] * len(self.layers) if key is None else jax.random.split(key, len(self.layers))
        if not isinstance(params, tuple | list) or len(params) != len(self.layers):
            raise ValueError(WRONG_PARAMETERS)
        for layer, own, k in zip(self.layers, params, keys, strict=True):
            x = layer.forward(own, x, k)
        return x

    def sketch(self, key, features):
        return self.sketch_and_end(key, features)[0]

    def sketch_and_end(self, key: PRNGKeyArray, features: Any) -> tuple[Any, Any]:
        """What is drawn, and the features of the reference after the last layer."""
        drawn = []
        for layer, own in zip(self.layers, jax.random.split(key, len(self.layers) or 1), strict=False):
            drawn.append(layer.sketch(own, features))
            features = layer.features(drawn[-1], features)
        return tuple(drawn), features

    def features(self, drawn, features):
        for layer, own in zip(self.layers, drawn, strict=True):
            features = layer.features(own, features)
        return features

    # What users call.

    def kernel(
        self,
        x1,
        x2=None,
        get: str | Sequence[str] = _READINGS,
        diagonal: bool = False,
        *,
        memory: int | str | None = None,
        progress: bool = False,
        out: Any = None,
    ):
        """The exact kernels between the rows of x1 and those of x2, or with x2=None of x1 with itself.

        `get` is "nngp", "ntk", or a tuple of both, which gives `Kernels`; only what is asked for is computed.
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
        asked = memory is not None or progress or out is not None
        if asked and diagonal:
            raise ValueError("memory, progress and out are for whole matrices, and diagonal=True was given too.")
        x1, x2 = check_inputs(x1, x2)
        shape = self.shape(x1.shape[1:], None)
        net, x1, x2 = _without_leading_flatten(self, x1, x2)
        if asked:
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
            return _choose(tiled(net, x1, x2, names, budget, progress, out), get)
        if is_large(net, x1, x2) and len(shape) == 1 and not diagonal:
            return _choose(tiled(net, x1, x2, names), get)
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
        kind = chosen(sketch, degree)
        return feature_map(self, key, shape, features, names, not isinstance(get, str), kind, dtype)

    def init(self, key: PRNGKeyArray, input_shape: Sequence[int], width: int = WIDTH):
        """Random parameters of the finite network; `width` is that of every layer without one of its own.

        `input_shape` is that of one input, without the batch.
        """
        _check_key("init", key)
        shape = _input_shape(input_shape)
        width = check_int("width", width, least=1)
        self.shape(shape, width)
        return _draw(self, key, shape=shape, width=width)

    def apply(self, params, x, key: PRNGKeyArray | None = None):
        """The outputs of the finite network on a batch; `key` is for layers that are random, such as Dropout."""
        if key is not None:
            _check_key("apply", key)
        x, _ = check_inputs(x, None, names=("x", ""))
        self.shape(x.shape[1:], None)
        return in_input_precision(lambda x: _forward(self, params, x, key), x)

    def output_shape(self, input_shape: Sequence[int], width: int = WIDTH) -> tuple[int, ...]:
        """The shape of one output of the finite network."""
        return self.shape(_input_shape(input_shape), check_int("width", width, least=1))

    def empirical_kernel(
        self, params, x1, x2=None, get: str | Sequence[str] = _READINGS, key: PRNGKeyArray | None = None
    ):
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
        return json.dumps({"widelimit": _FORMAT, "network": _describe(self)}, indent=1)

    def __repr__(self):
        return nested("serial", self.layers)


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


def _input_shape(given: Sequence[int]) -> tuple[int, ...]:
    """The shape of one input, without the batch."""
    try:
        shape = tuple(check_int("size", size, least=1) for size in given)
    except (TypeError, ValueError):
        shape = ()
    if not shape:
        raise ValueError(
            f"input_shape is the shape of one input without the batch, such as (20,) or (32, 32, 3), not {given!r}."
        )
    return shape


def _without_leading_flatten(net: Network, x1, x2):
    """Images that are flattened at once are rows: pair them as rows."""
    if x1.ndim > 2 and net.layers and isinstance(net.layers[0], Flatten):
        net = Network(net.layers[1:])
        x1, x2 = (None if x is None else x.reshape(len(x), -1) for x in (x1, x2))
    return net, x1, x2


def _first(state: State | list) -> State:
    return _first(state[0]) if isinstance(state, list) else state


def _prepared(state: Any, pairs: bool, keep: bool) -> Any:
    """The state, or the states of all branches, with no more pairs of pixels than are needed."""
    if isinstance(state, list):
        return [_prepared(branch, pairs, keep) for branch in state]
    return replace(state if pairs else state.diagonal(), keep_pairs=keep)


def serial(*layers) -> Network:
    """Layers in a row. Activations, and their names, count as layers."""
    return Network(tuple(as_layer(layer) for layer in layers))


def repeat(layer, n: int) -> Network:
    """n independent copies of a layer in a row."""
    return serial(*[layer] * check_int("The number of copies", n))


def residual(*layers) -> Network:
    """The layers in a row plus a short way around them: x + layers(x)."""
    return serial(FanOut(2), parallel(serial(*layers), Identity()), FanInSum())


# JSON: {"serial": [...]}, {"parallel": [...]}, {"Dense": {"W_std": 1.5}}, {"registered": "my activation"}.

_FORMAT = 1
_CLASSES = {
    name: value
    for module in (activations, layers)
    for name, value in vars(module).items()
    if isinstance(value, type)
    and issubclass(value, Layer | Activation)
    and value not in (Layer, Activation, Nonlinearity, Parallel)
}


def _describe(part: Any) -> Any:
    if isinstance(part, Network):
        return {"serial": [_describe(layer) for layer in part.layers]}
    if isinstance(part, Parallel):
        return {"parallel": [_describe(layer) for layer in part.layers]}
    if isinstance(part, Nonlinearity):
        return _describe(part.activation)
    known = _CLASSES.get(type(part).__name__) is type(part) and not _holds_function(part)
    if not known and isinstance(part, Activation) and (name := registered_name(part)) is not None:
        return {"registered": name}
    values = part.arguments()
    if not known and not any(isinstance(value, Activation) for value in values.values()):
        what = "holds a function" if type(part).__name__ in _CLASSES else "is of a class of yours"
        raise TypeError(
            f"{part!r} {what}, which JSON cannot carry. Give the activation a name with "
            "widelimit.register('my_activation', ...) before saving, and before loading."
        )
    return {
        type(part).__name__: {k: _describe(v) if isinstance(v, Activation) else plain(v) for k, v in values.items()}
    }


def _holds_function(part: Any) -> bool:
    values = part.arguments().values()
    return any(_holds_function(v) if isinstance(v, Activation) else callable(v) for v in values)


def _rebuild(data: Any) -> Any:
    if not (isinstance(data, dict) and len(data) == 1):
        raise ValueError(f"Not a part of a network: {data!r}. Each part is one name with its parameters.")
    ((name, value),) = data.items()
    if name in ("serial", "parallel") and isinstance(value, list):
        return (serial if name == "serial" else parallel)(*map(_rebuild, value))
    if name == "registered" and isinstance(value, str):
        return named(value)
    if name not in _CLASSES or not isinstance(value, dict):
        raise ValueError(f"There is no layer or activation {data!r}. Was it written by a newer widelimit?")
    values = {
        k: _rebuild(v) if isinstance(v, dict) else tuple(v) if isinstance(v, list) else v for k, v in value.items()
    }
    try:
        return _CLASSES[name](**values)
    except TypeError as error:
        raise ValueError(f"{name} cannot be made of {values!r}: {error}.") from None


def load_features(path: str | os.PathLike) -> FeatureMap:
    """The feature map that `FeatureMap.save` wrote: the same columns, whatever the release of JAX."""
    return load_feature_map(path, from_json)


def from_json(text: str) -> Network:
    """The network that `Network.to_json` wrote. Nothing is imported or executed."""
    try:
        data = json.loads(text)
        version, network = data["widelimit"], data["network"]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"This is not the JSON of a network: {error!r}. Write one with net.to_json().") from None
    if version != _FORMAT:
        raise ValueError(f"The network is in format {version!r} and this widelimit reads {_FORMAT}. Update widelimit.")
    rebuilt = _rebuild(network)
    return rebuilt if isinstance(rebuilt, Network) else serial(rebuilt)
