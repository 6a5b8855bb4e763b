"""`widelimit fit` and `widelimit predict`."""

import csv
import sys
import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.base import is_classifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from .. import estimators
from ..datasets import Table, write
from ..datasets.tables import SUFFIXES
from ..estimators import (
    NeuralKernelClassifier,
    NeuralKernelRegressor,
    SketchedRidgeClassifier,
    SketchedRidgeRegressor,
)
from . import common
from .common import command, report

_EXACT_ROWS = 4000  # more go by features
_CLASSES = 20  # distinct whole numbers that are taken for classes
_ESTIMATORS: dict[tuple[bool, bool], type] = {  # by (exact, classify)
    (True, True): NeuralKernelClassifier,
    (True, False): NeuralKernelRegressor,
    (False, True): SketchedRidgeClassifier,
    (False, False): SketchedRidgeRegressor,
}


_Target = Annotated[
    str | None, typer.Option(help="The column to learn: a name, or a place such as -1; of .npz, y if not said.")
]
_Out = Annotated[Path, typer.Option("--out", "-o", help="The model file to write.")]
_Task = Annotated[str, typer.Option(help="classify, regress, or auto: classes are texts, or few whole numbers.")]
_Method = Annotated[str, typer.Option(help=f"exact, sketched, or auto: exact up to {_EXACT_ROWS} rows.")]
_Holdout = Annotated[float, typer.Option(help="Share of rows kept apart to score the model; 0 for none.")]
_Components = Annotated[int, typer.Option(help="Random features of the sketched method.")]
_Penalty = Annotated[str, typer.Option(help="Ridge penalty: a number, or how to choose it: auto, loo, gcv, folds.")]
_Standardize = Annotated[bool, typer.Option(help="Bring columns to mean 0 and deviation 1 first.")]


@command
def fit(
    data: common.Data,
    *,
    target: _Target = None,
    out: _Out = Path("model.npz"),
    task: _Task = "auto",
    method: _Method = "auto",
    holdout: _Holdout = 0.2,
    components: _Components = 4096,
    penalty: _Penalty = "auto",
    standardize: _Standardize = True,
    network: common.NetworkOptions,
    drop: common.Drop = None,
    key: common.Key = None,
    seed: common.Seed = 0,
    force: common.Force = False,
    as_json: common.Json = False,
) -> None:
    """Learn a column of a table from the others, and write a model file.

    A part of the rows is kept apart, the model fitted to the others is scored on it, and the model that is written is fitted to
    all rows. The ridge penalty is chosen on training rows alone.

        widelimit fit iris.csv --target species --out iris.npz
    """
    common.new_file(out, force, (".npz",))
    _check_option("--task", task, ("auto", "classify", "regress"))
    _check_option("--method", method, ("auto", "exact", "sketched"))
    if not 0 <= holdout < 1:
        raise ValueError(f"--holdout is a share of the rows from 0 to below 1, not {holdout}.")
    start = time.perf_counter()
    table, y = _training_table(data, target, drop, key)
    common.check_images(network.arch, table.x, network.image_shape)
    common.check_size(data, table.x)
    classify = _is_classes(y) if task == "auto" else task == "classify"
    exact = len(table.x) <= _EXACT_ROWS if method == "auto" else method == "exact"
    options: dict[str, Any] = network.for_estimator() | {"penalty": _penalty(penalty), "progress": not as_json}
    options |= {} if exact else {"n_components": components, "random_state": seed}
    new_model = partial(_new_model, _ESTIMATORS[exact, classify], options, standardize and table.x.ndim != 4)
    read = time.perf_counter() - start
    scores = _score_held_out(new_model(), table.x, y, holdout, classify, seed)
    model = new_model().fit(table.x, y)
    result = _describe(table, y, classify, model) | scores
    _save(model, out, table, result)
    result |= {"seconds_to_read": read, "seconds": time.perf_counter() - start, "model": out}
    report(result, as_json, "Fitted")


@command
def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A file that `widelimit fit` wrote.")],
    data: common.Data,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Where to write: .csv, .parquet, .npz; else CSV to standard output."),
    ] = None,
    proba: Annotated[bool, typer.Option("--proba", help="Also the estimated probability of every class.")] = False,
    std: Annotated[
        bool,
        typer.Option("--std", help="Also the standard deviation of a new target, noise included; of exact regressors."),
    ] = False,
    score: Annotated[bool, typer.Option("--score", help="DATA has the target too: score the predictions.")] = False,
    drop: common.Drop = None,
    key: common.Key = None,
    force: common.Force = False,
    as_json: common.Json = False,
) -> None:
    """Predict the target of every row with a model file.

    Columns are found by the names the model was fitted with; others are left aside.

        widelimit predict iris.npz new.csv --out predictions.csv
    """
    if out is not None:
        common.new_file(out, force, SUFFIXES)
    fitted, about = estimators.load(model, with_about=True)
    _check_predictions(model, fitted, proba, std)
    target = about.get("target")
    if score and target is None:
        raise ValueError(f"{model}: does not say what its target is called, so --score cannot find it.")
    table = common.table_of(data, target if score else None, drop, key, about.get("names"))
    _last_step(fitted).progress = common.is_terminal() and not as_json
    columns = _predictions_with_std(fitted, table.x) if std else _columns("prediction", fitted.predict(table.x))
    if proba:
        probabilities = fitted.predict_proba(table.x)
        columns |= {f"p_{name}": probabilities[:, i] for i, name in enumerate(fitted.classes_)}
    result: dict[str, Any] = {"rows": len(table.x), "model": model}
    if score:
        result |= {"score": float(fitted.score(table.x, table.y)), "measure": _measure(is_classifier(fitted))}
    if out is not None:
        write(out, columns, overwrite=force)
        report({**result, "predictions": out}, as_json, "Predicted")
    elif as_json:
        report({**result, **columns}, True, "")
    else:
        _to_stdout(columns)
        if score:
            common.note(f"{result['measure']} {result['score']:.4g} on {result['rows']} rows")


