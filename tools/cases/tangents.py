"""neural-tangents' names: `stax`, `nt` and `nt.predict`."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from widelimit import nt, stax
from widelimit.nt import predict as predictions

from . import draw

Made = dict[str, Any]
ACTIVATIONS = (
    stax.Relu, stax.Erf, stax.Gelu, stax.Sign, stax.Abs, lambda: stax.LeakyRelu(0.2), lambda: stax.ABRelu(0.1, 1.2),
    lambda: stax.Sin(1, 0.5, 0.2), stax.Cos, stax.Rbf, stax.Exp, stax.Gaussian, stax.Gabor, stax.Sigmoid_like,
    lambda: stax.Hermite(2), lambda: stax.Monomial(2), lambda: stax.Polynomial((0.1, 1, 0.3)), stax.ExpNormalized,
    lambda: stax.RectifiedMonomial(1), lambda: stax.Elementwise(draw.bump, draw.soft_dual),
    lambda: stax.ElementwiseNumerical(jnp.tanh, deg=25),
)  # fmt: skip


def _dense(rng: np.random.Generator, width: int = 5) -> stax.Triple:
    if draw.likely(rng, 0.2):
        return stax.Dense(width, draw.number(rng, 0.8, 1.5), 0.1, parameterization="standard")
    return stax.Dense(width, draw.number(rng, 0.8, 1.5), draw.one(rng, (None, 0.3)))


def _rows(rng: np.random.Generator, function: bool = False) -> stax.Triple:
    act = draw.one(rng, ACTIVATIONS[:17] if function else ACTIVATIONS)()
    branch = stax.parallel(stax.serial(act, _dense(rng)), stax.Identity())
    block = draw.one(rng, ([act], [stax.LayerNorm(), act], [stax.FanOut(2), branch, stax.FanInSum(), act]))
    return stax.serial(_dense(rng), *block, _dense(rng, 2))


def _images(rng: np.random.Generator) -> stax.Triple:
    layout = {"dimension_numbers": ("NCHW", "OIHW", "NCHW")} if draw.likely(rng, 0.2) else {}
    conv = stax.Conv(4, (3, 3), padding=draw.one(rng, ("SAME", "VALID")), W_std=1.3, b_std=0.1, **layout)
    act = draw.one(rng, ACTIVATIONS[:3])()
    end = [] if layout else draw.one(rng, ([], [stax.Flatten(), stax.Dense(2)], [stax.GlobalAvgPool(), stax.Dense(2)]))
    return stax.serial(conv, act, *end)


def kernels(rng: np.random.Generator) -> Made:
    """`kernel_fn` on arrays, on the kernel of another, in blocks, with its options."""
    images = draw.likely(rng, 0.3)
    _, _, kernel_fn = _images(rng) if images else _rows(rng)
    x1 = draw.inputs(rng, 4, draw.IMAGE if images else draw.ROW)
    x2 = x1[:3] * x1.dtype.type(0.5) if draw.likely(rng, 0.5) else None
    get = draw.one(rng, (None, "nngp", "ntk", ("ntk", "nngp"), ("cov1", "nngp"), "cov2"))
    options: Made = draw.one(rng, ({}, {}, {"diagonal_batch": False}, {"diagonal_spatial": True}))
    found: Made = {"get": repr(get), "options": repr(options)}
    with draw.as_given(rng, x1, x2) as (a, b):
        result = kernel_fn(a, b, get, **options)
        found["kernel"] = result.asdict() if isinstance(result, nt.Kernel) else result
        if not images and get is None:
            carried = stax.serial(stax.Relu(), stax.Dense(1))[2](result)
            found["carried"] = carried.asdict()
        if get in ("nngp", "ntk", ("ntk", "nngp")):
            found["blocks"] = nt.batch(kernel_fn, 2)(a, b, get)
    return found


def finite(rng: np.random.Generator) -> Made:
    """`init_fn`, `apply_fn`, empirical kernels, averages of networks, and expansions in the parameters."""
    init_fn, apply_fn, _ = _rows(rng, function=True)
    x = draw.inputs(rng, 3, wild=False).astype("float32")
    shape, params = init_fn(draw.key(rng), x.shape)
    moved = jax.tree.map(lambda p: 1.1 * p + 0.01, params)
    axes = draw.one(rng, ({}, {"trace_axes": ()}, {"trace_axes": (), "diagonal_axes": (-1,)}))
    found: Made = {"shape": shape, "parameters": params, "outputs": apply_fn(params, x)}
    what = draw.one(rng, ("empirical", "average", "expansion"))
    if what == "empirical":
        found[what] = nt.empirical_kernel_fn(apply_fn, **axes)(x, None, ("nngp", "ntk"), params)
    elif what == "average":
        mean = nt.monte_carlo_kernel_fn(init_fn, apply_fn, jax.random.key(0), draw.one(rng, (2, [1, 2])))
        average = mean(x, None, "nngp")
        found[what] = list(average) if not hasattr(average, "shape") else average
    else:
        found["linear"] = nt.linearize(apply_fn, params)(moved, x)
        found["second"] = nt.taylor_expand(apply_fn, params, 2)(moved, x)
    return found


def predict(rng: np.random.Generator) -> Made:
    """Posteriors and training in time."""
    kernel_fn = stax.serial(stax.Dense(1, 1.3, 0.2), draw.one(rng, (stax.Relu, stax.Erf))(), stax.Dense(1))[2]
    x, y = draw.inputs(rng, 10, wild=False), rng.normal(size=(7, 2))
    y = y.astype(x.dtype)
    both = ("nngp", "ntk")
    train, cross, test = kernel_fn(x[:7], None, both), kernel_fn(x[7:], x[:7], both), kernel_fn(x[7:], None, both)
    t = draw.one(rng, (None, 2.0, np.array([0.5, 8.0])))
    reg: Made = draw.one(rng, ({"diag_reg": 0.01}, {"diag_reg": 0.1, "diag_reg_absolute_scale": True}))
    what = draw.one(rng, ("posterior", "mse", "ensemble", "flow"))
    if what == "posterior":
        get = draw.one(rng, ("nngp", "ntk", "ntkgp", both))
        return {what: predictions.gp_inference(train, y, **reg)(get, cross, test)}
    if what == "mse":
        return {what: predictions.gradient_descent_mse(train.ntk, y, 0.5, **reg)(t, 0.1, 0.2, cross.ntk)}
    if what == "ensemble":
        made = predictions.gradient_descent_mse_ensemble(kernel_fn, x[:7], y, 0.5, **reg)
        return {
            what: made(
                t, draw.one(rng, (None, x[7:])), draw.one(rng, ("nngp", "ntk")), compute_cov=draw.likely(rng, 0.5)
            )
        }
    flow = predictions.gradient_descent(
        lambda f, y: jnp.mean((f - y) ** 2), train.ntk, y, 0.5, draw.one(rng, (None, 0.9))
    )
    return {what: flow(1.5, 0.0, 0.1, cross.ntk), "rate": predictions.max_learning_rate(train.ntk, 7)}
