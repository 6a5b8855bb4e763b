"""The promises, on random inputs made awkward: zero, equal, opposite and nearly equal rows, norms from 1e-8 to 1e8."""

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import widelimit as wl
from catalogue import ACTIVATIONS, COMPUTED, KINKED, case

ROWS, CHANNELS = 6, 5
GROWING = {"exp", "monomial", "polynomial", "hermite", "rectified_monomial"}  # faster than linearly: may truly overflow
quiet = settings(
    max_examples=8, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


@st.composite
def awkward_rows(draw, widest=8):
    """Normal rows, some of which are made zero, or a copy, the opposite, a near-duplicate or a multiple of another."""
    x = np.random.default_rng(draw(st.integers(0, 2**32 - 1))).normal(size=(ROWS, CHANNELS))
    for row in range(1, ROWS):
        other = x[draw(st.integers(0, row - 1))]
        match draw(st.sampled_from(["own", "own", "zero", "equal", "opposite", "near", "multiple"])):
            case "zero":
                x[row] = 0
            case "equal":
                x[row] = other
            case "opposite":
                x[row] = -other
            case "near":
                x[row] = other + 1e-4 * x[row]
            case "multiple":
                x[row] = 10.0 ** draw(st.integers(-2, 2)) * other
    return x * 10.0 ** draw(st.integers(-widest, widest))


def _check(kernel, diagonal, eps):
    assert np.array_equal(kernel, kernel.T)
    # equal, but for a rounding or two: the two readings are compiled apart
    np.testing.assert_allclose(np.diag(kernel), diagonal, rtol=16 * eps)
    eigenvalues = np.linalg.eigvalsh(kernel.astype(np.float64) / max(np.max(kernel), np.finfo(kernel.dtype).tiny))
    assert eigenvalues[0] >= -len(kernel) * eps * eigenvalues[-1]


OLDEST = ("relu", "gelu", "tanh")
# One of each family in float32, whose programs differ from those of float64 in the numbers of nodes and terms alone.
SINGLE = {"relu", "sign", "polynomial", "erf", "gelu", "sin", "exp_normalized", "gabor", "elu", "from_dual", "affine"}


def _cases():
    for name in ACTIVATIONS:
        marks = [pytest.mark.oldest] if name in OLDEST else []
        yield case(name, np.float64, marks=[pytest.mark.slow] if name == "softsign" else marks)
        if name not in COMPUTED or name in ("tanh", "elu", "hard_tanh"):
            yield case(name, np.float32, marks=[] if name in SINGLE else [pytest.mark.slow])


@pytest.mark.precise
@pytest.mark.parametrize(("name", "dtype"), list(_cases()))
def test_promises(name, dtype):
    """Finite, exactly symmetric, the diagonal equal to the variance recursion, no eigenvalue below -n eps lambda_max."""
    act = ACTIVATIONS[name]
    # Computed ones compile for long. A constant turns tiny rows into rows less than 1e-7 apart, whose slopes at a kink no
    # cosine can tell (docs/design.md): one hidden layer for "affine".
    second = () if name in COMPUTED | {"affine"} or dtype == np.float32 else (act, wl.Dense())
    net = wl.serial(wl.Dense(1.3), act, wl.Dense(1.1, 0.3), *second)
    eps = np.finfo(dtype).eps
    eps = max(eps, 1e-12) if name in COMPUTED else eps
    eps = 1e-4 if name == "from_dual" else eps  # the accuracy of its slope at c = 1

    @quiet
    @given(awkward_rows(widest=1 if name in GROWING | {"from_dual"} else 8))
    def run(x):
        x = x.astype(dtype)
        if name in GROWING:  # leave out the rows whose true variance, or what leads to it, overflows
            double = net.kernel(x.astype(np.float64), diagonal=True)
            x = np.where((np.maximum(*double) < np.finfo(dtype).max / 1e6)[:, None], x, 0)
        kernels = net.kernel(x)
        # a third program; of the computed ones, one shows that the diagonal is the variance recursion
        diagonals = [np.diag(k) for k in kernels] if name in COMPUTED - {"tanh"} else net.kernel(x, diagonal=True)
        for kernel, diagonal in zip(kernels, diagonals, strict=True):
            assert kernel.dtype == dtype
            assert np.all(np.isfinite(kernel))
            _check(kernel, diagonal, eps)

    run()


@pytest.mark.precise
@pytest.mark.parametrize("name", ["relu", "gelu", "sin", "elu"])
def test_two_batches_give_what_one_gives(name):
    """K(x1, x2) of awkward rows is the block of K(x), up to what the rounding of a cosine costs a kinked slope."""
    act = ACTIVATIONS[name]
    net = wl.serial(wl.Dense(1.3), act, wl.Dense())

    @quiet
    @given(awkward_rows(widest=0))  # at large norms every bend is a kink
    def run(x):
        for whole, part in zip(net.kernel(x), net.kernel(x[:2], x[2:]), strict=True):
            scale = np.sqrt(np.diag(whole)[:2, None] * np.diag(whole)[2:])
            slack = np.sqrt(40 * np.finfo(float).eps) if name in KINKED else 1e-12
            assert np.all(np.abs(part - whole[:2, 2:]) <= slack * scale)

    run()


@pytest.mark.precise
@pytest.mark.parametrize("name", ["relu", "gelu"])
@pytest.mark.parametrize("pool", [wl.Flatten(), wl.GlobalAvgPool()], ids=["flatten", "pool"])
def test_promises_for_images(name, pool):
    """Black images and black patches, equal and opposite images; float64."""
    act = ACTIVATIONS[name]
    conv = wl.Conv((3, 3), padding="SAME", W_std=1.3)
    net = wl.serial(conv, act, wl.AvgPool((2, 2), (2, 2)), conv, act, pool, wl.Dense())

    @settings(quiet, max_examples=6)
    @given(
        st.integers(0, 2**32 - 1),
        st.lists(st.sampled_from(["black", "half", "equal", "opposite", "own"]), min_size=3, max_size=3),
    )
    def run(seed, kinds):
        x = np.random.default_rng(seed).normal(size=(4, 4, 4, 2))
        for row, kind in enumerate(kinds, 1):
            if kind == "black":
                x[row] = 0
            elif kind == "half":
                x[row, :, :2] = 0
            elif kind != "own":
                x[row] = x[0] if kind == "equal" else -x[0]
        for kernel, diagonal in zip(net.kernel(x), net.kernel(x, diagonal=True), strict=True):
            assert np.all(np.isfinite(kernel))
            _check(kernel, diagonal, np.finfo(float).eps)

    run()


@pytest.mark.parametrize("name", ["relu", "gelu", "sin", "exp_normalized", "tanh", "sign"])
def test_gradients_in_the_inputs(name, x64):
    """Finite for awkward rows, and equal to finite differences for ordinary ones."""
    act = ACTIVATIONS[name]
    second = () if name in COMPUTED else (act, wl.Dense())
    ordinary = np.random.default_rng(0).normal(size=(4, 5))
    awkward = np.stack([ordinary[0], ordinary[0], -ordinary[0], 0 * ordinary[0]])
    direction = np.random.default_rng(1).normal(size=ordinary.shape)
    for bias in (None, 0.1):
        net = wl.serial(wl.Dense(1.2, bias), act, wl.Dense(1.1), *second)
        loss = jax.jit(jax.value_and_grad(lambda x: sum(k.sum() + (k**2).sum() for k in net.kernel(x))))
        gradient = np.asarray(loss(ordinary)[1])
        difference = (loss(ordinary + 1e-5 * direction)[0] - loss(ordinary - 1e-5 * direction)[0]) / 2e-5
        np.testing.assert_allclose(np.sum(gradient * direction), difference, rtol=1e-6)
        assert np.all(np.isfinite(loss(awkward)[1]))


def test_gradients_of_images(x64):
    net = wl.serial(
        wl.Conv((3, 3), padding="SAME"),
        "relu",
        wl.AvgPool((2, 2), (2, 2)),
        wl.Conv((2, 2)),
        "gelu",
        wl.GlobalAvgPool(),
        wl.Dense(),
    )
    loss = jax.jit(jax.value_and_grad(lambda x: sum(k.sum() for k in net.kernel(x))))
    x, direction = np.random.default_rng(0).normal(size=(2, 3, 4, 4, 2))
    difference = (loss(x + 1e-5 * direction)[0] - loss(x - 1e-5 * direction)[0]) / 2e-5
    np.testing.assert_allclose(np.sum(loss(x)[1] * direction), difference, rtol=1e-6)
    x[1] = 0
    assert np.all(np.isfinite(loss(x)[1]))


def test_gradients_in_the_parameters(x64):
    net = wl.serial(wl.Dense(1.2, 0.3), wl.ABRelu(-0.2, 1.3), wl.Dense(0.9), wl.Erf(1.1, 0.8, 0.1), wl.Dense())
    x = jax.numpy.asarray(np.random.default_rng(0).normal(size=(3, 4)))
    leaves, treedef = jax.tree.flatten(net)
    loss = jax.jit(lambda leaves: sum(k.sum() for k in jax.tree.unflatten(treedef, leaves).kernel(x)))
    gradient = jax.jit(jax.grad(loss))(leaves)
    for i in range(len(leaves)):
        up, down = (loss([leaf + sign * 1e-6 * (i == j) for j, leaf in enumerate(leaves)]) for sign in (1, -1))
        np.testing.assert_allclose(gradient[i], (up - down) / 2e-6, rtol=1e-6, atol=1e-7)
