"""Random features: how kernels are approximated in time linear in the number of inputs.

`features` says what travels and what a sketch is; `random_weights`, `powers` and `kinds` have the sketches that a feature
map can be made of, and `linear_maps`, `tensors` and `hadamard` their parts.
"""

from .columns import Columns, DirectSum, direct_sum, join, kept
from .features import Features, Point, Sketch, Widths
from .hadamard import hadamard, hadamard_plain
from .kinds import SKETCHES as SKETCHES
from .kinds import Auto, Exact
from .kinds import as_sketch as as_sketch
from .linear_maps import Product, Projection, draw_signs, fold, product, projection
from .powers import Cosine, PolySketch, Powers
from .random_weights import RandomWeights
from .tensors import Maclaurin, Tree, maclaurin, tree

__all__ = [
    "Auto", "Columns", "Cosine", "DirectSum", "Exact", "Features", "Maclaurin", "Point", "PolySketch", "Powers", "Product",
    "Projection", "RandomWeights", "Sketch", "Tree", "Widths", "direct_sum", "draw_signs", "fold", "hadamard",
    "hadamard_plain", "join", "kept", "maclaurin", "product", "projection", "tree",
]  # fmt: skip
