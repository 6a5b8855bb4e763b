"""What the site needs beyond mkdocs: a check that public names are documented, links out of docs/, the pages of commands.

A warning here fails the build, since mkdocs.yml says `strict`.
"""

import ast
import importlib
import inspect
import logging
import posixpath
import re
from pathlib import Path
from types import ModuleType
from typing import Any

log = logging.getLogger("mkdocs.hooks")
# Whose names are for users. Those of `widelimit.activations` and `widelimit.layers` that are stand in `widelimit` too.
PUBLIC = (
    "widelimit", "widelimit.datasets", "widelimit.estimators", "widelimit.linear", "widelimit.nets", "widelimit.nt",
    "widelimit.nt.predict", "widelimit.nt.stax", "widelimit.regression.device", "widelimit.sketch",
)  # fmt: skip
COMMANDS = "<!-- commands -->"  # where the reference page of the command line has them
_EXAMPLE = re.compile(r"^```python\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
_OUTSIDE = re.compile(r"(?<=\]\()\.\./[^)#]+")


def public_names() -> dict[str, Any]:
    """Every public name with its object: `__all__` of public modules, else all that they define, and what examples import."""
    names = {}
    here = Path(__file__).parent
    for page in (here.parent / "README.md", *here.glob("*.md")):
        for name, key in _imported(page.read_text()):
            if f"{name}.{key}" not in PUBLIC:  # modules have their own turn
                names[f"{name}.{key}"] = getattr(importlib.import_module(name), key)
    for name in PUBLIC:
        module = importlib.import_module(name)
        own = [
            key for key, value in vars(module).items() if getattr(value, "__module__", None) == name and key[0] != "_"
        ]
        for key in getattr(module, "__all__", own):
            names[f"{name}.{key}"] = getattr(module, key)
    return names


def _imported(page: str) -> set[tuple[str, str]]:
    """Modules of this library, and the names that the examples of a page import from them."""
    nodes = [node for example in _EXAMPLE.findall(page) for node in ast.walk(ast.parse(example))]
    imports = [
        node for node in nodes if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("widelimit")
    ]
    return {(node.module or "", alias.name) for node in imports for alias in node.names}


def undocumented(pages: str) -> list[str]:
    """Sentences about public names that have no docstring, or no `:::` line of their own on these pages."""
    directives = set(re.findall(r"^::: (\S+)", pages, flags=re.MULTILINE))
    wrong = []
    for name, value in public_names().items():
        text = inspect.cleandoc(getattr(value, "__doc__", None) or "")
        if not text or text.startswith(f"{name.rpartition('.')[2]}("):  # Python's own of a NamedTuple
            wrong.append(f"{name} is public and has no docstring. Write one.")
        path = value.__name__ if isinstance(value, ModuleType) else name
        if path not in directives:
            wrong.append(f"{name} is public and on no page of docs/reference. Add the line `::: {path}` to one.")
    return wrong


def on_pre_build(config: Any) -> None:
    """Look at all reference pages before anything is built."""
    pages = sorted((Path(config["docs_dir"]) / "reference").glob("*.md"))
    for sentence in undocumented("\n".join(page.read_text() for page in pages)):
        log.warning(sentence)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Files outside of docs/ that a page links to come with the site; the reference of the commands is filled in."""
    if COMMANDS in markdown:
        markdown = markdown.replace(COMMANDS, _commands())
    here = posixpath.dirname(page.file.src_uri)

    def add_file(match: re.Match) -> str:
        target = posixpath.normpath(posixpath.join(here, match[0]))
        if not target.startswith("../"):
            return match[0]
        target = target.removeprefix("../")
        source = Path(config["docs_dir"]).parent / target
        if not source.is_file() or source.suffix == ".md":
            log.warning(f"{page.file.src_uri} links to {match[0]}, which is no file that can be copied. Mend the link.")
            return match[0]
        if files.get_file_from_path(target) is None:
            from mkdocs.structure.files import File

            files.append(File.generated(config, target, abs_src_path=str(source)))
        return posixpath.relpath(target, here or ".")

    return _OUTSIDE.sub(add_file, markdown)


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Leave out Python's own docstring of constructors."""
    return re.sub(r"<p>Initialize self\. +See help\(type\(self\)\) for accurate signature\.</p>\n?", "", html)


def _commands() -> str:
    """Every command with its help, arguments and options."""
    import typer

    from widelimit.cli import app

    parts = []

    def describe(name: str, command: Any) -> None:
        parts.append(f"## {name}\n\n{inspect.cleandoc(command.help or '')}\n")
        rows = [_row(parameter) for parameter in command.params if parameter.name != "help"]
        before, _, experiment = name.rpartition(" ")
        if before == "widelimit reproduce":
            rows += _options(experiment)
        if rows:
            parts.append("\n".join(["| argument or option | meaning |", "|---|---|", *rows]) + "\n")
        for own, inner in getattr(command, "commands", {}).items():
            describe(f"{name} {own}", inner)

    for name, command in typer.main.get_command(app).commands.items():
        describe(f"widelimit {name}", command)
    return "\n".join(parts)


def _options(experiment: str) -> list[str]:
    """The options of `widelimit reproduce NAME`, read off its argparse parser."""
    parser = importlib.import_module("widelimit.reproduce").load_study(experiment).parser("")
    return [
        f"| `{action.option_strings[-1]}` | {action.help % vars(action)} |"
        for action in parser._actions
        if action.dest != "help"
    ]


def _row(parameter: Any) -> str:
    option = parameter.param_type_name == "option"
    flag = option and parameter.is_flag
    name = (
        ", ".join([*parameter.opts, *parameter.secondary_opts])
        if option
        else (parameter.metavar or parameter.name.upper())
    )
    meaning = (parameter.help or "").strip()
    default = parameter.default
    plain = isinstance(default, str | int | float | Path) and not isinstance(default, bool)
    if option and not flag and plain:
        meaning += f" Default: `{default}`."
    return f"| `{name}` | {meaning} |".replace("\\|", "|")
