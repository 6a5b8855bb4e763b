"""Bad input gets an error that says what, seen and remedy."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import widelimit as wl

X = np.ones((3, 5))
IMAGES = np.ones((2, 6, 6, 3))
KEY = jax.random.key(0)
dense = wl.nets.fully_connected(1)
conv = wl.nets.myrtle(5)

CASES = {
    "activation first": (
        lambda: wl.serial(wl.Relu(), wl.Dense()).kernel(X),
        "Relu.*follows the input.*Put Dense or Conv",
    ),
    "activation twice": (
        lambda: wl.serial(wl.Dense(), "relu", "gelu").kernel(X),
        "Gelu.*follows Relu.*Put Dense or Conv",
    ),
    "layer norm after relu": (
        lambda: wl.serial(wl.Dense(), "relu", wl.LayerNorm()).kernel(X),
        "LayerNorm.*follows Relu",
    ),
    "layer norm of the batch": (lambda: wl.serial(wl.Dense(), wl.LayerNorm(0)).kernel(X), "axis=0.*channels"),
    "channels": (lambda: dense.kernel(X, np.ones((3, 4))), r"different channels: \(3, 5\) and \(3, 4\)"),
    "image sizes": (lambda: conv.kernel(IMAGES, np.ones((2, 5, 6, 3))), "different shapes"),
    "one axis": (lambda: dense.kernel(X[0]), r"shape \(5,\).*x\[None\]"),
    "rows to a convolution": (lambda: conv.kernel(X), r"needs 2 spatial axes.*\(5,\)"),
    "image to 1d convolution": (lambda: wl.serial(wl.Conv((3,)), "relu").kernel(IMAGES), "1 spatial axes.*shape"),
    "nan": (lambda: dense.kernel(np.where(np.eye(3, 5) > 0, np.nan, X)), r"x1 is not finite: nan at \(0, 0\)"),
    "inf": (lambda: dense.kernel(jnp.asarray(X), jnp.inf * jnp.ones((2, 5))), "x2 is not finite: inf"),
    "text": (lambda: dense.kernel([["a", "b"]]), "not an array of real numbers"),
    "pool too large": (lambda: wl.serial(wl.Conv((3, 3)), wl.AvgPool((5, 5))).kernel(IMAGES), "larger than its input"),
    "filter too large": (lambda: wl.serial(wl.Conv((7, 7))).kernel(IMAGES), "larger than its input.*SAME"),
    "unknown activation": (
        lambda: wl.nets.fully_connected(1, "rellu"),
        "no activation named 'rellu'. Did you mean 'relu'",
    ),
    "unknown padding": (lambda: wl.Conv((3, 3), padding="FULL"), "padding is one of SAME, VALID, CIRCULAR, not 'FULL'"),
    "strides": (lambda: wl.Conv((3, 3), strides=(1,)), r"strides takes 2 .* not \(1,\)"),
    "four dimensions": (lambda: wl.Conv((3, 3, 3, 3)), "1, 2 or 3 dimensions"),
    "sum of shapes": (
        lambda: wl.serial(wl.FanOut(2), wl.parallel(wl.Conv((3, 3)), wl.Conv((2, 2))), wl.FanInSum()).kernel(IMAGES),
        r"FanInSum of branches of different shapes, \(4, 4, None\), \(5, 5, None\)",
    ),
    "sum of widths": (
        lambda: wl.serial(wl.FanOut(2), wl.parallel(wl.Dense(width=3), wl.Dense(width=4)), wl.FanInSum()).kernel(X),
        "FanInSum of branches of different shapes",
    ),
    "sum of correlated branches": (
        lambda: wl.serial(wl.Dense(), wl.FanOut(2), wl.parallel(wl.Identity(), wl.Identity()), wl.FanInSum()).kernel(X),
        "more than one has no weights of its own",
    ),
    "sum after an activation": (
        lambda: wl.serial(wl.FanOut(2), wl.parallel(wl.Dense(), wl.serial(wl.Dense(), "relu")), wl.FanInSum()).kernel(
            X
        ),
        "FanInSum needs Gaussian branches but one ends with Relu",
    ),
    "nested branches without weights": (
        lambda: wl.serial(
            wl.Dense(), wl.FanOut(2), wl.parallel(wl.residual("relu", wl.Dense()), wl.Identity()), wl.FanInSum()
        ).kernel(X),
        "more than one has no weights of its own",
    ),
    "layer on branches": (lambda: wl.serial(wl.FanOut(2), wl.Dense()).kernel(X), r"given 2 branches. Put parallel"),
    "branches never joined": (lambda: wl.serial(wl.Dense(), wl.FanOut(2)).kernel(X), "ends with 2 branches. Join"),
    "parallel without fan out": (
        lambda: wl.serial(wl.parallel(wl.Dense(), wl.Dense())).kernel(X),
        "Put FanOut before it",
    ),
    "fan in without fan out": (lambda: wl.serial(wl.Dense(), wl.FanInSum()).kernel(X), "Put FanOut before it"),
    "wrong number of branches": (
        lambda: wl.serial(wl.FanOut(3), wl.parallel(wl.Dense(), wl.Dense()), wl.FanInSum()).kernel(X),
        "2 layers was given 3 branches",
    ),
    "apply of a kernel": (
        lambda: (net := wl.nets.fully_connected(1, "exp_normalized")).apply(net.init(KEY, (5,), 8), X),
        "ExpNormalized has a kernel but no function",
    ),
    "apply of a dual": (
        lambda: (net := wl.serial(wl.Dense(), wl.FromDual(lambda c, u, v: c))).apply(net.init(KEY, (5,), 8), X),
        "FromDual knows the kernel",
    ),
    "unregistered function": (lambda: wl.serial(wl.Elementwise(jnp.tanh)).to_json(), "register"),
    "dropout without a key": (
        lambda: (net := wl.serial(wl.Dense(), wl.Dropout(0.5))).apply(net.init(KEY, (5,), 8), X),
        "no random key",
    ),
    "dropout share": (lambda: wl.Dropout(1.5), "above 0 and up to 1, not 1.5"),
    "not a layer": (lambda: wl.serial(wl.Dense(), 3), "3 is neither"),
    "a function": (lambda: wl.serial(wl.Dense(), jnp.tanh), r"Wrap a function in Elementwise\(fn\)"),
    "a class": (lambda: wl.serial(wl.Dense), r"Did you mean Dense\(\)"),
    "get": (lambda: dense.kernel(X, get="cov"), "get is 'nngp', 'ntk'"),
    "diagonal of two": (lambda: dense.kernel(X, X, diagonal=True), "Leave x2 out"),
    "negative scale": (lambda: wl.Dense(-1.0), "W_std of 0 or more, not -1.0"),
    "parameterization": (lambda: wl.Dense(parameterization="mean"), "'ntk' or 'standard'"),
    "standard without widths": (
        lambda: wl.serial(wl.Dense(), "relu", wl.Dense(parameterization="standard")).kernel(X),
        "Give width=",
    ),
    "gaussian": (lambda: wl.Gaussian(1.0, 0.5), "b <= 0, not b = 0.5"),
    "degree": (lambda: wl.Hermite(1.5), "degree is a whole number from 0 to 100, not 1.5"),
    "myrtle": (lambda: wl.nets.myrtle(6), "5, 7 and 10, not 6"),
    "register": (lambda: wl.register("relu", wl.Gelu()), "Choose another name"),
    "dual of a name": (lambda: wl.dual("relu", 1.0, 1.0, 0.5), "not an activation"),
    "image too small for the pools": (lambda: conv.kernel(np.ones((2, 3, 3, 3))), "larger than its input"),
    "width of 0": (lambda: dense.init(KEY, (5,), width=0), "width is .* 1 or more, not 0"),
    "input shape": (lambda: dense.init(KEY, (5.0,)), "input_shape is the shape of one input without the batch"),
    "get of nothing": (lambda: dense.kernel(X, get=None), "get is 'nngp', 'ntk'.* not None"),
    "kinks": (lambda: wl.Elementwise(jnp.tanh, kinks=0.5), r"such as \(0.0, 1.0\), not 0.5"),
    "depth": (lambda: wl.nets.conv_flatten(1.5), "depth is a whole number.* not 1.5"),
    "blocks": (lambda: wl.nets.residual_net(-1), "blocks is a whole number.* not -1"),
    "text for a number": (lambda: wl.Dense("1"), "single, finite real number, not '1'"),
    "none for a number": (lambda: wl.LeakyRelu(None), "single, finite real number, not None"),
    "celu": (lambda: wl.Celu(0), "above 0, not 0"),
    "rbf": (lambda: wl.Rbf(-1), "gamma of 0 or more, not -1"),
    "normalised Gaussian": (lambda: wl.ExpNormalized(-1), "gamma of 0 or more, not -1"),
    "layer norm eps": (lambda: wl.LayerNorm(eps=0), "eps above 0.* not 0"),
    "complex": (lambda: dense.kernel(X + 0j), r"x1 is complex \(complex128\)"),
    "wider than float64": (lambda: dense.kernel(X.astype(np.longdouble)), "wider than float64"),
    "NumPy beside JAX": (lambda: dense.kernel(jnp.asarray(X), X), "x2 is a NumPy array of float64 beside a JAX array"),
    "concat of some widths": (
        lambda: wl.serial(wl.FanOut(2), wl.parallel(wl.Identity(), wl.Dense()), wl.FanInConcat(), wl.Dense()).kernel(X),
        r"widths \[5, None\], of which only some are known",
    ),
    "concat of pixels of other channels": (
        lambda: wl.serial(
            wl.FanOut(2), wl.parallel(wl.Dense(width=3), wl.Dense(width=4)), wl.FanInConcat(1), wl.Flatten()
        ).kernel(IMAGES),
        "FanInConcat of branches of different shapes",
    ),
    "radial degree": (lambda: wl.Relu().radial(1.0, 2.5), "whole number of 0 or more, not 2.5"),
    "nan for a number": (lambda: wl.Erf(np.nan), "finite real number, not nan"),
    "no function": (lambda: wl.Elementwise(3), "takes a function of one array, not 3"),
    "function of NumPy": (lambda: wl.Elementwise(np.tanh), "Write it with jax.numpy"),
    "function of numbers": (lambda: wl.Elementwise(math.tanh), "tanh of an array failed"),
    "function that sums": (lambda: wl.Elementwise(jnp.sum), "must be 5 real numbers"),
    "function that mixes": (lambda: wl.Elementwise(lambda t: t - t.mean()), "mixes the elements"),
    "function of a traced value": (
        lambda: jax.grad(lambda a: wl.serial(wl.Dense(), wl.Elementwise(lambda t: a * t)).kernel(X).nngp.sum())(1.0),
        "value that JAX is tracing",
    ),
    "dual of two": (lambda: wl.FromDual(lambda cov, var1: cov), r"dual\(cov, var1, var2\) of arrays.* failed"),
    "dual of a number": (lambda: wl.FromDual(lambda cov, var1, var2: 1.0), "must be 3 numbers"),
    "kinks that are no numbers": (lambda: wl.Elementwise(jnp.tanh, (np.nan,)), r"not \(nan,\)"),
    "axis": (lambda: wl.LayerNorm("a"), "axis is a whole number.* not 'a'"),
    "axis of concat": (lambda: wl.FanInConcat(1.5), "one axis.* not 1.5"),
    "polynomial": (lambda: wl.Polynomial(3.0), "coefficients, lowest degree first.* not 3.0"),
    "seed for a key": (lambda: dense.init(0, (5,)), r"one random key, such as jax.random.key\(0\), not 0"),
    "shapes of a dual": (lambda: wl.dual(wl.Relu(), np.ones(3), np.ones(2), 0.5), "do not go together"),
    "register a number": (lambda: wl.register(3, wl.Tanh()), "takes a name.* not 3"),
    "swish": (lambda: wl.serial("swish"), "Did you mean 'silu'"),
    "masked": (lambda: dense.kernel(np.ma.masked_less(X, 2)), "masked array.*filled"),
    "affine of a name": (lambda: wl.Affine("relu"), "takes an activation.* not 'relu'"),
    "affine of a dual": (lambda: wl.Affine(wl.FromDual(lambda c, u, v: c), C=1.0), "sign of the mean"),
    "an array for a number": (lambda: wl.Dense(jnp.arange(3.0)), "single, finite real number"),
    "truth for a number": (lambda: wl.Conv((True, 3)), "whole number of 1 or more, not True"),
    "numbers as text": (lambda: dense.kernel([["1", "2"]]), "not an array of real numbers"),
    "branches inside branches": (
        lambda: wl.serial(wl.FanOut(2), wl.parallel(wl.FanOut(2), wl.Dense()), wl.FanInSum()).kernel(X),
        "branches",
    ),
    "dual beside JAX": (lambda: wl.dual(wl.Relu(), np.ones(1), jnp.ones(1), 0.5), "beside a JAX array"),
    "params of another input": (lambda: dense.apply(dense.init(KEY, (4,), 8), X), "weights for 4 channels"),
    "params of another network": (lambda: dense.apply(((), ()), X), "parameters"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.oldest
def test_error(case):
    attempt, message = CASES[case]
    with pytest.raises((ValueError, TypeError), match=message):
        attempt()


WARNINGS = {
    "kink left out": (lambda: wl.Elementwise(lambda t: jnp.maximum(t - 0.7, 0)), "kink outside of kinks"),
    "fast wave": (lambda: wl.Elementwise(lambda t: jnp.sin(30 * t)), "scale much below 1"),
    "infinite kernel": (lambda: wl.Elementwise(lambda t: jnp.exp(t**2)), "grows too fast"),
    "width for a scale": (lambda: wl.Dense(512), "no width comes first"),
}


@pytest.mark.parametrize("case", WARNINGS)
def test_warning(case):
    attempt, message = WARNINGS[case]
    with pytest.warns(UserWarning, match=message):
        attempt()
