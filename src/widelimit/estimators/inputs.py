"""What all estimators share: a network made of plain parameters, and inputs that are tables or images.

Inside, inputs are rows or images of floating-point numbers. Tables are padded with zero columns to one of few widths, and
rescaled so that every kernel stays what it was: sets of similar widths share compiled programs.
"""

from collections.abc import Callable
from math import prod
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from ..activations import Activation
from ..layers import Flatten
from ..nets import conv_flatten, fully_connected, myrtle, residual_net
from ..network import Network, serial
from ..numerics.checks import check_int
from ..numerics.padding import bucket
from ..storage.state import Declaration

ARCHITECTURES: dict[str, Callable[..., Network]] = {
    "fc": fully_connected,
    "conv": conv_flatten,
    "resnet": residual_net,
    "myrtle5": lambda depth, *scales: myrtle(5, *scales),
    "myrtle7": lambda depth, *scales: myrtle(7, *scales),
    "myrtle10": lambda depth, *scales: myrtle(10, *scales),
}
KERNELS = ("ntk", "nngp")
NO_TARGETS = object()  # None is a mistake of the caller


# What the estimators' docstrings say of the parameters they share.
NETWORK = """    Parameters
    ----------
    arch
        "fc" (`depth` hidden layers), "conv", "resnet", "myrtle5", "myrtle7" or "myrtle10"; the latter take images.
    activation
        A name, such as "gelu", or an object of widelimit.
    depth
        Hidden layers of "fc", convolutions of "conv", blocks of "resnet"; the others have their own.
    W_std, b_std
        Standard deviations of weights and biases, in every layer.
    net
        A network of widelimit in place of all these.
    kernel
        "ntk" or "nngp".
"""
ROWS = """    image_shape
        (height, width, channels) where images come as flat rows.
    scale_rows
        Bring every row, or image, to a mean square of 1 first.
"""


def network(
    arch: str, activation: Activation | str, depth: int, W_std: float, b_std: float | None, net: Network | None
) -> Network:
    """The network of plain parameters, or the one that is given."""
    if net is not None:
        if not isinstance(net, Network):
            raise TypeError(f"net is a widelimit network, made by widelimit.serial(...), not {net!r}.")
        return net
    scales: list[tuple[str, Any]] = [("W_std", W_std), ("b_std", 0.0 if b_std is None else b_std)]
    for name, value in scales:
        if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < np.inf:
            raise ValueError(f"{name} is a finite number of 0 or more, not {value!r}.")
    if arch not in ARCHITECTURES:
        raise ValueError(f"arch is one of {', '.join(ARCHITECTURES)}, or give a network as net=, not {arch!r}.")
    if not isinstance(activation, Activation | str):
        raise TypeError(
            f"activation is a name such as 'relu', or an object such as widelimit.Gelu(), not {activation!r}."
        )
    return ARCHITECTURES[arch](check_int("depth", depth, least=0 if arch == "fc" else 1), activation, W_std, b_std)


def table_width(columns: int) -> int:
    """The width to which a table with this many columns is padded."""
    return max(4, bucket(columns))


def fill_columns(x: np.ndarray) -> np.ndarray:
    """Pad a table with zero columns and rescale it, so that x . y / columns stays what it was."""
    columns = x.shape[1]
    width = table_width(columns)
    if width == columns:
        return x
    wide = np.zeros((len(x), width), x.dtype)
    wide[:, :columns] = x * np.sqrt(width / columns).astype(x.dtype)
    return wide


def scale_rows_to_one(x: np.ndarray) -> np.ndarray:
    """Scale every row to a mean square of 1; rows of zeros stay."""
    largest = np.abs(x).max(axis=1, keepdims=True, initial=0)
    x = x / np.where(largest > 0, largest, 1)  # squares of the quotient neither overflow nor vanish
    size = np.sqrt(np.mean(x**2, axis=1, keepdims=True))
    return x / np.where(size > 0, size, 1)


def check_weights(sample_weight: Any, X: np.ndarray) -> np.ndarray:
    """The weights of rows in float64, or an error."""
    if isinstance(sample_weight, Real):
        sample_weight = np.full(len(X), float(sample_weight))
    w = check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if w.shape != (len(X),):
        raise ValueError(
            f"sample_weight has the shape {w.shape}, and X has {len(X)} rows. Give one number for each row."
        )
    if np.any(w < 0):
        raise ValueError(f"Negative values in sample_weight: {w.min()} is one. Weights are 0 or more.")
    if not np.any(w > 0):
        raise ValueError("Sample weights must contain at least one non-zero number: nothing is left to learn from.")
    return w


def with_parameters(text: str) -> Callable[[type], type]:
    """Append to a class's docstring what several classes have in common."""

    def add_text(cls: type) -> type:
        cls.__doc__ = f"{(cls.__doc__ or '').rstrip()}\n{text}"
        return cls

    return add_text


