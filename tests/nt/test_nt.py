"""neural-tangents' names give what neural-tangents gives: against values that it computed itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import references
import widelimit as wl
from widelimit import nt
from widelimit.nt import predict, stax


def close(found, expected, tolerance=1e-8):
    np.testing.assert_allclose(np.asarray(found), expected, rtol=0, atol=tolerance * np.max(np.abs(expected)))


@pytest.fixture(scope="module")
def given():
    with np.load(references.DATA / "nt_predictions.npz") as file:
        return dict(file)


@pytest.fixture(scope="module")
def kernel_fn():
    return stax.serial(stax.Dense(16, 1.4, 0.3), stax.Erf(), stax.Dense(2, 1.2))[2]


@pytest.fixture(scope="module")
def kernels(given, kernel_fn):
    x, z = given["x_train"], given["x_test"]
    return kernel_fn(x), kernel_fn(z, x), kernel_fn(z)


def test_kernel_functions_unpack_and_choose(kernel_fn, given):
    x = given["x_train"]
    both = kernel_fn(x, None, ("ntk", "nngp"))
    assert both._fields == ("ntk", "nngp")
    whole = kernel_fn(x)
    np.testing.assert_array_equal(whole.ntk, both.ntk)
    np.testing.assert_array_equal(whole.ntk, kernel_fn(x, get="ntk"))
    np.testing.assert_allclose(whole.cov1, np.diag(whole.nngp), rtol=1e-14)
    assert whole.x1_is_x2
    assert whole.is_gaussian
    assert whole.shape1 == (8, 2)
    close(kernel_fn(given["x_test"], x, "cov2", diagonal_batch=False), given["fc_cov2"], 1e-10)
    assert kernel_fn(x, None, "ntk", diagonal_batch=True).shape == (8, 8)


def test_equal_inputs_are_one(given):
    """As in neural-tangents: masks of Dropout are shared where both inputs are the same."""
    kernel_fn = stax.serial(stax.Dense(4), stax.Relu(), stax.Dropout(0.7), stax.Dense(1))[2]
    x = given["x_train"]
    np.testing.assert_array_equal(kernel_fn(x, x.copy(), "nngp"), kernel_fn(x, None, "nngp"))
    assert kernel_fn(x, x).asdict()["x1_is_x2"]
    stax.serial(stax.Dense(4), stax.Dropout(0.7, "test"), stax.Relu(), stax.Dense(1))[2](x)


def test_kernels_are_pytrees(kernel_fn, given):
    x = jnp.asarray(given["x_train"], jnp.float32)
    found = jax.jit(kernel_fn)(x)
    np.testing.assert_allclose(found.ntk, kernel_fn(x, None, "ntk"), rtol=1e-5)
    assert found.shape1 == (8, 2)
    second = stax.serial(stax.Relu(), stax.Dense(1))[2]
    np.testing.assert_allclose(jax.jit(lambda x: second(kernel_fn(x), "ntk"))(x), second(kernel_fn(x)).ntk, rtol=1e-5)
    halves = jax.tree.map(lambda k: k / 2, kernel_fn(x))
    np.testing.assert_allclose(halves.nngp, kernel_fn(x, None, "nngp") / 2, rtol=1e-6)
    with pytest.raises(ValueError, match="came out of jit"):
        second(halves)


GAUSSIAN = {
    "a convolution": ((stax.Conv(8, (3, 3)),), True),
    "a pool after one": ((stax.Conv(8, (3, 3)), stax.AvgPool((2, 2))), True),
    "nested": ((stax.serial(stax.Conv(8, (3, 3)), stax.GlobalAvgPool()),), True),
    "a norm": ((stax.Conv(8, (3, 3)), stax.LayerNorm()), True),
    "an activation": ((stax.Conv(8, (3, 3)), stax.Relu()), False),
    "a pool after it": ((stax.Conv(8, (3, 3)), stax.Relu(), stax.GlobalAvgPool()), False),
}


@pytest.mark.parametrize("case", GAUSSIAN)
def test_whether_outputs_are_gaussian(case, given):
    layers, gaussian = GAUSSIAN[case]
    assert stax.serial(*layers)[2](given["images"][:1], None, "is_gaussian") == gaussian


def test_kernels_pass_from_one_network_to_the_next(given):
    first = stax.serial(stax.Dense(16, 1.4, 0.3), stax.Relu())[2]
    second = stax.serial(stax.Dense(8, 1.2), stax.Erf(), stax.Dense(2))[2]
    together = stax.serial(
        stax.Dense(16, 1.4, 0.3), stax.Relu(), stax.Dense(8, 1.2), stax.Erf(), stax.Dense(2)
    )[2]  # fmt: skip
    x = given["x_train"]
    np.testing.assert_allclose(second(first(x)).ntk, together(x, None, "ntk"), rtol=1e-13)
    np.testing.assert_allclose(second(first(x, x[:3]), "nngp"), together(x, x[:3], "nngp"), rtol=1e-13)
    with pytest.raises(ValueError, match="changed by replace"):
        second(first(x).replace(nngp=np.eye(8)))


@pytest.mark.parametrize("get", ["nngp", "ntk", "ntkgp"])
def test_gp_inference(get, given, kernels):
    train, cross, test = kernels
    found = predict.gp_inference(train, given["y"], diag_reg=1e-2)(get, cross, test)
    close(found.mean, given[f"gp_{get}_mean"])
    close(found.covariance, given[f"gp_{get}_covariance"])
    close(predict.gp_inference(train, given["y"], diag_reg=1e-2)(get, cross), given[f"gp_{get}_mean"])


@pytest.mark.parametrize("t", [3.0, None])
def test_gradient_descent_mse(t, given, kernels, kernel_fn):
    train, cross, _ = kernels
    predict_fn = predict.gradient_descent_mse(train.ntk, given["y"], learning_rate=0.5, diag_reg=1e-3)
    found = predict_fn(t, 0.1, 0.2, cross.ntk)
    close(found[0], given[f"mse_{t}_train"])
    close(found[1], given[f"mse_{t}_test"])
    close(predict_fn(t, 0.1), given[f"mse_{t}_train"])
    close(predict_fn([t or np.inf], 0.1, 0.2, cross.ntk)[1][0], given[f"mse_{t}_test"])
    np.testing.assert_allclose(predict_fn(t, None, 0.2, cross.ntk), predict_fn(t, 0.0, 0.2, cross.ntk)[1], rtol=1e-12)
    ensemble = predict.gradient_descent_mse_ensemble(
        kernel_fn, given["x_train"], given["y"], learning_rate=0.5, diag_reg=1e-3
    )
    for get in ("nngp", "ntk"):
        found = ensemble(t, given["x_test"], get, compute_cov=True)
        close(found.mean, given[f"ensemble_{t}_{get}_mean"])
        close(found.covariance, given[f"ensemble_{t}_{get}_covariance"])
        close(ensemble(t, given["x_test"], get), given[f"ensemble_{t}_{get}_mean"])
        found = ensemble(t, None, get, compute_cov=True)
        close(found.mean, given[f"trained_{t}_{get}_mean"])
        np.testing.assert_allclose(found.covariance, given[f"trained_{t}_{get}_covariance"], atol=1e-9)
    assert ensemble(t, given["x_test"])._fields == ("nngp", "ntk")


def test_kernels_with_output_axes(given, finite):
    """trace_axes=(): every pair of outputs has a kernel of its own, and predictions those of one large matrix."""
    apply_fn, params = finite
    x, z, y = given["x_train"], given["x_test"], given["y"]
    ntk_fn = nt.empirical_ntk_fn(apply_fn, trace_axes=())
    K, cross, test = ntk_fn(x, None, params), ntk_fn(z, x, params), ntk_fn(z, None, params)
    big, wide = (k.transpose(0, 2, 1, 3).reshape(2 * len(k), -1) for k in (K, cross))
    solved = wide @ np.linalg.solve(big + 0.1 * np.eye(16), y.reshape(-1))
    found = predict.gp_inference(K, y, 0.1, True, trace_axes=())("ntkgp", cross, test)
    close(found.mean, solved.reshape(5, 2), 1e-6)  # the parameters are float32
    assert found.covariance.shape == (5, 5, 2, 2)
    flow = predict.gradient_descent_mse(K, y, diag_reg=0.1, diag_reg_absolute_scale=True, trace_axes=())
    close(flow(None, 0.0, 0.0, cross)[1], solved.reshape(5, 2), 1e-6)
    short = predict.gradient_descent(lambda f, y: ((f - y) ** 2).mean() / 2, K, y, trace_axes=())(3.0)
    close(short, predict.gradient_descent_mse(K, y, trace_axes=())(3.0), 1e-6)
    np.testing.assert_allclose(predict.max_learning_rate(K, y.size), predict.max_learning_rate(big, y.size), rtol=1e-10)
    images = np.stack([y, 2 * y], axis=-1)  # targets with two traced axes
    both = predict.gp_inference(big[:8, :8], images, 0.1, trace_axes=(-1, -2))
    assert both("nngp", big[:3, :8]).shape == (3, 2, 2)


@pytest.mark.parametrize("momentum", [None, 0.9])
def test_gradient_descent(momentum, given, kernels):
    train, cross, _ = kernels
    flow = predict.gradient_descent(lambda f, y: ((f - y) ** 4).mean(), train.ntk, given["y"], 0.5, momentum)
    state = flow(2.0, predict.ODEState(0.0, 0.0), None, cross.ntk)
    close(state.fx_train, given[f"flow_{momentum}_train"], 1e-6)  # both integrate to some 1e-8
    close(state.fx_test, given[f"flow_{momentum}_test"], 1e-6)
    train, test = flow(2.0, 0.0, 0.0, cross.ntk)
    close(train, state.fx_train, 1e-12)
    close(test, state.fx_test, 1e-12)


def test_max_learning_rate(given, kernels):
    """Gradient descent with momentum m converges up to 2 (1 + m) / eigenvalue (Polyak, 1964), here of NTK / size."""
    ntk, size = kernels[0].ntk, given["y"].size
    rate = predict.max_learning_rate(ntk, size, 0.5)
    for factor, converges in ((0.99, True), (1.01, False)):
        before, here = np.zeros(8), np.ones(8)
        for _ in range(4000):
            before, here = here, here - factor * rate / size * ntk @ here + 0.5 * (here - before)
        assert (np.linalg.norm(here) < 10) == converges


@pytest.fixture(scope="module")
def finite(given):
    """The finite network with neural-tangents' weights."""
    init_fn, apply_fn, _ = stax.serial(stax.Dense(16, 1.4, 0.3), stax.Erf(), stax.Dense(2, 1.2))
    shape, params = init_fn(jax.random.key(0), (-1, 4))
    assert shape == (-1, 2)
    drawn = jax.tree.map(jnp.shape, params)
    params = ({"W": given["W1"], "b": given["b1"]}, (), {"W": given["W2"]})
    assert jax.tree.map(jnp.shape, params) == drawn
    return apply_fn, params


