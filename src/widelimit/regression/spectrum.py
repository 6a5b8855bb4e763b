"""Eigenvalues and eigenvectors on the host: from one decomposition the solutions for every penalty."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import linalg

from .arrays import Penalties


class Spectrum(NamedTuple):
    """A symmetric matrix without negative eigenvalues as V diag(values) V^T."""

    values: Float[np.ndarray, " size"]
    vectors: Float[np.ndarray, "size size"]

    def inverses(self, penalties: Penalties) -> list[Float[np.ndarray, " size"]]:
        """1 / (value + penalty) for every penalty, and 0 where that is rounding of 0."""
        values = self.values
        floor = len(values) * np.finfo(np.float64).eps * max(values.max(initial=0), 1e-300)
        shifted = [values + penalty for penalty in penalties]
        return [np.where(s > floor, 1 / np.where(s > floor, s, 1), 0) for s in shifted]

    def solve(
        self, right: Float[np.ndarray, "size outputs"], penalties: Penalties
    ) -> Float[np.ndarray, "penalties size outputs"]:
        """(A + penalty)^-1 right for every penalty."""
        rotated = self.vectors.T @ right
        return np.stack([self.vectors @ (inverse[:, None] * rotated) for inverse in self.inverses(penalties)])


def decompose(matrix: Float[np.ndarray, "size size"]) -> Spectrum:
    """The spectrum of a symmetric matrix; eigenvalues below 0, which are rounding, are 0."""
    values, vectors = linalg.eigh(matrix, driver="evd", check_finite=False)
    return Spectrum(np.maximum(values, 0), vectors)
