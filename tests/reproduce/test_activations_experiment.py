"""The experiment that compares activations: its images, its kernels, and what it says of those that fail."""

import json

import numpy as np
import pytest

import widelimit as wl
from widelimit.activations import CATALOGUE
from widelimit.datasets import Images
from widelimit.reproduce import activations, study
from widelimit.reproduce.activations import ACTIVATIONS, PENALTIES, READINGS, ByNodes, classify, inputs

CLASSES = 3


def _images(rng, count):
    """Noise with a bright third, which tells the class."""
    x, y = rng.integers(100, size=(count, 8, 8, 3)), rng.integers(CLASSES, size=count)
    x[np.arange(count), :, :, y] += 100
    return x.astype(np.uint8), y


RNG = np.random.default_rng(0)
DATA = Images(*_images(RNG, 400), *_images(RNG, 40), ("a", "b", "c"))
SMALL = {"pixels": 4, "train": 40, "test": 30, "dtype": "float64", "penalties": PENALTIES}


def _run(network, name, nodes=None, **other):
    config = {"network": network, "activation": name, "nodes": nodes, **SMALL, **other}
    return {"config": config, **activations.compute(config, DATA)}


def test_every_activation_is_taken_or_left_out_for_a_reason():
    taken = [name for name, act in CATALOGUE.items() if act in ACTIVATIONS.values()]
    assert set(CATALOGUE) - set(taken) == {"gelu_tanh", "celu", "relu6", "polynomial", "rbf"}
    assert ACTIVATIONS["RBF(1/2)"] == wl.Rbf(0.5)
    both = [activations.settings(full) for full in (False, True)]
    for configs in both:
        assert configs == json.loads(json.dumps(configs))
        assert len({json.dumps(config) for config in configs}) == len(configs)
        for config in configs:
            assert config["train"] >= 2 * activations.HELD_OUT
            assert config["activation"] in ACTIVATIONS
    names = [{(c["network"], c["activation"], c["nodes"]) for c in configs} for configs in both]
    assert names[0] < names[1]


def test_images_have_mean_square_one():
    x, y = inputs(DATA, 4, 40, 30)
    assert x.shape == (70, 4, 4, 3)
    np.testing.assert_allclose(np.mean(x**2, axis=(1, 2, 3)), 1, rtol=1e-12)
    np.testing.assert_array_equal(y.argmax(1), [*DATA.y_train[:40], *DATA.y_test[:30]])
    blocks = DATA._replace(x_train=DATA.x_train.repeat(2, 1).repeat(2, 2), x_test=DATA.x_test.repeat(2, 1).repeat(2, 2))
    np.testing.assert_allclose(inputs(blocks, 8, 40, 30)[0], inputs(DATA, 8, 40, 30)[0], atol=1e-5)
    other = DATA._replace(x_train=DATA.x_train[::-1], y_train=DATA.y_train[::-1])
    assert not np.allclose(inputs(other, 8, 40, 30)[0][:40], inputs(DATA, 8, 40, 30)[0][:40])
    with pytest.raises(ValueError, match="41 images to test are asked for, and the data has 40"):
        inputs(DATA, 8, 40, 41)


@pytest.mark.parametrize("name", ["GELU", "t³"])
def test_kernels_are_those_of_the_normalised_activation(name, monkeypatch):
    seen = []
    monkeypatch.setattr(activations, "classify", lambda K, *others: seen.append(K) or {})
    _run("FC1", name)
    x, act = inputs(DATA, 4, 40, 30)[0].reshape(70, -1), ACTIVATIONS[name]
    unit = wl.Affine(act, float(wl.dual(act, 1.0, 1.0, 1.0)) ** -0.5)
    expected = wl.nets.fully_connected(1, unit).kernel(x, x[:40])
    for found, reading in zip(seen, READINGS, strict=True):
        np.testing.assert_allclose(found, getattr(expected, reading), rtol=1e-9)
    np.testing.assert_allclose(np.diag(seen[0]), 1, rtol=1e-9)


NORMS, COSINES = np.array([0.7, 1.0, 1.4]), np.array([[1, 0.3, -0.8], [0.3, 1, 0.1], [-0.8, 0.1, 1]])


