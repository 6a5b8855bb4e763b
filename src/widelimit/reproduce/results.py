"""The file of an experiment's results: a list of runs in JSON, written whole after each, which tells what is done already."""

import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax

from .. import __version__
from ..execution.grid import Block, Grid
from ..execution.policy import device_memory
from ..storage.files import check_writable
from ..storage.format import RUNS, reading_text, write_text

_NEEDED = {"experiment", "digest", "config", "device"}
_SUFFIXES = ".png", ".svg", ".pdf"
_PACKAGES = "jax", "jaxlib", "numpy", "scipy", "scikit-learn", "equinox", "optax"


def read_runs(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The runs in a file; none where there is no file."""
    path = Path(path)
    if not path.exists():
        return []
    with reading_text(path, RUNS) as header:
        runs = header["runs"]
        for place, run in enumerate(runs):
            if missing := _NEEDED - set(run):
                raise ValueError(f"run {place} lacks {', '.join(sorted(missing))}")
        if not all(isinstance(run, dict) and isinstance(run["digest"], str) for run in runs):
            raise ValueError("a run is no JSON object with the text of its digest")
        return runs


def add_run(path: str | os.PathLike[str], run: dict[str, Any]) -> None:
    """Write the file with another run, in place of an earlier one of the same digest."""
    runs = [known for known in read_runs(path) if known["digest"] != run["digest"]]
    write_text(path, {"runs": [*runs, run]})


class ResultsFile:
    """The file of results as a sink: block i is the run of name i, and is written once it is done.

    `report(run, place)` hears of every run that was written, with a place such as "1 of 9".
    """

    def __init__(self, path: Path, names: Sequence[str], report: Callable[[dict[str, Any], str], None]):
        self.path, self.names, self.report = path, names, report
        self._runs = {run["digest"]: run for run in read_runs(path)}
        self._count = sum(name not in self._runs for name in names)
        self._written = 0

    def missing(self, grid: Grid) -> Grid:
        return grid.without({i for i, name in enumerate(self.names) if name in self._runs})

    def write(self, block: Block, value: list[dict[str, Any]]) -> None:
        for run in value:
            add_run(self.path, run)
            self._runs[run["digest"]] = run
            self._written += 1
            self.report(run, f"{self._written} of {self._count}")

    def result(self) -> list[dict[str, Any]]:
        return [self._runs[name] for name in self.names]


def memory() -> int:
    """Bytes of memory of the accelerator, or of this machine where there is none."""
    return device_memory() or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def device() -> str:
    """The name of the device."""
    return jax.devices()[0].device_kind


def machine() -> dict[str, Any]:
    """The machine and the versions that a run is computed with."""
    return {
        "device": device(), "processor": _processor(), "cores": os.cpu_count(), "memory": memory(), "versions": _versions(),
    }  # fmt: skip


@lru_cache
def _versions() -> dict[str, str]:
    """Versions of the packages that are installed, and of this one with the commit where it runs from a clone."""
    installed = {name: version(name) for name in _PACKAGES if find_spec(name.replace("scikit-learn", "sklearn"))}
    return {"widelimit": __version__ + _commit(), "python": platform.python_version(), **installed}


def _commit() -> str:
    root = Path(__file__).parents[3]
    if not (root / ".git").exists() or (git := shutil.which("git")) is None:
        return ""
    command = [git, "-C", str(root), "describe", "--always", "--dirty", "--exclude", "*"]
    described = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"+{described.stdout.strip()}" if described.returncode == 0 else ""


@lru_cache
def _processor() -> str:
    """The name of the processor, as far as the system tells it."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def check_paths(out: Path, plot: Path | None) -> None:
    """Refuse files that cannot be written, or are something else, before any work."""
    for path in (out, *([plot] if plot else [])):
        check_writable(path)
    if plot and plot.suffix not in _SUFFIXES:
        raise ValueError(f"{plot}: the name of a plot ends with {', '.join(_SUFFIXES[:-1])} or {_SUFFIXES[-1]}.")
    read_runs(out)
