"""Tensor groups planned from estimates and from measurements: plans are simulated as they were
planned, run, train what the undivided model trains, and their traces compare."""

import json
import re

import pytest
import yaml

from pipelines import execute_json, model_path, needs_backend
from planning import PENSTOCK, ROOT
from planning import run as run_command

pytestmark = needs_backend

XEON, H100 = (ROOT / "configs" / "devices" / f"{name}.yaml" for name in ("xeon_core", "h100"))
NODE = ROOT / "configs" / "clusters" / "h100_node.yaml"
GPT2 = {"parameters": {"*.c_attn.weight": {"split": 1, "blocks": 3},
                       "*.attn.c_proj.weight": {"split": 0}, "*.c_fc.weight": {"split": 1},
                       "*.mlp.c_proj.weight": {"split": 0}},
        "values": {"transformer.h.?": {"split": 1}}}


def run(*words, status=0):
    done = run_command(PENSTOCK, *words)
    assert done.returncode == status, done.stderr
    return done


def pins_of(folder):
    """The job, and a plan that has the pins alone."""
    model = model_path("gpt2")
    job = {"model": str(model), "data": str(model.with_name("gpt2.data.safetensors")), "steps": 3,
           "loss": "cross_entropy", "optimizer": {"kind": "adamw", "learning_rate": 0.01},
           "global_batch": 16}
    (folder / "job.yaml").write_text(yaml.safe_dump({"penstock": "job", **job}))
    plan = {"penstock": "plan", "version": 1, "job": job, "schedule": "1f1b", "microbatches": 4,
            "microbatch": 4, "tensor_parallel": 2, "sharding": GPT2,
            "stages": [{"rank": 0, "begin": ""}]}
    (folder / "pins.yaml").write_text(yaml.safe_dump(plan, sort_keys=False))
    return folder / "job.yaml", folder / "pins.yaml"


def profiled(folder, spec=XEON):
    job, pins = pins_of(folder)
    profile = folder / f"{spec.stem}.json"
    run("profile", job, "--device", "estimate", "--spec", spec, "--tensor-parallel", "4,2",
        "--sharding", pins, "-o", profile)
    return profile


def planned(folder, profile, *options):
    run("plan", profile, "-o", folder / "plan.yaml", *options)
    return folder / "plan.yaml", yaml.safe_load((folder / "plan.yaml").read_text())


def layouts(report):
    return int(re.search(r"(\d+) layouts", report).group(1))


def simulated(plan, *options):
    return json.loads(run("simulate", plan, "--json", *options).stdout)


def test_a_plan_is_simulated_as_planned_runs_and_compares(tmp_path):
    profile = profiled(tmp_path)
    path, plan = planned(tmp_path, profile, "--tensor-parallel", 2, "--ranks", 4,
                         "--split", "transformer.h.1:beginning", "--schedule", "1f1b")
    assert plan["tensor_parallel"] == 2 and plan["sharding"] == GPT2
    assert len({stage["rank"] for stage in plan["stages"]}) == 2
    predicted, measured = tmp_path / "predicted.json", tmp_path / "measured.json"
    simulation = simulated(path, "--trace", predicted)
    assert simulation["step_s"] == plan["prediction"]["step_s"]
    assert simulation["peak_memory_bytes"] == plan["prediction"]["peak_memory_bytes"]
    ran = execute_json(path, "--trace", measured)
    whole, _ = planned(tmp_path, profile, "--tensor-parallel", 1, "--ranks", 1, "--microbatches",
                       plan["microbatches"])
    assert ran["losses"] == pytest.approx(execute_json(whole)["losses"], rel=1e-5)
    assert len(ran["predicted_peak_memory_bytes"]) == len(ran["peak_memory_bytes"]) == 4
    compared = json.loads(run("compare", predicted, measured, "--json").stdout)
    assert len(compared["ranks"]) == 4