@pytest.mark.parametrize(("trace", "diagonal"), [((-1,), ()), ((), ()), ((), (-1,))])
def test_empirical_kernels(trace, diagonal, given, finite, x64):
    apply_fn, params = finite
    name = f"empirical_{len(trace)}{len(diagonal)}"
    x1, x2 = jnp.asarray(given["x_test"]), jnp.asarray(given["x_train"])
    kernel_fn = nt.empirical_kernel_fn(apply_fn, trace, diagonal)
    found = kernel_fn(x1, x2, ("nngp", "ntk"), params)
    close(found.nngp, given[f"{name}_nngp"])
    close(found.ntk, given[f"{name}_ntk"])
    close(nt.empirical_ntk_fn(apply_fn, trace, diagonal)(x1, None, params), kernel_fn(x1, x1, "ntk", params))


@pytest.mark.parametrize("degree", [1, 2])
def test_taylor_expansion(degree, given, finite, x64):
    apply_fn, params = finite
    moved = jax.tree.map(lambda p: 1.1 * p + 0.01, params)
    x = jnp.asarray(given["x_test"])
    close(nt.taylor_expand(apply_fn, params, degree)(moved, x), given[f"taylor_{degree}"])
    if degree == 1:
        close(nt.linearize(apply_fn, params)(moved, x), given["taylor_1"])
    with jax.enable_x64(False):
        found = nt.taylor_expand(apply_fn, params, degree)(moved, given["x_test"])
    assert found.dtype == np.float64
    close(found, given[f"taylor_{degree}"])


