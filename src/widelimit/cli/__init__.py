"""`widelimit` on the command line."""

import os
import signal
import sys

import typer

from .. import __version__
from ..reproduce import EXPERIMENTS, INTERRUPTED
from ..storage.files import UNFINISHED
from .compute import features, kernel
from .learn import fit, predict
from .look import activations, demo, experiment, info, report_page

app = typer.Typer(
    name="widelimit",
    help="Infinitely wide neural networks: kernels, random features, and models of tables and images.",
    epilog="Exit codes: 0 done, 1 something was wrong with files, values or memory, 2 with the command line, 130 interrupted.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for run in (fit, predict, features, kernel, activations, demo, info):
    app.command(run.__name__)(run)
reproduce = typer.Typer(help="Experiments of the paper.", no_args_is_help=True)
# Their options are those of `python -m widelimit.reproduce NAME`, whose parser reads them.
_all_arguments = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
for name, about in EXPERIMENTS.items():
    reproduce.command(name, context_settings=_all_arguments)(experiment(name, about))
app.add_typer(reproduce, name="reproduce")
app.command("report")(report_page)


def _print_version(version: bool) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def main_options(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    """Infinitely wide neural networks: kernels, random features, and models of tables and images."""


def main() -> None:
    """The entry point."""
    signal.signal(signal.SIGINT, _leave)
    app()


def _leave(*_: object) -> None:
    """End the process at once: a callback of JAX may swallow an exception, and threads that compile crash at an orderly end."""
    for path in list(UNFINISHED):
        path.unlink(missing_ok=True)
    print(
        "Interrupted. No output is left half written; kernels and experiments go on with the same command.",
        file=sys.stderr,
    )
    os._exit(INTERRUPTED)
