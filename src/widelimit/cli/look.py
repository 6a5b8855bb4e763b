"""`widelimit activations`, `widelimit demo`, `widelimit reproduce`, `widelimit report` and `widelimit info`."""

import os
import platform
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from .. import __version__, reproduce
from ..activations import CATALOGUE, dual, dual_slope, named
from ..storage.files import atomic_file
from . import common
from .common import command, report

_COSINES = (-1.0, -0.5, 0.0, 0.5, 0.9, 1.0)


@command
def activations(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Activations; none lists all.")] = None,
    std: Annotated[float, typer.Option(help="The standard deviation of their inputs.")] = 1.0,
    degree: Annotated[int, typer.Option(help="The last degree of the spectrum.")] = 8,
    plot: Annotated[
        Path | None, typer.Option(help="Draw dual, slope and spectrum into this .png, .svg or .pdf.")
    ] = None,
    force: common.Force = False,
    as_json: common.Json = False,
) -> None:
    """The kernels that activations make: dual, slope and spectrum.

    The dual k(c) = E f(u) f(v) for normal u, v of deviation --std and cosine c is what a layer makes of the NNGP; the slope
    k'(c) = E f'(u) f'(v) is the factor of the NTK. The spectrum is how much of k(1) is of each degree in c.

        widelimit activations gelu relu erf --plot activations.png
    """
    if plot is not None:
        common.new_file(plot, force, (".png", ".svg", ".pdf"))
    if not 0 < std < np.inf:
        raise ValueError(f"--std is a number above 0, not {std}.")
    if not 0 <= degree <= 64:
        raise ValueError(f"--degree is a whole number from 0 to 64, not {degree}.")
    selected = {name: named(name) for name in names or CATALOGUE}
    cosines = np.array(_COSINES)
    values = {}
    for name, activation in selected.items():
        spectrum = np.asarray(activation.radial(np.float64(std), degree), np.float64).ravel() ** 2
        values[name] = {
            "dual": np.asarray(dual(activation, std, std, cosines)),
            "slope": np.asarray(dual_slope(activation, std, std, cosines)), "spectrum": spectrum,
        }  # fmt: skip
    if plot is not None:
        from ..reproduce.plots import activation_curves, save

        save(activation_curves(selected, std, degree), plot)
    if as_json:
        report({"std": std, "cosines": list(_COSINES), "activations": values, "plot": plot}, True, "")
        return
    for table in _tables(values, std, degree):
        Console().print(table)
    if plot is not None:
        common.note(f"Drawn in {plot}")


def _tables(activations: dict[str, dict[str, np.ndarray]], std: float, degree: int) -> tuple[Table, Table]:
    kernels = Table(title=f"Kernels of inputs of standard deviation {std:g}", title_justify="left")
    spectra = Table(title="Spectrum: the share of k(1) of each degree in c, in percent", title_justify="left")
    for table in (kernels, spectra):
        table.add_column("activation", no_wrap=True)
    for heading in ("k(-1)", "k(0)", "k(0.5)", "k(1)", "k'(0)", "k'(1)"):
        kernels.add_column(heading, justify="right")
    for heading in (*map(str, range(degree + 1)), "rest"):
        spectra.add_column(heading, justify="right")
    for name, values in activations.items():
        k, slope, spectrum = values["dual"], values["slope"], values["spectrum"]
        zero = 1e-12 * k[5]  # rounding
        numbers = (k[0], k[2], k[3], k[5], slope[2], slope[5])
        kernels.add_row(name, *("0" if abs(v) < zero else f"{v:.4g}" for v in numbers))
        shares = [100 * v / (k[5] or 1.0) for v in (*spectrum, max(k[5] - spectrum.sum(), 0.0))]
        spectra.add_row(name, *(f"{share:.1f}" if share >= 0.05 else "·" for share in shares))
    return kernels, spectra


@command
def demo(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The folder for tables and plots; made where missing.")
    ] = Path("demo-output"),
) -> None:
    """The story on handwritten digits: accuracy and time, exact and sketched, against scikit-learn's classifiers."""
    from ..reproduce.demo import main

    main(["--out", str(out)])


def experiment(name: str, about: str) -> Callable[[typer.Context], None]:
    """The command of an experiment."""

    def run(context: typer.Context) -> None:
        reproduce.run(name, context.args, f"widelimit reproduce {name}")

    run.__doc__ = f"{about}; --help lists the options."
    return command(run)


@command
def report_page(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files of results of `widelimit reproduce`.")],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
) -> None:
    """One page of HTML with the tables and figures of all results, which needs nothing beside it."""
    from ..reproduce.report import gather, page

    if out.suffix not in (".html", ".htm"):
        raise ValueError(f"{out}: the name of a page ends with .html or .htm.")
    known, others = gather(files)
    with atomic_file(out) as file:
        file.write(page(known).encode())
    runs = sum(map(len, known.values()))
    left = "".join(f", and left out {count} of {name}, which has no section" for name, count in others.items())
    typer.echo(f"Wrote {out}: {runs} runs of {', '.join(known)}{left}.")


@command
def info(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="A model, or a table.")] = None,
    as_json: common.Json = False,
) -> None:
    """What this installation is, or what a model file or a table holds."""
    if file is None:
        packages = {name: version(name) for name in ("jax", "jaxlib", "equinox", "numpy", "scipy", "scikit-learn")}
        result: dict[str, Any] = {
            "widelimit": __version__, "python": platform.python_version(), **packages,
            "devices": [f"{d.device_kind} ({d.platform})" for d in jax.devices()], "cores": os.cpu_count(),
            "compiled_programs": common.program_folder(),
        }  # fmt: skip
        report(result, as_json, "widelimit")
        return
    if not file.exists():
        raise FileNotFoundError(f"{file}: does not exist.")
    result = _of_model(file) if _is_model(file) else _of_table(file)
    report({"file": file, "bytes": file.stat().st_size, **result}, as_json, str(file))


def _is_model(path: Path) -> bool:
    from zipfile import BadZipFile, ZipFile

    try:
        with ZipFile(path) as archive:
            return "header.npy" in archive.namelist()
    except (BadZipFile, OSError):
        return False


def _of_model(path: Path) -> dict[str, Any]:
    from .. import estimators

    model, about = estimators.load(path, with_about=True)
    steps = [part for _, part in model.steps] if hasattr(model, "steps") else [model]
    last = steps[-1]
    parameters = {
        k: v
        for k, v in last.get_params(deep=False).items()
        if v is not None and k not in ("progress", "penalties", "net")
    }
    return {
        "estimator": " > ".join(type(step).__name__ for step in steps), "parameters": parameters,
        "penalty": getattr(last, "penalty_", None), "classes": getattr(last, "classes_", None),
        "inputs": steps[0].n_features_in_, **about,
    }  # fmt: skip


def _of_table(path: Path) -> dict[str, Any]:
    from ..datasets import columns_of

    return {"columns": columns_of(path)}
