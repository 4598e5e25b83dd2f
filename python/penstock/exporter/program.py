"""From a module to a functional program.

Guarantees that no operator of the returned program writes to its input and that the only outputs
besides the user's are updates of buffers. Throws UserError where torch cannot export the module or
where the module changes its inputs or parameters.
"""

import contextlib
import io
import sys

import torch
from torch.export.graph_signature import OutputKind, TensorArgument
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, free_unbacked_symbols
from torch.utils import _pytree as pytree

from . import custom, deferred, recurrent
from .errors import UserError, reason
from .schema import argument

NO_GRAD_REGION = torch.ops.higher_order.wrap_with_set_grad_enabled
# They update running statistics, where they have any and this argument says so, without a word in
# their schema.
STATISTICS = {"aten::batch_norm": "training", "aten::_batch_norm_impl_index": "training",
              "aten::native_batch_norm": "training", "aten::instance_norm": "use_input_stats",
              "aten::cudnn_batch_norm": "training", "aten::miopen_batch_norm": "training"}

FIXED_SIZES = ("Sizes and branches must not depend on the values of tensors: compute with masks or "
               "weights, as configs/models/moe.py lets every expert see every token.")


def batch_cure(error):
    cure = "\n  If the batch is what cannot vary, --static fixes it."
    if "specialized it to be a constant" not in str(error):
        return cure
    return "\n  len(x) and int(…) of a size fix it in the code; x.shape[0] does not." + cure


def export(model, args, kwargs, options):
    """The program of `model` in functional form, as the options `static` and `decompose` say."""
    static = options.static
    shapes = None
    if not static:
        shapes = pytree.tree_map(lambda _: {0: torch.export.Dim("batch")}, kwargs or args)
    try:
        with quiet_unless_done(), recurrent.right_shapes(), deferred.TracedConstants():
            program = torch.export.export(model, args, kwargs, dynamic_shapes=shapes)
            detach_no_grad_regions(program)
            program = program.run_decompositions(
                {torch.ops.aten.copy.default: copy_with_derivative})
    except GuardOnDataDependentSymNode as error:
        raise UserError(f"torch.export cannot export the model: {reason(error, 200)}\n  "
                        f"{FIXED_SIZES}") from error
    except Exception as error:
        cure = "" if static else batch_cure(error)
        raise UserError(f"torch.export cannot export the model: {reason(error)}{cure}") from error
    if options.decompose:
        program = custom.replace(program, graph_modules)
    custom.refuse(custom.find(graph_modules(program)), options.decompose)
    refuse_no_output(program)
    refuse_sizes_from_values(program)
    refuse_mutation(program)
    drop_copies(program)
    let_attention_choose_its_layout(program)
    update_early(program)
    drop_traces(program)
    return program


@contextlib.contextmanager
def quiet_unless_done():
    """Where torch fails it prints the graph so far, hundreds of lines before the reason."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        yield
    sys.stderr.write(said.getvalue())


def refuse_no_output(program):
    """Without a tensor to return torch drops every operator as dead."""
    outputs = [spec.arg for spec in program.graph_signature.output_specs
               if spec.kind is OutputKind.USER_OUTPUT]
    if any(isinstance(output, TensorArgument) for output in outputs):
        return
    nothing = all(getattr(output, "value", output) is None for output in outputs)
    returned = "None" if nothing else "no tensor"
    raise UserError(f"the model's forward returned {returned}: there is nothing to train on\n"
                    "  End forward with `return` and the output, or the loss, as a tensor.")


def refuse_sizes_from_values(program):
    for node in operators(program):
        if free_unbacked_symbols(node.meta.get("val")):
            raise UserError(f"operator {node.target} ('{node.name}') gives a size that depends on "
                            f"the values of a tensor\n  {FIXED_SIZES}")


def copy_with_derivative(target, source, non_blocking=False):
    """What `target.copy_(source)` leaves in `target`; aten::copy itself has no derivative."""
    value = source.to(target.dtype)
    if value.shape != target.shape:
        value = value.expand(target.shape)
    contiguous = torch.contiguous_format if target.is_contiguous() else torch.preserve_format
    return value.clone(memory_format=contiguous)


def detach_no_grad_regions(program):
    """Puts a detach on every result of a torch.no_grad() region.

    run_decompositions inlines such regions and forgets that they had no gradient.
    """
    for module in graph_modules(program):
        for node in module.graph.nodes:
            if node.target is NO_GRAD_REGION and node.args[0] is False:
                detach_results(getattr(module, node.args[1].target))


def detach_results(region):
    output = region.graph.output_node()

    def detached(node):
        if not isinstance(node.meta.get("val"), torch.Tensor):
            return node
        with region.graph.inserting_before(output):
            copy = region.graph.call_function(torch.ops.aten.detach.default, (node,))
        copy.meta.update(node.meta)
        return copy

    output.args = torch.fx.map_arg(output.args, detached)
    region.recompile()


def graph_modules(program):
    """The program's graph and the nested ones (no-grad and autocast regions)."""
    return [module for module in program.graph_module.modules()
            if isinstance(module, torch.fx.GraphModule)]


