"""Two versions of widelimit on the same random cases of every public door, each in a process of its own.

    python tools/compare.py --new src                        # with the commit OLD below
    python tools/compare.py --old widelimit-0.1.0-py3-none-any.whl --new src --cases 500
    python tools/compare.py --old other/src --new src --seed 123 --cases 1

Kernels and features agree to 1e-12 in float64 and 1e-5 in float32 of the largest entry, what comes of solving equations to
1e-8 and 1e-3; texts, shapes, types and the types of errors are the same. The exit code is 1 where anything differs, and
the table says which seeds to repeat. Further options: --only KIND, --show for the lines of what differs.
"""

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).parents[1]
OLD = "27d94c4"  # the commit before anything was moved
TOLERANCES = {
    "exact": {"float64": 1e-12, "float32": 1e-5, "bfloat16": 2.0**-6},
    "solved": {"float64": 1e-8, "float32": 1e-3, "bfloat16": 2.0**-6},
}
# Compilation is most of the time; without LLVM's optimisations it takes half, and both versions are compiled alike.
FLAGS = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"


# In the process of one version.


def work(folder: Path, source: Path, seeds: list[int]) -> None:
    """Run cases with the version in `source`, and write what each gives into the folder."""
    import jax

    import cases

    if not Path(cases.draw.wl.__file__).is_relative_to(source):
        raise SystemExit(f"widelimit was imported from {cases.draw.wl.__file__}, and not from {source}.")
    warnings.simplefilter("ignore")
    for place, seed in enumerate(seeds):
        arrays, texts = flat(cases.made(seed))
        partial = folder / f"{seed}.partial.npz"
        np.savez(partial, texts=np.array(json.dumps(texts)), **arrays)
        partial.rename(folder / f"{seed}.npz")
        if place % 25 == 24:
            jax.clear_caches()  # a process may not hold that many programs


