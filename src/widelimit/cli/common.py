"""What the commands share: options of networks and files, errors as one line, results as a table or as JSON."""

import functools
import inspect
import json
import os
import sys
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import jax
import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table as ResultTable

from ..datasets import Table, bundled, columns_of, read
from ..estimators.inputs import ARCHITECTURES
from ..reproduce import INTERRUPTED

FAILED = 1
BUNDLED = "bundled:"
_LARGEST = 1e100
_ERRORS_OF_INPUT = (ValueError, TypeError, OSError, ImportError, MemoryError)

Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="A table: .csv, .tsv (also .gz), .parquet, .npy or .npz; or bundled:NAME, a set of scikit-learn such as iris.",
    ),
]
Drop = Annotated[
    list[str] | None, typer.Option("--drop", metavar="COLUMN", help="A column to leave out; may be repeated.")
]
Key = Annotated[str | None, typer.Option(metavar="NAME", help="The array of an .npz file that holds the rows.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else, to standard output.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the output file where it exists.")]
Arch = Annotated[str, typer.Option(help=f"The network: {', '.join(ARCHITECTURES)}.", rich_help_panel="Network")]
Activation = Annotated[
    str, typer.Option(help="Its activation; `widelimit activations` lists them.", rich_help_panel="Network")
]
Depth = Annotated[int, typer.Option(help="Hidden layers of fc, convolutions of conv.", rich_help_panel="Network")]
WStd = Annotated[float, typer.Option("--W-std", help="Standard deviation of weights.", rich_help_panel="Network")]
BStd = Annotated[float, typer.Option("--b-std", help="Standard deviation of biases.", rich_help_panel="Network")]
Which = Annotated[str, typer.Option("--kernel", help="ntk or nngp.", rich_help_panel="Network")]
ImageShape = Annotated[
    str | None,
    typer.Option(metavar="H,W,C", help="Rows are flat images of this shape.", rich_help_panel="Network"),
]
Seed = Annotated[int, typer.Option(help="Seed of everything drawn.")]


class NetworkOptions(NamedTuple):
    """The options that describe a network. `command` makes an option of each field."""

    arch: Arch = "fc"
    activation: Activation = "gelu"
    depth: Depth = 3
    W_std: WStd = 1.0
    b_std: BStd = 0.5
    kernel: Which = "ntk"
    image_shape: ImageShape = None

    def for_estimator(self) -> dict[str, Any]:
        """The parameters of an estimator."""
        return self._asdict() | {"image_shape": image_shape(self.image_shape)}


_NETWORK_OPTIONS = [
    inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=NetworkOptions._field_defaults[name], annotation=kind
    )
    for name, kind in NetworkOptions.__annotations__.items()
]


def command(run: Callable[..., None]) -> Callable[..., None]:
    """Turn errors of input into one line on standard error and an exit code; any other error is a traceback.

    A parameter `network` of the function becomes the `NetworkOptions`.
    """
    parameters = inspect.signature(run).parameters

    @functools.wraps(run)
    def guard(**options: Any) -> None:
        try:
            _keep_programs()
            if "network" in parameters:
                options["network"] = NetworkOptions(*(options.pop(name) for name in NetworkOptions._fields))
            run(**options)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:  # the reader of our output, such as head, has closed it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except _ERRORS_OF_INPUT as error:
            message = str(error) or type(error).__name__
            if isinstance(error, MemoryError):
                message = f"Not enough memory. {message}"
            Console(stderr=True).print(f"[bold red]Error:[/] {escape(message)}", soft_wrap=True, highlight=False)
            raise typer.Exit(FAILED) from None

    shown = [
        [p.replace(kind=p.KEYWORD_ONLY)] if name != "network" else _NETWORK_OPTIONS for name, p in parameters.items()
    ]
    guard.__signature__ = inspect.Signature(list(chain(*shown)))  # type: ignore[attr-defined]  # which typer reads
    return guard


