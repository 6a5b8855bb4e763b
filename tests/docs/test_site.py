"""The site documents every public name, and its build fails where one is missing."""

import importlib
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import NamedTuple

import pytest

from widelimit.reproduce import EXPERIMENTS

ROOT = Path(__file__).parents[2]
REFERENCE = "\n".join(page.read_text() for page in sorted((ROOT / "docs" / "reference").glob("*.md")))


def _loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs" / "hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hooks = _loaded()


def test_every_public_name_is_documented():
    assert hooks.undocumented(REFERENCE) == []


@pytest.mark.parametrize(
    "name",
    [
        "widelimit.Dense",
        "widelimit.linear",
        "widelimit.nt.stax.Dense",
        "widelimit.nets.myrtle",
        "widelimit.reproduce.plots.Curve",
    ],
)
def test_a_deleted_directive_is_missed(name, tmp_path, caplog):
    without = REFERENCE.replace(f"::: {name}\n", "\n")
    (wrong,) = hooks.undocumented(without)
    assert wrong.startswith(f"{name} is public and on no page")
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference" / "all.md").write_text(without)
    hooks.on_pre_build({"docs_dir": str(tmp_path)})
    assert [(record.levelname, record.message) for record in caplog.records] == [("WARNING", wrong)]


def test_a_missing_docstring_is_missed(monkeypatch):
    class Pair(NamedTuple):
        left: int

    def bare():
        pass

    names = {"widelimit.Pair": Pair, "widelimit.bare": bare}
    monkeypatch.setattr(hooks, "public_names", lambda: names)
    wrong = hooks.undocumented("::: widelimit.Pair\n\n::: widelimit.bare\n")
    assert [sentence.split()[0] for sentence in wrong] == list(names)
    assert all("no docstring" in sentence for sentence in wrong)


def test_directives_name_what_exists():
    for path in re.findall(r"^::: (\S+)", REFERENCE, flags=re.MULTILINE):
        module, _, name = path.rpartition(".")
        if not (module and hasattr(importlib.import_module(module), name)):
            importlib.import_module(path)


def test_modules_that_list_their_names_are_public():
    """Or reached through `widelimit`, as activations, layers and sketches are, or for the library itself."""
    source = ROOT / "src"
    listing = {
        ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        for path in source.rglob("*.py")
        if re.search(r"^__all__", path.read_text(), flags=re.MULTILINE)
    }
    assert listing - set(hooks.PUBLIC) == {
        f"widelimit.{room}" for room in ("activations", "kernels.gpu", "layers", "numerics", "sketches")
    }


def test_files_outside_of_docs_come_with_the_site(monkeypatch, caplog):
    """A link out of docs/ is one to a copy, from a page of any folder; one to nothing is a warning."""
    added = []
    config = {"docs_dir": str(ROOT / "docs"), "site_dir": "site"}
    files = SimpleNamespace(get_file_from_path=lambda path: None, append=added.append)
    structure = ModuleType("mkdocs.structure.files")
    structure.File = SimpleNamespace(generated=lambda config, path, abs_src_path: (path, abs_src_path))
    for name, module in {"mkdocs": ModuleType("mkdocs"), "mkdocs.structure": ModuleType("mkdocs.structure")}.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "mkdocs.structure.files", structure)

    def rendered(page, text):
        return hooks.on_page_markdown(text, SimpleNamespace(file=SimpleNamespace(src_uri=page)), config, files)

    assert rendered("data.md", "[l](../LICENSE) [d](design.md)") == "[l](LICENSE) [d](design.md)"
    assert rendered("reference/data.md", "[l](../../LICENSE) [d](../data.md)") == "[l](../LICENSE) [d](../data.md)"
    assert added == [("LICENSE", str(ROOT / "LICENSE"))] * 2
    assert not caplog.records
    for link in ("../missing.txt", "../README.md"):
        assert rendered("data.md", f"[l]({link})") == f"[l]({link})"
        assert link in caplog.records[-1].message


def test_every_command_is_in_the_reference():
    text = hooks._commands()
    for command in (
        "fit",
        "predict",
        "features",
        "kernel",
        "activations",
        "reproduce cifar10",
        "report",
        "demo",
        "info",
    ):
        assert f"\n## widelimit {command}\n" in f"\n{text}", command
    assert "| `--target` |" in text
    assert "| `--out` | The page to write. Default: `report.html`. |" in text
    sections = dict(part.split("\n", 1) for part in text.split("## widelimit ")[1:])
    assert "| `--exact-last` |" in sections["reproduce cifar10"]
    assert "| `--epochs` |" in sections["reproduce abrelu"]
    assert all("| `--plot` |" in sections[f"reproduce {name}"] for name in EXPERIMENTS)
    assert "| `--full` |" not in sections["activations"]  # of the experiment of that name


@pytest.mark.slow
def test_the_build_fails_without_a_directive_and_fetches_nothing(tmp_path):
    """`make docs` in a copy: whole, then with one line deleted."""
    pytest.importorskip("mkdocs")
    for name in ("docs", "src", "benchmarks"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("mkdocs.yml", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)

    def build():
        command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    whole = build()
    assert whole.returncode == 0, whole.stderr
    for page in (tmp_path / "site").rglob("*.html"):
        assert not re.search(r"<(script|link|img)[^>]*(src|href)=.?https?://", page.read_text()), page
    page = tmp_path / "docs" / "reference" / "layers.md"
    page.write_text(page.read_text().replace("::: widelimit.Dense\n", ""))
    broken = build()
    assert broken.returncode != 0
    assert "widelimit.Dense is public and on no page" in broken.stderr
