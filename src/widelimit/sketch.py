"""Kinds of random features for `net.feature_map(..., sketch=...)`, and what new kinds are made of."""

from .sketches import *  # noqa: F403
from .sketches import __all__ as __all__
