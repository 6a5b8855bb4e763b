"""An activation derived from its kernel, the paper's last appendix: the ABReLU whose dual is the normalised Gaussian at c = ±1.

The dual of A min(t, 0) + B max(t, 0) is (A^2 + B^2) / 2 at cosine 1 and -A B at cosine -1. Equal to exp(c - 1) there,

    (B + A)^2 = 2 (1 - exp(-2)),    (B - A)^2 = 2 (1 + exp(-2)).

Finite Myrtle-5 networks are then trained with this activation and with others. As in the paper: one-hot targets, mean squared
error, whitened images, stochastic gradients in batches of 64, a rate of 0.1 at the start, Nesterov's momentum 0.9, 0.0005
times the weights added to the gradient. What the paper leaves open is the same for all activations here:

* weights are in the standard parameterisation, as usual in training, and biases start at 0;
* weights start with the scale that keeps a variance of 1 (He et al., 2015): W_std^2 = 1 / E[f(t)^2];
* the error is the mean over images and classes; the rate falls to 0 as half a cosine, after every step;
* biases, and the slopes of PReLU, one for each layer, which start at 1/4, are decayed like weights;
* images are not changed at random; what an epoch has beyond whole batches is left out of it;
* in full, layers up to the read-out are computed in bfloat16 from weights that are kept, and changed, in float32;
* the last training images are held out, and choose the epoch. The paper chose it on test images.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import exp, sqrt
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, PRNGKeyArray

from .. import nets
from ..activations import ABRelu, Activation, Erf, ExpNormalized, Gelu, LeakyRelu, Relu, dual
from ..datasets import Images
from ..execution.grid import ranges
from ..layers import Conv, Dense, Nonlinearity
from ..network import Network, serial
from ..numerics.device import on_accelerator
from ..numerics.extras import needs_extra
from . import EXPERIMENTS
from .images import average, check_enough, first_images, latest, whiten
from .labels import sides
from .study import ImageStudy, Run

RATE, MOMENTUM, DECAY = 0.1, 0.9, 0.0005
EVALUATION_BATCH = 500  # images


def fitted_slopes(at_one: float = 1.0, at_minus_one: float = exp(-2)) -> tuple[float, float]:
    """A and B of the ABReLU whose dual has these values at cosines 1 and -1, for standard deviations 1."""
    total, difference = sqrt(2 * (at_one - at_minus_one)), sqrt(2 * (at_one + at_minus_one))
    return (total - difference) / 2, (total + difference) / 2


ACTIVATIONS: dict[str, Activation] = {
    "ReLU": Relu(),
    "GELU": Gelu(),
    "erf": Erf(),
    "PReLU": LeakyRelu(0.25),
    "ABReLU": ABRelu(*fitted_slopes()),
}
CHOSEN, LAST, BEST = "chosen on held-out images", "last epoch", "best on test images, as the paper"
KINDS = CHOSEN, LAST, BEST


def settings(full: bool) -> list[dict[str, Any]]:
    """A run for every seed and activation."""
    sizes: dict[str, Any] = {
        "width": 16, "epochs": 30, "train": 2000, "held_out": 500, "test": 2000, "fitted": 10_000, "pixels": 8,
        "dtype": "float32",
    }  # fmt: skip
    if full:
        sizes = {
            "width": 128, "epochs": 200, "train": 45_000, "held_out": 5000, "test": 10_000, "fitted": 50_000, "pixels": 32,
            "dtype": "bfloat16",
        }  # fmt: skip
    return [{"activation": name, "seed": seed, **sizes, "batch": 64} for seed, name in product(range(3), ACTIVATIONS)]


def network(activation: Activation, classes: int) -> Network:
    """Myrtle-5 in the standard parameterisation, whose weights keep a variance of 1."""
    scale = float(dual(activation, 1.0, 1.0, 1.0)) ** -0.5
    layers = [
        replace(layer, parameterization="standard") if isinstance(layer, Conv) else layer
        for layer in nets.myrtle(5, activation, W_std=scale, b_std=0.0).layers
    ]
    return serial(*layers[:-1], Dense(scale, 0.0, width=classes, parameterization="standard"))


def slopes(net: Network) -> list[Any]:
    """The slopes on the left of 0, one of every LeakyRelu."""
    activations = [layer.activation for layer in net.layers if isinstance(layer, Nonlinearity)]
    return [act.alpha for act in activations if isinstance(act, LeakyRelu)]


def with_slopes(net: Network, replacements: Sequence[Array]) -> Network:
    """The network with these slopes in place of its own; the network itself where there are none."""
    return eqx.tree_at(slopes, net, list(replacements)) if replacements else net


def compute(config: dict[str, Any], data: Images) -> dict[str, Any]:
    """Test accuracies after every epoch and of the selected ones, the held-out ones that select, and seconds."""
    act, total = ACTIVATIONS[config["activation"]], config["epochs"] * max(config["train"] // config["batch"], 1)
    optimiser(total)  # fails before any work where its package is missing
    x, y = prepare(data, config)
    x = x.astype(config["dtype"])
    net, trained, key_orders = start(config, x.shape[1:], len(data.names))
    state = trained, optimiser(total).init(trained)
    train, held_out = config["train"], config["held_out"]
    losses, accuracies, seconds = [], [], []
    for epoch in range(config["epochs"]):
        began = time.perf_counter()
        rows = shuffle(jax.random.fold_in(key_orders, epoch), train, config["batch"])
        state, loss = _epoch(net, state, x, y, rows, total)
        hits = _hits(net, state[0], x[train:], y[train:])
        losses.append(float(loss))
        accuracies.append((float(hits[:held_out].mean()), float(hits[held_out:].mean())))
        seconds.append(time.perf_counter() - began)
    on_held_out, on_test = (list(part) for part in zip(*accuracies, strict=True))
    best = int(np.argmax(on_held_out))
    return {
        CHOSEN: on_test[best], LAST: on_test[-1], BEST: max(on_test), "epoch": best + 1,
        "slopes": [_round(slope) for slope in state[0]["slopes"]], "off_gaussian": off_gaussian(act),
        "losses": [_round(loss) for loss in losses],
        "held_out": [round(a, 4) for a in on_held_out], "test": [round(a, 4) for a in on_test],
        "seconds": {"all": sum(seconds), "epoch": float(np.median(seconds))},
    }  # fmt: skip


def start(config: dict[str, Any], shape: tuple[int, ...], classes: int) -> tuple[Network, Any, PRNGKeyArray]:
    """The network, its weights and slopes before training, and the key of the orders of images."""
    net = network(ACTIVATIONS[config["activation"]], classes)
    key_weights, key_orders = jax.random.split(jax.random.key(config["seed"]))
    own_slopes = [jnp.float32(slope) for slope in slopes(net)]
    return net, {"weights": net.init(key_weights, shape, config["width"]), "slopes": own_slopes}, key_orders


def _round(value: Any) -> float | None:
    """The number with four digits; None for what JSON has no number for, where training diverged."""
    return float(f"{float(value):.4g}") if np.isfinite(value) else None


def optimiser(total: int) -> Any:
    """The paper's optimiser, whose rate falls to 0 over `total` steps."""
    with needs_extra("experiments"):
        import optax

    rate = optax.cosine_decay_schedule(RATE, total)
    return optax.chain(optax.add_decayed_weights(DECAY), optax.sgd(rate, MOMENTUM, nesterov=True))


