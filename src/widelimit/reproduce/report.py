"""One page of all results: `widelimit report FILE... --out report.html`, which needs nothing beside it.

Each experiment has the claim of the paper, and for each device a table, a figure, and the machines and versions of its runs.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from io import StringIO
from itertools import groupby
from pathlib import Path
from typing import Any

from . import EXPERIMENTS, load_study
from .results import read_runs
from .study import Run, Study, cell, complete

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 84rem; margin: 0 auto; padding: 1rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 3rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: 0.85rem; }
th, td { padding: 0.25rem 0.7rem; text-align: left; border-bottom: 1px solid #ddd; white-space: nowrap; }
th, td[rowspan] { white-space: normal; max-width: 20rem; vertical-align: top; } td[rowspan] { min-width: 8rem; }
th { vertical-align: bottom; } .n { text-align: right; }
svg { max-width: 100%; min-width: 44rem; height: auto; margin-top: 1rem; } .of { color: #555; font-size: 0.85rem; }
"""


def gather(files: Sequence[Path]) -> tuple[dict[str, list[Run]], Counter[str]]:
    """The runs of every experiment in the files, each once, and the number of runs of others."""
    runs = list({run["digest"]: run for file in files for run in _read(file)}.values())
    by_name = {name: [run for run in runs if run["experiment"] == name] for name in EXPERIMENTS}
    known = {name: own for name, own in by_name.items() if own}
    if not known:
        raise ValueError(
            f"There is no result of {', '.join(EXPERIMENTS)} in the files. Run `widelimit reproduce NAME` first."
        )
    return known, Counter(run["experiment"] for run in runs if run["experiment"] not in known)


def page(known: Mapping[str, Sequence[Run]]) -> str:
    """The page as HTML, of the runs of every experiment."""
    sections = []
    for name, own in known.items():
        study = load_study(name)
        with complete(study, own):
            sections.append(_section(study, own))
    title = "Fast neural kernel embeddings, reproduced by widelimit"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>\n'
        f"<body><h1>{title}</h1>\n<ul>{_contents(known)}</ul>\n{''.join(sections)}</body></html>\n"
    )


def _contents(names: Iterable[str]) -> str:
    return "".join(f"<li><a href='#{name}'>{escape(EXPERIMENTS[name])}</a></li>" for name in names)


def _read(file: Path) -> list[Run]:
    if not file.is_file():
        raise FileNotFoundError(f"{file}: is no file. Give those that `widelimit reproduce` wrote.")
    return read_runs(file)


def _section(study: Study, runs: Sequence[Run]) -> str:
    """The paper's claim, and a table and a figure for each device, since runs on two devices are not repetitions."""
    devices = list(dict.fromkeys(run["device"] for run in runs))
    parts = []
    for device in devices:
        own = [run for run in runs if run["device"] == device]
        file = StringIO()
        study.draw(own).savefig(file, format="svg")
        picture = file.getvalue()
        heading = f"<h3>On {escape(device)}</h3>\n" if len(devices) > 1 else ""
        parts.append(
            f"{heading}{_table(study.table(own))}\n<div class='wide'>{picture[picture.index('<svg') :]}</div>\n"
            f"<p class='of'>{escape(_origin(own))}</p>\n"
        )
    return (
        f"<h2 id='{study.name}'>{escape(study.title)}</h2>\n<p>{escape(study.claim)}</p>\n"
        f"<p class='of'>By <code>widelimit reproduce {study.name}</code>.</p>\n{''.join(parts)}"
    )


def _table(rows: Sequence[dict[str, Any]]) -> str:
    """Text to the left, numbers to the right; equal first cells of following rows are one."""
    numeric = {name: all(isinstance(row[name], int | float) or row[name] == "" for row in rows) for name in rows[0]}
    kinds = {name: " class='n'" if numeric[name] else "" for name in rows[0]}
    head = "".join(f"<th{kinds[name]}>{escape(name)}</th>" for name in rows[0])
    body = []
    for first, own in groupby(rows, key=lambda row: next(iter(row.values()))):
        alike = list(own)
        for i, row in enumerate(alike):
            rest = "".join(f"<td{kinds[name]}>{escape(cell(value))}</td>" for name, value in list(row.items())[1:])
            spanning = f"<td rowspan='{len(alike)}'>{escape(cell(first))}</td>" if i == 0 else ""
            body.append(f"<tr>{spanning}{rest}</tr>\n")
    return f"<div class='wide'><table><tr>{head}</tr>\n{''.join(body)}</table></div>"


def _origin(runs: Sequence[Run]) -> str:
    """The machines and versions of the runs."""
    return f"{len(runs)} runs on {'; and on '.join(sorted({_machine(run) for run in runs}))}."


def _machine(run: Run) -> str:
    parts = [run["device"], *([run["processor"]] if "processor" in run else []), f"{run['cores']} cores"]
    parts += [f"{run['memory'] / 2**30:.0f} GiB"] if "memory" in run else []
    return ", ".join(parts + [f"{name} {version}" for name, version in run["versions"].items()])
