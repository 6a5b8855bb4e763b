"""Every activation of the catalogue against itself: its kernels, slopes, coefficients and derivatives must agree."""

from itertools import pairwise, product
from math import factorial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import widelimit as wl
from catalogue import ACTIVATIONS, COMPUTED, JUMPS, KERNEL_ONLY, each
from helpers import dual, dual_slope
from widelimit.activations.numerical import Numerical
from widelimit.numerics import cos_and_sin
from widelimit.storage.module import parameter

EVERY = each(ACTIVATIONS)
RADII = np.array([0.03, 0.4, 1.0, 1.7])
COSINES = np.array([-1.0, -0.9, -0.3, 0.0, 0.2, 0.7, 0.99, 1.0])
GRID = np.meshgrid(RADII, RADII, COSINES, indexing="ij")


def _tolerance(name):
    return 1e-11 if name in COMPUTED else 1e-12


@EVERY
def test_series_of_radial_coefficients_is_the_dual(name, x64):
    """k - sum r_l(a) r_l(b) c^l is bounded by what the series leaves out on the diagonal (Cauchy-Schwarz)."""
    act, degree = ACTIVATIONS[name], 24
    a, b, c = GRID
    r = np.asarray(act.radial(jnp.asarray(RADII), degree))
    partial = np.einsum("al,bl,cl->abc", r, r, COSINES[:, None] ** np.arange(degree + 1))
    diagonal = dual(act, RADII, RADII, np.ones_like(RADII))
    difference = np.abs(dual(act, a, b, c) - partial)
    if name == "from_dual":  # fitted for each radius by itself
        assert np.all(difference[range(4), range(4)] <= 1e-4 * diagonal[:, None])
        return
    assert np.all(diagonal - np.sum(r**2, -1) > -1e-12 * diagonal)
    left = np.maximum(diagonal - np.sum(r**2, -1), 0) + 1e-15 * diagonal  # a difference, known to its rounding
    slack = _tolerance(name) * np.sqrt(diagonal[:, None] * diagonal)
    assert np.all(difference <= (np.sqrt(left[:, None] * left) + slack)[..., None])


@pytest.mark.parametrize("name", [name for name in ACTIVATIONS if name not in KERNEL_ONLY])
def test_first_coefficients_are_the_moments_of_the_function(name, x64):
    """r_0 = E[f(a t)] and r_1 = E[f(a t) t], by a plain sum over a fine grid."""
    act = ACTIVATIONS[name]
    t = np.linspace(-12, 12, 400_001)
    weight = np.exp(-t * t / 2) / np.sqrt(2 * np.pi) * (t[1] - t[0])
    for std in (0.4, 1.7):
        values = np.asarray(act.fn(jnp.asarray(std * t)))
        r = np.asarray(act.radial(jnp.asarray(std), 1))
        scale = np.sqrt(np.sum(values**2 * weight))
        np.testing.assert_allclose(r, [values @ weight, (values * t) @ weight], rtol=0, atol=1e-7 * scale)


@each([name for name in ACTIVATIONS if name not in JUMPS])
def test_slope_is_the_derivative_of_the_dual(name, x64):
    """Theorem 3 of the paper: k'(a, b, c) = dk/dc / (a b), here by central differences."""
    act = ACTIVATIONS[name]
    a, b, c = (v[..., 1:-1].ravel() for v in GRID)
    step = 1e-5 * (1 - c**2)
    difference = (dual(act, a, b, c + step) - dual(act, a, b, c - step)) / (2 * step * a * b)
    slope, one = dual_slope(act, a, b, c), np.ones_like(c)
    scale = np.sqrt(dual_slope(act, a, a, one) * dual_slope(act, b, b, one))
    size = np.sqrt(dual(act, a, a, one) * dual(act, b, b, one))
    assert np.all(np.abs(difference - slope) <= 1e-5 * scale + 1e-13 * size / (step * a * b))


