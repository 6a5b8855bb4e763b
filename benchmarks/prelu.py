"""Why PReLU diverges where others do not: the start and first steps of `widelimit reproduce abrelu --full`, on any device.

    python benchmarks/prelu.py --cifar FOLDER [--steps 100]

Myrtle-5 of the paper's size with three seeds. First, for every activation, the largest curvature of the loss of the first batch
before any step, by power iteration, beside the most with which such steps do not grow (see `LIMIT`). Then PReLU's first steps:
in float32; in bfloat16, as in the experiment; with slopes that stay at 1/4; and with half of the rate. A row has the first
step whose loss is no number, the largest loss before it and the slopes where it was largest.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
import optax

from widelimit.datasets import cifar10
from widelimit.reproduce import abrelu

SEEDS = range(3)
CASES = {  # dtype, and the rates of weights and of slopes as shares of the paper's
    "float32": ("float32", 1, 1),
    "bfloat16, as in the experiment": ("bfloat16", 1, 1),
    "slopes stay at 1/4": ("float32", 1, 0),
    "half of the rate": ("float32", 0.5, 0.5),
}
# On a parabola of curvature h, Nesterov's steps of rate r and momentum p are x'' = (1 - r h) ((1 + p) x' - p x). They grow
# where a root of z^2 - (1 - r h) ((1 + p) z - p) is beyond -1, which is 1 + (1 - r h) (1 + 2 p) < 0.
LIMIT = (2 + 2 * abrelu.MOMENTUM) / (abrelu.RATE * (1 + 2 * abrelu.MOMENTUM))
ITERATIONS = 12  # of the power iteration
TOTAL = 60 * (45_000 // 64)  # steps of the runs in benchmarks/results


@jax.jit
def step(net, state, x, y, rates):
    """As in the experiment, with rates of weights and slopes of their own."""
    trained, memory = state
    loss, gradient = jax.value_and_grad(abrelu.mean_square)(trained, net, x, y)
    update, memory = abrelu.optimiser(TOTAL).update(gradient, memory, trained)
    update = {name: jax.tree.map(lambda part, rate=rates[name]: rate * part, update[name]) for name in update}
    return (jax.tree.map(jnp.add, trained, update), memory), loss


def first_steps(x, y, config, steps, of_weights, of_slopes):
    """The losses before every step until one is no number, the slopes at each of these, and whether there was one."""
    net, trained, key_orders = abrelu.start(config, x.shape[1:], int(y.max()) + 1)
    state, losses, slopes = (trained, abrelu.optimiser(TOTAL).init(trained)), [], []
    rates = {"weights": jnp.float32(of_weights), "slopes": jnp.float32(of_slopes)}
    for rows in abrelu.shuffle(jax.random.fold_in(key_orders, 0), len(x), config["batch"])[:steps]:
        at = [float(slope) for slope in state[0]["slopes"]]
        state, loss = step(net, state, x[rows], y[rows], rates)
        if not np.isfinite(loss):
            return losses, np.array(slopes), True
        losses.append(float(loss))
        slopes.append(at)
    return losses, np.array(slopes), False


@jax.jit
def curved(net, trained, along, x, y):
    """The Hessian of the loss times a direction."""
    return jax.jvp(lambda at: jax.grad(abrelu.mean_square)(at, net, x, y), (trained,), (along,))[1]


def curvature(x, y, config):
    """The largest eigenvalue of the Hessian of the first batch's loss, by power iteration from its gradient."""
    net, trained, key_orders = abrelu.start(config, x.shape[1:], int(y.max()) + 1)
    (rows, *_) = abrelu.shuffle(jax.random.fold_in(key_orders, 0), len(x), config["batch"])
    along, found = jax.grad(abrelu.mean_square)(trained, net, x[rows], y[rows]), 0.0
    for _ in range(ITERATIONS):
        size = optax.global_norm(along)
        along = jax.tree.map(lambda part, size=size: part / size, along)
        image = curved(net, trained, along, x[rows], y[rows])
        found = float(sum(jnp.vdot(a, b) for a, b in zip(*map(jax.tree.leaves, (along, image)), strict=True)))
        along = image
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cifar", required=True, metavar="FOLDER")
    parser.add_argument("--steps", type=int, default=100)
    given = parser.parse_args()
    config = next(c for c in abrelu.settings(True) if c["activation"] == "PReLU")
    images, y = abrelu.prepare(cifar10(given.cifar), config)
    images, y = images[: config["train"]], y[: config["train"]]
    print(f"largest curvature at the start (limit {LIMIT:.1f}), seeds {', '.join(map(str, SEEDS))}", flush=True)
    for name in abrelu.ACTIVATIONS:
        found = [curvature(images, y, config | {"activation": name, "seed": seed}) for seed in SEEDS]
        print(f"{name:30} {', '.join(f'{value:.1f}' for value in found)}", flush=True)
    print(f"\n{'case':30} seed  diverges at  largest loss  at step  slopes there", flush=True)
    for name, (dtype, *rates) in CASES.items():
        x = images.astype(dtype)
        for seed in SEEDS:
            losses, slopes, diverged = first_steps(x, y, config | {"seed": seed}, given.steps, *rates)
            end = f"step {len(losses) + 1}" if diverged else "no"
            worst = int(np.argmax(losses))
            there = ", ".join(f"{slope:.2f}" for slope in slopes[worst])
            print(f"{name:30} {seed:4} {end:>12} {losses[worst]:13.3g} {worst + 1:8}  {there}", flush=True)


if __name__ == "__main__":
    main()