def _training_table(
    data: Path, target: str | None, drop: list[str] | None, key: str | None
) -> tuple[Table, np.ndarray]:
    """The table of the file, and its column to learn."""
    if target is None and data.suffix != ".npz" and not str(data).startswith(common.BUNDLED):
        raise ValueError(f"{data}: say which column to learn with --target; `widelimit info {data}` lists them.")
    table = common.table_of(data, target, drop, key)
    if table.y is None:
        raise ValueError(f"{data}: has no array y. Say which to learn with --target.")
    if len(table.x) < 2:
        raise ValueError(f"{data}: has {len(table.x)} rows, and two are needed at least.")
    return table, table.y


def _check_predictions(path: Path, fitted: Any, proba: bool, std: bool) -> None:
    """Refuse a file that holds no model, and outputs that the model does not have."""
    if not hasattr(fitted, "predict"):
        raise ValueError(
            f"{path}: holds {type(fitted).__name__}, which predicts nothing. Give a model of `widelimit fit`."
        )
    last = _last_step(fitted)
    if proba and not is_classifier(last):
        raise ValueError("--proba is for classifiers, and this model is a regressor. For an exact one, use --std.")
    if std and not isinstance(last, NeuralKernelRegressor):
        raise ValueError(f"--std is for exact regressors, and this model is a {type(last).__name__}.")


def _predictions_with_std(fitted: Any, x: np.ndarray) -> dict[str, np.ndarray]:
    """Predictions, and standard deviations of new targets: of the function and of the noise."""
    last = _last_step(fitted)
    values, of_function = fitted.predict(x, return_std=True)
    noise = last.scale_ * last.penalty_  # a variance for each output
    deviations = np.sqrt(of_function**2 + (noise[0] if values.ndim == 1 else noise))
    return _columns("prediction", values) | _columns("std", deviations)


def _check_option(option: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{option} is one of {', '.join(known)}, not {value!r}.")


def _penalty(text: str) -> str | float:
    if text in ("auto", "loo", "gcv", "folds"):
        return text
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--penalty is a number, auto, loo, gcv or folds, not {text!r}.") from None


def _is_classes(y: np.ndarray) -> bool:
    return y.ndim == 1 and (y.dtype.kind in "UOb" or (y.dtype.kind in "iu" and len(np.unique(y)) <= _CLASSES))


def _split(y: np.ndarray, share: float, classify: bool, seed: int) -> tuple[np.ndarray, np.ndarray]:
    counts = np.unique(y, return_counts=True)[1] if classify else np.array([])
    rows = np.arange(len(y))
    stratify = y if classify and counts.min() >= 2 and min(share, 1 - share) * len(y) >= len(counts) else None
    train, test = train_test_split(rows, test_size=share, stratify=stratify, random_state=seed)
    return train, test


def _new_model(kind: type, options: dict[str, Any], standardize: bool) -> Any:
    """An estimator, behind a scaler of the columns of tables."""
    last = kind(**options)
    return Pipeline([("standardize", StandardScaler()), ("model", last)]) if standardize else last


def _score_held_out(
    model: Any, x: np.ndarray, y: np.ndarray, share: float, classify: bool, seed: int
) -> dict[str, Any]:
    """The score of the model on a share of the rows, fitted to the others; nothing for no share."""
    if not share:
        return {}
    train, test = _split(y, share, classify, seed)
    score = float(model.fit(x[train], y[train]).score(x[test], y[test]))
    return {"held_out_rows": len(test), "held_out_score": score, "measure": _measure(classify)}


def _describe(table: Table, y: np.ndarray, classify: bool, model: Any) -> dict[str, Any]:
    last = _last_step(model)
    return {
        "rows": len(table.x), "columns": int(np.prod(table.x.shape[1:])), "target": str(table.target),
        "task": "classify" if classify else "regress", "classes": np.unique(y) if classify else None,
        "estimator": type(last).__name__, "penalty": last.penalty_,
    }  # fmt: skip


def _save(model: Any, out: Path, table: Table, result: dict[str, Any]) -> None:
    """Write the model, with the names of the columns that `predict` looks for."""
    _last_step(model).progress = False
    about = {
        "target": None if table.target is None else str(table.target), "task": result["task"], "rows": len(table.x),
        "names": None if table.names is None else list(table.names), "held_out_score": result.get("held_out_score"),
    }  # fmt: skip
    estimators.save(model, out, about=about)


def _last_step(model: Any) -> Any:
    """The estimator itself, without the scaler before it."""
    return model[-1] if isinstance(model, Pipeline) else model


def _measure(classify: bool) -> str:
    return "accuracy" if classify else "R^2"


def _columns(name: str, values: np.ndarray) -> dict[str, np.ndarray]:
    if values.ndim == 1:
        return {name: values.astype(str) if values.dtype == object else values}
    return {f"{name}_{i}": values[:, i] for i in range(values.shape[1])}


def _to_stdout(columns: dict[str, np.ndarray]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
