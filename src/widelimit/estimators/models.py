"""Models on disk: fitted estimators as arrays and JSON in one file, never pickle.

An .npz file holds a JSON header, which describes the estimator, and the arrays it refers to by number. Reading makes only
what the tables below name: estimators of this package, StandardScaler and Pipeline of scikit-learn, networks, feature maps
and plain values. What was drawn at random is stored, not its seed.
"""

import json
import os
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from ..activations import Activation
from ..features.feature_map import FeatureMap, rebuilt_map
from ..layers import Nonlinearity
from ..network import Network, from_json, serial
from ..regression.sums import RidgeState
from ..storage.files import atomic_file, described_file
from .exact import NeuralKernelClassifier, NeuralKernelRegressor
from .features import NeuralFeatures, Sketched
from .images import ZCA, ImageNormalizer
from .inputs import Neural
from .sketched_ridge import SketchedRidge, SketchedRidgeClassifier, SketchedRidgeRegressor
from .stream import Choice, Solution, Stream, Sums

_FORMAT = 1
_MISSING = object()
_NAMES = "feature_names_in_"
_ESTIMATORS: dict[str, type[BaseEstimator]] = {
    kind.__name__: kind
    for kind in (
        ZCA, ImageNormalizer, NeuralFeatures, NeuralKernelClassifier, NeuralKernelRegressor, SketchedRidgeClassifier,
        SketchedRidgeRegressor, StandardScaler,
    )
}  # fmt: skip
_TUPLES: dict[str, Any] = {kind.__name__: kind for kind in (Choice, RidgeState, Solution, Sums)}
_TABLE = {"n_features_in_": int}
_OF_ROWS = {**_TABLE, "net_": Network, "image_shape_": tuple | None, "scale_rows_": bool}
_OF_FEATURES = {**_OF_ROWS, "map_": FeatureMap}
_EXACT = {
    **_OF_ROWS, "kernel_": str, "X_fit_": np.ndarray, "dual_coef_": np.ndarray, "intercept_": np.ndarray,
    "penalty_": float, "penalties_": np.ndarray, "scores_": np.ndarray,
}  # fmt: skip
_CLASSES = {"classes_": np.ndarray, "multilabel_": bool}
# What a fitted estimator consists of; `feature_names_in_` where it had any.
_FITTED: dict[str, dict[str, Any]] = {
    "ZCA": {**_TABLE, "mean_": np.ndarray, "whitening_": np.ndarray},
    "ImageNormalizer": _TABLE,
    "StandardScaler": {
        **_TABLE, "mean_": np.ndarray | None, "var_": np.ndarray | None, "scale_": np.ndarray | None,
        "n_samples_seen_": int | float | np.ndarray,
    },
    "NeuralFeatures": _OF_FEATURES,
    "SketchedRidgeClassifier": {**_OF_FEATURES, **_CLASSES, "stream_": Stream},
    "SketchedRidgeRegressor": {**_OF_FEATURES, "one_output_": bool, "stream_": Stream},
    "NeuralKernelClassifier": {**_EXACT, **_CLASSES},
    "NeuralKernelRegressor": {**_EXACT, "one_output_": bool, "root_": np.ndarray, "scale_": np.ndarray},
}  # fmt: skip


def save(
    model: BaseEstimator, path: str | os.PathLike, resumable: bool = False, about: dict[str, Any] | None = None
) -> None:
    """Write a fitted estimator of this package, or a Pipeline of such and StandardScaler, into one file; whole or not at all.

    `resumable` keeps what `partial_fit` needs to go on after `load`: n_components^2 numbers, or the features of the rows
    while they are fewer. `about` is whatever JSON holds and is to travel with the model, such as the names of columns.
    """
    check_is_fitted(model)
    writer = _Writer(resumable)
    header = json.dumps({"widelimit": _FORMAT, "model": writer.said(model), "about": about or {}})
    named: dict[str, Any] = {f"array_{i}": array for i, array in enumerate(writer.arrays)}
    with atomic_file(path) as file:
        np.savez(file, header=np.array(header), **named)


