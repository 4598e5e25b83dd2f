"""Masks that a model draws, as its graph has them: how to let them pass everything.

torch.export writes Dropout2d, AlphaDropout and the stochastic depth of vision models as arithmetic:

    mask = bernoulli(empty, 0.9);  x * (mask / 0.9)              Dropout2d, torchvision, timm
    mask = floor(rand + 0.9);      (x / 0.9) * mask              transformers
    mask = bernoulli(empty, 0.9);  x * (mask * a) + (mask - 1) * b + c        AlphaDropout

With a probability of 1 the mask is 1, and so each number that follows from it and from constants is
known. The last constant before such a number meets data is then chosen so that it changes nothing:
as a factor it becomes 1, as a summand 0. Whether the model does the same without its masks is not
known here: evaluation.py compares.
"""

import torch

from .schema import argument

ATEN = torch.ops.aten
DRAWS = (ATEN.bernoulli.p,)
ADD = (ATEN.add.Scalar, ATEN.add.Tensor)
MULTIPLY = (ATEN.mul.Scalar, ATEN.mul.Tensor)
DIVIDE = (ATEN.div.Scalar, ATEN.div.Tensor)


def switched_off(graph):
    """{operator: {argument: value}} that make every mask of `graph` change nothing."""
    changes, numbers = {}, {}
    for node in graph.nodes:
        if node.target in DRAWS:
            numbers[node] = 1.0, argument(node, "p")
            changes[node.name] = {"p": 1.0}
        elif node.target is ATEN.floor.default and uniform_below_one(node.args[0]):
            numbers[node] = 1.0, node.args[0].args[1]
            changes[node.args[0].name] = {"other": 1.0}
        elif constant_of(node) is not None and node.args[0] in numbers:
            before, probability = numbers[node.args[0]]
            numbers[node] = result(node, before, constant_of(node)), probability
        elif node.target in (MULTIPLY + ADD):
            neutralise(node, numbers, changes)
    return changes


def uniform_below_one(node):
    """Is it rand + p?"""
    return (isinstance(node, torch.fx.Node) and constant_of(node) is not None
            and node.target in ADD and node.args[0].target is ATEN.rand.default)


def constant_of(node):
    """The second operand where that is a number."""
    second = node.args[1] if node.target in ADD + MULTIPLY + DIVIDE else None
    return second if isinstance(second, (int, float)) and not node.kwargs else None


def result(node, first, second):
    if node.target in ADD:
        return first + second
    return first * second if node.target in MULTIPLY else first / second


def neutralise(node, numbers, changes):
    """Data times or plus a number that follows from a mask."""
    known = [operand for operand in node.args[:2] if operand in numbers]
    if len(known) != 1 or node.kwargs:
        return
    mask, = known
    number, probability = numbers[mask]
    neutral = 0.0 if node.target in ADD else 1.0
    if number != neutral:
        other = chosen(mask, numbers, neutral)
        if other is None:
            return
        changes[mask.name] = {"other": other}
    data, = (operand for operand in node.args[:2] if operand is not mask)
    if node.target in MULTIPLY and data.target in DIVIDE and constant_of(data) == probability:
        changes[data.name] = {"other": 1.0}


def chosen(node, numbers, wanted):
    """The second operand with which `node` gives `wanted`; None where there is none."""
    if node.args[0] not in numbers:
        return None
    first, _ = numbers[node.args[0]]
    if node.target in ADD:
        return wanted - first
    if first == 0 or wanted == 0:
        return None
    return wanted / first if node.target in MULTIPLY else first / wanted
