"""How long two versions of widelimit take for the same, measured by turns in one run: old, new, old, new, ...

    python tools/ratios.py --new src                     # against the commit that compare.py names
    python tools/ratios.py --old widelimit-0.1.0-py3-none-any.whl --new src --repeats 5 --only rows

The cases are those of `exact.py`, `exact_cpu.py` (`make bench`), `sketch.py`, `rows.py` and `fit_rows.py` in `benchmarks`, and
smaller where these take minutes. Every measurement is a process of its own, and is timed after a first run, which
compiles. Leave the machine alone meanwhile. The exit code is 1 where a median is more than --limit times the old one.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from compare import OLD, ROOT, sources

BENCHMARKS = ROOT / "benchmarks"
EXACT = ("fully connected, ReLU", "3 convolutions, Flatten", "Myrtle-5, ReLU", "tanh", "residual, 4 blocks")


# In the process that is measured: seconds of each part, by name.


def exact(name: str, scale: float) -> dict[str, float]:
    """A case of `benchmarks/exact.py`, which prints what it takes."""
    import exact

    case = exact.CASES[name]
    exact.CASES[name] = case._replace(count=max(2, int(scale * case.count)))
    with TemporaryDirectory() as folder:
        exact.measure("widelimit", name, str(Path(folder) / "kernels.npz"))
    return {}


def bench(scale: float) -> dict[str, float]:
    """Myrtle-5 and tanh of `make bench`, at their own sizes."""
    import exact_cpu
    import widelimit as wl

    x = np.random.default_rng(0).normal(size=(max(4, int(300 * scale)), 50))
    net, own = wl.nets.fully_connected(2, "tanh"), exact_cpu.median_seconds
    found = {
        "tanh in float64": own(lambda: net.kernel(x)),
        "tanh in float32": own(lambda: net.kernel(x.astype("float32"))),
    }
    return found | ({"Myrtle-5, GELU": exact_cpu.myrtle("gelu")[0] / 1e3} if scale == 1 else {})


def sketch(scale: float) -> dict[str, float]:
    """Features of rows and of images, as `benchmarks/sketch.py` draws them."""
    import jax

    import widelimit as wl
    from exact_cpu import median_seconds

    rng = np.random.default_rng(0)
    rows, images = max(8, int(2000 * scale)), max(2, int(16 * scale))
    x, pictures = rng.normal(size=(rows, 40)), rng.normal(size=(images, 32, 32, 3))
    columns = max(64, int(2048 * scale))
    found = {}
    for kind in ("auto", "powers", "polysketch"):
        phi = wl.nets.fully_connected(2, "gelu", 1.2, 0.1).feature_map(jax.random.key(0), (40,), columns, sketch=kind)
        found[f"rows, {kind}"] = median_seconds(lambda phi=phi: phi(x.astype("float32")))
    for activation in ("relu", "exp_normalized"):
        net = wl.nets.myrtle(5, activation)
        phi = net.feature_map(jax.random.key(0), (32, 32, 3), columns)
        found[f"images, {activation}"] = median_seconds(lambda phi=phi: phi(pictures.astype("float32"), batch=4), 3)
    return found


def rows(scale: float) -> dict[str, float]:
    """Blocks of `benchmarks/rows.py`."""
    from rows import measure

    return {"blocks": measure(max(500, int(10_000 * scale)))["seconds"]}


def fit_rows(scale: float) -> dict[str, float]:
    """Fit and predict of `benchmarks/fit_rows.py`, from the table that it prints."""
    sizes = ["--rows", str(max(300, int(20_000 * scale))), "--components", str(max(64, int(2048 * scale)))]
    command = [sys.executable, str(BENCHMARKS / "fit_rows.py"), *sizes]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    cells = printed.splitlines()[-1].split("|")
    return {"fit": float(cells[3]), "predict": float(cells[4])}


MEASURES: dict[str, Callable[[float], dict[str, float]]] = {
    **{f"exact: {name}": lambda scale, name=name: exact(name, scale) for name in EXACT},
    "make bench": bench,
    "sketch": sketch,
    "rows": rows,
    "fit_rows": fit_rows,
}


# In the process that compares.


def measured(source: Path, name: str, scale: float) -> dict[str, float]:
    """The seconds of one measurement of one version."""
    path = os.pathsep.join(map(str, (source, BENCHMARKS, Path(__file__).parent)))
    environment = {"JAX_PLATFORMS": "cpu", **os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-W", "ignore", __file__, "--measure", name, str(scale)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} failed with {source}:\n{done.stderr[-2000:]}")
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    (seconds,) = (told for told in found if told)
    if "bytes" in seconds:  # of exact.py
        return {name: seconds["seconds"]}
    return {f"{name}: {part}": value for part, value in seconds.items()}


def table(times: dict[str, tuple[list[float], list[float]]], limit: float) -> tuple[str, list[str]]:
    """A line for each part, and the parts that take more than `limit` times as long as they did."""
    lines = ["| what | old, s | new, s | new / old | spread of old | of new |", "|---|---|---|---|---|---|"]
    slower = []
    for name, both in times.items():
        old, new = map(statistics.median, both)
        spreads = (f"{min(own):.3g} to {max(own):.3g}" for own in both)
        lines.append(f"| {name} | {old:.3g} | {new:.3g} | {new / old:.2f} | {' | '.join(spreads)} |")
        if new > limit * old:
            slower.append(name)
    return "\n".join(lines), slower


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", type=Path, metavar="PATH", help=f"a folder or a wheel; {OLD} where it is not given")
    parser.add_argument("--new", type=Path, default=ROOT / "src", metavar="PATH", help="a folder or a wheel (src)")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="of old and new by turns")
    parser.add_argument(
        "--scale", type=float, default=1.0, metavar="S", help="share of the sizes, to try the tool itself"
    )
    parser.add_argument("--limit", type=float, default=1.1, metavar="R", help="the largest ratio that is no failure")
    parser.add_argument("--only", choices=MEASURES, action="append", metavar="WHAT", help=", ".join(MEASURES))
    options = parser.parse_args()
    start = time.perf_counter()
    times: dict[str, tuple[list[float], list[float]]] = {}
    with TemporaryDirectory() as place:
        found = []
        for given, name in ((options.old, "old"), (options.new, "new")):
            folder = Path(place) / name
            folder.mkdir()
            found.append(sources(given, folder))
        for name in options.only or MEASURES:
            for turn in range(2 * options.repeats):
                for part, seconds in measured(found[turn % 2], name, options.scale).items():
                    times.setdefault(part, ([], []))[turn % 2].append(seconds)
            print(f"{name}: measured, {time.perf_counter() - start:.0f} s so far", file=sys.stderr)
    lines, slower = table(times, options.limit)
    print(lines)
    if slower:
        raise SystemExit(f"More than {options.limit} times as long as before: {', '.join(slower)}.")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(MEASURES[sys.argv[2]](float(sys.argv[3]))))
    else:
        main()
