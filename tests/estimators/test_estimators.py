"""The estimators: scikit-learn's own checks, what the issue promises, and how they agree with the kernels underneath."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import widelimit as wl
from helpers import damaged
from widelimit.estimators import (
    ZCA,
    ImageNormalizer,
    NeuralFeatures,
    NeuralKernel,
    NeuralKernelClassifier,
    NeuralKernelRegressor,
    SketchedRidgeClassifier,
    SketchedRidgeRegressor,
    load,
    save,
)
from widelimit.estimators.stream import Stream
from widelimit.estimators.targets import nearest_probabilities
from widelimit.regression.kernel import kernel_ridge

pytestmark = pytest.mark.xdist_group("estimators")  # which share programs
SMALL = {"depth": 1, "n_components": 64}
CHECKED = [
    NeuralKernelClassifier(depth=1), NeuralKernelRegressor(depth=1), SketchedRidgeClassifier(**SMALL),
    SketchedRidgeRegressor(**SMALL), NeuralFeatures(**SMALL), ZCA(), ImageNormalizer(),
]  # fmt: skip
DEFAULT = [
    NeuralKernelClassifier(), NeuralKernelRegressor(), SketchedRidgeClassifier(), SketchedRidgeRegressor(), NeuralFeatures(),
]  # fmt: skip
RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4))
Y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2
LABELS = np.array(["low", "middle", "high"])[np.digitize(Y, np.quantile(Y, [0.3, 0.6]))]


@parametrize_with_checks(CHECKED)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(DEFAULT)
def test_scikit_learns_checks_of_the_defaults(estimator, check):
    check(estimator)


def sketched(**options):
    return SketchedRidgeRegressor(**{**SMALL, "random_state": 0, **options})


def test_the_exact_regressor_is_kernel_ridge():
    model = NeuralKernelRegressor(depth=1, penalty=0.3).fit(X, Y)
    net = wl.nets.fully_connected(1, "gelu", 1.0, 0.5)
    K = net.kernel(X, get="ntk")
    expected = Y.mean() + K @ np.linalg.solve(K + 0.3 * np.eye(len(X)), Y - Y.mean())
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-10)


def test_filled_up_tables_have_the_same_kernel():
    """Five columns become eight."""
    x = RNG.normal(size=(10, 5))
    net = wl.nets.fully_connected(1, "gelu", 1.0, 0.5)
    np.testing.assert_allclose(NeuralKernel(depth=1, kernel="ntk")(x), net.kernel(x, get="ntk"), rtol=1e-12)


@pytest.mark.parametrize("by", ["loo", 5])
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_of_penalties_are_what_they_say(by, weighted):
    """Leave-one-out and folds by really leaving rows out; a row of weight 2 is there twice."""
    K = wl.nets.fully_connected(1, "gelu", 1.0, 0.5).kernel(X[:24], get="ntk")
    y, w = Y[:24], np.where(np.arange(24) % 3, 1, 2) if weighted else np.ones(24, int)
    penalties = [0.01, 1.0]
    path = kernel_ridge(K, y, penalties, w, by)
    rows = np.arange(24) if by != "loo" else np.repeat(np.arange(24), w)
    own = np.ones(24) if by == "loo" else w
    for penalty, score in zip(penalties, path.scores, strict=True):
        total, weight = 0.0, 0.0
        for k in range(len(rows) if by == "loo" else by):
            out = np.arange(len(rows)) == k if by == "loo" else np.arange(len(rows)) % by == k
            kept, left = rows[~out], rows[out]
            inverse = penalty * np.diag(1 / own[kept]) if by != "loo" else penalty * np.eye(len(kept))
            a = np.linalg.solve(K[np.ix_(kept, kept)] + inverse, y[kept])
            total += np.sum(own[left] * (K[np.ix_(left, kept)] @ a - y[left]) ** 2)
            weight += np.sum(own[left])
        assert score == pytest.approx(total / weight, rel=1e-8)


def test_gcv_is_the_same_from_rows_and_from_sums():
    few, many = (sketched(n_components=128, penalty="gcv") for _ in range(2))
    few.fit(X, Y)  # 120 rows: solved among rows
    many._check_first(X, Y)
    many._begin(1)
    many.stream_.gather()  # solved among features
    many.partial_fit(X, Y)
    np.testing.assert_allclose(many.predict(X), few.predict(X), rtol=1e-6)
    np.testing.assert_allclose(many.scores_, few.scores_, rtol=1e-6)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-8), (np.float32, 1e-4)])
@pytest.mark.parametrize("penalty", [0.1, "auto", "folds"])
def test_chunks_are_the_whole(dtype, tolerance, penalty):
    """From fewer rows than features to more, in chunks of any size."""
    x, whole, chunks = X.astype(dtype), sketched(penalty=penalty), sketched(penalty=penalty)
    w = RNG.uniform(0.5, 2, len(x))
    whole.fit(x, Y, sample_weight=w)
    for i in range(0, len(x), 37):
        chunks.partial_fit(x[i : i + 37], Y[i : i + 37], sample_weight=w[i : i + 37])
    assert chunks.penalty_ == pytest.approx(whole.penalty_)
    np.testing.assert_allclose(chunks.scores_, whole.scores_, rtol=max(tolerance, 1e-6))
    error = np.abs(chunks.predict(x) - whole.predict(x)).max()
    assert error < tolerance * np.abs(Y).max(), error


@pytest.mark.parametrize("weight", [0.5, 1.5])
def test_equal_weights_in_chunks_are_those_of_the_whole(weight):
    """Rows of less weight than 1 are no fewer rows: the sums begin where those of the whole do."""
    w, whole, chunks = np.full(len(X), weight), sketched(n_components=100), sketched(n_components=100)
    whole.fit(X, Y, sample_weight=w)
    for i in range(0, len(X), 37):
        chunks.partial_fit(X[i : i + 37], Y[i : i + 37], sample_weight=w[i : i + 37])
    assert chunks.penalty_ == pytest.approx(whole.penalty_)
    np.testing.assert_allclose(chunks.scores_, whole.scores_, rtol=1e-6)


def test_whole_weights_in_chunks_are_repeated_rows():
    """Rows become sums where repeated ones would."""
    w = RNG.integers(0, 4, len(X))
    assert len(X) < 128 < w.sum()
    weighted, repeated = sketched(n_components=128), sketched(n_components=128)
    for own in np.array_split(np.arange(len(X)), 4):
        weighted.partial_fit(X[own], Y[own], sample_weight=w[own])
        repeated.partial_fit(np.repeat(X[own], w[own], 0), np.repeat(Y[own], w[own]))
    assert weighted.penalty_ == pytest.approx(repeated.penalty_)
    np.testing.assert_allclose(weighted.scores_, repeated.scores_, rtol=1e-6)
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("penalty", [0.1, "loo", "folds"])
def test_blocks_of_features_are_one_block(monkeypatch, penalty, weighted):
    """Where features are computed for a few rows at a time, each row keeps its own target and weight."""
    w = RNG.uniform(0.5, 2, len(X)) if weighted else None
    whole = sketched(penalty=penalty).fit(X, Y, sample_weight=w)
    expected = whole.predict(X)
    monkeypatch.setattr(type(whole.map_), "batch_size", lambda *_: 32)
    assert len(next(whole.map_.blocks(X))) == 32
    blocks = sketched(penalty=penalty).fit(X, Y, sample_weight=w)
    np.testing.assert_allclose(blocks.scores_, whole.scores_, rtol=1e-5)
    np.testing.assert_allclose(blocks.predict(X), expected, atol=1e-5)
    np.testing.assert_allclose(whole.predict(X), expected, atol=1e-5)


@pytest.mark.parametrize(("weight", "rows"), [(2.0, 32), (0.1, 64), (1.0, 64)])
def test_rows_become_sums_when_they_are_as_many_as_features(weight, rows):
    """A row of weight 2 is two rows, one of weight 0.1 is one, and one of weight 0 is none."""
    w = np.full(rows, weight)
    w[0] = 0
    model = sketched().partial_fit(X[:rows], Y[:rows], sample_weight=w)
    assert model.stream_.rows is not None
    model.partial_fit(X[rows : rows + 1], Y[rows : rows + 1], sample_weight=[weight])
    assert model.stream_.rows is None


def test_partial_fit_only_adds_sums(monkeypatch):
    """The system is solved by the first read of an attribute, once."""
    solved = []
    solve = Stream._from_sums
    monkeypatch.setattr(Stream, "_from_sums", lambda self, again: solved.append(1) or solve(self, again))
    model = sketched().partial_fit(X, Y).partial_fit(X, Y)
    assert solved == []
    first = model.coef_
    model.predict(X)
    model.score(X, Y)
    assert (model.penalty_ in model.penalties_, model.coef_ is first, solved) == (True, True, [1])
    model.partial_fit(X[:1], Y[:1])
    assert solved == [1]
    assert not np.array_equal(model.coef_, first)


@pytest.mark.parametrize("penalty", ["gcv", "loo", "folds"])
def test_targets_far_from_zero(penalty):
    """A constant of 1e8 leaves 8 digits: the model is the same as without it."""
    near, far = sketched(penalty=penalty).fit(X, Y), sketched(penalty=penalty).fit(X, Y + 1e8)
    assert far.penalty_ == pytest.approx(near.penalty_)
    np.testing.assert_allclose(far.predict(X) - 1e8, near.predict(X), atol=1e-5)


@pytest.mark.parametrize("penalty", ["auto", "loo", "gcv"])
def test_whole_weights_are_repeated_rows(penalty):
    w = RNG.integers(0, 4, len(X))  # some 180 rows of 120
    kinds = (NeuralKernelRegressor(depth=1, penalty=penalty), sketched(penalty=penalty, n_components=128))
    for model in kinds:
        weighted, repeated = (
            clone(model).fit(X, Y, sample_weight=w),
            clone(model).fit(np.repeat(X, w, 0), np.repeat(Y, w)),
        )
        assert weighted.penalty_ == pytest.approx(repeated.penalty_)
        np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-6)
    exact = [clone(kinds[0]).fit(X, Y, sample_weight=w), clone(kinds[0]).fit(np.repeat(X, w, 0), np.repeat(Y, w))]
    stds = [model.predict(X, return_std=True)[1] for model in exact]
    np.testing.assert_allclose(stds[0], stds[1], atol=1e-6)


@pytest.mark.parametrize("model", [NeuralKernelRegressor(depth=1, penalty="folds"), sketched(penalty="folds")])
def test_rows_of_weight_zero_are_not_there(model):
    w = (np.arange(len(X)) % 3 > 0).astype(float)
    with_zeros, without = clone(model).fit(X, Y, sample_weight=w), clone(model).fit(X[w > 0], Y[w > 0])
    assert with_zeros.penalty_ == pytest.approx(without.penalty_)
    np.testing.assert_allclose(with_zeros.predict(X), without.predict(X), atol=1e-8)


def test_one_weight_for_all_rows():
    one = NeuralKernelRegressor(depth=1).fit(X, Y, sample_weight=2.0)
    many = NeuralKernelRegressor(depth=1).fit(X, Y, sample_weight=np.full(len(X), 2.0))
    np.testing.assert_array_equal(one.predict(X), many.predict(X))


def test_singular_kernels_have_deviations():
    x = np.repeat(X[:4], 5, axis=0)
    model = NeuralKernelRegressor(depth=1, activation="relu", b_std=0.0, penalty=0.0).fit(x, np.repeat(Y[:4], 5))
    mean, std = model.predict(X[:4], return_std=True)
    np.testing.assert_allclose(mean, Y[:4], atol=1e-6)
    assert np.all(std < 1e-5)


def test_parameters_set_after_the_fit_wait_for_the_next():
    features = NeuralFeatures(**SMALL).fit(X).set_params(n_components=16)
    assert len(features.get_feature_names_out()) == features.transform(X).shape[1] == 64
    model = NeuralKernelRegressor(depth=1, penalty=0.1).fit(X, Y)
    before = model.predict(X)
    np.testing.assert_array_equal(model.set_params(kernel="nngp", scale_rows=True).predict(X), before)


def test_leave_one_out_of_more_rows_than_features():
    model = sketched(penalty="loo").fit(X, Y)
    phi = model.map_(X)
    expected = kernel_ridge(phi @ phi.T, Y - Y.mean(), model.penalties_, by="loo")
    np.testing.assert_allclose(model.scores_, expected.scores, rtol=1e-5)
    with pytest.raises(ValueError, match="looks at every row a second time"):
        sketched(penalty="loo").partial_fit(X, Y).predict(X)


def test_classes_come_in_chunks():
    whole = SketchedRidgeClassifier(**SMALL, random_state=0).fit(X, LABELS)
    chunks = SketchedRidgeClassifier(**SMALL, random_state=0)
    for i in range(0, len(X), 50):
        chunks.partial_fit(X[i : i + 50], LABELS[i : i + 50], classes=["high", "low", "middle"])
    np.testing.assert_allclose(chunks.predict_proba(X), whole.predict_proba(X), atol=1e-8)
    assert list(chunks.classes_) == ["high", "low", "middle"]
    assert whole.score(X, LABELS) > 0.7
    with pytest.raises(ValueError, match="none of"):
        chunks.partial_fit(X[:2], ["low", "lower"])
    with pytest.raises(ValueError, match="needs classes="):
        SketchedRidgeClassifier(**SMALL).partial_fit(X, LABELS)


def test_few_rows_choose_their_penalty_by_leaving_one_out():
    """Where generalised cross-validation takes the smallest penalty there is."""
    x, y = load_iris(return_X_y=True)
    order = np.random.default_rng(1).permutation(150)
    x, y = ((x - x.mean(0)) / x.std(0))[order], y[order]
    auto, gcv = (
        SketchedRidgeClassifier(depth=1, n_components=128, random_state=0, penalty=p).fit(x[:100], y[:100])
        for p in ("auto", "gcv")
    )
    assert gcv.penalty_ == gcv.penalties_[0] < auto.penalty_
    assert auto.score(x[100:], y[100:]) > gcv.score(x[100:], y[100:])


def test_several_labels_and_outputs():
    both = np.stack([Y > 1, Y < 0], axis=1).astype(int)
    found = NeuralKernelClassifier(depth=1).fit(X, both)
    assert found.predict(X).shape == both.shape
    assert (found.predict(X) == both).mean() > 0.9
    two = np.stack([Y, -2 * Y], axis=1)
    mean, std = NeuralKernelRegressor(depth=1).fit(X, two).predict(X, return_std=True)
    np.testing.assert_allclose(mean[:, 1], -2 * mean[:, 0], rtol=1e-8)
    np.testing.assert_allclose(std[:, 1], 2 * std[:, 0], rtol=1e-8)


def test_deviations_are_those_of_a_gaussian_process():
    """Functions drawn from the prior: errors over deviations have a mean square of 1, as far as 5 standard errors."""
    net = wl.nets.fully_connected(1, "gelu", 1.0, 0.5)
    K = net.kernel(X, get="nngp")
    noise = 0.05
    factor = np.linalg.cholesky(K + 1e-10 * np.eye(len(X)))
    rng = np.random.default_rng(1)
    f = factor @ rng.normal(size=(len(X), 400))
    y = f[:64] + np.sqrt(noise) * rng.normal(size=(64, 400))
    model = NeuralKernelRegressor(net=net, kernel="nngp", penalty=noise).fit(X[:64], y)
    # the prior's mean and scale are known here; what is looked at are deviations and the likelihood's scale
    model.intercept_[:] = 0
    model.dual_coef_ = np.linalg.solve(K[:64, :64] + noise * np.eye(64), y)
    assert np.abs(model.scale_.mean() - 1) < 5 * model.scale_.std() / np.sqrt(400) + 1 / 64  # a mean was estimated
    model.scale_[:] = 1
    mean, std = model.predict(X[64:], return_std=True)
    z = np.mean(((mean - f[64:]) / std) ** 2, axis=0)  # of each function
    assert np.abs(z.mean() - 1) < 5 * z.std(ddof=1) / np.sqrt(400)


def test_probabilities_are_the_nearest():
    estimates = RNG.normal(size=(50, 4))
    found = nearest_probabilities(estimates)
    assert np.allclose(found.sum(1), 1)
    assert found.min() >= 0
    others = RNG.dirichlet(np.ones(4), size=2000)
    distances = ((estimates[:, None] - others) ** 2).sum(-1).min(1)
    assert np.all(((estimates - found) ** 2).sum(1) <= distances + 1e-12)
    inside = RNG.dirichlet(np.ones(4), size=5)
    np.testing.assert_allclose(nearest_probabilities(inside), inside)


def test_scaled_rows_do_not_change_by_a_factor():
    model = NeuralKernelRegressor(depth=1, scale_rows=True, penalty=0.1).fit(X, Y)
    np.testing.assert_allclose(model.predict(1e200 * X), model.predict(X), rtol=1e-9)
    assert np.all(np.isfinite(model.predict(np.zeros((2, 4)))))


def test_images_come_as_arrays_or_flat():
    images = RNG.normal(size=(8, 4, 4, 1))
    labels = np.arange(8) % 2
    made = NeuralKernelClassifier("conv", depth=1, activation="relu", penalty=1.0).fit(images, labels)
    flat = NeuralKernelClassifier("conv", depth=1, activation="relu", penalty=1.0, image_shape=(4, 4))
    flat.fit(images.reshape(8, -1), labels)
    np.testing.assert_array_equal(made.decision_function(images), flat.decision_function(images.reshape(8, -1)))
    np.testing.assert_array_equal(made.decision_function(images), made.decision_function(images.reshape(8, -1)))
    connected = NeuralKernelClassifier(depth=1, penalty=1.0).fit(images, labels)
    rows = NeuralKernelClassifier(depth=1, penalty=1.0).fit(images.reshape(8, -1), labels)
    np.testing.assert_allclose(
        connected.decision_function(images), rows.decision_function(images.reshape(8, -1)), rtol=1e-8
    )


BAD = {
    "arch": (lambda: NeuralKernelRegressor("mlp").fit(X, Y), "arch is one of fc"),
    "activation": (lambda: NeuralKernelRegressor(activation="rleu").fit(X, Y), "no activation named"),
    "kernel": (lambda: NeuralKernelRegressor(kernel="rbf").fit(X, Y), "kernel is 'ntk' or 'nngp'"),
    "depth": (lambda: NeuralKernelRegressor(depth=-1).fit(X, Y), "depth is a whole number"),
    "net": (lambda: NeuralKernelRegressor(net="fc").fit(X, Y), "net is a widelimit network"),
    "penalty": (lambda: NeuralKernelRegressor(penalty="aic").fit(X, Y), "penalty is a number of 0 or more"),
    "penalties": (lambda: NeuralKernelRegressor(penalties=[-1.0]).fit(X, Y), "penalties are numbers"),
    "many components": (lambda: SketchedRidgeRegressor(n_components=10**9).fit(X, Y), "n_components is a whole number"),
    "huge rows": (lambda: NeuralKernelRegressor(depth=1).fit(1e200 * X, Y), "Scale the rows"),
    "scale": (lambda: NeuralKernelRegressor(b_std=np.nan).fit(X, Y), "b_std is a finite number"),
    "no channels": (lambda: NeuralKernelRegressor("conv").fit(X.reshape(-1, 2, 2), Y), "height, width, channels"),
    "one class": (lambda: NeuralKernelClassifier().fit(X, ["a"] * 120), "has one class: a"),
    "components": (lambda: SketchedRidgeRegressor(n_components=0).fit(X, Y), "n_components is a whole number"),
    "rows for images": (lambda: NeuralKernelRegressor("myrtle5").fit(X, Y), "takes images"),
    "shape": (lambda: NeuralKernelRegressor("myrtle5", image_shape=(3, 3, 3)).fit(X, Y), "has 27 numbers"),
    "pixels": (
        lambda: NeuralKernelRegressor(
            net=wl.serial(wl.Conv((2, 2)), wl.Relu(), wl.Conv((1, 1))), image_shape=(2, 2, 1)
        ).fit(X, Y),
        "pixels",
    ),
    "no weights": (lambda: NeuralKernelRegressor().fit(X, Y, sample_weight=np.zeros(120)), "non-zero"),
    "labels": (lambda: NeuralKernelClassifier().fit(X, np.where(X > 0, 1, -1)), "y holds 0 and 1"),
    "side": (lambda: NeuralKernelRegressor("conv", image_shape=4).fit(X, Y), "image_shape is"),
    "grid": (lambda: NeuralKernelRegressor(penalties="abc").fit(X, Y), "penalties are numbers"),
    "weights": (lambda: NeuralKernelRegressor().fit(X, Y, sample_weight=-np.ones(120)), "[Nn]egative"),
    "few weights": (lambda: NeuralKernelRegressor().fit(X, Y, sample_weight=np.ones(7)), "X has 120 rows"),
    "gradient": (lambda: NeuralKernel()(X, X, eval_gradient=True), "Y=None"),
    "unit": (lambda: ImageNormalizer(unit="norm").fit(X), "unit is"),
    "regularization": (lambda: ZCA(regularization=-1).fit(X), "regularization is"),
}


@pytest.mark.parametrize("case", BAD)
def test_error(case):
    attempt, message = BAD[case]
    with pytest.raises((ValueError, TypeError), match=message):
        attempt()


def test_other_images_than_those_of_the_fit():
    images = RNG.normal(size=(4, 4, 4, 1))
    model = NeuralKernelRegressor("conv", depth=1, activation="relu", penalty=1.0).fit(images, np.arange(4.0))
    with pytest.raises(ValueError, match="the fit had"):
        model.predict(images[:, :2])


def test_pipelines_searches_and_pandas():
    frame, species = load_iris(return_X_y=True, as_frame=True)
    pipeline = make_pipeline(StandardScaler(), SketchedRidgeClassifier(**SMALL, random_state=0))
    assert cross_val_score(pipeline, frame, species, cv=3).mean() > 0.9
    search = GridSearchCV(pipeline, {"sketchedridgeclassifier__W_std": [0.5, 1.0]}, cv=3).fit(frame, species)
    assert search.best_score_ > 0.9
    features = NeuralFeatures(**SMALL, random_state=0).set_output(transform="pandas").fit(frame)
    found = features.transform(frame.iloc[:5])
    assert list(found.columns[:2]) == ["neuralfeatures0", "neuralfeatures1"]
    assert found.shape == (5, 64)
    assert list(features.feature_names_in_) == list(frame.columns)
    assert clone(features).get_params() == features.get_params()


def test_the_same_seed_gives_the_same_model():
    first, second = (sketched().fit(X, Y).predict(X) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, sketched(random_state=1).fit(X, Y).predict(X))


class TestNeuralKernel:
    def test_gradients(self):
        """Against central differences, whose error is of the order of the step squared."""
        kernel = NeuralKernel("gelu", 1, W_std=1.2, b_std=0.3, kernel="ntk")
        assert clone(kernel) == kernel
        np.testing.assert_allclose(np.exp(kernel.theta), [1.2, 0.3])
        K, gradient = kernel(X[:30], eval_gradient=True)
        np.testing.assert_allclose(K, kernel(X[:30]), rtol=1e-12)
        np.testing.assert_allclose(np.diag(K), kernel.diag(X[:30]), rtol=1e-12)
        for i in range(2):
            step = 1e-5 * np.eye(2)[i]
            ahead, behind = (kernel.clone_with_theta(kernel.theta + s)(X[:30]) for s in (step, -step))
            np.testing.assert_allclose(gradient[..., i], (ahead - behind) / 2e-5, atol=1e-7 * np.abs(gradient).max())

    def test_what_is_fixed_is_no_parameter(self):
        assert len(NeuralKernel(b_std_bounds="fixed").theta) == 1
        assert len(NeuralKernel(b_std=0.0).theta) == 1
        of_net = NeuralKernel(net=wl.serial(wl.Dense(), wl.Relu(), wl.Dense()))
        assert len(of_net.theta) == 0
        assert of_net(X[:5], eval_gradient=True)[1].shape == (5, 5, 0)

    def test_in_scikit_learns_models(self):
        kernel = NeuralKernel("gelu", 1)
        GaussianProcessRegressor(kernel, alpha=1e-2, optimizer=_one_step).fit(X[:30], Y[:30])  # adds alpha in place
        process = GaussianProcessRegressor(
            ConstantKernel(1.0) * NeuralKernel("gelu", 1, b_std_bounds=(1e-2, 1e2)) + WhiteKernel(0.1),
            optimizer=_one_step,
        ).fit(X[:30], Y[:30])
        fixed = GaussianProcessRegressor(process.kernel, optimizer=None).fit(X[:30], Y[:30])
        assert process.log_marginal_likelihood_value_ > fixed.log_marginal_likelihood_value_
        K, k = kernel(X[:60]), kernel(X[60:], X[:60])
        for of_rows, of_kernels, y in (
            (SVC(kernel=kernel), SVC(kernel="precomputed"), LABELS),
            (KernelRidge(kernel=kernel), KernelRidge(kernel="precomputed"), Y),
        ):
            found, expected = of_rows.fit(X[:60], y[:60]).predict(X[60:]), of_kernels.fit(K, y[:60]).predict(k)
            assert np.all(found == expected) if y is LABELS else np.allclose(found, expected, rtol=1e-8)


def _one_step(objective, theta, bounds):
    """A step down the gradient, half as long until it goes down."""
    value, gradient = objective(theta)
    step = 1 / np.linalg.norm(gradient)
    while objective(theta - step * gradient)[0] >= value:
        step /= 2
    return theta - step * gradient, objective(theta - step * gradient)[0]


def test_whitening():
    digits = load_digits().data
    whitened = ZCA(regularization=0.0).fit_transform(digits[:, 20:28])
    np.testing.assert_allclose(whitened.T @ whitened / len(whitened), np.eye(8), atol=1e-10)
    moments = digits.T @ digits / len(digits)
    values, vectors = np.linalg.eigh(moments)
    scale = 1 / np.sqrt(values + 0.1 * values.mean())  # the paper's: a share of the mean eigenvalue
    expected = digits @ (vectors * scale) @ vectors.T
    np.testing.assert_allclose(ZCA(center=False).fit_transform(digits), expected, atol=1e-9 * np.abs(expected).max())
    images = ImageNormalizer().fit_transform(digits.reshape(-1, 8, 8, 1))
    assert images.shape == (1797, 8, 8, 1)
    np.testing.assert_allclose(images.mean((1, 2, 3)), 0, atol=1e-15)
    np.testing.assert_allclose((images**2).sum((1, 2, 3)), 1)
    variance = ImageNormalizer(unit="variance").fit_transform(digits)
    np.testing.assert_allclose(variance.std(1), 1)
    assert np.all(ImageNormalizer().fit(np.ones((2, 3))).transform(np.full((2, 3), 0.1)) == 0)


MODELS = {
    "classifier": lambda: SketchedRidgeClassifier(**SMALL, random_state=0).fit(X, LABELS),
    "few rows": lambda: sketched(n_components=128).fit(X, Y),
    "pipeline": lambda: make_pipeline(StandardScaler(), SketchedRidgeClassifier(**SMALL, random_state=0)).fit(
        X, LABELS
    ),
    "exact": lambda: NeuralKernelClassifier(depth=1).fit(X, LABELS == "low"),
    "objects": lambda: NeuralKernelClassifier(depth=1, activation=wl.ABRelu(-0.1, 1.0)).fit(X, LABELS.astype(object)),
    "network": lambda: NeuralKernelRegressor(net=wl.nets.fully_connected(1, "erf")).fit(X, np.stack([Y, Y], 1)),
    "frame": lambda: NeuralKernelRegressor(depth=1).fit(pd.DataFrame(X, columns=list("abcd")), Y),
    "no penalty": lambda: NeuralKernelRegressor(depth=1, penalty=0.0).fit(X, Y),  # whose score is infinite
    "set later": lambda: sketched().fit(X, Y).set_params(n_components=16, penalty="folds"),
    "generator": lambda: sketched(random_state=np.random.RandomState(0)).fit(X, Y),
}


class TestModels:
    @pytest.mark.parametrize("name", MODELS)
    def test_round_trip(self, name, tmp_path):
        model = MODELS[name]()
        x = pd.DataFrame(X, columns=list("abcd")) if name == "frame" else X
        path = tmp_path / "model.npz"
        save(model, path, about={"who": "me"})
        again, about = load(path, with_about=True)
        assert about == {"who": "me"}
        np.testing.assert_array_equal(again.predict(x), model.predict(x))
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(x), model.predict(x))
        if name == "frame":
            assert list(again.feature_names_in_) == list("abcd")
            stds = [one.predict(x, return_std=True)[1] for one in (model, again)]  # of a loaded one computed anew
            np.testing.assert_allclose(stds[1], stds[0], rtol=1e-6, atol=1e-6 * stds[0].max())
            assert path.stat().st_size < 50_000  # the kernel is not in it
        assert [file.name for file in tmp_path.iterdir()] == ["model.npz"]

    def test_in_a_new_process(self, tmp_path):
        model = sketched().fit(X, Y)
        save(model, tmp_path / "model.npz")
        np.save(tmp_path / "x.npy", X)
        code = (
            "import sys, numpy as np; from widelimit.estimators import load; f = sys.argv[1]; "
            "np.save(f + '/y.npy', load(f + '/model.npz').predict(np.load(f + '/x.npy')))"
        )
        subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
        np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), model.predict(X))

    def test_learning_goes_on(self, tmp_path):
        whole = sketched().fit(X, Y)
        for cut in (30, 100):  # fewer rows than features, and more
            save(sketched().partial_fit(X[:cut], Y[:cut]), tmp_path / "part.npz", resumable=True)
            more = load(tmp_path / "part.npz").partial_fit(X[cut:], Y[cut:])
            np.testing.assert_allclose(more.predict(X), whole.predict(X), atol=1e-8)
        save(whole, tmp_path / "whole.npz")
        with pytest.raises(ValueError, match="resumable=True"):
            load(tmp_path / "whole.npz").partial_fit(X, Y)

    def test_weights_go_on_where_they_were(self, tmp_path):
        """Rows become sums where they would without the file: they count by their weights."""
        model = sketched(n_components=128).partial_fit(X[:60], Y[:60], sample_weight=np.full(60, 2.0))
        save(model, tmp_path / "part.npz", resumable=True)
        again = load(tmp_path / "part.npz")
        for one in (model, again):
            one.partial_fit(X[60:], Y[60:], sample_weight=np.full(60, 0.3))
        assert again.penalty_ == pytest.approx(model.penalty_)
        np.testing.assert_allclose(again.scores_, model.scores_, rtol=1e-8)
        np.testing.assert_allclose(again.predict(X), model.predict(X), atol=1e-8)

    def test_what_cannot_be_saved(self, tmp_path):
        with pytest.raises(TypeError, match="SVC cannot be saved"):
            save(make_pipeline(StandardScaler(), SVC()).fit(X, LABELS), tmp_path / "model.npz")
        model = NeuralKernelRegressor(depth=1).fit(X, Y)
        with pytest.raises(FileNotFoundError, match="Make it first"):
            save(model, tmp_path / "none" / "model.npz")
        model.net_ = wl.serial(wl.Dense(), wl.Elementwise(lambda t: t**2), wl.Dense())
        with pytest.raises(TypeError, match="register"):
            save(model, tmp_path / "model.npz")
        assert list(tmp_path.iterdir()) == []

    def test_foreign_files(self, tmp_path):
        path = tmp_path / "model.npz"
        for write, message in (
            (lambda: path.write_bytes(b""), "no model"),
            (lambda: path.write_bytes(pickle.dumps({"a": 1})), "no model"),
            (lambda: np.savez(path, x=X), "no model"),
            (lambda: np.savez(path, header=np.array([{"a": 1}], dtype=object)), "no model"),
            (lambda: np.savez(path, header=np.array('{"widelimit": 99}')), "format 99"),
            (lambda: np.savez(path, header=np.array('{"widelimit": 1, "model": {"evil": 1}}')), "unknown kind"),
            (lambda: sketched().fit(X, Y).map_.save(path), "load_features reads"),
        ):
            write()
            with pytest.raises(ValueError, match=message):
                load(path)
        with pytest.raises(FileNotFoundError):
            load(tmp_path / "nothing.npz")

    def test_files_changed_by_hand(self, tmp_path):
        """A file whose parts are sound and do not fit: an error, and not a model that fails later."""
        path = tmp_path / "model.npz"
        save(sketched().fit(X, Y), path)
        with np.load(path) as file:
            arrays = dict(file)
        good = str(arrays.pop("header"))
        for old, new in (
            ('"SketchedRidgeRegressor"', '"SketchedRidgeClassifier"'),
            ('"n_features_in_": 4', '"n_features_in_": 9'),
            ('"kernel": "ntk"', '"kernel": "foo"'),
            ('"one_output_": true', '"evil_": true'),
            ('"scale_rows_": false', '"scale_rows_": 3'),
            ('"columns": 64', '"columns": 65'),
            ('"widths": [', '"widths": [9'),
            ('"estimator"', '"estimatr"'),
        ):
            assert old in good, old
            np.savez(path, header=np.array(good.replace(old, new)), **arrays)
            with pytest.raises(ValueError, match="no model that can be read"):
                load(path)
        np.savez(path, header=np.array(good), **{**arrays, "array_0": np.nan * arrays["array_0"]})
        with pytest.raises(ValueError, match="NaN"):
            load(path)
        np.savez_compressed(path, header=np.array(good), **arrays)
        with pytest.raises(ValueError, match="compressed"):
            load(path)

    def test_five_hundred_damaged_files(self, tmp_path):
        """Bits flipped, pieces cut out, doubled or put in: the same model, or an error that names the file."""
        model = sketched(n_components=32).fit(X, Y)
        expected = model.predict(X[:4])
        path = tmp_path / "model.npz"
        save(model, path)
        good, rng, right = path.read_bytes(), np.random.default_rng(0), 0
        for _ in range(500):
            path.write_bytes(damaged(good, rng))
            try:
                found = load(path)
            except ValueError as error:
                right += str(path) in str(error)
            else:
                np.testing.assert_array_equal(found.predict(X[:4]), expected)
                right += 1
        assert right == 500
        assert [file.name for file in tmp_path.iterdir()] == ["model.npz"]


def test_iris_in_three_lines():
    x, y = load_iris(return_X_y=True)
    assert cross_val_score(make_pipeline(StandardScaler(), NeuralKernelClassifier()), x, y).mean() > 0.95
