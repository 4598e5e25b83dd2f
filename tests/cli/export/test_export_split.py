"""penstock export --format torch-split: torch cuts the original module there, and trains the same
step."""

import json

import pytest

from exporting import TRANSFORMERS, export, run_cases, tokens
from pipelines import Reference, difference, load_file, model_path, torch, vectors, write_plan

LOOP, V = [0, 1, 0, 1], [0, 1, 1, 0]
PIPPY = {"width": 32, "hidden": 48, "narrow": 24}  # as tests/models/export_all.py exports it
# Between blocks; between layers; in the middle of layers, where several values cross.
CASES = {"pippy-1f1b": ("pippy-f64", "1f1b", [0, 1], ["", "layer2"]),
         "pippy-zbv": ("pippy-f64", "zbv", V, ["", "layer1", "layer2", "output_proj"]),
         "text-1f1b": ("transformer-text-f64", "1f1b", [0, 1], ["", "layers.1"]),
         "transformer-interleaved": ("transformer-f64", "interleaved-1f1b", LOOP,
                                     ["", "layers.1", "layers.2.linear1", "norm"])}
MICROBATCHES = 4


@pytest.fixture(scope="module")
def torch_folder(tmp_path_factory):
    """A folder for each case with our plan, and the loss and gradients that torch got from its
    exports."""
    root, cases = tmp_path_factory.mktemp("split"), []
    for name, (model, schedule, ranks, begins) in CASES.items():
        folder = root / name
        folder.mkdir()
        text = model in TRANSFORMERS
        data = tokens(folder) if text else vectors(folder, "x", 32, torch.float64, samples=8)
        plan = write_plan(folder, model_path(model), data, begins, MICROBATCHES, 2, schedule,
                          ranks=ranks)
        for form, out in [("torch-split", "split.json"), ("torch-csv", "schedule.csv")]:
            done = export(plan, form, folder / out)
            assert done.returncode == 0, done.stderr
        assert list(json.loads((folder / "split.json").read_text())) == begins[1:]
        cases.append({"python": "transformer" if text else "pippy",
                      "settings": TRANSFORMERS.get(model, PIPPY),
                      "input": "tokens" if text else "x", "model": str(model_path(model)),
                      "split": str(folder / "split.json"), "schedule": str(folder / "schedule.csv"),
                      "data": str(data), "microbatches": MICROBATCHES, "folder": str(folder)})
    return run_cases(root, "split_runtime.py", cases)


@pytest.mark.parametrize("name", CASES)
def test_torch_splits_the_module_there_and_trains_as_unsplit(torch_folder, name):
    folder = torch_folder / name
    reference = Reference(folder / "plan.yaml")
    loss = reference.backward(0)
    # float64: sums in another order
    assert json.loads((folder / "loss.json").read_text()) == pytest.approx(loss, rel=1e-12)
    theirs = (load_file(folder / "gradients-0.safetensors")
              | load_file(folder / "gradients-1.safetensors"))
    expected = {name: p.grad for name, p in reference.parameters.items()}
    assert difference(theirs, expected) <= 1e-10
