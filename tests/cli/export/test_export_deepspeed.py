"""penstock export --format deepspeed: DeepSpeed's PipelineModule takes layers and parts, and trains
the same step."""

import csv
import json
import subprocess
import sys

import pytest

import tokens
from exporting import export, require_package, run_cases
from pipelines import (ROOT, Reference, difference, load_file, model_path, save_file, torch,
                       vectors, write_plan)

require_package("deepspeed")

LAYERS = [["layer0"], ["layer1"], ["layer2"], ["output_proj"]]
TOKEN_LAYERS = [["embedding"], ["hidden"], ["output_proj"]]
SCHEDULES = [(2, 4), (4, 8), (4, 4), (4, 2), (3, 1)]  # stages, microbatches
# A network's layers, where stages begin, their bounds among the layers, and whether they recompute.
CASES = {"plain": (LAYERS, ["", "layer1"], [0, 1, 4], False),
         "recomputed": (LAYERS, ["", "output_proj"], [0, 3, 4], True),
         "recomputed tokens": (TOKEN_LAYERS, ["", "output_proj"], [0, 2, 3], True)}


def network(layers, folder):
    """Its name, its export, and data for it."""
    if layers is LAYERS:
        data = vectors(folder, "x", 32, torch.float64, samples=8)
        return "pippy", model_path("pippy-f64"), data
    model, data = folder / "tokens.pt2", folder / "data.safetensors"
    subprocess.run([sys.executable, ROOT / "tools" / "export_model.py", tokens.__file__,
                    "--dtype", "float64", "-o", model], check=True, capture_output=True)
    save_file({"x": torch.arange(8) * 3 % tokens.VOCABULARY, "target": torch.arange(8)}, data)
    return "tokens", model, data


@pytest.fixture(scope="module")
def deepspeed_folder(tmp_path_factory):
    root, cases = tmp_path_factory.mktemp("deepspeed"), []
    for name, (layers, begins, _, recompute) in CASES.items():
        folder = root / name
        folder.mkdir()
        made, model, data = network(layers, folder)
        plan = write_plan(folder, model, data, begins, 4, 2)
        if recompute:
            plan.write_text(plan.read_text().replace("rank:", "recompute: true\n  rank:"))
        done = export(plan, "deepspeed", folder / "deepspeed.json")
        assert done.returncode == 0, done.stderr
        cases.append({"plan": str(folder / "deepspeed.json"), "network": made,
                      "model": str(model), "data": str(data), "folder": str(folder)})
    return run_cases(root, "deepspeed_runtime.py", {"train": cases, "schedules": SCHEDULES,
                                                 "orders": str(root / "orders.json")})


@pytest.mark.parametrize("case", CASES)
def test_deepspeed_gives_each_rank_the_layers_that_the_plan_has(deepspeed_folder, case):
    wanted, begins, parts, _ = CASES[case]
    ranks = [json.loads((deepspeed_folder / case / f"rank-{rank}.json").read_text())
             for rank in range(2)]
    assert [rank["parts"] for rank in ranks] == [parts, parts]
    layers = json.loads((deepspeed_folder / case / "deepspeed.json").read_text())["layers"]
    assert layers == wanted and layers[parts[1]] == begins[1:]
    assert [rank["layers"] for rank in ranks] == [list(range(parts[0], parts[1])),
                                                  list(range(parts[1], parts[2]))]


@pytest.mark.parametrize("case", CASES)
def test_deepspeed_trains_the_same_step_as_the_unsplit_model(deepspeed_folder, case):
    folder = deepspeed_folder / case
    reference = Reference(folder / "plan.yaml")
    loss = reference.backward(0)
    theirs = (load_file(folder / "gradients-0.safetensors")
              | load_file(folder / "gradients-1.safetensors"))
    # float32 against float64: a gradient goes through sums of 32, 32, 48 and 24 products forwards,
    # as many backwards and 8 samples, and four layers of weights twice: 288 roundings of at most
    # 2^-24
    bound = 288 * 2**-24
    trained = json.loads((folder / "rank-1.json").read_text())["loss"]
    assert trained == pytest.approx(loss, rel=bound)
    assert difference(theirs, {name: p.grad for name, p in reference.parameters.items()}) <= bound


@pytest.mark.parametrize("number", range(len(SCHEDULES)), ids=str)
def test_deepspeed_runs_the_schedule_of_the_plan(deepspeed_folder, tmp_path, number):
    stages, microbatches = SCHEDULES[number]
    data = vectors(tmp_path, "x", 32, torch.float64, samples=8)
    begins = ["", *(layer[0] for layer in LAYERS[1:stages])]
    plan = write_plan(tmp_path, model_path("pippy-f64"), data, begins, microbatches, 1)
    assert export(plan, "deepspeed", tmp_path / "deepspeed.json").returncode == 0
    assert export(plan, "torch-csv", tmp_path / "schedule.csv").returncode == 0
    ours = [[cell for cell in row if cell]
            for row in csv.reader((tmp_path / "schedule.csv").open())]
    assert ours == json.loads((deepspeed_folder / "orders.json").read_text())[number]
