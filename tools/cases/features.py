"""Random features: kinds of sketches, numbers of columns, precision, batches, errors and files."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import widelimit as wl

from . import draw

Made = dict[str, Any]


def _sketch(rng: np.random.Generator) -> Made:
    sketch = wl.sketch
    return draw.one(
        rng,
        (
            {}, {}, {}, {"sketch": "random_weights"}, {"sketch": "powers"}, {"sketch": "powers", "degree": 3},
            {"sketch": "polysketch", "degree": 3}, {"sketch": sketch.RandomWeights(int(rng.integers(0, 4)))},
            {"sketch": sketch.Powers(4, complex_signs=False)}, {"sketch": "exact"}, {"sketch": sketch.Auto(5)},
        ),
    )  # fmt: skip


def _map(rng: np.random.Generator, net: wl.Network, shape: tuple[int, ...], options: Made) -> Made:
    get = draw.one(rng, ("ntk", "ntk", "nngp", ("nngp", "ntk"), ("ntk", "nngp")))
    options = {"features": int(draw.one(rng, (2, 16, 33))), "get": get, **options}
    if draw.likely(rng, 0.2):
        options["dtype"] = draw.one(rng, ("float32", "float64", "bfloat16"))
    phi = net.feature_map(draw.key(rng), shape, **options)
    x = draw.inputs(rng, 5, shape)
    batch = draw.one(rng, (None, None, 2))
    found: Made = {"network": repr(net), "options": repr(options)}
    exact = options.get("sketch") == "exact"
    with draw.as_given(rng, x) as (given,):
        columns = phi(given, batch=batch)
        if exact:  # known up to a rotation
            parts = [part for part in (columns if isinstance(columns, tuple) else (columns,)) if part is not None]
            flat = [np.asarray(part).reshape(-1, part.shape[-1]) for part in parts]
            return found | {"products": [part @ part.T for part in flat]}
        found |= {"columns": columns, "blocks": list(phi.blocks(given, batch=2)) if draw.likely(rng, 0.3) else []}
    if draw.likely(rng, 0.2) and options.get("dtype") != "bfloat16":
        found["error"] = phi.error(x, sample=4, seed=1)
    if draw.likely(rng, 0.2):
        with TemporaryDirectory() as folder:
            phi.save(Path(folder) / "phi.npz")
            found["loaded"] = wl.load_features(Path(folder) / "phi.npz")(x)
    return found


def of_rows(rng: np.random.Generator) -> Made:
    """`feature_map` of rows; of homogeneous networks at times by the polynomial of the cosine."""
    if draw.likely(rng, 0.2):
        act = draw.one(rng, ("relu", "abs", wl.LeakyRelu(0.3), "rectified_monomial"))
        net = wl.nets.fully_connected(int(rng.integers(1, 4)), act, draw.number(rng, 0.8, 1.5))
        return _map(rng, net, draw.ROW, draw.one(rng, ({}, {"sketch": "cosine"}, {"sketch": "cosine", "degree": 5})))
    return _map(rng, draw.rows_network(rng, computed=0.05), draw.ROW, _sketch(rng))


def of_images(rng: np.random.Generator) -> Made:
    """`feature_map` of images."""
    net = draw.images_network(rng, flat=draw.likely(rng, 0.9), computed=0.0)
    return _map(rng, net, draw.IMAGE, _sketch(rng))