@pytest.mark.parametrize("keep", [1.0, 0.7])
def test_monte_carlo_approaches_the_kernel(keep):
    """The mean of 400 networks of width 256 is within 5 standard errors of the kernel, and so a twentieth of one's error."""
    init_fn, apply_fn, kernel_fn = stax.serial(
        stax.Dense(256, 1.4, 0.3), stax.Relu(), stax.Dropout(keep), stax.Dense(1)
    )
    x = np.random.default_rng(0).normal(size=(4, 3))
    counts = range(1, 401)
    means = np.stack(list(nt.monte_carlo_kernel_fn(init_fn, apply_fn, jax.random.key(0), counts)(x, None, "ntk")))
    assert means.dtype == np.float64
    samples = np.diff(means * np.array(counts)[:, None, None], axis=0, prepend=0)
    error = samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
    assert np.all(np.abs(means[-1] - kernel_fn(x, None, "ntk")) < 5 * error)
    one = nt.monte_carlo_kernel_fn(init_fn, apply_fn, jax.random.key(0), 4)(x, None, "ntk")
    np.testing.assert_allclose(one, means[3], rtol=1e-12)


def test_monte_carlo_draws_a_mask_for_every_network():
    """Weights that are all 1 leave the mask as the only random thing."""
    _, apply_fn, _ = stax.serial(stax.Dense(64), stax.Dropout(0.5), stax.Dense(1))

    def init_fn(key, shape):
        return (shape[0], 1), ({"W": jnp.ones((3, 64))}, (), {"W": jnp.ones((64, 1))})

    x = np.ones((1, 3), np.float32)
    means = np.array(list(nt.monte_carlo_kernel_fn(init_fn, apply_fn, jax.random.key(0), [1, 2, 3])(x, None, "nngp")))
    assert len(np.unique(means)) == 3


