"""Random networks, inputs and options: small, and of few shapes, so that most of the time is not that of the compiler."""

from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import widelimit as wl

CLOSED = (
    "relu", "leaky_relu", "abrelu", "abs", "sign", "rectified_monomial", "monomial", "polynomial", "hermite", "erf",
    "sigmoid_like", "gelu", "sin", "cos", "rbf", "gaussian", "exp", "exp_normalized", "gabor",
)  # fmt: skip
COMPUTED = (
    "gelu_tanh", "elu", "selu", "celu", "tanh", "sigmoid", "softplus", "silu", "mish", "hard_tanh", "relu6", "softsign",
)  # fmt: skip
NO_FUNCTION = {"exp_normalized"}
ROW, IMAGE = (4,), (4, 4, 2)


def bump(t):
    """A function of a user, with two kinks."""
    return jnp.where(jnp.abs(t - 0.5) < 1, (1 - (t - 0.5) ** 2) * t, 0.0)


def soft_dual(cov, var1, var2):
    """A kernel of a user: that of erf."""
    root = jnp.sqrt(1 + 2 * var1 + 2 * var2 + 4 * jnp.maximum(var1 * var2 - cov**2, 0))
    return 2 / jnp.pi * jnp.arctan2(2 * cov, root)


OWN = {"compared bump": wl.Elementwise(bump, kinks=(-0.5, 1.5)), "compared dual": wl.FromDual(soft_dual)}
for _name, _activation in OWN.items():
    wl.register(_name, _activation)


def one(rng: np.random.Generator, options: Any) -> Any:
    """One of several."""
    return options[int(rng.integers(len(options)))]


def likely(rng: np.random.Generator, share: float) -> bool:
    """Whether, with this probability."""
    return bool(rng.random() < share)


def number(rng: np.random.Generator, low: float, high: float) -> float:
    """A number of two digits."""
    return round(float(rng.uniform(low, high)), 2)


def activation(rng: np.random.Generator, computed: float = 0.15, function: bool = False) -> wl.Activation:
    """Of the catalogue with its parameters or others, or a user's; with `function`, one that has one."""
    if likely(rng, computed):
        return one(rng, (OWN["compared bump"], *(wl.serial(name)[0].activation for name in COMPUTED)))
    made = {
        "leaky": lambda: wl.LeakyRelu(number(rng, -0.5, 0.8)),
        "abrelu": lambda: wl.ABRelu(number(rng, -1, 1), number(rng, 0.2, 1.5)),
        "erf": lambda: wl.Erf(number(rng, 0.5, 1.5), number(rng, 0.5, 1.5), number(rng, -0.3, 0.3)),
        "sin": lambda: wl.Sin(number(rng, 0.5, 1.5), number(rng, 0.5, 1.5), number(rng, -0.5, 0.5)),
        "rbf": lambda: wl.Rbf(number(rng, 0.2, 1.5)),
        "gaussian": lambda: wl.Gaussian(number(rng, 0.5, 1.5), number(rng, -1.5, -0.2)),
        "affine": lambda: wl.Affine(one(rng, (wl.Relu(), wl.Gelu(), wl.Erf())), 0.7, number(rng, -1.3, 1.3), 0.4),
        "polynomial": lambda: wl.Polynomial((0.2, number(rng, -1, 1), number(rng, -0.5, 0.5))),
        "hermite": lambda: wl.Hermite(int(rng.integers(1, 5))),
        "monomial": lambda: wl.Monomial(int(rng.integers(1, 4))),
        "rectified": lambda: wl.RectifiedMonomial(int(rng.integers(0, 3))),
        "own dual": lambda: OWN["compared dual"],
    }
    if likely(rng, 0.3):
        kind = one(rng, list(made)[:-1] if function else list(made))
        return made[kind]()
    names = [name for name in CLOSED if not (function and name in NO_FUNCTION)]
    return wl.serial(one(rng, names))[0].activation


def dense(rng: np.random.Generator, **options: Any) -> wl.Dense:
    """Weights, and biases or none."""
    return wl.Dense(number(rng, 0.7, 1.6), one(rng, (None, 0.1, number(rng, 0.1, 0.8))), **options)


def conv(rng: np.random.Generator) -> wl.Conv:
    """3 x 3 or smaller, with every padding, and strides at times."""
    shape, strides = one(rng, ((3, 3), (3, 3), (2, 3))), one(rng, (None, None, (2, 1), (2, 2)))
    padding = one(rng, ("SAME", "SAME", "CIRCULAR"))
    return wl.Conv(shape, strides, padding, number(rng, 0.8, 1.6), one(rng, (None, 0.2)))


