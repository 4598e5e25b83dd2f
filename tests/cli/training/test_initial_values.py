"""A model exported with --meta trains from the values that its modules would have given it."""

import functools
import json
import math
import subprocess
import sys

import pytest
import yaml
from pipelines import (PENSTOCK, ROOT, execute, execute_json, needs_backend, save_file, torch,
                       write_plan)
from trainings import saved_tensors

sys.path.insert(0, str(ROOT / "tools"))

import export_model
from penstock.exporter.source import Source

STANDING_STILL = {"kind": "sgd", "learning_rate": 1e-60}  # 0 in float32
TEXT = "batch_first=true", "causal=true", "positions=true", "layers=2", "vocabulary=512"
# Settings, and the modules that begin stages.
MODELS = {
    "transformer": ([*TEXT, "dim=64", "heads=4", "feedforward=128", "sequence=16"],
                    ["", "layers.1", "norm"]),
    "gpt2": ([], ["", "transformer.h.1", "transformer.ln_f"]),
    "bert": ([], ["", "bert.encoder.layer.1", "cls"]),
    "llama": ([], ["", "model.layers.1", "model.norm"]),
    "t5": ([], ["", "decoder", "decoder.block.1"]),
    "vit": ([], ["", "layers.1", "norm"]),
    "resnet": ([], ["", "groups.1", "groups.2"]),
    "unet": ([], ["", "middle", "up.1"])}


@functools.cache
def exported(folder, name):
    """The file of a model, its data, and a module of the same settings with other draws."""
    settings = MODELS[name][0]
    file, output = ROOT / "configs" / "models" / f"{name}.py", folder / f"{name}.pt2"
    if not output.exists():
        pairs = [part for setting in settings for part in ("--set", setting)]
        assert export_model.main([str(file), "-o", str(output), "--meta", *pairs]) == 0
    source = Source.load(str(file), settings)
    torch.manual_seed(7)
    module, inputs = source.call(source.model), source.call(source.example_inputs)
    inputs = inputs if isinstance(inputs, dict) else dict(
        zip(input_names(output), inputs if isinstance(inputs, tuple) else (inputs,),
            strict=True))
    return output, data_of(folder / f"{name}.data.safetensors", module, inputs), module


def input_names(path):
    return torch.export.load(str(path)).graph_signature.user_inputs


def data_of(path, module, inputs):
    """The example inputs, and the classes 0 as targets of all outputs."""
    with torch.no_grad():
        output = module(**inputs) if len(inputs) > 1 else module(*inputs.values())
    output = getattr(output, "logits", output)
    save_file({name: value.contiguous() for name, value in inputs.items()}
              | {"target": torch.zeros(output.shape[:-1], dtype=torch.int64)}, path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("meta")


def values_after_a_step(folder, name, begins):
    """All parameters, from a run that changes none."""
    model, data, _ = exported(folder, name)
    out = folder / f"{name}-{len(begins)}"
    out.mkdir()
    plan = write_plan(out, model, data, begins, 1, 4, optimizer=STANDING_STILL)
    execute_json(plan, "--steps", 1, "--save", out / "saved")
    return {key.removeprefix("parameter."): value
            for key, value in saved_tensors(out / "saved" / "step-1").items()
            if key.startswith("parameter.")}


def distance(a, b):
    """The largest between two distribution functions (Kolmogorov and Smirnov)."""
    a, b = (value.detach().double().flatten().sort().values for value in (a, b))
    points = torch.cat([a, b])
    return float((torch.searchsorted(a, points, right=True) / len(a)
                  - torch.searchsorted(b, points, right=True) / len(b)).abs().max())


@needs_backend
@pytest.mark.parametrize("name", MODELS)
def test_values_are_distributed_as_the_modules_and_equal_for_any_split(folder, name):
    begins = MODELS[name][1]
    whole = values_after_a_step(folder, name, begins[:1])
    for count in (2, 3):
        split = values_after_a_step(folder, name, begins[:count])
        assert split.keys() == whole.keys()
        assert all(torch.equal(split[key], value) for key, value in whole.items())
    expected = dict(exported(folder, name)[2].named_parameters())
    for key, value in whole.items():
        # Two samples of n are further apart once in 10^9 times: 2 exp(-n D^2) (Massart 1990).
        assert distance(value, expected[key]) <= math.sqrt(math.log(2e9) / value.numel()), key
        constant = expected[key].min() == expected[key].max()
        assert not constant or torch.equal(value, expected[key]), key


@needs_backend
def test_what_a_run_saved_is_resumed_and_exported(folder, tmp_path):
    model, data, _ = exported(folder, "gpt2")
    plan = write_plan(tmp_path, model, data, MODELS["gpt2"][1][:2], 1, 4, steps=4)
    straight = execute_json(plan)["losses"]
    first = execute_json(plan, "--steps", 2, "--save", tmp_path / "saved")["losses"]
    assert first + execute_json(plan, "--resume", tmp_path / "saved")["losses"] == straight


@needs_backend
def test_a_model_without_weights_is_profiled(folder, tmp_path):
    model, data, _ = exported(folder, "resnet")
    job = yaml.safe_load(write_plan(tmp_path, model, data, [""], 1, 4).read_text())["job"]
    (tmp_path / "job.yaml").write_text(yaml.safe_dump({"penstock": "job"} | job))
    done = subprocess.run([str(PENSTOCK), "profile", "job.yaml", "--quick", "-o", "profile.json"],
                          cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "profile.json").read_text())["penstock"] == "profile"


def test_a_parameter_without_values_is_refused_with_the_reason(tmp_path):
    (tmp_path / "net.py").write_text(
        "import torch\nfrom torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.weight = nn.Parameter(torch.empty(4, 4))\n"
        "    def forward(self, x):\n        return x @ self.weight\n"
        "def model():\n    return Net()\n"
        "def example_inputs():\n    return (torch.randn(4, 4),)\n")
    model = tmp_path / "net.pt2"
    assert export_model.main([str(tmp_path / "net.py"), "-o", str(model), "--meta"]) == 0
    save_file({"x": torch.zeros(4, 4), "target": torch.zeros(4, dtype=torch.int64)},
              tmp_path / "data.safetensors")
    done = execute(write_plan(tmp_path, model, tmp_path / "data.safetensors", [""], 1, 4))
    assert done.returncode == 2
    assert "`weight`" in done.stderr and "gives it no values" in done.stderr
    assert "--meta" in done.stderr
