"""What the tests of `penstock execute` share: plans, data, runs, and the same training in plain
PyTorch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

torch = pytest.importorskip("torch")
from safetensors.torch import load_file, save_file

ROOT = Path(__file__).parents[2]
BUILD = Path(os.environ.get("PENSTOCK_BUILD", ROOT / "build"))
PENSTOCK = BUILD / "penstock"
MODELS = Path(os.environ.get("PENSTOCK_TEST_MODELS", BUILD / "tests" / "models"))
TORCHRUN = Path(sys.executable).with_name("torchrun")
sys.path.insert(0, str(ROOT / "tests" / "models"))

from training import Training

# What `tools/test --gpu` runs these on; elsewhere it is the CPU.
DEVICE = os.environ.get("PENSTOCK_TEST_DEVICE", "cpu")
any_device = pytest.mark.any_device
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


def write_plan(folder, model, data, begins, microbatches, microbatch, schedule="1f1b",
               name="plan.yaml", optimizer=None, sequence=None, steps=3, loss="cross_entropy",
               seed=0, ranks=None, **more):
    job = {"model": str(model), "loss": loss, "data": str(data), "steps": steps, "seed": seed,
           "global_batch": microbatches * microbatch * more.get("data_parallel", 1),
           "optimizer": optimizer or {"kind": "sgd", "learning_rate": 0.05}}
    if sequence:
        job["sequence"] = sequence
    plan = {"penstock": "plan", "version": 1, "job": job, "schedule": schedule,
            "microbatches": microbatches, "microbatch": microbatch,
            "stages": [{"rank": rank, "begin" if isinstance(begin, str) else "modules": begin}
                       for rank, begin in zip(ranks or range(len(begins)), begins, strict=True)],
            **more}
    path = folder / name
    path.write_text(yaml.safe_dump(plan, sort_keys=False))
    return path


def clean_environment():
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    launchers = ("OMPI_", "PMI", "SLURM_", "MPI_LOCAL")
    return {key: value for key, value in os.environ.items() if key not in names
            and not key.startswith(launchers)}


def device_flags(plan, options=()):
    """All ranks on one GPU, where the tests run on one. There a peer that does not come is given up
    before the test."""
    device = options[options.index("--device") + 1] if "--device" in options else DEVICE
    waits = device == "cuda" and "--start-timeout" not in options
    flags = ["--start-timeout", "60s"] if waits else []
    if device == "cpu" or "--device" in options:
        return flags
    plan = yaml.safe_load(Path(plan).read_text())
    ranks = (plan.get("data_parallel", 1) * plan.get("tensor_parallel", 1) *
             (1 + max(stage["rank"] for stage in plan["stages"])))
    return ["--device", DEVICE, "--ranks-per-device", str(ranks), *flags]


def execute(plan, *options, timeout=None, program=PENSTOCK, stdout=subprocess.PIPE):
    """Ends after `timeout` seconds, which are fewer on a GPU, where a run may hang and a good one
    takes some ten."""
    flags = [*map(str, options), *device_flags(plan, options)]
    timeout = timeout or (120 if "cuda" in flags else 300)
    return subprocess.run([str(program), "execute", str(plan), *flags], stdout=stdout,
                          stderr=subprocess.PIPE, text=True, errors="replace", timeout=timeout,
                          env=clean_environment())


def execute_json(plan, *options, **how):
    done = execute(plan, "--json", *options, **how)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Reference(Training):
    """The model of a plan trained by PyTorch: as its .pt2 has it, or as the Python module that it
    came from."""

    def __init__(self, plan, module=None):
        plan = yaml.safe_load(Path(plan).read_text())
        job = plan["job"]
        program = torch.export.load(job["model"])
        if module is None:
            module = program.module()
        else:
            module.load_state_dict(program.state_dict)
        inputs, target = self._data(job, program.graph_signature.user_inputs)
        super().__init__(module, inputs, target, loss=job["loss"], optimizer=job["optimizer"],
                         microbatches=plan["microbatches"], microbatch=plan["microbatch"],
                         replicas=plan.get("data_parallel", 1))

    @staticmethod
    def _data(job, names):
        path = Path(job["data"])
        if path.suffix == ".safetensors":
            data = load_file(path)
            target = data.pop("target", None)
            return data, target
        tokens = torch.tensor(np.frombuffer(path.read_bytes(), dtype=np.uint8), dtype=torch.int64)
        length = job["sequence"]
        samples = (len(tokens) - 1) // length
        return ({names[0]: tokens[:samples * length].view(samples, length)},
                tokens[1:samples * length + 1].view(samples, length))

    def outputs(self):
        with torch.no_grad():
            parts = [self.module(**self.microbatch(0, m)[0]) for m in range(self.microbatches)]
        return torch.cat(parts)


def difference(found, expected):
    """Largest |a - b| / max(|b|, 1e-5 x norm of all b), by Euclidean norm of each tensor."""
    norm = sum(tensor.double().norm() ** 2 for tensor in expected.values()) ** 0.5
    assert found.keys() == expected.keys()
    return max((float((found[name].double() - tensor.double()).norm() /
                      max(tensor.double().norm(), 1e-5 * norm)))
               for name, tensor in expected.items())


def assert_trains_as(reference, plan, steps, tolerance):
    """Losses, the first gradients, and what is saved after the steps: parameters, and buffers that
    change."""
    folder = Path(plan).parent
    gradients, saved = folder / "gradients.safetensors", folder / "saved"
    before = {name: value.clone() for name, value in reference.buffers[0].items()}
    found = execute_json(plan, "--steps", steps, "--dump-gradients", gradients, "--save", saved)
    losses, expected = reference.train(steps)
    assert found["losses"] == pytest.approx(losses, rel=tolerance)
    assert difference(load_file(gradients), expected) <= tolerance
    tensors = {key: value for file in (saved / f"step-{steps}").glob("stage-*.safetensors")
               for key, value in load_file(file).items()
               if key.startswith(("parameter.", "buffer."))}
    wanted = {f"parameter.{name}": value.detach() for name, value in reference.parameters.items()
              if f"parameter.{name}" in tensors or value.grad is not None}
    wanted |= {f"buffer.{name}": value for name, value in reference.buffers[0].items()
               if f"buffer.{name}" in tensors or not value.equal(before[name])}
    assert difference(tensors, wanted) <= tolerance


def good_plan(folder, **more):
    """The PiPPy network on two ranks."""
    return write_plan(folder, model_path("pippy"), vectors(folder, "x", 512, torch.float32),
                      ["", "layer1"], 2, 4 // more.get("data_parallel", 1), **more)
