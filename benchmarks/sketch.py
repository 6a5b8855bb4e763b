"""Random features against each other and against the paper's sketch: errors, and seconds an image.

    python benchmarks/sketch.py [rows] [homogeneous] [layer] [images] [--features N] [--keys K] [--cifar FOLDER]

rows    fully connected networks on 300 normal rows of 40 numbers, scaled row by row by U(0.3, 3): the root of the mean square
        of |error| / sqrt(K_ii K_jj) over pairs, times the root of the number of features; depths 1 and 3, W_std 1.2, b_std 0.1
homogeneous  the same without biases, ReLU: the polynomial of the cosine against layer by layer
layer   one layer of the normalised Gaussian on 600 unit vectors, of 512 normals, and of 3x3x3 patches of whitened CIFAR-10
        images: relative Frobenius error at 2048 and 8192 columns
images  Myrtle-5 on 200 whitened CIFAR-10 images: milliseconds an image, and the error as for rows
"""

import argparse
import time

import jax
import numpy as np

import widelimit as wl
from cifar import patches, whitened
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


def rows(options: argparse.Namespace) -> list[str]:
    """Fully connected networks."""
    features, keys = options.features or 8192, options.keys
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 40)) * rng.uniform(0.3, 3, size=(300, 1))
    missed = []
    print(f"| activation | depth | kernel | {' | '.join(KINDS)} |")
    print("|---|---|---|" + "---|" * len(KINDS))
    for name, limits in LIMITS.items():
        if options.activation not in (None, name):
            continue
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
            jax.clear_caches()  # a process may not hold that many programs
    return missed


def homogeneous(options: argparse.Namespace) -> list[str]:
    """ReLU without biases: the polynomial of the cosine against layers of random weights."""
    features = options.features or 8192
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 40)) * rng.uniform(0.3, 3, size=(300, 1))
    print("| depth | kernel | polynomial's own error | cosine | random weights |\n|---|---|---|---|---|")
    for depth in (1, 2, 3):
        net = wl.nets.fully_connected(depth, "relu", 1.2)
        for get in ("nngp", "ntk"):
            exact, cells = net.kernel(x, get=get), []
            for kind in ("cosine", "random_weights"):
                maps = [
                    net.feature_map(key, (40,), features, get, kind)
                    for key in jax.random.split(jax.random.key(0), options.keys)
                ]
                found = [features**0.5 * rms(phi(x.astype(np.float32)), exact) for phi in maps]
                cells.append(f"{np.mean(found):.2f} ± {np.std(found):.2f}")
                if kind == "cosine":
                    own = maps[0].parts[0].whole.error
            print(f"| {depth} | {get} | {100 * own:.2f} % | {' | '.join(cells)} |", flush=True)
    return []


def layer(options: argparse.Namespace) -> list[str]:
    """One layer of the normalised Gaussian."""
    normals = np.random.default_rng(0).normal(size=(600, 512))
    data = {"normals, d=512": (normals / np.linalg.norm(normals, axis=1, keepdims=True), (1.6e-2, 7.1e-3))}
    if options.cifar:
        data["patches, d=27"] = patches(whitened(options.cifar, 600), 600), (6.1e-3, 3.0e-3)
    missed = []
    print(f"| data | columns | wanted | least possible | {' | '.join(KINDS)} |")
    print("|---|---|---|---|" + "---|" * len(KINDS))
    for name, (x, limits) in data.items():
        d = x.shape[1]
        net, exact = wl.serial(wl.Dense(d**0.5), wl.ExpNormalized(), wl.Dense()), np.exp(x @ x.T - 1)
        for columns, limit in zip((2048, 8192), limits, strict=True):
            means, cells = {}, []
            for label, kind in KINDS.items():
                errors = []
                for key in jax.random.split(jax.random.key(0), options.keys):
                    f = net.feature_map(key, (d,), columns, "nngp", kind)(x)
                    errors.append(np.linalg.norm(f @ f.T - exact) / np.linalg.norm(exact))
                means[label] = np.mean(errors)
                cells.append(f"{np.mean(errors):.2e} ± {np.std(errors):.0e}")
            least = least_error(exact, d, columns) if d == 512 else 0.0
            print(f"| {name} | {columns} | {limit:.1e} | {least:.2e} | {' | '.join(cells)} |", flush=True)
            if means["default"] > max(limit, 1.05 * least):
                missed.append(f"{name}, {columns} columns: {means['default']:.2e}, not {limit}")
    return missed


