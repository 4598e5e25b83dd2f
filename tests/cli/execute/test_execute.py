"""penstock execute over real processes: equal to plain PyTorch.

Tolerances: losses and gradients relative 1e-5 in float32 and 1e-10 in float64 (as in the project's
promise), each gradient relative to its norm or to 1e-5 of the norm of all.
"""

import json
import re
import subprocess

import pytest
import yaml

from pipelines import (BUILD, PENSTOCK, Reference, any_device, difference, execute, execute_json,
                       load_file, model_path, needs_backend, text_file, torch, vectors, write_plan)

pytestmark = needs_backend
FLOAT32, FLOAT64 = 1e-5, 1e-10


def check_against_pytorch(plan, folder, tolerance, steps=3):
    gradients = folder / "gradients.safetensors"
    run = execute_json(plan, "--steps", steps, "--dump-gradients", gradients)
    losses, expected = Reference(plan).train(steps)
    assert run["losses"] == pytest.approx(losses, rel=tolerance)
    assert difference(load_file(gradients), expected) <= tolerance
    return run


@any_device
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize("name, tolerance",
                         [("transformer-f32", FLOAT32), ("transformer-f64", FLOAT64)])
def test_the_transformer_on_two_ranks(tmp_path, name, tolerance, schedule):
    plan = write_plan(tmp_path, model_path(name), text_file(tmp_path), ["", "layers.2"], 4, 2,
                      schedule, sequence=16)
    run = check_against_pytorch(plan, tmp_path, tolerance)
    assert len(run["peak_memory_bytes"]) == run["ranks"] == 2
    assert len(run["step_s"]) == 3 and all(s > 0 for s in run["step_s"])


def synthetic_profile(folder, model, batch, *sizes):
    profile = folder / "profile.json"
    program = BUILD / "tests" / "planner" / "synthetic-profile"
    subprocess.run([program, model, profile, *map(str, (batch, *sizes))], check=True)
    return profile


LOOP, V = [0, 1, 0, 1], [0, 1, 1, 0]


@any_device
@pytest.mark.parametrize("schedule, ranks", [
    ("looped-bfs", LOOP), ("interleaved-1f1b", LOOP), ("interleaved-zb", LOOP), ("zb-h1", [0, 1]),
    ("zb-h2", [0, 1]),
    ("zbv", V), ("dualpipev", V)])
def test_every_schedule_trains_the_transformer_as_pytorch(tmp_path, schedule, ranks):
    begins = ["", "layers.1", "layers.2", "layers.3"] if len(ranks) == 4 else ["", "layers.2"]
    plan = write_plan(tmp_path, model_path("transformer-f64"), text_file(tmp_path), begins, 4, 2,
                      schedule, sequence=16, ranks=ranks)
    check_against_pytorch(plan, tmp_path, FLOAT64)


LAYERS = ["", "layers.1", "layers.2", "layers.3"]
HALVES = [begin for layer, first in enumerate(LAYERS)
          for begin in (first, f"layers.{layer}.multihead_attn")]
LOOP_OF_FOUR, V_OF_FOUR = [0, 1, 2, 3, 0, 1, 2, 3], [0, 1, 2, 3, 3, 2, 1, 0]


@any_device
@pytest.mark.parametrize("schedule, ranks", [
    ("gpipe", None), ("1f1b", None), ("zb-h1", None), ("zb-h2", None), ("looped-bfs", LOOP_OF_FOUR),
    ("interleaved-1f1b", LOOP_OF_FOUR), ("interleaved-zb", LOOP_OF_FOUR), ("zbv", V_OF_FOUR),
    ("dualpipev", V_OF_FOUR), ("adaptive", LOOP_OF_FOUR)])
def test_every_schedule_trains_the_transformer_on_four_ranks_in_float32(tmp_path, schedule, ranks):
    """With 8 microbatches, which DualPipeV needs at least."""
    model, more = model_path("transformer-f32"), {}
    if schedule == "adaptive":
        more["profile"] = {"path": str(synthetic_profile(tmp_path, model, 8, 1))}
    plan = write_plan(tmp_path, model, text_file(tmp_path), HALVES if ranks else LAYERS, 8, 1,
                      schedule, sequence=16, ranks=ranks, **more)
    assert check_against_pytorch(plan, tmp_path, FLOAT32)["ranks"] == 4


