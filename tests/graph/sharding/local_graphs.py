"""Runs the graphs of all parts of a tensor group in one process, beside the exported model."""

import importlib.util
import json
import os
import subprocess
from pathlib import Path

import local_run
import pytest
import torch
from held import Layout

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("PENSTOCK_BUILD", ROOT / "build"))
MODELS = Path(os.environ.get("PENSTOCK_TEST_MODELS", BUILD / "tests" / "models"))
TOLERANCE = {"rtol": 1e-10, "atol": 1e-10}

GPT2 = [("*.c_attn.weight", "S(1, 3)"), ("*.attn.c_proj.weight", "S(0)"),
        ("*.c_fc.weight", "S(1)"), ("*.mlp.c_proj.weight", "S(0)")]
BERT = [("*.query.weight", "S(0)"), ("*.key.weight", "S(0)"), ("*.value.weight", "S(0)"),
        ("*.attention.output.dense.weight", "S(1)"), ("*.intermediate.dense.weight", "S(0)"),
        ("*.layer.?.output.dense.weight", "S(1)")]
LLAMA = [("*.q_proj.weight", "S(0)"), ("*.o_proj.weight", "S(1)"), ("*.gate_proj.weight", "S(0)"),
         ("*.up_proj.weight", "S(0)"), ("*.down_proj.weight", "S(1)")]
TRANSFORMER = [("*.in_proj_weight", "S(0, 3)"), ("*.out_proj.weight", "S(1)"),
               ("*.linear1.weight", "S(0)"), ("*.linear2.weight", "S(1)")]


def exported(name):
    path = MODELS / f"{name}.pt2"
    if not path.exists():
        pytest.skip(f"{path} is missing: the tests export it with torch from .venv")
    program = torch.export.load(path)
    for node in program.graph.nodes:  # norms in single precision
        node.args, node.kwargs = torch.utils._pytree.tree_map(
            lambda given: torch.float64 if given is torch.float32 else given,
            (node.args, node.kwargs))
    program.graph_module.recompile()
    return path, program


def completed(path, parts, parameters=(), values=(), logits=False):
    pins = json.dumps({"parameters": list(parameters), "values": list(values), "logits": logits})
    return subprocess.run([BUILD / "tests/graph/list-local-graph", path, str(parts), pins],
                          capture_output=True, text=True, timeout=120)


def load_module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def local_graph(path, parts, parameters=(), values=(), logits=False):
    done = completed(path, parts, parameters, values, logits)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def loss_of(output):
    """Of each number another multiple, so that no two are the same to the loss."""
    weights = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)
    return (output * weights).sum() + output.square().mean()


class Whole:
    """The model as PyTorch runs its graph: outputs, loss, gradients and new buffers by name."""

    def __init__(self, program):
        signature = program.graph_signature
        self.inputs = torch.utils._pytree.tree_leaves(program.example_inputs)
        self.parameters = set(signature.parameters)
        copies = {}  # tied parameters are one
        self.tensors = {name: copies.setdefault((tensor.data_ptr(), tensor.shape), tensor.detach()
                                                .clone().requires_grad_(name in self.parameters))
                        for name, tensor in {**program.state_dict, **program.constants}.items()}
        given = iter(self.inputs)
        arguments = [next(given) if spec.target is None else self.tensors[spec.target]
                     for spec in signature.input_specs]
        results = program.graph_module(*arguments)
        self.outputs = [result for spec, result in self._of(signature, results)
                        if spec.kind.name == "USER_OUTPUT"]
        self.buffers = {spec.target: result for spec, result in self._of(signature, results)
                        if spec.kind.name == "BUFFER_MUTATION"}
        self.loss = loss_of(self.outputs[0])
        self.loss.backward()

    @staticmethod
    def _of(signature, results):
        return list(zip(signature.output_specs, results, strict=True))

    def gradient(self, name):
        """Zeros where the loss does not depend on it."""
        tensor = self.tensors[name]
        return torch.zeros_like(tensor) if tensor.grad is None else tensor.grad


def stored(whole, graph, parts):
    """What the parts hold of parameters and buffers, by value."""
    held = {}
    for value, tensor in graph["tensors"].items():
        own = Layout(tensor["layout"]).hold(whole.tensors[tensor["name"]].detach(), parts)
        held[value] = [part.clone().requires_grad_(tensor["name"] in whole.parameters)
                       for part in own]
        assert all(list(part.shape) == tensor["sizes"] for part in own)
    return held


def first_output_assembled(graph, results):
    """Each part's results, with its own part of the first output and copies of the others'."""
    if not graph["held"]:
        return results
    own = [outputs[0] for outputs, _ in results]
    return [([Layout(graph["held"]).assemble([each if one == part else each.detach()
                                              for one, each in enumerate(own)]), *outputs[1:]],
             buffers) for part, (outputs, buffers) in enumerate(results)]


def check_results(whole, results):
    for outputs, buffers in results:
        torch.testing.assert_close(outputs, whole.outputs, **TOLERANCE)
        torch.testing.assert_close(buffers, whole.buffers, **TOLERANCE)
        torch.testing.assert_close(loss_of(outputs[0]), whole.loss, **TOLERANCE)


def check(program, graph, parts):
    whole = Whole(program)
    held = stored(whole, graph, parts)
    results = first_output_assembled(graph,
                                     local_run.run(graph, held, whole.inputs, parts))
    check_results(whole, results)
    trained = [value for value in held if held[value][0].requires_grad]
    found = iter(torch.autograd.grad([loss_of(outputs[0]) for outputs, _ in results],
                                     [part for value in trained for part in held[value]],
                                     materialize_grads=True))
    for value in trained:
        tensor = graph["tensors"][value]
        gradient = Layout(tensor["layout"]).gradient().assemble([next(found)
                                                                 for _ in range(parts)])
        torch.testing.assert_close(gradient, whole.gradient(tensor["name"]), **TOLERANCE,
                                   msg=lambda text, name=tensor["name"]: f"{name}: {text}")


def layouts(graph, ending):
    return {tensor["layout"] for tensor in graph["tensors"].values()
            if tensor["name"].endswith(ending)}


def collectives(graph):
    return [op["target"].removeprefix("penstock::") for op in graph["operators"]
            if op["target"].startswith("penstock::")]
