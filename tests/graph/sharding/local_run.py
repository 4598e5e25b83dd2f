"""Runs a local graph for all parts of a tensor group in one process, forward and backward:
collectives are functions of all parts' tensors. What is single precision in the graph is double."""

import torch
from held import Layout, cross_entropy_of_classes, embedding_of_rows

LAYOUTS = {7: torch.strided}
FORMATS = {1: torch.contiguous_format, 2: torch.channels_last, 3: torch.channels_last_3d,
           4: torch.preserve_format}


def step(source, target):
    """How parts in one layout get into another; as graph/sharding/conversions.cpp has it."""
    before, after = source.kind.replace("R", "I"), target.kind.replace("R", "I")
    if str(source) == str(target):
        return "identity"
    return {"II": "identity", "IS": "own_part", "IP": "first_only", "SI": "all_gather",
            "SS": "all_to_all", "SP": "among_zeros", "PI": "all_reduce",
            "PS": "reduce_scatter"}[before + after]


def among_zeros(own, layout, part, parts):
    whole = own.new_zeros([size * (parts if layout.splits(d) else 1)
                           for d, size in enumerate(own.shape)])
    held = layout.hold(torch.arange(whole.shape[layout.dimension]), parts, dimension=0)[part]
    return whole.index_copy(layout.dimension, held, own)


def take(name, held, source, target):
    parts = len(held)
    match name:
        case "identity":
            return [own.clone() for own in held]
        case "own_part":
            return [target.hold(own, parts)[part] for part, own in enumerate(held)]
        case "first_only":
            return [held[0].clone(), *(torch.zeros_like(own) for own in held[1:])]
        case "among_zeros":
            return [among_zeros(own, source, part, parts) for part, own in enumerate(held)]
        case "all_reduce":
            return [sum(held) for _ in held]
        case "reduce_scatter":
            return target.hold(sum(held), parts)
        case "all_gather":
            return [source.assemble(held).clone() for _ in held]
        case "all_to_all":
            return target.hold(source.assemble(held), parts)


class Conversion(torch.autograd.Function):
    @staticmethod
    def forward(ctx, source, target, *held):
        ctx.layouts = target.gradient(), source.gradient()
        return tuple(take(step(source, target), held, source, target))

    @staticmethod
    def backward(ctx, *gradients):
        source, target = ctx.layouts
        return None, None, *take(step(source, target), gradients, source, target)


def argument(value, values, part):
    if not isinstance(value, dict):
        return value
    (kind, given), = value.items()
    if kind == "tensor":
        return values[given][part]
    if kind == "tensors":
        return [None if name is None else values[name][part] for name in given]
    given = "float64" if given == "float32" else given
    return {"number": lambda: float(given), "dtype": lambda: getattr(torch, given),
            "device": lambda: torch.device(given), "layout": lambda: LAYOUTS[given],
            "memory_format": lambda: FORMATS[given]}[kind]()


def call(op, values, part, parts):
    given = {name: argument(value, values, part) for name, value in op["arguments"].items()}
    if op["target"] == "penstock::embedding_of_rows":
        held = Layout(given["held"]).hold(torch.arange(given["rows"]), parts)[part]
        return [embedding_of_rows(given["weight"], given["indices"], held,
                                  given.get("padding_idx", -1))]
    namespace, name = op["target"].split("::")
    function = getattr(getattr(getattr(torch.ops, namespace), name), op["overload"] or "default")
    with torch.set_grad_enabled(op["grad"]):
        result = function(**given)
    return list(result) if isinstance(result, (tuple, list)) else [result]


def call_classes(op, values, parts):
    given = [{name: argument(value, values, part) for name, value in op["arguments"].items()}
             for part in range(parts)]
    logits = [own.pop("self") for own in given]
    more = given[0]
    assert sum(own.shape[Layout(more["held"]).dimension] for own in logits) == more.pop("classes")
    return [[loss] for loss in cross_entropy_of_classes(logits, Layout(more.pop("held")), **more)]


def convert(op, values):
    source, target = Layout(op["arguments"]["from"]), Layout(op["arguments"]["to"])
    assert op["target"] == "penstock::" + step(source, target)
    return Conversion.apply(source, target, *values[op["arguments"]["self"]["tensor"]])


def run(graph, tensors, inputs, parts):
    """Outputs of each part, and what its buffers become, by name. `tensors`: by value a list with
    one of each part; `inputs`: in order, whole."""
    values = {**tensors, **{name: [given] * parts
                            for name, given in zip(graph["inputs"], inputs, strict=True)}}
    for op in graph["operators"]:
        if "from" in op["arguments"] and op["target"].startswith("penstock::"):
            values[op["outputs"][0]] = convert(op, values)
            continue
        if op["target"] == "penstock::cross_entropy_of_classes":
            results = call_classes(op, values, parts)
        else:
            results = [call(op, values, part, parts) for part in range(parts)]
        for name, shape, own in zip(op["outputs"], op["shapes"], zip(*results, strict=True),
                                    strict=True):
            values[name] = own
            assert all(list(each.shape) == shape for each in own), f"{name} is not {shape}"
    return [([argument(output, values, part) for output in graph["outputs"]],
             {name: values[value][part] for name, value in graph["updates"].items()})
            for part in range(parts)]
