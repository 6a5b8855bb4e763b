"""Sketches are unbiased, exact features are exact, and feature maps keep their promises."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import linalg

import widelimit as wl
from catalogue import NETWORKS, RANDOM, each
from widelimit import sketch
from widelimit.execution import policy
from widelimit.features import part as sketched
from widelimit.features import plan as drawing
from widelimit.features.cosine import of_cosine
from widelimit.layers import Nonlinearity
from widelimit.sketches.series import coefficients, slope_coefficients, tabulate

KEYS = jax.random.split(jax.random.key(7), 64)
ROWS = np.random.default_rng(0).normal(size=(6, 20)).astype(np.float32)
UNIT = ROWS / np.linalg.norm(ROWS, axis=1, keepdims=True)
LONG = np.random.default_rng(1).normal(size=(4, 90)).astype(np.float32) / 9


@pytest.mark.parametrize("order", [1, 2, 8, 64, 128, 1024, 8192])
def test_the_fast_transform_is_the_plain_one(order):
    x = np.random.default_rng(0).normal(size=(3, order)).astype(np.float32)
    fast, plain = sketch.hadamard(jnp.asarray(x)), sketch.hadamard_plain(jnp.asarray(x))
    np.testing.assert_allclose(fast, plain, rtol=0, atol=1e-5 * order)


def within_five_errors(gram, expected):
    """The mean over keys is within 5 of its standard errors of what is expected, or of rounding."""
    gram = np.asarray(gram, np.float64)
    error = gram.std(axis=0, ddof=1) / np.sqrt(len(gram)) + 1e-6 * np.abs(expected).max()
    worst = np.max(np.abs(gram.mean(0) - expected) / error)
    assert worst < 5, worst


LINEAR = {
    "dense projection": (lambda key, x: sketch.projection(key, 20, 50)(x) / 50**0.5, UNIT, 1),
    "dense projection, Gaussian": (lambda key, x: sketch.projection(key, 20, 50, gaussian=True)(x) / 50**0.5, UNIT, 1),
    "SRHT": (lambda key, x: sketch.projection(key, 90, 40)(x) / 40**0.5, LONG, 1),
    "two rounds, several blocks": (lambda key, x: sketch.projection(key, 90, 300, rounds=2)(x) / 300**0.5, LONG, 1),
    "a matrix": (lambda key, x: sketch.projection(key, 90, 40, dense=True)(x) / 40**0.5, LONG, 1),
    "fold": (lambda key, x: sketch.fold(sketch.draw_signs(key, 90), x, 32), LONG, 1),
    "few columns of more": (lambda key, x: x @ sketched._draw_signs(key, 20, 8), UNIT, 1),
    "TensorSRHT": (lambda key, x: sketch.product(key, 90, 90, 64)(x, x), LONG, 2),
    "product of short vectors": (lambda key, x: sketch.product(key, 20, 20, 64)(x, x), UNIT, 2),
}


@pytest.mark.parametrize("case", LINEAR)
def test_projections_and_products_are_unbiased(case):
    draw, x, power = LINEAR[case]
    grams = jax.jit(jax.vmap(lambda key: (lambda f: f @ f.T)(draw(key, jnp.asarray(x)))))(KEYS)
    within_five_errors(grams, (x @ x.T) ** power)


@pytest.mark.parametrize("kind", ["real", "complex", "tree"])
@pytest.mark.parametrize("x", [UNIT, LONG], ids=["short", "long"])
def test_powers_are_unbiased(kind, x):
    weights, degree = np.array([0.3, 0.3, 0.2, 0.1, 0.1]), 4

    def powers(key):
        drawn = (
            sketch.tree(key, x.shape[1], 96, degree)
            if kind == "tree"
            else sketch.maclaurin(key, x.shape[1], weights, 200, kind == "complex", exact=1)
        )
        return [columns @ columns.T for columns in drawn(jnp.asarray(x))]

    for power, grams in enumerate(jax.jit(jax.vmap(powers))(KEYS)):
        within_five_errors(grams, (x @ x.T) ** power)


def one_layer(kind, act, get, columns=64, keys=KEYS):
    """The Gram matrices of as many draws as keys of a network with one hidden layer, on rows of norms from 0.5 to 2."""
    net = wl.serial(wl.Dense(1.3, 0.4), act, wl.Dense())
    x = jnp.asarray(ROWS * np.linspace(0.5, 2, 6, dtype=np.float32)[:, None])
    widths = sketch.Widths(columns, True)

    def gram(key):
        drawn = drawing.draw(net, key, (20,), get, kind, widths)
        columns = drawing.apply(net, drawn, x, get, kind, widths)
        return columns @ columns.T

    return net, np.asarray(x), np.asarray(jax.jit(jax.vmap(gram))(keys))


@pytest.mark.parametrize(
    ("act", "orders", "get"),
    [
        ("relu", None, "ntk"), ("exp_normalized", None, "ntk"), ("sign", 1, "ntk"),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in (
            ("relu", None, "nngp"), ("gelu", None, "ntk"), ("exp_normalized", None, "nngp"), ("tanh", 3, "ntk"),
            ("sin", 0, "ntk"),
        )),
    ],
)  # fmt: skip
def test_random_weights_are_unbiased(act, orders, get):
    net, x, grams = one_layer(sketch.RandomWeights(orders), act, get)
    within_five_errors(grams, net.kernel(x.astype(np.float64), get=get))


def truncated(net, x, degree):
    """The kernels of one hidden layer with the series cut off and made up for."""
    act = net.layers[1].activation
    K = wl.serial(net.layers[0]).kernel(x.astype(np.float64))
    std = np.sqrt(np.diag(K.nngp))
    c = K.nngp / np.outer(std, std)
    with jax.enable_x64(True):
        table, a = tabulate(act, degree), jnp.asarray(std)
        r, slope = (np.asarray(f(act, table, a, degree)) for f in (coefficients, slope_coefficients))
    nngp, dot = (sum(np.outer(s[:, l], s[:, l]) * c**l for l in range(degree + 1)) for s in (r, slope))
    return nngp, nngp + K.ntk * dot


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(sketch.Powers(4), marks=pytest.mark.slow),
        pytest.param(sketch.Powers(3, complex_signs=False), marks=pytest.mark.slow),
        pytest.param(sketch.PolySketch(5), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_series_kinds_are_unbiased_for_the_truncated_kernel(kind):
    """Of the NTK, in which the NNGP is."""
    net, x, grams = one_layer(kind, "gelu", "ntk", 128)
    expected = truncated(net, x, kind.degree)[1]
    within_five_errors(grams, expected)
    if isinstance(kind, sketch.PolySketch):  # the others take more degrees exactly where there are more columns
        many = one_layer(kind, "gelu", "ntk", 1024, KEYS[:16])[2]
        assert -0.6 < rate(grams - expected, many - expected, 8) < -0.4


@pytest.mark.parametrize("act", ["relu", "gelu"])
def test_random_weights_without_their_quadratic_part_are_unbiased(act):
    net = wl.serial(wl.Dense(1.3), act, wl.Dense())
    rows = ROWS[:, :4] / np.linalg.norm(ROWS[:, :4], axis=1, keepdims=True)
    x = jnp.asarray(2 * rows * np.linspace(0.5, 2, 6, dtype=np.float32)[:, None])

    def gram(key):
        columns = net.feature_map(key, (4,), 512, get="nngp", sketch=sketch.RandomWeights(3))(x)
        return columns @ columns.T

    within_five_errors(jax.jit(jax.vmap(gram))(KEYS), net.kernel(np.asarray(x, np.float64), get="nngp"))


@pytest.mark.parametrize("degree", [2, 3])
def test_powers_keep_the_signs_of_coefficients(degree):
    """Few inputs leave nothing to chance: sums of r_l(a) r_l(b) c^l, where SELU's r_2 changes its sign with the radius."""
    act = wl.Selu()
    angles, std = np.array([0.1, 1.0, 2.5, 4.0, 5.5, 0.1]), np.array([0.3, 0.3, 0.6, 1.5, 2.0, 3.0])
    x = np.sqrt(2) * std[:, None] * np.stack([np.cos(angles), np.sin(angles)], 1)
    phi = wl.serial(wl.Dense(), act, wl.Dense()).feature_map(
        jax.random.key(0), (2,), 16, get="nngp", sketch=sketch.Powers(degree)
    )(x)
    with jax.enable_x64(True):
        r = np.array(act.radial(jnp.asarray(std), degree))
    same, opposite = (np.asarray(wl.dual(act, std, std, np.full(6, c))) for c in (1.0, -1.0))
    for last, total in ((degree, same + (-1) ** degree * opposite), (degree - 1, same - (-1) ** degree * opposite)):
        others = np.sum(r[:, last % 2 : last : 2] ** 2, 1)
        r[:, last] = np.copysign(np.sqrt(total / 2 - others), r[:, last])  # what further degrees would hold
    c = np.cos(angles[:, None] - angles)
    expected = sum(np.outer(r[:, l], r[:, l]) * c**l for l in range(degree + 1))
    np.testing.assert_allclose(phi @ phi.T, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_powers_use_the_columns_that_were_asked_for():
    """All but a pair for each degree: those of monomials are not counted twice."""
    rows = wl.serial(wl.Dense(1.3, 0.2), "gelu", wl.Dense(), "gelu", wl.Dense())
    images = wl.serial(wl.Conv((1, 1), W_std=1.3, b_std=0.2), "gelu", wl.GlobalAvgPool(), wl.Dense())
    for net, shape in ((rows, (5,)), (images, (2, 2, 3))):
        x = np.random.default_rng(0).normal(size=(8, *shape))
        columns = net.feature_map(jax.random.key(0), shape, 128, get="nngp", sketch=sketch.Powers(4))(x)
        assert np.count_nonzero(np.any(columns != 0, 0)) >= 128 - 2 * 4


def rate(few, many, times):
    """The slope of the error in the number of columns, of which the second has so many times more."""
    i, j = np.triu_indices(few.shape[-1], 1)
    return 0.5 * np.log(np.mean(many[:, i, j] ** 2) / np.mean(few[:, i, j] ** 2)) / np.log(times)


@pytest.mark.parametrize("case", ["SRHT", "fold", "TensorSRHT", "real", "complex", "tree"])
def test_errors_of_sketches_fall_with_the_root_of_the_columns(case):
    weights = np.array([0.3, 0.3, 0.2, 0.1, 0.1])
    long = jnp.asarray(np.random.default_rng(1).normal(size=(8, 4096)).astype(np.float32) / 64)

    def drawn(key, columns):
        if case == "SRHT":
            return sketch.projection(key, 4096, columns)(long) / columns**0.5
        if case == "fold":
            return sketch.fold(sketch.draw_signs(key, 4096), long, columns)
        if case == "TensorSRHT":
            return sketch.product(key, 4096, 4096, columns)(long, long)
        powers = (
            sketch.tree(key, 4096, columns, 4)
            if case == "tree"
            else sketch.maclaurin(key, 4096, weights, columns, case == "complex", exact=1)
        )
        return jnp.concatenate([w**0.5 * p for w, p in zip(weights, powers(long), strict=True)], -1)

    def error(columns):
        def one(key):
            f = drawn(key, columns)
            c = long @ long.T
            exact = c**2 if case == "TensorSRHT" else c
            if case in ("real", "complex", "tree"):
                exact = sum(w * c**l for l, w in enumerate(weights))
            return f @ f.T - exact

        return np.asarray(jax.jit(jax.vmap(one))(KEYS))

    few = 256 if case == "tree" else 64  # errors of a tree's levels multiply, and only small ones add up
    assert -0.6 < rate(error(few), error(8 * few), 8) < -0.4


@pytest.mark.slow
@pytest.mark.parametrize("act", ["relu", "exp_normalized"])
def test_the_rate_of_random_weights(act):
    kind = sketch.RandomWeights(2)
    errors = []
    for columns, keys in ((64, KEYS), (1024, KEYS[:16])):
        net, x, grams = one_layer(kind, act, "ntk", columns, keys)
        errors.append(grams - net.kernel(x.astype(np.float64), get="ntk"))
    assert -0.6 < rate(*errors, 16) < -0.4


HOMOGENEOUS = wl.nets.fully_connected(2, "relu", 1.4)


def test_a_homogeneous_network_is_one_polynomial(tmp_path):
    """The paper's Algorithm 1: the polynomial is near the kernel, the features are unbiased for it, and auto takes it."""
    x = np.random.default_rng(3).normal(size=(9, 12)) * np.linspace(0.3, 3, 9)[:, None]
    length = np.linalg.norm(x, axis=1) / 12**0.5
    c = np.clip(x @ x.T / 12 / np.outer(length, length), -1, 1)
    for get in ("nngp", "ntk"):
        exact, errors = HOMOGENEOUS.kernel(x, get=get) / np.outer(length, length), []
        for degree in (4, 12):
            found = of_cosine(jax.tree.map(float, HOMOGENEOUS), 12, get, degree)
            assert found.power == 1
            assert min(found.coefficients) >= 0
            errors.append(np.abs(np.polynomial.polynomial.polyval(c, found.coefficients) - exact).max() / exact.max())
        assert errors[1] < errors[0] < 0.05
    chosen = HOMOGENEOUS.feature_map(jax.random.key(0), (12,), 500, get=("nngp", "ntk")).parts
    assert [isinstance(part.sketch, sketch.Cosine) for part in chosen] == [True, False]
    phi = HOMOGENEOUS.feature_map(jax.random.key(0), (12,), 500, sketch="cosine")
    polynomial, kind, widths = phi.parts[0].whole, phi.parts[0].sketch, phi.parts[0].widths
    layer = Nonlinearity(polynomial)

    def gram(key):
        drawn = drawing.draw(layer, key, (12,), "nngp", kind, widths)
        columns = drawing.apply(layer, drawn, jnp.asarray(x, jnp.float32), "nngp", kind, widths)
        return columns @ columns.T

    expected = np.polynomial.polynomial.polyval(c, polynomial.coefficients) * np.outer(length, length)
    within_five_errors(jax.jit(jax.vmap(gram))(KEYS), expected)
    phi.save(tmp_path / "phi.npz")
    np.testing.assert_array_equal(wl.load_features(tmp_path / "phi.npz")(X), phi(X))
    assert np.all(np.isfinite(phi(0 * X)))
    assert HOMOGENEOUS.feature_map(jax.random.key(0), (12,), 20, get="nngp")(X).shape == (40, 20)
    jax.device_put(phi).save(tmp_path / "again.npz")
    assert of_cosine(wl.serial(*[wl.Dense(), wl.Monomial(8)] * 4, wl.Dense()), 12, "ntk", 12) is None  # overflows
    with pytest.raises(ValueError, match="without biases"):
        NET.feature_map(jax.random.key(0), (12,), sketch="cosine")


@pytest.mark.slow
def test_the_papers_algorithm_2():
    """Features of a convolutional network against its kernel pixel by pixel, as in the paper with its errata mended.

    N are the variances, G and G' the covariances after an activation and its slope; patches are summed over both images.
    """
    rng = np.random.default_rng(4)
    images, depth, q = rng.normal(size=(2, 5, 4, 3)), 2, 3

    def patch_sum(K):
        """Of covariances (i, j, i', j'), over equal shifts of both."""
        padded = np.pad(K, 1)
        h, w = K.shape[:2]
        return sum(
            padded[a : a + h, b : b + w, a : a + h, b : b + w] for a in range(q) for b in range(q)
        )  # fmt: skip

    def arc(c):
        theta = np.arccos(np.clip(c, -1, 1))
        return (np.sin(theta) + (np.pi - theta) * np.cos(theta)) / np.pi, (np.pi - theta) / np.pi

    def cntk(y, z):
        def variances(image):
            K = np.einsum("ijc,IJc->ijIJ", image, image) / 3
            return np.einsum("ijij->ij", K)

        G, Ny, Nz = np.einsum("ijc,IJc->ijIJ", y, z) / 3, variances(y), variances(z)
        P = np.zeros_like(G)
        for _ in range(depth):
            Ny, Nz = (
                np.einsum("ijij->ij", patch_sum(np.einsum("ij,iI,jJ->ijIJ", N, np.eye(5), np.eye(4)))) / q**2
                for N in (Ny, Nz)
            )
            scale = np.sqrt(Ny[:, :, None, None] * Nz)
            K = patch_sum(G) / q**2
            P = patch_sum(P) / q**2 + K  # the layer's own weights are trained, as all others
            kappa, slope = arc(K / scale)
            G, P = scale * kappa, P * slope
        return (P + G).mean()

    conv = wl.Conv((3, 3), padding="SAME")
    net = wl.serial(*[conv, wl.ABRelu(0.0, 2**0.5)] * depth, wl.GlobalAvgPool(), wl.Dense())
    expected = np.array([[cntk(y, z) for z in images] for y in images])
    with jax.enable_x64(True):
        exact = np.asarray(net.feature_map(jax.random.key(0), (5, 4, 3), sketch="exact")(images))
    np.testing.assert_allclose(exact @ exact.T, expected, rtol=1e-10)
    phi = net.feature_map(jax.random.key(0), (5, 4, 3), 600, sketch=sketch.PolySketch(4))(images)
    assert np.abs(phi @ phi.T / expected - 1).max() < 0.3


@pytest.mark.slow
@pytest.mark.parametrize(("depth", "columns"), [(1, 512), (2, 1024), (3, 2048)])
def test_the_spectral_guarantee_of_polysketch(depth, columns):
    """(1 - e) (K + l) <= F F^T + l <= (1 + e) (K + l), e = 1/2, l = 1 % of the trace, on 500 points."""
    x = np.random.default_rng(5).normal(size=(500, 16))
    net = wl.nets.fully_connected(depth, "relu", 2**0.5)
    phi = net.feature_map(jax.random.key(0), (16,), columns, get="nngp", sketch=sketch.PolySketch(4))
    K, f = net.kernel(x, get="nngp"), phi(x)
    shift = 0.01 * np.trace(K) * np.eye(500)
    values = linalg.eigh(f @ f.T + shift, K + shift, eigvals_only=True)
    assert values.min() > 0.5
    assert values.max() < 1.5


@pytest.mark.parametrize("act", ["relu", "gelu", "erf", "exp_normalized", "elu"])
def test_truncation(act):
    """What is missing is made up for: exact at c = 1 and c = -1, better everywhere, and less with every degree."""
    act = wl.activations.named(act)
    c = np.linspace(-1, 1, 41)
    with jax.enable_x64(True):
        one = jnp.ones(())
        exact, errors = np.asarray(wl.dual(act, 1.0, 1.0, c)), []
        for degree in (4, 8, 16):
            r = np.asarray(coefficients(act, None, one, degree))
            plain = np.asarray(act.r(one, degree))
            series, cut = (np.polynomial.polynomial.polyval(c, s**2) for s in (r, plain))
            np.testing.assert_allclose(series[[0, -1]], exact[[0, -1]], rtol=0, atol=1e-12)
            assert np.abs(series - exact).max() <= np.abs(cut - exact).max() + 1e-12
            errors.append(np.abs(series - exact).max())
    assert errors[0] > 2 * errors[1] > 2 * errors[2] or errors[1] < 1e-6


@each(NETWORKS)
def test_exact_features_have_the_exact_kernel(name):
    net, shape = NETWORKS[name]
    n = 4  # as in test_layers, which compiles the exact kernel too
    x = np.random.default_rng(0).normal(size=(n, *shape))
    kind, widths = sketch.Exact(), sketch.Widths(1, True)
    with jax.enable_x64(True):
        drawn = drawing.outline(net, shape, "ntk", kind, widths)

        @jax.jit
        def both(x):
            end = net.features(drawn, drawing.start(x, True, kind, widths)).plain()
            return end.phi.all(), end.psi.all()

        found = [np.asarray(columns @ columns.T) for columns in both(jnp.asarray(x))]
    pairs = ~np.eye(n, dtype=bool) if name in RANDOM else np.ones((n, n), bool)
    for gram, exact in zip(found, net.kernel(x), strict=True):
        np.testing.assert_allclose(gram[pairs], exact[pairs], rtol=0, atol=1e-10 * np.abs(exact).max())


NET = wl.serial(wl.Dense(1.2, 0.1), "gelu", wl.Dense())
DEEP = wl.serial(wl.Dense(1.2, 0.1), "gelu", wl.Dense(1.2, 0.1), "gelu", wl.Dense())
X = np.random.default_rng(2).normal(size=(40, 12)).astype(np.float32)


@pytest.mark.slow
def test_the_error_falls_with_the_root_of_the_features():
    sizes, errors = [200, 2000], []
    for features in sizes:
        maps = [DEEP.feature_map(jax.random.key(seed), (12,), features) for seed in range(4)]
        errors.append(np.sqrt(np.mean([phi.error(X, sample=40).rms ** 2 for phi in maps])))
    slope = np.log(errors[1] / errors[0]) / np.log(sizes[1] / sizes[0])
    assert -0.6 < slope < -0.4


@pytest.fixture(scope="module")
def phi():
    return NET.feature_map(jax.random.key(0), (12,), features=300)


def test_maps_give_what_was_asked_for(phi):
    found = phi(X)
    assert found.shape == (40, 300)
    assert found.dtype == np.float32
    np.testing.assert_allclose(phi(X, batch=7), found, rtol=0, atol=1e-5)
    np.testing.assert_allclose(np.concatenate(list(phi.blocks(X, batch=9))), found, rtol=0, atol=1e-5)
    double = phi(X.astype(np.float64))
    assert double.dtype == np.float64
    np.testing.assert_allclose(double, found, rtol=0, atol=1e-5)
    assert phi(X[:0]).shape == (0, 300)
    assert np.all(np.isfinite(phi(0 * X)))
    assert phi((10 * X).astype(np.int32)).dtype == np.float32
    error = phi.error(X)
    gram, exact = found @ found.T, NET.kernel(X, get="ntk")
    i, j = np.triu_indices(40, 1)
    size = np.sqrt(np.diag(exact))
    np.testing.assert_allclose(error.rms, np.sqrt(np.mean(((gram - exact)[i, j] / size[i] / size[j]) ** 2)), rtol=1e-3)


def test_a_batch_fits_its_share_of_memory(phi):
    """Of 64 MB, and no less than half of them, with as many rows as a power of two up to 4096."""
    wide = NET.feature_map(jax.random.key(0), (12,), 5000)
    for dtype, size in (("float32", 2048), ("float64", 1024)):
        assert wide.batch_size(dtype) == size
        assert size * 5000 * np.dtype(dtype).itemsize <= 2**26 < 2 * size * 5000 * np.dtype(dtype).itemsize
    assert phi.batch_size() == 4096


def test_sizes_of_batches_change_nothing(phi):
    """As many rows as fit the bytes of a batch go through at a time; those of 300 columns have 1200 bytes."""
    both = NET.feature_map(jax.random.key(0), (12,), features=300, get=("nngp", "ntk"))
    expected = both(X)
    for size, rows in ((2**20, 512), (10_000, 8), (1, 1)):
        with policy.use(batch_bytes=size):
            assert phi.batch_size() == rows
            assert phi.batch_size("float64") == max(rows // 2, 1)
            for x in (X, jnp.asarray(X)):
                blocks = list(both.blocks(x))
                assert [len(block.ntk) for block in blocks[:-1]] == [min(rows, 64)] * (len(blocks) - 1)
                for get, whole in zip(("nngp", "ntk"), expected, strict=True):
                    np.testing.assert_allclose(getattr(both(x), get), whole, rtol=0, atol=1e-5)
                    joined = np.concatenate([getattr(block, get) for block in blocks])
                    np.testing.assert_allclose(joined, whole, rtol=0, atol=1e-5)


def test_maps_are_pytrees_under_jit_vmap_and_grad(phi):
    x = jnp.asarray(X[:5])
    found = jax.jit(lambda phi, x: phi(x))(phi, x)
    np.testing.assert_allclose(found, phi(x), rtol=0, atol=1e-5)
    rows = jax.vmap(lambda row: phi(row[None])[0])(x)
    np.testing.assert_allclose(rows, found, rtol=0, atol=1e-5)

    def first(x):
        return jnp.sum(phi(x)[:, :40] ** 2)

    step = jnp.zeros_like(x).at[0, 0].set(1e-2)
    slope = (first(x + step) - first(x - step)) / 2e-2
    np.testing.assert_allclose(jax.grad(first)(x)[0, 0], slope, rtol=1e-2)


@pytest.mark.slow
def test_maps_are_drawn_inside_a_program():
    """Of one layer each: a homogeneous and another network."""
    for net in (wl.serial(wl.Dense(), "relu", wl.Dense()), wl.serial(wl.Dense(1.2, 0.1), "erf", wl.Dense())):
        inside = jax.jit(lambda key, net=net: net.feature_map(key, (12,), 100, get="nngp")(jnp.asarray(X)))
        outside = net.feature_map(jax.random.key(3), (12,), 100, get="nngp")(jnp.asarray(X))
        np.testing.assert_allclose(inside(jax.random.key(3)), outside, rtol=0, atol=1e-4)


def test_maps_are_saved_with_what_was_drawn(phi, tmp_path):
    phi.save(tmp_path / "phi.npz")
    loaded = wl.load_features(tmp_path / "phi.npz")
    np.testing.assert_array_equal(loaded(X), phi(X))
    assert [path.name for path in tmp_path.iterdir()] == ["phi.npz"]
    data = bytearray((tmp_path / "phi.npz").read_bytes())
    (tmp_path / "cut.npz").write_bytes(data[: len(data) // 2])
    np.savez(tmp_path / "foreign.npz", a=np.ones(3))
    for name in ("cut.npz", "foreign.npz"):
        with pytest.raises(ValueError, match="is no feature map that can be read"):
            wl.load_features(tmp_path / name)


def test_both_kernels_in_another_precision():
    net = wl.serial(wl.Dense(1.2, 0.1), "relu", wl.Dense())
    phi = net.feature_map(jax.random.key(0), (12,), 257, get=("nngp", "ntk"), dtype="bfloat16")
    found = phi(X)
    assert found.ntk.shape == found.nngp.shape == (40, 257)
    assert found.ntk.dtype == jnp.bfloat16
    error = phi.error(X)
    assert error.nngp.rms < 0.05
    assert error.ntk.rms < 0.1


IMAGES = np.random.default_rng(3).normal(size=(5, 6, 6, 2)).astype(np.float32)
CONV = wl.Conv((3, 3), padding="SAME", W_std=1.3, b_std=0.2)
IMAGE_NET = wl.serial(
    CONV,
    wl.residual("relu", CONV),
    wl.AvgPool((2, 2), (2, 2)),
    CONV,
    "exp_normalized",
    wl.Flatten(),
    wl.Dense(),
)


def test_features_of_images():
    """Folded patches, pixels and branches, kept constants, pools: the error is that of a random sketch."""
    phi = IMAGE_NET.feature_map(jax.random.key(0), (6, 6, 2), 1024)
    assert phi(IMAGES).shape == (5, 1024)
    assert phi.error(IMAGES).rms < 0.1


def test_layers_of_many_pixels_have_fewer_columns():
    widths = sketch.Widths(8192, False, 64)
    assert [widths.at(spatial) for spatial in [(32, 32), (16, 16), (8, 8), ()]] == [512, 2048, 8192, 8192]
    assert sketch.Widths(2048, False, 64).at((32, 32)) == 256
    assert sketch.Widths(100, False, 64).at((32, 32)) == 100
    net = wl.serial(CONV, "relu", wl.AvgPool((2, 2), (2, 2)), CONV, "relu", wl.GlobalAvgPool(), wl.Dense(), "relu")
    assert drawing._fewest_pixels(net, (6, 6, 2)) == 9
    assert drawing._fewest_pixels(NET, (12,)) is None


def test_whole_patches_by_a_matrix(tmp_path):
    """Where a dense matrix is affordable nothing is folded: on a device, in batches and in bfloat16, and from a file."""
    net = wl.serial(CONV, "relu", wl.AvgPool((2, 2), (2, 2)), CONV, "relu", wl.GlobalAvgPool(), wl.Dense())
    phi = net.feature_map(jax.random.key(0), (6, 6, 2), 300, get="nngp")
    matrices = [leaf.shape for leaf in jax.tree.leaves(phi.parts) if leaf.dtype == jnp.bfloat16]
    assert [inputs for inputs, _ in matrices] == [9 * 256 + 1]
    found, exact = phi(IMAGES), net.kernel(IMAGES, get="nngp")
    assert phi.error(IMAGES).rms < 0.05
    on_device = phi(jnp.asarray(IMAGES), batch=2)
    assert isinstance(on_device, jax.Array)
    np.testing.assert_allclose(on_device, found, rtol=0, atol=1e-6)
    np.testing.assert_allclose(np.concatenate(list(phi.blocks(jnp.asarray(IMAGES), 2))), found, rtol=0, atol=1e-6)
    phi.save(tmp_path / "phi.npz")
    np.testing.assert_array_equal(wl.load_features(tmp_path / "phi.npz")(IMAGES), found)
    narrow = net.feature_map(jax.random.key(0), (6, 6, 2), 300, get="nngp", dtype="bfloat16")(IMAGES)
    assert narrow.dtype == np.float32  # the mean over pixels is, and tells apart what bfloat16 cannot
    np.testing.assert_allclose(narrow @ narrow.T, found @ found.T, rtol=0, atol=0.01 * np.abs(exact).max())


@pytest.mark.parametrize("act", ["relu", "exp_normalized"])
def test_products_of_bfloat16_take_bfloat16(act):
    """A number of float32 on the way would make all that follows float32, and a GPU ten times slower."""
    net = wl.serial(CONV, act, wl.AvgPool((2, 2), (2, 2)), CONV, act, CONV, act, wl.GlobalAvgPool(), wl.Dense())
    phi = net.feature_map(jax.random.key(0), (6, 6, 2), 1024, get="nngp", dtype="bfloat16")
    text = jax.jit(lambda x: phi(x)).lower(jnp.asarray(IMAGES)).as_text()
    products = re.findall(r"dot_general.*: \(tensor<([\dx]+)x(\w+)>, tensor<(\d+)x(\d+)x(\w+)>\)", text)
    large = [(left, right) for _, left, inputs, outputs, right in products if int(inputs) > 64]
    assert len(large) == 2
    assert set(large) == {("bf16", "bf16")}


def test_fewer_columns_than_the_network_has_are_mixed(tmp_path):
    phi = NET.feature_map(jax.random.key(0), (12,), 3)
    assert phi(X).shape == (len(X), 3)
    phi.save(tmp_path / "phi.npz")
    np.testing.assert_array_equal(wl.load_features(tmp_path / "phi.npz")(X), phi(X))


def test_dropout_and_a_known_kernel_alone():
    def soft(cov, var1, var2):
        return 2 / jnp.pi * jnp.arcsin(jnp.clip(2 * cov / jnp.sqrt((1 + 2 * var1) * (1 + 2 * var2)), -1, 1))

    net = wl.serial(wl.Dense(1.4, 0.2), wl.FromDual(soft), wl.Dropout(0.6), wl.Dense(), "gelu", wl.Dense())
    assert net.feature_map(jax.random.key(0), (12,), 2000).error(X).rms < 0.03


BAD = {
    "features": (lambda: NET.feature_map(jax.random.key(0), (12,), 0), "features is a whole number of 1 or more"),
    "kind": (lambda: NET.feature_map(jax.random.key(0), (12,), sketch="fft"), "sketch is one of auto"),
    "degree": (
        lambda: NET.feature_map(jax.random.key(0), (12,), sketch="powers", degree=-1),
        "degree is a whole number",
    ),
    "no degree": (
        lambda: NET.feature_map(jax.random.key(0), (12,), sketch="random_weights", degree=3),
        "has no degree",
    ),
    "two degrees": (
        lambda: NET.feature_map(jax.random.key(0), (12,), sketch=sketch.Powers(3), degree=3),
        "says its own",
    ),
    "key": (lambda: NET.feature_map(0, (12,)), "one random key"),
    "get": (lambda: NET.feature_map(jax.random.key(0), (12,), get="both"), "get is 'nngp', 'ntk'"),
    "dtype": (lambda: NET.feature_map(jax.random.key(0), (12,), 300, dtype="int32"), "a floating one"),
    "gaussian": (lambda: wl.serial("relu", wl.Dense()).feature_map(jax.random.key(0), (12,)), "needs a Gaussian input"),
}


@pytest.mark.parametrize("case", BAD)
def test_error(case):
    attempt, message = BAD[case]
    with pytest.raises((ValueError, TypeError), match=message):
        attempt()


def test_bad_inputs(phi):
    for x, message in (
        (X[:, :5], r"\(n, 12\), and x has"),
        (np.nan * X, "not finite"),
        (X[0], "one row for each input"),
    ):
        with pytest.raises(ValueError, match=message):
            phi(x)
    with pytest.raises(ValueError, match="two rows at least"):
        phi.error(X[:1])


def test_a_degree_of_zero_is_a_constant():
    found = NET.feature_map(jax.random.key(0), (12,), 100, get="nngp", sketch="powers", degree=0)(X)
    assert np.linalg.matrix_rank(found.astype(np.float64), tol=1e-4) == 1
