"""Change the package at random places, one at a time, and see which changes no test notices.

    python tools/mutants.py                        # 200 mutants, by seed 0
    python tools/mutants.py --count 20 --seed 3 --jobs 2
    python tools/mutants.py --files spectrum.py "layers/*" --tests regression/test_ridge.py layers/test_layers.py

A first run of the fast tests notes which functions each test executes (.mutants/executed.json; --fresh notes them anew). A
mutant meets the tests that execute its function, the quick ones first, then all tests of their files; a test that fails, an
error and a program that does not end are signs that it was noticed. Results are added to .mutants/results.jsonl: what is
there is not tried again. Docstrings, annotations, decorators and the texts of errors are left alone.
"""

import argparse
import ast
import difflib
import hashlib
import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from itertools import islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from faults import PACKAGE, PRECISE, ROOT, changed_source, run_tests

CACHE = ROOT / ".mutants"
TESTS = ROOT / "tests"
Executed = dict[str, dict[str, float]]  # functions, and the seconds of each test that executes them


class Mutant(NamedTuple):
    """A file of the package with one change."""

    file: str
    function: str  # "" for what stands in none
    line: int
    kind: str
    old: str
    new: str

    @property
    def diff(self) -> str:
        """The change, as lines."""
        names = f"a/{self.file}", f"b/{self.file}"
        lines = difflib.unified_diff(self.old.splitlines(True), self.new.splitlines(True), *names, n=2)
        return "".join(lines)

    @property
    def name(self) -> str:
        """A digest of the change."""
        return hashlib.sha256(self.diff.encode()).hexdigest()[:16]


_OTHER: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.FloorDiv: ast.Div,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
_EITHER_WAY = ("maximum", "minimum", "max", "min", "add", "multiply", "equal", "logical_and", "logical_or")


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST, str]]:
    """The ways to change a node: a name, the node to replace, and the text in its place."""

    def other(**fields: Any) -> str:
        changed = deepcopy(node)
        for field, value in fields.items():
            setattr(changed, field, value)
        return f"({ast.unparse(changed)})"

    match node:
        case ast.Compare(ops=[op]) if type(op) in _OTHER:
            yield "another comparison", node, other(ops=[_OTHER[type(op)]()])
        case ast.BinOp(op=op) if type(op) in _OTHER:
            yield "another operator", node, other(op=_OTHER[type(op)]())
        case ast.BoolOp(op=op):
            yield "and for or", node, other(op=_OTHER[type(op)]())
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand) if not isinstance(operand, ast.Constant):
            yield "a sign or a not dropped", node, f"({ast.unparse(operand)})"
        case ast.IfExp(body=body, orelse=orelse):
            yield "branches swapped", node, other(body=orelse, orelse=body)
        case ast.Constant(value=bool() as value):
            yield "the other truth", node, str(not value)
        case ast.Constant(value=int() | float() as value):
            yield "one more", node, repr(value + 1)
        case ast.Call(func=func, args=[first, second, *rest]) if not (
            isinstance(first, ast.Starred) or isinstance(second, ast.Starred) or ast.unparse(func).endswith(_EITHER_WAY)
        ):
            yield "arguments swapped", node, other(args=[second, first, *rest])
        case ast.Slice():
            for side, step in (("lower", 1), ("upper", -1)):
                if getattr(node, side) is not None:
                    bound = getattr(node, side)
                    yield "a slice off by one", bound, f"({ast.unparse(bound)}) + {step}"
        case ast.If(test=test, body=[ast.Raise()], orelse=[]):
            yield "a guard dropped", test, "False"
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            yield "a statement dropped", node, "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "a statement dropped", node, "pass"
        case ast.Return(value=value) if value is not None and not _is_none(value):
            yield "None returned", node, "return None"


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _places(node: ast.AST, scope: tuple[str, ...] = ()) -> Iterator[tuple[str, ast.AST]]:
    """All nodes that may be changed, each with the function it stands in."""
    yield "".join(scope), node
    if isinstance(node, ast.Raise | ast.JoinedStr) or _warns(node):
        return
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        inner = scope
        if field == "body" and isinstance(node, ast.FunctionDef):
            inner = (*scope, "." if scope and not scope[-1].endswith(".") else "", node.name, ".<locals>.")
        elif field == "body" and isinstance(node, ast.ClassDef):
            inner = (*scope, node.name, ".")
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _places(child, inner)


def _warns(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("warn", "Error", "echo"))


def _replaced(text: str, node: Any, new: str) -> str:
    """The text with another one in the place of a node, whose columns count bytes."""
    lines = text.encode().splitlines(keepends=True)
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    raw = text.encode()
    return (raw[:start] + new.encode() + raw[end:]).decode()


def mutants(files: list[str], random: Random) -> Iterator[Mutant]:
    """All mutants of the files in random order, but for those that are the same program."""
    texts = {file: (PACKAGE / file).read_text() for file in files}
    every = [
        (file, function, kind, place, new)
        for file, text in texts.items()
        for function, node in _places(ast.parse(text))
        for kind, place, new in changes(node)
    ]
    random.shuffle(every)
    for file, function, kind, place, new in every:
        changed = _replaced(texts[file], place, new)
        try:
            same = ast.dump(ast.parse(changed)) == ast.dump(ast.parse(texts[file]))
        except SyntaxError:
            continue
        if not same:
            yield Mutant(file, function.removesuffix(".<locals>."), place.lineno, kind, texts[file], changed)


