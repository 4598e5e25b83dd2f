"""penstock execute trains the models of configs/models over real processes as their modules train
in plain PyTorch.

Losses, the first gradients, and what is saved after five steps: parameters and the buffers of
replica 0. Every model with every schedule and more stages, also in float64, is in
tests/backend/executor/pytorch_test.cpp.
"""

import json
import zipfile

import pytest

from pipelines import (DEVICE, Reference, any_device, difference, execute_json, load_file,
                       model_path, needs_backend, torch, write_plan)
from trainings import FLOAT32, FLOAT64, module_of

pytestmark = needs_backend
FLOAT32_INSIDE = {"llama", "t5"}  # norms, softmax and positions, also where the model is of float64
STEPS = 5


def check_training(folder, name, begins, tolerance, **plan):
    """Trains on the data that the export made, and compares; returns what was saved, by name."""
    data = model_path(name).with_name(f"{name}.data.safetensors")
    plan = write_plan(folder, model_path(name), data, begins, microbatch=2, **plan)
    gradients, saved = folder / "gradients.safetensors", folder / "saved"
    run = execute_json(plan, "--steps", STEPS, "--dump-gradients", gradients, "--save", saved)
    reference = Reference(plan, module_of(name))
    losses, expected = reference.train(STEPS)
    assert run["losses"] == pytest.approx(losses, rel=tolerance)
    assert difference(load_file(gradients), expected) <= tolerance
    tensors = {key: value for file in sorted((saved / f"step-{STEPS}").glob("stage-*.safetensors"))
               for key, value in load_file(file).items()}
    found = {key: value for key, value in tensors.items()
             if key.startswith(("parameter.", "buffer."))}
    wanted = {f"parameter.{name}": value.detach() for name, value in reference.parameters.items()}
    wanted |= {key: reference.buffers[0][key.removeprefix("buffer.")] for key in found
               if key.startswith("buffer.")}
    assert difference(found, wanted) <= tolerance
    return found


def check_models(folder, name, begins, **plan):
    """In float32; on a GPU, whose sums are in another order than PyTorch's on the CPU, in float64.

    Models that compute a part in float32 all the same are as exact as that part: a float32 that is
    rounded the other way moves what follows by 2^-23 of itself, a thousand times the tolerance of
    float64. They get that of float32.
    """
    if DEVICE == "cpu":
        check_training(folder, name, begins, FLOAT32, **plan)
    else:
        check_training(folder, f"{name}-f64", begins,
                       FLOAT32 if name in FLOAT32_INSIDE else FLOAT64, **plan)


FLOAT = 7  # as torch.export writes float32


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert", "t5", "moe", "unet", "resnet", "vit"])
def test_the_models_of_float64_that_compute_in_float32_inside_are_known(name):
    """A new one would have to get the tolerance of float32 on a GPU."""
    with zipfile.ZipFile(model_path(f"{name}-f64")) as archive:
        graph = json.loads(archive.read("archive/models/model.json"))["graph_module"]["graph"]
    inside = any(value["dtype"] == FLOAT for value in graph["tensor_values"].values())
    assert inside == (name in FLOAT32_INSIDE)


LOOP, V = [0, 1, 0, 1], [0, 1, 1, 0]


@any_device
@pytest.mark.parametrize("name, begins, schedule, ranks", [
    ("gpt2", ["", "transformer.h.1"], "1f1b", None),
    ("llama", ["", "model.layers.0.mlp", "model.layers.1", "lm_head"], "interleaved-1f1b", LOOP),
    ("bert", ["", "bert.encoder.layer.1"], "zb-h1", None),
    ("t5", ["", "encoder.block.1", "decoder.block.0", "decoder.block.1"], "zbv", V),
    ("moe", ["", "blocks.1"], "gpipe", None),
    ("unet", ["", "down.1", "up.0", "up.1"], "interleaved-zb", LOOP),
    ("resnet", ["", "groups.1"], "zb-h2", None),
    ("vit", ["", "layers.1"], "1f1b", None)])
def test_models_that_people_know_train_as_their_modules(tmp_path, name, begins, schedule, ranks):
    check_models(tmp_path, name, begins, microbatches=4, schedule=schedule, ranks=ranks)


def names_in(value):
    """The names of all values in a part of an exported graph."""
    if isinstance(value, dict):
        own = [value["name"]] if isinstance(value.get("name"), str) else []
        return own + [name for key, part in value.items() if key != "name"
                      for name in names_in(part)]
    return [name for part in value for name in names_in(part)] if isinstance(value, list) else []


def behind(name, module):
    """The operators of NAME.pt2 that run in a module or need what those made, by name."""
    with zipfile.ZipFile(model_path(name)) as archive:
        program = json.loads(archive.read("archive/models/model.json"))
    nodes = program["graph_module"]["graph"]["nodes"]
    made, operators = set(), []
    for node in nodes:
        inside = f",{module}," in node["metadata"].get("nn_module_stack", "")
        if inside or made & set(names_in([argument["arg"] for argument in node["inputs"]])):
            outputs = names_in(node["outputs"])
            made |= set(outputs)
            operators.append(node.get("name") or outputs[0])
    return operators


@any_device
def test_a_stage_along_a_branch_trains_as_its_module(tmp_path):
    later = behind("moe", "blocks.0.mixture.experts.1")
    assert later
    check_models(tmp_path, "moe", ["", [f"%{name}" for name in later]], microbatches=4,
                 schedule="1f1b")


@any_device
def test_replicas_keep_their_own_batch_norm_statistics_and_those_of_the_first_are_saved(tmp_path):
    saved = check_training(tmp_path, "resnet-f64", ["", "groups.1"], FLOAT64, microbatches=2,
                           schedule="1f1b", data_parallel=2)
    means = [key for key in saved if key.endswith("running_mean")]
    assert len(means) == sum(isinstance(m, torch.nn.BatchNorm2d)
                             for m in module_of("resnet-f64").modules())
