"""Handwritten digits with infinitely wide networks, exact and sketched: `python -m widelimit.reproduce.demo`.

First scikit-learn's digits, as they are: the exact NTK, its random features, and three usual classifiers. Then the same
digits, shifted and turned at random, in growing numbers: the exact kernel's time grows with the cube of the rows, that of
features in proportion to them, and the number of rows at which they meet is computed. Every method gets images of one
length and chooses its penalty on training rows; test rows serve for the final score alone.

Two tables are printed; `digits.png`, `growth.png` and `results.json` are written into a folder.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from threadpoolctl import threadpool_limits

import widelimit as wl

from ...storage.files import atomic_file
from ..plots import save
from .measure import (
    EXACT,
    SEED,
    SHIFT,
    SKETCHED,
    TURN,
    Crossing,
    Score,
    Step,
    crossover,
    digits,
    grow,
    methods,
    project,
    scale,
    score,
    step,
)
from .show import draw_growth, draw_scores, growth_table, scores_table

SIZES = (1000, 1500, 2500, 3000, 10_000, 50_000)
EXACT_ROWS = 3000  # the largest size at which the exact kernel is measured
FEATURES = 2048
DEPTH = 3  # hidden layers
TRAIN_ROWS = 1000


class Results(NamedTuple):
    """What `run` measured, and the files that it wrote."""

    scores: dict[str, Score]
    exact: list[Step]
    sketched: list[Step]
    crossing: Crossing | None
    files: list[Path]


def _settings() -> dict[str, Any]:
    packages = ("jax", "numpy", "scipy", "scikit-learn", "matplotlib")
    return {
        "versions": {
            "widelimit": wl.__version__, "python": platform.python_version(), **{p: version(p) for p in packages}
        },
        "seed": SEED, "cores": os.cpu_count(), "linear_algebra_threads": 1, "machine": platform.machine(),
        "shift_pixels": SHIFT, "turn_degrees": TURN,
    }  # fmt: skip


def _plain(value: Any) -> Any:
    """A value for JSON: named tuples as objects with the names of their fields."""
    if hasattr(value, "_asdict"):
        return {k: _plain(v) for k, v in value._asdict().items()}
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list) else value


def _make_folder(folder: Path) -> None:
    """Make the folder, and check that it can be written to, before minutes of work."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise type(error)(
            f"Cannot write to the folder {str(folder)!r}: {error.strerror}. Choose another with --out FOLDER."
        ) from None


def _write(folder: Path, figures: dict[str, Figure], results: dict[str, Any]) -> list[Path]:
    for name, figure in figures.items():
        save(figure, folder / name, dpi=120)
    with atomic_file(folder / "results.json") as file:
        file.write((json.dumps(results, indent=1) + "\n").encode())
    return [*(folder / name for name in figures), folder / "results.json"]


def run(
    folder: Path,
    sizes: Sequence[int] = SIZES,
    exact_rows: int = EXACT_ROWS,
    features: int = FEATURES,
    train_rows: int = TRAIN_ROWS,
    depth: int = DEPTH,
    console: Console | None = None,
) -> Results:
    """Measure both parts, print their tables, and write plots and results into the folder."""
    sizes = sorted(sizes)
    if not sizes or sizes[0] > exact_rows:
        raise ValueError(f"One of sizes, at least, is at most exact_rows={exact_rows}, and they are {sizes}.")
    _make_folder(folder)
    console = console or Console()
    plain = scale(digits(train_rows))
    many = scale(grow(digits(train_rows), sizes[-1]))
    few = [rows for rows in sizes if rows <= exact_rows]
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    # On a busy machine the threads of BLAS wait for each other: a decomposition of 0.6 s then takes 15.
    with threadpool_limits(1, "blas"), Progress(*columns, console=console, transient=True) as progress:
        classifiers = methods(features, depth)
        task = progress.add_task("", total=len(classifiers) + len(few) + len(sizes))

        def measure(description: str, work: Callable[..., Any], *arguments: Any) -> Any:
            progress.update(task, description=description)
            result = work(*arguments)
            progress.advance(task)
            return result

        scores = {name: measure(name, score, name, method, plain) for name, method in classifiers.items()}
        exact, sketched = (
            [measure(f"{name}, {rows:,} rows", step, classifiers[name], many, rows) for rows in counts]
            for name, counts in ((EXACT, few), (SKETCHED, sizes))
        )
    crossing = crossover(exact, sketched)
    console.print(scores_table(scores, plain, features))
    console.print(growth_table(exact, sketched, crossing))
    ahead = {str(s.rows): project(exact, s.rows) for s in sketched if s.rows > exact[-1].rows}
    results = {
        **_settings(), "train_rows": train_rows, "features": features, "depth": depth,
        "digits": scores, "exact": exact, "sketched": sketched,
        "exact_projected_seconds": ahead, "crossover": crossing,
    }  # fmt: skip
    figures = {"digits.png": draw_scores(scores, plain), "growth.png": draw_growth(exact, sketched, crossing)}
    files = _write(folder, figures, _plain(results))
    console.print(f"Written: {', '.join(map(str, files))}", soft_wrap=True, highlight=False)
    return Results(scores, exact, sketched, crossing, files)


def main(argv: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m widelimit.reproduce.demo",
        description="Digits with infinitely wide networks, exact and sketched.",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("demo-output"), metavar="FOLDER", help="where to write plots and results"
    )
    try:
        run(parser.parse_args(argv).out)
    except OSError as error:
        sys.exit(str(error))
