"""Exact kernels, activations, and finite networks."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import widelimit as wl

from . import draw

Made = dict[str, Any]


def _kernel(rng: np.random.Generator, net: wl.Network, shape: tuple[int, ...], wild: bool = True) -> Made:
    x1 = draw.inputs(rng, 5, shape, wild)
    x2 = draw.inputs(rng, 3, shape, wild).astype(x1.dtype) if draw.likely(rng, 0.5) else None
    options: Made = {"get": draw.readings(rng)} if draw.likely(rng, 0.7) else {}
    if x2 is None and draw.likely(rng, 0.25):
        options["diagonal"] = True
    with draw.as_given(rng, x1, x2) as (a, b):
        return {"network": repr(net), "options": repr(options), "kernel": net.kernel(a, b, **options)}


def of_rows(rng: np.random.Generator) -> Made:
    """`net.kernel` on rows."""
    return _kernel(rng, draw.rows_network(rng), draw.ROW)


def of_images(rng: np.random.Generator) -> Made:
    """`net.kernel` on images, at times with pixels at the end or flattened at once."""
    if draw.likely(rng, 0.1):
        return _kernel(rng, wl.serial(wl.Flatten(), draw.rows_network(rng)), draw.IMAGE)
    if draw.likely(rng, 0.15):
        preset = draw.one(rng, (wl.nets.conv_flatten, wl.nets.residual_net))
        return _kernel(rng, preset(1, draw.activation(rng, 0.0), draw.number(rng, 0.8, 1.5)), draw.IMAGE)
    return _kernel(rng, draw.images_network(rng, flat=draw.likely(rng, 0.9)), draw.IMAGE)


def in_tiles(rng: np.random.Generator) -> Made:
    """With `memory`, `progress` and `out`, and beside it at once."""
    images = draw.likely(rng, 0.4)
    net = draw.images_network(rng, computed=0.0) if images else draw.rows_network(rng, computed=0.05)
    x1 = draw.inputs(rng, 40 if images else 24, draw.IMAGE if images else draw.ROW)
    x2 = x1[:9] * x1.dtype.type(0.7) if draw.likely(rng, 0.4) else None
    names = draw.one(rng, ("nngp", "ntk", ("ntk", "nngp")))
    options: Made = {"get": names, "progress": draw.likely(rng, 0.3)}
    if draw.likely(rng, 0.5):
        options["memory"] = draw.one(rng, ("2GiB", 10**7, "1 MB"))
    shape = len(x1), len(x1 if x2 is None else x2)
    with TemporaryDirectory() as folder, draw.as_given(rng, x1, x2) as (a, b):
        how = draw.one(rng, ("none", "path", "array"))
        given = [names] if isinstance(names, str) else names
        if how == "path":
            out: Any = [Path(folder) / f"{name}.npy" for name in given]
        else:
            out = [np.full(shape, np.nan, x1.dtype) for _ in given]
        if how != "none":
            options["out"] = out[0] if isinstance(names, str) else tuple(out)
        found = net.kernel(a, b, **options)
        written = [np.load(path) for path in out] if how == "path" else out if how == "array" else []
        left = sorted(path.name for path in Path(folder).iterdir())
        copied = jax.tree.map(np.array, found)
    return {"network": repr(net), "kernel": copied, "written": written, "files": left}


def traced(rng: np.random.Generator) -> Made:
    """Inside `jit`, `grad` and `vmap`, in the inputs and in the network."""
    net = draw.rows_network(rng, masks=False, computed=0.05)
    x = jnp.asarray(draw.inputs(rng, 3).astype("float32"))
    get = draw.one(rng, ("nngp", "ntk"))
    return {
        "network": repr(net),
        "compiled": jax.jit(lambda x: net.kernel(x, get=get))(x),
        "of inputs": jax.grad(lambda x: net.kernel(x, get=get).sum())(x),
        "of the network": jax.tree.leaves(jax.grad(lambda net: net.kernel(x, get=get).sum())(net)),
    }


def of_activations(rng: np.random.Generator) -> Made:
    """`dual`, `dual_slope`, `fn`, `radial` and their derivatives."""
    act = draw.activation(rng, 0.25)
    with jax.enable_x64(True):
        values = [draw.number(rng, 0.1, 2), draw.number(rng, 0.1, 2), np.array([-1, -0.9, -0.3, 0, 0.5, 0.99, 1.0])]
        a, b, c = (np.asarray(value, draw.one(rng, ("float32", "float64"))) for value in values)
        found = {"dual": wl.dual(act, a, b, c), "slope": wl.dual_slope(act, a, b, c)}
        covariances = jnp.asarray(a * b * c), jnp.asarray(a**2), jnp.asarray(b**2)
        found |= {"k": act.dual(*covariances), "k'": act.dual_slope(*covariances)}
        if not isinstance(act, wl.FromDual):
            found["radial"] = act.radial(jnp.asarray(a, jnp.float64), 6)
        if not isinstance(act, wl.FromDual | wl.ExpNormalized):
            found["fn"] = act.fn(jnp.asarray(rng.normal(size=5)))
        inside = jnp.asarray(0.3 * values[0] * values[1])
        of_cov = jax.grad(lambda cov: act.dual(cov, jnp.asarray(values[0] ** 2), jnp.asarray(values[1] ** 2)))
        found["derivative"] = of_cov(inside)
    return {"activation": repr(act), **found}


def finite(rng: np.random.Generator) -> Made:
    """`init`, `apply`, `empirical_kernel` and `output_shape`."""
    images = draw.likely(rng, 0.35)
    shape = draw.IMAGE if images else draw.ROW
    make = draw.images_network if images else draw.rows_network
    net = make(rng, function=True, computed=0.1)
    x, width, key = draw.inputs(rng, 3, shape), int(rng.integers(3, 7)), draw.key(rng)
    params = net.init(key, shape, width=width)
    masks = key if "Dropout" in repr(net) else None
    found: Made = {"network": repr(net), "shape": net.output_shape(shape, width), "parameters": params}
    with draw.as_given(rng, x) as (given,):
        found["outputs"] = net.apply(params, given, key=masks)
        if not images:
            found["empirical"] = net.empirical_kernel(params, given, get=draw.readings(rng), key=masks)
    return found