def _between(rng: np.random.Generator) -> list[Any]:
    """What stands between weights and activation, at times."""
    return [one(rng, (wl.LayerNorm(), wl.Identity()))] if likely(rng, 0.2) else []


def _behind(rng: np.random.Generator, masks: bool) -> list[Any]:
    return [wl.Dropout(number(rng, 0.5, 0.9), one(rng, ("train", "test")))] if masks and likely(rng, 0.2) else []


def rows_network(rng: np.random.Generator, masks: bool = True, **act: Any) -> wl.Network:
    """A network of rows: up to three layers, residuals, branches, the standard parameterisation."""
    layers: list[Any] = [dense(rng)]
    for _ in range(int(rng.integers(0, 3))):
        block = [*_between(rng), activation(rng, **act), *_behind(rng, masks), dense(rng)]
        form = rng.random()
        if form < 0.15:
            layers.append(wl.residual(*block))
        elif form < 0.3:
            branches = wl.parallel(wl.serial(*block), wl.serial(activation(rng, **act), dense(rng)))
            layers += [wl.FanOut(2), branches, one(rng, (wl.FanInSum(), wl.FanInConcat()))]
            layers.append(dense(rng))
        else:
            layers += block
    if likely(rng, 0.1):
        layers = [
            dense(rng, width=8, parameterization="standard"), activation(rng, **act),
            dense(rng, width=4, parameterization="standard", s=one(rng, ((1, 1), (2, 1)))),
        ]  # fmt: skip
    if likely(rng, 0.15):
        layers.append(activation(rng, **act))
    return wl.serial(*layers)


def images_network(rng: np.random.Generator, masks: bool = True, flat: bool = True, **act: Any) -> wl.Network:
    """A network of images, which with `flat` ends without pixels."""
    act = {"computed": 0.05, **act}
    layers: list[Any] = [conv(rng) if likely(rng, 0.9) else dense(rng), *_between(rng), activation(rng, **act)]
    if likely(rng, 0.3):
        pool = one(rng, (wl.AvgPool, wl.SumPool))
        layers.append(pool((2, 2), one(rng, (None, (2, 2))), one(rng, ("SAME", "CIRCULAR"))))
    layers += _behind(rng, masks)
    if likely(rng, 0.5):
        same = wl.Conv((3, 3), padding="SAME", W_std=number(rng, 0.8, 1.5))
        layers += [same, wl.residual(activation(rng, **act), same)] if likely(rng, 0.4) else [same]
        layers += [activation(rng, **act)]
    if flat or likely(rng, 0.5):
        layers += [one(rng, (wl.Flatten(), wl.GlobalAvgPool(), wl.GlobalSumPool())), dense(rng)]
    return wl.serial(*layers)


def inputs(rng: np.random.Generator, count: int, shape: tuple[int, ...] = ROW, wild: bool = True) -> np.ndarray:
    """Rows or images: normal, and with `wild` at times zero, equal, opposite, tiny or huge."""
    x = rng.normal(size=(count, *shape))
    if wild and count > 2 and likely(rng, 0.4):
        i, j, k = rng.permutation(count)[:3]
        for what in rng.permutation(4)[:2]:
            if what == 0:
                x[i] = 0
            elif what == 1:
                x[j] = x[k]
            elif what == 2:
                x[j] = -x[k]
            else:
                x[k] *= one(rng, (1e-8, 1e-3, 30.0))
    return x.astype(one(rng, ("float32", "float64")))


@contextmanager
def as_given(rng: np.random.Generator, *arrays: Any, jax_arrays: float = 0.3):
    """The arrays as they are or as those of JAX, in whose 64-bit mode those of float64 are."""
    if likely(rng, jax_arrays):
        with jax.enable_x64(any(a is not None and a.dtype == np.float64 for a in arrays)):
            yield [None if a is None else jnp.asarray(a) for a in arrays]
    else:
        yield list(arrays)


def readings(rng: np.random.Generator) -> Any:
    """A `get` of kernels."""
    return one(rng, ("nngp", "ntk", ("nngp", "ntk"), ("ntk", "nngp"), ("ntk",), ["nngp"]))


def key(rng: np.random.Generator) -> Any:
    """A random key."""
    seed = int(rng.integers(1000))
    return jax.random.key(seed) if likely(rng, 0.7) else jax.random.PRNGKey(seed)