def operators(program):
    """Every operator of the program, nested graphs included, without the unpacking of results."""
    return [node for module in graph_modules(program) for node in module.graph.nodes
            if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)]


def computes_in_bf16(program):
    values = (node.meta.get("val") for module in graph_modules(program)
              for node in module.graph.nodes)
    return any(isinstance(leaf, torch.Tensor) and leaf.dtype == torch.bfloat16
               for value in values for leaf in pytree.tree_leaves(value))


def refuse_mutation(program):
    for spec in program.graph_signature.output_specs:
        if spec.kind in (OutputKind.USER_OUTPUT, OutputKind.BUFFER_MUTATION):
            continue
        if spec.kind is OutputKind.USER_INPUT_MUTATION:
            raise UserError(f"the model changes its input '{spec.target}' in place; let it work on "
                            f"a copy: {spec.target} = {spec.target}.clone()")
        raise UserError(f"the model's forward changes '{spec.target}' ({spec.kind.name.lower()}); "
                        "only buffers may change in forward")
    for node in operators(program):
        updates = updates_statistics(node)
        if node.target._schema.is_mutable or updates:
            cure = ("leave its running statistics out (track_running_stats=False)" if updates else
                    "use its out-of-place form in the model")
            raise UserError(f"operator {node.target} ('{node.name}') still writes to its input "
                            f"after decomposition; {cure}")


def updates_statistics(node):
    switch = STATISTICS.get(node.target._schema.name)
    return (switch is not None and argument(node, "running_mean") is not None
            and argument(node, switch))


def drop_copies(program):
    """Removes copies that change nothing, such as what dropout(p=0) leaves behind.

    Nothing writes in place, so a copy with the strides of its source only costs time and memory.
    One that the graph returns stays: an output must not become an alias of an input.
    """
    for module in graph_modules(program):
        for node in list(module.graph.nodes):
            if node.target is not torch.ops.aten.clone.default or returned(node):
                continue
            source = node.args[0]
            if layout(source) == layout(node):
                node.replace_all_uses_with(source)
                module.graph.erase_node(node)
        module.recompile()


def let_attention_choose_its_layout(program):
    """Makes a reshape of each view of an attention's result.

    Which strides that has is its kernel's choice: another one here than where the program was
    traced, or on the meta device, where a copy then stands before the view.
    """
    aten = torch.ops.aten
    for module in graph_modules(program):
        for node in list(module.graph.nodes):
            if node.target not in (aten.view.default, aten._unsafe_view.default):
                continue
            copy = node.args[0] if node.args[0].target is aten.clone.default else None
            source = copy.args[0] if copy else node.args[0]
            if not comes_from_attention(source):
                continue
            node.target = aten.reshape.default
            node.update_arg(0, source)
            if copy and not copy.users:
                module.graph.erase_node(copy)
        module.recompile()


def comes_from_attention(node):
    while node.target in (torch.ops.aten.permute.default, torch.ops.aten.transpose.int):
        node = node.args[0]
    return node.target is torch.ops.aten.scaled_dot_product_attention.default


def update_early(program):
    """Moves what only buffers' new values need from the end of the graph to what it needs itself,
    or to the last that reads the buffer: a stage that reads a buffer then updates it too."""
    graph = program.graph_module.graph
    signature = program.graph_signature
    order = {node: at for at, node in enumerate(graph.nodes)}
    buffers = {node: signature.inputs_to_buffers.get(node.name) for node in graph.nodes
               if node.op == "placeholder"}
    for node in list(graph.nodes):
        buffer = signature.buffers_to_mutate.get(node.name)
        if buffer is None or node.op == "placeholder" or not only_returned_once(node):
            continue
        readers = [user for held, name in buffers.items() if name == buffer for user in held.users]
        needed = [other for other in [*node.all_input_nodes, *readers] if other is not node]
        last = max(needed, key=order.__getitem__, default=node)
        if last.op != "placeholder" and order[last] < order[node]:
            last.append(node)
    program.graph_module.recompile()


def only_returned_once(node):
    return [user.op for user in node.users] == ["output"]


def returned(node):
    return any(user.op == "output" for user in node.users)


def layout(node):
    """Type, sizes and strides as text: comparing symbolic sizes would add guards to the program."""
    value = node.meta["val"]
    return str((value.dtype, value.device, tuple(value.shape), tuple(value.stride())))


def drop_traces(program):
    """How a node came about: paths and addresses of the exporting process, new in every run."""
    for module in graph_modules(program):
        for node in module.graph.nodes:
            node.meta.pop("stack_trace", None)
            node.meta.pop("from_node", None)