def load(path: str | os.PathLike, with_about: bool = False) -> Any:
    """The estimator that `save` wrote, or with `with_about` a pair of it and what was said about it.

    Nothing in the file is executed.
    """
    with described_file(path, _FORMAT, "model", "`widelimit fit` or widelimit.estimators.save") as (header, arrays):
        if "model" not in header:
            raise ValueError("it holds a feature map, which widelimit.load_features reads")
        model = _Reader(arrays).heard(header["model"])
        if not isinstance(model, BaseEstimator):
            raise ValueError("it holds no estimator")
        for part in [part for _, part in model.steps] if isinstance(model, Pipeline) else [model]:
            if type(part).__name__ not in _FITTED:
                raise ValueError("a step of it is no estimator")
            _check(part)
        about = header["about"]
        if not isinstance(about, dict):
            raise ValueError("what it says about the model is no JSON object")
        return (model, about) if with_about else model


def _check(model: Any) -> None:
    """Whether the parts of a model fit together: a file may have been changed by hand."""
    for name, kind in _FITTED[type(model).__name__].items():
        if not isinstance(getattr(model, name, _MISSING), kind):
            raise ValueError(f"its {name} is missing, or of another kind")
    columns = model.n_features_in_
    names = getattr(model, "feature_names_in_", None)
    shapes: list[tuple[Any, tuple[int, ...]]] = [] if names is None else [(names, (columns,))]
    if isinstance(model, ZCA):
        shapes += [(model.mean_, (columns,)), (model.whitening_, (columns, columns))]
    elif isinstance(model, StandardScaler):
        shapes += [(array, (columns,)) for array in (model.mean_, model.scale_) if array is not None]
    elif isinstance(model, Neural):
        model._network()
        outputs = _outputs(model)
        if isinstance(model, Sketched):
            if model.map_.input_shape != model._input_shape():
                raise ValueError("its features are of other inputs")
            if isinstance(model, SketchedRidge):
                found: Any = model.stream_.found
                shapes += [(found.coef, (model.map_.columns, outputs)), (found.intercept, (outputs,))]
        else:
            rows = len(model.X_fit_)
            shapes += [
                (model.X_fit_, (rows, columns)),
                (model.dual_coef_, (rows, outputs)),
                (model.intercept_, (outputs,)),
            ]
            if isinstance(model, NeuralKernelRegressor):
                shapes += [(model.root_, (rows,)), (model.scale_, (outputs,))]
    for array, shape in shapes:
        if np.shape(array) != shape:
            raise ValueError("its arrays do not fit together")
        if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
            raise ValueError("its arrays hold NaN or infinity")


def _outputs(model: Any) -> int:
    if hasattr(model, "classes_"):
        return 1 if len(model.classes_) == 2 and not model.multilabel_ else len(model.classes_)
    return model.stream_.outputs if isinstance(model, SketchedRidge) else len(getattr(model, "intercept_", ()))


class _Writer:
    """Values as JSON, and the arrays that it refers to."""

    def __init__(self, resumable: bool):
        self.resumable = resumable
        self.arrays: list[np.ndarray] = []

    def said(self, value: Any) -> Any:
        """One value: plain ones as they are, others as an object of one key that says what it is."""
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, int | float):
            return value if np.isfinite(value) else {"number": str(value)}
        if isinstance(value, np.random.RandomState | np.random.Generator):
            return None  # a generator has moved on; what it drew is in the file
        if isinstance(value, Network):
            return {"network": json.loads(value.to_json())}
        if isinstance(value, Activation):
            return {"activation": json.loads(serial(value).to_json())}
        if isinstance(value, FeatureMap):
            header, arrays = value.described()
            return {"map": header, "arrays": [self._kept(array) for array in arrays]}
        if isinstance(value, Stream):
            return {"stream": self._of_stream(value)}
        if type(value).__name__ in _TUPLES and isinstance(value, tuple):
            return {"tuple": type(value).__name__, "values": [self.said(v) for v in value]}
        if isinstance(value, np.ndarray):
            return self._of_array(value)
        if isinstance(value, list | tuple):
            said = [self.said(v) for v in value]
            return said if isinstance(value, list) else {"items": said}
        if isinstance(value, BaseEstimator):
            return self._of_estimator(value)
        raise TypeError(f"A model file holds numbers, texts, arrays and networks, not {value!r}.")

    def _kept(self, array: np.ndarray) -> int:
        self.arrays.append(array)
        return len(self.arrays) - 1

    def _of_array(self, value: np.ndarray) -> Any:
        if value.dtype.kind in "biufU":
            return {"array": self._kept(value)}
        if value.dtype.kind == "O" and all(isinstance(v, str | int | float) for v in value.ravel()):
            return {"objects": self.said(value.ravel().tolist()), "shape": list(value.shape)}
        raise TypeError(f"A model file holds arrays of numbers and texts, not of {value.dtype}.")

    def _of_stream(self, stream: Stream) -> Any:
        kept: dict[str, Any] = {"rows": None, "sums": [], "shift": None}
        if self.resumable:
            rows = None if stream.rows is None else [[phi, y, w] for phi, y, w in stream.rows]
            kept = {"rows": self.said(rows), "sums": self.said(stream.sums), "shift": self.said(stream.shift)}
        return {
            **kept, "features": stream.features, "outputs": stream.outputs, "choice": self.said(stream.choice),
            "folds": int(stream.folds), "count": stream.count, "effective": stream.effective,
            "found": self.said(stream.solution()),
        }  # fmt: skip

    def _of_estimator(self, model: BaseEstimator) -> Any:
        kind = type(model).__name__
        if isinstance(model, Pipeline):
            return {
                "pipeline": [[step, self.said(part)] for step, part in model.steps if part not in (None, "passthrough")]
            }
        if _ESTIMATORS.get(kind) is not type(model):
            raise TypeError(
                f"{kind} cannot be saved. A model file holds {', '.join(_ESTIMATORS)}, or a Pipeline of them."
            )
        fitted = {name: value for name, value in vars(model).items() if name in (*_FITTED[kind], _NAMES)}
        return {
            "estimator": kind,
            "parameters": {key: self.said(value) for key, value in model.get_params(deep=False).items()},
            "fitted": {key: self.said(value) for key, value in fitted.items()},
        }


