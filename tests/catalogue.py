"""What the conformance tests run over: every activation, every layer, and networks that hold them."""

import jax.numpy as jnp
import pytest

import widelimit as wl
from widelimit.activations import CATALOGUE


def _soft_dual(cov, var1, var2):
    """The dual of erf, as a user would write it."""
    return (
        2 / jnp.pi * jnp.arctan2(2 * cov, jnp.sqrt(1 + 2 * var1 + 2 * var2 + 4 * jnp.maximum(var1 * var2 - cov**2, 0)))
    )


def _bump(t):
    return jnp.where(jnp.abs(t - 0.5) < 1, (1 - (t - 0.5) ** 2) * t, 0.0)


def _has_function(act):
    try:
        act.fn(jnp.zeros(()))
    except TypeError:
        return False
    return True


OPEN = {
    "elementwise": wl.Elementwise(_bump, kinks=(-0.5, 1.5)),
    "from_dual": wl.FromDual(_soft_dual),
    "affine": wl.Affine(wl.Relu(), 0.7, -1.3, 0.4),
    "affine_gelu": wl.Affine(wl.Gelu(), 1.2, 0.6, -0.3),
    "erf_shifted": wl.Erf(0.7, 1.3, 0.2),
    "sin_shifted": wl.Sin(1.2, 0.8, 0.4),
    "step": wl.RectifiedMonomial(0),
}
ACTIVATIONS: dict[str, wl.Activation] = CATALOGUE | OPEN
KERNEL_ONLY = {name for name, act in ACTIVATIONS.items() if not _has_function(act)}
# Duals by quadrature or by a truncated series, accurate to 1e-12 rather than to rounding.
COMPUTED = {name for name, act in ACTIVATIONS.items() if act.evaluation in ("one integral", "computed")}
JUMPS = {name for name, act in ACTIVATIONS.items() if not act.continuous} - COMPUTED
# Slopes with a kink turn an angle below the rounding of a cosine, which nobody can tell from 0, into an error of its size.
KINKED = {name for name, act in ACTIVATIONS.items() if act.bends()}


def _same_code():
    """Activations of the catalogue whose kernel and slope are computed by the code of one before them."""
    seen, alike = set(), set()
    for name, act in CATALOGUE.items():
        kinks = "anywhere" if any(act.bends()) else "at 0" if act.bends() else "none"
        code = type(act).k, type(act).k_slope, act.evaluation, kinks
        if code in seen:
            alike.add(name)
        seen.add(code)
    return alike


# These run the code of another activation, or of another network below, with another function, numbers or sizes. Two stay
# with the fast tests: ABRelu has a product of slopes that is not 0, and Rbf a frequency that is a root.
ALIKE = (_same_code() - {"abrelu", "rbf"}) | {
    "affine_gelu", "gelu_tanh", "hard_tanh",
    "dense on pixels", "conv 1d", "avg pool", "three branches", "nested residual",
}  # fmt: skip


def case(name, *more, marks=()):
    """The parameters of a test, which is left to `make slow` where its name is like another."""
    return pytest.param(name, *more, marks=[*marks, pytest.mark.slow] if name in ALIKE else marks)


def each(names):
    """A test for each name."""
    return pytest.mark.parametrize("name", [case(name) for name in names])


# The masks of Dropout are independent for different inputs: the kernel of an input with itself is larger than its features'.
RANDOM = {"dropout", "dropout on pixels", "dropout and a pool"}

_conv = wl.Conv((3, 3), padding="SAME", W_std=1.4, b_std=0.7)
_end = (wl.Flatten(), wl.Dense(1.1))

