"""The steps of an export, in order: build, trace, check, write."""

import contextlib
import copy
import json
import logging
import os
import shlex
import sys
import warnings

import torch
from torch.utils import _pytree as pytree

from . import comparison, coupling, deferred, evaluation, initial, layerdrop, markers, output
from . import program as programs
from .errors import UserError
from .randomness import random_operators


def run(source, options, limit=None):
    """Exports what `source` defines to options.output; returns what to print: its sizes, and what
    follows.

    `limit` is what to say where the program computes in bfloat16.
    """
    quiet_torch()
    tape = deferred.Tape(options.seed) if options.meta else None
    model, args, kwargs = build(source, options, tape)
    reference = duplicate(model)  # before torch.export touches it
    say(f"exporting {source.path}" + ("" if model.training else " in evaluation mode, as built"))
    program = programs.export(model, args, kwargs, options)
    splits = markers.take_out(program)
    if limit and not options.meta and programs.computes_in_bf16(program):
        say(limit)
    coupled = None
    if options.meta:
        say("without weights there are no numbers: outputs, gradients, buffers and batch coupling "
            "were not checked")
        evaluated = evaluation_without_weights(program, reference, args, kwargs, options)
    else:
        in_evaluation = duplicate(reference).eval()
        check(program, reference, in_evaluation, args, kwargs, options)
        evaluated = check_evaluation(program, in_evaluation, args, kwargs, options.seed)
        coupled = check_coupling(program, args, kwargs, options.static)
    facts = describe(program, source, options, args, kwargs, coupled)
    facts |= {"splits": splits, "evaluation": evaluated}
    files = {"penstock.json": facts}
    if options.meta:
        files["initial_values.json"] = initial_values(program, tape)
    return write(program, files, options.output)


def initial_values(program, tape):
    values = initial.settle(program, tape)
    for line in initial.describe(values):
        say(line)
    return values.facts(tape.seed)


def duplicate(module):
    """A deep copy, also where attributes are computed tensors, as weight_norm leaves them."""
    computed = {id(value): value.detach().clone() for part in module.modules()
                for value in vars(part).values()
                if isinstance(value, torch.Tensor) and not value.is_leaf}
    return copy.deepcopy(module, computed)


def say(message):
    print(message, file=sys.stderr, flush=True)


def quiet_torch():
    """Torch's own warnings about its internals would bury our messages."""
    warnings.filterwarnings("ignore")
    logging.getLogger("torch").setLevel(logging.CRITICAL)


def build(source, options, tape=None):
    torch.manual_seed(options.seed)
    with tape or contextlib.nullcontext():
        model = source.call(source.model)
        if not isinstance(model, torch.nn.Module):
            raise UserError(f"{source.path}: model() returns a {type(model).__name__}, not a "
                            "torch.nn.Module")
        leave_out_caches(model)
        layerdrop.decide(model)
        model._apply(lambda t: converted(t, options.dtype))
    args, kwargs = inputs(source, options)
    device = "meta" if options.meta else None
    args, kwargs = pytree.tree_map(lambda t: converted(t, options.dtype).to(device), (args, kwargs))
    return model, args, kwargs


def leave_out_caches(model):
    """Hugging Face's models return keys and values for the next token unless their configuration
    says otherwise: classes that torch.export does not know, and nothing to train on."""
    configs = [getattr(part, "config", None) for part in model.modules()]
    caching = [config for config in configs if getattr(config, "use_cache", False)]
    for config in caching:
        config.use_cache = False
    if caching:
        say("left out: the cache of keys and values (use_cache)")


def converted(tensor, name):
    """A tensor of floating type as --dtype says; a complex one with parts of that type."""
    dtype = getattr(torch, name) if name else tensor.dtype
    if tensor.is_complex():
        return tensor.to(dtype if dtype.is_complex else dtype.to_complex())
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def inputs(source, options):
    """The example inputs as (args, kwargs), with a batch that torch can keep dynamic."""
    values = source.call(source.example_inputs)
    where = f"{source.path}: example_inputs()"
    if isinstance(values, torch.Tensor):
        values = (values,)
    named = leaves(values if isinstance(values, dict) else dict(enumerate(values or ())))
    if not named or not all(isinstance(value, torch.Tensor) for value in named.values()):
        raise UserError(f"{where} has to return a tuple of tensors, or a dictionary of tensors by "
                        "input name; they may lie in tuples, lists and dictionaries")
    flat = [name for name, value in named.items() if value.dim() == 0]
    sizes = {name: value.shape[0] for name, value in named.items() if value.dim()}
    if flat or len(set(sizes.values())) > 1:
        raise UserError(f"{where}: the first dimension of every input is the batch, but the first "
                        f"dimensions are {sizes}" + (f", and {flat} have none" if flat else ""))
    size = next(iter(sizes.values()))
    if size < 2 and not options.static:
        raise UserError(f"{where} returns a batch of {size}; torch fixes a batch of 0 or 1 in the "
                        "program, so return at least 2 samples (4 is good), or give --static")
    return ((), values) if isinstance(values, dict) else (tuple(values), {})


