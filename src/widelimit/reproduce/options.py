"""The options of an experiment's command line, each declared once: parser, checks and the page of the docs come from these."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn


@dataclass(frozen=True)
class Option:
    """A setting that the command takes, with its help; a flag where `kind` is bool.

    `default` is its value where the command does not name it; None leaves it to the settings of the size. With `several` it
    takes one or more values. `least` is the smallest whole number that it may be.
    """

    help: str
    kind: type[bool] | type[int] | type[float] | type[str] = int
    default: Any = None
    several: bool = False
    metavar: str | None = None
    least: int | None = None

    def add_to(self, parser: argparse.ArgumentParser, name: str) -> None:
        """Make the parser read it as `--name`."""
        flag = f"--{name.replace('_', '-')}"
        if self.kind is bool:
            parser.add_argument(flag, action="store_true", help=self.help)
            return
        count = "+" if self.several else None
        parser.add_argument(
            flag, type=self.kind, nargs=count, default=self.default, metavar=self.metavar, help=self.help
        )

    def check(self, name: str, value: Any) -> None:
        """Refuse a value that is too small."""
        if self.least is not None and value < self.least:
            raise ValueError(f"--{name} is a whole number of {self.least} or more, not {value}.")


def as_options(options: Mapping[str, str | Option]) -> dict[str, Option]:
    """Options by name; a help text alone is that of a whole number of 1 or more."""
    return {
        name: option if isinstance(option, Option) else Option(option, metavar="N", least=1)
        for name, option in options.items()
    }


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"Error: {message}. `{self.prog} --help` lists the options.\n")


def make_parser(prog: str, name: str, description: str, of_images: bool, options: Mapping[str, Option]) -> Parser:
    """The parser of an experiment's command: the options of every experiment, and its own."""
    parser = Parser(prog=prog, description=description, allow_abbrev=False)
    add = parser.add_argument
    if of_images:
        add("--data", metavar="FOLDER", help="where CIFAR-10 is, unpacked or as .tar.gz")
        add("--download", action="store_true", help="fetch the data where it is missing")
    add("--full", action="store_true", help="the paper's size, in place of one of minutes")
    for key, option in options.items():
        option.add_to(parser, key)
    add("--out", type=Path, default=Path(f"{name}.json"), metavar="FILE", help="the file of results (%(default)s)")
    add("--plot", type=Path, metavar="FILE", help="draw the results into this .png, .svg or .pdf")
    add("--json", action="store_true", help="print the results as JSON, and nothing else, to standard output")
    return parser
