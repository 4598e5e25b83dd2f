"""Custom operators: refused by name with the cure, and decomposed where that is asked for."""

import subprocess
import sys

import pytest

from exporter import export, refused, user_file  # noqa: F401 (fixtures)

# A torch.library.custom_op with a backward of its own, as authors of kernels write them.
SWISH = """
@torch.library.custom_op("{space}::swish", mutates_args=())
def swish(x: torch.Tensor, beta: float) -> torch.Tensor:
    return {body}

@swish.register_fake
def _(x, beta):
    return torch.empty_like(x)

def setup(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])
    ctx.beta = inputs[1]

def backward(ctx, gradient):
    (x,) = ctx.saved_tensors
    s = torch.sigmoid(ctx.beta * x)
    return gradient * {factor} * (s + ctx.beta * x * s * (1 - s)), None

swish.register_autograd(backward, setup_context=setup)
"""

# Operators of a torch.library: one made of others, one that only its author knows how to decompose.
LIBRARY = """
from torch._decomp import register_decomposition
library = torch.library.Library("{space}", "DEF")
library.define("double(Tensor x) -> Tensor")
library.impl("double", lambda x: x + x, "CompositeImplicitAutograd")
library.define("triple(Tensor x) -> Tensor")
library.impl("triple", lambda x: 3 * x.detach(), "CPU")
library.impl("triple", lambda x: torch.empty_like(x), "Meta")
{more}
"""


def with_operators(path, definitions):
    text = path.read_text()
    path.write_text(text.replace("class Net", definitions + "\nclass Net", 1))
    return path


def swish_model(user_file, space, body="x * torch.sigmoid(beta * x)", factor="1"):
    return with_operators(user_file("return swish(self.linear(x), 1.5)"),
                          SWISH.format(space=space, body=body, factor=factor))


def test_a_custom_operator_is_refused_by_name_with_the_cure(export, user_file):
    refused(export(swish_model(user_file, "refusing")), "operator refusing.swish.default ('swish')",
            "--decompose")


def test_decompose_replaces_a_custom_operator_by_its_body_and_keeps_the_others_whole(
        export, user_file):
    result = export(swish_model(user_file, "replaced"), options=["--decompose"])
    assert result.code == 0, result.messages
    assert "outputs, gradients and buffers equal the module's" in result.messages
    assert result.targets() == {"aten.linear.default", "aten.mul.Tensor", "aten.sigmoid.default"}


def test_torch_reads_a_decomposed_program_without_the_operators_library(export, user_file):
    result = export(swish_model(user_file, "unknown"), options=["--decompose"])
    load = f"import torch; print(len(list(torch.export.load('{result.path}').graph.nodes)))"
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", load], check=False).returncode == 0


def test_a_gradient_other_than_the_decompositions_is_refused(export, user_file):
    """Its author's backward is half the true one: the decomposed program would train another
    model."""
    refused(export(swish_model(user_file, "halved", factor="0.5"), options=["--decompose"]),
            "differs from the module in", "gradients")


def test_a_body_that_is_no_torch_code_is_refused(export, user_file):
    body = "torch.from_numpy(x.detach().numpy() * 2)"
    refused(export(swish_model(user_file, "foreign", body), options=["--decompose"]),
            "foreign.swish.default", "torch operators")


def test_a_composite_kernel_of_a_library_is_a_decomposition(export, user_file):
    path = with_operators(user_file("return torch.ops.composite.double(self.linear(x))"),
                          LIBRARY.format(space="composite", more=""))
    assert export(path, options=["--decompose"]).targets() == {"aten.linear.default",
                                                               "aten.add.Tensor"}


def test_a_registered_decomposition_is_taken_and_without_one_the_operator_is_refused(
        export, user_file):
    body = "return self.linear(torch.ops.{}.triple(x))"
    path = with_operators(user_file(body.format("bare")), LIBRARY.format(space="bare", more=""))
    refused(export(path, options=["--decompose"]), "operator bare.triple.default",
            "has no decomposition")
    more = "register_decomposition(torch.ops.known.triple.default)(lambda x: x + x + x)"
    path = with_operators(user_file(body.format("known")), LIBRARY.format(space="known", more=more))
    assert export(path, options=["--decompose"]).targets() == {"aten.linear.default",
                                                               "aten.add.Tensor"}


def test_a_custom_operator_that_writes_to_its_argument_is_refused(export, user_file):
    writes = ('@torch.library.custom_op("writing::bump", mutates_args={"x"})\n'
              "def bump(x: torch.Tensor) -> None:\n    x.add_(1)\n")
    path = with_operators(user_file("y = x.clone()\nbump(y)\nreturn self.linear(y)"), writes)
    for options in ([], ["--decompose"]):
        refused(export(path, options=options), "writing.bump", "writes to its arguments")


@pytest.mark.parametrize("body", ["return torch.cond(x.sum() > 0, lambda v: v + 1, "
                                  "lambda v: v - 1, (self.linear(x),))"])
def test_control_flow_in_the_graph_is_refused_by_name(export, user_file, body):
    refused(export(user_file(body)), "operator cond", "piece by piece")
