"""What the tests of `penstock execute` share: plans, data, runs, and the same training in plain PyTorch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

torch = pytest.importorskip("torch")
from safetensors.torch import load_file, save_file  # noqa: E402: needs torch

ROOT = Path(__file__).parents[2]
BUILD = Path(os.environ.get("PENSTOCK_BUILD", ROOT / "build"))
PENSTOCK = BUILD / "penstock"
MODELS = Path(os.environ.get("PENSTOCK_TEST_MODELS", BUILD / "tests" / "models"))
TORCHRUN = Path(sys.executable).with_name("torchrun")

needs_backend = pytest.mark.skipif(not (BUILD / "penstock-worker").exists(),
                                   reason="penstock-worker is not built: no LibTorch")


def model_path(name):
    path = MODELS / f"{name}.pt2"
    if not path.exists():
        pytest.skip(f"{path} is missing: the tests export it with torch from .venv")
    return path


def vectors(folder, name, features, dtype, samples=64, classes=10, shape=None):
    """Random samples with classes as targets; returns the file."""
    generator = torch.Generator().manual_seed(11)
    data = {name: torch.randn(samples, *(shape or [features]), generator=generator, dtype=dtype),
            "target": torch.randint(classes, (samples,), generator=generator)}
    save_file(data, folder / "data.safetensors")
    return folder / "data.safetensors"


def text_file(folder, letters=64, size=4000):
    """Text in which the next letter can be learnt."""
    state, content = 1, bytearray()
    for i in range(size):
        state = (state * 5 + 3 + (i % 7 == 0)) % letters
        content.append(state)
    (folder / "text.txt").write_bytes(content)
    return folder / "text.txt"


def write_plan(folder, model, data, begins, microbatches, microbatch, schedule="1f1b", name="plan.yaml",
               optimizer=None, sequence=None, steps=3, loss="cross_entropy", seed=0, ranks=None, **more):
    job = {"model": str(model), "loss": loss, "data": str(data), "steps": steps, "seed": seed,
           "global_batch": microbatches * microbatch * more.get("data_parallel", 1),
           "optimizer": optimizer or {"kind": "sgd", "learning_rate": 0.05}}
    if sequence:
        job["sequence"] = sequence
    plan = {"penstock": "plan", "version": 1, "job": job, "schedule": schedule, "microbatches": microbatches,
            "microbatch": microbatch,
            "stages": [{"rank": rank, "begin": begin} for rank, begin in zip(ranks or range(len(begins)), begins)],
            **more}
    path = folder / name
    path.write_text(yaml.safe_dump(plan, sort_keys=False))
    return path


def clean_environment():
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    return {key: value for key, value in os.environ.items() if key not in names}


def execute(plan, *options, timeout=300):
    return subprocess.run([str(PENSTOCK), "execute", str(plan), *map(str, options)], capture_output=True,
                          text=True, errors="replace", timeout=timeout, env=clean_environment())


def execute_json(plan, *options):
    done = execute(plan, "--json", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Reference:
    """The model of a .pt2 trained by PyTorch, one microbatch after the other."""

    def __init__(self, plan):
        self.plan = yaml.safe_load(Path(plan).read_text())
        self.job = self.plan["job"]
        program = torch.export.load(self.job["model"])
        self.names = program.graph_signature.user_inputs
        self.module = program.module()
        self.parameters = dict(self.module.named_parameters())
        self.inputs = self._data()

    def _data(self):
        path = Path(self.job["data"])
        if path.suffix == ".safetensors":
            data = load_file(path)
            return {"target": data.pop("target", None), "inputs": data}
        tokens = torch.tensor(np.frombuffer(path.read_bytes(), dtype=np.uint8), dtype=torch.int64)
        length = self.job["sequence"]
        samples = (len(tokens) - 1) // length
        return {"inputs": {self.names[0]: tokens[:samples * length].view(samples, length)},
                "target": tokens[1:samples * length + 1].view(samples, length)}

    def microbatch(self, step, index):
        size = self.plan["microbatch"]
        first = step * self.job["global_batch"] + index * size
        samples = len(self.inputs["inputs"][self.names[0]])
        rows = [(first + k) % samples for k in range(size)]
        target = self.inputs["target"]
        return {name: tensor[rows] for name, tensor in self.inputs["inputs"].items()}, target[rows]

    def loss(self, output, target):
        if self.job["loss"] == "mse":
            return torch.nn.functional.mse_loss(output, target)
        return torch.nn.functional.cross_entropy(output.flatten(0, -2), target.flatten())

    def backward(self, step):
        """Accumulates the gradients of one step and returns its loss."""
        count = self.plan["microbatches"] * self.plan.get("data_parallel", 1)
        total = 0.0
        for index in range(count):
            inputs, target = self.microbatch(step, index)
            loss = self.loss(self.module(**inputs), target)
            (loss / count).backward()
            total += loss.item() / count
        return total

    def optimizer(self):
        settings = dict(self.job["optimizer"])
        kind = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[settings.pop("kind")]
        return kind(self.parameters.values(), lr=settings.pop("learning_rate"), **settings)

    def train(self, steps):
        """Losses of the steps, and the gradients of the first."""
        optimizer, losses, gradients = self.optimizer(), [], {}
        for step in range(steps):
            losses.append(self.backward(step))
            if step == 0:
                gradients = {name: p.grad.clone() for name, p in self.parameters.items() if p.grad is not None}
            optimizer.step()
            optimizer.zero_grad()
        return losses, gradients

    def outputs(self):
        with torch.no_grad():
            parts = [self.module(**self.microbatch(0, m)[0]) for m in range(self.plan["microbatches"])]
        return torch.cat(parts)


def difference(found, expected):
    """Largest |a - b| / max(|b|, 1e-5 x norm of all b), by Euclidean norm of each tensor."""
    norm = sum(tensor.double().norm() ** 2 for tensor in expected.values()) ** 0.5
    assert found.keys() == expected.keys()
    return max((float((found[name].double() - tensor.double()).norm() /
                      max(tensor.double().norm(), 1e-5 * norm))) for name, tensor in expected.items())


def good_plan(folder, **more):
    """The PiPPy network on two ranks."""
    return write_plan(folder, model_path("pippy"), vectors(folder, "x", 512, torch.float32), ["", "layer1"], 2, 4,
                      **more)
