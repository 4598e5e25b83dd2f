"""A model larger than the memory that any of its processes may have: exported, trained, saved, and
run forward, from its modules' initialisation, from a checkpoint and from shards."""

import json
import resource
import subprocess
import sys

import pytest
from safetensors import safe_open

from pipelines import (PENSTOCK, ROOT, clean_environment, load_file, needs_backend, save_file,
                       torch, vectors, write_plan)

WIDTH, LAYERS = 4096, 16
MODEL_BYTES = LAYERS * WIDTH * WIDTH * 4  # 1 GiB of float32
# Of private memory that can be written, by process: less than the parameters alone. A quarter of
# them with its gradients takes half of it.
LIMIT_BYTES = MODEL_BYTES * 15 // 16

NET = f"""
import torch
from torch import nn

def model():
    return nn.Sequential(*[nn.Linear({WIDTH}, {WIDTH}, bias=False) for _ in range({LAYERS})])

def example_inputs():
    return (torch.zeros(4, {WIDTH}),)
"""


def limited(*command):
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=600,
        env=clean_environment() | {"OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (LIMIT_BYTES, LIMIT_BYTES)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("limited")
    (folder / "net.py").write_text(NET)
    done = limited(sys.executable, ROOT / "tools" / "export_model.py", folder / "net.py", "--meta",
                   "-o", folder / "net.pt2")
    assert done.returncode == 0, done.stderr
    return folder


def run(folder, stages, *options, steps=1):
    begins = ["", *(str(LAYERS // stages * i) for i in range(1, stages))]
    data = vectors(folder, "input", WIDTH, torch.float32, samples=8, classes=WIDTH)
    plan = write_plan(folder, folder / "net.pt2", data, begins, 2, 4, name=f"{stages}.yaml")
    return limited(PENSTOCK, "execute", plan, "--steps", steps, *options)


def forward(folder, *options):
    """The outputs of the first batch over four ranks."""
    output = folder / "outputs.safetensors"
    done = run(folder, 4, "--forward-only", "--output", output, *options)
    assert done.returncode == 0, done.stderr
    return load_file(output)


@pytest.fixture(scope="module")
def trained(folder):
    done = run(folder, 4, "--save", folder / "saved")
    assert done.returncode == 0, done.stderr
    return folder / "saved"


@pytest.fixture(scope="module")
def shards(folder, trained):
    """The trained weights as a hub has them: a file for every four layers, and their index."""
    single = folder / "weights.safetensors"
    done = limited(PENSTOCK, "export", folder / "4.yaml", "--format", "state-dict", "--checkpoint",
                   trained, "-o", single)
    assert done.returncode == 0, done.stderr
    hub, places = folder / "hub", {}
    hub.mkdir()
    with safe_open(single, "pt") as file:
        names = sorted(file.keys())
        for first in range(0, LAYERS, 4):
            shard = f"model-{first}.safetensors"
            part = names[first:first + 4]
            save_file({name: file.get_tensor(name) for name in part}, hub / shard)
            places |= dict.fromkeys(part, shard)
    single.unlink()
    (hub / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    return hub


@needs_backend
def test_a_model_that_no_rank_could_hold_is_trained_and_saved_over_four(trained):
    saved = list((trained / "step-1").glob("stage-*.safetensors"))
    assert sum(file.stat().st_size for file in saved) > MODEL_BYTES


@needs_backend
def test_its_shards_are_trained_further_as_its_checkpoint_is(folder, trained, shards):
    """Each rank reads its own slice of them; plain SGD has no state, and both take one batch."""
    runs = [run(folder, 4, "--json", "--resume", trained, steps=2),
            run(folder, 4, "--json", "--weights", shards)]
    assert all(done.returncode == 0 for done in runs), [done.stderr for done in runs]
    resumed, given = (json.loads(done.stdout)["losses"] for done in runs)
    assert len(given) == 1 and given == resumed


@needs_backend
def test_it_is_run_forward_from_each_source_of_weights(folder, trained, shards):
    initial, resumed, given = (forward(folder), forward(folder, "--resume", trained),
                               forward(folder, "--weights", shards))
    assert all(torch.equal(value, given[name]) for name, value in resumed.items())
    assert not any(torch.equal(value, given[name]) for name, value in initial.items())


@needs_backend
@pytest.mark.parametrize("options", [[], ["--forward-only", "--output", "/dev/null"]],
                         ids=["trained", "forward"])
def test_a_rank_that_holds_all_of_it_has_not_the_memory(folder, options):
    done = run(folder, 1, *options)
    assert done.returncode == 1
    assert "memory" in done.stderr