@any_device
@pytest.mark.parametrize("schedule, ranks, recompute",
                         [("1f1b", [0, 1], [True] * 2), ("1f1b", [0, 1], [1, 1]),
                          ("zbv", V, [True] * 4), ("zbv", V, [1] * 4), ("zb-h1", [0, 1], [2, 2]),
                          ("1f1b", [0, 1], [["permute", "layers.0.linear1"], ["output"]]),
                          ("zb-h1", [0, 1], [["layers.1.norm2"], ["permute_4", "layers.3.norm3"]]),
                          ("zbv", V, [["layers.0.norm3"], ["layers.1"], ["layers.2.linear1"],
                                      ["permute_6", "norm"]])])
def test_stages_that_recompute_train_as_pytorch(tmp_path, schedule, ranks, recompute):
    begins = ["", "layers.1", "layers.2", "layers.3"] if len(ranks) == 4 else ["", "layers.2"]
    plan = write_plan(tmp_path, model_path("transformer-f64"), text_file(tmp_path), begins, 4, 2,
                      schedule, sequence=16, ranks=ranks)
    content = yaml.safe_load(plan.read_text())
    for stage, again in zip(content["stages"], recompute, strict=True):
        stage["recompute"] = again
    plan.write_text(yaml.safe_dump(content, sort_keys=False))
    check_against_pytorch(plan, tmp_path, FLOAT64)


def test_the_adaptive_schedule_is_made_from_the_profile_and_trains_as_pytorch(tmp_path):
    model = model_path("pippy-f64")
    profile = synthetic_profile(tmp_path, model, 8, 1, 2)
    arguments = [model, vectors(tmp_path, "x", 32, torch.float64),
                 ["", "layer1", "layer2", "output_proj"], 4, 2, "adaptive"]
    plan = write_plan(tmp_path, *arguments, ranks=LOOP, profile={"path": str(profile)})
    check_against_pytorch(plan, tmp_path, FLOAT64)
    simulated = subprocess.run([PENSTOCK, "simulate", plan, "--json"], capture_output=True,
                               text=True, check=True)
    named = plan.read_text()
    for other in ("looped-bfs", "interleaved-1f1b", "interleaved-zb"):
        plan.write_text(named.replace("schedule: adaptive", f"schedule: {other}"))
        done = subprocess.run([PENSTOCK, "simulate", plan, "--json"], capture_output=True,
                              text=True, check=True)
        assert json.loads(simulated.stdout)["step_s"] <= json.loads(done.stdout)["step_s"]
    blind = write_plan(tmp_path, *arguments, ranks=LOOP, name="blind.yaml")
    done = execute(blind)
    assert done.returncode == 2
    assert "blind.yaml" in done.stderr and "names no profile" in done.stderr


@any_device
@pytest.mark.parametrize("name, width, tolerance",
                         [("pippy", 512, FLOAT32), ("pippy-f64", 32, FLOAT64)])
def test_the_pippy_network_on_three_ranks(tmp_path, name, width, tolerance):
    dtype = torch.float64 if "f64" in name else torch.float32
    data = vectors(tmp_path, "x", width, dtype)
    plan = write_plan(tmp_path, model_path(name), data, ["", "layer1", "layer2"], 4, 8, "gpipe",
                      optimizer={"kind": "adamw", "learning_rate": 1e-3, "weight_decay": 0.1})
    check_against_pytorch(plan, tmp_path, tolerance)
    output = tmp_path / "out.safetensors"
    done = execute(plan, "--forward-only", "--output", output)
    assert done.returncode == 0, done.stderr
    (name, tensor), = load_file(output).items()
    assert tensor.shape == (32, 10)
    assert difference({name: tensor}, {name: Reference(plan).outputs()}) <= tolerance