def _keep_programs() -> None:
    """Keep compiled programs in the user's cache: each command would compile the same ones again for seconds."""
    if program_folder() is None:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        jax.config.update("jax_compilation_cache_dir", str(base / "widelimit"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


def program_folder() -> str | None:
    """The folder of compiled programs."""
    return getattr(jax.config, "jax_compilation_cache_dir", None)


def note(text: str) -> None:
    """Print a line for people, on standard error."""
    Console(stderr=True).print(escape(text), soft_wrap=True, highlight=False)


def report(result: dict[str, Any], as_json: bool, title: str) -> None:
    """Print a result, as JSON or as a table of two columns."""
    if as_json:
        typer.echo(json.dumps({k: _plain(v) for k, v in result.items()}))
        return
    table = ResultTable(title=title, show_header=False, title_justify="left")
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in result.items():
        if value is not None:
            table.add_row(name.replace("_", " "), escape(_text(value)))
    Console().print(table)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(v) for v in (value.tolist() if isinstance(value, np.ndarray) else value)]
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    if isinstance(value, list | tuple | np.ndarray):
        texts = [_text(v) for v in value]
        return ", ".join(texts[:12]) + (f", ... ({len(texts)} in all)" if len(texts) > 12 else "")
    if isinstance(value, dict):
        return ", ".join(f"{k}={_text(v)}" for k, v in value.items())
    return str(value)


def image_shape(text: str | None) -> tuple[int, ...] | None:
    """The shape of a text such as "32,32,3"."""
    if text is None:
        return None
    try:
        return tuple(int(side) for side in text.split(","))
    except ValueError:
        raise ValueError(f"--image-shape is height,width,channels such as 32,32,3, not {text!r}.") from None


def table_of(
    path: Path, target: str | None, drop: list[str] | None, key: str | None, only: list[str] | None = None
) -> Table:
    """A table as `widelimit.datasets.read` gives it; with `only`, just these columns, in this order."""
    drop = drop or []
    if str(path).startswith(BUNDLED):
        return _bundled_table(path, target, drop)
    if only is None or path.suffix in (".npy", ".npz"):
        return read(path, target, drop, key)
    if drop:
        raise ValueError("--drop has no use here: the columns are those that the model was fitted with. Leave it out.")
    columns = list(columns_of(path))
    missing = [name for name in only if name not in columns]
    if missing:
        raise ValueError(
            f"{path}: has no column {missing[0]!r}, which the model was fitted with. It has {_text(columns)}."
        )
    extra = [name for name in columns if name not in only and name != target]
    table = read(path, target, extra, key)
    order = [(table.names or ()).index(name) for name in only]
    return table._replace(x=table.x[:, order], names=tuple(only))


def _bundled_table(path: Path, target: str | None, drop: list[str]) -> Table:
    """The set that scikit-learn has under the name after "bundled:"."""
    x, y, names, classes = bundled(str(path).removeprefix(BUNDLED))
    if target not in (None, "target"):
        raise ValueError(f"{path}: its target is called 'target', not {target!r}.")
    y = np.asarray(classes)[y] if y.dtype.kind in "iu" and classes else y
    unknown = [name for name in drop if name not in names]
    if unknown:
        raise ValueError(f"{path}: has no column {unknown[0]!r} to drop. It has {_text(names)}.")
    rest = [i for i, name in enumerate(names) if name not in drop]
    return Table(x[:, rest], y, tuple(names[i] for i in rest), "target")


def check_images(arch: str, x: np.ndarray, shape: str | None) -> None:
    """Refuse a network that is not known, or that does not take such inputs."""
    if arch not in ARCHITECTURES:
        raise ValueError(f"--arch is one of {', '.join(ARCHITECTURES)}, not {arch!r}.")
    if arch != "fc" and x.ndim == 2 and shape is None:
        raise ValueError(f"--arch {arch} takes images. Give --image-shape height,width,channels for flat rows.")


def check_size(path: Path, x: np.ndarray) -> None:
    """Refuse numbers whose squares overflow when they are added up."""
    largest = np.abs(x).max(initial=0)
    if largest > _LARGEST:
        raise ValueError(f"{path}: has a number of {largest:.3g}, too large to square. Scale the columns.")


def new_file(path: Path, force: bool, suffixes: tuple[str, ...] = ()) -> Path:
    """The path itself, where a file may be written to it."""
    if suffixes and not str(path).endswith(suffixes):
        raise ValueError(f"{path}: the name of this output ends with {' or '.join(suffixes)}.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: the folder {path.parent} does not exist. Make it first.")
    if path.is_dir() or (path.exists() and not force):
        raise FileExistsError(f"{path}: exists. Choose another name, or say --force to replace it.")
    return path


def is_terminal() -> bool:
    """Whether a person sees standard error."""
    return sys.stderr.isatty()
