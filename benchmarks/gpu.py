"""What a GPU does with widelimit: features of images and exact kernels, with shares of what the device can do.

    python benchmarks/gpu.py [peaks] [features] [exact] [tail] [accuracy --cifar FOLDER] [choices --cifar FOLDER]

`peaks` measures the device: products of bfloat16 matrices, and copies. `features` prints images a second of Myrtle-5's
features for several widths, the operations and bytes counted, and their share of the peaks. `exact` prints microseconds a
pair of the exact Myrtle-5 kernel of 32x32x3 images, and what 60,000 images would take; `tail` nanoseconds a pair of the last
stage alone, on features of 8x8 pixels. Results are compared with float64 on the CPU. `accuracy` runs the settings of
docs/cifar10.md by `widelimit.reproduce.cifar10`, with three seeds each, and `choices` those that led to them, on 10,000
training images and scored on others; a run that is in the file --out is not run again.
Without a part named, features, exact and tail run. Without a GPU everything runs too, in minutes, if it is small:

    python benchmarks/gpu.py features exact tail --images 8 --features 256 --exact-images 3 --tail-images 8 --channels 16
    python benchmarks/gpu.py accuracy --cifar FOLDER --train 60 --test 20 --features 256 --seeds 0 --settings features
"""

import argparse
from collections.abc import Callable
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import widelimit as wl
from widelimit.datasets import Images, cifar10
from widelimit.regression.device import at_edge
from widelimit.reproduce.cifar10 import label, study_of
from widelimit.reproduce.myrtle import HELD_OUT, ON_TEST, Config
from widelimit.reproduce.study import reproduce
from widelimit.reproduce.timing import pair_count, seconds, seconds_a_pair

SHAPE, IMAGES = (32, 32, 3), 60_000
WIDTHS = 4096, 8192, 16384, 32768
ACTIVATION = wl.ExpNormalized()
PENALTIES = 3e-4, 1e-3, 3e-3, 1e-2, 3e-2  # of accuracy, where they are known to hold the best