@any_device
@pytest.mark.parametrize("name, tolerance", [("iterative", FLOAT32), ("iterative-f64", FLOAT64)])
def test_the_iterative_network_on_four_ranks_keeps_its_shared_weights_equal(
        tmp_path, name, tolerance):
    dtype = torch.float64 if "f64" in name else torch.float32
    data = vectors(tmp_path, "x", 32, dtype)
    plan = write_plan(tmp_path, model_path(name), data,
                      ["", "iter_block@1", "iter_block@2", "output_proj"], 4, 2,
                      shared_parameters={"iter_block.0.weight": "replicate",
                                         "iter_block.0.bias": "replicate"})
    check_against_pytorch(plan, tmp_path, tolerance)
    execute_json(plan, "--steps", 3, "--save", tmp_path / "saved")
    stages = [load_file(tmp_path / "saved" / "step-3" / f"stage-{i}.safetensors") for i in range(4)]
    shared = [name for name in stages[0] if name.startswith("parameter.iter_block")]
    assert len(shared) == 2
    for name in shared:
        assert all(torch.equal(stages[0][name], stages[i][name]) for i in (1, 2))
        assert name not in stages[3]


@any_device
def test_the_image_classifier_prints_twenty_losses(tmp_path):
    data = vectors(tmp_path, "image", None, torch.float32, shape=[1, 28, 28])
    plan = write_plan(tmp_path, model_path("image_classifier"), data, ["", "stage1"], 2, 8,
                      steps=20, optimizer={"kind": "sgd", "learning_rate": 0.001})
    done = execute(plan)
    assert done.returncode == 0, done.stderr
    printed = [float(x) for x in re.findall(r"^step +\d+/20 +loss (\S+)", done.stderr, re.M)]
    # printed with 6 digits
    assert printed == pytest.approx(Reference(plan).train(20)[0], rel=FLOAT32)
    assert "peak memory" in done.stdout


@pytest.mark.parametrize("optimizer", [
    {"kind": "sgd", "learning_rate": 0.1},
    {"kind": "sgd", "learning_rate": 0.1, "momentum": 0.9, "weight_decay": 0.01},
    {"kind": "adamw", "learning_rate": 0.01, "weight_decay": 0.1},
], ids=lambda o: "-".join(str(v) for v in o.values()))
def test_optimizers_equal_pytorchs_bit_for_bit_also_over_resumed_runs(tmp_path, optimizer):
    """Three runs of one step, each resumed: PyTorch's optimizer gets the gradients that Penstock
    had."""
    plan = write_plan(tmp_path, model_path("pippy"), vectors(tmp_path, "x", 512, torch.float32),
                      ["", "layer2"], 2, 4, optimizer=optimizer, steps=10)
    reference = Reference(plan)
    stepper = reference.optimizer()
    for step in range(3):
        resume = ["--resume", tmp_path / "saved"] if step else []
        execute_json(plan, "--steps", step + 1, "--dump-gradients", tmp_path / "g.safetensors",
                     "--save", tmp_path / "saved", *resume)
        gradients = load_file(tmp_path / "g.safetensors")
        for name, parameter in reference.parameters.items():
            parameter.grad = gradients[name]
        stepper.step()
        folder = tmp_path / "saved" / f"step-{step + 1}"
        saved = {k: v for i in range(2)
                 for k, v in load_file(folder / f"stage-{i}.safetensors").items()}
        for name, parameter in reference.parameters.items():
            assert torch.equal(saved[f"parameter.{name}"], parameter), (step, name)


@any_device
def test_a_run_resumed_under_another_split_goes_on_as_if_never_stopped(tmp_path):
    arguments = [model_path("pippy-f64"), vectors(tmp_path, "x", 32, torch.float64)]
    more = {"optimizer": {"kind": "adamw", "learning_rate": 0.01}, "steps": 5}
    two = write_plan(tmp_path, *arguments, ["", "layer1"], 2, 4, name="two.yaml", **more)
    three = write_plan(tmp_path, *arguments, ["", "layer1", "output_proj"], 2, 4, name="three.yaml",
                       **more)
    whole = execute_json(two)["losses"]
    first = execute_json(two, "--steps", 2, "--save", tmp_path / "c")["losses"]
    rest = execute_json(three, "--resume", tmp_path / "c")["losses"]
    assert first + rest == pytest.approx(whole, rel=FLOAT64)
    assert len(rest) == 3
    assert not [p for p in (tmp_path / "c").iterdir() if p.name.startswith(".")]