@pytest.mark.parametrize("act", [wl.Gelu(), wl.Erf(0.7, 0.8, 0.2)])
def test_nodes_of_smooth_activations(act):
    points = NORMS[:, None], NORMS, COSINES
    for of in (wl.dual, wl.dual_slope):
        np.testing.assert_allclose(of(ByNodes(act, 64), *points), of(act, *points), rtol=1e-6)


def test_nodes_of_relu_miss_its_slope():
    slopes = [float(wl.dual_slope(act, 1.0, 1.0, 0.5)) for act in (ByNodes(wl.Relu(), 16), wl.Relu())]
    assert 1e-3 < abs(slopes[0] - slopes[1]) < 0.1


def test_the_penalty_knows_nothing_of_test_images():
    rng = np.random.default_rng(1)
    z, labels = rng.normal(size=(120, 4)), rng.integers(CLASSES, size=120)
    z[np.arange(120), labels] += 2
    y = np.eye(CLASSES)[labels]
    K = np.exp(z @ z[:60].T / 4)
    found = classify(K, y, 60, 20, PENALTIES)
    assert found["accuracy"] > 0.6
    assert found["error"] == pytest.approx((found["accuracy"] * (1 - found["accuracy"]) / 60) ** 0.5)
    other = classify(K, np.concatenate([y[:60], y[60:, ::-1]]), 60, 20, PENALTIES)
    assert other["penalty"] == found["penalty"]
    assert other["accuracy"] < found["accuracy"]
    centred = K[:60] - K[:60].mean(0) - K[:60].mean(1)[:, None] + K[:60].mean()
    assert found["varies"] == pytest.approx(np.trace(centred) / np.trace(K[:60]))


def test_kernels_that_fail_are_reported(tmp_path):
    y = np.eye(CLASSES)[np.random.default_rng(2).integers(CLASSES, size=60)]
    overflown = np.ones((60, 40))
    overflown[50, 3] = np.inf
    nothing = classify(overflown, y, 40, 10, PENALTIES)
    assert nothing == {"accuracy": None, "error": None, "penalty": None, "varies": None}
    assert classify(np.zeros((60, 40), np.float32), y, 40, 10, PENALTIES)["varies"] == 0
    constant = classify(np.ones((60, 40), np.float32), y, 40, 10, PENALTIES)
    assert constant["accuracy"] is None
    assert abs(constant["varies"]) < 1e-6
    runs = [_run("FC1", "t³"), _run("FC1", "ReLU"), _run("FC1", "ReLU", 4)]
    runs.append(runs[1] | {"config": runs[1]["config"] | {"train": 39}})  # another size has a panel of its own
    runs[0] |= {"ntk": nothing, "nngp": constant}
    rows = activations.table(runs)
    assert [row["NTK, %"] == "overflows" for row in rows] == [False, False, False, True]
    assert rows[-1]["NNGP, %"] == "constant"
    assert rows[0]["images"] == "39 of 4 x 4"
    assert {row["activation"] for row in rows[1:3]} == {"ReLU", "ReLU*"}
    other = runs[1] | {"config": runs[1]["config"] | {"dtype": "float32", "penalties": [1e-3, 1.0]}}
    names = {row["activation"] for row in activations.table([*runs, other])}
    assert "ReLU, float32, penalties from 0.001" in names  # runs of two grids or dtypes stay apart
    path = tmp_path / "a.svg"
    study.save_figure(activations.STUDY, runs, path)
    text = path.read_text()
    assert all(words in text for words in ("NTK overflows", "NNGP constant", "ReLU*", "39 training"))


def test_too_few_images_are_refused():
    with pytest.raises(ValueError, match="--train 9 leaves too few images to choose a penalty"):
        _run("FC1", "ReLU", train=9)


def test_convolutions_learn():
    runs = [_run("Myrtle-5", "ReLU", dtype="float32")]
    for reading in READINGS:
        assert runs[0][reading]["accuracy"] > 1 / CLASSES + 3 * (2 / 9 / SMALL["test"]) ** 0.5
    json.dumps(runs)
    activations.draw(runs)
