"""Every layer: its finite network must have the kernel that the exact reading says, and both must agree on shapes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import widelimit as wl
from catalogue import NETWORKS, RANDOM, each
from widelimit.kernels import exact


def _inputs(shape, n=3):
    return np.random.default_rng(0).normal(size=(n, *shape)).astype(np.float32)


@each(NETWORKS)
def test_readings_agree(name):
    """Exact with exact, and exact with finite, in one test: what they share is compiled once.

    K(x) is K(x1, x2) wherever both have a pair, and exactly symmetric; shapes are the finite ones. Means over fixed draws
    of finite networks are within 5 standard errors, and 8 / width for what a finite width still lacks: the NNGP over 40 draws
    with as many outputs as the layers are wide; the NTK, which concentrates, over 12 with two.
    """
    net, shape = NETWORKS[name]
    x = _inputs(shape, 4).astype(np.float64)
    whole, part = net.kernel(x), net.kernel(x[:2], x[2:])
    for i in range(2):
        assert isinstance(whole[i], np.ndarray)
        assert whole[i].dtype == np.float64
        np.testing.assert_allclose(part[i], whole[i][:2, 2:], rtol=1e-12)
        np.testing.assert_array_equal(whole[i], whole[i].T)
    output = jax.eval_shape(
        lambda key: net.apply(net.init(key, shape, width=16), x.astype(np.float32), key=key), jax.random.key(0)
    )
    assert output.shape == (4, *net.output_shape(shape, width=16))
    _compare_with_finite_networks(net, shape, x, whole, random=name in RANDOM)


def _compare_with_finite_networks(net, shape, x, whole, random):
    width = 256 if len(shape) == 1 else 128
    *layers, last = net.layers
    narrow = wl.serial(*layers, wl.Dense(last.W_std, last.b_std, width=2, parameterization=last.parameterization))
    # the masks of Dropout are independent for different inputs, and K(x1, x2) is the kernel of such
    first, second = jnp.asarray(x[:2], jnp.float32), jnp.asarray(x[2:] if random else x[:2], jnp.float32)
    places = np.ix_([0, 1], [2, 3] if random else [0, 1])

    def nngp(key):
        key, one, two = jax.random.split(key, 3)
        params = net.init(key, shape, width=width)
        y1, y2 = (net.apply(params, x, key=k) for x, k in ((first, one), (second, two)))
        return y1 @ y2.T / y1.shape[-1]

    def ntk(key):
        return narrow.empirical_kernel(narrow.init(key, shape, width=width), first, get="ntk")

    scale = [np.sqrt(np.outer(np.diag(k), np.diag(k)))[places] for k in whole]
    for i, (draw, count) in enumerate(((nngp, 40), (ntk, 12))[: 1 if random else 2]):
        samples = _drawn(draw, jax.random.key(0), count)
        error = samples.std(0, ddof=1) / np.sqrt(count)
        assert np.all(np.abs(samples.mean(0) - whole[i][places]) <= 5 * error + 8 / width * scale[i])


def _drawn(draw, key, count):
    """draw(key) for many keys; optimised, since convolutions and random numbers are slow where the Makefile forbids it."""
    program = jax.jit(lambda keys: jax.lax.map(draw, keys), compiler_options={"xla_backend_optimization_level": 1})
    return np.asarray(program(jax.random.split(key, count)))


def test_dropout_inflates_the_diagonal_as_a_finite_network_does():
    """One mask for both sides of a pair: E[f(x)^2] of the finite network is the diagonal of the exact kernel."""
    for name in sorted(RANDOM):
        net, shape = NETWORKS[name]
        x = jnp.asarray(_inputs(shape))

        def draw(key):
            params = net.init(key, shape, width=256)
            return (net.apply(params, x, key=key) ** 2).mean(-1)

        samples = _drawn(draw, jax.random.key(1), 40)
        expected = net.kernel(x, get="nngp", diagonal=True)
        error = samples.std(0, ddof=1) / np.sqrt(len(samples))
        assert np.all(np.abs(samples.mean(0) - expected) <= 5 * error + 8 / 128 * expected)
        assert np.all(np.diag(net.kernel(x, x, get="nngp")) < 0.99 * expected)


@pytest.mark.parametrize("name", ["conv same", "conv strides", "conv 3d", "avg pool edges", "residual with a pool"])
def test_pairs_of_pixels_change_nothing_where_they_are_not_needed(name):
    """Carrying the covariance of all pixels, as before a pool, gives what carrying only equal pixels gives."""
    net, shape = NETWORKS[name]
    x = _inputs(shape, 2).astype(np.float64)

    class Asking(wl.Identity):
        def needs_pairs(self, after):
            return True

    layers = list(net.layers)
    end = next(
        i for i, layer in enumerate(layers) if isinstance(layer, wl.Flatten | wl.GlobalAvgPool | wl.GlobalSumPool)
    )
    asking = wl.serial(*layers[:end], Asking(), *layers[end:])
    for expected, found in zip(net.kernel(x[:1], x[1:]), asking.kernel(x[:1], x[1:]), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_flatten_without_pools_carries_no_pairs():
    assert not wl.nets.conv_flatten(3).needs_pairs(False)
    assert wl.nets.myrtle(5).needs_pairs(False)
    assert not wl.serial(wl.Conv((3, 3)), "relu", wl.Flatten(), wl.Dense()).needs_pairs(False)


def test_kernels_of_images_without_a_read_out_are_per_pixel():
    net = wl.serial(wl.Conv((3, 3), padding="SAME"), "relu", wl.Conv((2, 2)))
    x = _inputs((4, 5, 2))
    assert net.kernel(x, get="ntk").shape == (3, 3, 3, 4)
    assert net.kernel(x, x[:2], get="ntk").shape == (3, 2, 3, 4)
    assert net.kernel(x, get="ntk", diagonal=True).shape == (3, 3, 4)


def test_leading_flatten_pairs_rows(x64):
    x = jnp.asarray(_inputs((4, 3, 2)), jnp.float64)
    net = wl.serial(wl.Flatten(), wl.Dense(1.3), "gelu", wl.Dense())
    np.testing.assert_allclose(net.kernel(x).ntk, exact.kernel(net, x).ntk, rtol=1e-13)


def test_standard_parameterisation_counts_its_inputs():
    wide, narrow = (
        wl.serial(wl.Dense(width=w, parameterization="standard"), "relu", wl.Dense(parameterization="standard"))
        for w in (100, 10)
    )
    x = _inputs((5,))
    nngp = wl.serial(wl.Dense(), "relu", wl.Dense()).kernel(x, get="nngp")
    np.testing.assert_allclose(wide.kernel(x, get="nngp"), nngp, rtol=1e-6)
    # the last layer's own gradients are width * K; what is left comes from the first
    np.testing.assert_allclose(wide.kernel(x, get="ntk") - narrow.kernel(x, get="ntk"), 90 * nngp, rtol=1e-4)


@pytest.mark.parametrize(("size", "stride"), [((2, 4), (1, 1)), ((4, 2), (2, 3)), ((3, 3), (2, 2))])
def test_same_padding_is_that_of_lax(size, stride):
    """Where a window cannot be centred, as one of even size, the pixel more is after it."""
    x = jnp.asarray(_inputs((7, 6, 2)))
    conv = wl.serial(wl.Conv(size, stride, "SAME", W_std=1.3))
    ((params),) = conv.init(jax.random.key(0), (7, 6, 2), width=3)
    layout = ("NHWC", "HWIO", "NHWC")
    expected = jax.lax.conv_general_dilated(x, params["W"], stride, "SAME", dimension_numbers=layout)
    scale = 1.3 / np.sqrt(size[0] * size[1] * 2)
    np.testing.assert_allclose(conv.apply((params,), x), scale * expected, rtol=0, atol=1e-5)
    pool = wl.serial(wl.SumPool(size, stride, "SAME"))
    expected = jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, *size, 1), (1, *stride, 1), "SAME")
    np.testing.assert_allclose(pool.apply(((),), x), expected, rtol=0, atol=1e-5)
    # the kernel of one convolution, pixel by pixel, is the sum of the input's covariance over the same windows
    squares = jnp.mean(x**2, -1, keepdims=True)
    expected = jax.lax.reduce_window(squares, 0.0, jax.lax.add, (1, *size, 1), (1, *stride, 1), "SAME")[..., 0]
    found = conv.kernel(x, get="nngp", diagonal=True)
    np.testing.assert_allclose(found, 1.3**2 / (size[0] * size[1]) * expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (lambda **options: wl.Dense(1.3, 0.4, **options), (5,)),
        (lambda **options: wl.serial(wl.Conv((2, 2), W_std=1.3, b_std=0.4, **options), wl.GlobalAvgPool()), (3, 3, 2)),
    ],
    ids=["dense", "conv"],
)
def test_scales_of_the_standard_parameterisation_leave_the_outputs_alone(layer, shape):
    """They change the gradients: the NTK is that of the finite network, and the mean over channels the NNGP."""
    x, width = jnp.asarray(_inputs(shape)), 4096
    plain, scaled = (wl.serial(layer(parameterization="standard", s=s)) for s in ((1, 1), (2, 1)))
    params = scaled.init(jax.random.key(0), shape, width=width)
    y = scaled.apply(params, x)
    np.testing.assert_allclose(
        y, plain.apply(plain.init(jax.random.key(0), shape, width=width), x), rtol=1e-5, atol=1e-5
    )
    products = np.einsum("ic,jc->ijc", y, y)
    error = products.std(-1, ddof=1) / np.sqrt(width)
    exact = scaled.kernel(x)
    np.testing.assert_array_less(np.abs(products.mean(-1) - exact.nngp), 5 * error)
    narrow = scaled.init(jax.random.key(0), shape, width=1)
    np.testing.assert_allclose(scaled.empirical_kernel(narrow, x, get="ntk"), exact.ntk, rtol=1e-5)


def test_branches_may_branch_again():
    """A branch that splits in two, and goes on apart, before all meet again."""
    first, second, third = wl.Dense(1.1, 0.2), wl.Dense(1.3), wl.Dense(0.7, 0.1)
    inner = wl.serial(wl.parallel(second, third), wl.FanInSum())
    split = wl.serial(
        wl.FanOut(2), wl.parallel(wl.FanOut(2), first), wl.parallel(inner, wl.serial("relu", wl.Dense())), wl.FanInSum()
    )
    whole = wl.serial(
        wl.FanOut(2),
        wl.parallel(wl.serial(wl.FanOut(2), inner), wl.serial(first, "relu", wl.Dense())),
        wl.FanInSum(),
    )
    x = _inputs((5,)).astype(np.float64)
    for found, expected in zip(split.kernel(x), whole.kernel(x), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-13)
