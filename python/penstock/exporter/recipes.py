"""How modules initialise their parameters, as steps that Penstock can repeat.

A recipe is the list of operations on one memory: each with plain numbers, in place, on all of it or
on a part of given sizes, strides and offset in row-major order. Guarantees that a memory on which
anything else was done has none, but the reason.
"""

import math
from dataclasses import dataclass, replace

import torch

from .schema import arguments

FACTORIES = {
    "empty": (), "empty_like": (), "empty_strided": (), "new_empty": (), "new_empty_strided": (),
    "zeros": ("fill", 0.0), "zeros_like": ("fill", 0.0), "new_zeros": ("fill", 0.0),
    "ones": ("fill", 1.0), "ones_like": ("fill", 1.0), "new_ones": ("fill", 1.0),
    "full": ("fill", "fill_value"), "full_like": ("fill", "fill_value"),
    "new_full": ("fill", "fill_value"),
    "rand": ("uniform", 0.0, 1.0), "rand_like": ("uniform", 0.0, 1.0),
    "randn": ("normal", 0.0, 1.0), "randn_like": ("normal", 0.0, 1.0)}
COPIES = ("clone", "_to_copy", "lift_fresh_copy")
UPDATES = {
    "fill": ("fill", "value"), "zero": ("fill", 0.0), "normal": ("normal", "mean", "std"),
    "uniform": ("uniform", "from", "to"), "bernoulli": ("bernoulli", "p"),
    "mul": ("mul", "other"), "div": ("div", "other"), "neg": ("mul", -1.0),
    "clamp": ("clamp", "min", "max"), "clamp_min": ("clamp", "min", None),
    "clamp_max": ("clamp", None, "max"),
    "erfinv": ("erfinv",), "exp": ("exp",), "log": ("log",), "sqrt": ("sqrt",)}
DRAWS = ("normal", "uniform", "bernoulli")
OVERWRITES = ("fill", *DRAWS)


@dataclass(frozen=True)
class Recipe:
    first: torch.dtype  # before all steps
    dtype: torch.dtype  # after them
    steps: tuple = ()
    written: int = 0  # elements that were given values, counted again where it was done again
    row_major: bool = True  # its memory

    def then(self, step, count):
        gives = count if step["op"] in OVERWRITES else 0
        return replace(self, steps=(*self.steps, step), written=self.written + gives)

    def cast(self, dtype):
        if dtype == self.dtype:
            return self
        step = {"op": "cast", "dtype": name(dtype)}
        return replace(self, dtype=dtype, steps=(*self.steps, step))

    @property
    def has_parts(self):
        return any("sizes" in step for step in self.steps)

    @property
    def draws(self):
        return {step["draw"] for step in self.steps if "draw" in step}


@dataclass(frozen=True)
class Unknown:
    reason: str
    computable: bool = True  # by doing again all that its module did


def follow(known, entry):
    """Updates the recipes of memories, by their storages, for one more operation."""
    for storage in entry.written:
        known[storage] = updated(known.get(storage), entry)
    for storage in entry.made_storages:
        known[storage] = made(known, entry)


def updated(recipe, entry):
    if not isinstance(recipe, Recipe):
        return recipe or Unknown("it was not made by its module")
    target = entry.args[0] if entry.args else None
    step = step_of(entry)
    if step is None or not isinstance(target, torch.Tensor) or target.dtype != recipe.dtype:
        return Unknown(f"{entry.function} writes to it")
    if not whole(target):
        if not recipe.row_major:
            return Unknown(f"{entry.function} writes to a part of it, which is not row-major")
        step |= {"sizes": list(target.shape), "strides": list(target.stride()),
                 "offset": target.storage_offset()}
    return recipe.then(step, target.numel())


def made(known, entry):
    unknown = Unknown(f"it comes from {entry.function}")
    result, called = entry.made, base(entry.function)
    if not isinstance(result, torch.Tensor) or not whole(result):
        return unknown
    row_major = result.is_contiguous()
    if called in FACTORIES:
        recipe = Recipe(result.dtype, result.dtype, row_major=row_major)
        step = with_numbers(entry, *FACTORIES[called]) if FACTORIES[called] else None
        if step:
            return recipe.then(step, result.numel())
        return unknown if FACTORIES[called] else recipe
    source = entry.args[0] if entry.args else None
    if not isinstance(source, torch.Tensor) or not source.is_meta:
        return unknown
    recipe = finished(known.get(source.untyped_storage()._cdata), source, partly=True)
    step = None if called in COPIES else step_of(entry)
    if isinstance(recipe, Unknown):
        return recipe
    if called in COPIES:
        return replace(recipe.cast(result.dtype), row_major=row_major)
    if step is None or result.dtype != source.dtype or result.shape != source.shape:
        return unknown
    return replace(recipe.then(step, result.numel()), row_major=row_major)


def step_of(entry):
    called = base(entry.function)
    if called in ("add", "sub"):
        given = arguments(entry.function, entry.args, entry.kwargs)
        if not plain(given["other"]) or not plain(given["alpha"]):
            return None
        sign = 1 if called == "add" else -1
        return {"op": "add", "numbers": [sign * float(given["alpha"]) * float(given["other"])]}
    return with_numbers(entry, *UPDATES[called]) if called in UPDATES else None


def with_numbers(entry, op, *wanted):
    """The step, its numbers taken from the arguments of the names that `wanted` has."""
    given = arguments(entry.function, entry.args, entry.kwargs)
    if given.get("rounding_mode") is not None:
        return None
    numbers = [given.get(each) if isinstance(each, str) else each for each in wanted]
    open_ended = op == "clamp"
    if not all(plain(number) or (number is None and open_ended) for number in numbers):
        return None
    step = {"op": op, "numbers": [None if n is None else float(n) for n in numbers]}
    return step | {"draw": entry.index} if op in DRAWS else step


def plain(value):
    return isinstance(value, (bool, int, float)) and math.isfinite(value)


def whole(tensor):
    """Does it have each element of its memory once?"""
    count = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1 and stride != count:
            return False
        count *= size
    return count * tensor.element_size() == tensor.untyped_storage().nbytes()


def base(function):
    return function._schema.name.removeprefix("aten::").removesuffix("_")


def name(dtype):
    return str(dtype).removeprefix("torch.")


def finished(recipe, tensor, partly=False):
    """The recipe of a tensor, or why it has none. `partly`: it may still get values later."""
    if not isinstance(recipe, Recipe):
        return recipe or Unknown("it was not made by its module")
    in_order = tensor.is_contiguous() or not recipe.has_parts
    if not whole(tensor) or recipe.dtype != tensor.dtype or not in_order:
        return Unknown("it is a part of another tensor, or laid out otherwise")
    if recipe.written < tensor.numel() and not partly:
        return Unknown("its module gives it no values", computable=False)
    return recipe


def described(recipe):
    """As `initial_values.json` has it."""
    return {"dtype": name(recipe.first), "steps": list(recipe.steps)}
