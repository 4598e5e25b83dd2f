"""Compares an exported program with the module that it was exported from.

Guarantees, where it returns, that one training pass over the example batch gives the same outputs,
the same gradients of a loss and the same buffers. The loss is the sum of all floating outputs
times a fixed random projection, so that every output element matters. Throws UserError where
anything differs, and where one of the two fails.
"""

import contextlib
import copy
from dataclasses import dataclass

import torch
from torch.utils import _pytree as pytree

from .errors import UserError, reason
from .runner import Runner

# The same kernels run in both, so the difference is 0 as a rule. What is allowed is what sums in
# another order may cost: 1e-5 is about 80 roundings in float32, a 16-bit result may be off by 4
# roundings; float64 is held to the 1e-10 that training runs are compared with.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5,
             torch.bfloat16: 4 * torch.finfo(torch.bfloat16).eps,
             torch.float16: 4 * torch.finfo(torch.float16).eps}
# A gradient that is zero but for rounding is compared with this share of the norm of all gradients.
GRADIENT_FLOOR = 1e-5

# What is known to make torch.export write another model, by what differs.
HINTS = {"outputs": "",
         "gradients": "; torch.export forgets torch.no_grad() inside torch.autocast(), while "
                      "x.detach() is always kept, and the backward of a torch.autograd.Function, "
                      "of which only what its forward does is kept"}


@dataclass
class Pass:
    """What one forward and backward left behind, by name."""

    outputs: dict
    gradients: dict
    buffers: dict


def pass_of_module(module, args, kwargs, seed):
    """Changes the module: its gradients and buffers."""
    args, kwargs = copy.deepcopy((args, kwargs))
    with seeded(seed):
        outputs = pytree.tree_leaves(module(*args, **kwargs))
    backward(outputs, seed)
    return Pass(numbered(outputs), gradients(dict(module.named_parameters(remove_duplicate=False))),
                dict(module.named_buffers(remove_duplicate=False)))


def pass_of_program(program, args, kwargs, seed):
    runner = Runner(program)
    with seeded(seed):
        outputs, buffers = runner(args, kwargs)
    backward(outputs, seed)
    return Pass(numbered(outputs), gradients(runner.parameters), buffers)


@contextlib.contextmanager
def named(subject):
    """Says whose pass over the example inputs it is that fails."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{subject} cannot be trained on the example inputs: {reason(error)}"
                        ) from error


@contextlib.contextmanager
def seeded(seed):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def numbered(outputs):
    return {f"output {i}": value for i, value in enumerate(outputs)}


def gradients(parameters):
    return {name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            for name, parameter in parameters.items()}


def backward(outputs, seed):
    loss = projection(outputs, seed)
    if loss is not None:
        loss.backward()


def projection(outputs, seed):
    """The sum of the outputs times fixed random numbers; None where nothing requires a gradient."""
    generator = torch.Generator().manual_seed(seed)
    terms = []
    for value in outputs:
        if isinstance(value, torch.Tensor) and value.requires_grad:
            value = real(value)
            weights = torch.randn(value.shape, generator=generator, dtype=torch.float64)
            terms.append((value * (weights / max(value.numel(), 1) ** 0.5).to(value.dtype)).sum())
    return sum(terms) if terms else None


def tolerance_of(value):
    return tolerance(real(value).dtype) if isinstance(value, torch.Tensor) else 0.0


def tolerance(dtype):
    return TOLERANCE.get(dtype, 0.0)


def difference(expected, actual, floor=0.0):
    """|expected - actual| over the larger of |expected| and `floor`; equal infinities agree."""
    if not isinstance(expected, torch.Tensor) or not isinstance(actual, torch.Tensor):
        return 0.0 if expected == actual else float("inf")
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        return float("inf")
    expected, actual = real(expected.detach()), real(actual.detach())
    same = (expected == actual) | (expected.isnan() & actual.isnan())
    if bool(same.all()):
        return 0.0
    if not expected.is_floating_point():
        return float("inf")
    distance = torch.where(same, 0, expected - actual).double().norm().item()
    scale = max(torch.where(same & ~expected.isfinite(), 0, expected).double().norm().item(), floor)
    return distance / scale if distance < float("inf") and scale > 0 else float("inf")


def real(tensor):
    """Complex numbers as pairs."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def mismatches(expected, actual, floor=0.0):
    """(name, relative difference) of every entry that differs by more than its tolerance."""
    if expected.keys() != actual.keys():
        return [(name, float("inf")) for name in sorted(expected.keys() ^ actual.keys())]
    differences = [(name, difference(value, actual[name], floor))
                   for name, value in expected.items()]
    return [(name, size) for name, size in differences if not size <= tolerance_of(expected[name])]


def compare(reference, program, args, kwargs, seed):
    """What differs between the module `reference`, which it changes, and the program.

    {"outputs": [(name, relative difference), ...], "gradients": [...], "buffers": [...]}
    """
    with named("the model"):
        expected = pass_of_module(reference, args, kwargs, seed)
    with named("the program that torch.export made"):
        actual = pass_of_program(program, args, kwargs, seed)
    total = sum(real(g).double().norm().item() ** 2 for g in expected.gradients.values()) ** 0.5
    return {"outputs": mismatches(expected.outputs, actual.outputs),
            "gradients": mismatches(expected.gradients, actual.gradients, GRADIENT_FLOOR * total),
            "buffers": mismatches(expected.buffers, actual.buffers)}


def refuse(differences):
    """Throws UserError with the first difference of each kind."""
    if differences["buffers"]:
        name, size = differences["buffers"][0]
        raise UserError(
            f"buffer '{name}' after a call differs between the module and its program (relative "
            f"{size:.2g}); torch.export drops an assignment `self.buffer = ...` in a submodule "
            "without a word: write it in place, `self.buffer.copy_(...)`")
    for kind, hint in HINTS.items():
        if differences[kind]:
            name, size = differences[kind][0]
            raise UserError(f"the program differs from the module in {len(differences[kind])} "
                            f"{kind}, first '{name}' (relative {size:.2g}); it would train another "
                            f"model, so nothing is written{hint}")
