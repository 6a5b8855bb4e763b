"""The long runs that wait for a GPU: their commands, their minutes on one H200, and which are done.

    python benchmarks/pending.py                                     list them
    python benchmarks/pending.py --run --cifar FOLDER --minutes 9    start those that are left, in order, and stop in time

A run is done when the file of results holds it, so the list needs no memory of its own, and what an interrupt leaves is
started again. `--results FOLDER` writes to other copies of the files, which start as those of benchmarks/results.
"""

import argparse
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

HERE = Path(__file__).parent
RESULTS = HERE / "results"
REPRODUCE = "-m", "widelimit.reproduce"
SEEDS = "--seeds", "0", "1", "2"


class Pending(NamedTuple):
    """Runs of one command: how many there are, which of the file's runs they are, and minutes for all of them."""

    name: str
    command: tuple[str, ...]
    results: str
    runs: int
    minutes: float
    settings: Mapping[str, Any] = MappingProxyType({})

    def done(self, folder: Path) -> int:
        """The number of its runs in the file of results."""
        file = folder / self.results
        known = json.loads(file.read_text())["runs"] if file.exists() else []
        return sum(self.settings.items() <= _plain(run["config"]).items() for run in known)

    def options(self, folder: Path, cifar: str) -> list[str]:
        """The whole command: where the images are, and where results go."""
        given = ["--data" if self.command[0] == "-m" else "--cifar", cifar] if "embedding" not in self.command else []
        return [sys.executable, *self.command, *given, "--out", str(folder / self.results)]


def _plain(config: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in config.items()}


def _cifar10(name: str, runs: int, minutes: float, file: str, *options: str, **settings: Any) -> Pending:
    return Pending(name, (*REPRODUCE, "cifar10", "--full", *options), f"{file}-h200.json", runs, minutes, settings)


def _kernels(activation: str, kernel: str, minutes: float) -> Pending:
    chosen = {"activation": activation, "kernel": kernel}
    options = ("--activation", activation, "--kernel", kernel, *SEEDS)
    return _cifar10(f"16,384 features: {activation}, {kernel}", 3, minutes, "cifar10-kernels", *options, **chosen)


def _polysketch(features: int, minutes: float) -> Pending:
    options = "--kernel", "ntk", "--scale", "0.5", "--sketch", "polysketch", "--degree", "8"
    chosen = {"sketch": "polysketch", "degree": 8, "features": (features,), "kernel": "ntk", "scale": 0.5}
    return _cifar10(f"PolySketch, {features} columns", 3, minutes, "cifar10-polysketch", *options,
                    "--features", str(features), *SEEDS, **chosen)  # fmt: skip


PENDING = [
    Pending("exact low orders", (str(HERE / "orders.py"), "--features", "8192"), "orders-h200.json", 18, 5),
    *(_kernels(activation, kernel, 3) for activation in ("exp_normalized", "abrelu", "gelu") for kernel in ("ntk", "nngp")),
    _cifar10("exact last stage without mirror images", 3, 6, "cifar10-exact-last", "--features", "4096", "--exact-last",
             "--channels", "1024", "--scale", "1.5", *SEEDS, exact_last=True, flips=False),
    Pending("Figure 2", (*REPRODUCE, "widths", "--full"), "widths-h200.json", 16, 42, {"pixels": 32, "train": 50_000}),
    Pending("Figure 4", (*REPRODUCE, "activations", "--full"), "activations-h200.json", 122, 200, {"pixels": 32}),
    *(_polysketch(2**power, minutes) for power, minutes in ((9, 3), (10, 4), (11, 6), (12, 10), (13, 25))),
    Pending("Theorems 4 and 5", (*REPRODUCE, "embedding", "--full"), "embedding-h200.json", 42, 60),
]  # fmt: skip


def listed(folder: Path) -> str:
    """The table of all pending runs."""
    lines = ["| runs | done | minutes left, about | command |", "|---|---|---|---|"]
    for each in PENDING:
        done = min(each.done(folder), each.runs)
        left = each.minutes * (1 - done / each.runs)
        command = " ".join(["python", *(part.replace(f"{HERE}/", "benchmarks/") for part in each.command)])
        lines.append(f"| {each.name} | {done} of {each.runs} | {left:.0f} | `{command}` |")
    return "\n".join(lines)


def run(folder: Path, cifar: str, minutes: float, names: list[str]) -> None:
    """Start what is left, in order, until the time is over; a command that is still running is interrupted then."""
    end = time.monotonic() + 60 * minutes
    folder.mkdir(parents=True, exist_ok=True)
    for each in PENDING:
        file = folder / each.results
        if not file.exists() and (RESULTS / each.results).exists():
            shutil.copy(RESULTS / each.results, file)
        if (names and each.name not in names) or each.done(folder) >= each.runs or time.monotonic() > end:
            continue
        print(f"\n{each.name}", flush=True)
        started = subprocess.Popen(each.options(folder, cifar))
        try:
            code = started.wait(max(end - time.monotonic(), 1))
        except subprocess.TimeoutExpired:
            started.send_signal(signal.SIGINT)
            code = started.wait()
        print(f"{each.name}: exit code {code}, {each.done(folder)} of {each.runs} done", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of runs in the list; all by default")
    parser.add_argument("--run", action="store_true", help="start them, in place of a list")
    parser.add_argument("--cifar", metavar="FOLDER", help="where CIFAR-10 is")
    parser.add_argument("--minutes", type=float, default=9, help="when to stop (%(default)s)")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, metavar="FOLDER", help="files of results (%(default)s)"
    )
    options = parser.parse_args()
    if unknown := set(options.names) - {each.name for each in PENDING}:
        raise SystemExit(f"There are no runs {', '.join(map(repr, sorted(unknown)))}. Names are those of the list.")
    if options.run:
        if not options.cifar:
            raise SystemExit("--run needs --cifar FOLDER, where CIFAR-10 is.")
        run(options.results, options.cifar, options.minutes, options.names)
    print(listed(options.results))


if __name__ == "__main__":
    main()