def test_a_plan_that_transmits_is_simulated_as_planned_and_runs(tmp_path):
    profile = profiled(tmp_path)
    options = ("--tensor-parallel", 2, "--ranks", 4, "--split", "transformer.h.1:beginning",
               "--schedule", "1f1b", "--shared-parameters")
    losses, peaks = [], []
    for way in ("replicate", "transmit"):
        path, plan = planned(tmp_path, profile, *options, way)
        assert plan["shared_parameters"] == {"transformer.wte.weight": way}
        simulation = simulated(path)
        assert simulation["step_s"] == plan["prediction"]["step_s"]
        assert simulation["peak_memory_bytes"] == plan["prediction"]["peak_memory_bytes"]
        losses.append(execute_json(path)["losses"])
        peaks.append(simulation["peak_memory_bytes"])
    assert losses[1] == losses[0]
    assert peaks[1][1] < peaks[0][1]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A quick profile of groups with the pins, and what it printed."""
    folder = tmp_path_factory.mktemp("measured")
    job, pins = pins_of(folder)
    done = run("profile", job, "--quick", "--budget", "0s", "--tensor-parallel", "2,2",
               "--sharding", pins, "-o", folder / "profile.json")
    return folder / "profile.json", done.stdout


def test_parts_are_measured_at_the_sizes_of_the_model(measured):
    profile = json.loads(measured[0].read_text())
    sizes = [size["microbatch"] for size in profile["microbatches"]]
    measurements = [(group["tensor_parallel"], size) for group in profile["groups"]
                    for size in group["microbatches"]]
    found = [(parts, size["microbatch"]) for parts, size in measurements]
    assert found == [(2, size) for size in sizes]
    for _, size in measurements:
        targets = {op["target"] for op in size["operators"]}
        assert {"penstock::all_gather", "penstock::reduce_scatter"} <= targets
    first = profile["groups"][0]["sharding"]["parameters"][0]
    assert first == {"*.c_attn.weight": {"split": 1, "blocks": 3}}
    rows = re.findall(r"^ *(\d+) +(\d+) +\S+ [mun]?s", measured[1], re.MULTILINE)
    assert rows == [(str(parts), str(size)) for parts in (1, 2) for size in sizes]


def test_a_plan_of_measured_parts_runs_beside_its_prediction(tmp_path, measured):
    path, plan = planned(tmp_path, measured[0], "--tensor-parallel", 2, "--ranks", 4,
                         "--split", "transformer.h.1:beginning", "--schedule", "1f1b")
    assert plan["tensor_parallel"] == 2 and plan["sharding"] == GPT2
    simulation = simulated(path)
    assert simulation["step_s"] == plan["prediction"]["step_s"]
    ran = execute_json(path)
    print(f"a step was predicted to take {ran['predicted_step_s'] * 1e3:.2f} ms and took "
          f"{ran['measured_step_s'] * 1e3:.2f} ms")
    assert ran["predicted_step_s"] == pytest.approx(simulation["step_s"], rel=1e-9)
    assert ran["predicted_peak_memory_bytes"] == [peak for peak in simulation["peak_memory_bytes"]
                                                  for _ in range(2)]


def test_a_node_decides_whether_auto_tries_groups(tmp_path):
    profile = profiled(tmp_path, H100)
    without = run("plan", profile, "-o", tmp_path / "plan.yaml", "--ranks", 8, "--verbose").stdout
    report = run("plan", profile, "-o", tmp_path / "plan.yaml", "--cluster", NODE,
                 "--verbose").stdout
    assert layouts(report) > layouts(without)  # no cluster: nothing says what is in reach
    _, plan = planned(tmp_path, profile, "--cluster", NODE)
    best = plan["prediction"]["step_s"]
    for parts in (1, 2, 4):
        _, fixed = planned(tmp_path, profile, "--cluster", NODE, "--tensor-parallel", parts)
        assert fixed.get("tensor_parallel", 1) == parts
        assert fixed["prediction"]["step_s"] >= best * 0.99  # simpler plans may be that slower


def refusal(*arguments):
    return run(*arguments, status=2).stderr


def test_what_is_not_known_is_refused(tmp_path):
    profile = profiled(tmp_path)
    job, pins = pins_of(tmp_path)
    out = tmp_path / "out"
    words = refusal("plan", profile, "--tensor-parallel", 8, "--ranks", 8, "-o", out)
    assert "knows nothing of tensor groups of 8" in words and "--tensor-parallel 8" in words
    assert "`two` is no number" in refusal("plan", profile, "--tensor-parallel", "two", "-o", out)
    assert "none are asked for" in refusal("profile", job, "--sharding", pins, "-o", out)
    assert "--quick" in refusal("profile", job, "--device", "estimate", "--spec", XEON, "--quick",
                                "--tensor-parallel", 2, "-o", out)
    path, plan = planned(tmp_path, profile, "--tensor-parallel", 2, "--ranks", 2)
    plan["sharding"]["values"] = {}
    path.write_text(yaml.safe_dump(plan, sort_keys=False))
    words = refusal("simulate", path)
    assert "with the plan's `sharding`" in words and "--sharding PLAN.yaml" in words
    assert not out.exists()
