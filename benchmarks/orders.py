"""What exact low orders and orthogonal blocks of random weights are worth on CIFAR-10, at equal columns.

    python benchmarks/orders.py --cifar FOLDER [--train 10000] [--test 5000] [--features 8192] [--seeds 0 1 2] [--pixels 32]

Every accuracy goes into the file of results, `--out`, and is not computed again.

Myrtle-5, normalised Gaussian, NNGP, ridge regression; trained on the first training images and scored on the last ones, the
penalty chosen on a tenth of those trained on. `orders` are the exact ones of `RandomWeights`; `dense` are independent Gaussian
weights of whole patches, `blocks` orthogonal ones by Hadamard transforms.
"""

import argparse
import json
from pathlib import Path
from unittest.mock import patch

import jax
import numpy as np

import widelimit as wl
from widelimit.datasets import cifar10
from widelimit.regression.device import chosen_on_held_out, feature_path, scored
from widelimit.reproduce.images import average, features_of, whiten
from widelimit.reproduce.results import add_run, device, machine, read_runs
from widelimit.sketches.features import Features
from widelimit.sketches.random_weights import RandomWeights
from widelimit.storage.files import digest

PENALTIES = 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2
KINDS = {
    "orders None (default), dense": (RandomWeights(), True),
    "orders 0, dense": (RandomWeights(0), True),
    "orders 1, dense": (RandomWeights(1), True),
    "orders 2, dense": (RandomWeights(2), True),
    "orders 3, dense": (RandomWeights(3), True),
    "orders None (default), blocks": (RandomWeights(), False),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cifar", required=True, metavar="FOLDER")
    parser.add_argument("--train", type=int, default=10_000)
    parser.add_argument("--test", type=int, default=5000)
    parser.add_argument("--features", type=int, default=8192)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--pixels", type=int, default=32, help="the side of images, by averages")
    parser.add_argument("--out", type=Path, default=Path("orders.json"), metavar="FILE", help="the file of results")
    options = parser.parse_args()
    data, n = cifar10(options.cifar), options.train
    if n + options.test > len(data.x_train):
        raise SystemExit(f"There are {len(data.x_train)} training images, to train and to score on. Ask for fewer.")
    images = np.concatenate([data.x_train[:n], data.x_train[-options.test :]])
    y = np.eye(len(data.names))[np.concatenate([data.y_train[:n], data.y_train[-options.test :]])]
    x = whiten(average(data.x_train, options.pixels), average(images, options.pixels), 0.1)
    net = wl.nets.myrtle(5, wl.ExpNormalized(gamma=options.scale))
    print(f"{jax.devices()[0].device_kind}, {n} images of {options.pixels} x {options.pixels} to train,")
    print(f"{options.test} to score, {options.features} features\n")
    print("| random weights | accuracy, % | by seed |\n|---|---|---|")
    known = {run["digest"]: run["accuracy"] for run in read_runs(options.out)}
    for name, (kind, dense) in KINDS.items():
        found = []
        # What is patched is not seen by compiled programs.
        jax.clear_caches()
        with patch.object(Features, "affords", lambda self, inputs, dense=dense: dense):
            for seed in options.seeds:
                config = {
                    "weights": name, "seed": seed, "train": n, "test": options.test, "features": options.features,
                    "scale": options.scale, "pixels": options.pixels, "penalties": list(PENALTIES),
                }  # fmt: skip
                run = digest("orders", json.dumps(config, sort_keys=True), device())
                if run not in known:
                    phi = net.feature_map(jax.random.key(seed), x.shape[1:], options.features, "nngp", kind)
                    rows = features_of(phi, x, False, "float32", None, False)[0]
                    penalty = chosen_on_held_out(feature_path, rows, y[:n], n // 10, PENALTIES).chosen
                    known[run] = float(scored(feature_path(rows, y[:n], [penalty]), y[n:], [penalty]).accuracies[0])
                    outcome = {"accuracy": known[run], "penalty": penalty}
                    add_run(
                        options.out, {"experiment": "orders", "digest": run, "config": config, **outcome, **machine()}
                    )
                found.append(100 * known[run])
        spread = f" ± {np.std(found, ddof=1):.2f}" if len(found) > 1 else ""
        print(f"| {name} | {np.mean(found):.2f}{spread} | {', '.join(f'{a:.2f}' for a in found)} |", flush=True)


if __name__ == "__main__":
    main()
