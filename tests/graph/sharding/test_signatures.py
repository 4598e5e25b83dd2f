"""Each signature of each operator, on random shapes, against the whole operator in PyTorch: the
parts' results, and the gradients of the parts' operands, put together are those of the whole."""

import functools
import json
import os
import random
import subprocess
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from held import Layout, cross_entropy_of_classes, embedding_of_rows

F = torch.nn.functional

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("PENSTOCK_BUILD", ROOT / "build"))
SIZES = (4, 6, 12)
GROUPS = {"conv1d": 6, "conv2d": 6, "conv_transpose1d": 6, "group_norm": 1}  # which argument
together = functools.partial(zip, strict=True)


class Calls(torch.nn.Module):
    def __init__(self, functions):
        super().__init__()
        self.functions = functions

    def forward(self, *tensors):
        results = []
        for function, begin, end in self.functions:
            result = function(*tensors[begin:end])
            results += result if isinstance(result, (tuple, list)) else [result]
        return tuple(results)


def calls(pick):
    """Functions and the shapes of their operands, of sizes that `pick` draws."""
    a, b, c, d, e = (pick() for _ in range(5))
    ids = (a, b), torch.int64
    return {
        "gelu": (F.gelu, [(a, b)]),
        "add": (torch.add, [(a, b, c), (b, 1)]),
        "add number": (lambda x: x + 2, [(a, b)]),
        "subtract": (torch.sub, [(a, b), (a, b)]),
        "multiply": (torch.mul, [(a, 1, c), (b, c)]),
        "scale": (lambda x: x * 0.5, [(a, b)]),
        "divide": (lambda x: x / 3, [(a, b)]),
        "negative": (torch.neg, [(a, b)]),
        "clone": (torch.clone, [(a, b)]),
        "where": (lambda x, y: torch.where(x > 0, x, y), [(a, b), (b,)]),
        "linear": (F.linear, [(a, b, c), (d, c), (d,)]),
        "linear without bias": (F.linear, [(a, c), (d, c)]),
        "matmul": (torch.matmul, [(a, b, c, d), (b, d, e)]),
        "matmul of a batch": (torch.matmul, [(a, c, d), (d, e)]),
        "bmm": (torch.bmm, [(a, b, c), (a, c, d)]),
        "addmm": (torch.addmm, [(c,), (a, b), (b, c)]),
        "baddbmm": (torch.baddbmm, [(a, b, d), (a, b, c), (a, c, d)]),
        "view": (lambda x: x.view(a, b, c * d), [(a, b, c, d)]),
        "merge": (lambda x: x.reshape(a * b, c), [(a, b, c)]),
        "part": (lambda x: x.view(a, b, c), [(a * b, c)]),
        "flatten": (lambda x: x.flatten(1), [(a, b, c)]),
        "unsqueeze": (lambda x: x.unsqueeze(1), [(a, b)]),
        "squeeze": (lambda x: x.squeeze(1), [(a, 1, b)]),
        "squeeze all": (lambda x: x.squeeze(), [(4, 1, b)]),
        "transpose": (lambda x: x.transpose(1, -1), [(a, b, c, d)]),
        "t": (lambda x: x.t(), [(a, b)]),
        "permute": (lambda x: x.permute(2, 0, -2), [(a, b, c)]),
        "select": (lambda x: x.select(1, 2), [(a, b, c)]),
        "slice": (lambda x: x[:, 1:3], [(a, b, c)]),
        "expand": (lambda x: x.expand(a, b, c), [(a, 1, c)]),
        "split": (lambda x: x.split(c, dim=-1), [(a, 3 * c)]),
        "split in unequal": (lambda x: x.split([c, 2 * c, c], dim=0), [(4 * c, b)]),
        "chunk": (lambda x: x.chunk(2, dim=1), [(a, 2 * b)]),
        "cat with nothing": (lambda x, y: torch.cat([x, y]), [(a, b), (0,)]),
        "sum of one": (lambda x: x.sum(-1), [()]),
        "cat": (lambda x, y: torch.cat([x, y], dim=1), [(a, b), (a, 2 * b)]),
        "softmax": (lambda x: x.softmax(-1), [(a, b, c)]),
        "log_softmax": (lambda x: x.log_softmax(1), [(a, b, c)]),
        "layer_norm": (lambda x, w, s: F.layer_norm(x, (c,), w, s), [(a, b, c), (c,), (c,)]),
        "rms_norm": (lambda x, w: F.rms_norm(x, (b, c), w), [(a, b, c), (b, c)]),
        "sum": (lambda x: x.sum(1), [(a, b, c)]),
        "sum of all": (torch.sum, [(a, b)]),
        "sum that keeps": (lambda x: x.sum((0, -1), keepdim=True), [(a, b, c)]),
        "mean": (lambda x: x.mean(-1), [(a, b, c)]),
        "mean of several": (lambda x: x.mean((0, 2), keepdim=True), [(a, b, c)]),
        "mean of all": (torch.mean, [(a, b)]),
        "largest": (lambda x: x.amax(1), [(a, b, c)]),
        "variance": (lambda x: x.var((1, 2), correction=0), [(a, b, c)]),
        "embedding": (lambda w, i: F.embedding(i, w), [(30, c), ids]),
        "embedding with padding": (lambda w, i: F.embedding(i, w, padding_idx=3), [(36, c), ids]),
        "embedding scaled by counts": (
            lambda w, i: F.embedding(i, w, scale_grad_by_freq=True), [(30, c), ids]),
        "attention": (F.scaled_dot_product_attention, [(a, b, c, 5), (a, b, d, 5), (a, b, d, 7)]),
        "attention with mask": (F.scaled_dot_product_attention,
                                [(a, b, c, 5), (a, b, d, 5), (a, b, d, 5), (b, 1, d)]),
        "conv": (F.conv2d, [(a, b, 5, 6), (c, b, 3, 3), (c,)]),
        "transposed conv": (F.conv_transpose2d, [(a, b, 5, 6), (b, c, 2, 2), (c,)]),
        "attention of grouped queries": (
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
            [(a, 3 * b, c, 5), (a, b, d, 5), (a, b, d, 5)]),
        "attention to one head": (
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
            [(a, b, c, 5), (a, 1, d, 5), (a, 1, d, 5)]),
        "max_pool": (lambda x: F.max_pool2d(x, 2), [(a, b, 5, 6)]),
        "avg_pool of no batch": (lambda x: F.avg_pool2d(x, 2), [(b, 5, 6)]),
        "adaptive_avg_pool": (lambda x: F.adaptive_avg_pool2d(x, 2), [(a, b, 5, 6)]),
        "batch_norm": (lambda x, w, s: F.batch_norm(x, None, None, w, s, training=True),
                       [(a, b, 5, 6), (b,), (b,)]),
        "batch_norm with statistics": (
            lambda x, w, s, m, v: torch.ops.aten._native_batch_norm_legit_functional(
                x, w, s, m, v, True, 0.1, 1e-5),
            [(a, b, 5, 6), (b,), (b,), (b,), (b,)]),
        "group_norm": (lambda x, w, s: F.group_norm(x, 2, w, s), [(a, b, 5, 6), (b,), (b,)]),
        "group_norm of many groups": (lambda x, w, s: F.group_norm(x, 12, w, s),
                                      [(a, 12 * b, 5), (12 * b,), (12 * b,)]),
        "group_norm without weights": (lambda x: F.group_norm(x, 4), [(a, 4 * b, 5)]),
        "stack": (lambda x, y: torch.stack([x, y], dim=1), [(a, b, c), (a, b, c)]),
        "dropout of nothing": (lambda x: F.dropout(x, 0.0), [(a, b)]),
        "native_dropout of nothing": (lambda x: torch.native_dropout(x, 0.5, False)[0], [(a, b)]),
        "type_as": (lambda x, y: x.type_as(y), [(a, b), (c,)]),
        "grouped conv": (lambda x, w: F.conv1d(x, w, groups=2), [(a, 2 * b, 5), (2, b, 3)]),
        "conv of each channel": (lambda x, w, s: F.conv2d(x, w, s, groups=12),
                                 [(a, 12, 5, 6), (24, 1, 3, 3), (24,)]),
        "grouped transposed conv": (lambda x, w, s: F.conv_transpose1d(x, w, s, groups=4),
                                    [(a, 4 * b, 5), (4 * b, 3, 2), (12,)]),
        "repeat": (lambda x: x.repeat(2, 1, 3, 1), [(a, b, c)]),
        "index_select": (lambda x, i: x.index_select(1, i[0]), [(a, 30, c), ids]),
        "index": (lambda x, i: x[:, i], [(a, 30, c), ids]),
        "index of the last": (lambda x, i: x[..., i[0]], [(a, b, 30), ids]),
        "several indices": (lambda x, i: x[i[:, :1], :, i], [(30, b, 30), ids]),
        "flip": (lambda x: x.flip(0, -1), [(a, b, c)]),
        "roll": (lambda x: x.roll((1, 2), (-1, 1)), [(a, b, c)]),
        "roll over all": (lambda x: x.roll(2), [(a, b)]),
        "gather": (lambda x, i: x.gather(1, i), [(a, 30), ids]),
        "gather of some": (lambda x, i: x.gather(-1, i[..., None]), [(a, b, 30), ids]),
        "pad": (lambda x: F.pad(x, (1, 2)), [(a, b, c)]),
        "upsample": (lambda x: F.interpolate(x, scale_factor=2), [(a, b, 5, 6)]),
        "cross entropy": (F.cross_entropy, [(a, 36), ((a,), torch.int64)]),
        "cross entropy of weighted classes": (
            lambda x, t, w: F.cross_entropy(x, t, w, ignore_index=3, label_smoothing=0.1),
            [(a, 36), ((a,), torch.int64), (36,)]),
        "cross entropy of images": (
            lambda x, t: F.cross_entropy(x, t, reduction="none", label_smoothing=0.2),
            [(a, 48, b), ids]),
        "cross entropy with probabilities": (F.cross_entropy, [(a, 36), (a, 36)]),
        "cumulative sum": (lambda x: x.cumsum(0), [(a, b)]),
    }