def test_different_inputs_have_masks_of_their_own():
    """The mean of a product of two masks is 1 where they are independent, and 1 / keep where they are one."""
    _, apply_fn, _ = stax.serial(stax.Dense(64), stax.Dropout(0.5))
    params = ({"W": jnp.ones((3, 64))}, ())
    x1, x2 = np.ones((1, 3)), np.full((1, 3), 2.0)
    nngp_fn, ntk_fn = nt.empirical_nngp_fn(apply_fn), nt.empirical_ntk_fn(apply_fn)
    for fn, own in ((nngp_fn, 3.0), (ntk_fn, 1.0)):
        for other, mean in ((x2, 2 * own), (None, 2 * own)):
            found = np.array([fn(x1, other, params, rng=key)[0, 0] for key in jax.random.split(jax.random.key(0), 32)])
            assert np.abs(found.mean() - mean) < 5 * found.std(ddof=1) / np.sqrt(32)


def test_empirical_kernels_of_functions_without_rng():
    def init_fn(key, shape):
        return (shape[0], 1), jax.random.normal(key, (shape[-1], 1))

    x = np.ones((2, 3), np.float32)
    found = nt.monte_carlo_kernel_fn(init_fn, lambda W, x: x @ W, jax.random.key(0), 2)(x, None, "ntk")
    np.testing.assert_allclose(found, 3.0)  # linear: the kernel is x.x whatever the weights