@any_device
def test_replicas_equal_one_pipeline(tmp_path):
    data = vectors(tmp_path, "x", 32, torch.float64)
    plan = write_plan(tmp_path, model_path("pippy-f64"), data, ["", "layer1"], 2, 4,
                      data_parallel=2)
    run = check_against_pytorch(plan, tmp_path, FLOAT64)
    assert run["ranks"] == 4


def test_memory_and_sockets_carry_the_same_bits(tmp_path):
    """Two replicas: of two numbers the sum is the same in any order."""
    plan = write_plan(tmp_path, model_path("transformer-f32"), text_file(tmp_path),
                      ["", "layers.2"], 4, 2, "1f1b", sequence=16, data_parallel=2)
    said = {}
    for transport in ["auto", "gloo"]:
        gradients = tmp_path / f"{transport}.safetensors"
        run = execute_json(plan, "--steps", 3, "--transport", transport,
                           "--dump-gradients", gradients)
        said[transport] = run["losses"], gradients.read_bytes()
    assert said["auto"] == said["gloo"]


def test_a_trace_holds_every_action_of_every_rank(tmp_path):
    plan = write_plan(tmp_path, model_path("pippy"), vectors(tmp_path, "x", 512, torch.float32),
                      ["", "layer1", "layer2"], 4, 4)
    execute_json(plan, "--steps", 5, "--trace", tmp_path / "trace.json")
    text = (tmp_path / "trace.json").read_text()
    assert json.loads(text)["penstock"]["measured"] is True
    for action in ["0F3", "1B2", "2F0", "1SEND_F1", "2RECV_F3", "1SEND_B0", "0OPT"]:
        assert f'"{action}"' in text, action


@any_device
def test_dropout_gives_the_same_losses_on_one_two_and_four_ranks(tmp_path):
    losses = []
    for begins in [[""], ["", "layers.1"], ["", "layers.0.multihead_attn", "layers.1", "norm"]]:
        plan = write_plan(tmp_path, model_path("transformer-dropout"), text_file(tmp_path), begins,
                          2, 4, sequence=16, name=f"{len(begins)}.yaml")
        losses.append(execute_json(plan)["losses"])
    assert losses[1] == pytest.approx(losses[0], rel=FLOAT32)
    assert losses[2] == pytest.approx(losses[0], rel=FLOAT32)


@any_device
def test_a_step_without_waiting_takes_as_long_as_its_compute_says(tmp_path):
    model = model_path("pippy")
    profile = synthetic_profile(tmp_path, model, 16, 4)
    plan = write_plan(tmp_path, model, vectors(tmp_path, "x", 512, torch.float32), [""], 2, 4,
                      profile={"path": str(profile)})
    run = execute_json(plan, "--steps", 5)
    pace = run["compute_s"][0] / run["predicted_compute_s"][0]
    assert 0 < run["compute_s"][0] <= run["measured_step_s"]
    assert run["predicted_at_pace_step_s"] == pytest.approx(pace * run["predicted_step_s"])


def test_a_prediction_is_of_every_replica_and_also_at_the_pace_of_the_run(tmp_path):
    model = model_path("pippy")
    profile = synthetic_profile(tmp_path, model, 16, 4)
    plan = write_plan(tmp_path, model, vectors(tmp_path, "x", 512, torch.float32), [""], 2, 4,
                      data_parallel=2, profile={"path": str(profile)})
    text = execute(plan, "--steps", 2).stdout
    assert "(the last step, warming up; 5 and more give a median)" in text
    assert re.search(r"^ +predicted [0-9.]+ .?s \(", text, re.MULTILINE)
    assert re.search(r"^ +at the pace of this run, which computed [0-9.]+ % (slower|faster), "
                     r"[0-9.]+ .?s \(", text, re.MULTILINE)
    assert [line.count("predicted") for line in text.splitlines()
            if line.startswith("rank ")] == [1, 1]
    run = execute_json(plan, "--steps", 2)
    assert len(run["compute_s"]) == 2 and len(run["predicted_compute_s"]) == 1
    assert run["predicted_at_pace_step_s"] > 0
    assert "median after 3 steps" in execute(plan, "--steps", 5).stdout
    outputs = execute(plan, "--steps", 1, "--forward-only", "--output", tmp_path / "o.safetensors")
    assert "peak memory measured" in outputs.stdout
    assert "MiB, predicted" in outputs.stdout and "samples/s" in outputs.stdout
