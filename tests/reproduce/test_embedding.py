"""The experiment on Theorems 4 and 5: its errors, its fits, and how it is shown."""

import jax
import numpy as np
import pytest
from scipy import linalg

from widelimit.reproduce import embedding, study


def test_the_spectral_error_is_that_of_generalised_eigenvalues():
    rng = np.random.default_rng(0)
    root, f = rng.normal(size=(12, 12)), rng.normal(size=(12, 5))
    K = root @ root.T
    values, vectors = np.linalg.eigh(K)
    shift = embedding.penalty(values, 3)
    np.testing.assert_allclose(np.trace(K @ np.linalg.inv(K + shift * np.eye(12))), 3, rtol=1e-9)
    found = linalg.eigh(f @ f.T + shift * np.eye(12), K + shift * np.eye(12), eigvals_only=True)
    expected = max(found.max() - 1, 1 - found.min())
    np.testing.assert_allclose(embedding.spectral_error(vectors.T @ f, values, shift), expected, rtol=1e-9)
    assert embedding.spectral_error(vectors.T @ root, values, shift) < 1e-10


def planted(power_of_m, power_of_s, noise=0.0):
    config = embedding.settings(False)[0]
    m, s = np.array(config["columns"])[:, None], np.array(config["dimensions"])
    factors = np.exp(noise * np.random.default_rng(0).normal(size=(config["keys"], len(m), len(s))))
    return {"config": config, "errors": (2.0 * m**power_of_m * s**power_of_s * factors).tolist()}


def test_exponents_are_found():
    found, errors = embedding.exponents(planted(-0.5, 0.4))
    np.testing.assert_allclose(found, [-0.5, 0.4], atol=1e-12)
    np.testing.assert_allclose(errors, 0, atol=1e-12)
    found, errors = embedding.exponents(planted(-0.5, 0.4, noise=0.1))
    assert np.all(errors > 1e-3)
    assert np.all(abs(found - [-0.5, 0.4]) < 2 * errors)
    few = planted(-0.5, 0.4)
    few["errors"] = np.where(np.array([128, 512, 2048])[:, None] < 32 * np.array([4, 16, 64]), 9, few["errors"])
    np.testing.assert_allclose(embedding.exponents(few)[0], [-0.5, 0.4], atol=1e-12)  # too few columns are left out
    assert embedding.constants(planted(-0.5, 0.5)) == pytest.approx({4: 2.0, 16: 2.0, 64: 2.0})
    assert embedding.constants(planted(-0.5, 1.0)) == pytest.approx({4: 4.0, 16: 8.0, 64: 16.0})


def test_slopes():
    x = np.array([64, 256, 1024, 4096])
    np.testing.assert_allclose(embedding.slope(x, 3e-4 * x**1.2), (1.2, 0), atol=1e-9)
    y = x**1.2 * np.array([1.1, 0.9, 0.9, 1.1])
    design = np.stack([np.ones(4), np.log(x)], -1)
    (_, expected), left, *_ = linalg.lstsq(design, np.log(y))
    power, error = embedding.slope(x, y)
    np.testing.assert_allclose(power, expected)
    deviation = (left / 2 * np.linalg.inv(design.T @ design)[1, 1]) ** 0.5
    np.testing.assert_allclose(error, 4.302652729696142 * deviation)  # Student's t, two degrees of freedom
    assert np.isnan(embedding.slope(x[:1], y[:1])).all()
    assert np.isnan(embedding.slope(x[:2], y[:2])[1])


@pytest.fixture(scope="module")
def runs():
    """One kernel by random weights, and made-up times of images of two sizes."""
    small = {"rows": 40, "keys": 6, "columns": [128, 2048], "dimensions": [4, 16]}
    plain = next(c for c in embedding.settings(False) if c.get("sketch") == "random weights") | small
    sizes = [c for c in embedding.settings(False) if "side" in c][:2]
    times = [
        {
            "config": c,
            "device": "cpu",
            "seconds a pair": 1e-9 * c["side"] ** 4,
            "seconds an image": 1e-6 * c["side"] ** 2,
        }
        for c in sizes
    ]
    return [{"config": plain, **embedding.compute(plain)}, *reversed(times)]


def test_the_error_of_random_weights_is_the_theorems(runs):
    """As the root of the columns, and below 2 sqrt(s / m) + s / m, the edge for Gaussian features of s whole dimensions."""
    errors = np.array(runs[0]["errors"])
    assert errors.shape == (6, 2, 2)
    (of_m, of_s), (about_m, about_s) = embedding.exponents(runs[0])
    assert abs(of_m + 0.5) < 2 * about_m < 0.5
    assert of_s - 2 * about_s > 0
    ratio = np.array([4, 16]) / np.array([128, 2048])[:, None]
    assert np.all(errors < 2 * np.sqrt(ratio) + ratio)
    found = np.array(runs[0]["errors"])[:, 1] * np.sqrt(2048 / np.array([4, 16]))
    assert embedding.constants(runs[0])[16] == pytest.approx(found[:, 1].max())
    assert not jax.config.values["jax_disable_most_optimizations"]


def test_any_part_of_the_runs_is_shown(runs, tmp_path):
    rows = embedding.table(runs)
    assert [row["power of"] for row in rows] == ["m", "s", "pixels", "pixels"]
    assert rows[2]["where"] == "16 x 16 pixels"
    np.testing.assert_allclose([row["exponent"] for row in rows[2:]], [2, 1])
    more = {"columns": [64, 1024], "keys": 2, "rows": 50}
    larger = {"config": runs[0]["config"] | more, "errors": np.ones((2, 2, 2)).tolist()}
    for part in (runs, runs[:1], runs[1:2], [*runs, larger]):
        assert study.as_text(embedding.table(part))
        study.save_figure(embedding.STUDY, part, tmp_path / "a.svg")
        text = (tmp_path / "a.svg").read_text()
        assert ("random weights" in text) == (runs[0] in part)
        assert ("exact, a pair" in text) == (runs[1] in part)
        assert all((f"NTK, {rows} rows" in text) == (larger in part) for rows in (40, 50))


def test_the_full_size_is_the_papers_kernels():
    cases = {(c["activation"], c["depth"], c["kernel"]) for c in embedding.settings(True) if "depth" in c}
    assert len(cases) == 12
    assert {c["side"] for c in embedding.settings(True) if "side" in c} == {8, 16, 24, 32, 48, 64}