def test_pixels_and_their_order(given):
    images = given["images"]
    conv_fn = stax.serial(stax.Conv(8, (3, 3), padding="SAME", W_std=1.3, b_std=0.2), stax.Relu())[2]
    # after an odd number of convolutions neural-tangents leaves the spatial axes in reverse order
    close(conv_fn(images[:2], images[2:], "nngp"), given["conv_nngp"].transpose(0, 1, 4, 5, 2, 3), 1e-10)
    np.testing.assert_allclose(nt.batch(conv_fn, 2)(images, None, "nngp"), conv_fn(images, None, "nngp"), rtol=1e-12)
    np.testing.assert_allclose(conv_fn(images, None, "nngp"), conv_fn(images, images, "nngp"), rtol=1e-12)
    close(conv_fn(images[:2], images[2:], "ntk", diagonal_spatial=True), given["conv_diagonal_ntk"], 1e-10)
    close(conv_fn(images, None, "cov1"), given["conv_cov1"].transpose(0, 3, 4, 1, 2), 1e-10)


def test_channels_anywhere(given):
    last = stax.serial(stax.Conv(8, (3, 3)), stax.Relu(), stax.GlobalAvgPool(), stax.Dense(2))
    numbers = ("NCHW", "OIHW", "NCHW")
    first = stax.serial(
        stax.Conv(8, (3, 3), dimension_numbers=numbers), stax.Relu(), stax.GlobalAvgPool(channel_axis=1), stax.Dense(2)
    )
    images, turned = given["images"], given["images"].transpose(0, 3, 1, 2)
    np.testing.assert_allclose(first[2](turned, None, "ntk"), last[2](images, None, "ntk"), rtol=1e-13)
    shape, params = first[0](jax.random.key(0), turned.shape)
    assert shape == (3, 2)
    assert last[0](jax.random.key(0), images.shape)[0] == (3, 2)
    np.testing.assert_allclose(first[1](params, turned), last[1](params, images), rtol=1e-12)


def test_batch_last(given):
    """Heights, widths and inputs anywhere: shapes of outputs and of kernels say where."""
    numbers, axes = ("CHWN", "OIHW", "CHWN"), {"batch_axis": 3, "channel_axis": 0}
    turned = given["images"].transpose(3, 1, 2, 0)
    conv = stax.Conv(8, (3, 3), dimension_numbers=numbers)
    init_fn, apply_fn, kernel_fn = stax.serial(conv, stax.Relu(), stax.AvgPool((2, 2), **axes))
    shape, params = init_fn(jax.random.key(0), (*turned.shape[:3], -1))
    assert shape == (8, 1, 2, -1)
    assert apply_fn(params, turned).shape == (8, 1, 2, 3)
    found = kernel_fn(turned, None)
    assert (found.shape1[1:], found.batch_axis, found.channel_axis) == ((1, 2, 3), 3, 0)
    init_fn, apply_fn, kernel_fn = stax.serial(conv, stax.Relu(), stax.GlobalAvgPool(**axes), stax.Dense(2))
    shape, params = init_fn(jax.random.key(0), turned.shape)
    assert shape == apply_fn(params, turned).shape == (3, 2)
    assert kernel_fn(turned).shape1[0] == 3


def test_standard_parameterisation_with_scales(given):
    layers = (
        stax.Dense(16, 1.4, 0.3, parameterization="standard", s=(1, 2)),
        stax.Relu(),
        stax.Dense(2, 1.2, 0.1, parameterization="standard", s=(2, 1)),
    )
    init_fn, apply_fn, kernel_fn = stax.serial(*layers)
    close(kernel_fn(given["x_test"], given["x_train"], "ntk"), given["standard_ntk"], 1e-10)
    _, params = init_fn(jax.random.key(0), (-1, 4))
    assert params[0]["W"].shape == (4, 32)
    assert apply_fn(params, given["x_test"]).shape == (5, 2)


