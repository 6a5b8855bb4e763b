"""Estimators: fit, partial_fit, predict, score, files; penalties from 1e-4 of the mean diagonal, which is about 1."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from widelimit import estimators

from . import draw
from .regression import weights

Made = dict[str, Any]
METHODS = ("predict", "predict_proba", "decision_function")
LEARNED = ("dual_coef_", "coef_", "intercept_", "penalty_", "penalties_", "scores_", "scale_", "classes_")


def _options(rng: np.random.Generator, images: bool) -> Made:
    penalty = draw.one(rng, (0.01, 1.0, 0.1, "auto", "loo", "gcv", "folds"))
    found: Made = {"penalty": penalty, "kernel": draw.one(rng, ("ntk", "ntk", "nngp")), "folds": 3}
    if isinstance(penalty, str):
        found["penalties"] = draw.one(rng, ([1e-3, 0.1, 10.0], [0.01, 1.0]))
    if images:
        return found | {"arch": "conv", "depth": 1, "activation": draw.activation(rng, 0.0)}
    if draw.likely(rng, 0.2):
        return found | {"net": draw.rows_network(rng, masks=False, computed=0.0)}
    act = draw.one(rng, ("gelu", "relu", draw.activation(rng, 0.05)))
    return found | {
        "depth": int(rng.integers(0, 3)), "activation": act, "W_std": draw.number(rng, 0.8, 1.4),
        "scale_rows": draw.likely(rng, 0.2),
    }  # fmt: skip


def _task(rng: np.random.Generator, count: int, images: bool) -> tuple[np.ndarray, np.ndarray, bool]:
    """Rows, targets, and whether they are classes."""
    x = draw.inputs(rng, count, (3, 3, 2) if images else draw.ROW, wild=False)
    smooth = np.sin(x.reshape(count, -1)[:, :3].sum(1))
    other = x.reshape(count, -1)[:, 1]
    three = np.where(smooth > 0.3, 2, np.where(other > 0, 1, 0))
    if draw.likely(rng, 0.5):
        labels = np.stack([smooth > 0, other > 0, three == 1], 1).astype(int)
        return x, draw.one(rng, (np.where(smooth > 0, "yes", "no"), three, labels)), True
    return x, draw.one(rng, (smooth, np.stack([smooth, other**2], 1))).astype(x.dtype), False


def _told(model: Any, x: np.ndarray, y: np.ndarray) -> Made:
    found: Made = {name: getattr(model, name)(x) for name in METHODS if hasattr(model, name)}
    found |= {name: getattr(model, name) for name in LEARNED if hasattr(model, name)}
    return found | {"score": model.score(x, y)}


def _loaded(model: Any) -> Any:
    with TemporaryDirectory() as folder:
        estimators.save(model, Path(folder) / "model.npz", resumable=True)
        return estimators.load(Path(folder) / "model.npz")


def exact(rng: np.random.Generator) -> Made:
    """`NeuralKernelClassifier` and `NeuralKernelRegressor`."""
    images = draw.likely(rng, 0.2)
    x, y, classes = _task(rng, 20, images)
    kind: Any = estimators.NeuralKernelClassifier if classes else estimators.NeuralKernelRegressor
    model = kind(**_options(rng, images))
    told: Made = {"options": repr(model)}
    model.fit(x[:15], y[:15], weights(rng, 15))
    if not classes:
        told["std"] = model.predict(x[15:], return_std=True)
    model = _loaded(model) if draw.likely(rng, 0.3) else model
    return told | _told(model, x[15:], y[15:])


def sketched(rng: np.random.Generator) -> Made:
    """`SketchedRidgeClassifier` and `SketchedRidgeRegressor`, at once or chunk by chunk, and in a pipeline."""
    images = draw.likely(rng, 0.15)
    x, y, classes = _task(rng, 36, images)
    kind: Any = estimators.SketchedRidgeClassifier if classes else estimators.SketchedRidgeRegressor
    seed = int(rng.integers(100))
    model = kind(**_options(rng, images), n_components=int(draw.one(rng, (12, 48))), random_state=seed)
    told, w = {"options": repr(model)}, weights(rng, 30)
    if not images and draw.likely(rng, 0.2):
        pipeline = make_pipeline(StandardScaler(), model).fit(x[:30], y[:30])
        return told | {name: getattr(pipeline, name)(x[30:]) for name in METHODS if hasattr(pipeline, name)}
    if draw.likely(rng, 0.5):
        model.fit(x[:30], y[:30], w)
    else:
        first = {"classes": list(range(3)) if y.ndim > 1 else np.unique(y)} if classes else {}
        for start in (0, 9, 18):
            part = slice(start, start + (9 if start < 18 else 12))
            model.partial_fit(
                x[part], y[part], **(first if start == 0 else {}), sample_weight=None if w is None else w[part]
            )
            if draw.likely(rng, 0.2):
                model = _loaded(model)
    return told | _told(model, x[30:], y[30:])


def transformers(rng: np.random.Generator) -> Made:
    """`NeuralFeatures`, `NeuralKernel`, `ImageNormalizer` and `ZCA`."""
    what = draw.one(rng, ("features", "kernel", "normalizer", "whitening"))
    x = draw.inputs(rng, 8, (3, 3, 2) if what in ("normalizer", "whitening") else draw.ROW, wild=what == "normalizer")
    if what == "kernel":
        kernel = estimators.NeuralKernel(draw.one(rng, ("relu", "gelu", "erf")), int(rng.integers(1, 3)))
        return {"kernel": kernel(x, eval_gradient=True), "cross": kernel(x, x[:3]), "diagonal": kernel.diag(x),
                "theta": kernel.theta, "text": repr(kernel)}  # fmt: skip
    model: Any = {
        "features": lambda: estimators.NeuralFeatures(depth=1, n_components=16, random_state=3),
        "normalizer": lambda: estimators.ImageNormalizer(draw.one(rng, ("length", "variance"))),
        "whitening": lambda: estimators.ZCA(draw.number(rng, 0.1, 1), draw.likely(rng, 0.5)),
    }[what]()
    found = model.fit(x).transform(x)
    return {"model": repr(model), "found": found, "loaded": _loaded(model).transform(x)}
