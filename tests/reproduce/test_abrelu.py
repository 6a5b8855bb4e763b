"""The activation that a kernel informs: its slopes, and finite networks trained with it."""

import sys
from math import cos, pi

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import widelimit as wl
from widelimit.activations import CATALOGUE
from widelimit.datasets import Images
from widelimit.reproduce import abrelu, images, study

TINY = {
    "seed": 0, "width": 8, "epochs": 4, "train": 192, "held_out": 40, "test": 200, "fitted": 232, "pixels": 4, "batch": 16,
    "dtype": "float32",
}  # fmt: skip


def coloured(rng, count):
    """Images of noise with some red, or some blue."""
    y = rng.integers(2, size=count)
    tint = np.array([[30, 0, 0], [0, 0, 30]])[y][:, None, None]
    return np.clip(110 + tint + rng.normal(0, 20, (count, 8, 8, 3)), 0, 255).astype(np.uint8), y


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return Images(*coloured(rng, 232), *coloured(rng, 200), ("red", "blue"))


@pytest.fixture(scope="module")
def runs(data):
    configs = [TINY | {"activation": name} for name in ("PReLU", "ABReLU")]
    return [{"config": config, **abrelu.compute(config, data)} for config in configs]


def test_slopes_solve_both_equations():
    A, B = abrelu.fitted_slopes()
    np.testing.assert_allclose((A, B), (-0.095917364117, 1.410957072083), rtol=1e-11)
    assert (round(A, 3), round(B, 3)) == (-0.096, 1.411)  # as the paper prints them
    act = wl.ABRelu(A, B)
    np.testing.assert_allclose(wl.dual(act, 1.0, 1.0, np.array([1.0, -1.0])), np.exp([0, -2]), rtol=1e-14)
    assert CATALOGUE["abrelu"].b == pytest.approx(B, rel=1e-11)
    other = wl.ABRelu(*abrelu.fitted_slopes(0.5, 0.0))
    np.testing.assert_allclose([other.a, other.b], [0, 1], atol=1e-15)  # ReLU


def test_how_far_duals_are_from_the_gaussian():
    assert round(abrelu.off_gaussian(wl.ABRelu(*abrelu.fitted_slopes())), 4) == 0.0327
    assert abrelu.off_gaussian(wl.ExpNormalized()) < 1e-15
    assert abrelu.off_gaussian(wl.Relu()) == pytest.approx(np.exp(-2), rel=0.05)  # near c = -1, where its dual is 0


@pytest.mark.parametrize("name", ["erf", "ABReLU"])
def test_weights_of_the_standard_parameterisation_keep_variances(name):
    act = abrelu.ACTIVATIONS[name]
    net = abrelu.network(act, 10)
    assert net.output_shape((8, 8, 3), 16) == (10,)
    params = net.init(jax.random.key(0), (8, 8, 3), 16)
    weights = [part["W"] for part in params if part]
    assert all(np.all(part["b"] == 0) for part in params if part)
    for W in weights:
        own = W * np.sqrt(W[..., 0].size * float(wl.dual(act, 1.0, 1.0, 1.0)))
        assert abs(float(own.var()) - 1) < 4 * np.sqrt(2 / W.size)  # the standard error of a variance


def test_the_optimiser_is_sgd_with_momentum_and_decay():
    total, p = 5, np.array([1.0, -2.0])
    trained, velocity = jnp.asarray(p, jnp.float32), np.zeros(2)
    chain = abrelu.optimiser(total)
    memory = chain.init(trained)
    for step in range(total):
        gradient = np.array([0.3, -0.1]) * (step + 1)
        update, memory = chain.update(jnp.asarray(gradient, jnp.float32), memory, trained)
        trained = trained + update
        whole = gradient + 0.0005 * p
        velocity = 0.9 * velocity + whole
        p = p - 0.1 * (1 + cos(pi * step / total)) / 2 * (whole + 0.9 * velocity)
        np.testing.assert_allclose(trained, p, rtol=1e-6)


def test_an_epoch_is_the_same_as_one_loop_and_step_by_step():
    conv = wl.Conv((3, 3), b_std=0.0, parameterization="standard")
    net = wl.serial(conv, wl.LeakyRelu(0.25), wl.GlobalAvgPool(), wl.Dense(width=2, parameterization="standard"))
    x = jax.random.normal(jax.random.key(0), (6, 4, 4, 1))
    y, rows = jnp.arange(6) % 2, jnp.array([[0, 1, 2], [5, 3, 4]])
    trained = {"weights": net.init(jax.random.key(1), (4, 4, 1), 2), "slopes": [jnp.float32(0.25)]}
    state = trained, abrelu.optimiser(2).init(trained)
    by_steps, by_loop = (epoch(net, state, x, y, rows, 2) for epoch in (abrelu._epoch, abrelu._epoch_in_one_program))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), by_steps, by_loop)
    first = float(jnp.mean((net.apply(trained["weights"], x[:3]) - jnp.eye(2)[y[:3]]) ** 2))
    np.testing.assert_allclose(abrelu.mean_square(trained, net, x[:3], y[:3]), first, rtol=1e-5)
    assert all(slope != 0.25 for slope in by_steps[0][0]["slopes"])


