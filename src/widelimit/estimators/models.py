"""Models on disk: fitted estimators as arrays and JSON in one file, never pickle.

Estimators declare their own state (`storage.state`); here is what scikit-learn's own classes would declare, and how an
estimator or a Pipeline is written. What was drawn at random is stored, not its seed.
"""

import os
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from ..storage.format import MODEL, reading_arrays, write_arrays
from ..storage.state import check_state, declare, declared_state, is_storable, storable_class, storable_names
from ..storage.values import Decoder, Encoded, Encoder, add_kind

_COLUMNS = "n_features_in_"  # scikit-learn sets it in every fit,
_NAMES = "feature_names_in_"  # and this one of tables with names

declare(
    StandardScaler,
    {
        "mean_": "columns?",
        "var_": np.ndarray | None,
        "scale_": "columns?",
        "n_samples_seen_": int | float | np.ndarray,
    },
)


def save(
    model: BaseEstimator, path: str | os.PathLike[str], resumable: bool = False, about: dict[str, Any] | None = None
) -> None:
    """Write a fitted estimator of this package, or a Pipeline of such and StandardScaler, into one file; whole or not at all.

    `resumable` keeps what `partial_fit` needs to go on after `load`: n_components^2 numbers, or the features of the rows
    while they are fewer. `about` is whatever JSON holds and is to travel with the model, such as the names of columns.
    """
    check_is_fitted(model)
    encoder = Encoder(resumable)
    write_arrays(path, {"model": encoder.encode(model), "about": about or {}}, encoder.arrays)


def load(path: str | os.PathLike[str], with_about: bool = False) -> Any:
    """The estimator that `save` wrote, or with `with_about` a pair of it and what was said about it.

    Nothing in the file is executed.
    """
    with reading_arrays(path, MODEL) as (header, arrays):
        model, about = Decoder(arrays).decode(header["model"]), header["about"]
        if not isinstance(model, BaseEstimator):
            raise ValueError("it holds no estimator")
        if not isinstance(about, dict):
            raise ValueError("what it says about the model is no JSON object")
        return (model, about) if with_about else model


def _encode_estimator(model: BaseEstimator, encoder: Encoder) -> Encoded:
    cls = type(model)
    if not is_storable(cls):
        names = ", ".join(storable_names(BaseEstimator))
        raise TypeError(f"{cls.__name__} cannot be saved. A model file holds {names}, or a Pipeline of them.")
    saved = {*declared_state(cls), _COLUMNS, _NAMES}
    return {
        "estimator": cls.__name__,
        "parameters": {name: encoder.encode(value) for name, value in model.get_params(deep=False).items()},
        "fitted": {name: encoder.encode(value) for name, value in vars(model).items() if name in saved},
    }


def _decode_estimator(data: Encoded, decoder: Decoder) -> BaseEstimator:
    cls = storable_class(data["estimator"], BaseEstimator)
    parameters = {name: decoder.decode(value) for name, value in data["parameters"].items()}
    for name, parameter in signature(cls).parameters.items():
        if isinstance(parameter.default, bool) and not isinstance(parameters.get(name, True), int):
            raise ValueError(f"its {name} is {parameters[name]!r}, which is neither true nor false")
    model = cls(**parameters)
    fitted = {name: decoder.decode(value) for name, value in data["fitted"].items()}
    state = {_COLUMNS: int, **declared_state(cls)}
    unknown = set(fitted) - {*state, _NAMES}
    if unknown:
        raise ValueError(f"it has an unknown attribute {min(unknown)!r}")
    vars(model).update(fitted)
    _check(model, fitted, state)
    return model


def _check(model: Any, fitted: dict[str, Any], state: dict[str, Any]) -> None:
    """Whether the parts of a model fit together: a file may have been changed by hand."""
    sizes = {"columns": fitted.get(_COLUMNS, 0)}
    check_state(fitted, {name: kind for name, kind in state.items() if not isinstance(kind, str)}, sizes)
    if hasattr(model, "_sizes"):
        sizes.update(model._sizes())
    check_state(fitted, state, sizes)
    if np.shape(fitted.get(_NAMES, np.empty(sizes["columns"]))) != (sizes["columns"],):
        raise ValueError("its names of columns are not as many as its columns")
    if hasattr(model, "transform") and not hasattr(model, "map_"):
        model.transform(np.zeros((1, sizes["columns"])))


def _encode_pipeline(model: Pipeline, encoder: Encoder) -> Encoded:
    return {
        "pipeline": [[name, encoder.encode(step)] for name, step in model.steps if step not in (None, "passthrough")]
    }


def _decode_pipeline(data: Encoded, decoder: Decoder) -> Pipeline:
    steps = [(str(name), decoder.decode(step)) for name, step in data["pipeline"]]
    if not steps or len({name for name, _ in steps}) < len(steps):
        raise ValueError("its steps have no names of their own")
    columns = None
    for _, step in steps:
        if not is_storable(type(step)) or (step is not steps[-1][1] and not hasattr(step, "transform")):
            raise ValueError("a step of it is no estimator")
        if columns is not None and step.n_features_in_ != columns:
            raise ValueError(f"a step of it takes {step.n_features_in_} columns, and the one before gives {columns}")
        columns = getattr(step, "_n_features_out", step.n_features_in_)
    return Pipeline(steps)


add_kind("pipeline", Pipeline, _encode_pipeline, _decode_pipeline)
add_kind("estimator", BaseEstimator, _encode_estimator, _decode_estimator)
