"""Arguments of every kind, inputs of many types, structured inputs and outputs: equal to plain
PyTorch."""

import json
import zipfile

import pytest

from pipelines import (Reference, any_device, difference, execute_json, load_file, model_path,
                       needs_backend, save_file, torch, write_plan)


def arguments(path):
    """The kinds of argument that the operators of an exported file have."""
    with zipfile.ZipFile(path) as archive:
        name = next(name for name in archive.namelist() if name.endswith("models/model.json"))
        graph = json.loads(archive.read(name))["graph_module"]["graph"]
    return {kind for node in graph["nodes"] for given in node["inputs"] for kind in given["arg"]}


def test_the_model_has_arguments_of_every_kind_that_training_meets():
    assert {"as_tensor", "as_tensors", "as_optional_tensors", "as_none", "as_int", "as_ints",
            "as_sym_int", "as_sym_ints", "as_float", "as_bool", "as_string", "as_scalar_type",
            "as_memory_format",
            "as_device", "as_complex"} <= arguments(model_path("kinds"))


def data(folder, samples=16):
    """Tensors named as the export flattens the inputs: of a dictionary by key, of a tuple by
    position."""
    generator = torch.Generator().manual_seed(3)
    tensors = {"image": torch.randn(samples, 3, 8, 8, generator=generator, dtype=torch.float64),
               "text_ids": torch.randint(5, (samples, 6), generator=generator, dtype=torch.int16),
               "text_valid": torch.rand(samples, 6, generator=generator) < 0.9,
               "pair_0": torch.randint(200, (samples, 3), generator=generator, dtype=torch.uint8),
               "pair_1": torch.randn(samples, 2, generator=generator).bfloat16(),
               "target": torch.randint(10, (samples,), generator=generator)}
    tensors["text_valid"][:, 0] = True  # a row without any would be no number
    save_file(tensors, folder / "data.safetensors")
    return folder / "data.safetensors"


class Structured(Reference):
    """Calls the module with the inputs as it takes them."""

    def microbatch(self, step, index):
        inputs, target = super().microbatch(step, index)
        return {"image": inputs["image"],
                "text": {"ids": inputs["text_ids"], "valid": inputs["text_valid"]},
                "pair": (inputs["pair_0"], inputs["pair_1"])}, target

    def loss(self, output, target):
        return super().loss(output["logits"], target)


@any_device
@needs_backend
@pytest.mark.parametrize("begins", [["", "mix"], ["", "table", "mix"]])
def test_they_train_as_pytorch(tmp_path, begins):
    """1e-10, as the project promises in double precision."""
    plan = write_plan(tmp_path, model_path("kinds"), data(tmp_path), begins, 2, 4)
    run = execute_json(plan, "--steps", 2, "--dump-gradients", tmp_path / "gradients.safetensors")
    losses, expected = Structured(plan).train(2)
    assert run["losses"] == pytest.approx(losses, rel=1e-10)
    assert difference(load_file(tmp_path / "gradients.safetensors"), expected) <= 1e-10
