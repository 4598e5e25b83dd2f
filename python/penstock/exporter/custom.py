"""Operators that are not PyTorch's own: refused by name, or replaced by what they consist of.

What Penstock runs is LibTorch, which has the operators of PyTorch alone. --decompose replaces a
custom operator by its decomposition: the one registered with torch._decomp.register_decomposition,
the CompositeImplicitAutograd kernel of its library, or the body of its torch.library.custom_op, as
far as these call torch operators. Afterwards the program is compared with the module like any
other, so a decomposition that computes something else, or another gradient, is refused.
"""

import torch
from torch._decomp import decomposition_table
from torch._library.custom_ops import OPDEFS

from . import recurrent
from .errors import UserError, reason

OWN = ("aten", "prims", "pippy")  # pippy: pipe_split(), which markers.py takes out
WRITES = "auto_functionalized"  # wraps a custom operator that writes to its arguments


def find(graph_modules):
    """The nodes that call custom operators, or control flow that stays in the graph."""
    return [node for module in graph_modules for node in module.graph.nodes
            if node.op == "call_function" and is_custom(node.target)]


def is_custom(target):
    if isinstance(target, torch._ops.OpOverload):
        return target.namespace not in OWN
    return isinstance(target, torch._ops.HigherOrderOperator)


def decomposition(target):
    """A function that computes the same by other operators, or None."""
    if target in decomposition_table:
        return decomposition_table[target]
    defaults = torch.export.default_decompositions()
    if target in defaults:
        return defaults[target]
    definition = OPDEFS.get(target._schema.name)
    return definition._init_fn if definition else None


def replace(program, graph_modules):
    """The program with every custom operator decomposed that has a decomposition."""
    done = set()
    while True:
        found = {node.target for node in find(graph_modules(program))
                 if isinstance(node.target, torch._ops.OpOverload)}
        table = {target: way for target in sorted(found - done, key=str)
                 if (way := decomposition(target))}
        if not table:
            return program
        try:
            with recurrent.right_shapes():
                program = program.run_decompositions(table)
        except Exception as error:
            raise UserError(f"--decompose: {', '.join(map(str, table))} cannot be traced: "
                            f"{reason(error, 300)}\n  Its body has to consist of torch operators"
                            ) from error
        done |= table.keys()


def refuse(nodes, decomposed):
    """Throws UserError with the first of `nodes`, if there is one."""
    for node in nodes:
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            refuse_higher_order(node)
        cure = "--decompose replaces it by the torch operators that it consists of"
        if decomposed:
            cure = ("it has no decomposition: write its body with torch operators "
                    "(torch.library.custom_op), or register one with "
                    "torch._decomp.register_decomposition")
        raise UserError(f"operator {node.target} ('{node.name}') is a custom operator, which "
                        f"LibTorch does not have; {cure}")


def refuse_higher_order(node):
    if node.target.name().startswith(WRITES):
        raise UserError(f"operator {node.args[0]} ('{node.name}') is a custom operator that writes "
                        "to its arguments; let it return what it computes instead")
    raise UserError(f"operator {node.target} ('{node.name}') cannot be run piece by piece; write "
                    "the model without torch.cond, while_loop, map, scan and the like")
