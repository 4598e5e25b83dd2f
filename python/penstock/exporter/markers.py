"""The pipe_split() calls of a model's code.

torch.export keeps them as operators of torch.distributed.pipelining, without which torch itself
could not load the file again. So they are taken out, and what they marked goes into penstock.json.
"""

import operator

import torch

PIPE_SPLIT = "pippy._pipe_split.default"


def take_out(program):
    """Removes the markers from the program; names of the nodes that follow them, in order."""
    graph, names, marked = program.graph, [], False
    for node in list(graph.nodes):
        if is_marker(node):
            graph.erase_node(node)
            marked = True
        elif marked and node.op == "call_function" and node.target is not operator.getitem:
            names.append(node.name)
            marked = False
    program.graph_module.recompile()
    return names


def is_marker(node):
    return isinstance(node.target, torch._ops.OpOverload) and str(node.target) == PIPE_SPLIT
