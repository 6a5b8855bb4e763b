"""Why PReLU diverges where the others do not: the first steps of `widelimit reproduce abrelu --full`, on any device.

    python benchmarks/prelu.py --cifar FOLDER [--steps 40]

Myrtle-5 of the paper's size with three seeds: as in the experiment; computed in float32; with slopes that stay at 1/4; with
half of the rate for the slopes; and with half of it for all. A row has the first step whose loss is no number, the largest loss
before it, and for the first layer and the last one the slope that was left and the largest that it was.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
import optax

from widelimit.data import cifar10
from widelimit.experiments import abrelu

SEEDS = range(3)
CASES = {  # dtype, and the rates of weights and of slopes as shares of the paper's
    "as in the experiment": ("bfloat16", 1, 1),
    "float32": ("float32", 1, 1),
    "slopes stay at 1/4": ("float32", 1, 0),
    "half of the rate for slopes": ("float32", 1, 0.5),
    "half of the rate": ("float32", 0.5, 0.5),
}


OPTIMISER = optax.chain(optax.add_decayed_weights(abrelu.DECAY), optax.sgd(abrelu.RATE, abrelu.MOMENTUM, nesterov=True))


@jax.jit
def step(net, state, x, y, rates):
    trained, memory = state
    loss, gradient = jax.value_and_grad(abrelu.mean_square)(trained, net, x, y)
    update, memory = OPTIMISER.update(gradient, memory, trained)
    update = {name: jax.tree.map(lambda part, rate=rates[name]: rate * part, update[name]) for name in update}
    return (jax.tree.map(jnp.add, trained, update), memory), loss


def first_steps(x, y, config, steps, of_weights, of_slopes):
    """The losses before every step until one is no number, and the slopes at each of these."""
    net, trained, key_orders = abrelu.start(config, x.shape[1:], int(y.max()) + 1)
    state, losses, slopes = (trained, OPTIMISER.init(trained)), [], []
    rates = {"weights": jnp.float32(of_weights), "slopes": jnp.float32(of_slopes)}
    for rows in abrelu.shuffled(jax.random.fold_in(key_orders, 0), len(x), config["batch"])[:steps]:
        at = [float(slope) for slope in state[0]["slopes"]]
        state, loss = step(net, state, x[rows], y[rows], rates)
        if not np.isfinite(loss):
            break
        losses.append(float(loss))
        slopes.append(at)
    return losses, np.array(slopes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cifar", required=True, metavar="FOLDER")
    parser.add_argument("--steps", type=int, default=40)
    given = parser.parse_args()
    config = next(c for c in abrelu.settings(True) if c["activation"] == "PReLU")
    images, y = abrelu.whitened_images(cifar10(given.cifar), config)
    images, y = images[: config["train"]], y[: config["train"]]
    print(f"{'case':28} seed  diverges at  largest loss  first slope, largest   last slope, largest", flush=True)
    for name, (dtype, *rates) in CASES.items():
        x = images.astype(dtype)
        for seed in SEEDS:
            losses, slopes = first_steps(x, y, config | {"seed": seed}, given.steps, *rates)
            at = f"step {len(losses) + 1}" if len(losses) < given.steps else "no"
            ends = [f"{slopes[-1, i]:10.3g}, {abs(slopes[:, i]).max():<10.3g}" for i in (0, -1)]
            print(f"{name:28} {seed:4} {at:>12} {max(losses):13.3g}  {' '.join(ends)}", flush=True)


if __name__ == "__main__":
    main()
