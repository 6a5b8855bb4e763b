"""The window sums of a GPU, run step by step on a CPU, against their definition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import widelimit as wl
from widelimit.layers import weights
from widelimit.layers.paired_windows import common_window_sum, fast_window_sum, fits

AXES = {6: [(1, 4), (2, 5)], 5: [(1, 3), (2, 4)]}


def covariances(*shape):
    return jax.random.normal(jax.random.key(0), shape)


def by_definition(x):
    return common_window_sum(x, AXES[x.ndim], (3, 3), (1, 1), "SAME")


@pytest.mark.parametrize("shape", [(2, 3, 4, 5, 3, 4), (2, 8, 8, 5, 8, 8), (3, 5, 2, 5, 2), (1, 1, 1, 300, 1, 1)])
def test_sums_are_those_of_the_definition(shape):
    x = covariances(*shape)
    np.testing.assert_allclose(fast_window_sum(x, True), by_definition(x), rtol=0, atol=4e-6)


def test_derivatives_of_both_kinds():
    x, tangent = covariances(2, 3, 3, 2, 3, 3), covariances(2, 3, 3, 2, 3, 3) + 1
    change = jax.jvp(lambda x: fast_window_sum(x, True), (x,), (tangent,))[1]
    np.testing.assert_allclose(change, by_definition(tangent), rtol=0, atol=4e-6)
    gradient = jax.grad(lambda x: jnp.vdot(fast_window_sum(x, True), tangent))(x)  # sums are symmetric in p and q
    np.testing.assert_allclose(gradient, by_definition(tangent), rtol=0, atol=4e-6)


def test_a_network_takes_them_on_a_gpu(monkeypatch):
    same = {"filter_shape": (3, 3), "padding": "SAME"}
    layers = wl.Conv(**same, b_std=0.1), wl.Relu(), wl.Conv(**same), wl.Relu(), wl.GlobalAvgPool(), wl.Dense()
    net = wl.serial(*layers)
    x = np.random.default_rng(0).normal(size=(3, 4, 5, 2)).astype(np.float32)
    expected, calls = net.kernel(x, x[:2] + 1), []

    def counted(x):
        calls.append(x.shape)
        return fast_window_sum(x, True)

    monkeypatch.setattr(weights, "fast_window_sum", counted)
    monkeypatch.setattr(weights, "runs_on_gpu", lambda: True)
    jax.clear_caches()
    found = jax.jit(lambda net, x, y: wl.exact.kernel(net, x, y))(net, x, x[:2] + 1)
    assert {len(shape) for shape in calls} == {5, 6}
    np.testing.assert_allclose(found.nngp, expected.nngp, rtol=1e-5)
    np.testing.assert_allclose(found.ntk, expected.ntk, rtol=1e-5)


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
    assert fits(covariances(2, 4, 4, 2, 4, 4), (4, 4), (3, 3), (1, 1), "SAME")
    assert not fits(jnp.zeros(shape), shape[1:3], sizes, strides, padding)
    with jax.enable_x64(True):
        assert not fits(jnp.zeros((2, 4, 4, 2, 4, 4)), (4, 4), (3, 3), (1, 1), "SAME")
