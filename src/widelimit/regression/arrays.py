"""Names for the types that every function of this room takes."""

import numpy as np
from jaxtyping import Array, Float
from numpy import typing

AnyArray = Array | np.ndarray
ArrayLike = AnyArray | typing.ArrayLike | int | float  # what NumPy or JAX makes an array of
Targets = Float[np.ndarray, "n outputs"]
Penalties = Float[np.ndarray, " penalties"]
Scores = Float[np.ndarray, " penalties"]  # one for each penalty
Weight = Float[np.ndarray, " n"]  # of every row
Scalar = int | float | np.floating | Float[AnyArray, ""]  # a number that may be traced