def note_executed(files: list[str], jobs: int) -> Executed:
    """Which functions each test executes: every test file in a process of its own, which compiles all it needs."""
    found: Executed = defaultdict(dict)

    def note(file: str) -> Executed:
        with TemporaryDirectory() as folder:
            out = Path(folder) / "executed.json"
            done = run_tests(PACKAGE.parent, [file], ["-p", "executed"], EXECUTED=str(out))
            if done.returncode not in (0, 5):  # 5: all of its tests are slow
                raise SystemExit(f"{done.stdout}{done.stderr}\n{file} fails without any change.")
            return json.loads(out.read_text())

    with ThreadPoolExecutor(jobs) as pool:
        for file, executed in zip(files, pool.map(note, files), strict=True):
            print(f"noted {file}", flush=True)
            for function, tests in executed.items():
                found[function].update({test or f"{file}::": seconds for test, seconds in tests.items()})
    return dict(found)


def tests_of(mutant: Mutant, executed: Executed) -> list[dict[str, float]]:
    """Groups of tests to run one after the other: those that execute the function, then the whole of their files."""
    own = executed.get(f"{mutant.file}::{mutant.function}", {}) if mutant.function else {}
    module = {test for key, tests in executed.items() if key.startswith(f"{mutant.file}::") for test in tests}
    files = {test.partition("::")[0] for test in own or module}
    seconds: dict[str, float] = Counter()
    for test, own_seconds in {test: s for tests in executed.values() for test, s in tests.items()}.items():
        seconds[test.partition("::")[0]] += own_seconds
    quick = sorted((test for test in own if not test.endswith("::")), key=own.__getitem__)
    groups = [{test: own[test] for test in quick}, {file: seconds[file] for file in sorted(files, key=seconds.get)}]
    return [
        {test: s for test, s in group.items() if test.startswith(PRECISE) == precise}
        for group in groups
        for precise in (False, True)
    ]


def outcome(mutant: Mutant, executed: Executed) -> str:
    """What becomes of a mutant: "noticed", "survived", or "not executed"."""
    groups = [group for group in tests_of(mutant, executed) if group]
    if not groups:
        return "not executed"
    with changed_source(mutant.file, mutant.new) as source:
        for group in groups:
            try:
                done = run_tests(source, group, seconds=120 + 10 * sum(group.values()))
            except subprocess.TimeoutExpired:
                return "noticed"
            if "ERROR: not found:" in done.stderr:
                raise SystemExit(f"{done.stderr}\nTests have changed. Note anew what they execute, with --fresh.")
            if done.returncode not in (0, 5):
                return "noticed"
    return "survived"


def main() -> int:
    """Try mutants; 0 where nineteen of twenty were noticed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of mutants")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time")
    parser.add_argument(
        "--files", nargs="*", default=["*"], metavar="PATTERN", help="of src/widelimit, such as 'layers/*'"
    )
    parser.add_argument("--tests", nargs="*", metavar="FILE", help="below tests, to notice them; all by default")
    parser.add_argument("--fresh", action="store_true", help="note anew which functions each test executes")
    options = parser.parse_args()
    CACHE.mkdir(exist_ok=True)
    tests = sorted(options.tests or (str(path.relative_to(TESTS)) for path in TESTS.rglob("test_*.py")))
    noted = CACHE / "executed.json"
    kept: dict[str, Any] = json.loads(noted.read_text()) if noted.exists() and not options.fresh else {"files": []}
    if not set(tests) <= set(kept["files"]):
        kept = {"files": tests, "executed": note_executed(tests, options.jobs)}
        noted.write_text(json.dumps(kept))
    files = sorted({str(p.relative_to(PACKAGE)) for p in PACKAGE.rglob("*.py")})
    files = [file for file in files if any(Path(file).match(pattern) for pattern in options.files)]
    chosen = list(islice(mutants(files, Random(options.seed)), options.count))
    results = CACHE / "results.jsonl"
    known = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    found = {result["name"]: result["outcome"] for result in known}
    rest = [mutant for mutant in chosen if mutant.name not in found]
    with ThreadPoolExecutor(options.jobs) as pool, results.open("a") as file:
        for mutant, result in zip(rest, pool.map(lambda m: outcome(m, kept["executed"]), rest), strict=True):
            found[mutant.name] = result
            about = {"name": mutant.name, "file": mutant.file, "line": mutant.line, "kind": mutant.kind}
            print(json.dumps({**about, "outcome": result}), file=file, flush=True)
            print(f"{result:12} {mutant.kind}, {mutant.file}:{mutant.line}", flush=True)
    survivors = [mutant for mutant in chosen if found[mutant.name] != "noticed"]
    for mutant in survivors:
        print(f"\n{found[mutant.name]}: {mutant.kind}, {mutant.file}:{mutant.line}\n{mutant.diff}")
    noticed = len(chosen) - len(survivors)
    print(f"{noticed} of {len(chosen)} mutants noticed, {100 * noticed / max(len(chosen), 1):.1f} %")
    return int(20 * noticed < 19 * len(chosen))


if __name__ == "__main__":
    sys.exit(main())