def test_given_kernels_and_functions(given):
    x = given["x_train"]
    plain = stax.serial(stax.Dense(1), stax.Erf(), stax.Dense(1))[2](x, None, "ntk")

    def dual(cov, var1, var2):
        return 2 / jnp.pi * jnp.arcsin(2 * cov / jnp.sqrt((1 + 2 * var1) * (1 + 2 * var2)))

    def slope(cov, var1, var2):
        return 4 / jnp.pi / jnp.sqrt((1 + 2 * var1) * (1 + 2 * var2) - 4 * cov**2)

    for act in (
        stax.Elementwise(jax.scipy.special.erf, dual, slope),
        stax.Elementwise(jax.scipy.special.erf),
        stax.ElementwiseNumerical(jax.scipy.special.erf, deg=25),
    ):
        init_fn, apply_fn, kernel_fn = stax.serial(stax.Dense(1), act, stax.Dense(1))
        np.testing.assert_allclose(kernel_fn(x, None, "ntk"), plain, rtol=1e-9)
        assert apply_fn(init_fn(jax.random.key(0), x.shape)[1], x).shape == (8, 1)
    hermite = stax.serial(stax.Dense(1), stax.Hermite(3), stax.Dense(1))[2](x, None, "nngp")
    np.testing.assert_allclose(
        hermite, wl.serial(wl.Dense(), wl.Hermite(3), wl.Dense()).kernel(x, get="nngp") / 6, rtol=1e-12
    )


@pytest.mark.parametrize("size", [0, 3, 5, 100])
def test_batches_of_any_size(size, given, kernel_fn):
    x, z = given["x_train"], given["x_test"]
    batched = nt.batch(kernel_fn, size)
    np.testing.assert_allclose(batched(x, z, "ntk"), kernel_fn(x, z, "ntk"), rtol=1e-13)
    found = batched(x, None, ("nngp", "ntk"))
    np.testing.assert_allclose(found.nngp, kernel_fn(x, None, "nngp"), rtol=1e-13)
    np.testing.assert_array_equal(found.ntk, found.ntk.T)
    whole, expected = batched(x, z), kernel_fn(x, z)
    for name in ("nngp", "ntk", "cov1", "cov2"):
        np.testing.assert_allclose(getattr(whole, name), getattr(expected, name), rtol=1e-13)
    assert (whole.shape1, whole.shape2) == ((8, 2), (5, 2))
    assert batched(x[:0], z, "ntk").shape == (0, 5)
    rows = jnp.asarray(x, jnp.float32)
    single = batched(rows, None, "ntk")
    assert isinstance(single, jax.Array)
    np.testing.assert_allclose(single, found.ntk, rtol=1e-5)
    np.testing.assert_allclose(jax.jit(lambda x: batched(x, None, "ntk"))(rows), single, rtol=1e-5)

    def total(fn, scale):
        kernel_fn = stax.serial(stax.Dense(16, scale), stax.Erf(), stax.Dense(2))[2]
        return jnp.sum(fn(kernel_fn)(rows, None, "ntk"))

    gradients = [jax.grad(lambda s, fn=fn: total(fn, s))(1.4) for fn in (lambda k: k, lambda k: nt.batch(k, size))]
    np.testing.assert_allclose(*gradients, rtol=1e-5)


@pytest.mark.parametrize("size", [3, 100])
def test_batches_of_any_kernel_function(size, given, finite):
    apply_fn, params = finite
    x, z = given["x_train"], given["x_test"]
    whole = nt.empirical_kernel_fn(apply_fn)
    batched = nt.batch(whole, size)
    for second in (None, z):
        found, expected = batched(x, second, ("nngp", "ntk"), params), whole(x, second, ("nngp", "ntk"), params)
        close(found.nngp, expected.nngp, 1e-13)
        close(found.ntk, expected.ntk, 1e-13)
    assert batched(x[:0], z, "nngp", params).shape == (0, 5)


