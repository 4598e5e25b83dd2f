"""penstock.Pipeline where one process feeds all ranks: it trains as `execute` does."""

import itertools
import math
import os
import subprocess
import sys
import time

import pytest

from feeding import batches, feed, penstock, pipeline
from exporting import export
from pipelines import (BUILD, Reference, difference, execute, execute_json, good_plan, load_file,
                       model_path, needs_backend, save_file, torch, vectors, write_plan)

pytestmark = needs_backend


def test_losses_are_those_of_execute_bit_by_bit(tmp_path):
    plan = good_plan(tmp_path, steps=5)
    with pipeline(plan) as pipe:
        assert (pipe.rank, pipe.ranks, pipe.replica, pipe.replicas) == (0, 2, 0, 1)
        assert pipe.inputs == ("x", "target") and pipe.batch_size == 8
        assert feed(pipe, plan, 5) == execute_json(plan)["losses"]
        assert pipe.steps_done == 5 and pipe.step_seconds > 0


def test_two_replicas_and_ignored_targets(tmp_path):
    data = vectors(tmp_path, "x", 512, torch.float32)
    tensors = load_file(data)
    tensors["target"][::3] = -100
    save_file(tensors, data)
    plan = write_plan(tmp_path, model_path("pippy"), data, ["", "layer1"], 2, 4, data_parallel=2)
    with pipeline(plan) as pipe:
        assert feed(pipe, plan, 3) == execute_json(plan)["losses"]
        assert (pipe.ranks, pipe.batch_size) == (4, 16)


def test_tensor_groups_give_losses_outputs_and_weights_as_whole_ranks_do(tmp_path):
    data = model_path("resnet-f64").with_name("resnet-f64.data.safetensors")
    parts = write_plan(tmp_path, model_path("resnet-f64"), data, ["", "groups.1"], 2, 2,
                       data_parallel=2, tensor_parallel=2)
    whole = write_plan(tmp_path, model_path("resnet-f64"), data, [""], 2, 2, data_parallel=2,
                       name="whole.yaml")
    found = []
    for plan in (parts, whole):
        with pipeline(plan) as pipe:
            inputs, target = next(batches(plan))
            losses = feed(pipe, plan, 2)
            saved = pipe.save(plan.with_suffix(".saved"))
            losses += feed(pipe, plan, 1)
            state, loss = pipe.state_dict(), pipe.evaluate(**inputs, target=target)
            outputs = pipe.forward(**inputs)
            pipe.load(saved)
            assert feed(pipe, plan, 1) == losses[2:]
            found.append((losses + [loss], {**outputs, **state}, pipe.ranks))
    assert [ranks for *_, ranks in found] == [8, 2]
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-10)
    assert found[0][0][:3] == execute_json(parts)["losses"]
    assert found[0][1].keys() == found[1][1].keys()
    for name, tensor in found[1][1].items():
        torch.testing.assert_close(found[0][1][name], tensor, rtol=1e-10, atol=1e-10, msg=name)


def test_in_float64_it_trains_as_pytorch_does(tmp_path):
    plan = write_plan(tmp_path, model_path("pippy-f64"),
                      vectors(tmp_path, "x", 32, torch.float64), ["", "layer1", "layer2"], 4, 2)
    reference = Reference(plan)
    losses, _ = reference.train(3)
    with pipeline(plan) as pipe:
        assert feed(pipe, plan, 3) == pytest.approx(losses, rel=1e-10)
        trained = pipe.state_dict()
    wanted = {name: value.detach() for name, value in reference.module.state_dict().items()}
    assert difference(trained, wanted) <= 1e-10


def test_a_scripts_learning_rate_replaces_the_jobs_and_its_groups_keep_their_ratio(tmp_path):
    def with_rates(rate, bias, name):
        groups = [{"parameters": ["*.bias"], "learning_rate": bias}]
        return good_plan(tmp_path, name=name, optimizer={
            "kind": "sgd", "learning_rate": rate, "groups": groups})

    slow, fast = with_rates(1 / 32, 1 / 64, "slow.yaml"), with_rates(1 / 16, 1 / 32, "fast.yaml")
    wanted = execute_json(fast)["losses"]
    assert wanted != execute_json(slow)["losses"]
    with pipeline(slow) as pipe:
        assert feed(pipe, slow, 3, learning_rate=1 / 16) == wanted


def test_a_schedule_of_torch_is_the_jobs_own(tmp_path):
    """get_linear_schedule_with_warmup, as a LambdaLR."""
    plan = good_plan(tmp_path, steps=4, optimizer={
        "kind": "sgd", "learning_rate": 0.5, "decay": "linear"})
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.5)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / 4)
    found = []
    with pipeline(plan) as pipe:
        for inputs, target in itertools.islice(batches(plan), 4):
            found.append(pipe.step(**inputs, target=target,
                                   learning_rate=schedule.get_last_lr()[0]))
            optimizer.step()
            schedule.step()
    assert found == execute_json(plan)["losses"]


def test_the_clipped_norm_is_told(tmp_path):
    plan = good_plan(tmp_path, optimizer={"kind": "sgd", "learning_rate": 0.05, "clip_norm": 0.5})
    with pipeline(plan) as pipe:
        feed(pipe, plan, 3)
        assert pipe.gradient_norm == execute_json(plan)["gradient_norms"][-1]


