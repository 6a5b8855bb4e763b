"""Every name that README, docs and the changelog show, with its parameters, and every option of the command line, as listed.

    python tests/test_public_names.py

writes the list, `data/public_names.json`, anew. A name or a parameter that goes needs a release in which it warns, so a
change of the list is a decision, and stands in the changelog. Annotations are not listed: types may be tightened.
"""

import argparse
import ast
import importlib
import inspect
import json
import re
import sys
from functools import lru_cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import typer

import widelimit as wl
from widelimit import nt
from widelimit.cli import app
from widelimit.nt import predict

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).parent / "data" / "public_names.json"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("**/*.md"))]
PACKAGES = (
    "widelimit", "widelimit.data", "widelimit.device_ridge", "widelimit.estimators", "widelimit.linear", "widelimit.nets",
    "widelimit.nt", "widelimit.nt.predict", "widelimit.nt.stax", "widelimit.sketch", "widelimit.stax",
)  # fmt: skip
RUNNABLE = ("widelimit", "widelimit.demo", "widelimit.experiments", "widelimit.experiments.cifar10")  # by `python -m`
PLACEHOLDERS = {"widelimit.Name"}  # of recipes
BASES = ("widelimit.Activation", "widelimit.Layer", "widelimit.sketch.Sketch")
INHERITED = ("fit_transform", "score", "theta")  # of scikit-learn's classes
CONTAINERS = ("__call__", "__getitem__", "__len__")
ADDRESS = re.compile(r" at 0x[0-9a-f]+")


# Old names of modules warn until they go.
pytestmark = pytest.mark.filterwarnings("ignore:widelimit.* is now:DeprecationWarning")


# The names.


def shown_names():
    """The dotted names that pages show: `:::` lines, imports in examples, names in text; and what packages list."""
    names = set()
    for page in PAGES:
        text = page.read_text()
        names |= {name.removeprefix("::: ") for name in re.findall(r"^::: \S+", text, flags=re.MULTILINE)}
        names |= _imported(text)
        names |= {
            f"widelimit{rest}" for rest in re.findall(r"\b(?:widelimit|wl)((?:\.[A-Za-z_]\w*)+)(?![\w-]*\.\w)", text)
        }
    for name in PACKAGES:
        module = importlib.import_module(name)
        own = (key for key, value in vars(module).items() if getattr(value, "__module__", None) == name)
        names |= {name, *(f"{name}.{key}" for key in getattr(module, "__all__", own) if not key.startswith("_"))}
    return sorted(names - PLACEHOLDERS)


