"""Models of a stranger's making (tests/models/strangers) are exported and train over three
processes as in PyTorch.

The reference is the Python module itself, in float64; the tolerance is that of
tests/cli/execute/test_execute_models.py. Stages begin where a third of the operators lies behind,
wherever that is.
"""

import argparse
import sys

import pytest

from exporting import export
from pipelines import (ROOT, Reference, assert_trains_as, load_file, needs_backend, save_file,
                       torch, write_plan)

sys.path.insert(0, str(ROOT / "python"))

from torch.utils import _pytree as pytree

from penstock.exporter.export import build, run
from penstock.exporter.source import Source

pytestmark = needs_backend
FLOAT64 = 1e-10
FLOAT32_LOSS = {"llama": 1e-6}  # the model's own loss rounds to float32 some ten times
STEPS = 2
BEGINS = {"statistics": ["", "first", "mix"],  # a buffer is read and updated in one stage
          "assigned": ["", "layers.1", "head"]}


class Stranger(Reference):
    """The module with inputs in the structure that it takes; the loss is of the first tensor that
    it returns."""

    def __init__(self, plan, module, example):
        self.structure = pytree.tree_structure(example)
        super().__init__(plan, module)

    def _data(self, job, names):
        self.names = names
        return super()._data(job, names)

    def microbatch(self, step, index):
        inputs, target = super().microbatch(step, index)
        return pytree.tree_unflatten([inputs[name] for name in self.names], self.structure), target

    def loss(self, output, target):
        return super().loss(pytree.tree_leaves(output)[0], target)


def prepare(folder, file, kind):
    """Exports a model and makes data for it; returns its file, its module and an example."""
    source = Source.load(str(ROOT / "tests" / "models" / "strangers" / f"{file}.py"),
                         [f"kind={kind}"])
    path = folder / "model.pt2"
    options = argparse.Namespace(output=str(path), static=False, decompose=False, meta=False,
                                 dtype="float64", seed=3)
    run(source, options)
    module, _, example = build(source, options)
    parts = [example] + [build(source, options)[2] for options.seed in range(4, 9)]
    names = torch.export.load(path).graph_signature.user_inputs
    data = {name: torch.cat(leaf)
            for name, *leaf in zip(names, *map(pytree.tree_leaves, parts), strict=True)}
    with torch.no_grad():
        output = pytree.tree_leaves(module(**example))[0]
    samples = len(next(iter(data.values())))
    if output.dim():  # else it is the loss itself
        data["target"] = torch.randint(output.shape[-1], (samples, *output.shape[1:-1]))
    save_file(data, folder / "data.safetensors")
    return path, build(source, options)[0], example, "cross_entropy" if output.dim() else "output"


def thirds(path):
    """Where stages of about as many operators begin."""
    names = [node.name for node in torch.export.load(path).graph.nodes
             if isinstance(node.target, torch._ops.OpOverload)
             and isinstance(node.meta.get("val"), torch.Tensor)]
    return ["", names[len(names) // 3], names[2 * len(names) // 3]]


@pytest.mark.parametrize("file, kind, schedule", [
    ("structures", "dictionary", "1f1b"), ("structures", "pair", "gpipe"),
    ("structures", "indices", "1f1b"),
    ("structures", "universal", "gpipe"), ("structures", "checkpointed", "1f1b"),
    ("operators", "statistics", "gpipe"), ("operators", "pictures", "1f1b"),
    ("operators", "scatters", "gpipe"),
    ("operators", "distances", "1f1b"), ("operators", "recurrent", "gpipe"),
    ("operators", "reparametrised", "1f1b"),
    ("architectures", "rotary", "gpipe"), ("architectures", "selectivescan", "1f1b"),
    ("architectures", "messages", "gpipe"), ("architectures", "windows", "1f1b"),
    ("architectures", "masked", "gpipe"),
    ("structures", "assigned", "1f1b"),
    ("hugging_face", "llama", "1f1b"), ("hugging_face", "bart", "gpipe"),
    ("hugging_face", "deberta", "1f1b"), ("hugging_face", "beit", "gpipe"),
    ("hugging_face", "swin", "1f1b"), ("hugging_face", "dinov2", "gpipe"),
    ("hugging_face", "convnextv2", "1f1b"), ("hugging_face", "whisper", "gpipe")])
def test_a_strangers_model_trains_as_in_pytorch(tmp_path, file, kind, schedule):
    path, module, example, loss = prepare(tmp_path, file, kind)
    begins = BEGINS.get(kind) or thirds(path)
    plan = write_plan(tmp_path, path, tmp_path / "data.safetensors", begins, 4, 2,
                      schedule=schedule, loss=loss)
    assert_trains_as(Stranger(plan, module, example), plan, STEPS,
                     FLOAT32_LOSS.get(kind, FLOAT64))


def test_a_parameter_that_nothing_reads_keeps_its_value(tmp_path):
    path, module, example, _ = prepare(tmp_path, "structures", "spare")
    plan = write_plan(tmp_path, path, tmp_path / "data.safetensors", thirds(path), 4, 2)
    weights = tmp_path / "weights.safetensors"
    assert_trains_as(Stranger(plan, module, example), plan, STEPS, FLOAT64)
    done = export(plan, "state-dict", weights, "--checkpoint", tmp_path / "saved")
    assert done.returncode == 0, done.stderr
    trained = load_file(weights)
    assert torch.equal(trained["mask"], module.state_dict()["mask"])
    assert trained.keys() == module.state_dict().keys()
