"""Networks as things: printing, JSON, presets, precision, tracing."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import widelimit as wl
from catalogue import ACTIVATIONS, NETWORKS
from widelimit import activations
from widelimit.kernels import exact
from widelimit.layers import Nonlinearity

X = np.random.default_rng(0).normal(size=(6, 5))
IMAGES = np.random.default_rng(0).normal(size=(3, 8, 8, 3))


@pytest.mark.parametrize("name", NETWORKS)
def test_json_round_trip(name):
    net, _ = NETWORKS[name]
    assert wl.from_json(net.to_json()) == net
    assert eval(repr(net), vars(wl)) == net


@pytest.mark.parametrize("name", [n for n in ACTIVATIONS if n not in ("elementwise", "from_dual")])
def test_activations_in_json(name):
    net = wl.serial(wl.Dense(), ACTIVATIONS[name], wl.Dense())
    assert wl.from_json(net.to_json()) == net
    assert eval(repr(net), vars(wl)) == net


def test_registered_functions_in_json():
    act = wl.Elementwise(lambda t: t * jnp.tanh(t), kinks=())
    net = wl.serial(wl.Dense(), wl.Affine(act, 2.0), wl.Dense())
    with pytest.raises(TypeError, match="register"):
        net.to_json()
    wl.register("t_tanh", act)
    try:
        assert wl.from_json(net.to_json()) == net
        assert wl.nets.fully_connected(1, "t_tanh") == wl.serial(wl.Dense(), act, wl.Dense())
    finally:
        del activations._registered["t_tanh"]
    with pytest.raises(ValueError, match="t_tanh"):
        wl.from_json(json.dumps({"widelimit": 1, "network": {"serial": [{"registered": "t_tanh"}]}}))


def test_registering_a_plain_activation_leaves_the_catalogue_alone():
    wl.register("mine", wl.Relu())
    try:
        assert "mine" not in wl.nets.fully_connected(1, "relu").to_json()
    finally:
        del activations._registered["mine"]


@pytest.mark.parametrize(
    "text",
    [
        "not json",
        "[]",
        "{}",
        '{"widelimit": 99, "network": {"serial": []}}',
        '{"widelimit": 1, "network": {"serial": [{"os": {}}]}}',
        '{"widelimit": 1, "network": {"serial": [{"Dense": {"nonsense": 1}}]}}',
        '{"widelimit": 1, "network": {"serial": [{"Dense": {}, "Relu": {}}]}}',
        '{"widelimit": 1, "network": {"serial": 3}}',
        '{"widelimit": 1, "network": {"serial": [{"Dense": 3}]}}',
        '{"widelimit": 1, "network": {"serial": [{"Elementwise": {"fn": "print"}}]}}',
    ],
)
def test_foreign_json_is_refused(text):
    with pytest.raises((ValueError, TypeError)):
        wl.from_json(text)


def test_presets():
    for depth, convolutions in ((5, 4), (7, 6), (10, 9)):
        net = wl.nets.myrtle(depth, "gelu")
        assert sum(isinstance(layer, wl.Conv) for layer in net.layers) == convolutions
        assert sum(isinstance(layer, wl.AvgPool) for layer in net.layers) == 2
        assert net.output_shape((32, 32, 3), width=7) == (7,)
    assert wl.nets.fully_connected(3, "erf", 1.2, 0.1).kernel(X).ntk.shape == (6, 6)
    for net in (wl.nets.conv_flatten(2), wl.nets.residual_net(2)):
        assert net.kernel(IMAGES, get="ntk").shape == (3, 3)
        assert wl.from_json(net.to_json()) == net


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        (np.float64, np.float64),
        (np.float32, np.float32),
        (np.float16, np.float32),
        (np.int64, np.float32),
        (np.uint8, np.float32),
        (bool, np.float32),
    ],
)
@pytest.mark.oldest
def test_numpy_keeps_its_precision(given, dtype):
    x = np.round(10 * np.abs(X)).astype(given)
    net = wl.nets.fully_connected(1, "gelu")
    kernel = net.kernel(x, get="ntk")
    assert isinstance(kernel, np.ndarray)
    assert kernel.dtype == dtype
    assert not jax.config.jax_enable_x64


@pytest.mark.oldest
def test_float64_is_computed_in_float64():
    double = wl.nets.fully_connected(2, "gelu").kernel(X, get="ntk")
    single = wl.nets.fully_connected(2, "gelu").kernel(X.astype(np.float32), get="ntk")
    with jax.enable_x64(True):
        traced = wl.nets.fully_connected(2, "gelu").kernel(jnp.asarray(X), get="ntk")
    assert isinstance(traced, jax.Array)
    np.testing.assert_allclose(double, traced, rtol=1e-14)
    assert 1e-9 < np.max(np.abs(double - single)) < 1e-5


def test_jax_arrays_keep_their_kind():
    kernel = wl.nets.fully_connected(1).kernel(jnp.asarray(X, jnp.float32), get="ntk")
    assert isinstance(kernel, jax.Array)
    assert kernel.dtype == jnp.float32


def test_jit_vmap_and_the_pure_function(x64):
    net = wl.nets.fully_connected(2, "gelu", 1.2, 0.1)
    x = jnp.asarray(X)
    expected = net.kernel(x)
    np.testing.assert_allclose(jax.jit(lambda x: net.kernel(x))(x).ntk, expected.ntk, rtol=1e-13)
    np.testing.assert_allclose(jax.jit(exact.kernel)(net, x).ntk, expected.ntk, rtol=1e-13)
    stacked = jax.vmap(lambda x: net.kernel(x, get="ntk"))(jnp.stack([x, 2 * x]))
    np.testing.assert_allclose(stacked[0], expected.ntk, rtol=1e-12)
    np.testing.assert_allclose(stacked[1], net.kernel(2 * x).ntk, rtol=1e-12)


def test_new_scales_retrace_nothing():
    traces = 0

    def counting(t):
        nonlocal traces
        traces += 1
        return jnp.tanh(t)

    act = wl.Elementwise(counting, kinks=())
    wl.serial(wl.Dense(1.0, 0.1), act, wl.Dense()).kernel(X.astype(np.float32))
    before = traces
    assert before > 0
    for std in (1.1, 1.2, 1.3):
        wl.serial(wl.Dense(std, 0.1 * std), act, wl.Dense(std)).kernel(X.astype(np.float32))
    assert traces == before


def test_ntk_is_computed_only_when_asked_for():
    slopes = 0

    class Counting(wl.Relu):
        def k_slope(self, a, b, c):
            nonlocal slopes
            slopes += 1
            return super().k_slope(a, b, c)

    net = wl.serial(wl.Dense(), Counting(), wl.Dense())
    net.kernel(X, get="nngp")
    assert slopes == 0
    net.kernel(X, get=("ntk",))
    assert slopes > 0


@pytest.mark.parametrize("n", [0, 1, 2, 5, 17])
def test_any_number_of_rows(n):
    x = np.random.default_rng(n).normal(size=(n, 4))
    net = wl.nets.fully_connected(1)
    whole = net.kernel(x)
    assert whole.ntk.shape == (n, n)
    np.testing.assert_array_equal(whole.ntk, whole.ntk.T)
    np.testing.assert_allclose(whole.ntk, net.kernel(x, x).ntk, rtol=1e-9)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize("end", [wl.Flatten(), wl.GlobalAvgPool()], ids=["flatten", "pool"])
def test_any_number_of_images(n, end):
    images = np.random.default_rng(n).normal(size=(n, 4, 4, 2))
    net = wl.serial(wl.Conv((3, 3)), "relu", end, wl.Dense())
    whole = net.kernel(images, get="ntk")
    assert whole.shape == (n, n)
    np.testing.assert_array_equal(whole, whole.T)
    np.testing.assert_allclose(whole, net.kernel(images, images, get="ntk"), rtol=1e-7)


def test_empirical_kernel_of_a_given_network():
    """A linear network of one layer: NNGP is x W W' x' over its width, NTK the input covariance exactly."""
    net = wl.serial(wl.Dense(1.3))
    params = net.init(jax.random.key(0), (5,), width=7)
    kernels = net.empirical_kernel(params, X)
    outputs = 1.3 / np.sqrt(5) * X @ np.asarray(params[0]["W"], np.float64)
    np.testing.assert_allclose(kernels.nngp, outputs @ outputs.T / 7, rtol=1e-6)
    np.testing.assert_allclose(kernels.ntk, 1.3**2 * X @ X.T / 5, rtol=1e-6)


def test_finite_layers_scale_their_weights_and_biases():
    """Dense and Conv by hand: W_std / sqrt(fan in) W x + b_std b, and without scales in the standard parameterisation."""
    for parameterization in ("ntk", "standard"):
        dense = wl.serial(wl.Dense(1.3, 0.7, parameterization=parameterization))
        ((params),) = dense.init(jax.random.key(0), (5,), width=4)
        W, b = (np.asarray(params[name], np.float64) for name in ("W", "b"))
        scales = (1.3 / np.sqrt(5), 0.7) if parameterization == "ntk" else (1.0, 1.0)
        np.testing.assert_allclose(dense.apply((params,), X), scales[0] * X @ W + scales[1] * b, rtol=1e-12)
    conv = wl.serial(wl.Conv((2, 3), W_std=1.3, b_std=0.7))
    ((params),) = conv.init(jax.random.key(0), (8, 8, 3), width=4)
    W, b = (np.asarray(params[name], np.float64) for name in ("W", "b"))
    patch = IMAGES[:, 2:4, 1:4]
    expected = 1.3 / np.sqrt(18) * np.einsum("nhwc,hwco->no", patch, W) + 0.7 * b
    np.testing.assert_allclose(conv.apply((params,), IMAGES)[:, 2, 1], expected, rtol=1e-12)


def test_training_on_numpy_data():
    """While JAX traces the parameters or the network, NumPy inputs follow JAX's precision."""
    net = wl.serial(wl.Dense(1.2, width=8), wl.residual("relu", wl.Dense()), wl.Dense(width=1))
    params = net.init(jax.random.key(0), (5,), width=8)
    assert net.apply(params, X).dtype == np.float64
    gradient = jax.jit(jax.grad(lambda p: (net.apply(p, X) ** 2).sum()))(params)
    assert jax.tree.structure(gradient) == jax.tree.structure(params)
    slope = jax.grad(lambda net: net.kernel(X, get="ntk").sum())(net)
    expected = jax.grad(lambda net: net.kernel(jnp.asarray(X, jnp.float32), get="ntk").sum())(net)
    np.testing.assert_allclose(slope.layers[0].W_std, expected.layers[0].W_std, rtol=1e-6)


