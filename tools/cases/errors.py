"""Bad input: the same type of error."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import widelimit as wl
from widelimit import device_ridge, estimators, linear, nt, stax

Made = dict[str, Any]
X, NET = np.arange(12.0).reshape(3, 4), wl.nets.fully_connected(1, "relu")
NAN, KEY = np.where(X == 5, np.nan, X), jax.random.key(0)
Y = np.array([0, 1, 0])
EXACT, SKETCHED = estimators.NeuralKernelClassifier, estimators.SketchedRidgeRegressor
STATE = linear.update(None, X, X[:, 0])


def _applied(net: wl.Network) -> Any:
    return net.apply(net.init(KEY, (4,)), X)


BAD: dict[str, Callable[[], Any]] = {
    "activation first": lambda: wl.serial("relu", wl.Dense()).kernel(X),
    "shapes": lambda: NET.kernel(X, X[:, :3]),
    "one axis": lambda: NET.kernel(X[0]),
    "text": lambda: NET.kernel("rows"),
    "strings": lambda: NET.kernel(np.array([["a", "b"]])),
    "complex": lambda: NET.kernel(X + 1j),
    "get": lambda: NET.kernel(X, get="cov"),
    "empty get": lambda: NET.kernel(X, get=()),
    "diagonal of two": lambda: NET.kernel(X, X, diagonal=True),
    "diagonal in tiles": lambda: NET.kernel(X, diagonal=True, memory="1GiB"),
    "memory": lambda: NET.kernel(X, memory="much"),
    "too little memory": lambda: NET.kernel(X, memory=10),
    "out of another shape": lambda: NET.kernel(X, get="ntk", out=np.empty((2, 2))),
    "out is no array": lambda: NET.kernel(X, get="ntk", out=3),
    "out in no folder": lambda: NET.kernel(X, get="ntk", out="/no/such/folder/K.npy"),
    "out is no npy": lambda: NET.kernel(X, get="ntk", out="K.txt"),
    "images for rows": lambda: wl.nets.myrtle(5).kernel(X),
    "conv of rows": lambda: wl.serial(wl.Conv((3, 3))).kernel(X),
    "window too large": lambda: wl.serial(wl.AvgPool((9, 9)), wl.Flatten()).kernel(np.ones((2, 4, 4, 1))),
    "branches left open": lambda: wl.serial(wl.FanOut(2)).kernel(X),
    "branches for Dense": lambda: wl.serial(wl.FanOut(2), wl.Dense()).kernel(X),
    "unknown name": lambda: wl.serial("nothing"),
    "no layer": lambda: wl.serial(3),
    "padding": lambda: wl.Conv((3, 3), padding="HALF"),
    "negative W_std": lambda: wl.Dense(-1.0),
    "width": lambda: wl.Dense(width=0),
    "keep": lambda: wl.Dropout(0.0),
    "degree": lambda: wl.Hermite(-1),
    "copies": lambda: wl.repeat(wl.Dense(), -1),
    "depth of myrtle": lambda: wl.nets.myrtle(6),
    "no such layer": lambda: NET[17],
    "layer by name": lambda: NET["Dense"],
    "json": lambda: wl.from_json("{}"),
    "newer json": lambda: wl.from_json('{"widelimit": 99, "network": {"serial": []}}'),
    "unknown part": lambda: wl.from_json('{"widelimit": 1, "network": {"Nothing": {}}}'),
    "function in json": lambda: wl.serial(wl.Dense(), wl.Elementwise(np.tanh)).to_json(),
    "no key": lambda: NET.feature_map(0, (4,)),
    "many keys": lambda: NET.init(jax.random.split(KEY), (4,)),
    "input shape": lambda: NET.feature_map(KEY, ()),
    "no columns": lambda: NET.feature_map(KEY, (4,), features=0),
    "sketch": lambda: NET.feature_map(KEY, (4,), sketch="best"),
    "degree of weights": lambda: NET.feature_map(KEY, (4,), sketch="random_weights", degree=3),
    "dtype": lambda: NET.feature_map(KEY, (4,), dtype="int32"),
    "cosine with biases": lambda: wl.nets.fully_connected(1, "relu", 1.0, 0.1).feature_map(KEY, (4,), sketch="cosine"),
    "map of others": lambda: NET.feature_map(KEY, (3,), features=8)(X),
    "batch": lambda: NET.feature_map(KEY, (4,), features=8)(X, batch=0),
    "error of one row": lambda: NET.feature_map(KEY, (4,), features=8).error(X[:1]),
    "no map": lambda: wl.load_features("nothing.npz"),
    "parameters": lambda: NET.apply((), X),
    "no masks": lambda: _applied(wl.serial(wl.Dense(), wl.Dropout(0.5))),
    "no function": lambda: _applied(wl.serial(wl.Dense(), "exp_normalized")),
    "register": lambda: wl.register("", wl.Relu()),
    "posterior": lambda: linear.posterior(X, Y),
    "noise": lambda: linear.posterior(np.eye(3), Y, noise=-1.0),
    "NaN": lambda: linear.posterior(NAN[:, :3], Y),
    "time": lambda: linear.gradient_flow(np.eye(3), Y).train(-1.0),
    "infinite loss": lambda: linear.loss_flow(lambda f, y: (f - y).sum(), np.eye(3), X[:, 0], np.inf),
    "targets": lambda: linear.update(None, X, Y[:2]),
    "other block": lambda: linear.update(STATE, X[:, :2], Y),
    "NaN features": lambda: linear.update(None, NAN, Y),
    "weights of rows": lambda: linear.update(None, X, Y, np.array([-1, 1, 1])),
    "penalties": lambda: linear.solve(STATE, [-1.0]),
    "one fold": lambda: linear.cross_validate([STATE], [1.0]),
    "other rows": lambda: linear.leave_one_out(STATE, [1.0], [(X[:2], Y[:2])]),
    "no noise": lambda: linear.feature_posterior(STATE, 0.0),
    "merge": lambda: linear.merge(STATE, 3),
    "score by": lambda: linear.kernel_ridge(np.eye(3), Y, [1.0], by="luck"),
    "nothing held out": lambda: device_ridge.chosen_on_held_out(device_ridge.feature_path, X, np.eye(3), 0, [1.0]),
    "arch": lambda: EXACT("rnn").fit(X, Y),
    "images needed": lambda: EXACT("myrtle5").fit(X, Y),
    "penalty": lambda: EXACT(penalty="best").fit(X, Y),
    "negative penalty": lambda: EXACT(penalty=-1).fit(X, Y),
    "kernel": lambda: EXACT(kernel="rbf").fit(X, Y),
    "one class": lambda: EXACT().fit(X, np.zeros(3)),
    "not fitted": lambda: EXACT().predict(X),
    "NaN rows": lambda: EXACT().fit(NAN, Y),
    "other columns": lambda: EXACT(depth=0).fit(X, Y).predict(X[:, :2]),
    "negative weights": lambda: EXACT(depth=0).fit(X, Y, [-1, 1, 1]),
    "no classes": lambda: estimators.SketchedRidgeClassifier(n_components=4).partial_fit(X, Y),
    "components": lambda: SKETCHED(n_components=0).fit(X, Y),
    "regularization": lambda: estimators.ZCA(-1).fit(X),
    "unit": lambda: estimators.ImageNormalizer("none").fit(X),
    "load": lambda: estimators.load("nothing.npz"),
    "save": lambda: estimators.save(EXACT(), "nothing.npz"),
    "stax name": lambda: stax.GlobalSelfAttention,
    "list of inputs": lambda: stax.Dense(3)[2]([X, X]),
    "mask": lambda: stax.Dense(3)[2](X, None, mask_constant=1.0),
    "stax function": lambda: stax.serial(np.tanh),
    "elementwise": lambda: stax.Elementwise(),
    "axes": lambda: nt.empirical_nngp_fn(lambda p, x: x, trace_axes=0)(X, None, ()),
    "block size": lambda: nt.batch(stax.Dense(1)[2], -1),
    "flat targets": lambda: nt.predict.gp_inference(np.eye(3), Y),
}  # fmt: skip


def of_bad_input(rng: np.random.Generator) -> Made:
    """The type of what each of a dozen raises."""
    found: Made = {}
    for name in rng.permutation(list(BAD))[:12]:
        try:
            BAD[str(name)]()
        except Exception as error:
            found[str(name)] = type(error).__name__
        else:
            found[str(name)] = "no error"
    return found
