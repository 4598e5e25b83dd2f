"""The program in evaluation mode.

The program has the model as it is in training mode. In evaluation mode dropout lets everything
pass and batch norm takes its running statistics: operators of the same program whose arguments
have another value. Only the exporter has the module too, so it finds these arguments, compares what
they give with `model.eval()`, and writes them into the file; Penstock changes what is written there
and knows no operator by itself. Where the two differ, the file has the reason instead.
"""

import copy

import torch
from torch.utils import _pytree as pytree

from . import comparison, noise
from .errors import UserError, reason
from .program import graph_modules
from .randomness import ATEN, SWITCHES, draws, set_argument
from .runner import Runner
from .schema import argument

STATISTICS = {ATEN._native_batch_norm_legit_functional.default: ("training", False)}
# A probability of 1 alone leaves what the model multiplies the numbers with: noise.py.
FORMS = {target: form for target, form in (SWITCHES | STATISTICS).items()
         if target is not ATEN.bernoulli.p}


class Differs(Exception):
    """Why the program in evaluation mode is not the module in evaluation mode."""


def find(program, module, args, kwargs, seed):
    """What the file says of evaluation mode: {"arguments": {operator: {argument: value}}}, or
    {"differs": reason}. `module`: in evaluation mode, with the weights of the program."""
    try:
        changes = changed_arguments(program)
        runner = Runner(program)
        apply(runner.graph, changes)
        compare(module, runner, args, kwargs, seed)
    except Differs as difference:
        return {"differs": str(difference)}
    except UserError:
        raise
    except Exception as error:
        return {"differs": f"it does not run in evaluation mode: {reason(error, 200)}"}
    return {"arguments": changes}


def changed_arguments(program):
    """{operator: {argument: value}} for the operators that evaluation mode changes."""
    outer, *nested = graph_modules(program)
    for node in (node for module in nested for node in module.graph.nodes):
        if node.target in FORMS and changes(node):
            raise Differs(f"{node.target} ('{node.name}') lies in a nested graph")
    return noise.switched_off(outer.graph) | {
        node.name: dict([FORMS[node.target]]) for node in outer.graph.nodes
        if node.target in FORMS and changes(node)}


def changes(node):
    name, value = FORMS[node.target]
    return draws(node) if node.target in SWITCHES else argument(node, name) != value


def apply(graph_module, changes):
    for node in graph_module.graph.nodes:
        for name, value in changes.get(node.name, {}).items():
            set_argument(node, name, value)
    graph_module.recompile()


def compare(module, runner, args, kwargs, seed):
    """Throws Differs."""
    before = {name: value.clone() for name, value in module.named_buffers()}
    first, again = (forward(module, args, kwargs, s) for s in (seed, seed + 1))
    if comparison.mismatches(first, again):
        raise Differs("the model draws random numbers in evaluation mode too")
    updated = [name for name, value in module.named_buffers()
               if not torch.equal(before[name], value)]
    if updated:
        raise Differs(f"the model updates its buffer '{updated[0]}' in evaluation mode too")
    found, drawn = (forward(lambda *a, **k: runner(a, k)[0], args, kwargs, s)
                    for s in (seed, seed + 1))
    if comparison.mismatches(found, drawn):
        raise Differs("it draws random numbers of its own, by other means than torch.nn's dropout")
    if len(found) != len(first):
        raise Differs(f"the model returns {len(first)} values in evaluation mode, in training "
                      f"{len(found)}")
    different = comparison.mismatches(first, found)
    if different:
        name, size = different[0]
        raise Differs(f"{name} differs from model.eval()'s (relative {size:.2g}): its forward does "
                      "something else when self.training is false")


def forward(call, args, kwargs, seed):
    args, kwargs = copy.deepcopy((args, kwargs))
    with comparison.seeded(seed), torch.no_grad():
        return comparison.numbered(pytree.tree_leaves(call(*args, **kwargs)))
