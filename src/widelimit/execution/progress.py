"""A bar for long work, where rich is installed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec


@contextmanager
def bar(label: str, shown: bool, total: int, done: int = 0) -> Iterator[Callable[..., None]]:
    """A progress bar with the time left, or nothing. Call what it gives with how much more is done, by default one."""
    if not shown or find_spec("rich") is None:
        yield lambda count=1: None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    with Progress(*columns) as progress:
        task = progress.add_task("", total=total, completed=done)
        yield lambda count=1: progress.advance(task, count)