ERRORS = {
    "get": (lambda fn, x: fn(x, None, "ntkk"), "get is None, a name"),
    "keyword": (
        lambda fn, x: fn(x, None, "ntk", mask_constant=0.0),
        "mask_constant.*Masks and patterns are not offered",
    ),
    "not offered": (lambda fn, x: stax.ConvTranspose(3, (3, 3)), "ConvTranspose.*not offered. The nearest is Conv"),
    "not offered here": (lambda fn, x: nt.empirical_ntk_vp_fn, "nearest is empirical_ntk_fn"),
    "not known": (lambda fn, x: wl.stax.Dens, "has no 'Dens'"),
    "axes": (
        lambda fn, x: stax.serial(stax.Dense(1, channel_axis=1), stax.Dense(1, channel_axis=2)),
        "different batch_axis and channel_axis",
    ),
    "a function": (lambda fn, x: stax.serial(stax.Dense(1), jnp.tanh), r"stax.Elementwise\(fn\)"),
    "trace axes": (lambda fn, x: predict.gp_inference(fn(x), x[:, 0]), r"A single output is y\[:, None\]"),
    "no cross kernel": (
        lambda fn, x: predict.gradient_descent_mse(fn(x).ntk, x)(1.0, 0.0, 0.0),
        "without k_test_train",
    ),
    "kernel without ntk": (
        lambda fn, x: predict.gp_inference(fn(x, None, ("nngp",)), x)("ntk", fn(x)),
        "'ntk' is needed",
    ),
    "a list": (lambda fn, x: fn([x, x]), "one array of inputs"),
    "regularisation": (lambda fn, x: predict.gradient_descent_mse(fn(x), x, diag_reg=-1.0), "diag_reg is 0 or more"),
    "trace of a kernel": (lambda fn, x: predict.gradient_descent_mse(fn(x), x, trace_axes=()), "Is trace_axes that"),
    "axis": (lambda fn, x: stax.Dense(2, channel_axis=5)[2](x), "an input has 2 axes"),
    "layouts": (lambda fn, x: stax.Conv(2, (3, 3), dimension_numbers=("NCHW", "OIHW")), "three layouts"),
    "elsewhere": (lambda fn, x: stax.Tanh, r"stax.Triple\(widelimit.Tanh\(\)\)"),
    "outputs": (
        lambda fn, x: nt.empirical_ntk_fn(lambda p, x: {"a": p * x})(x, None, 1.0),
        "one array of outputs here, and gave dict",
    ),
    "traced and diagonal": (
        lambda fn, x: nt.empirical_nngp_fn(lambda p, x: x, (-1,), (-1,))(x, None, ()),
        "in common",
    ),
    "twice the same": (lambda fn, x: fn(x, None, ("ntk", "ntk")), "different names"),
    "concat in another layout": (
        lambda fn, x: stax.serial(stax.Dense(1, channel_axis=1), stax.FanOut(2), stax.FanInConcat(1)),
        r"FanInConcat\(1\) beside layers with batch_axis",
    ),
    "no start": (lambda fn, x: predict.gradient_descent(abs, fn(x), x)(1.0, predict.ODEState()), "fx_train is None"),
    "no array": (lambda fn, x: nt.batch(lambda a, b: 1.0, 3)(x), "batch puts arrays together"),
    "samples": (lambda fn, x: nt.monte_carlo_kernel_fn(abs, abs, None, 0), "n_samples is a whole number of 1 or more"),
    "no parameterization": (lambda fn, x: stax.Dense(2, parameterization=None), "'ntk' or 'standard', not None"),
    "nothing to predict": (lambda fn, x: predict.gradient_descent_mse(fn(x).ntk, x)(1.0, None), "nothing to predict"),
    "scales": (lambda fn, x: stax.Dense(8, parameterization="standard", s=2), "s is a pair of whole numbers"),
    "batch size": (lambda fn, x: nt.batch(fn, -1), "batch_size is a whole number of 0 or more, not -1"),
    "no function": (lambda fn, x: stax.Elementwise(), "got neither"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_error(case, kernel_fn, given):
    attempt, message = ERRORS[case]
    with pytest.raises((ValueError, TypeError, AttributeError), match=message):
        attempt(kernel_fn, given["x_train"])
