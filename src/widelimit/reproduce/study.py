"""An experiment as many small runs: each goes into the file of results when it is done, and is not computed again.

`reproduce` makes a job of them: a block is one run, the source gives its settings, and the sink is the file of results, which
knows by digests what is done. Runs take the whole device, so they follow each other.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ..datasets import Images, cifar10
from ..execution.executors import Pipeline, execute
from ..execution.grid import Grid
from ..execution.sources import ArraySource
from ..storage.files import digest
from .images import check_enough, latest
from .options import Option, Parser, as_options, make_parser
from .results import ResultsFile, check_paths, device, machine

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Run = dict[str, Any]
Settings = dict[str, Any]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Study:
    """An experiment of the paper, as a list of runs, each with settings of its own.

    `title` says what it is, and `claim` what the paper says of it. `settings(full)` gives the settings of every run, at a size
    of minutes or at the paper's: plain values that JSON can hold, which say all in which runs differ. `compute(settings)` gives
    the results of a run by name; with `of_images` the command takes a folder of CIFAR-10, and `compute` the images after the
    settings. `draw(runs)` gives a figure, and `table(runs)` rows with the same names in each; a run has its settings under
    "config". `options` are settings that the command takes too: an `Option`, or the help alone for a whole number of 1 or more.
    """

    name: str
    title: str
    claim: str
    draw: Callable[[Sequence[Run]], "Figure"]
    table: Callable[[Sequence[Run]], list[dict[str, Any]]]
    settings: Callable[[bool], list[Settings]]
    compute: Callable[..., dict[str, Any]]
    of_images: bool = False
    options: Mapping[str, str | Option] = field(default_factory=dict)

    # Whether a run prints lines and shows bars of its own steps, in place of a bar over all runs.
    reports_steps: ClassVar[bool] = False

    def with_options(self, values: Mapping[str, Any]) -> Self:
        """The study with these settings in every run."""
        for name, option in as_options(self.options).items():
            if name in values:
                option.check(name, values[name])
        return replace(self, settings=lambda full: [config | dict(values) for config in self.settings(full)])

    def check(self, config: Settings, data: Images | None) -> None:
        """Refuse a run that cannot be done, before any is."""

    def digest(self, config: Settings, data: Images | None) -> str:
        """The name of a run on this device: a digest of its settings, the device and the images."""
        images = () if data is None else (_digest_of_images(data),)
        return digest(self.name, json.dumps(config, sort_keys=True), device(), *images)

    def outcome(self, config: Settings, data: Images | None, progress: bool, say: Say) -> dict[str, Any]:
        """Compute a run: its results by name."""
        return self.compute(config) if data is None else self.compute(config, data)

    def line(self, place: str, run: Run, varying: Sequence[str]) -> str:
        """A line about a finished run, with its place such as "1 of 9" and the settings in which runs differ."""
        config = run["config"]
        return f"{place} done: {', '.join(f'{key} {config[key]}' for key in varying if config.get(key) is not None)}"

    def runs_to_draw(self, runs: Sequence[Run], out: Path) -> Sequence[Run]:
        """The runs of the figure that the command draws."""
        return runs

    def text(self, runs: Sequence[Run]) -> str:
        """What the command prints of its runs."""
        with complete(self, runs):
            rows = self.table(runs)
        return f"{self.title}\n{self.claim}\n\n{as_text(rows)}"

    def parser(self, prog: str) -> Parser:
        """The parser of the command's arguments."""
        description = f"{self.title}. {self.claim}"
        return make_parser(prog, self.name, description, self.of_images, as_options(self.options))


def _check_counts(config: Settings, data: Images) -> None:
    check_enough(data, config["train"], config["test"])


@dataclass(frozen=True)
class ImageStudy(Study):
    """A study of images that checks the sizes of all runs before the first one."""

    check_sizes: Callable[[Settings, Images], None] = _check_counts

    def check(self, config: Settings, data: Images | None) -> None:
        if data is not None:
            self.check_sizes(config, data)


