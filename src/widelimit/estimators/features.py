"""Random features of a network as a scikit-learn transformer."""

from collections.abc import Iterator
from typing import Any, ClassVar

import jax
import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..features.feature_map import FeatureMap
from ..numerics.checks import check_int
from ..storage.state import Declaration, storable
from .inputs import NETWORK, ROWS, Neural, with_parameters

_MOST = 2**20  # components, whose products alone would take 8 TiB


class Sketched(Neural):
    """An estimator on random features; subclasses have `n_components`, `random_state` and `progress`."""

    _saved: ClassVar[Declaration] = {"map_": FeatureMap}

    def _draw_map(self) -> FeatureMap:
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        features = check_int("n_components", self.n_components, least=1, most=_MOST)
        return self.net_.feature_map(jax.random.key(seed), self._input_shape(), features, self.kernel)

    def _sizes(self) -> dict[str, int]:
        if self.map_.several or self.map_.input_shape != self._input_shape() or self.map_.net != self.net_:
            raise ValueError("its features are of other inputs, or of another network")
        return {**super()._sizes(), "features": self.map_.columns}

    def _feature_blocks(self, X: np.ndarray) -> Iterator[np.ndarray]:
        """The features of checked rows, block by block."""
        return self.map_.blocks(self._network_inputs(X), progress=self.progress)


@storable
@with_parameters(
    f"""
{NETWORK}    n_components
        The number of columns; the error falls with its square root.
{ROWS}    random_state
        Seed of the draw.
    progress
        Show a bar.

    Attributes
    ----------
    map_
        The drawn `widelimit` feature map.
    net_
        The network.
    """
)
class NeuralFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Sketched):
    """Columns whose products approximate the kernel of an infinitely wide network.

    A linear model on them is, nearly, kernel regression with that network's NTK, in time linear in the rows.
    """

    def __init__(
        self, arch="fc", *, activation="gelu", depth=3, W_std=1.0, b_std=0.5, net=None, kernel="ntk", n_components=4096,
        image_shape=None, scale_rows=False, random_state=None, progress=False,
    ):  # fmt: skip
        super().__init__(arch, activation, depth, W_std, b_std, net, kernel, image_shape, scale_rows, progress)
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> "NeuralFeatures":
        """Draw the map for inputs of this shape; of X, nothing else is used."""
        self._check_training(X)
        self.map_, self.scale_rows_ = self._draw_map(), self.scale_rows
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The features, (n, n_components)."""
        check_is_fitted(self)
        return self.map_(self._network_inputs(self._check_rows(X)), progress=self.progress)

    def transformed_blocks(self, X: Any) -> Iterator[np.ndarray]:
        """The features block by block, for those who do not keep them."""
        check_is_fitted(self)
        return self._feature_blocks(self._check_rows(X))

    @property
    def _n_features_out(self) -> int:
        return self.map_.columns

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
