"""Who runs the blocks of a job.

A new executor (a Dask cluster, several devices) is a class with the method of `Executor`. It may run blocks in any order and
in any number of threads or processes, calls `sink.write` once for each, and ends with the first error of any of them.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Protocol, TypeVar

from .grid import Block, Grid
from .progress import bar
from .sinks import Sink
from .sources import Source

Value = TypeVar("Value")
Result = TypeVar("Result")
Program = Callable[..., Value]  # of what the sources read: rows, or the rows and the columns of a tile
Sources = Sequence[Source[object]]
Advance = Callable[..., None]  # called with the units of a block that is done


class Executor(Protocol):
    """Runs a program for every block of a grid."""

    def run(
        self, program: Program[Value], grid: Grid, sources: Sources, sink: Sink[Value, object], advance: Advance
    ) -> None:
        """Write program(rows) or program(rows, columns) of every block into the sink."""
        ...


@dataclass(frozen=True)
class Threads:
    """So many blocks in work at a time, each read, computed, brought back and written by one thread."""

    workers: int

    def run(
        self, program: Program[Value], grid: Grid, sources: Sources, sink: Sink[Value, object], advance: Advance
    ) -> None:
        if self.workers == 1 or len(grid) == 1:
            Pipeline(ahead=0).run(program, grid, sources, sink, advance)
            return

        def work(block: Block) -> int:
            sink.write(block, program(*_read(sources, block)))
            return block.units

        left = iter(grid.blocks)
        with ThreadPoolExecutor(self.workers) as pool:
            running: list[Future[int]] = [pool.submit(work, block) for block in islice(left, 2 * self.workers)]
            try:
                while running:
                    advance(running.pop(0).result())
                    running += [pool.submit(work, block) for block in islice(left, 1)]
            finally:
                for future in running:
                    future.cancel()


@dataclass(frozen=True)
class Pipeline:
    """One thread, in which `ahead` blocks more are begun before one is written; with ahead=0, one after the other.

    JAX computes on while numbers travel: a device is at work on one batch while the one before it is fetched.
    """

    ahead: int = 1

    def run(
        self, program: Program[Value], grid: Grid, sources: Sources, sink: Sink[Value, object], advance: Advance
    ) -> None:
        for block, value in stream(program, grid, sources, self.ahead):
            sink.write(block, value)
            advance(block.units)


def stream(program: Program[Value], grid: Grid, sources: Sources, ahead: int = 1) -> Iterator[tuple[Block, Value]]:
    """Every block with its value, in order, for those who keep neither; `ahead` blocks more are begun before."""
    begun: list[tuple[Block, Value]] = []
    for block in grid.blocks:
        begun.append((block, program(*_read(sources, block))))
        if len(begun) > ahead:
            yield begun.pop(0)
    yield from begun


def execute(
    program: Program[Value],
    grid: Grid,
    sources: Sources,
    sink: Sink[Value, Result],
    executor: Executor,
    label: str | None = None,
) -> Result:
    """Run the blocks that the sink does not have yet, and give its result; with a `label` a bar shows the time left."""
    left = sink.missing(grid)
    with bar(label or "", label is not None, grid.units, grid.units - left.units) as advance:
        executor.run(program, left, sources, sink, advance)
    return sink.result()


def _read(sources: Sources, block: Block) -> list[object]:
    """The block's rows of the first source, and its columns of the second where there is one."""
    ranges = (block.rows,) if len(sources) == 1 else (block.rows, block.columns)
    return [source.read(part) for source, part in zip(sources, ranges, strict=True) if part is not None]
