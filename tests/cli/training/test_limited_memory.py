"""A model larger than the memory that any of its processes may have: exported, trained, saved."""

import resource
import subprocess
import sys

import pytest
from pipelines import (PENSTOCK, ROOT, clean_environment, needs_backend, torch, vectors,
                       write_plan)

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


def train(folder, stages):
    begins = ["", *(str(LAYERS // stages * i) for i in range(1, stages))]
    data = vectors(folder, "input", WIDTH, torch.float32, samples=8, classes=WIDTH)
    plan = write_plan(folder, folder / "net.pt2", data, begins, 2, 4, name=f"{stages}.yaml")
    return limited(PENSTOCK, "execute", plan, "--steps", 1, "--save", folder / f"saved-{stages}")


@needs_backend
def test_a_model_that_no_rank_could_hold_is_trained_and_saved_over_four(folder):
    done = train(folder, 4)
    assert done.returncode == 0, done.stderr
    saved = list((folder / "saved-4" / "step-1").glob("stage-*.safetensors"))
    assert sum(file.stat().st_size for file in saved) > MODEL_BYTES


@needs_backend
def test_a_rank_that_holds_all_of_it_has_not_the_memory(folder):
    done = train(folder, 1)
    assert done.returncode == 1
    assert "memory" in done.stderr
