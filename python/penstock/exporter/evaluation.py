"""The program in evaluation mode.

The program has the model as it is in training mode. In evaluation mode dropout lets everything
pass and batch norm takes its running statistics: operators of the same program whose arguments
have another value. Only the exporter has the module too, so it finds these arguments, compares what
they give with `model.eval()`, and writes them into the file; Penstock changes what is written there
and knows no operator by itself. Where the two differ, the file has the reason instead.

With weights both are run. Without, `model.eval()` is exported as well, and each of its outputs has
to come from the same operators with the same arguments (value_numbers.py): equal for any weights.
"""

import copy

import torch
from torch.export.graph_signature import OutputKind
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from . import comparison, noise
from .errors import UserError, reason
from .program import graph_modules
from .randomness import ATEN, SWITCHES, draws, set_argument
from .runner import Runner
from .schema import argument
from .value_numbers import ValueNumbers

STATISTICS = {ATEN._native_batch_norm_legit_functional.default: ("training", False)}
# A probability of 1 alone leaves what the model multiplies the numbers with: noise.py.
FORMS = {target: form for target, form in (SWITCHES | STATISTICS).items()
         if target is not ATEN.bernoulli.p}


BRANCHES = "its forward does something else when self.training is false"
DRAWS_TOO = "the model draws random numbers in evaluation mode too"
DRAWS_ITS_OWN = "it draws random numbers of its own, by other means than torch.nn's dropout"
UPDATES_TOO = "the model updates its buffer '{}' in evaluation mode too"
OTHER_COUNT = "the model returns {} values in evaluation mode, in training {}"


class Differs(Exception):
    """Why the program in evaluation mode is not the module in evaluation mode."""


def find(program, compare):
    """What the file says of evaluation mode: {"arguments": {operator: {argument: value}}}, or
    {"differs": reason}. `compare` throws Differs where the graph that it is given, the program's in
    evaluation mode, is not the module in evaluation mode."""
    try:
        changes = changed_arguments(program)
        graph = copy.deepcopy(program.graph_module)
        apply(graph, changes)
        compare(graph)
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


def compare_by_running(program, graph, module, args, kwargs, seed):
    """`module`: in evaluation mode, with the weights of the program. Throws Differs."""
    runner = Runner(program, graph)
    before = {name: value.clone() for name, value in module.named_buffers()}
    first, again = (forward(module, args, kwargs, s) for s in (seed, seed + 1))
    if comparison.mismatches(first, again):
        raise Differs(DRAWS_TOO)
    updated = [name for name, value in module.named_buffers()
               if not torch.equal(before[name], value)]
    if updated:
        raise Differs(UPDATES_TOO.format(updated[0]))
    found, drawn = (forward(lambda *a, **k: runner(a, k)[0], args, kwargs, s)
                    for s in (seed, seed + 1))
    if comparison.mismatches(found, drawn):
        raise Differs(DRAWS_ITS_OWN)
    if len(found) != len(first):
        raise Differs(OTHER_COUNT.format(len(first), len(found)))
    different = comparison.mismatches(first, found)
    if different:
        name, size = different[0]
        raise Differs(f"{name} differs from model.eval()'s (relative {size:.2g}): {BRANCHES}")


def forward(call, args, kwargs, seed):
    args, kwargs = copy.deepcopy((args, kwargs))
    with comparison.seeded(seed), torch.no_grad():
        return comparison.numbered(pytree.tree_leaves(call(*args, **kwargs)))


def compare_by_operators(program, graph, evaluated):
    """`evaluated`: the program of the module in evaluation mode. Throws Differs."""
    values = ValueNumbers()
    wanted = values.of_program(evaluated, evaluated.graph_module)
    expected = outputs(evaluated, evaluated.graph_module, wanted)
    if values.random.intersection(expected):
        raise Differs(DRAWS_TOO)
    by_name = {node.name: number for node, number in wanted.items()}
    for node, buffer in evaluated.graph_signature.buffers_to_mutate.items():
        if by_name[node] != values.number(("held", buffer)):
            raise Differs(UPDATES_TOO.format(buffer))
    numbers = values.of_program(program, graph)
    found = outputs(program, graph, numbers)
    if values.random.intersection(found):
        raise Differs(DRAWS_ITS_OWN)
    if len(found) != len(expected):
        raise Differs(OTHER_COUNT.format(len(expected), len(found)))
    for i, (here, there) in enumerate(zip(found, expected, strict=True)):
        if here != there:
            raise Differs(f"output {i} is not computed as model.eval()'s"
                          f"{first_other(wanted, numbers)}: {BRANCHES}")


def outputs(program, graph, numbers):
    """The numbers of what the model returns; of what is no tensor, itself."""
    returned = zip(program.graph_signature.output_specs, graph.graph.output_node().args[0],
                   strict=True)
    return [numbers.get(value, value) for spec, value in returned
            if spec.kind is OutputKind.USER_OUTPUT]


def first_other(wanted, numbers):
    """Names the first operator of model.eval() that has no equal."""
    known = set(numbers.values())
    other = next((node for node, number in wanted.items() if number not in known), None)
    return "" if other is None else f", which has its {other.target} ('{other.name}')"


class Unchanged(TorchDispatchMode):
    """Throws Differs where anything is computed."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        raise Differs(f"its eval() computes ({function})")


def switch(module):
    """module.eval(), of a module without weights: what that does to them nobody could see."""
    def held():
        tensors = [*module.named_parameters(remove_duplicate=False),
                   *module.named_buffers(remove_duplicate=False)]
        return [(name, id(tensor)) for name, tensor in tensors]

    before = held()
    with Unchanged():
        module.eval()
    if held() != before:
        raise Differs("its eval() takes other parameters or buffers")
    return module
