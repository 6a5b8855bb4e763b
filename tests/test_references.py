"""Duals, radial coefficients and network kernels against the reference values."""

import jax.numpy as jnp
import numpy as np
import pytest

import references
import widelimit as wl
from helpers import dual, dual_slope
from widelimit import stax


def _columns(rows, *names):
    return (np.array([row[name] for row in rows]) for name in names)


def _scale(fn, act, a, b):
    return np.sqrt(np.asarray(fn(act, a, a, np.ones_like(a))) * np.asarray(fn(act, b, b, np.ones_like(b))))


@pytest.mark.parametrize("name", references.by_activation("dual"))
@pytest.mark.parametrize("which", ["k", "dk"])
def test_duals(name, which):
    rows = references.by_activation("dual")[name]
    act, fn = references.activation(rows[0]), dual if which == "k" else dual_slope
    if all(row[which] is None for row in rows):  # the slope of the step
        assert not np.any(fn(act, *_columns(rows, "a", "b", "c")))
        return
    rows = [row for row in rows if row[which] is not None]
    a, b, c, expected = _columns(rows, "a", "b", "c", which)
    tolerance = 1e-9 if rows[0]["activation"] in references.NUMERICAL else 1e-12
    scale = _scale(fn, act, a, b)
    np.testing.assert_array_less(abs(fn(act, a, b, c) - expected), tolerance * scale + 1e-300)
    # in float32 the inputs are rounded too: compare with float64 at the rounded inputs
    single = [v.astype(np.float32) for v in (a, b, c)]
    computed = fn(act, *single)
    assert computed.dtype == np.float32
    expected = fn(act, *(v.astype(np.float64) for v in single))
    np.testing.assert_array_less(abs(computed - expected), 2e-6 * scale + 1e-300)


@pytest.mark.parametrize("name", references.by_activation("rl"))
def test_radial(name, x64):
    rows = references.by_activation("rl")[name]
    act = references.activation(rows[0])
    a, r = _columns(rows, "a", "r")
    computed = np.asarray(act.radial(jnp.asarray(a), 16))
    scale = np.sqrt(np.asarray(dual(act, a, a, np.ones_like(a))))
    np.testing.assert_array_less(np.max(abs(computed - r), axis=1), 1e-12 * scale)


@pytest.mark.parametrize("row", references.values()["networks"]["ntk"], ids=lambda r: f"{r['activation']}{r['depth']}")
def test_fully_connected(row):
    data = references.values()["networks"]
    x1, x2 = np.array(data["X1"]), np.array(data["X2"])
    act = references.activation(row)
    scales = {"div_d": 1.0} | ({"literal": x1.shape[1] ** 0.5} if row["depth"] == 3 else {})
    for suffix, first in ((suffix, wl.Dense(scale)) for suffix, scale in scales.items()):
        kernels = wl.serial(first, *[act, wl.Dense()] * row["depth"]).kernel(x1, x2)
        for get in ("nngp", "ntk"):
            np.testing.assert_allclose(getattr(kernels, get), row[f"{get}_{suffix}"], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("row", references.values()["networks"]["cntk"], ids=lambda r: f"{r['activation']}{r['L']}")
def test_convolutional(row):
    data = references.values()["networks"]
    x1, x2 = np.array(data["images1"]), np.array(data["images2"])
    conv = wl.Conv((row["q"],) * 2, padding="SAME")
    net = wl.serial(*[conv, references.activation(row)] * row["L"], wl.GlobalAvgPool(), wl.Dense())
    kernels = net.kernel(x1, x2)
    for get in ("nngp", "ntk"):
        np.testing.assert_allclose(getattr(kernels, get), row[f"nt_default_{get}"], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("case", references.neural_tangents(), ids=lambda case: case["name"])
def test_neural_tangents(case):
    _, _, kernel_fn = eval(case["stax"], {"stax": stax})
    kernels = kernel_fn(case["x1"], case["x2"], ("nngp", "ntk"))
    for get in ("nngp", "ntk"):
        np.testing.assert_allclose(getattr(kernels, get), case[get], rtol=1e-10, atol=1e-10)