def test_evaluation_changes_no_later_bit(tmp_path):
    data = model_path("resnet").with_name("resnet.data.safetensors")
    plan = write_plan(tmp_path, model_path("resnet"), data, ["", "groups.1"], 4, 2)
    with pipeline(plan) as pipe:
        inputs, target = next(batches(plan))
        before = pipe.evaluate(**inputs, target=target)
        assert before == pipe.evaluate(**inputs, target=target)
        assert feed(pipe, plan, 3) == execute_json(plan)["losses"]
        assert pipe.evaluate(**inputs, target=target) != before


def test_forward_gives_the_outputs_of_execute(tmp_path):
    plan = good_plan(tmp_path)
    outputs = tmp_path / "outputs.safetensors"
    assert execute(plan, "--forward-only", "--output", outputs).returncode == 0
    with pipeline(plan) as pipe:
        inputs, target = next(batches(plan))
        found = pipe.forward(**inputs)
        feed(pipe, plan, 1)
    (name, expected), = load_file(outputs).items()
    assert list(found) == [name] and found[name].equal(expected)


def test_evaluation_is_of_the_outputs_of_forward(tmp_path):
    plan = good_plan(tmp_path)
    with pipeline(plan) as pipe:
        inputs, target = next(batches(plan))
        (logits,) = pipe.forward(**inputs).values()
        loss = torch.nn.functional.cross_entropy(logits, target)
        assert pipe.evaluate(**inputs, target=target) == pytest.approx(float(loss), rel=1e-5)
        assert math.isnan(pipe.evaluate(**inputs, target=torch.full_like(target, -100)))


def test_a_loss_that_is_not_finite_leaves_the_parameters_and_the_pipeline(tmp_path):
    plan = good_plan(tmp_path)
    with pipeline(plan) as pipe:
        inputs, target = next(batches(plan))
        before = pipe.state_dict()
        with pytest.raises(penstock.LossNotFinite, match="the loss of step 1 is nan"):
            pipe.step(inputs["x"] * math.nan, target=target)
        assert pipe.steps_done == 0
        after = pipe.state_dict()
        assert all(after[name].equal(tensor) for name, tensor in before.items())
        assert feed(pipe, plan, 3) == execute_json(plan)["losses"]


def test_a_loss_that_is_not_finite_leaves_running_statistics(tmp_path):
    torch.manual_seed(0)
    nn = torch.nn
    model = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU(),
                          nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Linear(16, 10))
    file = penstock.export(model, (torch.randn(4, 16),), tmp_path / "model.pt2")
    data = vectors(tmp_path, "input", 16, torch.float32)
    plan = write_plan(tmp_path, file, data, ["", "3"], 2, 4)
    with pipeline(plan) as pipe:
        undisturbed = feed(pipe, plan, 3)
        final = pipe.state_dict()
    with pipeline(plan) as pipe:
        losses = feed(pipe, plan, 1)
        before = pipe.state_dict()
        inputs, target = next(batches(plan))
        with pytest.raises(penstock.LossNotFinite):
            pipe.step(inputs["input"] * math.nan, target=target)
        assert all(pipe.state_dict()[name].equal(tensor) for name, tensor in before.items())
        assert losses + feed(pipe, plan, 2) == undisturbed
        assert all(pipe.state_dict()[name].equal(tensor) for name, tensor in final.items())
        assert any(name.endswith("running_mean") for name in final)


def test_a_slow_script_is_named_once(tmp_path, capfd):
    plan = good_plan(tmp_path)
    said, slow = "", f"warning: process {os.getpid()} ("
    with pipeline(plan, patience=1) as pipe:
        deadline = time.monotonic() + 60
        while slow not in said and time.monotonic() < deadline:
            time.sleep(0.1)
            said += capfd.readouterr().err
        assert "has asked for nothing for 1 s after step 0: the ranks wait for it" in said
        losses = feed(pipe, plan, 1)
        time.sleep(1.5)  # as slow once more
        assert losses + feed(pipe, plan, 2) == execute_json(plan)["losses"]
    said += capfd.readouterr().err
    assert said.count(slow) == 1


def test_a_state_dict_has_the_modules_names_tied_ones_and_statistics_too(tmp_path):
    for name, begin in ("gpt2", "transformer.h.1"), ("resnet", "groups.1"):
        data = model_path(name).with_name(f"{name}.data.safetensors")
        plan = write_plan(tmp_path, model_path(name), data, ["", begin], 4, 2)
        with pipeline(plan, save=tmp_path / name) as pipe:
            feed(pipe, plan, 2)
            found = pipe.state_dict()
        weights = tmp_path / "weights.safetensors"
        done = export(plan, "state-dict", weights, "--checkpoint", tmp_path / name)
        assert done.returncode == 0, done.stderr
        expected = load_file(weights)
        assert found.keys() == expected.keys()
        assert all(found[key].equal(tensor) for key, tensor in expected.items())


def test_the_module_is_light():
    code = "import sys, penstock; assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(penstock.__file__))}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_the_programs_are_those_of_the_build():
    from penstock.programs import program
    assert program() == BUILD / "penstock"
