"""Files as torch.export.save writes them, without tools/export_model.py: they train as their
modules do in plain PyTorch.

Losses, the first gradients, and parameters and buffers after five steps, on two to four stages. The
reference is the Python module itself. Tolerance: that of tests/cli/execute/test_execute_models.py.
"""

import copy
import importlib
import sys

import pytest

from pipelines import ROOT, Reference, assert_trains_as, needs_backend, save_file, torch, write_plan

sys.path.insert(0, str(ROOT / "tests" / "models"))

pytestmark = needs_backend
FLOAT32 = 1e-5
STEPS = 5


def export_as_torch_does(folder, module, inputs):
    """Neither functional nor compared with anything."""
    shapes = {name: {0: torch.export.Dim("batch")} for name in inputs}
    path = folder / "model.pt2"
    torch.export.save(torch.export.export(module, (), inputs, dynamic_shapes=shapes), path)
    return path


def check(folder, name, begins, **settings):
    """Exports tests/models/NAME.py, trains it, and compares."""
    source = importlib.import_module(name)
    torch.manual_seed(5)
    module = source.model(**settings)
    parts = [source.example_inputs() for _ in range(6)]
    path = export_as_torch_does(folder, module, parts[0])
    data = {key: torch.cat([part[key] for part in parts]) for key in parts[0]}
    with torch.no_grad():
        classes = copy.deepcopy(module)(**data).shape[-1]
    save_file(data | {"target": torch.randint(classes, (24,))}, folder / "data.safetensors")
    plan = write_plan(folder, path, folder / "data.safetensors", begins, microbatches=4,
                      microbatch=3)
    assert_trains_as(Reference(plan, module), plan, STEPS, FLOAT32)


@pytest.mark.parametrize("begins", [["", "mix"], ["", "blocks.0", "blocks.1"],
                                    ["", "tanh", "mul_", "slice_9"]], ids=len)
def test_writes_to_activations_views_and_buffers_are_seen_by_later_stages(tmp_path, begins):
    check(tmp_path, "inplace", begins)


@pytest.mark.parametrize("begins", [["", "exact"], ["", "blocks.0.out", "blocks.1.out"]], ids=len)
def test_regions_of_autocast_cast_as_they_do_in_the_module_also_over_stages(tmp_path, begins):
    check(tmp_path, "autocast", begins)