@each(["elementwise", "from_dual", "affine", "erf_shifted", "hard_tanh", "relu6", "softsign", "mish"])
def test_float32_agrees_with_float64(name):
    """For those without reference values; `test_references` has the others."""
    act = ACTIVATIONS[name]
    a, b, c = (v.astype(np.float32) for v in GRID)
    for fn in (dual, dual_slope):
        single, double = fn(act, a, b, c), fn(act, *(v.astype(np.float64) for v in (a, b, c)))
        assert single.dtype == np.float32
        assert double.dtype == np.float64
        one = np.ones_like(c, np.float64)
        scale = np.sqrt(fn(act, a.astype(float), a.astype(float), one) * fn(act, b.astype(float), b.astype(float), one))
        # the slope of a kernel given without its function is a derivative taken near c = 1 in steps of 2e-2
        tolerance = 1e-4 if name == "from_dual" and fn is dual_slope else 2e-6
        assert np.all(np.abs(single - double) <= tolerance * scale)


@each([name for name in ACTIVATIONS if name != "from_dual"])  # the user's formula decides
def test_finite_at_every_radius(name):
    """Radii from 0 to 1e8 and every cosine: finite where the true value is, and bounded by the diagonal."""
    act = ACTIVATIONS[name]
    for fn, dtype in product((dual, dual_slope), (np.float64, np.float32)):
        radii = np.array([0, 1e-8, 1e-4, 1, 1e4, 1e10], dtype)
        a, b, c = np.meshgrid(radii, radii, np.array([-1, -0.5, 0, 0.5, 1], dtype), indexing="ij")
        # at float32's limits the diagonal says, in float64, whether the value can be represented
        diagonal = [fn(act, v.astype(float), v.astype(float), np.ones(v.shape)) for v in (a, b)]
        values = fn(act, a, b, c)
        possible = np.maximum(*diagonal) < np.finfo(dtype).max / 1e4
        assert np.all(np.isfinite(values[possible]))
        if name in COMPUTED | KERNEL_ONLY:  # beyond a radius of 10, the slopes of a sharp bend are small and inexact
            possible &= np.maximum(a, b) <= 10
        bound = np.sqrt(diagonal[0]) * np.sqrt(diagonal[1])
        slack = 1e-4 if dtype == np.float32 else 1e-9
        assert np.all(np.abs(values[possible]) <= bound[possible] * (1 + slack) + np.finfo(dtype).tiny ** 0.4)


# Four ordinary pairs; then equal, opposite and zero ones, at which the singular term of a derivative is taken as 0.
MOMENTS = np.array(
    [
        [0.5, -0.4, 0.02, 1.1, 1.0, -1.0, 0.0, 0.0, 0.5],
        [0.8, 0.5, 0.3, 1.5, 1.0, 1.0, 0.0, 0.0, 0.25],
        [0.9, 1.6, 0.2, 1.1, 1.0, 1.0, 1.0, 0.0, 1.0],
    ]
)


@EVERY
def test_gradients(name, x64):
    """Of dual(cov, var1, var2) and its slope in all three moments: finite, and equal to finite differences."""
    act = ACTIVATIONS[name]

    @jax.jit
    def both(moments):
        """0.7 times the dual and the slope, summed, and its gradient: one program, which the differences use too."""

        def total(moments):
            values = 0.7 * act.dual(*moments) + act.dual_slope(*moments)
            return values.sum(), values

        return jax.grad(total, has_aux=True)(moments)

    gradient = both(MOMENTS)[0]
    assert np.all(np.isfinite(gradient))
    for i in range(3):
        step = 1e-5 * np.eye(3)[i][:, None]
        difference = (both(MOMENTS + step)[1] - both(MOMENTS - step)[1]) / 2e-5
        np.testing.assert_allclose(gradient[i, :4], difference[:4], rtol=2e-5, atol=2e-6)


@each([name for name in ACTIVATIONS if jax.tree.leaves(ACTIVATIONS[name])])
def test_parameters_are_differentiable(name, x64):
    act = ACTIVATIONS[name]
    leaves, treedef = jax.tree.flatten(act)
    assert all(isinstance(leaf, float) for leaf in leaves)

    @jax.jit
    def value(leaves):
        f = jax.tree.unflatten(treedef, leaves)
        return f.dual(0.3, 0.8, 0.9) + f.dual_slope(0.3, 0.8, 0.9)

    gradient = jax.grad(value)(leaves)
    for i in range(len(leaves)):
        up, down = (value([leaf + sign * 1e-5 * (j == i) for j, leaf in enumerate(leaves)]) for sign in (1, -1))
        np.testing.assert_allclose(gradient[i], (up - down) / 2e-5, rtol=1e-5, atol=1e-7)


