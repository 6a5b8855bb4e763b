"""Random features against each other and against the paper's sketch: errors, and seconds an image.

    python benchmarks/sketch.py [rows] [layer] [images] [--features N] [--keys K]

rows    fully connected networks on 300 normal rows of 40 numbers, scaled row by row by U(0.3, 3): the root of the mean square
        of |error| / sqrt(K_ii K_jj) over pairs, times the root of the number of features; depths 1 and 3, W_std 1.2, b_std 0.1
layer   one layer of the normalised Gaussian on 600 unit vectors of 512 normals: relative Frobenius error at 2048 and 8192
images  Myrtle-5 on smooth random images of 32x32x3 pixels: seconds an image, and the error as for rows
"""

import argparse
import time

import jax
import numpy as np

import widelimit as wl
from widelimit import sketch

KINDS = {
    "default": "auto",
    "random weights alone": sketch.RandomWeights(0),
    "powers": "powers",
    "PolySketch": "polysketch",
}
# at most, for the default: depth 1 and depth 3, NNGP and NTK
_CASES = [(1, "nngp"), (1, "ntk"), (3, "nngp"), (3, "ntk")]
LIMITS = {
    name: dict(zip(_CASES, (0.3, 0.55, 0.65, 1.7), strict=True)) for name in ("relu", "gelu", "erf", "tanh", "silu")
}
LIMITS |= {name: dict(zip(_CASES, (0.9, 1.2, 1.3, 1.6), strict=True)) for name in ("sin", "exp_normalized")}


def rms(features: np.ndarray, exact: np.ndarray) -> float:
    wide = features.astype(np.float64)
    i, j = np.triu_indices(len(exact), 1)
    size = np.sqrt(np.diag(exact))
    return float(np.sqrt(np.mean((((wide @ wide.T) - exact)[i, j] / size[i] / size[j]) ** 2)))


def rows(features: int, keys: int) -> list[str]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 40)) * rng.uniform(0.3, 3, size=(300, 1))
    missed = []
    print(f"| activation | depth | kernel | {' | '.join(KINDS)} |")
    print("|---|---|---|" + "---|" * len(KINDS))
    for name, limits in LIMITS.items():
        for (depth, get), limit in limits.items():
            net = wl.nets.fully_connected(depth, name, 1.2, 0.1)
            exact, cells = net.kernel(x, get=get), []
            for label, kind in KINDS.items():
                found = [
                    features**0.5 * rms(net.feature_map(key, (40,), features, get, kind)(x.astype(np.float32)), exact)
                    for key in jax.random.split(jax.random.key(0), keys)
                ]
                cells.append(f"{np.mean(found):.2f} ± {np.std(found):.2f}")
                if label == "default" and np.mean(found) > limit:
                    missed.append(f"{name}, depth {depth}, {get}: {np.mean(found):.2f}, not {limit}")
            print(f"| {name} | {depth} | {get} | {' | '.join(cells)} |", flush=True)
    return missed


def layer(_: int, keys: int) -> list[str]:
    x = np.random.default_rng(0).normal(size=(600, 512))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    net = wl.serial(wl.Dense(512**0.5), wl.ExpNormalized(), wl.Dense())
    exact, missed = np.exp(x @ x.T - 1), []
    print("| columns | relative Frobenius error |\n|---|---|")
    for columns, limit in ((2048, 1.6e-2), (8192, 7.1e-3)):
        errors = []
        for key in jax.random.split(jax.random.key(0), keys):
            f = net.feature_map(key, (512,), columns, "nngp")(x)
            errors.append(np.linalg.norm(f @ f.T - exact) / np.linalg.norm(exact))
        print(f"| {columns} | {np.mean(errors):.2e} ± {np.std(errors):.0e} |", flush=True)
        if np.mean(errors) > limit:
            missed.append(f"{columns} columns: {np.mean(errors):.2e}, not {limit}")
    return missed


def images(features: int, keys: int) -> list[str]:
    x = np.random.default_rng(0).normal(size=(16, 32, 32, 3)).astype(np.float32)
    for _ in range(3):  # neighbouring pixels of photographs are alike
        x = (x + np.roll(x, 1, 1) + np.roll(x, 1, 2) + np.roll(x, -1, 1)) / 2
    x /= x.std((1, 2), keepdims=True)
    missed = []
    print("| activation | sketch | ms an image | first call, s | error |\n|---|---|---|---|---|")
    for name in ("exp_normalized", "relu"):
        net = wl.nets.myrtle(5, name)
        exact = net.kernel(x[:8], get="ntk")
        for label in ("default", "PolySketch"):
            errors, seconds = [], []
            for key in jax.random.split(jax.random.key(0), keys):
                phi = net.feature_map(key, (32, 32, 3), features, sketch=KINDS[label])
                start = time.perf_counter()
                f = phi(x, batch=4)
                first = time.perf_counter() - start
                start = time.perf_counter()
                phi(x, batch=4)
                seconds.append((time.perf_counter() - start) / len(x))
                errors.append(rms(f[:8], exact))
            print(
                f"| {name} | {label} | {1e3 * min(seconds):.0f} | {first:.1f} | {np.mean(errors):.4f} ± {np.std(errors):.4f} |",
                flush=True,
            )
            if label == "default" and min(seconds) > 0.075:
                missed.append(f"{name}: {min(seconds):.3f} s an image, not 0.075")
    return missed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="rows, layer, images; all by default")
    parser.add_argument("--features", type=int)
    parser.add_argument("--keys", type=int, default=3)
    options = parser.parse_args()
    known = {"rows": (rows, 8192), "layer": (layer, 0), "images": (images, 2048)}
    missed = []
    for part in options.parts or known:
        if part not in known:
            raise SystemExit(f"There is no part {part!r}. Known are {', '.join(known)}.")
        run, features = known[part]
        missed += run(options.features or features, options.keys)
    if missed:
        raise SystemExit("; ".join(missed))


if __name__ == "__main__":
    main()