def _imported(page):
    """The modules of this library, and the names of them, that the examples of a page import."""
    names = set()
    for example in re.findall(r"^```python\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL):
        for node in ast.walk(ast.parse(example)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "widelimit":
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def resolve(name):
    """The object of a dotted name: what its module holds under it, or a module, which can be imported by this name too."""
    module, _, rest = name.rpartition(".")
    found = getattr(resolve(module), rest, None) if module else None
    if found is None:  # the package itself, or a module not yet imported
        return importlib.import_module(name)
    return importlib.import_module(name) if isinstance(found, ModuleType) else found


# What is told of each.


def described(name):
    """Kind, parameters and public members of what a name names; None where there is no such name."""
    try:
        value = resolve(name)
    except (ImportError, AttributeError):
        return None
    if isinstance(value, ModuleType):
        return {"kind": "module"}
    if inspect.isclass(value):
        return {
            "kind": "named tuple" if hasattr(value, "_fields") else "class",
            "extends": [base for base in BASES if issubclass(value, resolve(base)) and base != name],
            "parameters": parameters(value),
            "members": _members(value),
        }
    if callable(value):
        return {"kind": "function", "parameters": parameters(value)}
    return {"kind": "value", "is": repr(value)}


def parameters(value):
    """Names, kinds and defaults, as text such as "(x, /, *, get='ntk')"."""
    try:
        signature = inspect.signature(value)
    except ValueError:  # of what is written in C
        return None
    bare = [p.replace(annotation=p.empty, default=_default(p.default)) for p in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))


class _Text:
    """A default that prints as the text given."""

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text


def _default(value):
    if value is inspect.Parameter.empty:
        return value
    return _Text(value.__qualname__ if inspect.isroutine(value) else ADDRESS.sub("", repr(value)))


def _members(kind):
    """Public methods with their parameters, and properties.

    Where the reference shows some members only, of this class or of those that it extends, these are the public ones.
    """
    limits = [members for known, members in _members_shown().items() if resolve(known) in kind.__mro__]
    found = {}
    for key in sorted(set().union(*limits) if limits else dir(kind)):
        if key.startswith("_") and key not in CONTAINERS:
            continue
        owner = next((base for base in kind.__mro__ if key in vars(base)), object)
        if key in INHERITED:
            found[key] = "inherited"
        if not owner.__module__.startswith("widelimit") or key.endswith("_request"):  # the latter scikit-learn makes
            continue
        value = inspect.getattr_static(kind, key)
        plain = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if isinstance(plain, property):
            found[key] = "property"
        elif callable(getattr(kind, key)):
            found[key] = parameters(getattr(kind, key))
    return found


@lru_cache
def _members_shown():
    """Of every class whose directive lists members, these; those of the estimators are all public."""
    found = {}
    for page in PAGES:
        for name, listed in re.findall(
            r"^::: (\S+)\n    options:\n(?:      .*\n)*?      members: \[(.*)\]", page.read_text(), flags=re.MULTILINE
        ):
            if not name.startswith("widelimit.estimators"):
                found[name] = [*listed.split(", "), *(CONTAINERS[1:] if name == "widelimit.Network" else ())]
    return found


def returned_functions():
    """The parameters of functions that functions return, by the expression that a user would write."""
    init_fn, apply_fn, kernel_fn = wl.stax.Relu()
    K, y = np.eye(2), np.ones((2, 1))
    functions = {
        "stax.Relu()[0]": init_fn,
        "stax.Relu()[1]": apply_fn,
        "stax.Relu()[2]": kernel_fn,
        "nt.batch(kernel_fn, 2)": nt.batch(kernel_fn, 2),
        "nt.batch(function, 2)": nt.batch(lambda x1, x2: x1, 2),
        "nt.monte_carlo_kernel_fn(init_fn, apply_fn, key, 2)": nt.monte_carlo_kernel_fn(init_fn, apply_fn, None, 2),
        "nt.empirical_kernel_fn(apply_fn)": nt.empirical_kernel_fn(apply_fn),
        "nt.empirical_nngp_fn(apply_fn)": nt.empirical_nngp_fn(apply_fn),
        "nt.empirical_ntk_fn(apply_fn)": nt.empirical_ntk_fn(apply_fn),
        "nt.linearize(apply_fn, params)": nt.linearize(apply_fn, ()),
        "nt.taylor_expand(apply_fn, params, 2)": nt.taylor_expand(apply_fn, (), 2),
        "predict.gp_inference(K, y)": predict.gp_inference(K, y),
        "predict.gradient_descent_mse(K, y)": predict.gradient_descent_mse(K, y),
        "predict.gradient_descent_mse_ensemble(kernel_fn, x, y)": predict.gradient_descent_mse_ensemble(
            kernel_fn, K, y
        ),
        "predict.gradient_descent(loss, K, y)": predict.gradient_descent(lambda f, y: f, K, y),
    }
    return {name: parameters(function) for name, function in functions.items()}


def activations_by_name():
    """What the names of README's table make of themselves in `serial`."""
    names = re.findall(r"^\| `([a-z]\w*)` \| `[A-Z]", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    return {name: repr(wl.serial(name)[0]) for name in names}


# The command line.


def commands():
    """Every command with its arguments and options, by the names that the shell knows."""
    found = {}

    def add(name, command):
        own = getattr(command, "commands", None)
        rows = dict(_typer_option(parameter) for parameter in command.params if parameter.name != "help")
        if name.startswith("widelimit reproduce "):
            rows |= _argparse_options(name.split()[1:])
        found[name] = rows
        for key, inner in (own or {}).items():
            add(f"{name} {key}", inner)

    add("widelimit", typer.main.get_command(app))
    return found


def _typer_option(parameter):
    option = parameter.param_type_name == "option"
    name = ", ".join([*parameter.opts, *parameter.secondary_opts]) if option else _argument(parameter)
    flag = option and parameter.is_flag
    default = None if flag or parameter.required else parameter.default
    return name, {
        "default": _plain(parameter.default if flag and parameter.secondary_opts else default),
        "required": parameter.required,
        "takes": "nothing" if flag else "several" if parameter.multiple or parameter.nargs != 1 else "one",
    }


def _argument(parameter):
    return re.sub(r"[\[\].]", "", parameter.metavar or parameter.name.upper())


class _ParserError(Exception):
    """Raised with a parser, in the place where a command was about to use it."""


def _argparse_options(arguments):
    """The options of a command that reads its arguments by argparse; none of one that does not."""

    def stop(parser, *args, **kwargs):
        raise _ParserError(parser)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_known_args", stop)
        try:
            typer.main.get_command(app).main([*arguments, "--full"], standalone_mode=False)
        except _ParserError as found:
            actions = found.args[0]._actions
    return {
        ", ".join(action.option_strings): {
            "default": None if action.nargs == 0 else _plain(action.default),
            "required": action.required,
            "takes": "nothing" if action.nargs == 0 else "one" if action.nargs is None else "several",
        }
        for action in actions
        if action.dest != "help"
    }


def _plain(value):
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def todays(kept=()):
    """What the list holds, of today's package; `kept` are names that pages showed once."""
    return {
        "names": {name: described(name) for name in sorted({*shown_names(), *kept})},
        "returned functions": returned_functions(),
        "activations by name": activations_by_name(),
        "python -m": list(RUNNABLE),
        "commands": commands(),
    }


# The tests.

LISTED = json.loads(LIST.read_text()) if LIST.exists() else {"names": {}, "commands": {}}


def differences(listed, now, where):
    """What is gone or another, in words."""
    if now is None:
        return [f"{where} is gone."]
    if not isinstance(listed, dict) or not isinstance(now, dict):
        return [] if listed == now else [f"{where} was {listed} and is {now}."]
    found = []
    for key, value in listed.items():
        if value is not None or key not in now:
            found += differences(value, now.get(key), f"{where}: {key}" if where else key)
        elif now[key] is not None:
            found.append(f"{where}: {key} was None and is {now[key]}.")
    return found


@pytest.mark.parametrize("package", sorted({name.rpartition(".")[0] or name for name in LISTED["names"]}))
def test_every_name_is_there_with_its_parameters(package):
    names = [name for name in LISTED["names"] if (name.rpartition(".")[0] or name) == package]
    wrong = [line for name in names for line in differences(LISTED["names"][name], described(name), name)]
    assert not wrong, "\n".join(wrong)


def test_every_name_that_is_shown_is_listed():
    missing = [name for name in shown_names() if LISTED["names"].get(name) is None]
    assert not missing, f"{missing} are shown and not listed. Run python tests/test_public_names.py"


def test_every_returned_function_has_its_parameters():
    wrong = differences(LISTED["returned functions"], returned_functions(), "")
    assert not wrong, "\n".join(wrong)


def test_every_activation_has_its_name():
    listed = LISTED["activations by name"]
    assert activations_by_name() == listed
    assert {name: repr(wl.from_json(wl.serial(name).to_json())[0]) for name in listed} == listed


@pytest.mark.parametrize("command", LISTED["commands"])
def test_every_command_has_its_options(command):
    wrong = differences(LISTED["commands"][command], commands().get(command), command)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("module", LISTED.get("python -m", []))
def test_every_module_that_runs_is_there(module):
    spec = importlib.util.find_spec(module)
    assert spec is not None, f"python -m {module} is gone."
    if spec.submodule_search_locations is not None:
        assert importlib.util.find_spec(f"{module}.__main__") is not None, f"python -m {module} runs nothing."


def test_what_changes_is_noticed():
    listed = {"f": {"parameters": "(x, y=1)", "members": {"a": "(self)"}}, "g": {"kind": "module"}}
    now = {"f": {"parameters": "(x, y=2)", "members": {}}, "h": {"kind": "module"}}
    assert differences(listed, now, "") == [
        "f: parameters was (x, y=1) and is (x, y=2).",
        "f: members: a is gone.",
        "g is gone.",
    ]


if __name__ == "__main__":
    found = todays(json.loads(LIST.read_text())["names"])
    if unknown := [name for name, value in found["names"].items() if value is None]:
        sys.exit(f"Pages show {', '.join(unknown)}, which the package does not have. Mend the pages.")
    LIST.write_text(json.dumps(found, indent=1) + "\n")
    print(f"{LIST}: {len(found['names'])} names, {len(found['commands'])} commands.")
