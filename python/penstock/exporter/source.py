"""The user's Python file and its settings.

Guarantees that each of `model` and `example_inputs` receives exactly the settings that its
signature takes, converted to the type of the default. Throws UserError for a file that cannot be
used and for a setting that is unknown or has a value of another type.
"""

import ast
import difflib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .errors import UserError, line_in, reason

NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass
class Source:
    path: str
    model: Callable
    example_inputs: Callable
    given: dict[str, Any]  # the values of --set

    @staticmethod
    def load(path, assignments):
        module = load_module(path)
        functions = [factory(module, name, path) for name in ("model", "example_inputs")]
        return Source(path, *functions, parse_settings(assignments, functions, path))

    def call(self, function):
        """Calls `model` or `example_inputs` with the settings that it takes."""
        taken = parameters(function)
        settings = {k: v for k, v in self.given.items() if k in taken or takes_any(function)}
        try:
            return function(**settings)
        except Exception as error:
            raise UserError(f"{line_in(error, self.path)}: {function.__name__}() failed: "
                            f"{reason(error)}") from error

    def settings(self):
        """Every setting in force, by name: the defaults, then the values of --set."""
        defaults = {name: parameter.default
                    for function in (self.example_inputs, self.model)
                    for name, parameter in parameters(function).items()
                    if parameter.default is not inspect.Parameter.empty}
        return defaults | self.given


def load_module(path):
    wanted = "give a Python file that defines model() and example_inputs()"
    if not path:
        raise UserError(f"FILE.py: an empty path; {wanted}; is a variable not set?")
    if not os.path.isfile(path):
        raise UserError(f"{path}: {'is a folder' if os.path.isdir(path) else 'no such file'}; "
                        f"{wanted}")
    with open(path, "rb") as file:
        if file.read(4) == b"PK\x03\x04":
            raise UserError(f"{path}: is a model that was exported already, or another zip; "
                            f"{wanted}")
    name = os.path.splitext(os.path.basename(path))[0]
    specification = importlib.util.spec_from_loader(
        name, importlib.machinery.SourceFileLoader(name, path))
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # dataclasses and pickle look the module up by its name
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        specification.loader.exec_module(module)
    except Exception as error:
        raise UserError(f"{line_in(error, path)}: cannot be loaded: {reason(error)}") from error
    return module


def factory(module, name, path):
    function = getattr(module, name, None)
    if not callable(function):
        raise UserError(f"{path}: has no {name}(); define it: "
                        + ("it returns the torch.nn.Module" if name == "model" else
                           "it returns a tuple of tensors, or a dictionary by input name"))
    return function


def parameters(function):
    return {name: parameter for name, parameter in inspect.signature(function).parameters.items()
            if parameter.kind in NAMED}


def takes_any(function):
    return any(parameter.kind is inspect.Parameter.VAR_KEYWORD
               for parameter in inspect.signature(function).parameters.values())


def parse_settings(assignments, functions, path):
    known = {}
    for function in reversed(functions):
        known.update(parameters(function))
    given = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name.isidentifier():
            raise UserError(f"--set {assignment}: write it as NAME=VALUE, for example layers=4")
        if name not in known and not any(takes_any(function) for function in functions):
            raise UserError(f"--set {assignment}: {path} has no setting '{name}'"
                            + suggestion(name, known))
        if name in given:
            raise UserError(f"--set {assignment}: '{name}' is set twice; keep one of the two")
        given[name] = convert(text, known.get(name), assignment)
    return given


def suggestion(name, known):
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"; did you mean '{near[0]}'?"
    return "; it has " + ", ".join(known) if known else "; it has no settings"


def convert(text, parameter, assignment):
    """The value that `text` stands for, of the type of the parameter's default where it has one."""
    value = literal(text)
    default = None if parameter is None else parameter.default
    if default is None or default is inspect.Parameter.empty:
        return value
    if isinstance(default, str):
        return text
    if isinstance(default, float) and type(value) is int:
        value = float(value)
    if type(value) is not type(default) and value is not None:
        raise UserError(f"--set {assignment}: '{text}' is no {NAMES.get(type(default), 'value')} "
                        f"of the kind of the default, {default!r}")
    return value


NAMES = {bool: "truth value (true or false)", int: "whole number", float: "number"}


def literal(text):
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