def test_users_classes_in_json():
    class Swish(wl.Silu):
        pass

    net = wl.serial(wl.Dense(), Swish(), wl.Dense())
    with pytest.raises(TypeError, match="class of yours"):
        net.to_json()
    wl.register("swish", Swish())
    try:
        assert wl.from_json(net.to_json()) == net
    finally:
        del activations._registered["swish"]


def test_dropout_draws_a_mask_for_each_input():
    net = wl.serial(wl.Dense(), wl.Dropout(0.5), wl.Dense(width=1))
    params = net.init(jax.random.key(0), (5,), width=64)
    kernel = net.empirical_kernel(params, X, X, get="nngp", key=jax.random.key(1))
    own = net.empirical_kernel(params, X, get="nngp", key=jax.random.key(1))
    assert np.all(np.diag(kernel) != np.diag(own))


SPLIT = {
    "fully connected": (wl.nets.fully_connected(2, "gelu", 1.3, 0.2), X),
    "convolutional": (
        wl.serial(
            wl.Conv((3, 3), padding="SAME", W_std=1.3, b_std=0.1), "relu", wl.AvgPool((2, 2), (2, 2)),
            wl.Conv((3, 3), padding="SAME"), "exp_normalized", wl.GlobalAvgPool(), wl.Dense(1.1),
        ),
        IMAGES,
    ),
    "flattened": (wl.serial(wl.Conv((3, 3)), "relu", wl.Conv((2, 2), (2, 2)), "relu", wl.Flatten(), wl.Dense()), IMAGES),
}  # fmt: skip