def least_error(exact: np.ndarray, d: int, columns: int) -> float:
    """What no features of so many columns can go below in the mean over directions drawn from the sphere.

    Let the features have the right length, be a constant mu, and mu x on the sphere's linear functions, mu^2 = 1/e. The d
    linear directions take d columns; what is left has the squared length 1 - 2/e, and by Welch's bound the mean square of
    products of m-column vectors of length L is at least L^4 / m.
    """
    return float((1 - 2 / np.e) * (columns - 1 - d) ** -0.5 / np.sqrt(np.mean(exact**2)))


def images(options: argparse.Namespace) -> list[str]:
    """Myrtle-5 on real images."""
    if not options.cifar:
        print("images: left out; they need --cifar FOLDER")
        return []
    x, features = whitened(options.cifar, options.images), options.features or 2048
    x /= x.std((1, 2, 3), keepdims=True)
    missed = []
    device = jax.devices()[0].device_kind
    print(
        f"{len(x)} images, features={features}, {options.keys} keys, float32, batches of {options.batch}, on {device}"
    )
    print("| activation | sketch | ms an image | first call, s | error |\n|---|---|---|---|---|")
    for name in ("exp_normalized", "relu"):
        net = wl.nets.myrtle(5, name)
        exact, means = net.kernel(x, get="ntk"), {}
        for label, kind in KINDS.items():
            errors, seconds, first = [], [], 0.0
            for key in jax.random.split(jax.random.key(0), options.keys):
                phi = net.feature_map(key, (32, 32, 3), features, sketch=kind)
                start = time.perf_counter()
                phi(x[: options.batch], batch=options.batch)
                first = time.perf_counter() - start if not seconds else first  # the others are compiled already
                start = time.perf_counter()
                f = phi(x, batch=options.batch)
                seconds.append((time.perf_counter() - start) / len(x))
                errors.append(rms(f, exact))
            means[label] = np.mean(errors)
            error = f"{np.mean(errors):.4f} ± {np.std(errors):.4f}"
            print(f"| {name} | {label} | {1e3 * min(seconds):.2f} | {first:.1f} | {error} |", flush=True)
            if label == "default" and min(seconds) > 0.075:
                missed.append(f"{name}: {min(seconds):.3f} s an image, not 0.075")
        if means["default"] > means["PolySketch"]:
            missed.append(f"{name}: error {means['default']:.4f}, PolySketch {means['PolySketch']:.4f}")
    return missed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="rows, homogeneous, layer, images; all by default")
    parser.add_argument("--features", type=int, help="columns; 8192 for rows, 2048 for images")
    parser.add_argument("--keys", type=int, default=3)
    parser.add_argument("--cifar", help="CIFAR-10's folder, cifar-10-batches-py, or an .npy file of whitened images")
    parser.add_argument("--activation", choices=[*LIMITS], help="of rows; all by default")
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--batch", type=int, default=4, help="images at once")
    options = parser.parse_args()
    known, missed = {"rows": rows, "homogeneous": homogeneous, "layer": layer, "images": images}, []
    for part in options.parts or known:
        if part not in known:
            raise SystemExit(f"There is no part {part!r}. Known are {', '.join(known)}.")
        missed += known[part](options)
    if missed:
        raise SystemExit("; ".join(missed))


if __name__ == "__main__":
    main()