def flat(made: Any) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays of a nest by where they are, and as texts everything else: types and shapes too."""
    import jax
    import jax.numpy as jnp

    arrays, texts = {}, {}
    for path, value in jax.tree_util.tree_flatten_with_path(made, is_leaf=lambda leaf: leaf is None)[0]:
        name = jax.tree_util.keystr(path)
        if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            value = jax.random.key_data(value)
        library = "JAX" if isinstance(value, jax.Array) else "NumPy" if isinstance(value, np.ndarray) else "Python"
        array = np.asarray(value) if isinstance(value, jax.Array | np.ndarray | np.generic | int | float) else None
        if array is None or array.dtype.kind in "OUS":
            texts[name] = repr(value if array is None else array.tolist())
            continue
        texts[f"type of {name}"] = f"{array.dtype} {array.shape} of {library}"
        arrays[f"{array.dtype}|{name}"] = array.astype(np.float32) if str(array.dtype) == "bfloat16" else array
    return arrays, texts


# In the process that compares.


class Outcome(NamedTuple):
    """How one case of both versions compares: the largest share of its tolerance that is used, and what differs."""

    identical: bool
    deviation: float  # of the largest entry
    used: float  # of what is allowed
    lines: list[str]


def compared(old: Path, new: Path, nearness: str) -> Outcome:
    """One case, from the two files that it gave."""
    with np.load(old) as a, np.load(new) as b:
        then, now = ({name: file[name] for name in file.files if name != "texts"} for file in (a, b))
        texts = [json.loads(str(file["texts"])) for file in (a, b)]
    lines = [
        f"{name}: {texts[0].get(name, 'nothing')} before, {texts[1].get(name, 'nothing')} now"
        for name in texts[0] | texts[1]
        if texts[0].get(name) != texts[1].get(name)
    ]
    deviation, used = 0.0, 0.0
    for name in then.keys() & now.keys():
        kind, _, where = name.partition("|")
        if then[name].shape != now[name].shape:
            continue  # told above, as a text
        own = apart(then[name], now[name])
        allowed = TOLERANCES[nearness].get(kind, 0.0)
        deviation, used = max(deviation, own), max(used, own / allowed if allowed else np.inf * bool(own))
        if not own <= allowed:
            lines.append(f"{where}: {own:.2g} of the largest entry apart, and {allowed:.0e} is allowed")
    return Outcome(not lines and deviation == 0, deviation, used, lines)


def apart(then: np.ndarray, now: np.ndarray) -> float:
    """The largest difference, as a share of the largest entry; infinite where other places are not finite."""
    if then.dtype.kind not in "fc":
        return 0.0 if np.array_equal(then, now) else np.inf
    finite = np.isfinite(then)
    if not np.array_equal(then[~finite], now[~finite], equal_nan=True) or not np.all(np.isfinite(now[finite])):
        return np.inf
    wide = then[finite].astype(np.float64)
    difference = np.abs(wide - now[finite]).max(initial=0)
    return float(difference / max(np.abs(wide).max(initial=0), np.finfo(np.float64).tiny))


def table(outcomes: dict[str, dict[int, Outcome]]) -> str:
    """A line for each kind."""
    lines = [
        "| kind | cases | identical | within tolerance | largest deviation | differing |",
        "|---|---|---|---|---|---|",
    ]
    for kind, found in sorted(outcomes.items()):
        differing = [seed for seed, outcome in found.items() if outcome.lines]
        same = sum(outcome.identical for outcome in found.values())
        seeds = f"{len(differing)}: seeds {', '.join(map(str, differing))}" if differing else "0"
        largest = max(outcome.deviation for outcome in found.values())
        lines.append(
            f"| {kind} | {len(found)} | {same} | {len(found) - same - len(differing)} | {largest:.1e} | {seeds} |"
        )
    return "\n".join(lines)


def sources(given: Path | None, folder: Path) -> Path:
    """What to put on the path of modules: a folder, an unpacked wheel, or the source of the commit OLD."""
    if given is None:
        packed = subprocess.run(["git", "-C", ROOT, "archive", OLD, "src"], check=True, capture_output=True).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
        return folder / "src"
    if given.suffix == ".whl":
        with zipfile.ZipFile(given) as wheel:
            wheel.extractall(folder)
        return folder
    if not (given / "widelimit").is_dir():
        raise SystemExit(f"{given} holds no package widelimit. Give a folder that does, or a wheel.")
    return given.resolve()


def start(source: Path, folder: Path, seeds: list[int]) -> subprocess.Popen:
    """The process of one version."""
    path = os.pathsep.join([str(source), str(Path(__file__).parent)])
    environment = {"XLA_FLAGS": FLAGS, "JAX_PLATFORMS": "cpu", **os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-W", "ignore", __file__, "--work", str(folder), str(source), *map(str, seeds)]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log)


def check_ended(process: subprocess.Popen, folder: Path) -> None:
    """Stop with what a process said where it failed."""
    if process.wait():
        raise SystemExit(f"One process failed:\n{(folder / 'log').read_text()[-3000:]}")


def selected(options: argparse.Namespace, kinds: Any) -> Iterator[int]:
    """The seeds of the cases asked for."""
    for seed in range(options.seed, options.seed + options.cases):
        if options.only in (None, kinds.kind_of(seed)):
            yield seed


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", type=Path, metavar="PATH", help=f"a folder or a wheel; {OLD} where it is not given")
    parser.add_argument("--new", type=Path, default=ROOT / "src", metavar="PATH", help="a folder or a wheel (src)")
    parser.add_argument("--cases", type=int, default=500, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the first case")
    parser.add_argument("--only", metavar="KIND", help="of the cases asked for, those of one kind")
    parser.add_argument("--show", action="store_true", help="every line that differs, not the first three of a case")
    options = parser.parse_args()
    with TemporaryDirectory() as place:
        folders = [Path(place) / name for name in ("old", "new", "old-source", "new-source")]
        for folder in folders:
            folder.mkdir()
        found = [sources(given, folder) for given, folder in zip((options.old, options.new), folders[2:], strict=True)]
        sys.path[:0] = [str(found[1]), str(Path(__file__).parent)]
        import cases

        if options.only not in (None, *cases.KINDS):
            raise SystemExit(f"There is no kind {options.only!r}. Known are {', '.join(cases.KINDS)}.")
        seeds = list(selected(options, cases))
        running = [start(source, folder, seeds) for source, folder in zip(found, folders[:2], strict=True)]
        for process, folder in zip(running, folders[:2], strict=True):
            check_ended(process, folder)
        outcomes: dict[str, dict[int, Outcome]] = {}
        for seed in seeds:
            kind = cases.kind_of(seed)
            files = [folder / f"{seed}.npz" for folder in folders[:2]]
            outcomes.setdefault(kind, {})[seed] = compared(*files, cases.KINDS[kind].nearness)
    print(table(outcomes))
    differing = {seed: outcome for kind in outcomes.values() for seed, outcome in kind.items() if outcome.lines}
    for seed, outcome in sorted(differing.items()):
        shown = outcome.lines if options.show else outcome.lines[:3]
        print(f"\nseed {seed}, {cases.kind_of(seed)}:", *shown, sep="\n  ")
    sys.exit(bool(differing))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(Path(sys.argv[2]), Path(sys.argv[3]), [int(seed) for seed in sys.argv[4:]])
    else:
        main()