@pytest.mark.parametrize("name", SPLIT)
def test_features_of_the_first_layers_carry_the_kernel_of_the_rest(x64, name):
    """The tail's kernel of exact features of the head, as of inputs with these covariances, is the whole network's."""
    net, x = SPLIT[name]
    x = jnp.asarray(x[:, :4, :4] if x.ndim > 2 else x)
    whole = net.kernel(x, get="nngp")
    for k in range(1, len(net)):
        if isinstance(net[k], Nonlinearity):  # needs a Gaussian input, which features are not
            continue
        phi = net[:k].feature_map(jax.random.key(0), x.shape[1:], get="nngp", sketch="exact")(x)
        found = net[k:].kernel(np.sqrt(phi.shape[-1]) * phi, get="nngp")
        np.testing.assert_allclose(found, whole, rtol=1e-9)


def test_layers_are_counted():
    net = wl.nets.fully_connected(2)
    assert len(net) == 5
    assert net[0] == net[-5] == wl.Dense()
    assert net[np.int64(1)] == net.layers[1]
    assert net[:2] == wl.serial(wl.Dense(), "relu")
    assert wl.serial(*net) == net
    assert wl.serial(net[:2], net[2:])[1] == net[2:]
    assert net[::-1].layers == net.layers[::-1]
    assert wl.from_json(net[1:].to_json()) == net[1:]
    assert jax.tree.leaves(net[2:]) == jax.tree.leaves(net)[1:]
    with pytest.raises(IndexError, match=r"has 5 layers, net\[0\] to net\[4\], and no net\[5\]"):
        net[5]
    with pytest.raises(TypeError, match=r"net\[:7\], not by 'relu'"):
        net["relu"]
    with pytest.raises(TypeError, match="whole numbers"):
        net[1.0:]
    with pytest.raises(IndexError, match="has no layers"):
        wl.serial()[0]
