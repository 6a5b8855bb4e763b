"""Why PReLU diverges where ABReLU does not: the first steps of `widelimit reproduce abrelu --full`, on any device.

    python benchmarks/prelu.py --cifar FOLDER [--steps 60]

Myrtle-5 of the paper's size with three seeds: with slopes that are trained and with slopes that stay at 1/4, at the paper's
rate and at half of it. A row has the first step whose loss is no number, the largest loss before it, and the slopes that
were left. Twelve runs take a quarter of an hour on two CPU cores.
"""

import argparse
from functools import partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import optax

from widelimit.data import cifar10
from widelimit.experiments import abrelu

SEEDS = range(3)


@partial(jax.jit, static_argnames=("fixed", "optimiser"))
def step(net, state, x, y, fixed, optimiser):
    trained, memory = state
    loss, gradient = jax.value_and_grad(abrelu.mean_square)(trained, net, x, y)
    update, memory = optimiser.update(gradient, memory, trained)
    if fixed:
        update["slopes"] = jax.tree.map(jnp.zeros_like, update["slopes"])
    return (jax.tree.map(jnp.add, trained, update), memory), loss


def first_steps(x, y, config, steps, fixed, rate):
    """The losses before every step until one is no number, and the last slopes that are numbers."""
    net, trained, key_orders = abrelu.start(config, x.shape[1:], int(y.max()) + 1)
    optimiser = optax.chain(optax.add_decayed_weights(abrelu.DECAY), optax.sgd(rate, abrelu.MOMENTUM, nesterov=True))
    state, losses, slopes = (trained, optimiser.init(trained)), [], []
    orders = abrelu.shuffled(jax.random.fold_in(key_orders, 0), len(x), config["batch"])
    for rows in orders[:steps]:
        left = [float(slope) for slope in state[0]["slopes"]]
        state, loss = step(net, state, x[rows], y[rows], fixed, optimiser)
        if not np.isfinite(loss):
            break
        losses.append(float(loss))
        slopes = left
    return losses, slopes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cifar", required=True, metavar="FOLDER")
    parser.add_argument("--steps", type=int, default=60)
    given = parser.parse_args()
    config = next(c for c in abrelu.settings(True) if c["activation"] == "PReLU")
    data = cifar10(given.cifar)
    x, y = abrelu.whitened_images(data, config)
    x, y = x[: config["train"]].astype(config["dtype"]), y[: config["train"]]
    print("slopes   rate  seed  diverges at  largest loss  last slopes", flush=True)
    for fixed, rate, seed in product((False, True), (abrelu.RATE, abrelu.RATE / 2), SEEDS):
        losses, slopes = first_steps(x, y, config | {"seed": seed}, given.steps, fixed, rate)
        at = f"step {len(losses) + 1}" if len(losses) < given.steps else "no"
        left = ", ".join(f"{slope:.2f}" for slope in slopes)
        print(
            f"{'fixed' if fixed else 'trained':8} {rate:4g} {seed:5} {at:>12} {max(losses):13.3g}  {left}", flush=True
        )


if __name__ == "__main__":
    main()