def check(config: dict[str, Any], data: Images) -> None:
    """Refuse more images than there are."""
    train, held_out, available = config["train"], config["held_out"], len(data.x_train)
    check_enough(data, train, config["test"])
    if train + held_out > available:
        raise ValueError(
            f"--train {train} and the {held_out} images held out are more than the {available} of the data. Give "
            f"{available - held_out} or fewer."
        )


def prepare(data: Images, config: dict[str, Any]) -> tuple[Array, Array]:
    """The first training images, the last ones, which are held out, and the first test images, all whitened; their classes."""
    check(config, data)
    return _prepare(data, *(config[name] for name in ("train", "held_out", "test", "fitted", "pixels")))


@latest
def _prepare(data: Images, train: int, held_out: int, test: int, fitted: int, pixels: int) -> tuple[Array, Array]:
    last = len(data.x_train) - held_out
    others = data._replace(
        x_test=np.concatenate([data.x_train[last:], data.x_test[:test]]),
        y_test=np.concatenate([data.y_train[last:], data.y_test[:test]]),
    )
    x, y = first_images(others, train, held_out + test)
    return whiten(average(data.x_train[:fitted], pixels), average(x, pixels)), jnp.asarray(y)


def shuffle(key: PRNGKeyArray, count: int, batch: int) -> Array:
    """Rows of every batch of an epoch in random order, (steps, batch); the rest waits for another epoch."""
    batch = min(batch, count)
    return jax.random.permutation(key, count)[: count // batch * batch].reshape(-1, batch)


@partial(jax.jit, static_argnames="total")
def _step(net: Network, state: Any, x: Array, y: Array, rows: Array, total: int) -> tuple[Any, Array]:
    """A step of training on some rows, and their loss."""
    trained, memory = state
    loss, gradient = jax.value_and_grad(mean_square)(trained, net, x[rows], y[rows])
    update, memory = optimiser(total).update(gradient, memory, trained)
    return (jax.tree.map(jnp.add, trained, update), memory), loss


def mean_square(trained: Any, net: Network, x: Array, y: Array) -> Array:
    """The loss: the mean square of outputs less one-hot targets."""
    outputs = _outputs(trained, net, x)
    return jnp.mean((outputs - jax.nn.one_hot(y, outputs.shape[-1])) ** 2)


def _outputs(trained: Any, net: Network, x: Array) -> Array:
    """Outputs in float32, so that two classes seldom tie; all layers but the last are computed in the dtype of x."""
    net, weights = with_slopes(net, trained["slopes"]), trained["weights"]
    return net[-1:].apply(weights[-1:], net[:-1].apply(weights[:-1], x).astype(jnp.float32))


def _epoch(net: Network, state: Any, x: Array, y: Array, rows: Array, total: int) -> tuple[Any, Array]:
    """The state after all steps, and their mean loss.

    XLA's convolutions for CPUs take ten times as long inside of a loop, which is Python's there.
    """
    if on_accelerator():
        return _epoch_in_one_program(net, state, x, y, rows, total)
    losses = []
    for batch in rows:
        state, loss = _step(net, state, x, y, batch, total)
        losses.append(loss)
    return state, jnp.stack(losses).mean()


@partial(jax.jit, static_argnames="total")
def _epoch_in_one_program(net: Network, state: Any, x: Array, y: Array, rows: Array, total: int) -> tuple[Any, Array]:
    state, losses = lax.scan(lambda state, batch: _step(net, state, x, y, batch, total), state, rows)
    return state, losses.mean()


def _hits(net: Network, trained: Any, x: Array, y: Array) -> np.ndarray:
    """Whether the class of each image is predicted."""
    blocks = [_hits_of(net, trained, x[rows], y[rows]) for rows in ranges(len(x), EVALUATION_BATCH)]
    return np.concatenate([np.asarray(block) for block in blocks])


@jax.jit
def _hits_of(net: Network, trained: Any, x: Array, y: Array) -> Array:
    return _outputs(trained, net, x).argmax(-1) == y


def off_gaussian(activation: Activation) -> float:
    """The largest difference of exp(c - 1) from the dual k(1, 1, c) / k(1, 1, 1) of the activation."""
    cosines = np.cos(np.linspace(0, np.pi, 2001))  # from 1 down
    k = np.asarray(dual(activation, 1.0, 1.0, cosines))
    return float(np.abs(k / k[0] - np.exp(cosines - 1)).max())


def table(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Means and standard deviations over the seeds that did not diverge."""
    rows = []
    for (setting, name), own in _groups(runs).items():
        finished = _without_diverged(own)
        row: dict[str, Any] = {
            "setting": setting,
            "activation": name,
            "seeds": len(own),
            "diverged": len(own) - len(finished),
        }
        for kind in KINDS:
            accuracies = [100 * run[kind] for run in finished]
            spread = f" ± {np.std(accuracies, ddof=1):.2f}" if len(accuracies) > 1 else ""
            spread += f" ({len(accuracies)} of {len(own)} seeds)" if len(accuracies) < len(own) else ""
            row[f"{kind}, %"] = f"{np.mean(accuracies):.2f}{spread}" if accuracies else ""
        fixed = not isinstance(ACTIVATIONS[name], LeakyRelu)  # the dual of one that is trained is not that at the start
        off = f"{own[0]['off_gaussian']:.4f}" if fixed else ""
        rows.append(row | {"off exp(c - 1)": off, "slopes": _slopes(name, own)})
    return rows


def _without_diverged(runs: Sequence[Run]) -> list[Run]:
    """The runs that did not diverge: whose loss stayed a number."""
    return [run for run in runs if run["losses"][-1] is not None]


def _slopes(name: str, runs: Sequence[Run]) -> str:
    """The slopes on both sides of 0; of those trained in every layer the range over the seeds that did not diverge."""
    act = ACTIVATIONS[name]
    if isinstance(act, LeakyRelu):
        by_layer = zip(*(run["slopes"] for run in _without_diverged(runs)), strict=True)
        spans = [f"{min(own):.2f}" + f" to {max(own):.2f}" * (len(own) > 1) for own in by_layer]
        return f"trained: {', '.join(spans)}; 1" if spans else ""
    return f"{act.a:.4f}, {act.b:.4f}" if isinstance(act, ABRelu) else ""


def draw(runs: Sequence[Run]) -> Any:
    """The activation and its dual; and for every size, test accuracies by epoch and of selected epochs."""
    from .plots import Training, training_curves

    A, B = fitted_slopes()
    sizes: dict[str, dict[str, Training]] = {}
    for (setting, name), own in _groups(runs).items():
        finished = _without_diverged(own)
        selected = {kind: np.array([run[kind] for run in finished]) for kind in KINDS}
        by_epoch = np.array([run["test"] for run in finished])
        sizes.setdefault(setting, {})[name] = Training(by_epoch, selected, len(own) - len(finished))
    fitted = ACTIVATIONS["ABReLU"]
    return training_curves(
        {"ABReLU": fitted, "ReLU": Relu()},
        {"exp(c - 1)": ExpNormalized(), "ABReLU": fitted, "ReLU": Relu()},
        f"ABReLU with A = {A:.4f}, B = {B:.4f}:\nwithin {off_gaussian(fitted):.4f} of exp(c - 1)",
        sizes,
    )


def _groups(runs: Sequence[Run]) -> dict[tuple[str, str], list[Run]]:
    """The seeds of every size and activation, in our order."""
    sizes = dict.fromkeys(label(run["config"]) for run in runs)
    groups: dict[tuple[str, str], list[Run]] = {}
    for place in product(sizes, ACTIVATIONS):
        own = [run for run in runs if (label(run["config"]), run["config"]["activation"]) == place]
        groups |= {place: list({run["config"]["seed"]: run for run in own}.values())} if own else {}
    return groups


def label(config: dict[str, Any]) -> str:
    """The size of networks, data and training, and the dtype."""
    images = f"{config['train']:,} images of {sides(config['pixels'], config['pixels'])}"
    return f"width {config['width']}, {images}, {config['epochs']} epochs, {config['dtype']}"


CLAIM = (
    "The paper: slopes of -0.096 and 1.411 fit ABReLU to the normalised Gaussian kernel, and a Myrtle-5 of width 128 has a "
    "higher test accuracy with it than with ReLU, GELU, erf and PReLU."
)
OPTIONS = {
    "epochs": "epochs of training (30; with --full 200)",
    "width": "channels of every layer (16; with --full 128)",
    "train": "training images (2000; with --full 45000)",
    "pixels": "the side of images, by averages (8; with --full 32)",
}
STUDY = ImageStudy("abrelu", EXPERIMENTS["abrelu"], CLAIM, draw, table, settings, compute, True, OPTIONS, check)