@latest
def _digest_of_images(data: Images) -> str:
    return digest(*data[:4])


def reproduce(
    study: Study,
    full: bool,
    out: Path,
    data: Images | None = None,
    progress: bool = False,
    say: Say = lambda line: None,
) -> list[Run]:
    """All runs of the study: those in the file `out`, and others computed and added to it."""
    settings = study.settings(full)
    for config in settings:
        study.check(config, data)
    configs = {study.digest(config, data): config for config in settings}
    varying, show_bar = _varying(settings), progress and not study.reports_steps

    def report(run: Run, place: str) -> None:
        if not show_bar:
            say(study.line(place, run, varying))

    file, grid = ResultsFile(out, list(configs), report), Grid.of_rows(len(configs), 1)
    missing = len(file.missing(grid))
    if missing < len(configs):
        say(f"In {out} already: {len(configs) - missing} of {len(configs)} runs.")
    if missing:
        say(f"{missing} runs to do on {device()}; a run that is done is not lost.")

    def compute(names: np.ndarray) -> list[Run]:
        return [
            {
                "experiment": study.name, "digest": name, "config": configs[name],
                **study.outcome(configs[name], data, progress, say), **machine(),
            }
            for name in names.tolist()
        ]  # fmt: skip

    label = study.name if show_bar else None
    return execute(compute, grid, [ArraySource(np.array(list(configs)))], file, Pipeline(ahead=0), label)


def _varying(configs: Sequence[Settings]) -> list[str]:
    """The settings in which runs differ."""
    first = configs[0]
    return [key for key in first if any(config.get(key) != first[key] for config in configs)]


def run_study(study: Study, arguments: Sequence[str], prog: str) -> None:
    """`widelimit reproduce NAME` with its arguments."""
    options = study.parser(prog).parse_args(arguments)
    check_paths(options.out, options.plot)
    values = {name: getattr(options, name) for name in study.options}
    study = study.with_options({name: value for name, value in values.items() if value is not None})
    study.settings(options.full)  # refuses settings that contradict each other, before images are read
    data = cifar10(options.data, options.download) if study.of_images else None
    progress = sys.stderr.isatty() and not options.json
    runs = reproduce(study, options.full, options.out, data, progress, lambda line: print(line, file=sys.stderr))
    if options.plot:
        save_figure(study, study.runs_to_draw(runs, options.out), options.plot)
    figure = f", and their figure in {options.plot}" if options.plot else ""
    print(f"Runs are in {options.out}{figure}.", file=sys.stderr)
    print(json.dumps(runs) if options.json else study.text(runs))


def save_figure(study: Study, runs: Sequence[Run], path: Path) -> None:
    """Draw the runs into a file, whose metadata say which runs they are."""
    from .plots import save

    with complete(study, runs):
        figure, origin = study.draw(runs), figure_of(study, runs)
    save(figure, path, origin=origin)


def figure_of(study: Study, runs: Sequence[Run]) -> str:
    """Which runs a figure shows: their number, and a digest of their settings, results and machines."""
    return f"{len(runs)} runs of {study.name}, {digest(json.dumps(runs, sort_keys=True))}"


@contextmanager
def complete(study: Study, runs: Sequence[Run]) -> Iterator[None]:
    """Give one error for whatever a run lacks that a table or a figure shows: others may have written the file."""
    try:
        yield
    except _INCOMPLETE as error:
        incomplete = [f"{run['digest'][:12]}..." for run in runs if not _is_complete(study, run)]
        which = f" with the digest {', '.join(incomplete)}" if incomplete else ""
        raise ValueError(
            f"One of {len(runs)} runs of {study.name} in the files{which} has not all that it should have ({error!r}). Take it "
            "out, or compute into another file."
        ) from error


_INCOMPLETE = KeyError, TypeError, ValueError, IndexError, AttributeError


def _is_complete(study: Study, run: Run) -> bool:
    """Whether a run has, by itself, all that tables and figures show."""
    try:
        study.table([run])
        study.draw([run])
    except _INCOMPLETE:
        return False
    return True


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
