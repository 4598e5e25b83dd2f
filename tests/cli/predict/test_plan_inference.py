"""`plan --forward-only` and `simulate --forward-only`: inference, from a profile of training."""

import json

import pytest
import yaml

from planning import PENSTOCK, make_profile, plan, prediction, run


def simulated(path, *flags):
    done = run(PENSTOCK, "simulate", path, "--json", *flags)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_plan_for_inference_is_simulated_as_it_was_predicted(tmp_path):
    profile = make_profile(tmp_path, "transformer-text")
    done = plan(tmp_path, profile, "--forward-only", "--data-parallel", 1)
    assert done.returncode == 0, done.stderr
    assert "forwards alone" in done.stdout and "backward" not in done.stdout
    path = tmp_path / "plan.yaml"
    content = yaml.safe_load(path.read_text())
    assert content["forward_only"] is True and content["job"]["optimizer"]
    found = simulated(path)
    assert found["step_s"] == float(prediction(path, "step_s"))
    assert found["samples_per_s"] == pytest.approx(8 / found["step_s"], rel=1e-12)
    text = run(PENSTOCK, "simulate", path).stdout
    assert "inference  8 samples after " in text and "samples/s" in text


def test_a_plan_of_training_is_simulated_for_inference(tmp_path):
    """As the plan for inference with the same stages, whose schedule has the same forwards."""
    profile = make_profile(tmp_path, "pippy")
    split = ["--split", "layer1:beginning", "--microbatches", 4]
    assert plan(tmp_path, profile, *split, "--schedule", "1f1b").returncode == 0
    done = plan(tmp_path, profile, *split, "--forward-only", output="inference.yaml")
    assert done.returncode == 0, done.stderr
    training = simulated(tmp_path / "plan.yaml")
    turned = simulated(tmp_path / "plan.yaml", "--forward-only")
    made = simulated(tmp_path / "inference.yaml")
    for key in ("step_s", "samples_per_s", "peak_memory_bytes", "actions"):
        assert turned[key] == made[key]
    assert "samples_per_s" not in training and training["step_s"] > turned["step_s"]
    for less, more in zip(turned["peak_memory_bytes"], training["peak_memory_bytes"], strict=True):
        assert less < more


def test_a_plan_for_inference_is_shown_and_not_exported_to_what_trains(tmp_path):
    assert plan(tmp_path, make_profile(tmp_path, "pippy"), "--forward-only").returncode == 0
    shown = run(PENSTOCK, "show", tmp_path / "plan.yaml").stdout
    assert "forwards alone" in shown and "  backward  busy" not in shown
    export = [PENSTOCK, "export", tmp_path / "plan.yaml", "-o", tmp_path / "out", "--format"]
    done = run(*export, "torch-csv")
    assert done.returncode == 2
    assert "is a plan for inference, and torch-csv is of training" in done.stderr
    assert run(*export, "state-dict").returncode == 0 and (tmp_path / "out").exists()


def test_a_sweep_is_of_inference_too(tmp_path):
    profile = make_profile(tmp_path, "pippy")
    done = run(PENSTOCK, "plan", profile, "--forward-only", "--sweep", "ranks=1,2", "--json")
    assert done.returncode == 0, done.stderr
    steps = [row["step_s"] for row in json.loads(done.stdout)["rows"]]
    assert plan(tmp_path, profile, "--forward-only", "--ranks", 2).returncode == 0
    assert steps[1] == float(prediction(tmp_path / "plan.yaml", "step_s"))
    assert steps[1] < steps[0]


@pytest.mark.parametrize("command, says", [
    (["plan", "PROFILE", "--forward-only", "--schedule", "adaptive", "-o", "p.yaml"],
     "--schedule: adaptive finds places for backwards"),
    (["simulate", "--schedule", "gpipe", "--ranks", 2, "--microbatches", 2, "--forward", "1ms",
      "--backward", "2ms", "--forward-only"], "--forward-only: is for plans"),
])
def test_mistakes_have_a_cure(tmp_path, command, says):
    profile = make_profile(tmp_path, "pippy")
    done = run(PENSTOCK, *[profile if word == "PROFILE" else word for word in command],
               cwd=tmp_path)
    assert done.returncode == 2 and says in done.stderr
    assert not (tmp_path / "p.yaml").exists()


def test_a_table_of_layers_is_planned_for_inference(tmp_path):
    """What each layer holds of gradients and optimizer state is not known, and stays."""
    table = tmp_path / "layers.yaml"
    table.write_text("penstock: layers\nglobal_batch: 8\nmicrobatch: 1\nlayers:\n" + "".join(
        f"  - {{name: l{i}, forward: 1ms, backward: 2ms, output: 1MB, saved: 4MB, static: 16MB}}\n"
        for i in range(6)))
    # Three layers a rank, the second of which begins so much later: with stages of three layers,
    # or of one that loop over the ranks.
    for flags, later_s in ((["--schedule", "gpipe"], 3e-3), ([], 1e-3)):
        done = run(PENSTOCK, "plan", table, "--forward-only", "--ranks", 2, "--fastest", *flags,
                   "-o", tmp_path / "p.yaml")
        assert done.returncode == 0, done.stderr
        assert simulated(tmp_path / "p.yaml")["step_s"] == pytest.approx(8 * 3e-3 + later_s)
