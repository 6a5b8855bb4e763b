"""`widelimit.linear` and `widelimit.device_ridge`, with penalties from 1e-4 of the mean diagonal."""

from typing import Any

import jax.numpy as jnp
import numpy as np

import widelimit as wl
from widelimit import device_ridge, linear

from . import draw

Made = dict[str, Any]
SHARES = (1e-4, 1e-2, 1.0)


def targets(rng: np.random.Generator, count: int) -> np.ndarray:
    """One output or several."""
    return rng.normal(size=draw.one(rng, ((count,), (count, 1), (count, 3))))


def weights(rng: np.random.Generator, count: int) -> np.ndarray | None:
    """None, or one for each row, at times 0 or a whole number."""
    kind = draw.one(rng, ("none", "none", "any", "whole"))
    if kind == "none":
        return None
    w = rng.uniform(0.2, 3, size=count) if kind == "any" else rng.integers(1, 4, size=count).astype(float)
    if draw.likely(rng, 0.3):
        w[int(rng.integers(count))] = 0
    return w


def on_features(rng: np.random.Generator) -> Made:
    """Sums of blocks, and all that is solved from them."""
    n, m = draw.one(rng, ((30, 6), (9, 14)))
    phi, y, w = rng.normal(size=(n, m)), targets(rng, n), weights(rng, n)
    phi[1] = phi[0] if draw.likely(rng, 0.3) else phi[1]
    phi = phi.astype(draw.one(rng, ("float32", "float64")))
    penalties = np.array(SHARES) * float(np.mean(np.sum(phi.astype(float) ** 2, 0)))
    penalties = penalties[: int(rng.integers(1, 4))]
    cuts = [slice(0, n // 3), slice(n // 3, n // 2), slice(n // 2, n)]
    blocks = [(phi[cut], y[cut], None if w is None else w[cut]) for cut in cuts]
    folds = [linear.update(None, *block) for block in blocks]
    state = linear.empty(m, y[:, None].reshape(n, -1).shape[1])
    for block in blocks:
        state = linear.update(state, *block)
    path = linear.solve(state, penalties)
    process = linear.feature_posterior(state, float(penalties[0]))
    return {
        "state": state, "merged": linear.merge(*folds), "path": path, "best": path.best,
        "folds": linear.cross_validate(folds, penalties), "left out": linear.leave_one_out(state, penalties, blocks),
        "mean": process.mean(phi[:4]), "variance": process.variance(phi[:4]), "covariance": process.covariance(phi[:4]),
    }  # fmt: skip


def _kernels(rng: np.random.Generator, count: int, test: int) -> tuple[np.ndarray, ...]:
    """Kernel matrices of training rows, of test with training rows and of test rows, NNGP and NTK."""
    x = rng.normal(size=(count + test, 5))
    covariance = x @ x.T / 5
    root = np.sqrt(np.diag(covariance))
    cosine = np.clip(covariance / root[:, None] / root, -1, 1)
    nngp, ntk = np.exp(cosine - 1) + 0.1, np.exp(cosine - 1) * (1 + covariance) + 0.2
    dtype = draw.one(rng, ("float64", "float64", "float32"))
    cut = slice(count), slice(count, None)
    return tuple(
        k[i, j].astype(dtype) for k in (nngp, ntk) for i, j in ((cut[0], cut[0]), (cut[1], cut[0]), (cut[1],) * 2)
    )


def with_kernels(rng: np.random.Generator) -> Made:
    """Posteriors, likelihood, flows and kernel ridge on one matrix."""
    n, m = 12, 4
    arrays = _kernels(rng, n, m)
    y = targets(rng, n).astype(arrays[0].dtype)
    noise = float(draw.one(rng, SHARES))
    with draw.as_given(rng, *arrays, y) as (nngp, cross, test, ntk, ntk_cross, _, y):
        what = draw.one(rng, ("posterior", "trained", "flow", "ridge", "loss", "likelihood"))
        if what == "posterior":
            own = draw.one(rng, ((), (cross,), (cross, test), (cross, test.diagonal())))
            return {"posterior": linear.posterior(nngp, y, *own, noise=noise)}
        if what == "trained":
            return {"posterior": linear.trained_posterior(ntk, y, ntk_cross, nngp, cross, test, noise)}
        if what == "likelihood":
            return {"likelihood": linear.log_marginal_likelihood(nngp, y, noise)}
        if what == "ridge":
            by, w = draw.one(rng, ("loo", "gcv", 3)), weights(rng, n)
            path = linear.kernel_ridge(np.asarray(nngp), np.asarray(y), SHARES, w, by)
            return {"path": path, "chosen": path.chosen}
        if what == "loss":
            momentum = draw.one(rng, (None, 0.9))
            t, cube = draw.one(rng, (0.5, [0.0, 1.5, 0.7])), lambda f, y: jnp.sum(jnp.abs(f - y) ** 3)
            return {"flow": linear.loss_flow(cube, ntk, y, t, 0.1, 0.2, ntk_cross, 0.5, momentum)}
        flow = linear.gradient_flow(ntk, y, noise)
        t = draw.one(rng, (0.7, np.inf, np.array([[0.0, 0.3], [2.0, 10.0]])))
        return {
            "values": flow.values, "train": flow.train(t, 0.3), "test": flow.test(t, ntk_cross, 0.1, 0.2),
            "covariance": flow.covariance(t, ntk_cross, nngp, cross, test),
        }  # fmt: skip


def hyperparameters(rng: np.random.Generator) -> Made:
    """A few steps of the search."""
    net = wl.nets.fully_connected(1, draw.one(rng, ("erf", "relu")), draw.number(rng, 0.8, 1.3), 0.2)
    x = rng.normal(size=(9, 3))
    fit = linear.fit_hyperparameters(net, x, np.sin(x[:, 0]), 0.1, draw.one(rng, ("nngp", "ntk")), steps=3)
    return {
        "leaves": [float(w) for w in (fit.net[0].W_std, fit.net[0].b_std)], "noise": fit.noise,
        "likelihood": fit.log_likelihood, "steps": fit.steps, "jitter": fit.jitter,
    }  # fmt: skip


def on_device(rng: np.random.Generator) -> Made:
    """Held-out rows and predictions, with tiles smaller than the matrices."""
    n, m, tile = 20, draw.one(rng, (7, 30)), draw.one(rng, (8, 4096))
    phi, y = rng.normal(size=(n, m)), np.eye(3)[rng.integers(0, 3, n)]
    phi = phi.astype(draw.one(rng, ("float32", "float64")))
    held = draw.likely(rng, 0.5)
    path, rows = (
        (device_ridge.feature_path, phi)
        if draw.likely(rng, 0.5)
        else (device_ridge.kernel_path, (phi @ phi.T + 1).astype(phi.dtype))
    )
    if held:
        found: Any = device_ridge.chosen_on_held_out(path, rows, y, 6, SHARES, tile)
        return {"held out": found, "chosen": found.chosen, "edge": device_ridge.at_edge(found.chosen, SHARES)}
    found = path(rows, y[:14], SHARES, None, tile)
    return {"predictions": found, "scored": device_ridge.scored(found, y[14:], SHARES)}
