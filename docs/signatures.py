"""Constructors of named tuples, whose fields inspection does not show."""

from typing import Any

from griffe import Class, Extension, Function, ObjectNode, Parameter, ParameterKind, Parameters


class NamedTuples(Extension):
    """Gives a named tuple the constructor that its fields make."""

    def on_class_members(self, *, node: Any, cls: Class, **kwargs: Any) -> None:
        """Called when griffe has looked into a class."""
        if not isinstance(node, ObjectNode) or "_field_defaults" not in vars(node.obj):
            return
        defaults = {name: repr(value) for name, value in node.obj._field_defaults.items()}
        kind = ParameterKind.positional_or_keyword
        fields = [Parameter(name, kind=kind, default=defaults.get(name)) for name in node.obj._fields]
        itself = Parameter("self", kind=kind)
        cls.set_member("__init__", Function("__init__", parameters=Parameters(itself, *fields)))