def leaves(inputs):
    """The tensors of the inputs by name: `x`, `pair[0]`."""
    named = {}
    for name, value in inputs.items():
        for path, leaf in pytree.tree_flatten_with_path(value)[0]:
            named[f"{name}{pytree.keystr(path)}" if path else name] = leaf
    return named


def check(program, reference, in_evaluation, args, kwargs, options):
    """Compares program and module; random models with equal seeds, or else in evaluation mode."""
    differences = comparison.compare(reference, program, args, kwargs, options.seed)
    drawn = random_operators(program)
    if any(differences.values()) and drawn:
        exported = programs.export(duplicate(in_evaluation), args, kwargs, options)
        if random_operators(exported):
            say(f"not compared with the module: {drawn[0].target} draws other random numbers")
            return
        differences = comparison.compare(duplicate(in_evaluation), exported, args, kwargs,
                                         options.seed)
        say(f"{drawn[0].target} draws other random numbers than the module; compared in evaluation "
            "mode instead")
    comparison.refuse(differences)
    say("outputs, gradients and buffers equal the module's")


def check_evaluation(program, in_evaluation, args, kwargs, seed):
    return said(evaluation.find(program, lambda graph: evaluation.compare_by_running(
        program, graph, in_evaluation, args, kwargs, seed)), "outputs equal the module's")


def evaluation_without_weights(program, reference, args, kwargs, options):
    def compare(graph):
        try:
            evaluated = programs.export(evaluation.switch(reference), args, kwargs, options)
        except UserError as error:
            raise evaluation.Differs(f"as model.eval() {str(error).splitlines()[0]}") from error
        markers.take_out(evaluated)
        evaluation.compare_by_operators(program, graph, evaluated)

    return said(evaluation.find(program, compare), "it computes what model.eval() does")


def said(evaluated, equal):
    """Tells what was found, and returns it."""
    if "differs" in evaluated:
        say(f"cannot be evaluated while it trains: {evaluated['differs']}")
    else:
        say(f"in evaluation mode, with {len(evaluated['arguments'])} operators changed, {equal}")
    return evaluated


def check_coupling(program, args, kwargs, static):
    if static:
        coupled, why = None, "the batch is static"
    else:
        coupled, why = coupling.check(program, args, kwargs)
    if coupled is None:
        say(f"whether samples of a batch influence each other was not checked: {why}")
    elif coupled:
        say("WARNING: samples of a batch influence each other in this model, so the number of "
            "microbatches changes the training")
    return coupled


def describe(program, source, options, args, kwargs, coupled):
    """What `extra/penstock.json` in the file says; batch_coupled is null where it is not known."""
    dtypes = {str(p.dtype).removeprefix("torch.") for p in program.parameters()
              if p.is_floating_point()}
    plain = (bool, int, float, str, type(None))
    settings = {name: value if isinstance(value, plain) else repr(value)
                for name, value in source.settings().items()}
    return {"penstock": "model", "version": 1, "batch_coupled": coupled,
            "example_batch": pytree.tree_leaves((args, kwargs))[0].shape[0], "settings": settings,
            "torch": torch.__version__.split("+")[0],
            "input_names": list(program.graph_signature.user_inputs),
            "dtype": dtypes.pop() if len(dtypes) == 1 else "mixed" if dtypes else None,
            "meta": options.meta, "static": options.static, "tied": tied_names(program)}


def tied_names(program):
    """Groups of names of one tensor: without weights (--meta) nothing else in the file tells."""
    groups = {}
    for name, value in program.state_dict.items():
        groups.setdefault(id(value), []).append(name)
    return [names for names in groups.values() if len(names) > 1]


def write(program, files, path):
    """The file appears complete or not at all; the same program has the same bytes by any name."""
    extra = {name: json.dumps(content, indent=1) for name, content in files.items()}
    output.write(path, lambda file: torch.export.save(program, file, extra_files=extra))
    parameters = {id(p): p for p in program.parameters()}.values()
    return (f"exported   {sum(p.numel() for p in parameters):,} parameters in "
            f"{len(parameters)} tensors, {len(programs.operators(program))} operators, "
            f"{os.path.getsize(path):,} bytes\n"
            f"written    {path}\n"
            f"next       penstock show {shlex.quote(str(path))}\n"
            "           write a job that names it (docs/files.md), then: penstock profile job.yaml "
            "-o profile.json")