# Every layer inside a small network, with the shape of one input.
NETWORKS: dict[str, tuple[wl.Network, tuple[int, ...]]] = {
    "dense": (wl.serial(wl.Dense(1.5, 0.9), wl.Relu(), wl.Dense(1.2, 0.8)), (5,)),
    "dense on pixels": (wl.serial(wl.Dense(1.5), "gelu", *_end), (4, 3, 2)),
    "conv 1d": (wl.serial(wl.Conv((3,), padding="SAME", W_std=1.3, b_std=0.1), "relu", *_end), (6, 2)),
    "conv 3d": (wl.serial(wl.Conv((2, 3, 2), padding="SAME", W_std=1.3), "relu", *_end), (3, 4, 3, 2)),
    "conv same": (wl.serial(_conv, "relu", _conv, "relu", *_end), (5, 4, 3)),
    "conv valid": (wl.serial(wl.Conv((2, 3), W_std=1.3), "erf", wl.GlobalAvgPool(), wl.Dense()), (4, 5, 2)),
    "conv circular": (
        wl.serial(wl.Conv((3, 2), padding="CIRCULAR", W_std=1.3), "relu", wl.GlobalAvgPool(), wl.Dense()),
        (4, 5, 2),
    ),
    "conv strides": (
        wl.serial(
            wl.Conv((3, 3), (2, 1), "SAME", 1.3), "relu", wl.Conv((3, 3), (2, 2), "CIRCULAR", 1.3), "relu", *_end
        ),
        (5, 6, 2),
    ),
    "avg pool": (wl.serial(_conv, "relu", wl.AvgPool((2, 2), (2, 2)), _conv, "relu", *_end), (6, 4, 2)),
    "avg pool same": (
        wl.serial(_conv, "gelu", wl.AvgPool((3, 3), (2, 2), "SAME"), _conv, "gelu", wl.GlobalAvgPool(), wl.Dense()),
        (5, 4, 2),
    ),
    "avg pool edges": (
        wl.serial(
            _conv,
            "relu",
            wl.AvgPool((3, 2), (2, 1), "SAME", normalize_edges=True),
            wl.AvgPool((3, 3), 1, "CIRCULAR"),
            *_end,
        ),
        (5, 4, 2),
    ),
    "sum pool": (wl.serial(_conv, "relu", wl.SumPool((2, 2)), wl.Conv((2, 2)), "relu", *_end), (4, 4, 2)),
    "global sum pool": (wl.serial(_conv, "relu", wl.GlobalSumPool(), wl.Dense(0.3)), (4, 3, 2)),
    "layer norm": (wl.serial(wl.Dense(1.5, 0.3), wl.LayerNorm(), "gelu", wl.Dense()), (5,)),
    "layer norm over pixels": (
        wl.serial(_conv, wl.LayerNorm((1, 2, 3)), "relu", wl.GlobalAvgPool(), wl.Dense()),
        (4, 3, 2),
    ),
    "dropout": (wl.serial(wl.Dense(1.5, 0.3), "relu", wl.Dropout(0.7), wl.Dense(), "gelu", wl.Dense()), (5,)),
    "dropout on pixels": (
        wl.serial(_conv, "relu", wl.Dropout(0.6), _conv, "relu", wl.GlobalAvgPool(), wl.Dense()),
        (3, 3, 2),
    ),
    "dropout and a pool": (
        wl.serial(
            wl.Conv((1, 1), W_std=1.4, b_std=0.7),
            "relu",
            wl.Dropout(0.6),
            wl.AvgPool((2, 2)),
            wl.Conv((1, 1), W_std=1.2),
            "gelu",
            wl.GlobalAvgPool(),
            wl.Dense(),
        ),
        (3, 3, 2),
    ),
    "dropout in test mode": (wl.serial(wl.Dense(1.5), "relu", wl.Dropout(0.7, "test"), wl.Dense()), (5,)),
    "residual": (
        wl.serial(_conv, wl.residual("relu", _conv), "relu", wl.GlobalAvgPool(), wl.Dense()),
        (4, 3, 2),
    ),
    "residual with a pool": (
        wl.serial(
            _conv,
            wl.FanOut(2),
            wl.parallel(wl.AvgPool((2, 2)), wl.serial("relu", wl.Conv((2, 2)))),
            wl.FanInSum(),
            "relu",
            *_end,
        ),
        (4, 4, 2),
    ),
    "three branches": (
        wl.serial(
            wl.FanOut(3),
            wl.parallel(
                wl.Dense(1.1, 0.1),
                wl.serial(wl.Dense(1.5), "relu", wl.Dense()),
                wl.serial(wl.Dense(), "gelu", wl.Dense(0.5)),
            ),
            wl.FanInSum(),
            "relu",
            wl.Dense(),
        ),
        (5,),
    ),
    "two parallels": (
        wl.serial(
            wl.FanOut(2),
            wl.parallel(wl.serial(wl.Dense(1.5), "relu"), wl.serial(wl.Dense(0.8), "gelu")),
            wl.parallel(wl.serial(wl.Dense(1.2), "relu", wl.Dense()), wl.Dense(1.1)),
            wl.FanInSum(),
            "relu",
            wl.Dense(),
        ),
        (5,),
    ),
    "nested residual": (
        wl.serial(wl.Dense(), wl.residual("relu", wl.Dense(1.2), wl.residual("gelu", wl.Dense())), "relu", wl.Dense()),
        (5,),
    ),
    "concat channels": (
        wl.serial(
            wl.FanOut(2),
            wl.parallel(wl.serial(wl.Dense(1.5), "relu"), wl.serial(wl.Dense(1.2), "gelu")),
            wl.FanInConcat(),
            wl.Dense(),
        ),
        (5,),
    ),
    "concat channels by width": (
        wl.serial(
            wl.FanOut(2),
            wl.parallel(wl.serial(wl.Dense(1.5, width=300), "relu"), wl.serial(wl.Dense(1.2, width=100), "gelu")),
            wl.FanInConcat(),
            wl.Dense(),
        ),
        (5,),
    ),
    "concat pixels": (
        wl.serial(
            wl.FanOut(2), wl.parallel(_conv, wl.Dense(1.3)), wl.FanInConcat(1), "relu", wl.GlobalAvgPool(), wl.Dense()
        ),
        (3, 3, 2),
    ),
    "standard parameterisation": (
        wl.serial(
            wl.Dense(1.5, 0.3, width=256, parameterization="standard"),
            "relu",
            wl.Dense(1.2, 0.2, width=64, parameterization="standard"),
        ),
        (5,),
    ),
    "standard conv": (
        wl.serial(
            wl.Conv((3, 3), padding="SAME", W_std=1.5, b_std=0.3, width=256, parameterization="standard"),
            "relu",
            wl.Flatten(),
            wl.Dense(1.2, width=64, parameterization="standard"),
        ),
        (3, 3, 2),
    ),
}
