"""What a GPU runs in place of XLA's programs, step by step on a CPU, against its definition."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import widelimit as wl
from catalogue import NETWORKS
from widelimit.kernels import gpu
from widelimit.kernels.exact import kernel
from widelimit.kernels.gpu import last_stage as stage
from widelimit.kernels.gpu import paired_windows as windows
from widelimit.kernels.gpu.last_stage import LastStage, fast_last_stage, last_stage_by_layers
from widelimit.kernels.gpu.paired_windows import PairedConv, fast_window_sum, fits
from widelimit.layers.windows import common_window_sum

AXES = {6: [(1, 4), (2, 5)], 5: [(1, 3), (2, 4)]}


def covariances(*shape):
    return jax.random.normal(jax.random.key(0), shape)


def by_definition(x):
    return common_window_sum(x, AXES[x.ndim], (3, 3), (1, 1), "SAME")


@pytest.mark.parametrize("shape", [(2, 3, 4, 5, 3, 4), (2, 8, 8, 5, 8, 8), (3, 5, 2, 5, 2), (1, 1, 1, 300, 1, 1)])
def test_sums_are_those_of_the_definition(shape):
    x = covariances(*shape)
    np.testing.assert_allclose(fast_window_sum(x, True), by_definition(x), rtol=0, atol=4e-6)


def test_a_gpu_gets_the_program_and_other_devices_the_definition():
    """Compiled for either; run step by step only where a test asks for it."""
    traced = jax.jit(lambda x: fast_window_sum(x)).trace(covariances(2, 4, 4, 2, 4, 4))
    assert "triton" in traced.lower(lowering_platforms=("cuda",)).as_text().lower()
    on_cpu = traced.lower(lowering_platforms=("cpu",)).as_text().lower()
    assert "triton" not in on_cpu
    assert "while" not in on_cpu


def test_derivatives_of_both_kinds():
    x, tangent = covariances(2, 3, 3, 2, 3, 3), covariances(2, 3, 3, 2, 3, 3) + 1
    change = jax.jvp(lambda x: fast_window_sum(x, True), (x,), (tangent,))[1]
    np.testing.assert_allclose(change, by_definition(tangent), rtol=0, atol=4e-6)
    gradient = jax.grad(lambda x: jnp.vdot(fast_window_sum(x, True), tangent))(x)  # sums are symmetric in p and q
    np.testing.assert_allclose(gradient, by_definition(tangent), rtol=0, atol=4e-6)


@pytest.mark.parametrize("act", [wl.ExpNormalized(0.7), wl.Relu(), wl.ABRelu(-0.1, 1.4), wl.LeakyRelu(0.2), wl.Abs()])
def test_the_last_stage_is_that_of_the_definition(act):
    x, shape = covariances(2, 3, 4, 5, 3, 4), (3, 4)
    arrays = jax.tree.map(jnp.asarray, act), jnp.array([0.2, 0.1]), x
    variances = jax.random.uniform(jax.random.key(1), (2, 1, *shape)).at[0].set(0), jnp.ones((1, 5, *shape))
    found = fast_last_stage(8.0, True, *arrays, *variances)
    np.testing.assert_allclose(found, last_stage_by_layers(8.0, *arrays, *variances), rtol=1e-5, atol=1e-7)


def test_derivatives_of_the_last_stage():
    act, affine, x = wl.ExpNormalized(jnp.asarray(0.7)), jnp.array([0.02, 0.1]), covariances(2, 3, 3, 2, 3, 3)
    arrays = act, affine, x, jnp.ones((2, 1, 3, 3)), 2 * jnp.ones((1, 2, 3, 3))
    found = jax.grad(lambda arrays: fast_last_stage(8.0, True, *arrays).sum())(arrays)
    expected = jax.grad(lambda arrays: last_stage_by_layers(8.0, *arrays).sum())(arrays)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-6), found, expected)


@pytest.fixture
def on_gpu(monkeypatch):
    """As if there were a GPU, whose programs run step by step; the shapes of what each was given, which a test may look at."""
    shapes = {"sum": [], "stage": []}

    def slow_sum(x):
        shapes["sum"].append(x.shape)
        return fast_window_sum(x, True)

    def slow_stage(ulps, interpret, *arrays):
        shapes["stage"].append(arrays[2].shape)
        return fast_last_stage(ulps, True, *arrays)

    monkeypatch.setattr(windows, "fast_window_sum", slow_sum)
    monkeypatch.setattr(stage, "fast_last_stage", slow_stage)
    monkeypatch.setattr(gpu, "runs_on_gpu", lambda: True)
    return shapes


SAME = {"filter_shape": (3, 3), "padding": "SAME"}
LAST = wl.Conv(**SAME, b_std=0.2), wl.Relu(), wl.GlobalAvgPool()


@pytest.mark.parametrize("ntk", [False, True])
def test_a_network_takes_them_on_a_gpu(request, ntk):
    net = wl.serial(wl.Conv(**SAME, b_std=0.1), wl.Relu(), *LAST, wl.Dense(2.0), wl.Relu(), wl.Dense())
    x = np.random.default_rng(0).normal(size=(3, 4, 5, 2)).astype(np.float32)
    expected = net.kernel(x, x[:2] + 1)
    shapes = request.getfixturevalue("on_gpu")
    found = jax.jit(lambda net, x, y: kernel(net, x, y, ntk=ntk))(net, x, x[:2] + 1)
    assert {len(shape) for shape in shapes["sum"]} == {5, 6}
    assert set(shapes["stage"]) == (set() if ntk else {(3, 4, 5, 2, 4, 5)})
    np.testing.assert_allclose(found.nngp, expected.nngp, rtol=1e-5)
    if ntk:
        np.testing.assert_allclose(found.ntk, expected.ntk, rtol=1e-5)


def test_known_runs_are_rewritten_wherever_they_are():
    """In nested rows and branches, a stage before its convolution; its layers apart, or others between them, are no stage."""
    conv, act, pool = LAST
    net = wl.serial(conv, act, wl.residual("relu", conv), wl.serial(*LAST), wl.Dense())
    first, _, residual, end, _ = gpu.rewrite(net).layers
    assert type(first) is PairedConv
    assert [type(layer) for layer in residual.layers[1].layers[0].layers] == [wl.layers.Nonlinearity, PairedConv]
    assert [type(layer) for layer in end.layers] == [LastStage]
    assert gpu.rewrite(wl.parallel(conv, wl.Identity())).layers == (PairedConv(conv), wl.Identity())
    apart = gpu.rewrite(wl.serial(wl.serial(conv, act), pool))
    assert [type(layer) for layer in apart.layers[0].layers] == [PairedConv, wl.layers.Nonlinearity]
    assert type(gpu.rewrite(wl.serial(conv, wl.Gelu(), pool)).layers[0]) is PairedConv
    again = gpu.rewrite(net)
    assert gpu.rewrite(again) is again
    assert not any(isinstance(layer, PairedConv | LastStage) for layer in net.layers)


@pytest.mark.parametrize("name", ["dense", "conv valid", "conv strides", "conv circular", "conv 1d", "three branches"])
def test_a_network_without_known_runs_is_itself(name):
    net, _ = NETWORKS[name]
    if name == "conv strides":
        net = net[:2]
    assert gpu.rewrite(net) is net


@pytest.mark.parametrize(
    "name", ["conv same", "residual", "dropout on pixels", "concat pixels", "layer norm over pixels"]
)
def test_rewritten_networks_have_the_same_kernels(request, name):
    net, shape = NETWORKS[name]
    x = np.random.default_rng(0).normal(size=(3, *shape)).astype(np.float32)
    expected = net.kernel(x)
    assert gpu.rewrite(net) is not net
    request.getfixturevalue("on_gpu")
    found = jax.jit(kernel)(net, x)
    for i in range(2):
        np.testing.assert_allclose(found[i], expected[i], rtol=1e-5, atol=1e-5 * expected[i].max())


def small_net(act, W_std=1.5):
    conv = wl.Conv((3, 3), W_std=W_std, padding="SAME")
    return wl.serial(wl.Conv((3, 3), padding="SAME"), wl.Relu(), conv, act, wl.GlobalAvgPool())


def test_second_derivatives_and_vmap(on_gpu):
    x = jnp.asarray(np.random.default_rng(0).normal(size=(3, 3, 3, 2)), jnp.float32)

    def value(std, x):
        return kernel(small_net(wl.Relu(), std), x[:2], x[2:], ntk=False).nngp.sum()

    plain = kernel(small_net(wl.Relu(), 1.0), x[:2], x[2:], ntk=False).nngp.sum()  # the kernel grows with the square
    np.testing.assert_allclose(jax.grad(jax.grad(value))(1.5, x), 2 * plain, rtol=1e-4)
    several = jax.vmap(value, (None, 0))(1.0, jnp.stack([x, 2 * x]))
    np.testing.assert_allclose(several, [plain, 4 * plain], rtol=1e-5)


def test_parameters_of_double_precision_are_left_to_xla(on_gpu, monkeypatch):
    x = np.random.default_rng(0).normal(size=(2, 3, 3, 2)).astype(np.float32)
    with jax.enable_x64(True):
        net = small_net(wl.Relu(), jnp.asarray(1.5, jnp.float64))
        monkeypatch.setattr(stage, "fast_last_stage", None)  # is not called
        found = kernel(net, jnp.asarray(x), ntk=False).nngp
        assert found.dtype == jnp.float64
        monkeypatch.setattr(gpu, "runs_on_gpu", lambda: False)
        np.testing.assert_allclose(found, kernel(net, jnp.asarray(x), ntk=False).nngp, rtol=1e-6)


@pytest.mark.parametrize(
    ("shape", "sizes", "strides", "padding"),
    [
        ((2, 4, 4, 2, 4, 4), (5, 3), (1, 1), "SAME"),
        ((2, 4, 4, 2, 4, 4), (3, 3), (2, 1), "SAME"),
        ((2, 4, 4, 2, 4, 4), (3, 3), (1, 1), "CIRCULAR"),
        ((1, 4, 64, 1, 4, 64), (3, 3), (1, 1), "SAME"),
        ((0, 4, 4, 2, 4, 4), (3, 3), (1, 1), "SAME"),
    ],
)
def test_others_are_left_to_xla(shape, sizes, strides, padding):
    taken = PairedConv.replace([wl.Conv(sizes, strides, padding)]) is not None
    assert not (taken and fits(jnp.zeros(shape), shape[1:3]))
    assert fits(covariances(2, 4, 4, 2, 4, 4), (4, 4))
    assert PairedConv.replace([wl.Conv((3, 3), (1, 1), "SAME")]) is not None
    with jax.enable_x64(True):
        assert not fits(jnp.zeros((2, 4, 4, 2, 4, 4)), (4, 4))