# Some ten roundings of 2^-9, or 2^-12, one after the other, for which signs of half a per cent of the numbers change too: where
# slopes jump with the sign, gradients are off by the root of that.
@pytest.mark.parametrize(
    ("name", "dtype", "least"),
    [("PReLU", "bfloat16", 0.07), ("GELU", "bfloat16", 0.02), ("PReLU", "float16", 0.025), ("GELU", "float16", 0.0025)],
)
def test_half_precision_rounds_layers_and_nothing_else(name, dtype, least):
    net = abrelu.network(abrelu.ACTIVATIONS[name], 10)
    x = jax.random.normal(jax.random.key(0), (32, 8, 8, 3))
    own_slopes = [jnp.float32(0.25) for _ in abrelu.slopes(net)]
    trained = {"weights": net.init(jax.random.key(1), x.shape[1:], 32), "slopes": own_slopes}
    right, rounded = (jax.value_and_grad(abrelu.mean_square)(trained, net, x.astype(kind), jnp.arange(32) % 10)
                      for kind in ("float32", dtype))  # fmt: skip
    for exact, found in zip(jax.tree.leaves(right), jax.tree.leaves(rounded), strict=True):
        assert found.dtype == jnp.float32
        assert np.linalg.norm(found - exact) < least * np.linalg.norm(exact)
    outputs = np.asarray(abrelu._outputs(trained, net, x.astype(dtype)))
    assert np.any(outputs != outputs.astype(dtype).astype(np.float32))  # the read-out is not rounded


def test_an_order_has_every_row_at_most_once():
    rows = np.asarray(abrelu.shuffle(jax.random.key(0), 10, 4))
    assert rows.shape == (2, 4)
    assert len(set(rows.ravel())) == 8
    assert np.any(rows != np.asarray(abrelu.shuffle(jax.random.key(1), 10, 4)))
    assert abrelu.shuffle(jax.random.key(0), 3, 4).shape == (1, 3)


def test_networks_learn(runs):
    for run in runs:
        assert run[abrelu.LAST] > 0.5 + 4 * (0.25 / TINY["test"]) ** 0.5  # chance, and four standard errors of it
        assert run["losses"][-1] < run["losses"][0]
        assert run["epoch"] == 1 + int(np.argmax(run["held_out"]))
        assert run[abrelu.CHOSEN] == pytest.approx(run["test"][run["epoch"] - 1], abs=1e-4)
        assert run[abrelu.BEST] == max(run[abrelu.BEST], run[abrelu.CHOSEN], run[abrelu.LAST])
    slopes = runs[0]["slopes"]
    assert len(set(slopes)) == 4
    assert runs[1]["slopes"] == []


def test_tables_and_figures_of_a_part_and_of_several_sizes(runs, tmp_path):
    other = [run | {"config": run["config"] | {"width": 9, "seed": seed}} for run in runs[:1] for seed in (0, 1)]
    mixed = abrelu.table([*runs, *other])
    assert [(row["activation"], row["seeds"]) for row in mixed] == [("PReLU", 1), ("ABReLU", 1), ("PReLU", 2)]
    assert len({tuple(row) for row in mixed}) == 1
    assert mixed[0]["last epoch, %"] == f"{100 * runs[0][abrelu.LAST]:.2f}"
    assert mixed[2]["last epoch, %"] == f"{100 * runs[0][abrelu.LAST]:.2f} ± 0.00"
    assert mixed[1]["slopes"] == "-0.0959, 1.4110"
    for part, panels in (([], 2), (runs[:1], 4), ([*runs, *other], 6)):
        assert len(abrelu.draw(part).axes) == panels
    study.save_figure(abrelu.STUDY, runs, tmp_path / "a.svg")
    assert "0.0327" in (tmp_path / "a.svg").read_text()


def test_what_diverged_is_counted_and_in_no_mean(runs, tmp_path):
    wild = {"losses": [None], "slopes": [None] * 4, **dict.fromkeys(abrelu.KINDS, 0.1), "test": [0.1] * TINY["epochs"]}
    lost = [runs[0] | wild | {"config": runs[0]["config"] | {"seed": seed}} for seed in (1, 2)]
    (row,) = abrelu.table([runs[0], *lost])
    assert (row["seeds"], row["diverged"]) == (3, 2)
    assert row["last epoch, %"] == f"{100 * runs[0][abrelu.LAST]:.2f} (1 of 3 seeds)"
    assert row["slopes"].endswith(f"{runs[0]['slopes'][3]:.2f}; 1")
    (none,) = abrelu.table(lost)
    assert (none["diverged"], none["last epoch, %"], none["slopes"]) == (2, "", "")
    for part, count in (([runs[0], *lost], 2), (lost, 2)):
        study.save_figure(abrelu.STUDY, part, tmp_path / "a.svg")
        assert f"({count} diverged)" in (tmp_path / "a.svg").read_text()


def test_both_sizes_hold_out_images():
    for full in (False, True):
        configs = abrelu.settings(full)
        assert len(configs) == 15
        assert all(config["train"] + config["held_out"] <= 50_000 for config in configs)
        assert [config["activation"] for config in configs[:5]] == list(abrelu.ACTIVATIONS)


def test_images_are_averaged(data):
    x = np.arange(16.0).reshape(1, 4, 4, 1)
    np.testing.assert_array_equal(images.average(x, 2)[0, ..., 0], [[2.5, 4.5], [10.5, 12.5]])
    with pytest.raises(ValueError, match=r"4 x 4 pixels .* 3 x 3.*divisor"):
        images.average(x, 3)
    for train, message in (
        (1000, "1000 images to train are asked for, and the data has 232"),
        (200, "--train 200 and the 40 images held out are more than the 232 of the data. Give 192 or fewer"),
    ):
        with pytest.raises(ValueError, match=message):
            abrelu.compute(TINY | {"activation": "ReLU", "train": train}, data)


def test_without_optax(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "optax", None)
    with pytest.raises(ImportError, match=r'optax is not installed.*"widelimit\[experiments\]"'):
        abrelu.compute(TINY | {"activation": "ReLU"}, data)
