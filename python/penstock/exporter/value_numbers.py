"""Which values of two programs are equal, whatever their weights and inputs: value numbering.

Guarantees that values of one number are equal: made by the same operators with the same arguments
from the same parameters, buffers, inputs and constants. What leaves a value as it is (a copy,
dropout that is off, a mask of ones) makes no new number. Values of other numbers may be equal too.
Nothing is computed, so weights are not needed.
"""

import math
import operator

import torch
from torch.export.graph_signature import InputKind

from . import noise
from .randomness import ATEN, SWITCHES, draws
from .schema import arguments

COPIES = (ATEN.clone.default, ATEN.alias.default, ATEN.detach.default, ATEN.contiguous.default,
          ATEN.lift_fresh_copy.default)
RESHAPES = (ATEN.view.default, ATEN._unsafe_view.default, ATEN.reshape.default)
DROPOUTS = tuple(target for target, switch in SWITCHES.items() if switch == ("train", False))
LIFTED = "lifted_tensor_"  # in the names that torch.export gives constants of forward
RECURRENT = tuple(target for target, (name, _) in SWITCHES.items() if name == "dropout")
BATCH_NORMS = (ATEN._native_batch_norm_legit_functional.default,
               ATEN._native_batch_norm_legit_no_training.default)


class ValueNumbers:
    """The numbers of all programs that it is given."""

    def __init__(self):
        self.numbers = {}  # by what makes a value
        self.random = set()  # those that depend on draws
        self.filled = {}  # what all elements of a value are, where that is known

    def of_program(self, program, graph_module):
        """The number of each node; `graph_module`: the program's, or one with other arguments."""
        return self.of(graph_module, list(inputs_of(program)))

    def of(self, graph_module, inputs):
        numbers, rest = {}, iter(inputs)
        for node in graph_module.graph.nodes:
            if node.op == "placeholder":
                numbers[node] = self.number(next(rest))
            elif node.op == "get_attr":
                numbers[node] = self.attribute(node.target, getattr(graph_module, node.target))
            elif node.op == "call_function":
                numbers[node] = self.called(node, numbers)
        return numbers

    def number(self, key, operands=()):
        number = self.numbers.setdefault(key, len(self.numbers))
        if self.random.intersection(operands):
            self.random.add(number)
        return number

    def attribute(self, name, value):
        """A nested graph is what its outputs are of its arguments."""
        if not isinstance(value, torch.fx.GraphModule):
            return self.number(constant(name, value))
        placeholders = [node for node in value.graph.nodes if node.op == "placeholder"]
        numbers = self.of(value, [("argument", i) for i in range(len(placeholders))])
        output = value.graph.output_node()
        return self.number(("graph", described(output.args, numbers)),
                           [numbers[node] for node in output.all_input_nodes])

    def called(self, node, numbers):
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            return self.number(("size", str(value)))
        source = self.unchanged(node, numbers)
        if source is not None:
            return numbers[source]
        filled = self.only_element(node, numbers)
        if filled is not None:
            number = self.number(("filled", filled, form(node)))
            self.filled[number] = filled
            return number
        if isinstance(node.target, torch._ops.OpOverload) and draws(node):
            number = self.number(("draw", len(self.numbers)))  # never again
            self.random.add(number)
            return number
        return self.number(described(canonical(node), numbers),
                           [numbers[operand] for operand in node.all_input_nodes])

    def unchanged(self, node, numbers):
        """The operand that the node's value is equal to; None where there is none."""
        if node.target in COPIES or lets_pass(node):
            return node.args[0]
        if node.target is operator.getitem and node.args[1] == 0 and lets_pass(node.args[0]):
            return node.args[0].args[0]
        for operand, other in self.operands(node, numbers):
            neutral = 0.0 if node.target in noise.ADD else 1.0
            known = other if isinstance(other, float) else self.filled.get(numbers.get(other))
            if known is not None and math.isclose(known, neutral, rel_tol=1e-12, abs_tol=1e-12) \
                    and form(operand) == form(node):
                return operand
        return None

    def operands(self, node, numbers):
        """(operand, the other one): those that a neutral other one leaves as they are."""
        if node.target not in noise.ADD + noise.MULTIPLY + noise.DIVIDE or node.kwargs:
            return
        first, second = (float(each) if isinstance(each, (int, float)) else each
                         for each in node.args[:2])
        yield first, second
        if isinstance(second, torch.fx.Node) and node.target not in noise.DIVIDE:
            yield second, first

    def only_element(self, node, numbers):
        """What all elements of a mask that lets everything pass are, and what follows from it."""
        given = noise.constant_of(node)
        if node.target is ATEN.bernoulli.p and node.args[1] == 1:
            return 1.0
        if node.target is ATEN.floor.default and noise.uniform_below_one(node.args[0]) \
                and noise.constant_of(node.args[0]) == 1:
            return 1.0
        if given is not None and numbers.get(node.args[0]) in self.filled:
            return noise.result(node, self.filled[numbers[node.args[0]]], given)
        return None


def lets_pass(node):
    """Is it a dropout that is switched off?"""
    return node.target in DROPOUTS and not draws(node)


def form(node):
    """Type and sizes as text: comparing symbolic sizes would add guards to the program."""
    value = node.meta["val"]
    return str((value.dtype, tuple(value.shape)))


def canonical(node):
    """Target and arguments, the same of operators that give the same by other names."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return str(node.target), node.args, sorted(node.kwargs.items())
    target, given = node.target, arguments(node.target, node.args, node.kwargs)
    if target in RESHAPES:
        return "reshape", list(given.values())
    if target in BATCH_NORMS and not given.get("training", False):
        given = {name: given[name] for name in given if name not in ("training", "momentum")}
        return "batch norm", list(given.items())
    if target in RECURRENT and (given["train"] is False or given["dropout"] == 0):
        given |= {"train": False, "dropout": 0.0}
    return str(target), list(given.items())


def described(value, numbers):
    """A key: nodes by their numbers, constants with their type, for 1 == 1.0 == True."""
    if isinstance(value, torch.fx.Node):
        return "value", numbers[value]
    if isinstance(value, (list, tuple)):
        return tuple(described(each, numbers) for each in value)
    return type(value).__name__, repr(value)


def inputs_of(program):
    """What the placeholders of a program are, in order."""
    users = 0
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            yield "input", users
            users += 1
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            yield "held", spec.target
        else:
            yield constant(spec.target, program.constants.get(spec.target))


def constant(name, value):
    """By its elements; without any by its name where that is the module's and not the program's."""
    if not isinstance(value, torch.Tensor) or value.is_meta:
        return "constant", name, id(value) if LIFTED in name else None
    elements = value.detach().reshape(-1).contiguous()
    if elements.is_complex():
        elements = torch.view_as_real(elements.resolve_conj()).reshape(-1)
    return ("constant", str(value.dtype), tuple(value.shape),
            elements.view(torch.uint8).numpy().tobytes())
