"""The small data sets that come with scikit-learn and need no network."""

from typing import NamedTuple

import numpy as np

from ..numerics.extras import needs_extra

_NAMES = ("digits", "iris", "wine", "breast_cancer", "diabetes", "linnerud")


class Bundled(NamedTuple):
    """Rows with their targets: classes counted from 0, or numbers for `diabetes` and, three a row, `linnerud`.

    `target_names` names the classes, or the columns of the targets.
    """

    x: np.ndarray
    y: np.ndarray
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]


def bundled(name: str) -> Bundled:
    """One of digits, iris, wine, breast_cancer, diabetes and linnerud, in float64."""
    if name not in _NAMES:
        raise ValueError(f"There is no bundled set {name!r}. Choose one of: {', '.join(_NAMES)}.")
    with needs_extra():
        from sklearn import datasets
    loaded = getattr(datasets, f"load_{name}")()
    targets = loaded.get("target_names", ["progression"])  # diabetes: the disease's, one year later
    return Bundled(
        np.asarray(loaded.data, np.float64), np.asarray(loaded.target),
        tuple(map(str, loaded.feature_names)), tuple(map(str, targets)),
    )  # fmt: skip
