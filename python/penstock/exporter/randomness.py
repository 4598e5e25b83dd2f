"""Random operators of a program: which ones draw numbers, and how to switch them off."""

import torch

from .program import operators
from .schema import argument

ATEN = torch.ops.aten
# Operator: (argument, the value with which it always gives the same).
SWITCHES = {
    ATEN.dropout.default: ("train", False),
    ATEN.native_dropout.default: ("train", False),
    ATEN.feature_dropout.default: ("train", False),
    ATEN.alpha_dropout.default: ("train", False),
    ATEN.feature_alpha_dropout.default: ("train", False),
    ATEN.bernoulli.p: ("p", 1.0),
    ATEN.rrelu.default: ("training", False),
    ATEN.rrelu_with_noise_functional.default: ("training", False),
    ATEN.scaled_dot_product_attention.default: ("dropout_p", 0.0),
    ATEN.lstm.input: ("dropout", 0.0),
    ATEN.gru.input: ("dropout", 0.0),
    ATEN.rnn_tanh.input: ("dropout", 0.0),
    ATEN.rnn_relu.input: ("dropout", 0.0),
}


def draws(node):
    """Whether the operator takes random numbers with its present arguments."""
    if node.target in SWITCHES:
        name, off = SWITCHES[node.target]
        inactive = argument(node, name) == off
        names = [entry.name for entry in node.target._schema.arguments]
        if not inactive and "p" in names:
            inactive = argument(node, "p") == 0
        if not inactive and "train" in names:
            inactive = argument(node, "train") is False
        return not inactive
    return torch.Tag.nondeterministic_seeded in node.target.tags


def random_operators(program):
    return [node for node in operators(program) if draws(node)]


def switch_off(graph_module):
    """Switches random operators of a module off in place; returns those that have no switch."""
    left = []
    for module in graph_module.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        for node in module.graph.nodes:
            if not isinstance(node.target, torch._ops.OpOverload) or not draws(node):
                continue
            if node.target in SWITCHES:
                set_argument(node, *SWITCHES[node.target])
            else:
                left.append(str(node.target))
        module.recompile()
    return left


def set_argument(node, name, value):
    names = [entry.name for entry in node.target._schema.arguments]
    position = names.index(name)
    if position < len(node.args):
        node.update_arg(position, value)
    else:
        node.update_kwarg(name, value)