def test_rounding_of_the_cosine_costs_a_kinked_slope_the_square_root_of_it():
    """Through cov and variances, c is off by some roundings near 1: the slope of ReLU then by sqrt(2 ulps eps) / (2 pi)."""
    for dtype in (np.float32, np.float64):
        eps = np.finfo(dtype).eps
        angles = np.logspace(np.log10(eps) / 2 - 1, 0, 60)
        var1, var2 = dtype(1.7), dtype(0.6)
        cov = (np.cos(angles) * np.sqrt(1.7 * 0.6)).astype(dtype)
        with jax.enable_x64(dtype == np.float64):
            slope = np.asarray(wl.Relu().dual_slope(cov, var1, var2))
        assert np.max(np.abs(slope - (np.pi - angles) / (2 * np.pi))) < np.sqrt(2 * 10 * eps) / (2 * np.pi)


def test_elementwise_finds_the_catalogue(x64):
    """A user's function gives the same kernel as the closed form, kinks at 0 or anywhere."""
    a, b, c = GRID
    pairs = [
        (wl.Elementwise(lambda t: jnp.maximum(t, 0)), wl.Relu()),
        (wl.Elementwise(lambda t: jnp.where(t > 0, t, jnp.expm1(t))), wl.Elu()),
        (wl.Elementwise(jnp.sin, kinks=()), wl.Sin()),
        (wl.Elementwise(lambda t: jnp.abs(t), kinks=(0.0, 0.3)), wl.Abs()),
    ]
    for found, known in pairs:
        for fn in (dual, dual_slope):
            expected = fn(known, a, b, c)
            scale = np.sqrt(fn(known, a, a, 1.0) * fn(known, b, b, 1.0))
            assert np.all(np.abs(fn(found, a, b, c) - expected) <= 1e-10 * scale)


def test_hard_tanh_is_a_sum_of_shifted_relus(x64):
    """By conditioning: E[f(u) f(v)] = int phi(x) f(a x) S(b c x, b s) dx with the inner mean in closed form."""
    from scipy.integrate import quad
    from scipy.special import ndtr

    def inner(m, tau, slope):
        z = [(m - kink) / tau for kink in (-1, 1)]
        if slope:
            return ndtr(z[0]) - ndtr(z[1])
        return -1 + sum(
            s * tau * (x * ndtr(x) + np.exp(-x * x / 2) / np.sqrt(2 * np.pi)) for s, x in zip((1, -1), z, strict=True)
        )

    for a, b, c in [(0.5, 1.25, 0.5), (3.0, 0.75, -0.9), (10.0, 4.0, 0.3), (1.0, 1.0, 0.95)]:
        s = np.sqrt(1 - c * c)
        for fn, outer, slope in (
            (dual, lambda t: np.clip(t, -1, 1), False),
            (dual_slope, lambda t: float(abs(t) < 1), True),
        ):
            points = [-1 / a, 1 / a, -1 / (b * c), 1 / (b * c)]
            pieces = np.unique(np.clip([-12, 0, 12, *points], -12, 12))
            integrand = lambda x: (
                np.exp(-x * x / 2) / np.sqrt(2 * np.pi) * outer(a * x) * inner(b * c * x, b * s, slope)
            )
            expected = sum(quad(integrand, *ends, epsabs=1e-13, epsrel=1e-12)[0] for ends in pairwise(pieces))
            assert abs(float(fn(wl.HardTanh(), a, b, c)) - expected) < 1e-10


def test_from_dual_takes_one_sided_limits(x64):
    """The slope of ReLU from its dual alone, at c = +-1 too: to 1e-8, and to 4e-6 in float32."""

    def relu_dual(cov, var1, var2):
        root = jnp.sqrt(var1 * var2)
        c = cov / root
        return root * (jnp.sqrt(1 - c**2) + (jnp.pi - jnp.arccos(c)) * c) / (2 * jnp.pi)

    c = np.array([-1, -1 + 1e-9, -1 + 1e-7, -0.5, 0, 0.5, 1 - 1e-7, 1 - 1e-9, 1])
    found = wl.dual_slope(wl.FromDual(relu_dual), 1.3, 0.7, c)
    np.testing.assert_allclose(found, wl.dual_slope(wl.Relu(), 1.3, 0.7, c), atol=1e-8)
    c = np.concatenate([c, 1 - np.logspace(-7, -3, 9), np.logspace(-7, -3, 9) - 1]).astype(np.float32)
    single = wl.dual_slope(wl.FromDual(relu_dual), *(np.float32(v) for v in (1.3, 0.7)), c)
    np.testing.assert_allclose(single, wl.dual_slope(wl.Relu(), 1.3, 0.7, c.astype(float)), atol=4e-6)


