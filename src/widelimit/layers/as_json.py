"""Layers and activations as JSON.

{"serial": [...]} and {"parallel": [...]} are rows and branches of layers, {"Dense": {"W_std": 1.5}} is a layer or an
activation by its class and parameters, and {"registered": "my_activation"} one that the user registered.
"""

from collections.abc import Callable
from typing import Any

from .. import activations, layers
from ..activations import Activation, named, registered_name
from ..storage.module import ReprAsCode, decode_argument, decode_module, encode_argument, encode_module
from .base import Layer, Nonlinearity
from .branches import Parallel, parallel

_CLASSES: dict[str, type[ReprAsCode]] = {
    name: value
    for module in (activations, layers)
    for name, value in vars(module).items()
    if isinstance(value, type)
    and issubclass(value, Layer | Activation)
    and value not in (Layer, Activation, Nonlinearity, Parallel)
}
# What is made of a list of layers; `network` adds "serial".
CONTAINERS: dict[str, Callable[..., Layer]] = {"parallel": parallel}
_UNROLLED = ("filter_shape", "window_shape", "num")  # parameters over which programs are unrolled,
_MOST = 2**12  # and the largest of them in a feature map or model


def encode_layer(layer: ReprAsCode) -> Any:
    """A layer or an activation as JSON; an error for a function without a registered name."""
    if isinstance(layer, Nonlinearity):
        return encode_layer(layer.activation)
    container = getattr(layer, "container", None)
    if container is not None:
        return {container: [encode_layer(part) for part in layer.layers]}  # type: ignore[attr-defined]
    known = _CLASSES.get(type(layer).__name__) is type(layer) and not _holds_function(layer)
    if not known and isinstance(layer, Activation) and (name := registered_name(layer)) is not None:
        return {"registered": name}
    if not known and not any(isinstance(value, Activation) for value in layer.arguments().values()):
        what = "holds a function" if type(layer).__name__ in _CLASSES else "is of a class of yours"
        raise TypeError(
            f"{layer!r} {what}, which JSON cannot carry. Give the activation a name with "
            "widelimit.register('my_activation', ...) before saving, and before loading."
        )
    return encode_module(layer, lambda v: encode_layer(v) if isinstance(v, Activation) else encode_argument(v))


def decode_layer(data: Any) -> Any:
    """The layer or activation of its JSON."""
    if isinstance(data, dict) and len(data) == 1:
        ((name, value),) = data.items()
        if name in CONTAINERS and isinstance(value, list):
            return CONTAINERS[name](*map(decode_layer, value))
        if name == "registered" and isinstance(value, str):
            return named(value)
    return decode_module(data, _CLASSES, lambda v: decode_layer(v) if isinstance(v, dict) else decode_argument(v))


def check_sizes(data: Any) -> None:
    """Refuse the JSON of a network with windows so large, or so many branches, that compiling it would not end."""
    for name, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        if name in _UNROLLED and any(size > _MOST for size in (value if isinstance(value, list) else [value])):
            raise ValueError(f"its network has {name}={value!r}, and files may ask for {_MOST} at most")
        check_sizes(value)


def _holds_function(module: ReprAsCode) -> bool:
    values = module.arguments().values()
    return any(_holds_function(v) if isinstance(v, Activation) else callable(v) for v in values)
