"""The scripts of configs/python train, from the export to the last step."""

import importlib.util

import pytest

from feeding import launchers  # noqa: F401, sets the paths
from pipelines import ROOT, needs_backend, torch

pytestmark = needs_backend


def load(name):
    path = ROOT / "configs" / "python" / f"{name}.py"
    specification = importlib.util.spec_from_file_location(f"script_{name}", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_pippys_network_and_loop(tmp_path):
    results = load("pippy").main(tmp_path, steps=32)
    for losses in results.values():
        assert len(losses) == 32 and losses[-1] < 0.7 * losses[0]


def test_the_tutorials_transformer(tmp_path):
    settings = {"layers": 2, "heads": 2, "dim": 32, "vocabulary": 100, "sequence": 16}
    losses = load("tutorial").main(tmp_path, steps=6, settings=settings)
    assert losses[-1] < losses[0]


def test_oneflows_classifier_goes_on_from_its_checkpoint(tmp_path):
    script = load("classifier")
    first, _ = script.main(tmp_path, epochs=2)
    then, model = script.main(tmp_path, epochs=1)
    assert then[0][0] < first[1][0] < first[0][0]
    image, label = script.pictures(256, 2).tensors
    right = (model(image).argmax(1) == label).float().mean().item()
    assert right == pytest.approx(then[0][2], abs=1e-6) and torch.is_tensor(label)
