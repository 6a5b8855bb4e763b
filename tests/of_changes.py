"""Print the tests of what changed since main: `make quick` runs them.

A file of src/widelimit/ROOM has its tests in tests/ROOM, one of src/widelimit itself in tests/test_NAME.py, and docs, README
and CONTRIBUTING in tests/docs. Changed tests are their own.
"""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def changed() -> list[Path]:
    """Files that differ from where this branch left main, committed or not."""

    def git(*arguments: str) -> list[str]:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.splitlines() if done.returncode == 0 else []

    bases = git("merge-base", "HEAD", "main") or git("merge-base", "HEAD", "origin/main") or ["HEAD"]
    return [Path(name) for name in git("diff", "--name-only", bases[0]) + git("ls-files", "-o", "--exclude-standard")]


def tests_of(path: Path) -> Path:
    """Where the tests of one file are, whether or not they exist."""
    match path.parts:
        case ("tests", "test_promises.py"):
            return Path("tests", "test_precise.py")  # which runs it
        case ("tests", *_) if path.name.startswith("test_"):
            return path
        case ("src", "widelimit", room, _, *_):
            return Path("tests", room)
        case ("src", "widelimit", name):
            return Path("tests", f"test_{name}")
        case ("docs", *_) | ("README.md" | "CONTRIBUTING.md",):
            return Path("tests", "docs")
    return Path("tests", "none")


def selected(paths: list[Path]) -> list[Path]:
    """The tests that exist, without those inside of folders that are selected too."""
    found = {tests for tests in map(tests_of, paths) if (ROOT / tests).exists()}
    return sorted(tests for tests in found if not found & set(tests.parents))


if __name__ == "__main__":
    print(*selected(changed()))