class _Reader:
    """Values of JSON and arrays."""

    def __init__(self, arrays: list[np.ndarray]):
        self.arrays = arrays

    def heard(self, said: Any) -> Any:
        """One value; what is not in the tables is refused."""
        if isinstance(said, list):
            return [self.heard(value) for value in said]
        if not isinstance(said, dict):
            return said
        for kind, read in (
            ("number", lambda: float(said["number"])),
            ("network", lambda: from_json(json.dumps(said["network"]))),
            ("activation", lambda: _activation(from_json(json.dumps(said["activation"])))),
            ("map", lambda: rebuilt_map(said["map"], [self.arrays[i] for i in said["arrays"]], from_json)),
            ("stream", lambda: self._of_stream(said["stream"])),
            ("tuple", lambda: _TUPLES[said["tuple"]](*(self.heard(v) for v in said["values"]))),
            ("array", lambda: self.arrays[said["array"]]),
            ("objects", lambda: _objects(self.heard(said["objects"]), said["shape"])),
            ("items", lambda: tuple(self.heard(v) for v in said["items"])),
            ("pipeline", lambda: Pipeline([(str(step), self.heard(part)) for step, part in said["pipeline"]])),
            ("estimator", lambda: self._of_estimator(said)),
        ):
            if kind in said:
                return read()
        raise ValueError(f"it has a part of an unknown kind, {sorted(said)[:3]}")

    def _of_stream(self, said: dict[str, Any]) -> Stream:
        stream = Stream(int(said["features"]), int(said["outputs"]), self.heard(said["choice"]), int(said["folds"]))
        rows = self.heard(said["rows"])
        stream.rows = None if rows is None else [(phi, y, w) for phi, y, w in rows]
        stream.shift, stream.effective = self.heard(said["shift"]), float(said["effective"])
        stream.sums, stream.count, stream.found = (
            self.heard(said["sums"]) or [],
            int(said["count"]),
            self.heard(said["found"]),
        )
        return stream

    def _of_estimator(self, said: dict[str, Any]) -> BaseEstimator:
        model = _ESTIMATORS[said["estimator"]](**{key: self.heard(value) for key, value in said["parameters"].items()})
        for name, value in said["fitted"].items():
            if name not in (*_FITTED[said["estimator"]], _NAMES):
                raise ValueError(f"it has an unknown attribute {name!r}")
            setattr(model, name, self.heard(value))
        return model


def _activation(net: Network) -> Activation:
    (layer,) = net.layers
    if not isinstance(layer, Nonlinearity):
        raise ValueError("an activation of it is none")
    return layer.activation


def _objects(values: list[Any], shape: list[int]) -> np.ndarray:
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found.reshape(shape)
