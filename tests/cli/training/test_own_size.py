"""The networks that people meet first, at the size that they meet them in, train as in PyTorch: the
transformer of PyTorch's pipelining tutorial, the unrolled loop of PiPPy, the classifier of OneFlow.

The transformer takes some 1 TFLOP a step.
"""

import pytest

from pipelines import (ROOT, Reference, assert_trains_as, needs_backend, save_file, subprocess, sys,
                       torch, write_plan)
from trainings import FLOAT32, Source

pytestmark = [pytest.mark.long, needs_backend]


def exported(folder, name, *settings):
    """The file, and the module that it was exported from, with other weights."""
    file, path = ROOT / "configs" / "models" / f"{name}.py", folder / f"{name}.pt2"
    flags = [part for setting in settings for part in ("--set", setting)]
    subprocess.run([sys.executable, ROOT / "tools" / "export_model.py", file, "-o", path, *flags],
                   check=True, capture_output=True, timeout=500)
    source = Source.load(str(file), settings)
    return path, source.call(source.model)


def test_the_tutorials_transformer(tmp_path):
    """8 layers 512 wide, 10,000 words, sequences of 500 words, 8 of them at a time; without its
    dropout, for random numbers are not PyTorch's."""
    path, module = exported(tmp_path, "transformer", "sequence=500", "dropout=0")
    words = torch.randint(10000, (2, 8, 500), generator=torch.Generator().manual_seed(1))
    data = tmp_path / "data.safetensors"
    save_file({"tokens": words[0], "target": words[1]}, data)
    plan = write_plan(tmp_path, path, data, ["", "layers.4"], 4, 2, schedule="1f1b")
    assert_trains_as(Reference(plan, module), plan, 1, FLOAT32)


def test_pippys_unrolled_loop(tmp_path):
    path, module = exported(tmp_path, "iterative")
    data = tmp_path / "data.safetensors"
    save_file({"x": torch.randn(64, 512), "target": torch.randn(64, 10)}, data)
    plan = write_plan(tmp_path, path, data, ["", "iter_block@1", "iter_block@2", "output_proj"], 4,
                      8, loss="mse")
    assert_trains_as(Reference(plan, module), plan, 3, FLOAT32)


def test_oneflows_classifier(tmp_path):
    path, module = exported(tmp_path, "image_classifier")
    data = tmp_path / "data.safetensors"
    save_file({"image": torch.randn(64, 1, 28, 28), "target": torch.randint(10, (64,))}, data)
    plan = write_plan(tmp_path, path, data, ["", "stage1"], 2, 8,
                      optimizer={"kind": "sgd", "learning_rate": 0.001})
    assert_trains_as(Reference(plan, module), plan, 3, FLOAT32)