class Neural(BaseEstimator):
    """An estimator with a network; its parameters are those that every such estimator has."""

    _saved: ClassVar[Declaration] = {"net_": Network, "image_shape_": tuple | None, "scale_rows_": bool}

    def __init__(self, arch, activation, depth, W_std, b_std, net, kernel, image_shape, scale_rows, progress):
        self.arch = arch
        self.activation = activation
        self.depth = depth
        self.W_std = W_std
        self.b_std = b_std
        self.net = net
        self.kernel = kernel
        self.image_shape = image_shape
        self.scale_rows = scale_rows
        self.progress = progress

    def _sizes(self) -> dict[str, int]:
        """The sizes that the arrays of a loaded model must have; an error where its network does not fit its inputs."""
        columns, shape = self.n_features_in_, self.image_shape_
        if self.kernel not in KERNELS or getattr(self, "kernel_", self.kernel) not in KERNELS:
            raise ValueError(f"its kernel is {self.kernel!r}")
        if shape is not None and (len(shape) != 3 or min(shape) < 1 or prod(shape) != columns):
            raise ValueError(f"its images have the shape {shape}, and its rows {columns} columns")
        if len(self.net_.output_shape(self._input_shape())) != 1:
            raise ValueError("the outputs of its network have pixels")
        return {"columns": columns}

    def _network(self) -> Network:
        if self.kernel not in KERNELS:
            raise ValueError(f"kernel is 'ntk' or 'nngp', not {self.kernel!r}.")
        return network(self.arch, self.activation, self.depth, self.W_std, self.b_std, self.net)

    def _check_training(self, X: Any, y: Any = NO_TARGETS, **checks: Any) -> Any:
        """Check the training inputs; set `image_shape_`, the shape of one input, and `net_`."""
        self.image_shape_ = self._shape_of(X)
        targets = {} if y is NO_TARGETS else {"y": y}
        checked = validate_data(self, _flat(X), **targets, dtype=[np.float64, np.float32], **checks)
        self.net_ = self._network()
        if self.image_shape_ is not None:
            if self.n_features_in_ != prod(self.image_shape_):
                raise ValueError(
                    f"image_shape={self.image_shape_} has {prod(self.image_shape_)} numbers, and rows of X have "
                    f"{self.n_features_in_}."
                )
            if self.net is None and self.arch == "fc":
                self.net_ = serial(Flatten(), self.net_)
        elif self.net is None and self.arch != "fc":
            raise ValueError(
                f"arch={self.arch!r} takes images. Give X as (n, height, width, channels), or image_shape=(height, width, "
                "channels) for flat rows."
            )
        shape = self.net_.output_shape(self._input_shape())
        if len(shape) != 1:
            raise ValueError(
                f"The network's outputs have the shape {shape}, pixels and all. End it with Flatten() or GlobalAvgPool(), "
                "and Dense()."
            )
        return checked

    def _shape_of(self, X: Any) -> tuple[int, ...] | None:
        expected = self.image_shape
        if expected is not None:
            expected = tuple(
                check_int("Every side of image_shape", side, least=1) for side in np.atleast_1d(expected).tolist()
            )
            expected = (*expected, 1) if len(expected) == 2 else expected
            if len(expected) != 3:
                raise ValueError(
                    f"image_shape is (height, width, channels), or (height, width), not {self.image_shape!r}."
                )
        if getattr(X, "ndim", 2) == 3:
            raise ValueError(
                f"X has the shape {X.shape}: Found array with dim 3. Images are (n, height, width, channels): for grey ones, "
                "X[..., None]."
            )
        if getattr(X, "ndim", 2) != 4:
            return expected
        shape = tuple(X.shape[1:])
        if expected not in (None, shape):
            raise ValueError(f"image_shape is {expected}, and X has images of the shape {shape}.")
        return shape

    def _input_shape(self) -> tuple[int, ...]:
        return (table_width(self.n_features_in_),) if self.image_shape_ is None else self.image_shape_

    def _network_inputs(self, X: Any) -> np.ndarray:
        """Checked rows as inputs of the network: scaled, and padded or reshaped to images."""
        x = scale_rows_to_one(X) if self.scale_rows_ else X
        return fill_columns(x) if self.image_shape_ is None else x.reshape(-1, *self.image_shape_)

    def _check_rows(self, X: Any) -> np.ndarray:
        """Check inputs against those of the fit."""
        if getattr(X, "ndim", 2) == 4 and tuple(X.shape[1:]) != self.image_shape_:
            raise ValueError(f"X has images of the shape {tuple(X.shape[1:])}, and the fit had {self.image_shape_}.")
        return validate_data(self, _flat(X), reset=False, dtype=[np.float64, np.float32])

    def _check_rows_and_targets(self, X: Any, y: Any, **checks: Any) -> tuple[np.ndarray, np.ndarray]:
        """Check further rows and their targets."""
        return validate_data(self, _flat(X), y, reset=False, dtype=[np.float64, np.float32], **checks)


def _flat(X: Any) -> Any:
    return X.reshape(len(X), -1) if getattr(X, "ndim", 2) == 4 else X