def peaks(options: argparse.Namespace) -> tuple[float, float]:
    """Operations a second of bfloat16 products, and bytes a second of copies."""
    side, length = (16384, 2**31) if jax.default_backend() != "cpu" else (1024, 2**26)
    a = jax.random.normal(jax.random.key(0), (side, side), jnp.bfloat16)
    product = jax.jit(lambda a: a @ a)
    flops = 2 * side**3 / seconds(lambda: product(a))[1]
    b = jnp.ones(length // 4, jnp.float32)
    scaled = jax.jit(lambda b: 2 * b)
    copied = 2 * length / seconds(lambda: scaled(b))[1]
    print(f"bfloat16 products {flops / 1e12:.3g} TFLOP/s, copies {copied / 1e12:.3g} TB/s (read and written)\n")
    return flops, copied


def counted(net: wl.Network, phi: Any) -> tuple[float, float]:
    """Operations of the products of an image, and the least bytes of its large arrays: each written and read once."""
    work = traffic = 0.0
    for i, drawn in enumerate(phi.parts[0].drawn):
        pixels = prod(wl.serial(*net.layers[:i]).output_shape(SHAPE)[:-1])
        for weights in jax.tree.leaves(drawn):
            if weights.ndim == 2 and weights.dtype in (jnp.bfloat16, jnp.float32) and pixels > 1:
                inputs, outputs = weights.shape
                work += 2 * pixels * inputs * outputs
                traffic += 2 * 2 * pixels * (inputs + outputs)
    return work, traffic


def features(options: argparse.Namespace) -> list[str]:
    """Images a second, for each width."""
    flops, copied = peaks(options)
    net, missed = wl.nets.myrtle(5, ACTIVATION), []
    small = np.random.default_rng(0).normal(size=(8, *SHAPE)).astype(np.float32)
    x = jnp.asarray(np.random.default_rng(1).normal(size=(options.images, *SHAPE)), jnp.float32)
    print(
        "| kernel | features | dtype | first call, s | images/s | GFLOP an image | of the products' peak | of copies' |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for get in options.kernel:
        exact = net.kernel(small.astype(np.float64), get=get)
        for width in options.features or WIDTHS:
            for dtype in options.dtype:
                phi = net.feature_map(jax.random.key(0), SHAPE, width, get, dtype=dtype)
                first, least = seconds(lambda phi=phi: phi(x), 2)
                work, traffic = counted(net, phi)
                rate, shares = len(x) / least, (work / flops, traffic / copied)
                print(
                    f"| {get} | {width} | {dtype} | {first:.1f} | {rate:.0f} | {work / 1e9:.3g} "
                    f"| {shares[0] * rate:.0%} | {shares[1] * rate:.0%} |", flush=True,
                )  # fmt: skip
                found = phi(small).astype(np.float64)
                error = np.linalg.norm(found @ found.T - exact) / np.linalg.norm(exact)
                if not error < 10 * width**-0.5:
                    missed.append(f"{get}, {width} features, {dtype}: a relative error of {error:.3g}")
    print()
    return missed


def exact(options: argparse.Namespace) -> list[str]:
    """Microseconds a pair of the whole network."""
    rng, missed = np.random.default_rng(0), []
    x = rng.normal(size=(options.exact_images, *SHAPE)).astype(np.float32)
    print("| exact Myrtle-5 | first call, s | microseconds a pair | 60,000 images, hours |\n|---|---|---|---|")
    for get in ("nngp", "ntk"):
        net = wl.nets.myrtle(5, ACTIVATION)
        first, each = seconds_a_pair(net, jnp.asarray(x), get)
        print(f"| {get} | {first:.1f} | {1e6 * each:.3g} | {each * pair_count(IMAGES) / 3600:.3g} |", flush=True)
        found, right = net.kernel(x[:4], get=get), _on_cpu(net, x[:4], get)
        if not np.allclose(found, right, rtol=1e-4):
            missed.append(f"exact {get}: {np.abs(found / right - 1).max():.2g} off")
    print()
    return missed


def tail(options: argparse.Namespace) -> list[str]:
    """Nanoseconds a pair of the last stage on features of the first."""
    net, missed = wl.nets.myrtle(5, ACTIVATION), []
    last = wl.serial(*net.layers[8:])
    print("| last stage, channels | first call, s | nanoseconds a pair | of the products' peak |\n|---|---|---|---|")
    flops, _ = peaks(options)
    for channels in options.channels:
        x = jax.random.normal(jax.random.key(0), (options.tail_images, 8, 8, channels), jnp.bfloat16)
        first, each = seconds_a_pair(last, x, "nngp")
        share = 2 * 64**2 * channels / each / flops
        print(f"| {channels} | {first:.1f} | {1e9 * each:.3g} | {share:.0%} |", flush=True)
        few = np.asarray(x[:4], np.float32)
        found, right = np.asarray(last.kernel(x[:4], get="nngp")), _on_cpu(last, few, "nngp")
        if not np.allclose(found, right, rtol=1e-4):
            missed.append(f"tail, {channels} channels: {np.abs(found / right - 1).max():.2g} off")
    print()
    return missed


EXACT_LAST = Config(features=(4096,), exact_last=True, channels=1024, scale=1.5)
SETTINGS = {
    "features": Config(features=WIDTHS),
    "features and mirror images": Config(features=WIDTHS, flips=True),
    "exact last stage": EXACT_LAST,
    "exact last stage and mirror images": replace(EXACT_LAST, flips=True),
}
ONE_WIDTH = Config(features=(8192,))
CHOICES = [
    ONE_WIDTH,
    *(replace(ONE_WIDTH, scale=scale) for scale in (0.25, 0.5, 1.5)),
    *(replace(ONE_WIDTH, activation=name) for name in ("relu", "abrelu", "gelu")),
    replace(ONE_WIDTH, dtype="float32"),
    *(replace(ONE_WIDTH, kernel="ntk", scale=scale) for scale in (0.5, 1)),
    *(replace(ONE_WIDTH, sketch=kind, degree=degree) for kind in ("powers", "polysketch") for degree in (4, 8)),
    *(replace(ONE_WIDTH, kernel="ntk", sketch=kind, degree=4) for kind in ("powers", "polysketch")),
    *(replace(EXACT_LAST, scale=scale) for scale in (0.5, 1, 1.5, 2)),
    *(replace(EXACT_LAST, scale=1, regularization=share) for share in (0.01, 0.03, 0.3, 1.0)),
    replace(EXACT_LAST, scale=1, activation="relu"),
    *(replace(EXACT_LAST, depth=depth) for depth in (7, 10)),
    *(replace(EXACT_LAST, **wider) for wider in ({"channels": 512}, {"features": (8192,)})),
    *(replace(EXACT_LAST, scale=scale, flips=True) for scale in (1, 1.5)),
]


def accuracy(options: argparse.Namespace) -> list[str]:
    """Seconds and accuracies on CIFAR-10."""
    data, lines = cifar10(options.cifar), []
    small = {"train": options.train or 50_000, "test": options.test or 10_000, "seeds": tuple(options.seeds)}
    for name in options.settings or SETTINGS:
        for width in options.features or SETTINGS[name].features:
            runs = _runs(options, replace(SETTINGS[name], features=(width,), **small), data, PENALTIES)
            parts = {part: np.median([run["seconds"].get(part, 0) for run in runs]) for part in
                     ("features", "kernel", "solving")}  # fmt: skip
            after = [run["seconds"]["all"] - run["seconds"]["preprocessing"] for run in runs]
            rate = np.median([run["images_per_second"] for run in runs])
            lines.append(
                f"| {name} | {width} | {rate:.0f} | {parts['features']:.1f} | {parts['kernel']:.1f} | {parts['solving']:.1f} "
                f"| {np.median(after):.1f} | {max(after):.1f} | {_accuracies(runs)} |"
            )  # fmt: skip
    print(f"\n{len(options.seeds)} seeds: the mean accuracy and its standard deviation, and median seconds after "
          "preprocessing, of which the first seed alone compiles, as the slowest shows\n")  # fmt: skip
    print("| setting | features | images/s | features, s | kernel, s | solving, s | all, s | slowest, s "
          "| accuracy, % | penalty chosen on test images |")  # fmt: skip
    print("|---" * 10 + "|", *lines, "", sep="\n")
    return []


def choices(options: argparse.Namespace) -> list[str]:
    """What decides between kinds of features: 10,000 training images, scored on the last 5000 others."""
    data = cifar10(options.cifar)
    data = data._replace(x_test=data.x_train[-HELD_OUT:], y_test=data.y_train[-HELD_OUT:])
    small = {"train": options.train or 10_000, "test": options.test or HELD_OUT, "seeds": tuple(options.seeds)}
    most = len(data.x_train) - HELD_OUT
    if small["train"] > most:
        return [f"choices would learn from images that score with --train {small['train']}: give {most} or fewer"]
    print("| setting | features | images/s | accuracy, % | best penalty |\n|---|---|---|---|---|")
    for config in CHOICES:
        runs = _runs(options, replace(config, **small), data, Config.penalties, lambda line: None, "cifar10-choices")
        rate = np.median([run["images_per_second"] for run in runs])
        first = runs[0]["config"]
        name = label(first | {"train": Config.train, "test": Config.test, "held_out": HELD_OUT})
        print(f"| {name} | {first['features'][0]} | {rate:.0f} | {_accuracies(runs)} |", flush=True)
    return []


def _runs(
    options: argparse.Namespace, config: Config, data: Images, penalties: tuple[float, ...], say: Callable = print,
    experiment: str = "cifar10",
) -> list[dict[str, Any]]:  # fmt: skip
    config = replace(config, penalties=tuple(options.penalties or penalties))
    return reproduce(study_of(config, experiment), True, Path(options.out), data, say=say)


def _accuracies(runs: list[dict[str, Any]]) -> str:
    """Of the penalty chosen on held-out images, and of the best; ≥ where the least or largest was chosen in some run."""
    edge = any(at_edge(run["penalty"], run["config"]["penalties"]) for run in runs)
    own, best = ([100 * part["accuracy"] for part in parts] for parts in (runs, [run[ON_TEST] for run in runs]))
    return (
        f"{'≥ ' * edge}{np.mean(own):.2f}"
        + (f" ± {np.std(own, ddof=1):.2f}" if len(own) > 1 else "")
        + f" | {np.mean(best):.2f}"
    )


def _on_cpu(net: wl.Network, x: np.ndarray, get: str) -> np.ndarray:
    with jax.default_device(jax.devices("cpu")[0]):
        return net.kernel(x.astype(np.float64), get=get)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="peaks, features, exact, tail, accuracy, choices")
    parser.add_argument("--features", type=int, nargs="+", help="widths; those of the docs by default")
    parser.add_argument("--kernel", nargs="+", default=["nngp", "ntk"], choices=["nngp", "ntk"])
    parser.add_argument("--dtype", nargs="+", default=["bfloat16", "float32"], choices=["bfloat16", "float32"])
    parser.add_argument("--images", type=int, default=4096, help="of features")
    parser.add_argument("--exact-images", type=int, default=512)
    parser.add_argument("--tail-images", type=int, default=2048)
    parser.add_argument("--channels", type=int, nargs="+", default=[512, 1024, 2048])
    parser.add_argument("--cifar", metavar="FOLDER", help="CIFAR-10, for accuracy")
    parser.add_argument("--settings", nargs="+", choices=[*SETTINGS], help="of accuracy; all by default")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--penalties", type=float, nargs="+", help="five, or for choices those of the experiment")
    parser.add_argument("--train", type=int, help="training images, where all are too many")
    parser.add_argument("--test", type=int)
    parser.add_argument("--out", default="gpu.json", help="the file of results (%(default)s)")
    options = parser.parse_args()
    print(f"{jax.devices()[0].device_kind}, JAX {jax.__version__}\n")
    known = {
        "peaks": peaks,
        "features": features,
        "exact": exact,
        "tail": tail,
        "accuracy": accuracy,
        "choices": choices,
    }
    missed: list[str] = []
    for part in options.parts or ["features", "exact", "tail"]:
        if part not in known:
            raise SystemExit(f"There is no part {part!r}. Known are {', '.join(known)}.")
        if part in ("accuracy", "choices") and not options.cifar:
            raise SystemExit(f"{part} needs --cifar FOLDER, where CIFAR-10 is.")
        found = known[part](options)
        missed += found if isinstance(found, list) else []
    if missed:
        raise SystemExit("; ".join(missed))


if __name__ == "__main__":
    main()
