"""Predictions against dense linear algebra, likelihoods against finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, linalg, stats

import widelimit as wl
from widelimit import linear

RNG = np.random.default_rng(0)
X, X_TEST = RNG.normal(size=(12, 4)), RNG.normal(size=(5, 4))
Y = RNG.normal(size=(12, 2))
NET = wl.serial(wl.Dense(1.3, 0.2), wl.ABRelu(-0.1, 1.2), wl.Dense(1.1))
TRAIN, CROSS, TEST = NET.kernel(X), NET.kernel(X_TEST, X), NET.kernel(X_TEST)


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_posterior_is_dense_linear_algebra(noise):
    inverse = np.linalg.inv(TRAIN.nngp + noise * np.eye(12))
    found = linear.posterior(TRAIN.nngp, Y, CROSS.nngp, TEST.nngp, noise)
    np.testing.assert_allclose(found.mean, CROSS.nngp @ inverse @ Y, rtol=1e-8)
    covariance = TEST.nngp - CROSS.nngp @ inverse @ CROSS.nngp.T
    np.testing.assert_allclose(found.covariance, covariance, atol=1e-8 * TEST.nngp.max())
    variances = linear.posterior(TRAIN.nngp, Y, CROSS.nngp, np.diag(TEST.nngp), noise).covariance
    np.testing.assert_allclose(variances, np.diag(covariance), atol=1e-8 * TEST.nngp.max())
    assert found.jitter == 0
    assert found.mean.dtype == np.float64
    single = linear.posterior(TRAIN.nngp, Y[:, 0], CROSS.nngp, noise=noise)
    np.testing.assert_allclose(single.mean, found.mean[:, 0], rtol=1e-12)
    assert single.covariance is None


def test_variances_are_not_negative():
    """Of rows that are known without noise nothing is left but rounding, which may fall below 0."""
    for rows in (X[:6], X):
        x = rows.astype(np.float32)
        K = NET.kernel(x, get="ntk")
        found = linear.posterior(K, np.ones(len(x), np.float32), K, np.diag(K))
        assert found.jitter == 0
        assert found.covariance.dtype == np.float32
        assert np.all(found.covariance >= 0)
        assert np.all(found.covariance <= 1e-4 * np.diag(K))


def test_repeated_rows_get_an_answer_and_a_warning():
    K = NET.kernel(np.concatenate([X, X]), get="ntk")
    with pytest.warns(UserWarning, match="24 training rows is not positive definite, and .* was added"):
        found = linear.posterior(K, np.concatenate([Y, Y]), NET.kernel(X_TEST, np.concatenate([X, X]), get="ntk"))
    assert 0 < found.jitter < 1e-10
    expected = linear.posterior(TRAIN.ntk, Y, CROSS.ntk).mean
    np.testing.assert_allclose(found.mean, expected, rtol=1e-6)
    with pytest.warns(UserWarning, match="not positive definite"):
        broken = linear.posterior(TRAIN.ntk - 0.5 * np.eye(12), Y, CROSS.ntk)  # negative eigenvalues
    assert np.all(np.isfinite(broken.mean))


@pytest.mark.parametrize("t", [0.0, 0.7, 30.0, np.inf])
def test_gradient_flow_solves_its_equation(t):
    start, start_test = RNG.normal(size=(2, 12, 2))
    flow = linear.gradient_flow(TRAIN.ntk, Y)
    found, tested = flow.train(t, start), flow.test(t, CROSS.ntk, start_test[:5], start)
    if np.isinf(t):
        left, moved = np.zeros((12, 12)), np.linalg.inv(TRAIN.ntk)
    else:
        left = linalg.expm(-t * TRAIN.ntk)
        moved = np.linalg.solve(TRAIN.ntk, np.eye(12) - left)
    np.testing.assert_allclose(found, Y + left @ (start - Y), atol=1e-8)
    np.testing.assert_allclose(tested, start_test[:5] + CROSS.ntk @ moved @ (Y - start), atol=1e-8)
    weights = CROSS.ntk @ moved
    mixed = weights @ CROSS.nngp.T
    covariance = TEST.nngp + weights @ TRAIN.nngp @ weights.T - mixed - mixed.T
    found = flow.covariance(t, CROSS.ntk, TRAIN.nngp, CROSS.nngp, TEST.nngp)
    np.testing.assert_allclose(found, covariance, atol=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_flows_of_repeated_rows_come_to_rest(dtype):
    """Conflicting targets on equal rows: at any late time what infinite time gives, and a zero kernel changes nothing."""
    rows = np.concatenate([X[:6], X[:6]]).astype(dtype)
    flow = linear.gradient_flow(NET.kernel(rows, get="ntk"), Y[:, 0].astype(dtype))
    cross = NET.kernel(X_TEST.astype(dtype), rows, get="ntk")
    rest = flow.test(np.inf, cross)
    np.testing.assert_allclose(flow.test(1e8, cross), rest, atol=1e-2 if dtype == np.float32 else 1e-6)
    with pytest.warns(UserWarning, match="not positive definite"):
        nothing = linear.posterior(np.zeros((3, 3), dtype), np.ones(3, dtype), np.zeros((2, 3), dtype))
    np.testing.assert_array_equal(nothing.mean, 0)


def test_flows_take_many_times_and_single_outputs():
    flow = linear.gradient_flow(TRAIN.ntk, Y[:, 0])
    times = np.array([[0.5, 1.0], [2.0, np.inf]])
    found = flow.test(times, CROSS.ntk)
    assert found.shape == (2, 2, 5)
    np.testing.assert_allclose(found[1, 0], flow.test(2.0, CROSS.ntk), rtol=1e-12)


def test_trained_posterior_is_the_end_of_the_flow():
    flow = linear.gradient_flow(TRAIN.ntk, Y, noise=0.1)
    found = linear.trained_posterior(TRAIN.ntk, Y, CROSS.ntk, TRAIN.nngp, CROSS.nngp, TEST.nngp, noise=0.1)
    np.testing.assert_allclose(found.mean, flow.test(np.inf, CROSS.ntk), atol=1e-9)
    end = flow.covariance(np.inf, CROSS.ntk, TRAIN.nngp, CROSS.nngp, TEST.nngp)
    np.testing.assert_allclose(found.covariance, end, atol=1e-9)


def test_flow_of_any_loss_is_that_of_squared_error():
    """Without momentum the closed form; with it the equation of motion by another integrator."""

    def loss(f, y):
        return jnp.sum((f - y) ** 2) / 2

    train, test, *_ = linear.loss_flow(loss, TRAIN.ntk, Y, np.array([0.5, 2.0]), 0.0, 0.0, CROSS.ntk, rate=0.3)
    flow = linear.gradient_flow(TRAIN.ntk, Y)
    np.testing.assert_allclose(train, flow.train(0.3 * np.array([0.5, 2.0])), atol=1e-6)
    np.testing.assert_allclose(test, flow.test(0.3 * np.array([0.5, 2.0]), CROSS.ntk), atol=1e-6)
    found = linear.loss_flow(loss, TRAIN.ntk, Y[:, 0], 2.0, rate=0.3, momentum=0.9)

    def motion(t, state):
        f, q = state.reshape(2, 12)
        return np.concatenate([q, -TRAIN.ntk @ (f - Y[:, 0]) - 0.1 / 0.3**0.5 * q])

    end = integrate.solve_ivp(motion, (0, 2.0 * 0.3**0.5), np.zeros(24), rtol=1e-10, atol=1e-12).y[:, -1]
    np.testing.assert_allclose(np.concatenate([found[0], found[2]]), end, atol=1e-6)


def test_likelihood_is_the_density_of_a_normal_distribution():
    found = linear.log_marginal_likelihood(TRAIN.nngp, Y, 0.2)
    normal = stats.multivariate_normal(np.zeros(12), TRAIN.nngp + 0.2 * np.eye(12))
    np.testing.assert_allclose(found, normal.logpdf(Y.T).sum(), rtol=1e-10)


@pytest.mark.parametrize("get", ["nngp", "ntk"])
def test_gradients_of_the_likelihood(get, x64):
    """In W_std, b_std, the slopes of the activation and the noise."""
    leaves, structure = jax.tree.flatten(NET)
    start = np.array([*leaves, 0.2])

    @jax.jit
    def value(theta):
        net = jax.tree.unflatten(structure, list(theta[:-1]))
        return linear.log_marginal_likelihood(net.kernel(jnp.asarray(X), get=get), jnp.asarray(Y), theta[-1])

    gradient = jax.grad(value)(start)
    for i, step in enumerate(1e-5 * np.eye(len(start))):
        difference = (value(start + step) - value(start - step)) / 2e-5
        np.testing.assert_allclose(gradient[i], difference, rtol=1e-5, atol=1e-5)


def test_hyperparameters_climb_the_likelihood():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 3))
    truth = wl.serial(wl.Dense(2.0, 0.5), "erf", wl.Dense(1.5))
    y = rng.multivariate_normal(np.zeros(40), truth.kernel(x, get="nngp") + 0.01 * np.eye(40))
    start = wl.serial(wl.Dense(1.0, 0.2), "erf", wl.Dense(1.0))
    fit = linear.fit_hyperparameters(start, x, y, noise=0.1)
    assert fit.converged
    at_truth = linear.log_marginal_likelihood(truth.kernel(x, get="nngp"), y, 0.01)
    assert fit.log_likelihood >= at_truth
    found = linear.log_marginal_likelihood(fit.net.kernel(x, get="nngp"), y, fit.noise)
    np.testing.assert_allclose(found, fit.log_likelihood, rtol=1e-8)
    frozen = linear.fit_hyperparameters(wl.serial(wl.Dense(1.0, 0.0), "erf", wl.Dense()), x, y, steps=2)
    assert frozen.net.layers[0].b_std == 0.0


def test_likelihoods_say_what_jitter_they_took():
    K = np.ones((3, 3))
    with pytest.warns(UserWarning, match="3 training rows is not positive definite"):
        assert np.isfinite(linear.log_marginal_likelihood(K, np.ones(3)))
    with pytest.warns(UserWarning, match="not positive definite"):
        fit = linear.fit_hyperparameters(NET, np.ones((3, 4)), np.array([1.0, 2.0, 3.0]), noise=0.0, steps=2)
    assert fit.jitter > 0


@pytest.mark.parametrize("get", ["nngp", "ntk"])
def test_only_scales_and_activations_are_fitted(get):
    net = wl.serial(wl.Dense(1.3, 0.2), wl.ABRelu(-0.1, 1.2), wl.Dropout(0.8), wl.Dense(1.1))
    fit = linear.fit_hyperparameters(net, X, Y, get=get, steps=5)
    assert fit.net.layers[2].keep == 0.8
    assert fit.net.layers[1].activation.a != -0.1
    assert fit.log_likelihood > linear.log_marginal_likelihood(net.kernel(X, get=get), Y, 0.1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [0, 1])
def test_few_rows_and_either_precision(n, dtype):
    K, y = TRAIN.ntk[:n, :n].astype(dtype), Y[:n].astype(dtype)
    cross, test = CROSS.ntk[:, :n].astype(dtype), TEST.ntk.astype(dtype)
    found = linear.posterior(K, y, cross, test, noise=0.1)
    flow = linear.gradient_flow(K, y, noise=0.1)
    for mean in (found.mean, flow.test(np.inf, cross)):
        assert mean.dtype == dtype
        expected = cross[:, :1] / (K + 0.1) @ y if n else np.zeros((5, 2))
        np.testing.assert_allclose(mean, expected, rtol=1e-4 if dtype == np.float32 else 1e-10)


def test_float32_is_as_good_as_its_rounding():
    K, y, cross = (a.astype(np.float32) for a in (TRAIN.ntk, Y, CROSS.ntk))
    found = linear.posterior(K, y, cross, noise=0.1)
    expected = linear.posterior(TRAIN.ntk, Y, CROSS.ntk, noise=0.1)
    condition = np.linalg.cond(TRAIN.ntk + 0.1 * np.eye(12))
    tolerance = condition * np.finfo(np.float32).eps * np.abs(expected.mean).max()
    np.testing.assert_allclose(found.mean, expected.mean, atol=tolerance)


def test_variances_of_training_rows_are_no_less_than_0():
    """Without noise they are 0, and in float32 rounding goes either way."""
    K = TRAIN.nngp.astype(np.float32)
    variances = linear.posterior(K, Y.astype(np.float32), K, np.diag(K)).covariance
    assert np.all(variances >= 0)
    assert np.all(variances <= 1e-4 * np.diag(K))


def test_flows_on_any_loss_can_be_differentiated(x64):
    """By the kernel, against central differences."""

    def end(scale):
        return linear.loss_flow(lambda f, y: jnp.sum((f - y) ** 2) / 2, scale * jnp.asarray(TRAIN.ntk), Y, 0.5)[0].sum()

    difference = (end(1.0 + 1e-3) - end(1.0 - 1e-3)) / 2e-3
    np.testing.assert_allclose(jax.grad(end)(1.0), difference, rtol=1e-4)


def test_times_in_any_order():
    def loss(f, y):
        return jnp.sum((f - y) ** 2) / 2

    times = np.array([[2.0, 0.0], [0.5, 2.0]])
    found = linear.loss_flow(loss, TRAIN.ntk, Y, times)[0]
    np.testing.assert_allclose(found, linear.gradient_flow(TRAIN.ntk, Y).train(times), atol=1e-6)


BAD = {
    "noise of each row": (lambda: linear.posterior(TRAIN.nngp, Y, noise=np.ones(12)), "noise is one variance"),
    "velocity": (
        lambda: linear.loss_flow(lambda f, y: 0.0, TRAIN.ntk, Y, 1.0, momentum=0.9, train_velocity=np.ones(5)),
        "train_velocity holds outputs",
    ),
    "no times": (lambda: linear.loss_flow(lambda f, y: 0.0, TRAIN.ntk, Y, []), "finite times"),
    "rate": (lambda: linear.loss_flow(lambda f, y: 0.0, TRAIN.ntk, Y, 1.0, rate=-1.0), "a rate above 0"),
    "start": (
        lambda: linear.fit_hyperparameters(NET, 1e200 * X, Y),
        "likelihood at the start is not finite",
    ),
    "test without cross": (lambda: linear.loss_flow(lambda f, y: 0.0, TRAIN.ntk, Y, 1.0, test=0.0), "without K_cross"),
    "negative time": (lambda: linear.gradient_flow(TRAIN.ntk, Y).train(-1.0), "Times are 0 or more"),
    "cross of a flow": (lambda: linear.gradient_flow(TRAIN.ntk, Y).test(1.0, CROSS.ntk.T), r"\(m, 12\), not \(12, 5\)"),
    "start of a flow": (
        lambda: linear.gradient_flow(TRAIN.ntk, Y).train(1.0, np.ones(12)),
        r"start holds outputs of the shape \(12, 2\)",
    ),
    "priors of a flow": (
        lambda: linear.gradient_flow(TRAIN.ntk, Y).covariance(1.0, CROSS.ntk, TRAIN.nngp, CROSS.nngp, TRAIN.nngp),
        "The priors of 12 training and 5 test rows",
    ),
    "noise": (lambda: linear.posterior(TRAIN.nngp, Y, noise=-1.0), "noise is a variance, 0 or more"),
    "nan": (lambda: linear.posterior(np.nan * TRAIN.nngp, Y), "K is not finite"),
    "priors": (
        lambda: linear.trained_posterior(TRAIN.ntk, Y, CROSS.ntk, TRAIN.nngp, CROSS.nngp, np.diag(TEST.nngp)),
        "The priors of 12 training and 5 test rows",
    ),
    "K": (lambda: linear.posterior(CROSS.nngp, Y), r"K is the kernel matrix of the training rows, \(n, n\)"),
    "y": (lambda: linear.posterior(TRAIN.nngp, Y[:5]), "a target for each of the 12 training rows"),
    "cross": (lambda: linear.posterior(TRAIN.nngp, Y, CROSS.nngp.T), "K_cross is the kernel of test rows"),
    "test": (
        lambda: linear.posterior(TRAIN.nngp, Y, CROSS.nngp, TRAIN.nngp),
        "K_test is the kernel of the 5 test rows",
    ),
    "time": (lambda: linear.loss_flow(lambda f, y: 0.0, TRAIN.ntk, Y, np.inf), "finite times"),
    "get": (lambda: linear.fit_hyperparameters(NET, X, Y, get="both"), "get is 'nngp' or 'ntk', not 'both'"),
}


@pytest.mark.parametrize("case", BAD)
def test_error(case):
    attempt, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        attempt()


def test_nothing_is_no_array():
    for attempt in (
        lambda: linear.posterior(TRAIN.nngp, None),
        lambda: linear.gradient_flow(TRAIN.ntk, Y).train(1.0, None),
    ):
        with pytest.raises(TypeError, match="is None"):
            attempt()


def test_whole_numbers_keep_their_digits():
    assert linear.posterior(np.eye(2), np.array([16777217, 1])).mean[0] == 16777217


def test_flows_tell_of_negative_eigenvalues():
    with pytest.warns(UserWarning, match="eigenvalues down to -1 of the largest"):
        linear.gradient_flow(-TRAIN.ntk, Y)
