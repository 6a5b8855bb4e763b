"""An experiment as many small runs: each goes into the file of results when it is done, and is not computed again.

A `Study` says what its runs are at a size of minutes and at the paper's, what one of them finds, and what all of them are
drawn and summed up as. `widelimit reproduce NAME` runs it.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from ..datasets import Images, cifar10
from ..execution.progress import bar
from ..storage.files import digest
from .results import add_run, check_paths, device, machine, read_runs

Run = dict[str, Any]


@dataclass(frozen=True)
class Shown:
    """How finished runs of an experiment are shown.

    `claim` is what the paper says of it; `draw` gives a figure of runs, each with its settings under "config", and `table`
    rows with the same names in each.
    """

    name: str
    title: str
    claim: str
    draw: Callable[[Sequence[Run]], Any]
    table: Callable[[Sequence[Run]], list[dict[str, Any]]]


@dataclass(frozen=True)
class Study(Shown):
    """An experiment of the paper: `settings(full)` of every run, plain values that JSON can hold, and what one finds.

    With `of_images` the command takes a folder of CIFAR-10, and `compute` the images after the settings. `options` are settings
    that it takes too, whole numbers of 1 or more, each with its help.
    """

    settings: Callable[[bool], list[dict[str, Any]]]
    compute: Callable[..., dict[str, Any]]
    of_images: bool = False
    options: Mapping[str, str] = field(default_factory=dict)


def reproduce(
    study: Study,
    full: bool,
    out: Path,
    data: Images | None = None,
    progress: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> list[Run]:
    """All runs of the study: those in the file `out`, and others computed and added to it."""
    known = {run["digest"]: run for run in read_runs(out)}
    given = () if data is None else (data,)
    seen = [digest(*images[:4]) for images in given]
    wanted = {digest_of(study, config, *seen): config for config in study.settings(full)}
    left = [name for name in wanted if name not in known]
    if len(left) < len(wanted):
        say(f"In {out} already: {len(wanted) - len(left)} of {len(wanted)} runs.")
    if left:
        say(f"{len(left)} runs to do on {device()}; a run that is done is not lost.")
    every = list(wanted.values())
    differ = [key for key in every[0] if any(config.get(key) != every[0][key] for config in every)]
    with bar(study.name, progress, len(wanted), len(wanted) - len(left)) as advance:
        for i, name in enumerate(left, 1):
            run = {
                "experiment": study.name,
                "digest": name,
                "config": wanted[name],
                **study.compute(wanted[name], *given),
                **machine(),
            }
            known[name] = run
            add_run(out, run)
            advance()
            if not progress:
                said = ", ".join(f"{key} {wanted[name][key]}" for key in differ if wanted[name].get(key) is not None)
                say(f"{i} of {len(left)} done: {said}")
    return [known[name] for name in wanted]


def digest_of(study: Study, config: dict[str, Any], *seen: str) -> str:
    """The digest of a run on this device: of its settings, and of the images that it sees."""
    return digest(study.name, json.dumps(config, sort_keys=True), device(), *seen)


def save_figure(study: Shown, runs: Sequence[Run], path: Path) -> None:
    """Draw the runs into a file, in whose metadata stands which they are."""
    from .plots import saved

    with complete(study, runs):
        figure, told = study.draw(runs), figure_of(study, runs)
    saved(figure, path, origin=told)


def figure_of(study: Shown, runs: Sequence[Run]) -> str:
    """Which runs a figure is of: a digest of all that they were asked, found and ran on."""
    return f"{len(runs)} runs of {study.name}, {digest(json.dumps(runs, sort_keys=True))}"


@contextmanager
def complete(study: Shown, runs: Sequence[Run]) -> Iterator[None]:
    """Around what shows runs of files that may have been written by others: one error for whatever they lack."""
    try:
        yield
    except _LACKING as error:
        lacking = [f"{run['digest'][:12]}..." for run in runs if not _shows(study, run)]
        which = f" with the digest {', '.join(lacking)}" if lacking else ""
        raise ValueError(
            f"One of {len(runs)} runs of {study.name} in the files{which} has not all that it should have ({error!r}). Take it "
            "out, or compute into another file."
        ) from error


_LACKING = KeyError, TypeError, ValueError, IndexError, AttributeError


def _shows(study: Shown, run: Run) -> bool:
    """Whether a run has, by itself, what tables and figures show."""
    try:
        study.table([run])
        study.draw([run])
    except _LACKING:
        return False
    return True


class Parser(argparse.ArgumentParser):
    """One whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"Error: {message}. `{self.prog} --help` lists the options.\n")


def parser(study: Study, prog: str) -> argparse.ArgumentParser:
    """The options of a study's command."""
    made = Parser(prog=prog, description=f"{study.title}. {study.claim}", allow_abbrev=False)
    add = made.add_argument
    if study.of_images:
        add("--data", metavar="FOLDER", help="where CIFAR-10 is, unpacked or as .tar.gz")
        add("--download", action="store_true", help="fetch the data where it is missing")
    add("--full", action="store_true", help="the paper's size, in place of one of minutes")
    for name, text in study.options.items():
        add(f"--{name}", type=int, metavar="N", help=text)
    add(
        "--out", type=Path, default=Path(f"{study.name}.json"), metavar="FILE", help="the file of results (%(default)s)"
    )
    add("--plot", type=Path, metavar="FILE", help="draw the results into this .png, .svg or .pdf")
    add("--json", action="store_true", help="print the results as JSON, and nothing else, to standard output")
    return made


def run_study(study: Study, arguments: Sequence[str], prog: str) -> None:
    """`widelimit reproduce NAME` with its arguments."""
    given = parser(study, prog).parse_args(arguments)
    check_paths(given.out, given.plot)
    study = _changed(study, {name: getattr(given, name) for name in study.options})
    shown = sys.stderr.isatty() and not given.json
    data = cifar10(given.data, given.download) if study.of_images else None
    runs = reproduce(study, given.full, given.out, data, shown, lambda line: print(line, file=sys.stderr))
    if given.plot:
        save_figure(study, runs, given.plot)
    print(written(given.out, given.plot), file=sys.stderr)
    if given.json:
        print(json.dumps(runs))
        return
    with complete(study, runs):
        rows = study.table(runs)
    print(f"{study.title}\n{study.claim}\n\n{as_text(rows)}")


def written(out: Path, plot: Path | None) -> str:
    """Where the results are."""
    return f"Runs are in {out}{f', and their figure in {plot}' if plot else ''}."


def _changed(study: Study, values: Mapping[str, int | None]) -> Study:
    """The study with those settings that were given, in every run."""
    given = {name: value for name, value in values.items() if value is not None}
    for name, value in given.items():
        if value < 1:
            raise ValueError(f"--{name} is a whole number of 1 or more, not {value}.")
    return replace(study, settings=lambda full: [config | given for config in study.settings(full)])


def as_text(rows: Sequence[dict[str, Any]]) -> str:
    """A table in columns, numbers to the right."""
    cells = [[cell(value) for value in row.values()] for row in rows]
    names = list(rows[0])
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    numeric = [all(isinstance(row[name], int | float) for row in rows) for name in names]

    def line(values: Sequence[str]) -> str:
        padded = (
            v.rjust(width) if right else v.ljust(width) for v, width, right in zip(values, widths, numeric, strict=True)
        )
        return "  ".join(padded).rstrip()

    return "\n".join(map(line, [names, *cells]))


def cell(value: Any) -> str:
    """A value of a table as text: four digits, and thousands apart."""
    if isinstance(value, float):
        return f"{value:,.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