def tensor(shape):
    if torch.int64 in shape:
        return torch.randint(30, shape[0])
    return torch.randn(shape, dtype=torch.float64)


def as_list(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def local_arguments(node, layouts, wholes, parts):
    """The node's arguments, with the sizes among them as of the parts of its results."""
    shapes = [layout.hold(whole, parts)[0].shape for layout, whole in together(layouts, wholes)]
    name, arguments = node.target.__name__.split(".")[0], list(node.args)
    if name in ("view", "reshape", "expand"):
        arguments[1] = list(shapes[0])
    elif name == "split":
        arguments[1] = shapes[0][arguments[2] if len(arguments) > 2 else 0]
    elif GROUPS.get(name, len(arguments)) < len(arguments) and layouts[0].splits(1):
        arguments[GROUPS[name]] //= parts if arguments[GROUPS[name]] > 1 else 1
    elif name == "split_with_sizes":
        dimension = arguments[2] if len(arguments) > 2 else 0
        arguments[1] = [shape[dimension] for shape in shapes]
    return tuple(arguments)


def call_part(node, arguments, layouts, gives, operands, whole, part, parts):
    if node.target.__name__ == "embedding.default" and layouts[0].splits(0):
        rows = layouts[0].hold(torch.arange(len(whole[0])), parts)[part]
        return [embedding_of_rows(*operands, rows, *arguments[2:])]
    results = call(node, arguments, operands)
    if node.target.__name__.startswith("mean.") and (layouts[0].kind, gives[0].kind) == ("S", "P"):
        return [result / parts for result in results]
    return results


def call_classes(node, held, operands):
    """Of logits of which each part has some classes; all else each has whole."""
    further = iter(operands[0][1:])
    arguments = torch.fx.node.map_arg(node.args[1:], lambda _: next(further))
    return [[loss] for loss in cross_entropy_of_classes([own[0] for own in operands], held,
                                                        *arguments, **node.kwargs)]


def call(node, arguments, operands):
    left = iter(operands)
    filled = torch.fx.node.map_arg(arguments, lambda _: next(left))
    return as_list(node.target(*filled, **node.kwargs))


def gradients(results, incoming, operands):
    """Of each operand; none where it is no floating-point number or no result has a gradient."""
    wanted = [operand for operand in operands if operand.requires_grad]
    pairs = [(r, g) for r, g in together(results, incoming) if r.requires_grad]
    if not wanted or not pairs:
        return [None] * len(operands)
    found = iter(torch.autograd.grad([r for r, _ in pairs], wanted, [g for _, g in pairs],
                                     materialize_grads=True))
    return [next(found) if operand.requires_grad else None for operand in operands]


def leaves(node, operands):
    """Copies that ask for a gradient, except for running statistics and the weights of classes,
    which have none."""
    is_loss = node.target.__name__ == "cross_entropy_loss.default"
    statistics = [argument.name.startswith("running") or (is_loss and argument.name == "weight")
                  for argument in node.target._schema.arguments]
    return [operand.detach().clone().requires_grad_(
                operand.is_floating_point() and not any(statistics[i:i + 1]))
            for i, operand in enumerate(operands)]


def check(node, operands, signature, parts):
    """One signature of a node, forward and backward, against the whole operator."""
    reads = [Layout(text) for text in signature["operands"]]
    gives = [Layout(text) for text in signature["results"]]
    whole = leaves(node, operands)
    results = call(node, node.args, whole)
    incoming = [torch.randn_like(r) if r.is_floating_point() else r for r in results]
    expected = gradients(results, incoming, whole)

    held = [leaves(node, own) for own in together(
        *(layout.hold(operand, parts) for layout, operand in together(reads, operands)))]
    arguments = local_arguments(node, gives, results, parts)
    if node.target.__name__ == "cross_entropy_loss.default" and reads[0].kind == "S":
        local = call_classes(node, reads[0], held)
    else:
        local = [call_part(node, arguments, reads, gives, own, whole, part, parts)
                 for part, own in enumerate(held)]
    for layout, result, own in together(gives, results, together(*local)):
        torch.testing.assert_close(layout.assemble(own), result, rtol=1e-10, atol=1e-10)

    held_incoming = [layout.gradient().hold(gradient, parts) if gradient.is_floating_point()
                     else [None] * parts for layout, gradient in together(gives, incoming)]
    local_incoming = together(*held_incoming)
    backward = [gradients(*each) for each in together(local, local_incoming, held)]
    for layout, gradient, own in together(reads, expected, together(*backward)):
        if gradient is not None:
            torch.testing.assert_close(layout.gradient().assemble(own), gradient,
                                       rtol=1e-10, atol=1e-10)


def nodes_with_operands(program, inputs):
    """The calls of an exported program, each with the tensors that it is given."""
    values = dict(together((n for n in program.graph.nodes if n.op == "placeholder"), inputs))
    for node in program.graph.nodes:
        if node.op != "call_function":
            continue
        given = []
        torch.fx.node.map_arg(node.args, given.append)
        values[node] = node.target(*torch.fx.node.map_arg(node.args, values.get), **node.kwargs)
        if node.target.__name__ != "getitem":
            yield node, [values[each] for each in given]


def exported(seed, folder):
    """Nodes with their operands, and the file."""
    torch.manual_seed(seed)
    pick = random.Random(seed)
    functions, inputs = [], []
    for function, shapes in calls(lambda: pick.choice(SIZES)).values():
        functions.append((function, len(inputs), len(inputs) + len(shapes)))
        inputs += [tensor(shape) for shape in shapes]
    program = torch.export.export(Calls(functions), tuple(inputs))
    torch.export.save(program, folder / "calls.pt2")
    return list(nodes_with_operands(program, inputs)), folder / "calls.pt2"


def listed(model, parts):
    lines = subprocess.run([BUILD / "tests/graph/list-signatures", model, str(parts)], check=True,
                           capture_output=True, text=True, timeout=60).stdout.splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("seed", range(4))
def test_parts_compute_what_the_whole_operator_computes(seed, tmp_path):
    nodes, model = exported(seed, tmp_path)
    split = set()
    for parts in (2, 3, 4):
        operators = listed(model, parts)
        assert len(operators) == len(nodes)
        for op, (node, operands) in together(operators, nodes):
            assert op["target"] == "aten::" + node.target.__name__.split(".")[0]
            assert set(op["signatures"][0]["operands"]) == {"I"}
            for signature in op["signatures"]:
                try:
                    check(node, operands, signature, parts)
                except Exception as error:
                    shapes = [list(operand.shape) for operand in operands]
                    raise AssertionError(f"{op['name']} of {shapes}, {parts} parts: "
                                         f"{signature}") from error
            if len(op["signatures"]) > 2:
                split.add(op["target"])
    whole = {op["target"] for op in operators} - split
    assert whole == {"aten::cumsum", "aten::gt"}


def test_a_gradient_left_unsummed_is_noticed(tmp_path):
    nodes, _ = exported(0, tmp_path)
    node, operands = next(each for each in nodes if each[0].name.startswith("linear"))
    wrong = {"operands": ["I", "S(0)", "S(0)"], "results": ["S(2)"]}
    with pytest.raises(AssertionError):
        check(node, operands, wrong, 2)
    check(node, operands, wrong | {"operands": ["R", "S(0)", "S(0)"]}, 2)


def test_linear_has_columns_and_rows(tmp_path):
    _, model = exported(0, tmp_path)
    linear = next(op for op in listed(model, 2) if op["target"] == "aten::linear")
    for operands, results in ((["R", "S(0)", "S(0)"], ["S(2)"]),
                              (["S(2)", "S(1)", "P"], ["P"]),
                              (["S(1)", "R", "R"], ["S(1)"])):
        assert {"operands": operands, "results": results} in linear["signatures"]