def test_from_dual_refuses_what_no_activation_has(x64):
    with pytest.raises(ValueError, match="negative"):
        wl.FromDual(lambda cov, var1, var2: var1 * var2 - cov**2).radial(jnp.asarray(1.0), 8)
    fitted = wl.FromDual(lambda cov, var1, var2: jnp.exp(cov)).radial(jnp.asarray([1.0]), 10)
    exact = wl.Exp(np.exp(-0.5)).radial(jnp.asarray([1.0]), 10)
    np.testing.assert_allclose(fitted, exact, atol=1e-3)
    with pytest.raises(TypeError, match="traced"):
        jax.jit(lambda s: wl.FromDual(lambda cov, v1, v2: cov).radial(s, 2))(1.0)


def test_affine_of_an_affine_function(x64):
    """A f(B t) + C with f = erf is erf's own scale, steepness and offset."""
    a, b, c = GRID
    inside, known = wl.Affine(wl.Erf(), 0.7, -1.3, 0.2), wl.Erf(0.7, -1.3, 0.2)
    for fn in (dual, dual_slope):
        np.testing.assert_allclose(fn(inside, a, b, c), fn(known, a, b, c), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(inside.radial(RADII, 9), known.radial(jnp.asarray(RADII), 9), rtol=1e-12, atol=1e-14)
    t = np.linspace(-3, 3, 9)
    np.testing.assert_allclose(inside.fn(t), known.fn(t), rtol=1e-12)


def test_gelu_slope_may_be_negative(x64):
    """k' of GELU at c = -1 is slightly negative for large a: correct, and not to be clipped."""
    assert -0.0028 < float(wl.dual_slope(wl.Gelu(), 20.0, 20.0, -1.0)) < -0.0027


@pytest.mark.parametrize("degree", [1, 4, 25, 40])
def test_hermite_polynomials_keep_their_digits_at_high_degree(degree, x64):
    """At unit radii k = n! c^n and its slope n n! c^(n-1)."""
    c = np.array([-1.0, -0.3, 0.5, 1.0])
    size = float(factorial(degree))
    np.testing.assert_allclose(wl.dual(wl.Hermite(degree), 1.0, 1.0, c), size * c**degree, rtol=1e-13)
    np.testing.assert_allclose(
        wl.dual_slope(wl.Hermite(degree), 1.0, 1.0, c), degree * size * c ** (degree - 1), rtol=1e-13
    )


def test_polynomials_at_radii_whose_powers_overflow():
    """(a b)^5 is of order 1 where a^5 and b^5 are out of the range of float32; t^5 + t is the larger of its parts."""
    a, b, c = np.float32(1e9), np.float32(1e-9), np.float32(0.5)
    ratio = wl.dual(wl.Monomial(5), 1.0, 1.0, 0.5)
    np.testing.assert_allclose(wl.dual(wl.Monomial(5), a, b, c), ratio, rtol=1e-5)
    mixed = wl.Polynomial((0.0, 1.0, 0.0, 0.0, 0.0, 1.0))
    expected = wl.dual(mixed, *(float(v) for v in (np.float32(1e8), b, c)))
    np.testing.assert_allclose(wl.dual(mixed, np.float32(1e8), b, c), expected, rtol=1e-5)


def test_parameters_become_floats():
    assert wl.Dense(1, np.float32(0.5)) == wl.Dense(1.0, 0.5)
    assert all(type(leaf) is float for leaf in jax.tree.leaves((wl.Sin(1, np.int64(2)), wl.Polynomial((1, 2)))))


def test_duals_keep_the_precision_of_numpy():
    double = wl.Gelu().dual(np.array([0.3]), 1.0, np.array([2.0]))
    assert isinstance(double, np.ndarray)
    assert double.dtype == np.float64
    assert wl.Gelu().radial(np.ones(3, np.float32), 4).dtype == np.float32
    assert isinstance(wl.Gelu().dual(jnp.ones(2), 1.0, 1.0), jax.Array)


def test_gradients_of_a_given_dual_at_the_ends_of_its_arccos(x64):
    """The dual of ReLU as a user would write it: its derivatives in the variances are finite and those of ReLU."""

    def relu_dual(cov, var1, var2):
        root = jnp.sqrt(var1 * var2)
        c = jnp.clip(cov / root, -1, 1)
        return root * (jnp.sqrt(1 - c**2) + (jnp.pi - jnp.arccos(c)) * c) / (2 * jnp.pi)

    moments = jnp.asarray([[1.0, -1.0, 0.3], [1.0, 1.0, 0.8], [1.0, 1.0, 0.9]])
    found, known = (
        jax.grad(lambda m, act=act: act.dual(*m).sum())(moments) for act in (wl.FromDual(relu_dual), wl.Relu())
    )
    np.testing.assert_allclose(found, known, atol=1e-6)


def test_coefficients_of_moving_kinks_at_high_degree_in_float32():
    r = wl.HardTanh().radial(np.float32([0.7, 3.0]), 150)
    expected = wl.HardTanh().radial(np.array([0.7, 3.0]), 150)
    np.testing.assert_allclose(r, expected, atol=2e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["tanh", "hard_tanh"])
def test_slopes_of_saturating_functions_at_large_radii(name, dtype):
    """Seen from afar f' is a delta function of mass f(inf) - f(-inf) = 2: k' = 4 times the density at 0, 1 / (2 pi a b s)."""
    a, b = np.array([1e4, 1e6, 1e8], dtype), np.array([1e5, 1e5, 1e8], dtype)
    expected = 4 / (2 * np.pi * a.astype(float) * b * np.sqrt(1 - 0.5**2))
    np.testing.assert_allclose(wl.dual_slope(ACTIVATIONS[name], a, b, dtype(0.5)), expected, rtol=1e-5)


def test_parameters_of_a_computed_activation_are_differentiable(x64):
    """A class like those of the catalogue, with a parameter inside its function."""

    class Swish(Numerical):
        beta: float = parameter(default=1.0)

        def fn(self, t):
            return t * jax.nn.sigmoid(self.beta * t)

        def bends(self):
            return ()

    value = jax.jit(lambda beta: Swish(beta).dual(0.3, 0.8, 0.9))
    difference = (value(1.0 + 1e-5) - value(1.0 - 1e-5)) / 2e-5
    np.testing.assert_allclose(jax.grad(value)(1.0), difference, rtol=1e-7)


def test_second_derivatives_where_the_slope_jumps(x64):
    """d2k/da2 of HardTanh, whose derivatives in the radii are expectations of functions that jump."""
    first = jax.jit(jax.grad(lambda a: wl.dual(wl.HardTanh(), a, jnp.asarray(1.0), jnp.asarray(0.5))))
    difference = (first(1.0 + 1e-5) - first(1.0 - 1e-5)) / 2e-5
    np.testing.assert_allclose(jax.jit(jax.grad(first))(1.0), difference, rtol=1e-7)


def test_cosines_and_sines_together(x64):
    x = jnp.concatenate([jnp.linspace(-10, 10, 10001), jnp.linspace(-1e4, 1e4, 10001)])
    for dtype in (jnp.float32, jnp.float64):
        narrow = x.astype(dtype)
        found = jnp.stack(cos_and_sin(narrow))
        exact = jnp.stack([jnp.cos(narrow.astype(jnp.float64)), jnp.sin(narrow.astype(jnp.float64))])
        assert abs(found - exact).max() < 4 * jnp.finfo(dtype).eps
        slope = jax.vmap(jax.grad(lambda t: cos_and_sin(t)[0]))(narrow)
        assert abs(slope + exact[1]).max() < 4 * jnp.finfo(dtype).eps
    assert abs(jnp.stack(cos_and_sin(jnp.float32(1e30)))).max() <= 1 + 4 * jnp.finfo(jnp.float32).eps
    assert wl.Sin().fn(0.5) == pytest.approx(np.sin(0.5))
