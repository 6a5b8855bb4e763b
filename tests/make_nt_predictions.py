"""Writes tests/data/nt_predictions.npz: what neural-tangents itself predicts. Needs neural-tangents 0.6.5 and jax 0.5.3."""

from pathlib import Path

import jax
import neural_tangents as nt
import numpy as np
from neural_tangents import predict, stax

jax.config.update("jax_enable_x64", True)
rng = np.random.default_rng(0)
x_train, x_test, y = rng.normal(size=(8, 4)), rng.normal(size=(5, 4)), rng.normal(size=(8, 2))
init_fn, apply_fn, kernel_fn = stax.serial(stax.Dense(16, 1.4, 0.3), stax.Erf(), stax.Dense(2, 1.2))
train, cross, test = kernel_fn(x_train, None), kernel_fn(x_test, x_train), kernel_fn(x_test, None)
found = {"x_train": x_train, "x_test": x_test, "y": y}

gp = predict.gp_inference(train, y, diag_reg=1e-2)
for get in ("nngp", "ntk", "ntkgp"):
    result = gp(get, cross, test)
    found |= {f"gp_{get}_mean": result.mean, f"gp_{get}_covariance": result.covariance}
mse = predict.gradient_descent_mse(train.ntk, y, learning_rate=0.5, diag_reg=1e-3)
for t in (3.0, None):
    found |= {f"mse_{t}_{k}": v for k, v in zip(("train", "test"), mse(t, 0.1, 0.2, cross.ntk), strict=True)}
ensemble = predict.gradient_descent_mse_ensemble(kernel_fn, x_train, y, learning_rate=0.5, diag_reg=1e-3)
for t in (3.0, None):
    for get in ("nngp", "ntk"):
        result = ensemble(t, x_test, get, compute_cov=True)
        found |= {f"ensemble_{t}_{get}_mean": result.mean, f"ensemble_{t}_{get}_covariance": result.covariance}
        result = ensemble(t, None, get, compute_cov=True)
        found |= {f"trained_{t}_{get}_mean": result.mean, f"trained_{t}_{get}_covariance": result.covariance}


def loss(f, y):
    return ((f - y) ** 4).mean()


for momentum in (None, 0.9):
    flow = predict.gradient_descent(loss, train.ntk, y, learning_rate=0.5, momentum=momentum)
    state = flow(2.0, predict.ODEState(np.zeros_like(y), np.zeros((5, 2))), None, cross.ntk)
    found |= {f"flow_{momentum}_train": state.fx_train, f"flow_{momentum}_test": state.fx_test}
# predict.max_learning_rate calls scipy with a keyword that it no longer has

_, params = init_fn(jax.random.PRNGKey(0), x_train.shape)
(W1, b1), _, (W2, _) = params
found |= {"W1": W1, "b1": np.reshape(b1, -1), "W2": W2}
for trace, diagonal in (((-1,), ()), ((), ()), ((), (-1,))):
    options = {"trace_axes": trace, "diagonal_axes": diagonal}
    name = f"empirical_{len(trace)}{len(diagonal)}"
    found[f"{name}_ntk"] = nt.empirical_ntk_fn(apply_fn, **options)(x_test, x_train, params)
    found[f"{name}_nngp"] = nt.empirical_nngp_fn(apply_fn, **options)(x_test, x_train, params)
moved = jax.tree.map(lambda p: 1.1 * p + 0.01, params)
for degree in (1, 2):
    found[f"taylor_{degree}"] = nt.taylor_expand(apply_fn, params, degree)(moved, x_test)

images = rng.normal(size=(3, 4, 5, 2))
_, _, conv_fn = stax.serial(stax.Conv(8, (3, 3), padding="SAME", W_std=1.3, b_std=0.2), stax.Relu())
found |= {"images": images, "conv_nngp": conv_fn(images[:2], images[2:], "nngp")}
found["conv_diagonal_ntk"] = conv_fn(images[:2], images[2:], "ntk", diagonal_spatial=True)
found["fc_cov2"] = kernel_fn(x_test, x_train, "cov2", diagonal_batch=False)
found["conv_cov1"] = conv_fn(images, None, "cov1", diagonal_batch=True)
_, _, wide_fn = stax.serial(
    stax.Dense(16, 1.4, 0.3, parameterization="standard", s=(1, 2)), stax.Relu(),
    stax.Dense(2, 1.2, 0.1, parameterization="standard", s=(2, 1)),
)  # fmt: skip
found["standard_ntk"] = wide_fn(x_test, x_train, "ntk")
np.savez(Path(__file__).parent / "data" / "nt_predictions.npz", **{k: np.asarray(v) for k, v in found.items()})
