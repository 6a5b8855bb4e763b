"""Digits, methods, and what is measured of them."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.ndimage import map_coordinates
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.svm import SVC

from ...datasets import bundled
from ...estimators import NeuralKernelClassifier, SketchedRidgeClassifier

SHIFT, TURN = 1.0, 20.0  # pixels and degrees, at most
SEED = 0
EXACT, SKETCHED = "exact NTK", "sketched NTK"
_SIDE = 8
_WARM = 4096  # rows, at most, that compile all that more rows need

Matrix = Float[np.ndarray, "rows columns"]
Labels = Int[np.ndarray, " rows"]


class Digits(NamedTuple):
    """Images of digits as rows of 64 pixels, with their labels."""

    train: Matrix
    train_labels: Labels
    test: Matrix
    test_labels: Labels


class Accuracy(NamedTuple):
    """The share of test digits that are classified correctly, and its standard error."""

    share: float
    error: float

    def __str__(self) -> str:
        """As percentages."""
        return f"{100 * self.share:.1f} ± {100 * self.error:.1f} %"


class Score(NamedTuple):
    """Accuracy of a method, and seconds to choose its penalty, fit and predict: without and (`first`) with compilation."""

    accuracy: Accuracy
    seconds: float
    first: float


class Step(NamedTuple):
    """Seconds and accuracy of a fit to so many rows, compiled before; `kernel` is the exact kernel's part of the seconds."""

    rows: int
    seconds: float
    accuracy: Accuracy
    kernel: float = 0.0


class Crossing(NamedTuple):
    """The number of rows from which on the sketch is faster, and whether it is from a projection."""

    rows: float
    projected: bool


def digits(train_rows: int) -> Digits:
    """Scikit-learn's digits in a fixed stratified split."""
    x, y, *_ = bundled("digits")
    train, test, train_labels, test_labels = train_test_split(
        x, y, train_size=train_rows, stratify=y, random_state=SEED
    )
    return Digits(train, train_labels, test, test_labels)


def scale(data: Digits) -> Digits:
    """Every image with a mean square of 1."""
    train, test = (x / np.sqrt(np.mean(x**2, axis=1, keepdims=True).clip(min=1e-300)) for x in (data.train, data.test))
    return data._replace(train=train, test=test)


def move(x: Matrix, seed: int) -> Matrix:
    """Images shifted and turned at random, by at most `SHIFT` and `TURN`."""
    rng = np.random.default_rng(seed)
    down, right = rng.uniform(-SHIFT, SHIFT, (2, len(x), 1, 1))
    angle = np.deg2rad(rng.uniform(-TURN, TURN, (len(x), 1, 1)))
    middle = (_SIDE - 1) / 2
    i, j = np.mgrid[:_SIDE, :_SIDE] - middle
    rows = np.cos(angle) * i - np.sin(angle) * j + middle + down
    columns = np.sin(angle) * i + np.cos(angle) * j + middle + right
    image = np.broadcast_to(np.arange(len(x))[:, None, None], rows.shape)
    moved = map_coordinates(x.reshape(-1, _SIDE, _SIDE), [image, rows, columns], order=1)
    return moved.reshape(len(x), -1)


def grow(data: Digits, rows: int) -> Digits:
    """So many training rows, each a training digit that was moved; test digits are moved too, each once."""
    source = np.arange(rows) % len(data.train)
    return Digits(
        move(data.train[source], SEED + 1), data.train_labels[source], move(data.test, SEED + 2), data.test_labels
    )


def accuracy_of(correct: np.ndarray) -> Accuracy:
    """The accuracy, from whether each digit is classified correctly."""
    share = float(np.mean(correct))
    return Accuracy(share, float(np.sqrt(share * (1 - share) / len(correct))))


def methods(features: int, depth: int) -> dict[str, Any]:
    """The classifiers by name. Each chooses its penalty on the rows that it is fitted to."""
    return {
        EXACT: NeuralKernelClassifier(depth=depth),
        SKETCHED: SketchedRidgeClassifier(depth=depth, n_components=features, random_state=SEED),
        "RBF SVM": GridSearchCV(SVC(), {"C": [1.0, 10.0, 100.0]}, cv=5),
        "random forest": RandomForestClassifier(300, random_state=SEED),
        "logistic regression": GridSearchCV(LogisticRegression(max_iter=5000), {"C": [0.001, 0.01, 0.1, 1.0]}, cv=5),
    }


def score(name: str, classifier: Any, data: Digits) -> Score:
    """Fit and predict; methods that compile are timed twice, the second time without compilation."""
    seconds = []
    for _ in range(2 if name in (EXACT, SKETCHED) else 1):
        start = time.perf_counter()
        predicted = classifier.fit(data.train, data.train_labels).predict(data.test)
        seconds.append(time.perf_counter() - start)
    return Score(accuracy_of(predicted == data.test_labels), seconds[-1], seconds[0])


def step(classifier: Any, data: Digits, rows: int) -> Step:
    """Time the fit to the first rows of a classifier that was fitted before, and the exact kernel within it."""
    x, labels = data.train[:rows], data.train_labels[:rows]
    is_exact = isinstance(classifier, NeuralKernelClassifier)
    _ = classifier.net_.kernel(x, get="ntk") if is_exact else classifier.map_(x[:_WARM])  # compiles
    start = time.perf_counter()
    classifier.fit(x, labels)
    seconds = time.perf_counter() - start
    kernel = 0.0
    if is_exact:
        start = time.perf_counter()
        classifier.net_.kernel(x, get="ntk")
        kernel = min(time.perf_counter() - start, seconds)
    return Step(rows, seconds, accuracy_of(classifier.predict(data.test) == data.test_labels), kernel)


def project(measured: Sequence[Step], rows: float) -> float:
    """Seconds of the exact kernel for more rows, from the largest fit: n^2 for the kernel, n^3 for the rest."""
    last = measured[-1]
    ratio = rows / last.rows
    return last.kernel * ratio**2 + (last.seconds - last.kernel) * ratio**3


def crossover(exact: Sequence[Step], sketched: Sequence[Step]) -> Crossing | None:
    """The last crossing of the lines through the measured, then projected, seconds; logarithms are interpolated.

    The smallest size, if the sketch is faster from there on; None, if it is slower at the largest.
    """
    sizes = [s.rows for s in sketched]
    known = {s.rows: s.seconds for s in exact}
    gains = [np.log(known.get(s.rows, project(exact, s.rows)) / s.seconds) for s in sketched]
    slower = [i for i, gain in enumerate(gains) if gain <= 0]
    if not slower:
        return Crossing(sizes[0], False)
    i = slower[-1]
    if i == len(sizes) - 1:
        return None
    share = -gains[i] / (gains[i + 1] - gains[i])
    return Crossing(float(sizes[i] * (sizes[i + 1] / sizes[i]) ** share), sizes[i + 1] not in known)
